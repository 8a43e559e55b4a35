"""A trained model with its units: series, states, features and forecasts."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from skpolyode.embedders import smoother
from skpolyode.embedders.base import (
    CHUNK_ROWS,
    UNLIKE_FIT,
    Embedder,
    Known,
    MemoryReadout,
    Others,
    cut,
    lead_batches,
    map_chunks,
    map_threads,
    take_known,
)
from skpolyode.embedders.encoders import InputEncoder, StaticEncoder, n_features_of
from skpolyode.futures.continued import Ahead
from skpolyode.futures.spread import predictors_of, spread_at
from skpolyode.models import Packed, SequenceModel, pack
from skpolyode.models.contract import State, agree, join, select
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.select import observed_part, recent_part, series_of_rows, take, time_since_seen
from skpolyode.panel.units import Standardised, Units
from skpolyode.saving.codec import saved
from skpolyode.threads import one_thread
from skpolyode.training import forecasting_mse

_DERIVED = ("exact", "follower", "_kept")
_PART_ROWS = 256  # per part of a long series, so that a warm-up of one context costs little
_WHOLE_ROWS = 4096  # up to this many rows a pass over whole series is faster than over parts


class Ends(NamedTuple):
    """What forecasts of B series start from."""

    panel: Panel  # the series, or only their last rows
    start: np.ndarray  # float64 (B,): first observations
    states: Callable[[slice], State] | None  # of the model at the ends of some; None: not needed
    known: Known | None = None  # state of the combiner; None: forecasts of the model alone
    driven: np.ndarray | None = None  # (B, F): responses to inputs at the first rows of the panel
    others: Others = ({}, 1.0)  # of the combiner's `of_series`


@saved(
    units="D",
    past="D",
    recent="D",
    stacking="D",
    calibration="D",
    waves="D unsigned",
    beginnings="2 D unsigned",
    path_errors="D",
)
@dataclass(frozen=True, eq=False)
class ModelEmbedder(Embedder):
    """Embeds and forecasts by a sequence model.

    Parameters
    ----------
    model : SequenceModel
        As it was trained, in float32.
    units : Units
        Units of the model.
    blocks : tuple of str, default=()
        Names of the model's features in the embedding, in this order; all if there are none.
    past : MemoryReadout or None, default=None
        Converts the model's "coefficients" to series, if it has such features.
    recent : MemoryReadout or None, default=None
        The memory from which the dynamics continue, for a model that forgets; None if a state
        depends on all observations.
    static : StaticEncoder or None, default=None
        Encodes the static covariates of the model.
    inputs : InputEncoder or None, default=None
        Encodes the inputs of the model.
    stacking : StackedForecast or None, default=None
        The combiner of the model with simple forecasts; None if forecasts are those of the model
        alone.
    calibration : Calibration or None, default=None
        Errors of the combined forecasts; None if they have not been learned.
    waves : float64 ndarray of shape (D,) or None, default=None
        Weight, by channel, of the periodic fit to each series in its path between observations;
        None without such fits.
    beginnings : float64 ndarray of shape (2, D) or None, default=None
        Before the first observation of a channel, its path goes back to a share of what the model
        expects without it: the rate of that, per unit of time, and the share. None: it is shifted.
    path_errors : PathErrors or None, default=None
        Errors of paths between observations, which an embedder only stores. None if they have not
        been learned.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import Panel, PolyODETransformer
    >>> times = np.linspace(0, 4, 9)
    >>> panel = Panel.from_series([(times, np.sin(times + k)) for k in range(5)])
    >>> transformer = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0)
    >>> embedder = transformer.fit(panel).embedder_
    >>> {name: tuple(part.shape) for name, part in embedder.states(panel).items()}
    {'z': (5, 37), 'c': (5, 1, 4), 'history': (5, 1, 4)}
    >>> embedder.forecast_values(panel, np.full(5, 4.5), np.arange(6)).shape
    (5, 1)
    """

    model: SequenceModel
    units: Units
    blocks: tuple[str, ...] = ()
    past: MemoryReadout | None = None
    recent: MemoryReadout | None = None
    static: StaticEncoder | None = None
    inputs: InputEncoder | None = None
    stacking: Any = None
    calibration: Any = None
    waves: np.ndarray | None = None
    beginnings: np.ndarray | None = None
    path_errors: Any = None
    forecasts = True

    @cached_property
    def exact(self) -> SequenceModel:
        """The model in float64, for everything except training."""
        is_exact = next(self.model.parameters()).dtype == torch.float64
        if is_exact and not self.model.training:
            return self.model
        with torch.inference_mode(False):  # the copy is kept, whatever mode the first caller is in
            return copy.deepcopy(self.model).double().eval()

    @cached_property
    def follower(self) -> SequenceModel:
        """As `exact`, without a memory of the whole history: for paths and forecasts."""
        if self.exact.history is None:
            return self.exact
        model = copy.copy(self.exact)  # its weights are the same
        model.history = None
        return model

    @property
    def filters(self) -> bool:
        """Whether the model treats observations as noisy."""
        return self.model.filters

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        return next(self.model.parameters()).device

    def to(self, device: str) -> Self:
        """The embedder on another device; the model is moved in place."""
        for name in _DERIVED:
            self.__dict__.pop(name, None)
        self.model.to(device)
        return self

    def with_own_model(self) -> Self:
        """The embedder with a copy of the model, to be trained, and without what paths learned."""
        return replace(self, model=copy.deepcopy(self.model), waves=None, beginnings=None)

    def without_gain(self) -> Self:
        """The embedder with exact observations, in float64; the models share their weights."""
        weights = [*self.exact.parameters(), *self.exact.buffers()]
        model = copy.deepcopy(self.exact, {id(part): part for part in weights})
        model.gain = None
        return replace(self, model=model)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out attributes that are derived from the others."""
        return {name: value for name, value in self.__dict__.items() if name not in _DERIVED}

    def conditioned(self, panel: Panel) -> Self:
        """The embedder for several questions about some series: it runs through them once.

        What it keeps needs memory, so that it is for at most `CHUNK_ROWS` rows.
        """
        if panel.n_observations > CHUNK_ROWS:
            return self
        made = copy.copy(self)
        vars(made).update(exact=self.exact, follower=self.follower, _kept=(panel, {}))
        return made

    def once(self, panel: Panel, key: Any, work: Callable[[], Any]) -> Any:
        """Result of some `work` on series, which is kept if it is `conditioned` on these."""
        conditioned_on, kept = vars(self).get("_kept", (None, {}))
        if conditioned_on is not panel:
            return work()
        if key not in kept:
            kept[key] = work()
        return kept[key]

    def pack(
        self, panel: Panel, dtype: torch.dtype = torch.float64, ahead: np.ndarray | float = 0.0
    ) -> Packed:
        """Series of a panel, packed for models.

        Inputs are packed up to a time `ahead` (B,) after the last rows, in units of the model.
        """
        values = self.units.scaler.read(panel.values)
        static = None if self.static is None else self.static.transform(panel)
        errors, gain = panel.errors, self.model.gain
        if errors is not None:
            errors = errors / self.units.scaler.scale
        elif gain is not None and gain.known_errors == "each":
            errors = np.full_like(values, np.nan)
        unit = self.units.time_scale
        rows_of, cells = (panel.elapsed / unit, values, panel.offsets), {"errors": errors}
        if self.inputs is not None:
            end = (panel.end - panel.start) / unit + ahead
            knots = self.inputs.knots(panel, panel.start, unit)
            rows_of, cells = knots.merged(end, *rows_of, **cells)
        packed = pack(*rows_of, static=static, **cells)
        return self.model.prepared(packed.to(self.device, dtype))

    def standardised(self, panel: Panel) -> Standardised:
        """Rows of a panel in the units of the model, for a combiner and as targets of forecasts.

        All rows of the panel hold an observation; cells that are mostly noise become NaN.
        """
        series = series_of_rows(panel)
        values = self.units.scaler.read(panel.values)
        if panel.errors is not None:
            values = self.without_noisy(values, panel.errors / self.units.scaler.scale)
        times = (panel.times - panel.start[series]) / self.units.time_scale
        driven = self.responses(panel, times, series)
        return Standardised(times, values, panel.offsets, driven)

    @property
    def typical_gap(self) -> float:
        """Typical gap between rows in `fit`, in the user's units; the model's unit of time."""
        return self.units.time_scale

    @property
    def n_responses(self) -> int:
        """Number of responses to inputs for a combiner; 0 if it reads none or there are none."""
        if self.inputs is None:
            return 0
        are_read = self.stacking is None or self.stacking.reads_inputs
        return self.inputs.n_responses if are_read else 0

    def responses(
        self, panel: Panel, elapsed: np.ndarray, series: np.ndarray, known: np.ndarray | None = None
    ) -> np.ndarray:
        """Responses (Q, F) to inputs, for a combiner; F is `n_responses`.

        Times `elapsed` (Q,) count from the first rows of the `series` (Q,), which are sorted, in
        units of the model. `known` (B, F) are responses at the first rows, if given.
        """
        if not self.n_responses:
            return np.empty((len(elapsed), 0))
        counts = np.bincount(series, minlength=panel.n_series)
        knots = self.inputs.knots(panel, panel.start, self.units.time_scale)
        return knots.responses(elapsed, offsets_from(counts), self.inputs.decays, known)

    @staticmethod
    def without_noisy(values: np.ndarray, errors: np.ndarray) -> np.ndarray:
        """Values (P, D) for a combiner: NaN where the error is above one deviation."""
        return np.where(errors > 1.0, np.nan, values)

    def known(self, panel: Panel) -> Known:
        """State of the combiner for each series."""
        return self.stacking.known_at(self.standardised(panel), panel.offsets[1:] - 1)

    def states(self, panel: Panel) -> State:
        """State of the model at the last observation of each series."""
        # The comparison creates both models here: otherwise each thread would create them.
        has_history = self.exact is not self.follower
        embed = self._states_with_history if has_history else self.recent_states
        return join(map_chunks(embed, panel))

    def recent_states(self, panel: Panel) -> State:
        """States of a few series, without a memory of the whole history.

        For long series the model only runs through the recent part, which is doubled in time and
        rows until the states do not change. Mostly one doubling is enough, since the memory forgets
        and each observation resets the dynamics; badly trained dynamics or long gaps need more.
        """
        states = None
        # A channel never observed in training is never reset: its state depends on the start.
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

    def _states_with_history(self, panel: Panel) -> State:
        """States of a few series, with the memory of their whole history."""
        is_cheap = self.exact.single is not None and panel.n_observations <= _WHOLE_ROWS
        reach = math.inf if self.recent is None or is_cheap else self.recent.context
        while (
            math.isfinite(self.past.memory.context)
            and reach < panel.times.max() - panel.times.min()
        ):
            states = self._states_in_parts(panel, reach)
            if states is not None:
                return states
            reach *= 4
        with torch.no_grad():
            return self.exact.embed(self.pack(panel))

    def _states_in_parts(self, panel: Panel, reach: float) -> State | None:
        """States of long series, from parts that run in parallel.

        The dynamics only depend on the recent past, so each part has a warm-up of length `reach`.
        Memories are linear: that of the whole history is the sum of the contributions of all parts,
        propagated to the end. None if a warm-up was too short.
        """
        parts, past = cut(panel, reach, _PART_ROWS), self.past
        border = np.maximum(parts.bounds[:-1] - 1, parts.start)  # the last row of each warm-up
        end, unit = parts.bounds[1:] - 1, past.units.time_scale
        shift = parts.panel.offsets[:-1] - parts.start
        rows, index = np.unique(np.concatenate([border + shift, end + shift]), return_inverse=True)
        states = self.states_at(parts.panel, rows, self.exact)
        borders, ends = (select(states, one) for one in np.split(index, 2))
        fed_back = [name for name in ends if name != "history"]
        before, after = select(ends, parts.later - 1), select(borders, parts.later)
        if not agree(*({name: state[name] for name in fed_back} for state in (before, after))):
            return None
        series = series_of_rows(panel)[end]
        last = panel.offsets[1:] - 1
        since = torch.from_numpy(panel.times[end] - panel.times[border]) / unit
        rest = torch.from_numpy(panel.times[last[series]] - panel.times[end]) / unit
        history = ends["history"].clone()
        history[parts.later] -= past.memory.propagate(borders["history"], since, since)[parts.later]
        history = past.memory.propagate(history, rest, rest)
        state = select(ends, np.flatnonzero(end == last[series]))
        total = torch.zeros_like(state["history"])
        return state | {"history": total.index_add_(0, torch.from_numpy(series), history)}

    def states_at(self, panel: Panel, rows: np.ndarray, model: SequenceModel) -> State:
        """States of a model, `exact` or `follower`, after the given rows, from one run.

        Parameters
        ----------
        panel : Panel
            Panel without empty rows.
        rows : int64 ndarray of shape (n,)
            Increasing indices among all rows of the panel.
        model : SequenceModel
        """
        data = self.pack(panel)
        place = data.observations[torch.from_numpy(rows)]  # their packed rows
        wanted = torch.full((len(data),), -1, device=self.device)
        wanted[place] = torch.arange(len(rows), device=self.device)
        found, states = [], []
        with torch.no_grad(), one_thread():
            for step in model.run(data):
                kept = wanted[step.rows] >= 0
                if kept.any():
                    found.append(wanted[step.rows][kept])
                    states.append(select(step.state, kept))
        return select(join(states), torch.cat(found).argsort())

    def coefficients_of(self, states: State) -> np.ndarray:
        """Coefficients (B, D, N) of states of the model."""
        return self._blocks(states)["coefficients"].cpu().numpy()

    def features_of(self, states: State) -> np.ndarray:
        """Features (B, F) of states of the model, without duration."""
        with torch.no_grad(), one_thread():
            blocks = self._blocks(states)
        chosen = [blocks[name].flatten(1) for name in self.blocks or blocks]
        return torch.cat(chosen, dim=1).cpu().numpy()

    def _blocks(self, states: State) -> dict[str, Tensor]:
        """Features of states; 0, the mean, in channels never observed in training."""
        blocks, observed = self.exact.features(states), self.units.scaler.observed
        if observed is None:
            return blocks
        known = torch.from_numpy(observed).to(self.device)[:, None]  # (D, 1)
        return {
            name: part * known if part.ndim == 3 else part  # (n, D, size), (n, size)
            for name, part in blocks.items()
        }

    def block_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of each block of features of one series: (D, size) or (size,)."""
        static, n_channels = np.zeros((1, n_features_of(self.static))), len(self.units.scaler.mean)
        driven = None if self.inputs is None else self.inputs.blank
        cells, offsets = {"static": static, "driven": driven}, np.array([0, 1])
        data = pack(np.zeros(1), np.zeros((1, n_channels)), offsets, **cells)
        data = data.to(self.device, torch.float64)
        with torch.no_grad():
            blocks = self.exact.features(self.exact.embed(data))
        return {name: tuple(blocks[name].shape[1:]) for name in self.blocks or blocks}

    def coefficients(self, panel: Panel) -> np.ndarray:
        """Coefficients (B, D, N) of standardised channels, at each series' last observation."""
        return self.coefficients_of(self.states(panel))

    def features(self, panel: Panel) -> np.ndarray:
        """Features (B, F) of each series."""
        features = self.features_of(self.states(panel))
        if self.past is None:
            return features
        return self.past.with_duration(features, panel.start, panel.end)

    path_values = smoother.path_values

    def residuals(self, panel: Panel) -> tuple[np.ndarray, np.ndarray]:
        """One-step errors (n_obs, D), in the user's units and in expected standard deviations.

        NaN where there is no observation, and in the first row of a series. For a model without a
        variance, the expected deviations are those of the channels.
        """
        scaler, expected = self.units.scaler, smoother.follow(self, panel)
        error = scaler.transform(panel.values) - expected.mean
        error[panel.offsets[:-1]] = np.nan
        scale = 1.0 if expected.log_scale is None else np.exp(expected.log_scale)
        return error * scaler.scale, error / scale

    def mean_errors(self, panel: Panel) -> np.ndarray:
        """Mean squared ratio (B, 1) of errors to expected ones, by series; 0 without forecasts."""
        error = self.residuals(panel)[1]
        columns = np.nansum(error**2, axis=1), (~np.isnan(error)).sum(axis=1)
        series, n = series_of_rows(panel), panel.n_series
        sums, counts = (np.bincount(series, column, minlength=n) for column in columns)
        return (sums / np.maximum(counts, 1))[:, None]

    def forecasting_mse(self, panel: Panel) -> float:
        """Mean squared one-step error, in standardised units."""
        return forecasting_mse(self.exact, self.pack(observed_part(panel)))

    def forecast_values(
        self, panel: Panel, times: np.ndarray, offsets: np.ndarray, combine: bool = True
    ) -> np.ndarray:
        """Forecasts (Q, D) at times (Q,) after the series end, by offsets; stacked if `combine`.

        They are within the limits of channels.
        """
        rows = panel.offsets[1:] - 1
        ends = self._ends(panel, rows)
        if combine and self.stacking is not None:
            ends = self._stacked(ends, panel, rows, self.standardised(panel), times, offsets)
        scaler, found = self.units.scaler, self.continued(ends, times, offsets)
        return scaler.within_limits(scaler.inverse(found), panel, offsets)

    def _ends(self, panel: Panel, rows: np.ndarray) -> Ends:
        """What forecasts start from after `rows` (O,) of a panel."""
        if np.array_equal(rows, panel.offsets[1:] - 1):
            return Ends(panel, panel.start, lambda part: self.recent_states(panel[part]))
        series, model = series_of_rows(panel)[rows], self.follower
        pasts, start = take(panel, series, rows, rows + 1), panel.start[series]
        return Ends(pasts, start, lambda part: self.states_at(panel, rows[part], model))

    def _stacked(
        self,
        ends: Ends,
        panel: Panel,
        rows: np.ndarray,
        cells: Standardised,
        times: np.ndarray,
        offsets: np.ndarray,
    ) -> Ends:
        """The same with what combined forecasts start from; the panel has these cells."""
        each = rows[series_index(offsets)]
        others = self.stacking.of_series(self.units.scaler, panel, each, times)
        driven = None if ends.panel is panel else cells.driven[rows]
        known = self.stacking.known_at(cells, rows)
        return ends._replace(known=known, driven=driven, others=others)

    def continued(self, ends: Ends, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Forecasts (Q, D) at times (Q,) after the series end, in standard deviations."""
        panel, unit = ends.panel, self.units.time_scale
        end, values = panel.end, np.empty((len(times), panel.n_channels))
        self._warn_if_far(panel, times, series_index(offsets))

        def answer(batch: tuple[slice, slice, np.ndarray, np.ndarray]) -> None:
            part, where, leads, asked = batch
            durations, here = (end - ends.start)[part], panel[part]
            run = self.free_run(ends.states(part), durations, leads, here)[asked]
            if ends.known is not None:
                series, lead = np.nonzero(asked)[0], leads[asked]
                since = ((here.end - here.start)[series] + lead) / unit
                before = ends.driven if ends.driven is None else ends.driven[part]
                driven = self.responses(here, since, series, before)
                given = {"run": run} | take_known(ends.others[0], where)
                known, elapsed = take_known(ends.known, part), (durations[series] + lead) / unit
                run = self.stacking.combine(given, known, series, elapsed, driven)
            values[where] = self.units.scaler.at_mean(run)

        map_threads(answer, list(lead_batches(panel, times, offsets, end)))
        return values

    def _warn_if_far(self, panel: Panel, times: np.ndarray, series: np.ndarray) -> None:
        """Warn of times (Q,) far beyond the leads at which forecasts were compared with values."""
        reach = np.inf if self.stacking is None else self.stacking.leads[-1] * self.units.time_scale
        if (times - panel.end[series]).max(initial=0.0) > UNLIKE_FIT * reach:
            unit = f" {panel.time_unit}" if panel.is_datetime else ""
            # Chunks of one call warn in the same words, which Python shows once.
            warnings.warn(
                f"times are more than {UNLIKE_FIT} times as far after the last observation as "
                f"`fit` could compare forecasts with values, which is {reach:.3g}{unit}: forecasts "
                "hardly change there, and intervals no longer widen. Ask for shorter leads, or fit "
                "on longer series.",
                stacklevel=3,
            )

    def outlook(
        self,
        panel: Panel,
        times: np.ndarray,
        offsets: np.ndarray,
        rows: np.ndarray | None = None,
        *,
        with_values: bool = True,
    ) -> Ahead:
        """Stacked forecasts and the predictors of their errors.

        Parameters
        ----------
        panel : Panel
            Panel without empty rows.
        times : float64 ndarray of shape (Q,)
            Forecast times, on the clock of the panel, origin by origin.
        offsets : int64 ndarray of shape (O + 1,)
            Where the times of each origin start.
        rows : int64 ndarray of shape (O,) or None, default=None
            The origins, rising among all rows of the panel. None: the last row of each series.
        with_values : bool, default=True
            Whether to compute forecasts, or only predictors.
        """
        cells, rows = self.standardised(panel), panel.offsets[1:] - 1 if rows is None else rows
        ends = self._stacked(self._ends(panel, rows), panel, rows, cells, times, offsets)
        ends = ends if with_values else ends._replace(states=None)
        leads = time_since_seen(panel, rows[series_index(offsets)], times)
        spread = spread_at(cells.values, panel.offsets, rows)
        return self.outlook_from(ends, times, offsets, leads, spread)

    def outlook_from(
        self, ends: Ends, times: np.ndarray, offsets: np.ndarray, leads: Any, spread: Any
    ) -> Ahead:
        """As `outlook`, from the ends of series.

        `leads` (Q, D) are the times since each channel was observed, `spread` (B, D, 6) the
        statistics of `spread_at`.
        """
        series, values = series_index(offsets), np.full(leads.shape, np.nan)
        if ends.states is not None:
            values = self.continued(ends, times, offsets)
        elapsed = (times - ends.start[series]) / self.units.time_scale
        expected = self.stacking.expected_errors(ends.known, series, elapsed)
        leads = self.units.scaler.known(leads, np.inf)
        predictors = predictors_of(spread[series], expected)
        return Ahead(values, leads, predictors, ends.others[1] * np.ones(values.shape))

    def free_run(
        self, states: State, durations: np.ndarray, leads: np.ndarray, panel: Panel
    ) -> np.ndarray:
        """Free run (B, Q, D) of the model, in standard deviations, from states after the last rows.

        The times are `leads` (B, Q) after these rows, and histories have `durations` (B,), in the
        user's units. Later inputs are those of the panel.
        """
        unit, n_rows = self.units.time_scale, panel.lengths
        since, elapsed = (torch.from_numpy(x / unit).to(self.device) for x in (leads, durations))
        with torch.no_grad(), one_thread():
            if self.inputs is None:
                mean = self.exact.look_ahead(states, since, elapsed).mean
            else:
                last = take(panel, np.arange(len(n_rows)), panel.offsets[1:] - 1, panel.offsets[1:])
                course = self.pack(last, ahead=leads.max(axis=1) / unit)
                mean = self.exact.look_ahead_under(course, states, since, elapsed)
        return self.units.scaler.at_mean(mean.cpu().numpy())

    def runs_from(
        self, panel: Panel, origins: np.ndarray, times: np.ndarray, counts: np.ndarray
    ) -> np.ndarray:
        """Free runs (Q, D), in standard deviations, from several origins; see `outlook`."""
        return self.continued(self._ends(panel, origins), times, offsets_from(counts))
