"""The contract of sequence models: a state that flows between observations and jumps at them.

The data are ragged series as time-major rows. Row order within a block of series: the first
observations of all, then all second observations, and so on, longest series first. A step is then
one contiguous slice, never larger than the one before: no padding is stored, and no Python work is
done per observation.

A model says how its state begins, how it moves while nothing is observed, and what an observation
does to it. The pass over all observations, forecasts, training and streams are written once, for
any model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from skpolyode.memory import Memory
from skpolyode.panel import Panel
from skpolyode.panel.query import choose_window
from skpolyode.panel.select import last_seen_rows
from skpolyode.saving.codec import saved

_SAME_STATE = 1e-9  # tolerated difference of states where parts meet, in standard deviations


@saved
class InputSizes(NamedTuple):
    """How many inputs of each kind act on a model."""

    n_hold: int = 0
    n_linear: int = 0
    n_impulse: int = 0

    @property
    def n_levels(self) -> int:
        """Those that have a value at any moment."""
        return self.n_hold + self.n_linear

    @property
    def n_state(self) -> int:
        """Coordinates of a state that follow them: values, and slopes of those that are linear."""
        return self.n_levels + self.n_linear

    @property
    def slices(self) -> tuple[slice, slice, slice]:
        """Columns of `Packed.inputs`: linear values, their slopes, and impulses."""
        levels, state = self.n_levels, self.n_state
        return slice(self.n_hold, levels), slice(levels, state), slice(state, None)


class Driven(NamedTuple):
    """Inputs at P rows: observations, and knots at which only an input changes."""

    columns: np.ndarray  # float64 (P, C): as `Packed.inputs`
    knot: np.ndarray  # bool (P,): as `Packed.knot`


@dataclass(frozen=True)
class Packed:
    """Observations of B series in time-major order, P rows in all.

    Parameters
    ----------
    sizes : list of list of int
        Rows of each step (not increasing), for each block.
    x : Tensor of shape (P, D)
        Standardised values, zero where not observed.
    mask : bool Tensor of shape (P, D)
        What is observed.
    seen : bool Tensor of shape (P, D)
        Whether the channel was observed before in the series.
    gap : float64 Tensor of shape (P,)
        Time since the previous row of the series (zero in its first).
    channel_gap : float64 Tensor of shape (P, D)
        Time since the previous observation of the channel; one where there is none.
    elapsed : float64 Tensor of shape (P,)
        Time since the first observation of the series.
    next : int64 Tensor of shape (P,)
        Next row of the series, or -1.
    series : int64 Tensor of shape (P,)
        Position in the input of the series that the row belongs to.
    static : Tensor of shape (P, S)
        Static covariates of that series.
    error : float64 Tensor of shape (P, D) or None, default=None
        Known standard deviation of each value, NaN where not known; None if none is.
    posterior : float64 Tensor of shape (P, D) or None, default=None
        Variance of the signal after the previous observation of the channel, from a model that uses
        known errors; see :meth:`~skpolyode.models.gain.Gain.follow`.
    precision : float64 Tensor of shape (P, D) or None, default=None
        How much each value counts in training; None if all count the same.
    inputs : Tensor of shape (P, C) or None, default=None
        Inputs from each row on: values of those that hold, values of linear ones, their slopes,
        and amounts of impulses at this moment; None without inputs.
    knot : bool Tensor of shape (P,) or None, default=None
        Rows at which an input changes and nothing is observed. Those before the first observation
        have no time `elapsed`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.models import pack
    >>> times = np.array([0.0, 1.0, 3.0, 5.0, 5.5])
    >>> values = np.array([[1.0], [2.0], [0.0], [4.0], [3.0]])
    >>> data = pack(times, values, np.array([0, 3, 5]))  # series of three and two rows
    >>> data.series.tolist()
    [0, 1, 0, 1, 0]
    >>> [rows.stop - rows.start for block in data.blocks() for rows in block]
    [2, 2, 1]
    """

    sizes: list[list[int]]
    x: Tensor
    mask: Tensor
    seen: Tensor
    gap: Tensor
    channel_gap: Tensor
    elapsed: Tensor
    next: Tensor
    series: Tensor
    static: Tensor
    error: Tensor | None = None
    posterior: Tensor | None = None
    precision: Tensor | None = None
    inputs: Tensor | None = None
    knot: Tensor | None = None

    def __len__(self) -> int:
        return len(self.x)

    @property
    def n_series(self) -> int:
        """How many series there are."""
        return sum(sizes[0] for sizes in self.sizes)

    @property
    def observations(self) -> Tensor:
        """Rows (n,) that are no knots, series after series."""
        order = self.series.argsort(stable=True)
        return order if self.knot is None else order[~self.knot[order]]

    @cached_property
    def unseen(self) -> Packed:
        """The same with inputs, but without observations."""
        return replace(self, x=torch.zeros_like(self.x), mask=torch.zeros_like(self.mask))

    def blocks(self) -> Iterator[list[slice]]:
        """Rows of each step, block by block."""
        start = 0
        for sizes in self.sizes:
            stops = start + np.cumsum(sizes)
            yield [slice(int(b) - n, int(b)) for b, n in zip(stops, sizes, strict=True)]
            start = int(stops[-1])

    def steps(self) -> Tensor:
        """Which observation of its series each row (P,) is, counted from 0."""
        step = torch.empty_like(self.series)
        for block in self.blocks():
            for k, rows in enumerate(block):
                step[rows] = k
        return step

    def to(self, device: torch.device, dtype: torch.dtype) -> Packed:
        """Move to a device, values as `dtype`; times stay float64."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)[1:]}
        columns = {name: x.to(device) for name, x in columns.items() if x is not None}
        values = columns.keys() & {"x", "static", "inputs"}
        columns |= {name: columns[name].to(dtype) for name in values}
        return Packed(self.sizes, **columns)


def pack(
    times: np.ndarray,
    values: np.ndarray,
    offsets: np.ndarray,
    *,
    static: np.ndarray | None = None,
    errors: np.ndarray | None = None,
    driven: Driven | None = None,
    block_rows: int = 200_000,
) -> Packed:
    """Pack series that are stored one after the other.

    Parameters
    ----------
    times : float64 ndarray of shape (P,)
        Increasing within each series.
    values : float64 ndarray of shape (P, D)
        Standardised, NaN where not observed.
    offsets : int64 ndarray of shape (B + 1,)
        Where each series starts; none is empty.
    static : float64 ndarray of shape (B, S) or None, default=None
        Static covariates of each series, standardised.
    errors : float64 ndarray of shape (P, D) or None, default=None
        Known standard deviations of the values, standardised, NaN where not known.
    driven : Driven or None, default=None
        Inputs at these rows.
    block_rows : int, default=200_000
        Series are run in blocks of about this many rows: it bounds memory, and is far past the
        size at which matrix products gain from more rows.

    Returns
    -------
    Packed

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.models import pack
    >>> times = np.array([0.0, 1.0, 3.0, 5.0, 5.5])
    >>> values = np.array([[1.0], [2.0], [0.0], [4.0], [3.0]])
    >>> data = pack(times, values, np.array([0, 3, 5]))  # series of three and two rows
    >>> data.elapsed.tolist()
    [0.0, 0.0, 1.0, 0.5, 3.0]
    >>> data.next.tolist()
    [2, 3, 4, -1, -1]
    """
    lengths = np.diff(offsets)  # (B,)
    series = np.repeat(np.arange(len(lengths)), lengths)  # (P,), of each row as it is given
    step = np.arange(len(times)) - offsets[series]  # (P,), place of the row in its series

    # Longest series first, so that the rows of a step are a prefix of those of the step before.
    by_length = np.argsort(-lengths, kind="stable")
    place = np.argsort(by_length)  # (B,), of each series among them (inverse permutation)
    # Blocks are runs of series in that order: of about equal length.
    block = ((np.cumsum(lengths[by_length]) - 1) // block_rows)[place]  # (B,)
    # New order of rows: by block, then step, then place (lexsort's last key counts first).
    order = np.lexsort((place[series], step, block[series]))  # (P,), old row of each new one
    row = np.argsort(order)  # (P,), new row of each old one

    since = elapsed = times - times[offsets[series]]
    if driven is not None:  # inputs may begin before the first observation
        first = np.flatnonzero(~driven.knot)[np.unique(series[~driven.knot], return_index=True)[1]]
        since = times - times[first][series]
        elapsed = np.maximum(since, 0.0)
    is_last = step == lengths[series] - 1
    mask = ~np.isnan(values)
    before = np.roll(last_seen_rows(values, offsets), 1, axis=0)  # (P, D), of earlier rows
    before[step == 0] = -1
    seen, since_seen = before >= 0, elapsed[:, None] - elapsed[before]
    columns = {
        "x": np.where(mask, values, 0.0),
        "mask": mask,
        "seen": seen,
        "gap": np.where(step == 0, 0.0, np.diff(since, prepend=0.0)),
        "channel_gap": np.where(seen, since_seen, 1.0),
        "elapsed": elapsed,
        "next": np.where(is_last, -1, np.append(row[1:], -1)),  # given rows are in time order
        "series": series,
        "static": np.empty((len(times), 0)) if static is None else static[series],
    }
    if errors is not None:
        columns["error"] = errors
    if driven is not None:
        columns |= {"inputs": driven.columns, "knot": driven.knot}
    sizes = [np.bincount(step[block[series] == k]).tolist() for k in np.unique(block)]
    return Packed(sizes, **{name: torch.from_numpy(a[order]) for name, a in columns.items()})


State = dict[str, Tensor]
"""Tensors by name, each with one row per series."""


class Sizes(NamedTuple):
    """Properties of the data that set the size of a new model."""

    n_channels: int
    n_static: int  # features of static covariates
    inputs: InputSizes = InputSizes()
    unit: float = 1.0  # of the model's time, in the units of `times`
    panel: Panel | None = None  # training series; None: for a model of the same sizes only

    def of_state(self, hidden_size: int | str) -> int:
        """Length of a state; "auto" is that of PolyODE's coefficients, up to 256 if it can be."""
        if hidden_size != "auto":
            return int(hidden_size)
        return min(32 * self.n_channels, max(256, 2 * self.n_channels))

    def window(self, window: Any, whole: bool = False) -> float:
        """Length of a window in the model's unit of time, as `choose_window` has it."""
        return 1.0 if self.panel is None else choose_window(window, self.panel, whole) / self.unit


class Prediction(NamedTuple):
    """Predicted values of n rows with D channels, in standard deviations of the channels.

    Parameters
    ----------
    mean : Tensor of shape (..., D)
        Expected values.
    log_scale : Tensor of shape (..., D) or None, default=None
        Logarithms of the predictive standard deviations; None if the model has none.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.models import Prediction
    >>> Prediction(torch.zeros(2, 3)).log_scale is None
    True
    """

    mean: Tensor
    log_scale: Tensor | None = None


class Step(NamedTuple):
    """One step of a run: n observations, of as many series or, in a row, of one.

    Parameters
    ----------
    rows : int64 Tensor of shape (n,)
        Their rows in the packed data.
    before : dict of str to Tensor
        States just before the observations.
    prediction : Prediction
        Predictions from these states.
    state : dict of str to Tensor
        States after the observations.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.dynamics import WalledMLP
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import PolyODE, pack
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> model = PolyODE(field, LegTMemory(4, window=2.0), step_size=0.5, max_gap=40.0)
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> [step.rows.tolist() for step in model.run(data)]
    [[0], [1], [2]]
    """

    rows: Tensor
    before: State
    prediction: Prediction
    state: State


def select(state: State, index: Any) -> State:
    """Rows of a state, by any index that tensors take."""
    return {name: part[index] for name, part in state.items()}


def put(state: State, at: Tensor, new: State) -> State:
    """A state whose rows at given positions are those of another one."""
    return {name: part.index_put((at,), new[name]) for name, part in state.items()}


def join(states: list[State]) -> State:
    """Concatenate the rows of several states."""
    return {name: torch.cat([state[name] for state in states]) for name in states[0]}


def agree(one: State, other: State) -> bool:
    """Whether states are equal, up to the effect of a shorter warm-up."""
    return all(torch.allclose(one[k], other[k], rtol=0, atol=_SAME_STATE) for k in one)


class SequenceModel(nn.Module, ABC):
    """A state that flows between observations and jumps at them.

    Five methods make a model. A state has one row per series; rows do not depend on each other.
    Values are in standard deviations of their channel; times are float64, in the model's unit.
    `elapsed` is the time since the first observation of a series, at the moment of the result.
    See :class:`~skpolyode.models.Packed` for the columns of `data`.

    Attributes
    ----------
    gain : Gain or None
        Makes the model a filter, whose signal moves by a share of the innovation at an observation.
    history : Memory or None
        Remembers the past for embeddings alone; no forecast depends on it.

    Examples
    --------
    A model that predicts the last value of each channel:

    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.models import Prediction, SequenceModel, pack
    >>> from skpolyode.training import forecasting_mse
    >>> class LastValue(SequenceModel):
    ...     def initial(self, data, rows):
    ...         return {"x": torch.zeros_like(data.x[rows])}
    ...
    ...     def flow(self, state, gap, elapsed):
    ...         return state
    ...
    ...     def observe(self, state, data, rows):
    ...         return {"x": torch.where(data.mask[rows], data.x[rows], state["x"])}
    ...
    ...     def predict(self, state):
    ...         return Prediction(state["x"])
    ...
    ...     def features(self, state):
    ...         return {"last": state["x"]}
    >>> data = pack(np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]]), np.array([0, 3]))
    >>> forecasting_mse(LastValue(), data)
    2.5
    """

    step_size = max_gap = torch.inf
    """Longest smooth piece of a path, and the time after an observation when it is constant."""

    steps_share_gaps = False
    """Whether steps divide a gap evenly; if not, each time is reached by steps of its own."""

    single: Any = None
    """Runs one series at a time, of models that are faster so; else None."""

    def __init__(self) -> None:
        super().__init__()
        self.gain: nn.Module | None = None
        self.history: Memory | None = None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move or convert the weights, as of any module, and the memories along with them."""
        super()._apply(fn, recurse)
        for name, part in vars(self).items():
            if isinstance(part, Memory):
                weight = next(self.parameters())
                setattr(self, name, part.to(weight.device, weight.dtype))
        return self

    @abstractmethod
    def initial(self, data: Packed, rows: Tensor) -> State:
        """State before the first observations of series, whose first rows are given."""

    @abstractmethod
    def flow(self, state: State, gap: Tensor, elapsed: Tensor) -> State:
        """State after gaps (n,) without observations."""

    @abstractmethod
    def observe(self, state: State, data: Packed, rows: Tensor) -> State:
        """State after the observations at `rows`; `data.mask` says which channels were observed."""

    @abstractmethod
    def predict(self, state: State) -> Prediction:
        """Prediction of an observation made in this state."""

    @abstractmethod
    def features(self, state: State) -> dict[str, Tensor]:
        """Features by block: (n, D, size) if it has a part per channel, else (n, size)."""

    @property
    def filters(self) -> bool:
        """Whether observations are taken as noisy."""
        return self.gain is not None

    def share(self, data: Packed, rows: Tensor) -> Tensor | None:
        """Share (n, D) of its innovation by which an observation moves the signal; None is 1."""
        if self.gain is None:
            return None
        columns = data.channel_gap, data.seen, data.error, data.posterior
        return self.gain(*(x if x is None else x[rows] for x in columns))

    def prepared(self, data: Packed) -> Packed:
        """Data with the columns that follow from the weights: those of errors of observations."""
        if self.gain is None or self.gain.known_errors != "each":
            return data
        return replace(data, posterior=self.gain.follow(data)[0])

    def steer(self, state: State, data: Packed, rows: Tensor) -> State:
        """State under the inputs from some rows on, whatever is observed there."""
        return state if data.inputs is None else self.observe(state, data.unseen, rows)

    def update_loss(self, state: State, data: Packed, rows: Tensor) -> Tensor | None:
        """Loss (n, D) of each observed value in the states after the observations at `rows`.

        Training adds its mean to that of the forecasts. None is no such loss.
        """
        return None

    # The rest builds on these methods. A model may override it to get the same result faster.

    def run_block(self, data: Packed, block: list[slice]) -> Iterator[Step]:
        """Run over some series: all first observations, then all second ones, and so on.

        Parameters
        ----------
        data : Packed
        block : list of slice
            Rows of the series, as :meth:`Packed.blocks` gives them.
        """
        rows = [torch.arange(part.start, part.stop, device=data.x.device) for part in block]
        yield from self.run_from(self.initial(data, rows[0]), data, rows)

    def run_from(self, before: State, data: Packed, rows: list[Tensor]) -> Iterator[Step]:
        """Run over segments of series, from the states just before their first rows.

        Parameters
        ----------
        before : dict of str to Tensor
            States of n segments.
        data : Packed
        rows : list of int64 Tensor
            First rows (n,) of the segments, then the second rows, and so on. The longest segments
            come first: those that have ended are missing at the end.
        """
        state: State = {}
        for k, now in enumerate(rows):
            if k:
                state = select(state, slice(0, len(now)))
                before = self.flow(state, data.gap[now], data.elapsed[now])
            state = self.observe(before, data, now)
            yield Step(now, before, self.predict(before), state)

    def run(self, data: Packed) -> Iterator[Step]:
        """Run over all series, each in the order of its times."""
        for block in data.blocks():
            yield from self.run_block(data, block)

    def predictions(self, data: Packed) -> Tensor:
        """Predictions (P, D) just before each observation."""
        result = torch.empty_like(data.x)
        for step in self.run(data):
            result[step.rows] = step.prediction.mean
        return result

    def embed(self, data: Packed) -> State:
        """State at the last observation of each series, in the order of the input."""
        series, states = [], []
        for step in self.run(data):
            ended = (data.next[step.rows] < 0).nonzero()[:, 0]
            if len(ended):
                series.append(data.series[step.rows][ended])
                states.append(select(step.state, ended))
        return select(join(states), torch.cat(series).argsort())

    def look_ahead(self, state: State, since: Tensor, elapsed: Tensor) -> Prediction:
        """Predictions at times (n, Q) after states, if nothing is observed meanwhile.

        No answer depends on the other times asked for. `elapsed` (n,) is that of the states.
        """
        n_times = since.shape[1]
        row = torch.arange(len(since), device=since.device).repeat_interleave(n_times)
        no_end = torch.full_like(elapsed, torch.inf)
        found = self.between(state, row, since.flatten(), no_end, elapsed)
        return Prediction(*(x if x is None else x.unflatten(0, (-1, n_times)) for x in found))

    def look_ahead_under(
        self, course: Packed, state: State, since: Tensor, elapsed: Tensor
    ) -> Tensor:
        """Means (n, Q, D) as of `look_ahead`, under the inputs of a `course`.

        The course has a series for each state, in their order, with the row of the state and the
        knots after it. No answer depends on inputs after its time.
        """
        found, place = [], torch.arange(len(since), device=since.device)
        row, at = course.observations, torch.zeros_like(elapsed)
        while len(place):
            following = course.next[row]
            gap = torch.where(following >= 0, course.gap[following], torch.inf)
            asked = (since[place] >= at[:, None]) & (since[place] < (at + gap)[:, None])
            answer, time = asked.nonzero(as_tuple=True)
            if len(answer):
                some, index = answer.unique(return_inverse=True)
                no_end = torch.full_like(at[some], torch.inf)
                columns = since[place[answer], time] - at[answer], no_end, (elapsed + at)[some]
                mean = self.between(select(state, some), index, *columns).mean
                found.append((place[answer], time, mean))
            on = following >= 0
            place, row, at, elapsed = place[on], following[on], (at + gap)[on], elapsed[on]
            if len(place):
                moved = self.flow(select(state, on), gap[on], elapsed + at)
                state = self.steer(moved, course, row)
        means = found[0][2].new_empty(*since.shape, found[0][2].shape[1])
        for answer, time, mean in found:
            means[answer, time] = mean
        return means

    def between(
        self, state: State, row: Tensor, since: Tensor, gap: Tensor, elapsed: Tensor
    ) -> Prediction:
        """Predictions between states and the next observations of their series.

        Parameters
        ----------
        state : dict of str to Tensor
            n states after an observation.
        row : int64 Tensor of shape (Q,)
            Which state each answer follows.
        since : float64 Tensor of shape (Q,)
            Time since that state, at most its `gap`.
        gap : float64 Tensor of shape (n,)
            Time to the next observation; infinite if there is none.
        elapsed : float64 Tensor of shape (n,)
            Time since the first observation of the series, at the states.
        """
        state = select(state, row)
        return self.predict(self.flow_where(since > 0, state, since, elapsed[row] + since))

    def flow_where(self, moves: Tensor, state: State, gap: Tensor, elapsed: Tensor) -> State:
        """State after gaps (n,) of those rows that a mask (n,) marks; the others stay."""
        at = moves.nonzero()[:, 0]
        if 0 < len(at) < len(moves):
            return put(state, at, self.flow(select(state, at), gap[at], elapsed[at]))
        return self.flow(state, gap, elapsed) if len(at) else state

    def arrive(self, state: State, data: Packed, rows: Tensor) -> tuple[State, Tensor]:
        """States just before the next observations of the series that have one, and their rows.

        Inputs that change on the way act. The states are those after `rows` (n,).
        """
        rows = data.next[rows]
        if not (exists := rows >= 0).all():
            state, rows = select(state, exists), rows[exists]
        if len(rows):
            state = self.flow(state, data.gap[rows], data.elapsed[rows])
        while data.knot is not None and len(on := data.knot[rows].nonzero()[:, 0]):
            moved = self.steer(select(state, on), data, rows[on])
            following = data.next[rows[on]]  # an observation always follows
            moved = self.flow(moved, data.gap[following], data.elapsed[following])
            state, rows = put(state, on, moved), rows.index_put((on,), following)
        return state, rows


def driven_update(
    cell: nn.Module, seen: Tensor, w: Tensor, data: Packed, rows: Tensor, n_state: int
) -> Tensor:
    """Learned states `w` (n, H), as a cell leaves them, before the inputs from some rows on.

    The cell reads what was `seen` (n, F) and impulses, and moves the states of rows with an
    observation or an impulse. Inputs with a value and slopes, `n_state` in all, follow the states.
    """
    moves, after = data.mask[rows].any(dim=1, keepdim=True), []
    if data.inputs is not None:
        levels, impulses = data.inputs[rows].split((n_state, data.inputs.shape[1] - n_state), dim=1)
        moves, after = moves | (impulses != 0).any(dim=1, keepdim=True), [levels]
        seen = torch.cat([seen, impulses], dim=1)
    w = torch.where(moves, cell(seen, w), w)
    return torch.cat([w, *after], dim=1) if after else w


def zero_map(n_in: int, n_out: int) -> nn.Linear:
    """A linear map whose weights are zero at first."""
    layer = nn.Linear(n_in, n_out, device="meta")  # draws nothing from the global generator
    layer.weight = nn.Parameter(torch.zeros(n_out, n_in, dtype=torch.float32))
    layer.bias = nn.Parameter(torch.zeros(n_out, dtype=torch.float32))
    return layer
