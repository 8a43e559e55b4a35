"""The contract of sequence models: a state that flows between observations and jumps at them.

A model says how its state begins, how it moves while nothing is observed, and what an observation
does to it. The pass over all observations, forecasts, training and streams are written once, for
any model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, Self

import torch
from torch import nn

from skpolyode.memory import Memory
from skpolyode.models.gain import Gain
from skpolyode.models.packed import InputSizes, Packed
from skpolyode.panel.durations import read_memory

_SAME_STATE = 1e-9  # tolerated difference of states where parts meet, in standard deviations

State = dict[str, torch.Tensor]
"""Tensors by name, each with one row per series."""


class Sizes(NamedTuple):
    """Properties of the data that set the size of a new model."""

    n_channels: int
    n_static: int  # features of static covariates
    duration: float  # of the longest series, in the model's unit of time
    unit: float = 1.0  # of the model's time, in the units of `times`
    time_unit: str | None = None  # of datetimes; None for plain numbers
    inputs: InputSizes = InputSizes()

    def of_state(self, hidden_size: int | str) -> int:
        """Length of a state; "auto" is that of PolyODE's coefficients, up to 256 if it can be."""
        if hidden_size != "auto":
            return int(hidden_size)
        return min(32 * self.n_channels, max(256, 2 * self.n_channels))

    def of_model(self, hidden_size: int | str) -> tuple[int, int, int]:
        """Numbers of channels and of static features, and the length of the state."""
        return self.n_channels, self.n_static, self.of_state(hidden_size)

    def window(self, window: Any) -> float:
        """Length of a window in the model's unit of time; "auto" is that of the longest series."""
        longest = self.duration or 1.0
        if isinstance(window, str) and window == "auto":
            return longest
        return read_memory("window", window, self.time_unit, longest * self.unit) / self.unit


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

    mean: torch.Tensor
    log_scale: torch.Tensor | None = None


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

    rows: torch.Tensor
    before: State
    prediction: Prediction
    state: State


def select(state: State, index: Any) -> State:
    """Rows of a state, by any index that tensors take."""
    return {name: part[index] for name, part in state.items()}


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

    def __init__(self) -> None:
        super().__init__()
        self.gain: Gain | None = None
        self.history: Memory | None = None

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """Move or convert the weights, as of any module, and the memories along with them."""
        super()._apply(fn, recurse)
        for name, part in vars(self).items():
            if isinstance(part, Memory):
                weight = next(self.parameters())
                setattr(self, name, part.to(weight.device, weight.dtype))
        return self

    @abstractmethod
    def initial(self, data: Packed, rows: torch.Tensor) -> State:
        """State before the first observations of series, whose first rows are given."""

    @abstractmethod
    def flow(self, state: State, gap: torch.Tensor, elapsed: torch.Tensor) -> State:
        """State after gaps (n,) without observations."""

    @abstractmethod
    def observe(self, state: State, data: Packed, rows: torch.Tensor) -> State:
        """State after the observations at `rows`; `data.mask` says which channels were observed."""

    @abstractmethod
    def predict(self, state: State) -> Prediction:
        """Prediction of an observation made in this state."""

    @abstractmethod
    def features(self, state: State) -> dict[str, torch.Tensor]:
        """Features by block: (n, D, size) if it has a part per channel, else (n, size)."""

    @property
    def filters(self) -> bool:
        """Whether observations are taken as noisy."""
        return self.gain is not None

    @property
    def single(self) -> Any:
        """Runs one series at a time, of models that are faster so; else None."""
        return None

    def share(self, data: Packed, rows: torch.Tensor) -> torch.Tensor | None:
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

    def steer(self, state: State, data: Packed, rows: torch.Tensor) -> State:
        """State under the inputs from some rows on, whatever is observed there."""
        return state if data.inputs is None else self.observe(state, data.unseen, rows)

    def update_loss(self, state: State, data: Packed, rows: torch.Tensor) -> torch.Tensor | None:
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

    def run_from(self, before: State, data: Packed, rows: list[torch.Tensor]) -> Iterator[Step]:
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

    def predictions(self, data: Packed) -> torch.Tensor:
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

    def look_ahead(self, state: State, since: torch.Tensor, elapsed: torch.Tensor) -> Prediction:
        """Predictions at times (n, Q) after states, if nothing is observed meanwhile.

        No answer depends on the other times asked for. `elapsed` (n,) is that of the states.
        """
        n_times = since.shape[1]
        row = torch.arange(len(since), device=since.device).repeat_interleave(n_times)
        no_end = torch.full_like(elapsed, torch.inf)
        found = self.between(state, row, since.flatten(), no_end, elapsed)
        return Prediction(*(x if x is None else x.unflatten(0, (-1, n_times)) for x in found))

    def look_ahead_under(
        self, course: Packed, state: State, since: torch.Tensor, elapsed: torch.Tensor
    ) -> torch.Tensor:
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
        self,
        state: State,
        row: torch.Tensor,
        since: torch.Tensor,
        gap: torch.Tensor,
        elapsed: torch.Tensor,
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
        later = (since > 0).nonzero()[:, 0]
        ahead = select(state, row)
        if len(later):
            moved = self.flow(
                select(ahead, later), since[later], elapsed[row[later]] + since[later]
            )
            ahead = {name: part.index_put((later,), moved[name]) for name, part in ahead.items()}
        return self.predict(ahead)


def driven_update(
    cell: nn.Module,
    seen: torch.Tensor,
    w: torch.Tensor,
    data: Packed,
    rows: torch.Tensor,
    n_state: int,
) -> torch.Tensor:
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
