"""What training asks of a model: a refresh before each epoch, and a loss on some items.

:class:`IntervalTask` is the fast one: one pass without gradients stores the states of all
observations, and minibatches are then drawn from all intervals of all series, so that the
sequential depth of a gradient step is that of a few intervals. :class:`SeriesTask`
back-propagates through whole series. Both serve any model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from skpolyode.models.contract import Prediction, SequenceModel, State, select
from skpolyode.models.packed import Packed
from skpolyode.training.losses import RunningMean, add_update_loss, forecasting_mse, prediction_loss
from skpolyode.training.weights import weighed, with_mean_one

__all__ = ["IntervalTask", "Minibatches", "SeriesTask"]

_DECAY = 0.7  # weight of each further observation that is looked at without updates
# Looks far ahead take many steps: none while the dynamics are far off, few minibatches later on,
# and the further ahead the fewer intervals.
_FAR_FROM = 1 / 4  # of the training
_FAR_EVERY = 6  # minibatches
HALVED_EVERY = 4  # observations


class Minibatches(NamedTuple):
    """How many items are taken together where nothing is said of it.

    Parameters
    ----------
    number : int
        Minibatches of an epoch.
    smallest : int
        Items of one, at least.
    n_most : int
        Intervals of one, at most, unless that are fewer items.
    """

    number: int
    smallest: int
    n_most: int


class IntervalTask:
    """Train on a few intervals at a time, from stored states.

    Parameters
    ----------
    model : SequenceModel
    data : Packed
        Training and validation series together: one pass serves both. Each error counts as many
        times as the weight of its series says, in units of the mean weight.
    held_out : bool Tensor of shape (n_series,)
        Series that only validate. If there are none, the training error stands in.
    horizon : int, default=1
        Observations looked ahead from each stored state, without updates in between.
    length : int, default=1
        Observations predicted one after the other from each stored state, *with* the updates in
        between. An update with weights learns best from more than one.
    furthest : int, default=1
        Observations that every sixth minibatch looks ahead without updates, once a quarter of the
        training is done. Each of them counts in units of its own size: the errors far ahead, which
        are larger, would drown those of the next observation otherwise.

    Notes
    -----
    What is stored are the states just before the observations, so that the loss passes through
    the update at which an interval starts.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.dynamics import WalledMLP
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import PolyODE, pack
    >>> from skpolyode.training.tasks import IntervalTask
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> model = PolyODE(field, LegTMemory(4, window=2.0), step_size=0.5, max_gap=40.0)
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> task = IntervalTask(model, data, torch.tensor([False]))
    >>> error = task.refresh()  # stores the states, before each epoch
    >>> task.items.tolist()  # the two intervals, by the rows that they start from
    [0, 1]
    >>> abs(task.loss(torch.tensor([0, 1])).item() - error) < 1e-12
    True
    """

    scans = False
    """Whether a refresh goes through the series in order where minibatches need not."""

    minibatches = Minibatches(16, smallest=64, n_most=512)
    """Fewer intervals cost as much: the depth of a step is that of one."""

    item_size = 1.0
    """Intervals of an item, in the mean."""

    def __init__(
        self,
        model: SequenceModel,
        data: Packed,
        held_out: torch.Tensor,
        *,
        horizon: int = 1,
        length: int = 1,
        furthest: int = 1,
    ) -> None:
        self.model, self.horizon, self.length = model, horizon, length
        self.furthest, self.progress, self.n_batches = furthest, 0.0, 0
        self.is_preliminary = False
        self.take(data, held_out)

    def take(self, data: Packed, held_out: torch.Tensor) -> None:
        """Go on with other series, of which no states are known."""
        self.data = with_mean_one(data, held_out)
        validating = held_out[data.series]
        self.items = ((data.next >= 0) & ~validating).nonzero()[:, 0]
        self.scored = validating if held_out.any() else ~validating
        self.counted = data.mask & (self.scored & (data.elapsed > 0))[:, None]
        self.states: State = {}

    @property
    def n_stored(self) -> int:
        """Of how many rows states are kept."""
        return len(self.data)

    def keeps_states(self, progress: float) -> bool:
        """Whether the next `refresh` will leave the states as they are."""
        return False

    @torch.no_grad()
    def refresh(self, progress: float = 1.0) -> float:
        """Store the states of all rows, and return the validation error.

        `progress` is the share of the training that is done.
        """
        mean = RunningMean()
        self.progress, self.n_batches = progress, 0
        for block in self.data.blocks():
            for rows, prediction, stored in self._pass(block, progress):
                self._store(rows, stored)
                error = (self.data.x[rows] - prediction).square()
                mean.add(weighed(error, self.data, rows), self.counted[rows])
        return float(mean.value())

    def _pass(
        self, block: list[slice], progress: float
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, State]]:
        """Some rows (n,) of a block, their predictions (n, D), and what to store of them."""
        for step in self.model.run_block(self.data, block):
            yield step.rows, step.prediction.mean, step.before

    def _depart(self, rows: torch.Tensor) -> State:
        """States after the observations of some rows, from the stored ones; differentiable."""
        return self.model.observe(self._before(rows), self.data, rows)

    def _store(self, rows: torch.Tensor, states: State) -> None:
        """Keep states of some rows until the next refresh."""
        for name, part in states.items():
            if name not in self.states:
                self.states[name] = part.new_empty(self.n_stored, *part.shape[1:])
            self.states[name][rows] = part

    def _before(self, rows: torch.Tensor) -> State:
        """States just before the observations of some rows: stored, but the start, which learns."""
        stored, first = self._stored(rows), self.data.elapsed[rows] == 0
        if first.any():
            start = self.model.initial(self.data, rows[first])
            at = (first.nonzero()[:, 0],)
            stored = {name: part.index_put(at, start[name]) for name, part in stored.items()}
        return stored

    def _stored(self, rows: torch.Tensor) -> State:
        """States just before the observations of some rows, as a refresh has left them."""
        return select(self.states, rows)

    def loss(self, index: torch.Tensor) -> torch.Tensor:
        """Mean loss over the next observations of some intervals."""
        rows = self._chosen(self.items[index])
        state = self._depart(rows)
        of_update = self._update_loss(state, rows)
        state, rows = self._arrive(state, rows)
        loss = of_update + self._mean_loss(self.model.predict(state), rows)
        total = self._further((loss, 1.0), state, rows, self.length, 1.0, updates=True)
        return self._with_leads(total, state, rows)

    def _with_leads(
        self, total: tuple[torch.Tensor, float], state: State, rows: torch.Tensor
    ) -> torch.Tensor:
        """Mean of losses, a sum and its weights, and of those of looks ahead without updates."""
        loss, weights = self._further(total, state, rows, self.horizon, _DECAY, updates=False)
        self.n_batches += 1
        if self.n_batches % _FAR_EVERY == 0 and self.progress >= _FAR_FROM:
            return self._with_far(loss / weights, state, rows)
        return loss / weights

    def _further(
        self,
        total: tuple[torch.Tensor, float],
        state: State,
        rows: torch.Tensor,
        count: int,
        decay: float,
        *,
        updates: bool,
    ) -> tuple[torch.Tensor, float]:
        """A sum of losses and its weights, with those on from states that arrived at some rows."""
        loss, weights = total
        for k in range(1, count):
            if updates:
                state = self.model.observe(state, self.data, rows)
                loss = loss + self._update_loss(state, rows)
            state, rows = self._arrive(state, rows)
            if not len(rows):
                break
            loss = loss + decay**k * self._mean_loss(self.model.predict(state), rows)
            weights += decay**k
        return loss, weights

    def _with_far(self, near: torch.Tensor, state: State, rows: torch.Tensor) -> torch.Tensor:
        """Mean of a loss and of those further ahead of states that arrived at some rows."""
        far = []
        for prediction, at in self._leads(state, rows):
            loss = self._mean_loss(prediction, at)
            if prediction.log_scale is None:  # a likelihood knows its own unit
                loss = loss * (near / loss.clamp(min=1e-12)).clamp(max=1).detach()
            far.append(loss)
        return (near + torch.stack(far).mean()) / 2 if far else near

    def _leads(self, state: State, rows: torch.Tensor) -> Iterator[tuple[Prediction, torch.Tensor]]:
        """Predictions further ahead of states that arrived at some rows, and what rows they are of.

        The further ahead, the fewer.
        """
        for k in range(1, self.furthest):
            if k % HALVED_EVERY == 1:
                some = slice(0, -(-len(rows) // 2))
                state, rows = select(state, some), rows[some]
            state, rows = self._arrive(state, rows)
            if not len(rows):
                return
            yield self.model.predict(state), rows

    def _chosen(self, rows: torch.Tensor) -> torch.Tensor:
        """Which intervals of a minibatch, by the rows that they start from, are learned from."""
        return rows

    def _arrive(self, state: State, rows: torch.Tensor) -> tuple[State, torch.Tensor]:
        """States just before the next observations, of the series that go on, and their rows."""
        rows = self.data.next[rows]
        if not (exists := rows >= 0).all():
            state, rows = select(state, exists), rows[exists]
        if len(rows):
            state = self.model.flow(state, self.data.gap[rows], self.data.elapsed[rows])
        return state, rows

    def _mean_loss(self, prediction: Prediction, rows: torch.Tensor) -> torch.Tensor:
        mean, loss = RunningMean(), prediction_loss(prediction, self.data.x[rows])
        mean.add(weighed(loss, self.data, rows), self.data.mask[rows])
        return mean.value()

    def _update_loss(self, state: State, rows: torch.Tensor) -> torch.Tensor:
        mean = RunningMean()
        add_update_loss(mean, self.model, state, self.data, rows)
        return mean.value()

    def state_dict(self) -> dict[str, Any]:
        """What `refresh` has prepared."""
        return {"states": self.states, "progress": self.progress}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to what an earlier `refresh` prepared."""
        device = self.data.x.device
        if any(len(part) != self.n_stored for part in state["states"].values()):
            raise ValueError("states of other series")
        self.states = {name: part.to(device) for name, part in state["states"].items()}
        self.progress, self.n_batches = state["progress"], 0


class SeriesTask:
    """Train through whole series: slow and deep, but with all of the gradient.

    Parameters
    ----------
    model : SequenceModel
    data : Packed
        All series.
    held_out : bool Tensor of shape (n_series,)
        Series that only validate.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.dynamics import WalledMLP
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import PolyODE, pack
    >>> from skpolyode.training.tasks import SeriesTask
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> model = PolyODE(field, LegTMemory(4, window=2.0), step_size=0.5, max_gap=40.0)
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> task = SeriesTask(model, data, torch.tensor([False]))
    >>> task.loss(torch.tensor([0])).item() == task.refresh()
    True
    """

    scans = False
    """Nothing is prepared."""

    minibatches = Minibatches(16, smallest=32, n_most=512)
    """Fewer series cost as much."""

    item_size = 1.0
    """Minibatches are of so many series."""

    def __init__(self, model: SequenceModel, data: Packed, held_out: torch.Tensor) -> None:
        self.model = model
        self.is_preliminary = False
        self.take(data, held_out)

    def take(self, data: Packed, held_out: torch.Tensor) -> None:
        """Go on with other series."""
        self.data = with_mean_one(data, held_out)
        # One observation alone has nothing to learn from; a minibatch of such has no gradient.
        several = torch.bincount(data.series, minlength=len(held_out)) > 1
        self.items = (several & ~held_out).nonzero()[:, 0]
        self.validation = (held_out if held_out.any() else ~held_out).nonzero()[:, 0]

    def keeps_states(self, progress: float) -> bool:
        """No: there are none."""
        return False

    def refresh(self, progress: float = 1.0) -> float:
        """Return the validation error; there is nothing to store."""
        return forecasting_mse(self.model, self.data.select(self.validation))

    def state_dict(self) -> dict[str, Any]:
        """Nothing is prepared."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing was prepared."""

    def loss(self, index: torch.Tensor) -> torch.Tensor:
        """Mean one-step loss over some series."""
        data = self.data.select(self.items[index])
        mean, of_updates = RunningMean(), RunningMean()
        for step in self.model.run(data):
            counted = data.mask[step.rows] & (data.elapsed[step.rows] > 0)[:, None]
            loss = prediction_loss(step.prediction, data.x[step.rows])
            mean.add(weighed(loss, data, step.rows), counted)
            add_update_loss(of_updates, self.model, step.state, data, step.rows)
        return mean.value() + of_updates.value()
