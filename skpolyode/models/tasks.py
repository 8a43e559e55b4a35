"""What training asks of a model: a refresh before each epoch, and a loss on some items.

:class:`IntervalTask` is the fast one: one pass without gradients stores the states of all
observations, and minibatches are then drawn from all intervals of all series, so that the
sequential depth of a gradient step is that of a few intervals. :class:`SeriesTask`
back-propagates through whole series. Both serve any model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from skpolyode.models.contract import Prediction, SequenceModel, State, select
from skpolyode.models.packed import Packed
from skpolyode.models.weights import weighed, with_mean_one

__all__ = ["IntervalTask", "RunningMean", "SeriesTask", "forecasting_mse", "prediction_loss"]

_DECAY = 0.7  # weight of each further observation that is looked at without updates
# Looks far ahead take many steps: none while the dynamics are far off, few minibatches later on,
# and the further ahead the fewer intervals.
_FAR_FROM = 1 / 4  # of the training
_FAR_EVERY = 6  # minibatches
HALVED_EVERY = 4  # observations


class RunningMean:
    """Mean of the counted entries of several tensors, kept on the device."""

    def __init__(self) -> None:
        self.total: float | torch.Tensor = 0.0
        self.count: int | torch.Tensor = 0

    def add(self, values: torch.Tensor, counted: torch.Tensor) -> None:
        """Take in some values; what is not counted may be anything."""
        self.total = self.total + torch.where(counted, values, 0.0).sum()
        self.count = self.count + counted.sum()

    def value(self) -> torch.Tensor:
        """The mean; zero of nothing."""
        return torch.as_tensor(self.total / max(int(self.count), 1))


def prediction_loss(prediction: Prediction, x: torch.Tensor) -> torch.Tensor:
    """Loss of each value: the squared error, or the negative log-likelihood of a known scale.

    Parameters
    ----------
    prediction : Prediction
        Of a model; with `log_scale` s the loss is ``s + (x - mean)**2 exp(-2 s) / 2``, that of a
        normal distribution up to a constant.
    x : Tensor of shape (..., D)
        What came.

    Returns
    -------
    Tensor of shape (..., D)

    Examples
    --------
    >>> import torch
    >>> from skpolyode.models import Prediction, prediction_loss
    >>> prediction_loss(Prediction(torch.zeros(2)), torch.tensor([1.0, 2.0])).tolist()
    [1.0, 4.0]
    """
    square = (x - prediction.mean).square()
    if prediction.log_scale is None:
        return square
    return prediction.log_scale + 0.5 * square * torch.exp(-2 * prediction.log_scale)


def _add_update_loss(
    mean: RunningMean, model: SequenceModel, state: State, data: Packed, rows: torch.Tensor
) -> None:
    """Take in the loss of states after the observations of some rows, if the model has such one."""
    loss = model.update_loss(state, data, rows)
    if loss is not None:
        mean.add(weighed(loss, data, rows), data.mask[rows])


def forecasting_mse(model: SequenceModel, data: Packed) -> float:
    """Mean squared one-step error of the forecasts of all observed values.

    The first row of a series, which starts the state, is not forecast and does not count.

    Parameters
    ----------
    model : SequenceModel
        What forecasts.
    data : Packed
        All series. Weights, if it has any, should have a mean of one.

    Returns
    -------
    float
        In squared standard deviations; 0 where there is nothing to forecast.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.dynamics import WalledMLP
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import PolyODE, forecasting_mse, pack
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> model = PolyODE(field, LegTMemory(4, window=2.0), step_size=0.5, max_gap=40.0)
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> forecasting_mse(model, data) > 0
    True
    """
    mean = RunningMean()
    with torch.no_grad():
        for step in model.run(data):
            counted = data.mask[step.rows] & (data.elapsed[step.rows] > 0)[:, None]
            error = (data.x[step.rows] - step.prediction.mean).square()
            mean.add(weighed(error, data, step.rows), counted)
    return float(mean.value())


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
    >>> from skpolyode.models import IntervalTask, PolyODE, pack
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

    smallest_batch = 64
    """Fewer intervals cost as much: the depth of a step is that of one."""

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
                for name, part in stored.items():
                    if name not in self.states:
                        self.states[name] = part.new_empty(len(self.data), *part.shape[1:])
                    self.states[name][rows] = part
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
        stored, first = self._stored(rows), self.data.elapsed[rows] == 0
        if first.any():  # the start of a series learns as well
            start = self.model.initial(self.data, rows[first])
            at = (first.nonzero()[:, 0],)
            stored = {name: part.index_put(at, start[name]) for name, part in stored.items()}
        return self.model.observe(stored, self.data, rows)

    def _stored(self, rows: torch.Tensor) -> State:
        """States just before the observations of some rows, as a refresh has left them."""
        return select(self.states, rows)

    def loss(self, index: torch.Tensor) -> torch.Tensor:
        """Mean loss over the next observations of some intervals."""
        rows = self._chosen(self.items[index])
        state = self._depart(rows)
        of_update = self._update_loss(state, rows)
        state, rows = self._arrive(state, rows)
        total, weights = of_update + self._mean_loss(self.model.predict(state), rows), 1.0
        # On from there, without the updates and with them.
        for count, decay, updates in ((self.horizon, _DECAY, False), (self.length, 1.0, True)):
            ahead, at = state, rows
            for k in range(1, count):
                if updates:
                    ahead = self.model.observe(ahead, self.data, at)
                    total = total + self._update_loss(ahead, at)
                ahead, at = self._arrive(ahead, at)
                if not len(at):
                    break
                total = total + decay**k * self._mean_loss(self.model.predict(ahead), at)
                weights += decay**k
        self.n_batches += 1
        if self.n_batches % _FAR_EVERY == 0 and self.progress >= _FAR_FROM:
            return self._with_far(total / weights, state, rows)
        return total / weights

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
        _add_update_loss(mean, self.model, state, self.data, rows)
        return mean.value()

    def state_dict(self) -> dict[str, Any]:
        """What `refresh` has prepared."""
        return {"states": self.states, "progress": self.progress}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to what an earlier `refresh` prepared."""
        device = self.data.x.device
        if any(len(part) != len(self.data) for part in state["states"].values()):
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
    >>> from skpolyode.models import PolyODE, SeriesTask, pack
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

    smallest_batch = 32
    """Fewer series cost as much."""

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
            _add_update_loss(of_updates, self.model, step.state, data, step.rows)
        return mean.value() + of_updates.value()
