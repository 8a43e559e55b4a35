"""A trained model with its units: from series to states, and from states to features."""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import torch

from skpolyode.embedders.batching import cut, map_chunks
from skpolyode.embedders.inputs import InputEncoder
from skpolyode.embedders.memory_readout import MemoryReadout
from skpolyode.embedders.static import StaticEncoder, n_features_of
from skpolyode.futures.continued import KnownErrors
from skpolyode.models import Packed, SequenceModel, pack
from skpolyode.models.contract import State, join, select
from skpolyode.models.variance_head import VarianceHead
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.select import recent_part, series_of_rows
from skpolyode.panel.units import Standardised, Units
from skpolyode.saving.codec import register_as
from skpolyode.threads import one_thread

_DERIVED = ("exact", "follower")
_PART_ROWS = 256  # per part of a long series, so that a warm-up of one context costs little
_WHOLE_ROWS = 4096  # up to this many rows a pass over whole series is faster than over parts
_SAME_STATE = 1e-9  # tolerated difference of states where parts meet, in standard deviations


Known = dict[str, np.ndarray]
"""State of a combiner for n series: arrays (n, ...) by name, which only the combiner reads."""


def take_known(known: Known, series: Any) -> Known:
    """State of a combiner for the series of an index or a mask."""
    return {name: part[series] for name, part in known.items()}


class Combiner(Protocol):
    """Combines forecasts of a model with those from its state for each series.

    Values are in standard deviations from the mean of their channel, times `elapsed` since the
    first observation of a series, in units of the model. `driven` (n, F) are responses to inputs,
    with F = 0 if there are none. Rows are as in `Standardised`, NaN where nothing was observed.
    The state for a series only depends on its rows; updates row by row, in a stream, give the same
    as all rows at once. Arrays keep their types and, except for n, their shapes.
    """

    reads_inputs: bool
    """Whether results depend on responses to inputs."""

    def start(self, n_series: int, n_channels: int) -> Known:
        """State for series that have not been observed."""

    def known_at(self, rows: Standardised, asked: np.ndarray) -> Known:
        """States for series up to and including the rows at positions `asked` (n,)."""

    def updated(self, known: Known, rows: Standardised) -> Known:
        """State after one more row of each series."""

    def combine(
        self, given: Known, known: Known, elapsed: np.ndarray, driven: np.ndarray
    ) -> np.ndarray:
        """Forecasts (n, D) at times `elapsed` (n,), from the state `known` and `given` forecasts.

        The latter are arrays (n, D) by name and always include "run", the free run of the model.
        """

    def expected_errors(self, known: Known, elapsed: np.ndarray) -> np.ndarray:
        """Expected size (n, D) of the errors of forecasts at times `elapsed` (n,)."""


class Late:
    """Something that is learned when it is first asked for, or saved.

    Parameters
    ----------
    learn : callable
        Learns it. It is dropped afterwards, with all that it has kept until then.
    """

    _lock: ClassVar[threading.RLock] = threading.RLock()  # one may ask for another

    def __init__(self, learn: Callable[[], Any]) -> None:
        self._learn: Callable[[], Any] | None = learn

    @property
    def learned(self) -> Any:
        """What has been learned."""
        if self._learn is not None:
            with Late._lock, one_thread():  # one thread, as in a fit
                if self._learn is not None:
                    self._learned = self._learn()
                    self._learn = None  # last: other threads read without the lock
        return self._learned

    @property
    def is_learned(self) -> bool:
        """Whether it has been learned."""
        return self._learn is None

    def __getattr__(self, name: str) -> Any:
        """As of what has been learned."""
        if name.startswith("_"):  # a copy asks before there is anything
            raise AttributeError(name)
        return getattr(self.learned, name)

    def __getstate__(self) -> dict[str, Any]:
        """Keep only what has been learned."""
        return {"_learn": None, "_learned": self.learned}


register_as(Late, lambda late: late.learned)


def agree(one: State, other: State) -> bool:
    """Whether states are equal, up to the effect of a shorter warm-up."""
    return all(torch.allclose(one[k], other[k], rtol=0, atol=_SAME_STATE) for k in one)


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A sequence model that reads panels, the base of :class:`ModelEmbedder`.

    The parameters are described there.
    """

    model: SequenceModel
    units: Units
    blocks: tuple[str, ...] = ()
    past: MemoryReadout | None = None
    recent: MemoryReadout | None = None
    static: StaticEncoder | None = None
    inputs: InputEncoder | None = None
    scale: VarianceHead | None = None
    stacking: Combiner | None = None
    calibration: KnownErrors | None = None
    waves: np.ndarray | None = None
    path_calibration: Any = None
    path_errors: Any = None

    @cached_property
    def exact(self) -> SequenceModel:
        """The model in float64, for everything except training."""
        is_exact = next(self.model.parameters()).dtype == torch.float64
        if is_exact and not self.model.training:
            return self.model
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
        if self.scale is not None:
            self.scale.to(device)
        return self

    def with_own_model(self) -> Self:
        """The embedder with a copy of the model, to be trained, and without waves in paths."""
        return replace(self, model=copy.deepcopy(self.model), waves=None)

    def without_gain(self) -> Self:
        """The embedder with exact observations, in float64; the models share their weights."""
        weights = [*self.exact.parameters(), *self.exact.buffers()]
        model = copy.deepcopy(self.exact, {id(part): part for part in weights})
        model.gain = None
        return replace(self, model=model)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out attributes that are derived from the others."""
        return {name: value for name, value in self.__dict__.items() if name not in _DERIVED}

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
        times = self.elapsed(panel, panel.times, series)
        driven = self.responses(panel, times, series)
        return Standardised(times, values, panel.offsets, driven)

    @property
    def n_responses(self) -> int:
        """Number of responses to inputs for a combiner; 0 if it reads none or there are none."""
        if self.inputs is None:
            return 0
        are_read = self.stacking is None or self.stacking.reads_inputs
        return self.inputs.n_responses if are_read else 0

    def elapsed(self, panel: Panel, times: np.ndarray, series: np.ndarray) -> np.ndarray:
        """Times (Q,) since the first rows of the `series` (Q,), in units of the model."""
        return (times - panel.start[series]) / self.units.time_scale

    def responses(
        self,
        panel: Panel,
        elapsed: np.ndarray,
        series: np.ndarray,
        known: np.ndarray | None = None,
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
        while self.past.forgets and reach < panel.times.max() - panel.times.min():
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
        """Features (B, F) of states of the model, without duration and standard deviations."""
        with torch.no_grad(), one_thread():
            blocks = self._blocks(states)
        chosen = [blocks[name].flatten(1) for name in self.blocks or blocks if name in blocks]
        return torch.cat(chosen, dim=1).cpu().numpy()

    def _blocks(self, states: State) -> dict[str, torch.Tensor]:
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
