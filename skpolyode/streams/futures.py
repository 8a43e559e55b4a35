"""Sampled futures of the series of a stream."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.base import Known
from skpolyode.futures.continued import Ahead, Continued, LastCells, draw_courses, read_until
from skpolyode.futures.samples import SamplePaths
from skpolyode.models.contract import State
from skpolyode.panel import Panel, series_index
from skpolyode.panel.select import at_times
from skpolyode.streams.clock import Update
from skpolyode.streams.stream import SeriesStream

SPREAD = "spread"  # statistics (n, D, K) that errors of forecasts depend on
NOW = "now"  # values (n, D) of the last row, NaN where not observed
NOISY = "noisy"  # bool (n, D): whether these may differ from the signal
FLOOR, CEILING = "floor", "ceiling"  # limits (n, D) of samples, in the user's units
PARTS = (SPREAD, NOW, NOISY, FLOOR, CEILING)


class SamplesFutures(SeriesStream):
    """Base of streams that sample futures as the transformer does for all observations so far."""

    _embedder: ModelEmbedder

    def sample_paths(
        self,
        times: Any,
        series: Any = None,
        relative_to: str | None = None,
        *,
        n_samples: int = 200,
        random_state: Any = None,
    ) -> SamplePaths:
        """Sample futures of the series: whole paths, joint in time and across channels.

        Parameters
        ----------
        times : array-like of shape (Q,) or list of such
            Times from the last observation on, as in `forecast`.
        series : int, str, array-like of such or None, default=None
            Series, by position or by id; None means all.
        relative_to : {"start", "end"} or None, default=None
            As in `forecast`.
        n_samples : int, default=200
            Number of samples. At most 500 different error paths are known.
        random_state : int, RandomState, Generator or None, default=None
            Draws the error paths.

        Returns
        -------
        SamplePaths
            As from the transformer's `sample_paths` for all rows so far.

        Raises
        ------
        ValueError
            If a time is before the last observation of its series, or a series has not been
            observed.
        """
        chosen, futures = self._futures(series, n_samples, random_state)
        return futures.paths(*self._asked(chosen, times, relative_to)[1:])

    def crossing_times(
        self,
        threshold: float,
        until: Any,
        series: Any = None,
        relative_to: str | None = None,
        *,
        channel: str | int | None = None,
        direction: str = "above",
        coverage: float = 0.9,
        n_samples: int = 500,
        random_state: Any = 0,
    ) -> pd.DataFrame:
        """When the series will first reach a line, and how probable that is.

        Parameters
        ----------
        threshold : float
            The line, in the units of the channel.
        until : scalar or array-like of shape (n_series,)
            How far to look: a time after the last observation, for all of the series or for each.
        series : int, str, array-like of such or None, default=None
            Series, by position or by id; None means all.
        relative_to : {"start", "end"} or None, default=None
            What `until` counts from, as in `forecast`.
        channel : str, int or None, default=None
            Which channel, by name or position. None: the only one.
        direction : {"above", "below"}, default="above"
            The side of the line that counts as crossed.
        coverage : float, default=0.9
            Probability of the window from the earliest to the latest time.
        n_samples : int, default=500
            Number of samples.
        random_state : int, RandomState, Generator or None, default=0
            Draws the error paths.

        Returns
        -------
        DataFrame
            As from the transformer's `crossing_times` for all rows so far.

        Raises
        ------
        ValueError
            If `until` is not after the last observation of a series, a series has not been
            observed, the line is far from all values of the channel, or the channel or the
            direction is not valid.
        """
        chosen, futures = self._futures(series, n_samples, random_state)
        query = partial(self._asked, chosen, relative_to=relative_to)
        last = read_until(futures.panel, until, lambda asked: query(asked)[1:])
        return futures.crossings(threshold, last, channel, direction, coverage)

    def _futures(
        self, series: Any, n_samples: int, random_state: Any
    ) -> tuple[np.ndarray, Continued]:
        """Positions (n,) of the selected series, and these, continued with drawn error paths."""
        known = draw_courses(self._embedder.calibration, n_samples, random_state)
        chosen = self._started(series)
        ends = self._clock.last[chosen], np.arange(len(chosen) + 1)
        panel, units = at_times(self._panel[chosen], *ends), self._embedder.units
        last = LastCells(*(self._parts[name].cpu().numpy()[chosen] for name in PARTS[1:]))
        return chosen, Continued(
            panel, last, units, *known, lambda part, *asked: self._outlook(chosen[part], *asked)
        )

    def _outlook(self, chosen: np.ndarray, times: np.ndarray, offsets: np.ndarray) -> Ahead:
        """Combined forecasts of series at times (Q,), and predictors of their errors."""
        model, clock, series = self._embedder, self._clock.take(chosen), series_index(offsets)
        unit, since = model.units.time_scale, times - clock.last[series]
        values = model.units.scaler.transform(self._forecast_values(chosen, times, offsets))
        elapsed = (times - clock.start[series]) / unit
        expected = model.stacking.expected_errors(self._known(chosen[series]), elapsed)
        age = np.where(np.isnan(clock.seen_at), np.inf, clock.elapsed[:, None] - clock.seen_at)
        spread = self._parts[SPREAD].cpu().numpy()[chosen[series]]
        signs = model.calibration.signs(spread, expected)
        leads = since[:, None] + unit * age[series]
        return Ahead(values, leads, signs, np.ones(values.shape))

    def _spread_after(self, parts: State, update: Update, values: np.ndarray) -> State:
        """Parts after one more row; `values` (n, D) are those that the combiner sees."""
        noisy = np.full(values.shape, self._embedder.filters)
        if update.errors is not None:
            noisy |= update.errors > 0
        spread, _, _, floor, ceiling = (parts[name].cpu().numpy() for name in PARTS)
        scaler, x = self._embedder.units.scaler, update.values
        last = LastCells(
            x,
            noisy,
            np.where(x < scaler.transform(floor), -np.inf, floor),
            np.where(x > scaler.transform(ceiling), np.inf, ceiling),
        )
        return self._last_cells(self._embedder.calibration.updated(spread, values), last)

    def _spread_of(self, panel: Panel) -> State:
        """Parts after all rows of a panel, each of which holds an observation."""
        model, last = self._embedder, panel.offsets[1:] - 1
        spread = model.calibration.known_at(model.standardised(panel).values, panel.offsets, last)
        return self._last_cells(spread, LastCells.of(panel, model.units, model.filters))

    def _blank_spread(self) -> State:
        """Parts before the first rows."""
        nothing = np.full((self.n_series, self._panel.n_channels), np.nan)
        rows = np.arange(self.n_series + 1)
        start = self._embedder.calibration.known_at(nothing, rows, rows[:-1])
        limits, exact = self._embedder.units.scaler.limits, np.zeros(nothing.shape, dtype=bool)
        ends = (np.broadcast_to(x, nothing.shape) for x in (limits.floor, limits.ceiling))
        return self._last_cells(start, LastCells(nothing, exact, *ends))

    def _last_cells(self, spread: np.ndarray, last: LastCells) -> State:
        parts, device = zip(PARTS, (spread, *last), strict=True), self._embedder.device
        return {name: torch.from_numpy(part.copy()).to(device) for name, part in parts}

    @abstractmethod
    def _forecast_values(
        self, chosen: np.ndarray, times: np.ndarray, offsets: np.ndarray, combine: bool = True
    ) -> np.ndarray:
        """Forecasts (Q, D) of the `chosen` series at times (Q,) after their last observations."""

    @abstractmethod
    def _known(self, chosen: np.ndarray) -> Known:
        """State of the combiner for the `chosen` series."""
