"""Training tasks: what one epoch prepares, and the loss of a minibatch.

Any model is trained on intervals between observations. One pass without gradients stores the states
of all observations, and minibatches are then drawn from all intervals of all series, so that the
sequential depth of a gradient step is that of a few intervals. Losses and errors of forecasts are
weighted by the precision of the values.

PolyODE trains faster by its reset and its linear memory. An observation resets most of the state
from data and memory. So training goes on from the state after it without the memory, and the data
nearly fix that state. A refresh therefore runs through parts of long series side by side, each from
the state that the last refresh has found at its start. The first refresh starts from the states of
straight lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, InitVar, dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from skpolyode.models.contract import Packed, Prediction, SequenceModel, State, put, select
from skpolyode.models.gain import Passed
from skpolyode.models.polyode import PolyODE
from skpolyode.training.loop import Task

_DECAY = 0.7  # factor of the loss of each further observation that is forecast without updates
# Far ahead (benchmarks/NOTES.md, "Constants of training").
_FAR_FROM = 1 / 4  # share of the training before which the dynamics are too far off
_REACHES = (1.0, 1 / 2, 1 / 4)  # of `furthest`, in turn: the nearer take less time
_JUDGED = 192  # states that validating forecasts start from
_FEWEST_JUDGED = 20  # cells of a lead whose error says something
_LEAST = 1e-6  # squared error that counts as none
_FAR_COST = 8  # intervals forecast for each of a minibatch


_LEAST_MOVE = 1e-3
"""Variances of a channel that forecasts are taken to miss at least: some cells may be exact."""


class Minibatches(NamedTuple):
    """Default sizes of minibatches.

    Parameters
    ----------
    number : int
        Minibatches of an epoch.
    smallest : int
        Least number of items of a minibatch.
    n_most : int
        Largest number of intervals of a minibatch, unless `smallest` items have more.
    """

    number: int
    smallest: int
    n_most: int


@dataclass(eq=False, repr=False)
class IntervalTask(Task):
    """Train on a few intervals at a time, from stored states.

    Parameters
    ----------
    model : SequenceModel
    data : Packed
        Training and validation series together: one pass serves both.
    held_out : bool Tensor of shape (n_series,)
        Series that only validate. If there are none, the training error is taken instead.
    horizon : int, default=1
        Observations forecast from each stored state without updates in between.
    length : int, default=1
        Observations forecast one after the other from each stored state, *with* the updates in
        between. A learned update learns best from more than one.
    furthest : int, default=1
        Observations that some minibatches, or a part of them, forecast without updates, once a
        quarter of the training is done; in turn all of them, half and a quarter. The loss of each
        is scaled to that of the next observation at most: the larger errors far ahead would
        dominate otherwise.

    Notes
    -----
    The states just before observations are stored, so that gradients pass through the update at
    which an interval starts.

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
    >>> task.forgotten_share = 0.0
    >>> error = task.refresh()  # stores the states, before each epoch
    >>> task.items.tolist()  # the two intervals, by the rows that they start from
    [0, 1]
    >>> abs(task.loss(torch.tensor([0, 1])).item() - error) < 1e-12
    True
    """

    minibatches = Minibatches(16, smallest=64, n_most=512)
    """Fewer intervals would cost as much: the depth of a step is that of one."""

    usual_length: ClassVar[int] = 4
    """The `length` that a transformer trains with."""

    hidden_share: ClassVar[float] = 0.0
    """Share of the updates between the first and the last observation that are left out when
    training begins, so that the next forecasts go on from a forecast. It falls to 0 in the end."""

    forgotten_share: ClassVar[float] = 0.3
    """Share of the departures of minibatches from initial states. Models otherwise depend on a
    state that only training series have (benchmarks/NOTES.md, "Departures that know nothing")."""

    far_every: ClassVar[int] = 2
    """One minibatch of so many looks far ahead."""

    fewest_far: ClassVar[int] = 32
    """States that start far forecasts: fewer would cost as much."""

    model: SequenceModel
    data: Packed
    held_out: InitVar[Tensor]
    _: KW_ONLY
    horizon: int = 1
    length: int = 1
    furthest: int = 1

    def __post_init__(self, held_out: Tensor) -> None:
        self.progress, self.n_batches = 0.0, 0
        self.take(self.data, held_out)

    def take(self, data: Packed, held_out: Tensor) -> None:
        """Continue with other series, whose states are not known yet."""
        self.data = self.model.prepared(with_precision(data))
        validating = held_out[data.series]
        starts = data.next >= 0
        if data.knot is not None:  # from observations, and from inputs before the first
            starts &= ~data.knot | (data.gap == 0)
        self.items = (starts & ~validating).nonzero()[:, 0]
        self.scored = validating if held_out.any() else ~validating
        self.counted = data.mask & (self.scored & (data.elapsed > 0))[:, None]
        self.states: State = {}
        self.n_stored = len(data)  # rows whose states are stored

    @torch.no_grad()
    def refresh(self, progress: float = 1.0) -> float:
        """Store the states of all rows, and return the validation error.

        `progress` is the share of the training that is done.
        """
        self.data = self.model.prepared(self.data)
        self.progress, self.n_batches = progress, 0
        predictions = torch.empty_like(self.data.x)
        for block in self.data.blocks():
            for rows, prediction, stored in self._pass(block, progress):
                self._store(rows, stored)
                predictions[rows] = prediction
        self.found = self._estimated(predictions)
        self.error_ahead = self._error_ahead()
        return self._validation_error((self.data.x - predictions).square())

    def _estimated(self, predictions: Tensor) -> dict[str, Tensor]:
        """Weights estimated from the `predictions` (P, D); see :attr:`Task.found`."""
        return {}

    def _error_ahead(self) -> float | None:
        """Geometric mean of the errors at leads from 2 on, by powers of two; None without any.

        It is that of a sample of the scored rows, always the same.
        """
        rows = (self.scored & (self.data.next >= 0)).nonzero()[:, 0]
        if self.data.knot is not None:
            rows = rows[~self.data.knot[rows]]
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
        rows = rows[order[:_JUDGED].to(rows.device)]
        if self.furthest < 2 or not len(rows):
            return None
        state, rows = self.model.arrive(self._depart(rows), self.data, rows)
        sums: dict[int, Tensor] = {}  # of squared errors and their number, by powers of two
        for lead, (prediction, at) in enumerate(self._leads(state, rows, self.furthest), start=2):
            error = (prediction.mean - self.data.x[at])[self.data.mask[at]].double().square()
            cells = torch.stack([error.sum(), error.new_tensor(len(error))])
            sums[lead.bit_length()] = sums.get(lead.bit_length(), 0.0) + cells
        means = [total / n for total, n in sums.values() if n >= _FEWEST_JUDGED]
        return float((torch.stack(means) + _LEAST).log().mean().exp()) if means else None

    def _validation_error(self, errors: Tensor) -> float:
        """Mean of the squared errors (P, D) that count, which are noted by series as well."""
        data, part = self.data, (errors, slice(None), self.counted)
        losses = weighted(data, *part)
        cells = torch.stack([losses, self.counted.to(losses.dtype)]).sum(dim=2)
        sums = cells.new_zeros(2, data.n_series).index_add_(1, data.series, cells)
        self.series_errors = sums[:, sums[1] > 0].double()
        return float(weighted_mean(data, [part]))

    def _pass(self, block: list[slice], progress: float) -> Iterator[tuple[Tensor, Tensor, State]]:
        """Rows (n,) of a block, their predictions (n, D), and the states to store."""
        for step in self.model.run_block(self.data, block):
            yield step.rows, step.prediction.mean, step.before

    def _depart(self, rows: Tensor) -> State:
        """Differentiable states after the observations at `rows`, from the stored ones."""
        return self._observed(self._before(rows), rows)

    def _set_out(self, rows: Tensor) -> State:
        """As `_depart`, for a minibatch: some states begin anew, as if they knew nothing."""
        return self._observed(self._before(rows, self._forgotten(rows)), rows)

    def _forgotten(self, rows: Tensor) -> Tensor:
        """Which departures (n,) of the next minibatch forget what is learned."""
        drawn = torch.rand(len(rows), generator=self._generator(), dtype=torch.float32)
        return (drawn < self.forgotten_share).to(rows.device)

    def _observed(self, state: State, rows: Tensor) -> State:
        """States after the observations at `rows`, from those just before."""
        return self.model.observe(state, self.data, rows)

    def _store(self, rows: Tensor, states: State) -> None:
        """Store states of rows until the next refresh."""
        for name, part in states.items():
            if name not in self.states:
                self.states[name] = part.new_empty(self.n_stored, *part.shape[1:])
            self.states[name][rows] = part

    def _before(self, rows: Tensor, anew: Tensor | bool = False) -> State:
        """States just before observations: stored, but for the initial ones, which learn.

        Rows `anew` (n,) have initial states as well.
        """
        stored, first = self._stored(rows), (self.data.gap[rows] == 0) | anew
        if first.any():
            start = self.model.initial(self.data, rows[first])
            stored = put(stored, first.nonzero()[:, 0], start)
        return stored

    def _stored(self, rows: Tensor) -> State:
        """States just before observations, from the last refresh."""
        return select(self.states, rows)

    def loss(self, index: Tensor) -> Tensor:
        """Mean loss over the next observations of a minibatch of intervals."""
        rows = self._chosen(self.items[index])
        state = self._set_out(rows)
        loss = self._update_loss(state, rows)
        state, rows = self.model.arrive(state, self.data, rows)
        loss, weights = loss + self._mean_loss(self.model.predict(state), rows), 1.0
        then, at = state, rows
        for is_hidden in self._hidden():
            if is_hidden:
                then = self.model.steer(then, self.data, at)
            else:
                then = self._observed(then, at)
                loss = loss + self._update_loss(then, at)
            then, at = self.model.arrive(then, self.data, at)
            if not len(at):
                break
            loss, weights = loss + self._mean_loss(self.model.predict(then), at), weights + 1.0
        return self._with_leads(loss, weights, state, rows)

    def _hidden(self) -> list[bool]:
        """Which observations after the first one the model does not see in the next minibatch."""
        drawn = torch.rand(self.length - 1, dtype=torch.float32, generator=self._generator())
        return (drawn < self.hidden_share * (1.0 - self.progress)).tolist()

    def _generator(self) -> torch.Generator:
        """Source of a minibatch's draws, the same for the k-th minibatch of each epoch."""
        return torch.Generator().manual_seed(self.n_batches)

    def _with_leads(self, loss: Tensor, weights: float, state: State, rows: Tensor) -> Tensor:
        """Weighted mean of losses, whose sum is given, and of forecasts without updates.

        These start from states that arrived at `rows`.
        """
        nearest = IntervalTask._leads(self, state, rows, self.horizon)  # as of any model
        for k, (prediction, at) in enumerate(nearest, start=1):
            loss = loss + _DECAY**k * self._mean_loss(prediction, at)
            weights += _DECAY**k
        near, far = loss / weights, []
        self.n_batches += 1
        if self.n_batches % self.far_every or self.progress < _FAR_FROM:
            return near
        share = _REACHES[self.n_batches // self.far_every % len(_REACHES)]
        reach = math.ceil(self.furthest * share)
        n = _FAR_COST * min(len(rows), IntervalTask.minibatches.n_most) // reach
        n = max(n, self.fewest_far)
        order = torch.randperm(len(rows), generator=self._generator())
        some = order[:n].to(rows.device)
        for prediction, at in self._leads(select(state, some), rows[some], reach):
            loss = self._mean_loss(prediction, at)
            if prediction.log_scale is None:  # a likelihood has a unit already
                loss = loss * (near / loss.clamp(min=1e-12)).clamp(max=1).detach()
            far.append(loss)
        return (near + torch.stack(far).mean()) / 2 if far else near

    def _leads(self, state: State, rows: Tensor, reach: int) -> Iterator[tuple[Prediction, Tensor]]:
        """Forecasts further ahead of states that arrived at `rows`, with the rows forecast."""
        for _ in range(1, reach):
            state, rows = self.model.arrive(
                self.model.steer(state, self.data, rows), self.data, rows
            )
            if not len(rows):
                return
            yield self.model.predict(state), rows

    def _chosen(self, rows: Tensor) -> Tensor:
        """Rows of a minibatch whose intervals are learned from."""
        return rows

    def _mean_loss(self, prediction: Prediction, rows: Tensor) -> Tensor:
        loss = prediction_loss(prediction, self.data.x[rows])
        return weighted_mean(self.data, [(loss, rows, self.data.mask[rows])])

    def _update_loss(self, state: State, rows: Tensor) -> Tensor:
        loss = self.model.update_loss(state, self.data, rows)
        return weighted_mean(self.data, [(loss, rows, self.data.mask[rows])])


def prediction_loss(prediction: Prediction, x: Tensor) -> Tensor:
    """Loss of each value: the squared error, or the negative log-likelihood if there is a scale.

    Parameters
    ----------
    prediction : Prediction
        With a `log_scale` s the loss is ``s + (x - mean)**2 exp(-2 s) / 2``, that of a normal
        distribution up to a constant.
    x : Tensor of shape (..., D)
        The observed values.

    Returns
    -------
    Tensor of shape (..., D)

    Examples
    --------
    >>> import torch
    >>> from skpolyode.models import Prediction
    >>> from skpolyode.training import prediction_loss
    >>> prediction_loss(Prediction(torch.zeros(2)), torch.tensor([1.0, 2.0])).tolist()
    [1.0, 4.0]
    """
    square = (x - prediction.mean).square()
    if prediction.log_scale is None:
        return square
    return prediction.log_scale + 0.5 * square * torch.exp(-2 * prediction.log_scale)


def weighted(data: Packed, losses: Tensor, rows: Tensor | slice, counted: Tensor) -> Tensor:
    """Losses (n, D) of some rows times the precisions of their values; 0 for those not counted."""
    if data.precision is not None:
        losses = losses * data.precision[rows].to(losses.dtype)
    return torch.where(counted, losses, 0.0)


Losses = tuple[Tensor | None, Tensor | slice, Tensor]


def weighted_mean(data: Packed, parts: Iterable[Losses]) -> Tensor:
    """Mean of losses (n, D) times the precision of their values; zero if nothing is counted.

    Each part has losses, or None, their rows, and a mask of those that are counted; the others may
    be anything.
    """
    total, count = 0.0, 0
    for losses, rows, counted in parts:
        if losses is not None:
            total = total + weighted(data, losses, rows, counted).sum()
            count = count + counted.sum()
    return torch.as_tensor(total / max(int(count), 1), device=data.x.device)


def forecasting_mse(model: SequenceModel, data: Packed) -> float:
    """Mean squared one-step error of the forecasts of all observed values.

    The first row of a series starts its state; it is not forecast and does not count.

    Parameters
    ----------
    model : SequenceModel
        The model that forecasts.
    data : Packed
        All series.

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
    >>> from skpolyode.models import PolyODE, pack
    >>> from skpolyode.training import forecasting_mse
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> model = PolyODE(field, LegTMemory(4, window=2.0), step_size=0.5, max_gap=40.0)
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> forecasting_mse(model, data) > 0
    True
    """
    counted = data.mask & (data.elapsed > 0)[:, None]
    with torch.no_grad():
        errors = (
            ((data.x[rows] - prediction.mean).square(), rows, counted[rows])
            for rows, _, prediction, _ in model.run(data)
        )
        return float(weighted_mean(data, errors))


def with_precision(data: Packed) -> Packed:
    """Weight values by their information about a forecast, ``1 / (V + sigma**2)``.

    V is the mean squared move of the signal of the channel from one observation to the next, the
    most that a forecast should miss. An unknown error is replaced by the median of the channel.
    """
    if data.error is None:
        return data
    noise = data.error.square()
    typical = torch.nan_to_num(noise.nanmedian(dim=0).values)
    noise = torch.where(noise.isnan(), typical, noise)
    moved, order = torch.ones_like(typical), data.series.argsort(stable=True)
    for j in range(len(moved)):
        rows = order[data.mask[order, j]]
        before, after = rows[:-1], rows[1:]
        both = noise[before, j] + noise[after, j]
        square = (data.x[after, j] - data.x[before, j]).double().square() - both
        trust = (both + both.median()).clamp(min=_LEAST_MOVE).pow(-2) if len(both) else both
        trust = trust * (data.series[before] == data.series[after])
        moved[j] = (trust * square).sum() / trust.sum().clamp(min=1e-300)
    moved = moved.clamp(_LEAST_MOVE, 1.0)
    precision = (moved + typical) / (moved + noise)
    mean = torch.where(data.mask, precision, 0.0).sum() / data.mask.sum()
    return replace(data, precision=precision / mean)


class SubsampledTask:
    """A task that continues with another subsample of the series in each epoch.

    All other attributes and methods are those of the task of the present subsample.

    The cost of an epoch then does not grow with the data. Subsamples are dealt from the series in
    random order, so that no series is drawn again before all others were. If storing the states of
    a subsample takes a pass in order, which costs as much as its gradients, they serve two epochs.

    Parameters
    ----------
    new_task : callable
        Makes the task, such as an :class:`IntervalTask`, of the data of a subsample and of which of
        its series only validate.
    read : callable
        From positions (n,) of series to these two. It adds the series that validate, always the
        same.
    n_series : int
        Number of series to learn from.
    n_drawn : int
        Number of series in a subsample.
    seed : int
        Seed of the order of the series; nothing else is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.dynamics import WalledMLP
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import PolyODE, pack
    >>> from skpolyode.training.tasks import PolyODETask, SubsampledTask
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> model = PolyODE(field, LegTMemory(4, window=2.0), step_size=0.5, max_gap=40.0)
    >>> levels = np.arange(12.0)  # of constant series; the first two validate
    >>> def read(positions):
    ...     values = np.repeat(levels[[0, 1, *(2 + positions)]], 3)[:, None]
    ...     data = pack(np.arange(len(values)) % 3.0, values, np.arange(0, len(values) + 1, 3))
    ...     return data, torch.arange(data.n_series) < 2
    >>> task = SubsampledTask(
    ...     lambda *part: PolyODETask(model, *part), read, n_series=10, n_drawn=5, seed=0
    ... )
    >>> seen = []
    >>> for epoch in range(2):
    ...     error = task.refresh(epoch / 2)
    ...     seen.append(set(task.data.x[task.items, 0].tolist()))
    >>> [len(part) for part in seen], sorted(seen[0] | seen[1]) == list(levels[2:])
    ([5, 5], True)
    """

    def __init__(
        self,
        new_task: Callable[[Packed, Tensor], IntervalTask],
        read: Callable[[np.ndarray], tuple[Packed, Tensor]],
        *,
        n_series: int,
        n_drawn: int,
        seed: int,
    ) -> None:
        self.read, self.n_series, self.n_drawn, self.seed = read, n_series, n_drawn, seed
        self.task = new_task(*read(self.positions(0)))
        self.number, self.is_used = 0, False
        self.may_stay = self.stays = False
        self.error = float("inf")

    def positions(self, number: int) -> np.ndarray:
        """Series of a subsample, counted from 0 through all epochs."""
        turns = np.arange(self.n_drawn) + number * self.n_drawn
        deals, places = np.divmod(turns, self.n_series)
        found = []
        for deal in np.unique(deals):  # of all series, each deal in another order
            order = np.random.default_rng((self.seed, deal)).permutation(self.n_series)
            found.append(order[places[deals == deal]])
        return np.concatenate(found)

    def __getattr__(self, name: str) -> Any:
        if name == "task":  # it is not made yet
            raise AttributeError(name)
        return getattr(self.task, name)

    @property
    def is_preliminary(self) -> bool:
        """Whether the last validation error cannot be compared with later ones."""
        return self.stays or self.task.is_preliminary

    def refresh(self, progress: float = 1.0) -> float:
        """Continue with the next subsample, unless its states serve once more.

        Returns the validation error.
        """
        self.stays = self.may_stay and progress < 1
        if self.stays:  # the states and the error are those of the last epoch
            self.may_stay = False
            return self.error
        if self.is_used and not self.task.keeps_states(progress):
            self.number += 1
            self.task.take(*self.read(self.positions(self.number)))
        self.is_used = True
        self.error = self.task.refresh(progress)
        self.may_stay = self.task.scans and not self.task.keeps_states(progress)
        return self.error


# While the field is far off, midpoint steps, the states of straight lines and short intervals show
# it where to go, and cost less.
_COARSE_SHARE = 1 / 8  # of the training
_COARSE_STEPS = 4  # longest intervals in it
_CHUNK = 4096  # intervals at once: bounds memory


class PolyODETask(IntervalTask):
    """Intervals of a PolyODE, from states `z` just before the observations that begin them.

    Beside them the memories `c` after these observations are stored.

    Parameters
    ----------
    model : PolyODE
    data : Packed
        Training and validation series together: one pass serves both.
    held_out : bool Tensor of shape (n_series,)
        Series that only validate. If there are none, the training error is taken instead.
    horizon : int, default=1
        Observations forecast from each stored state without updates in between.
    length : int, default=1
        Observations forecast one after the other, with the updates in between.
    furthest : int, default=1
        Observations that some minibatches forecast; see
        :class:`~skpolyode.training.tasks.IntervalTask`.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.dynamics import WalledMLP
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import PolyODE, pack
    >>> from skpolyode.training.tasks import PolyODETask
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> model = PolyODE(field, LegTMemory(4, window=2.0), step_size=0.5, max_gap=40.0)
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> task = PolyODETask(model, data, torch.tensor([False]))
    >>> error = task.refresh()  # stores the states, before each epoch
    >>> task.loss(torch.tensor([0, 1])).item() == error
    True
    """

    model: PolyODE

    hidden_share = 0.5
    """With all updates, or with half of them to the end, free runs have larger errors than those of
    a share that falls (benchmarks/NOTES.md, "Constants of training")."""

    fewest_far = 64
    """With 32, errors many rows ahead are larger (there, too)."""

    forgotten_share = 0.5
    """Share of the departures without the learned state, so that the field does not depend on it
    where signal and memory are better predictors (there, too)."""

    part_rows = 32
    """Rows of the parts of long series that a refresh runs through side by side. Whole series of
    200 rows would take half of the time of a fit. The learned state gets this much further into a
    series with each refresh."""

    def __post_init__(self, held_out: Tensor) -> None:
        super().__post_init__(held_out)
        self.starts_anew = self.model.field.stands_still
        self.n_refreshed = 0

    def take(self, data: Packed, held_out: Tensor) -> None:
        """Continue with other series, from the states of straight lines."""
        super().take(data, held_out)
        # All that a field which stands still depends on.
        memory = self.model.memory
        c = data.x.new_zeros(*data.x.shape, memory.n_coefficients, dtype=memory.dtype)
        z = data.x.new_zeros(len(data.x), self.model.size)
        z[:, self.model.signals] = data.x
        self.states = {"z": z, "c": c}
        self.is_new = True
        validating = (data.next >= 0) & self.scored
        if data.knot is not None:
            validating &= ~data.knot
        self.validating = validating.nonzero()[:, 0]

    @property
    def scans(self) -> bool:
        """Whether a refresh goes through whole series; their parts side by side cost less.

        If all channels are observed together, a run can start from the states of rows.
        """
        return not bool(self.data.mask.all())

    def keeps_states(self, progress: float) -> bool:
        """Whether the coarse part continues, which keeps the states of its beginning."""
        return self.n_refreshed > 0 and self.starts_anew and progress < _COARSE_SHARE

    @torch.no_grad()
    def refresh(self, progress: float = 1.0) -> float:
        """Store the state before every observation, and return the validation error.

        In the coarse first part the states stay those of straight lines, and the error is
        preliminary: the model's own states may be worse.
        """
        self.model.is_coarse = self.starts_anew and progress < _COARSE_SHARE
        self.is_preliminary = self.keeps_states(progress)
        if self.is_preliminary:
            return self._validate()
        error = super().refresh(progress)
        self.n_refreshed += 1
        self.is_new = False
        return self._validate() if self.model.is_coarse else error

    def _estimated(self, predictions: Tensor) -> dict[str, Tensor]:
        """Noise and gain of a filter."""
        if (gain := self.model.gain) is None:
            return {}
        passed = self._passed() if gain.known_errors == "none" else None
        gain.estimate(self.data, predictions, passed, self.counted)
        return {f"gain.{name}": x.clone() for name, x in gain.named_buffers()}

    def _passed(self) -> Passed:
        """Forecasts from the stored states, past the observations that these come before."""
        again = (self.data.mask & self.data.seen).any(dim=1)
        rows = (again & (self.data.next >= 0)).nonzero()[:, 0]

        z, steer = self.states["z"], self.model.steer
        parts = self._forecasts(rows, lambda part: steer({"z": z[part]}, self.data, part))
        following, predictions = (torch.cat(column) for column in zip(*parts, strict=True))
        return Passed(rows, following, predictions)

    def _forecasts(
        self, rows: Tensor, depart: Callable[[Tensor], State]
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows of the next observations, and their forecasts from states that `depart` at rows."""
        for part in rows.split(_CHUNK):
            state, following = self.model.arrive(depart(part), self.data, part)
            yield following, self.model.predict(state).mean

    def _validate(self) -> float:
        """Validation error from the stored states."""
        data = self.data
        errors = torch.zeros_like(data.x)
        for rows, predictions in self._forecasts(self.validating, self._depart):
            errors[rows] = (data.x[rows] - predictions).square()
        return self._validation_error(errors)

    def _pass(self, block: list[slice], progress: float) -> Iterator[tuple[Tensor, Tensor, State]]:
        """States of the present weights; within long series, from those of the last refresh."""
        starts, later = {}, block[self.part_rows :: self.part_rows]
        if later and not (self.is_new or self.scans or progress == 1):  # where parts start
            device = self.data.x.device
            rows = torch.cat([torch.arange(r.start, r.stop, device=device) for r in later])
            starts = {"starts": (rows, self._stored(rows))}
        for step in self.model.run_block(self.data, block, **starts):
            before = self._known(step.before["z"], step.before["c"], step.rows)
            yield step.rows, step.prediction.mean, {"z": before, "c": step.state["c"]}

    def _known(self, z: Tensor, c: Tensor, rows: Tensor) -> Tensor:
        """States just before rows, with the memory there in place of its copy, which is reset."""
        channels, rest = self.model.split(z)
        reset = torch.cat([channels[..., :1], c.to(z.dtype)], dim=-1)
        channels = torch.where(self.data.mask[rows][..., None], reset, channels)
        return torch.cat([channels.flatten(1), rest], dim=1)

    def _set_out(self, rows: Tensor) -> State:
        """States after the observations at `rows`, some of which do not know the learned state."""
        state, forgotten = self._before(rows), self._forgotten(rows)
        forgotten &= self.data.gap[rows] > 0  # a first state is what covariates have set
        signals, learned, inputs = state["z"].split(self.model.parts, dim=1)
        learned = torch.where(forgotten[:, None], 0.0, learned)
        return self._observed(state | {"z": torch.cat([signals, learned, inputs], dim=1)}, rows)

    def _observed(self, state: State, rows: Tensor) -> State:
        """States after the observations at `rows`, without memory: the dynamics need none.

        The memory of a filter follows its forecasts, which change. Otherwise the memory after the
        observations serves as it was stored.
        """
        if self.model.filters:
            known = state if "c" in state else state | {"c": self._stored(rows)["c"]}
            return {"z": self.model.observe(known, self.data, rows)["z"]}
        return {"z": self.model.reset(state["z"], self.states["c"][rows], self.data, rows)}

    def _leads(self, state: State, rows: Tensor, reach: int) -> Iterator[tuple[Prediction, Tensor]]:
        """As for any model, but all in one run, in which no series waits for another."""
        if self.data.inputs is not None:
            yield from super()._leads(state, rows, reach)
            return
        starts, targets = [], []  # of each lead: the states that it starts from, and its rows
        start = torch.arange(len(rows), device=rows.device)
        for _ in range(1, reach):
            rows = self.data.next[rows]
            start, rows = start[rows >= 0], rows[rows >= 0]
            if len(rows):
                starts.append(start)
                targets.append(rows)
        if not starts:
            return
        gone_on, start = torch.cat(starts).unique(return_inverse=True)
        order = start.argsort(stable=True)
        gaps = self.data.gap[torch.cat(targets)[order]]
        signals = self.model.visit(state["z"][gone_on], start[order], gaps)[order.argsort()]
        yield from zip(map(Prediction, signals.split([*map(len, starts)])), targets, strict=True)

    def _stored(self, rows: Tensor) -> State:
        z = self.states["z"][rows]
        return {"z": z, "c": self.model.split(z)[0][..., 1:].to(self.model.memory.dtype)}

    def _chosen(self, rows: Tensor) -> Tensor:
        """Rows followed by a short gap in the coarse part, if there are any; all rows later."""
        if not self.model.is_coarse:
            return rows
        short = self.data.gap[self.data.next[rows]] <= _COARSE_STEPS * self.model.step_size
        return rows[short] if short.any() else rows
