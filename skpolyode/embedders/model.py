"""A trained model, and what it takes to read series with it."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch

from skpolyode.embedders.ahead import continue_series
from skpolyode.embedders.base import Embedder
from skpolyode.embedders.batching import map_chunks
from skpolyode.embedders.memory_readout import MemoryReadout
from skpolyode.embedders.smoother import PathQuery, ask, bridges, extrapolated, follow, shares
from skpolyode.embedders.static import StaticEncoder
from skpolyode.embedders.variance import std_coefficients
from skpolyode.embedders.windows import agree, states_in_parts
from skpolyode.ensemble.naive import records_at
from skpolyode.ensemble.stacking import StackedForecast
from skpolyode.models import Packed, SequenceModel, pack
from skpolyode.models.contract import State, join, select
from skpolyode.models.variance_head import VarianceHead
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.select import (
    context_starts,
    observed_part,
    observed_rows,
    recent_part,
    series_of_rows,
    take,
)
from skpolyode.saving.codec import saved
from skpolyode.training import forecasting_mse
from skpolyode.units import Standardised, Units

__all__ = ["ModelEmbedder"]


_DERIVED = ("exact", "follower")
_CHUNK_ROWS = 32_000  # embedded together by one thread


@saved
@dataclass(frozen=True, eq=False)
class ModelEmbedder(Embedder):
    """Embeds and forecasts by a sequence model.

    Parameters
    ----------
    model : SequenceModel
        As it was trained, in float32.
    units : Units
        Those that the model computes in.
    blocks : tuple of str, default=()
        Names of the model's features that make an embedding, in this order; all if there are none.
        "std" as the last: the memory of how far off the path may be, which needs a scale.
    past : MemoryReadout or None, default=None
        How the model's "coefficients" are read back, if it has such features.
    recent : MemoryReadout or None, default=None
        The memory that the dynamics go on from, of a model that forgets; None if a state depends
        on all observations.
    static : StaticEncoder or None, default=None
        What static covariates the model reads.
    scale : VarianceHead or None, default=None
        How far off forecasts may be, of a model that was asked to learn it.
    stacking : StackedForecast or None, default=None
        How far forecasts lean on simple rivals; None if they are the free run of the model.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import Panel, PolyODETransformer
    >>> times = np.linspace(0, 4, 9)
    >>> panel = Panel.from_series([(times, np.sin(times + k)) for k in range(5)])
    >>> transformer = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0)
    >>> embedder = transformer.fit(panel).embedder_
    >>> {name: tuple(part.shape) for name, part in embedder.states(panel).items()}
    {'z': (5, 1, 5), 'c': (5, 1, 4), 'history': (5, 1, 4)}
    >>> embedder.forecast_values(panel, np.full(5, 4.5), np.arange(6)).shape
    (5, 1)
    """

    model: SequenceModel
    units: Units
    blocks: tuple[str, ...] = ()
    past: MemoryReadout | None = None
    recent: MemoryReadout | None = None
    static: StaticEncoder | None = None
    scale: VarianceHead | None = None
    stacking: StackedForecast | None = None

    @cached_property
    def exact(self) -> SequenceModel:
        """The model in float64, for everything but training."""
        return copy.deepcopy(self.model).double().eval()

    @cached_property
    def follower(self) -> SequenceModel:
        """The same without a memory of the whole history, which paths and forecasts do not need."""
        if getattr(self.exact, "history", None) is None:
            return self.exact
        model = copy.copy(self.exact)  # its weights are the same
        model.history = None
        return model

    @property
    def filters(self) -> bool:
        """Whether the model takes observations for noisy."""
        return self.model.filters

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return next(self.model.parameters()).device

    def to(self, device: str) -> Self:
        """The same on another device; the model itself is moved."""
        for name in _DERIVED:
            self.__dict__.pop(name, None)
        self.model.to(device)
        if self.scale is not None:
            self.scale.to(device)
        return self

    def with_own_model(self) -> Self:
        """The same with a copy of the model, which may be trained."""
        return replace(self, model=copy.deepcopy(self.model))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what follows from the rest."""
        return {name: value for name, value in self.__dict__.items() if name not in _DERIVED}

    def pack(self, panel: Panel, dtype: torch.dtype = torch.float64) -> Packed:
        """Series of a panel as models read them."""
        rows = observed_rows(panel)
        values = self.units.scaler.read(rows.values)
        static = None if self.static is None else self.static.transform(panel)
        packed = pack(rows.times / self.units.time_scale, values, rows.offsets, static=static)
        return packed.to(self.device, dtype)

    def states(self, panel: Panel) -> State:
        """State of the model at the last observation of each series."""
        assert self.exact is not None  # made once, before there are threads
        return join(map_chunks(self._states, panel, n_rows=_CHUNK_ROWS))

    def _states(self, panel: Panel) -> State:
        """States of a few series, with the memory of their whole history if there is one."""
        if self.exact is self.follower:
            return self._recent_states(panel)
        panel = observed_part(panel)
        reach = math.inf if self.recent is None else self.recent.context
        with torch.no_grad():
            while self.past.forgets and reach < panel.times.max() - panel.times.min():
                states = states_in_parts(self.exact, self.pack, panel, self.past, reach)
                if states is not None:
                    return states
                reach *= 4
            return self.exact.embed(self.pack(panel))

    def _recent_states(self, panel: Panel) -> State:
        """States of a few series, as the dynamics go on from them.

        Of long series only the recent part is run through, if one of twice the time and twice the
        rows makes no difference: the memory forgets, and the dynamics are set anew at each
        observation, but badly trained ones, and those that cross a long gap, may carry on more.
        """
        panel, states = observed_part(panel), None
        # A channel that training never saw is never set anew: its state comes from the start.
        forgets = self.recent is not None and self.units.scaler.observed is None
        reach = self.recent.context if forgets else math.inf
        n_rows = np.zeros(panel.n_series, dtype=np.int64)
        while True:
            part = recent_part(panel, reach, n_rows)
            before = states
            with torch.no_grad():
                states = self.follower.embed(self.pack(part))
            if part is panel or (before is not None and agree(before, states)):
                return states
            reach, n_rows = 2 * reach, 2 * part.lengths

    def states_at(self, panel: Panel, rows: np.ndarray) -> State:
        """States of the model after some rows, from one run over their series.

        Parameters
        ----------
        panel : Panel
            Without rows that hold no observation.
        rows : int64 ndarray of shape (n,)
            Increasing; they count over all series of the panel.
        """
        data = self.pack(panel)
        place = data.series.argsort(stable=True)[torch.from_numpy(rows)]  # packed rows of these
        wanted = torch.full((len(data),), -1, device=self.device)
        wanted[place] = torch.arange(len(rows), device=self.device)
        found, states = [], []
        with torch.no_grad():
            for step in self.exact.run(data):
                kept = wanted[step.rows] >= 0
                if kept.any():
                    found.append(wanted[step.rows][kept])
                    states.append(select(step.state, kept))
        return select(join(states), torch.cat(found).argsort())

    def coefficients(self, panel: Panel) -> np.ndarray:
        """Coefficients (B, D, N) of standardised channels, at each series' last observation."""
        return self.coefficients_of(self.states(panel))

    def coefficients_of(self, states: State) -> np.ndarray:
        """Coefficients (B, D, N) in states of the model."""
        return self._blocks(states)["coefficients"].cpu().numpy()

    def features(self, panel: Panel) -> np.ndarray:
        """Features (B, F) of each series."""
        features, rows = self.features_of(self.states(panel)), observed_rows(panel)
        if "std" in self.blocks:
            own = std_coefficients(self, panel).reshape(len(features), -1)
            features = np.column_stack([features, own])
        if self.past is None:
            return features
        return self.past.with_duration(features, rows.start, rows.end)

    def features_of(self, states: State) -> np.ndarray:
        """Features (B, F) in states of the model: not the duration, nor what is of the path."""
        with torch.no_grad():
            blocks = self._blocks(states)
        chosen = [blocks[name].flatten(1) for name in self.blocks or blocks if name in blocks]
        return torch.cat(chosen, dim=1).cpu().numpy()

    def _blocks(self, states: State) -> dict[str, torch.Tensor]:
        """Features in states; those of channels that training never saw are zero, their mean."""
        blocks, observed = self.exact.features(states), self.units.scaler.observed
        if observed is None:
            return blocks
        known = torch.from_numpy(observed).to(self.device)[:, None]  # (D, 1)
        return {
            name: part * known if part.ndim == 3 else part  # (n, D, size), (n, size)
            for name, part in blocks.items()
        }

    def forecast_values(
        self, panel: Panel, times: np.ndarray, offsets: np.ndarray, combine: bool = True
    ) -> np.ndarray:
        """Values (Q, D) at times (Q,) after the series end, by offsets; stacked if `combine`."""
        rows = observed_rows(panel)
        records = self.records(panel) if combine and self.stacking is not None else None

        def run_ahead(part: slice, ahead: np.ndarray) -> np.ndarray:
            durations, states = (rows.end - rows.start)[part], self._recent_states(panel[part])
            own = None if records is None else records[part]
            return self.run_ahead(states, durations, ahead, own)

        return continue_series(panel, times, offsets, rows.end, run_ahead)

    def run_ahead(
        self,
        states: State,
        durations: np.ndarray,
        ahead: np.ndarray,
        records: np.ndarray | None = None,
    ) -> np.ndarray:
        """Values (B, Q, D) at times `ahead` (B, Q) of the last observations, from states there.

        `durations` (B,) are those of the histories; all in the user's units. With the `records`
        (B, D, 12) of the series forecasts lean on simple rivals, without they are the free run.
        """
        run = self._run(states, durations, ahead)
        if records is not None and self.stacking is not None:
            elapsed = (durations[:, None] + ahead) / self.units.time_scale
            run = self._known(self.stacking.combine(run, records, elapsed))
        return self.units.scaler.inverse(run)

    def _run(self, states: State, durations: np.ndarray, ahead: np.ndarray) -> np.ndarray:
        """Free run, in standard deviations; see `run_ahead`."""
        unit = self.units.time_scale
        since, elapsed = (torch.from_numpy(x / unit).to(self.device) for x in (ahead, durations))
        with torch.no_grad():
            mean = self.exact.look_ahead(states, since, elapsed).mean
        return self._known(mean.cpu().numpy())

    def forecast_from(
        self, panel: Panel, origins: np.ndarray, times: np.ndarray, counts: np.ndarray
    ) -> np.ndarray:
        """Forecasts (Q, D), in standard deviations, each from the rows up to an origin.

        Parameters
        ----------
        panel : Panel
            Without rows that hold no observation.
        origins : int64 ndarray of shape (O,)
            Increasing; they count over all rows of the panel.
        times : float64 ndarray of shape (Q,)
            As the panel counts them.
        counts : int64 ndarray of shape (O,)
            How many of them are forecast from each origin.
        """
        run = self.runs_from(panel, origins, times, counts)
        if self.stacking is None:
            return run
        records, elapsed = self.known_from(panel, origins, times, counts)
        return self._known(self.stacking.combine(run[:, None], records, elapsed[:, None])[:, 0])

    def known_from(
        self, panel: Panel, origins: np.ndarray, times: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Records (Q, D, 12) up to many moments, and their time (Q,) then; see `forecast_from`."""
        own, origin = self.standardised(panel), np.repeat(origins, counts)
        records = np.repeat(records_at(*own, panel.offsets, origins), counts, axis=0)
        return records, own.times[origin] + (times - panel.times[origin]) / self.units.time_scale

    def runs_from(
        self, panel: Panel, origins: np.ndarray, times: np.ndarray, counts: np.ndarray
    ) -> np.ndarray:
        """Free runs (Q, D) from many moments of series; see `forecast_from`."""
        series, end = series_of_rows(panel)[origins], panel.times[origins]
        start, pasts = panel.offsets[:-1][series], take(panel, series, origins, origins + 1)
        if self.recent is None:  # it forgets nothing, but needs no run through each past
            states = self.states_at(panel, origins)
        else:
            start = context_starts(panel, origins, self.recent.context)
            pasts = take(panel, series, start, origins + 1)

        def run_ahead(part: slice, ahead: np.ndarray) -> np.ndarray:
            known = self.recent is None
            own = select(states, part) if known else self._recent_states(pasts[part])
            return self._run(own, (end - panel.times[start])[part], ahead)

        return continue_series(pasts, times, offsets_from(counts), end, run_ahead)

    def standardised(self, panel: Panel) -> Standardised:
        """Rows of a panel in the units of the model; all of them hold an observation."""
        times = panel.times - np.repeat(panel.times[panel.offsets[:-1]], panel.lengths)
        return Standardised(times / self.units.time_scale, self.units.scaler.read(panel.values))

    def range_of(self, panel: Panel) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest value (D,) of each channel, in the units of the model."""
        values = self.standardised(panel).values
        lowest = np.where(np.isnan(values), np.inf, values).min(axis=0, initial=np.inf)
        highest = np.where(np.isnan(values), -np.inf, values).max(axis=0, initial=-np.inf)
        seen = lowest <= highest
        return np.where(seen, lowest, 0.0), np.where(seen, highest, 0.0)

    def records(self, panel: Panel) -> np.ndarray:
        """What simple forecasts know of each series, (B, D, 12)."""
        seen = observed_part(panel)
        return records_at(*self.standardised(seen), seen.offsets, seen.offsets[1:] - 1)

    def _known(self, signal: np.ndarray) -> np.ndarray:
        """Signal (..., D), at its mean in channels that were never observed in training."""
        observed = self.units.scaler.observed
        return signal if observed is None else signal * observed

    def path_values(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Values (Q, D) of the learned path, bridged to the observations; forecasts after them.

        A filter's path does not pass through observations, but as near as it believes them.
        """
        asked, scaler = ask(panel, times, offsets), self.units.scaler
        expected, share = follow(self, asked), shares(self, asked.seen)
        x = scaler.transform(asked.seen.values)
        rise = np.where(np.isnan(x), 0.0, x - expected.mean)
        signal = extrapolated(self, asked, expected.signal + bridges(asked, rise, share))
        signal = scaler.inverse(self._known(signal))
        return signal if share is not None else asked.keep_observed(signal)

    def residuals(self, panel: Panel) -> tuple[np.ndarray, np.ndarray]:
        """One-step errors (n_obs, D), in the user's units and in those that were expected.

        NaN where there is no observation, and in the first row that has any. A model that does not
        know how large its errors are expects standard deviations of the channels.
        """
        nothing = np.empty(0), np.empty(0, dtype=np.int64)
        seen, scaler = observed_part(panel), self.units.scaler
        expected = follow(self, PathQuery(seen, *nothing))
        error = scaler.transform(seen.values) - expected.mean
        error[seen.offsets[:-1]] = np.nan
        scale = 1.0 if expected.log_scale is None else np.exp(expected.log_scale)
        result = np.full((2, *panel.values.shape), np.nan)
        result[:, ~np.isnan(panel.values).all(axis=1)] = error * scaler.scale, error / scale
        return result[0], result[1]

    def mean_errors(self, panel: Panel) -> np.ndarray:
        """Mean squared error (B, 1) of each series, in what was expected; 0 without forecasts."""
        error = self.residuals(panel)[1]
        counts = offsets_from((~np.isnan(error)).sum(axis=1))[panel.offsets]
        series = series_of_rows(panel)
        sums = np.bincount(series, np.nansum(error**2, axis=1), minlength=panel.n_series)
        return (sums / np.maximum(np.diff(counts), 1))[:, None]

    def forecasting_mse(self, panel: Panel) -> float:
        """Mean squared one-step error, in standardised units."""
        return forecasting_mse(self.exact, self.pack(panel))

    def block_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each block of features of one series: (D, size) or (size,)."""
        n_static = 0 if self.static is None else self.static.n_features
        static, n_channels = np.zeros((1, n_static)), len(self.units.scaler.mean)
        data = pack(np.zeros(1), np.zeros((1, n_channels)), np.array([0, 1]), static=static)
        data = data.to(self.device, torch.float64)
        with torch.no_grad():
            blocks = self.exact.features(self.exact.embed(data))
        return {name: tuple(blocks[name].shape[1:]) for name in self.blocks or blocks}
