"""What everything that reads series in order has in common: a state that flows and jumps.

A model says how a state begins, how it moves while nothing is observed, and what an observation
does to it. The pass over all observations, forecasts, training and streams are written once over
that, for any model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from skpolyode.models.packed import Packed

__all__ = ["Prediction", "SequenceModel", "State", "Step", "join", "select"]

State = dict[str, torch.Tensor]
"""Tensors by name, each with one row a series."""


class Prediction(NamedTuple):
    """What is expected of n rows of D channels, in standard deviations of the channels.

    Parameters
    ----------
    mean : Tensor of shape (..., D)
        Expected values.
    log_scale : Tensor of shape (..., D) or None, default=None
        Logarithms of the standard deviations of the errors, of a model that knows them.

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
    """Observations that were taken in together, n of them, at most one a series.

    Parameters
    ----------
    rows : int64 Tensor of shape (n,)
        Their rows in the packed data.
    before : dict of str to Tensor
        State just before them, one row each.
    prediction : Prediction
        What was expected in it.
    state : dict of str to Tensor
        State after them.

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
    """Some rows of a state."""
    return {name: part[index] for name, part in state.items()}


def join(states: list[State]) -> State:
    """Rows of several states, one after the other."""
    return {name: torch.cat([state[name] for state in states]) for name in states[0]}


class SequenceModel(nn.Module, ABC):
    """A state that flows between observations and jumps at them.

    Five methods make a model. A state has one row a series; rows do not depend on each other.
    Values are in standard deviations of their channel and times in units of the model, float64.
    `elapsed` is the time since the first observation of a series, at the moment that the result
    is for.

    See :class:`~skpolyode.models.Packed` for what `data` holds of its `rows`.

    Examples
    --------
    What is expected is the last value of each channel:

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

    @abstractmethod
    def initial(self, data: Packed, rows: torch.Tensor) -> State:
        """State before the first observations of series, given by their first rows."""

    @abstractmethod
    def flow(self, state: State, gap: torch.Tensor, elapsed: torch.Tensor) -> State:
        """State after gaps (n,) without observations."""

    @abstractmethod
    def observe(self, state: State, data: Packed, rows: torch.Tensor) -> State:
        """State after taking in the observations of some rows; `data.mask` says of what."""

    @abstractmethod
    def predict(self, state: State) -> Prediction:
        """What is expected to be observed in a state."""

    @abstractmethod
    def features(self, state: State) -> dict[str, torch.Tensor]:
        """Blocks of features, each of shape (n, D, size) if it is of channels, else (n, size)."""

    @property
    def filters(self) -> bool:
        """Whether observations are taken for noisy: a state goes a share of the way to them."""
        return False

    def share(self, data: Packed, rows: torch.Tensor) -> torch.Tensor | None:
        """Share (n, D) of the innovations of some rows that is taken over; None is all."""
        return None

    def update_loss(self, state: State, data: Packed, rows: torch.Tensor) -> torch.Tensor | None:
        """Loss (n, D) of a state after the observations of some rows, of each observed value.

        Training adds its mean to that of the forecasts. None, which most models leave it at, is no
        such loss.
        """
        return None

    # The rest is written over these. A model may know faster ways to the same results.

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
        """Run over parts of series, from their states just before the first rows of each.

        Parameters
        ----------
        before : dict of str to Tensor
            States of n parts of series.
        data : Packed
        rows : list of int64 Tensor
            First rows (n,) of the parts, then their second ones, and so on; of parts that have
            ended, which are the last ones, there are none.
        """
        state: State = {}
        for k, now in enumerate(rows):
            if k:
                state = select(state, slice(0, len(now)))
                before = self.flow(state, data.gap[now], data.elapsed[now])
            state = self.observe(before, data, now)
            yield Step(now, before, self.predict(before), state)

    def run(self, data: Packed) -> Iterator[Step]:
        """Run over all observations of all series, each in the order of its times."""
        for block in data.blocks():
            yield from self.run_block(data, block)

    def predictions(self, data: Packed) -> torch.Tensor:
        """Values (P, D) expected just before each observation."""
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
        """What is expected at times (n, Q) after a state, if nothing is observed meanwhile.

        No answer depends on what other times are asked for. `elapsed` (n,) is that of the state.
        """
        n_times = since.shape[1]
        row = torch.arange(len(since), device=since.device).repeat_interleave(n_times)
        no_end = torch.full_like(elapsed, torch.inf)
        found = self.between(state, row, since.flatten(), no_end, elapsed)
        return Prediction(*(x if x is None else x.unflatten(0, (-1, n_times)) for x in found))

    def between(
        self,
        state: State,
        row: torch.Tensor,
        since: torch.Tensor,
        gap: torch.Tensor,
        elapsed: torch.Tensor,
    ) -> Prediction:
        """What is expected on the way from states to the next observations of their series.

        Parameters
        ----------
        state : dict of str to Tensor
            n states after an observation.
        row : int64 Tensor of shape (Q,)
            Which of them each answer follows.
        since : float64 Tensor of shape (Q,)
            How long after it, at most its `gap`.
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
