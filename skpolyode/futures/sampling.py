"""Estimators with an error model of their forecasts: quantiles, samples and crossings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.errors import check_share, check_shares, plain_repr
from skpolyode.futures.continued import (
    Ahead,
    Continued,
    KnownErrors,
    LastCells,
    draw_courses,
    known_errors,
    read_until,
)
from skpolyode.futures.samples import SamplePaths
from skpolyode.panel import Panel, offsets_from, query_times
from skpolyode.panel.query import edge
from skpolyode.panel.select import observed_part, observed_series


class SamplesFutures:
    """Mixin of estimators: quantiles and samples of futures, and times of crossings."""

    def _forecasting(self) -> Any:
        """The embedder, with `units`, `filters` and `calibration` as in a `ModelEmbedder`."""
        raise NotImplementedError

    def _outlook(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> Ahead:
        """Forecasts at times (Q,) after the last rows; each row holds an observation."""
        raise NotImplementedError

    def _continued_panel(self, X: Any, inputs: Any) -> Panel:
        """The series that are continued, with the channels of fit."""
        raise NotImplementedError

    def forecast_quantiles(
        self,
        X: Any,
        times: Any,
        alpha: Sequence[float],
        relative_to: str | None = None,
        *,
        inputs: Any = None,
    ) -> dict[float, Panel]:
        """Quantiles of forecasts, calibrated by a backtest on series that did not train the model.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,) or list of such
            Times, as in `forecast`.
        alpha : sequence of float
            Probabilities between 0 and 1.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from, as in `forecast`.
        inputs : Inputs, Panel, list of (times, values) or None, default=None
            Inputs, as in `forecast`.

        Returns
        -------
        dict of float to Panel
            For each probability, the quantile of all channels at these times. The median is
            `forecast`; the other quantiles lie symmetrically around it.

        Raises
        ------
        ValueError
            As in `forecast`, or if a probability does not lie between 0 and 1.
        """
        check_shares("alpha", alpha)
        panel = self._continued_panel(X, inputs)
        flat, offsets = query_times(panel, times, relative_to)
        found = self._quantiles(panel, flat, offsets, alpha)
        return {a: panel.like(flat, x, offsets) for a, x in zip(alpha, found, strict=True)}

    def forecast_interval(
        self,
        X: Any,
        times: Any,
        coverage: float = 0.9,
        relative_to: str | None = None,
        *,
        inputs: Any = None,
    ) -> tuple[Panel, Panel]:
        """Intervals around forecasts, calibrated like quantiles, wider for volatile series.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,) or list of such
            Times, as in `forecast`.
        coverage : float, default=0.9
            Probability of the interval, between 0 and 1.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from, as in `forecast`.
        inputs : Inputs, Panel, list of (times, values) or None, default=None
            Inputs, as in `forecast`.

        Returns
        -------
        tuple of two Panels
            The lower and the upper ends of all channels at these times.

        Raises
        ------
        ValueError
            As in `forecast_quantiles`.

        Examples
        --------
        >>> from skpolyode import PolyODETransformer
        >>> from skpolyode.datasets import make_ode_system
        >>> panel = make_ode_system("damped_pendulum", 12, random_state=0).panel
        >>> model = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0).fit(panel)
        >>> lower, upper = model.forecast_interval(panel, [0.5, 2.0], 0.9, "end")
        >>> bool((lower.values < upper.values).all())
        True
        """
        check_share("coverage", coverage)
        ends = [(1 - coverage) / 2, (1 + coverage) / 2]
        found = self.forecast_quantiles(X, times, ends, relative_to, inputs=inputs)
        return found[ends[0]], found[ends[1]]

    def sample_paths(
        self,
        X: Any,
        times: Any,
        relative_to: str | None = None,
        *,
        n_samples: int = 200,
        random_state: Any = None,
        inputs: Any = None,
    ) -> SamplePaths:
        """Sample futures of series: whole paths, joint in time and across channels.

        A sample is the forecast plus a whole path of errors, taken from a backtest on series that
        did not train the model. At each time, the share of samples inside an interval is its
        probability. The same error paths are drawn for each series, so that results do not depend
        on the other series in `X`.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,) or list of such
            Times from the last observation on, as in `forecast`.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from, as in `forecast`.
        n_samples : int, default=200
            Number of samples. At most 500 different error paths are known.
        random_state : int, RandomState, Generator or None, default=None
            Draws the error paths.
        inputs : Inputs, Panel, list of (times, values) or None, default=None
            Inputs, as in `forecast`.

        Returns
        -------
        SamplePaths
            Its `values` have the shape (n_series, n_samples, n_times, n_channels).

        Raises
        ------
        ValueError
            If a time is before the last observation of its series, or a series has none.
        """
        series = self._futures(partial(self._continued_panel, X, inputs), n_samples, random_state)
        return series.paths(*query_times(series.panel, times, relative_to))

    def crossing_times(
        self,
        X: Any,
        threshold: float,
        until: Any,
        relative_to: str | None = None,
        *,
        channel: str | int | None = None,
        direction: str = "above",
        coverage: float = 0.9,
        n_samples: int = 500,
        random_state: Any = 0,
        inputs: Any = None,
    ) -> pd.DataFrame:
        """When series will first reach a line, and how probable that is.

        Samples are followed from the last observation on, on a grid finer than the gaps of the
        series of `fit`, and are linear between its points. The grid is the same for all series and
        for each `until`: the probability cannot fall if `until` is later.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        threshold : float
            The line, in the units of the channel.
        until : scalar or array-like of shape (n_series,)
            How far to look: a time after the last observation, for all series or for each. In the
            units and of the type of the series' times.
        relative_to : {"start", "end"} or None, default=None
            What `until` counts from: the first or the last observation of each series. None:
            absolute times.
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
        inputs : Inputs, Panel, list of (times, values) or None, default=None
            Inputs, as in `forecast`.

        Returns
        -------
        DataFrame
            One row for each series in the order of `X`, with its id as the index, and no NaN:

            - ``status``: "already" if the last observation, without noise, is at or beyond the
              line; "crosses" if a crossing up to `until` is more likely than not; "censored"
              otherwise.
            - ``probability`` of a crossing up to `until`; 1 if it has crossed already.
            - ``standard_error`` of the probability, from the number of backtest errors that do not
              overlap in time; 0 if it has crossed already. It is large after a fit to one series.
              It leaves out errors of the model: true probabilities are within two standard
              errors for 80 % of the series, not for 95 %.
            - ``earliest``, ``median`` and ``latest`` time, of the type of the series' times. Times
              after `until` are set to `until`. If it has crossed already, the last observation.

            Sort by "earliest" to see what is due first.

        Raises
        ------
        ValueError
            If `until` is not after the last observation of a series, a series has none, the line is
            far from all values of the channel, the channel or the direction is not valid, or the
            errors of forecasts are not known.
        """
        series = self._futures(partial(self._continued_panel, X, inputs), n_samples, random_state)
        panel = series.panel
        last = read_until(panel, until, edge(relative_to, panel.start, panel.end))
        return series.crossings(threshold, last, channel, direction, coverage)

    def _quantiles(
        self, panel: Panel, times: np.ndarray, offsets: np.ndarray, alpha: Sequence[float]
    ) -> list[np.ndarray]:
        """Quantiles (Q, D) for each probability; NaN for series without any observation."""
        known, counts = observed_series(panel), np.diff(offsets)
        found = np.full((len(alpha), len(times), panel.n_channels), np.nan)
        if known.any():
            errors, drawn = known_errors(self._forecasting().calibration), np.empty(0, np.int64)
            series = self._continuing(observed_part(panel[known]), errors, drawn)
            asked = np.repeat(known, counts)
            found[:, asked] = series.quantiles(times[asked], offsets_from(counts[known]), alpha)
        return list(found)

    def _futures(self, read: Callable[[], Panel], n_samples: int, random_state: Any) -> Continued:
        """The series that `read` returns, to be continued with drawn error paths."""
        known = draw_courses(self._forecasting().calibration, n_samples, random_state)
        return self._continuing(self._observed(read()), *known)

    def _continuing(self, panel: Panel, calibration: KnownErrors, drawn: np.ndarray) -> Continued:
        model = self._forecasting()
        last = LastCells.of(panel, model.units, model.filters)
        known = last, model.units, calibration, drawn
        return Continued(panel, *known, lambda part, *asked: self._outlook(panel[part], *asked))

    def _observed(self, panel: Panel) -> Panel:
        """The series, without empty rows; a ValueError for one without any observation."""
        known = observed_series(panel)
        if not known.all():
            first, n_empty = plain_repr(panel.ids[np.argmin(known)]), int((~known).sum())
            raise ValueError(
                f"series {first} has no observation ({n_empty} such series), and so no future to "
                "sample: leave them out."
            )
        return observed_part(panel)
