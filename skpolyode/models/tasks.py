"""What training asks of PolyODE: a refresh before each epoch, and a loss on some items.

:class:`IntervalTask` is the fast one. The dynamics restart at each observation from a state that
the data nearly fix, so one pass without gradients stores all these states, and minibatches are
then drawn from all intervals of all series: the sequential depth of a gradient step is that of
one interval. :class:`SeriesTask` back-propagates through whole series, as the paper does.
"""

from __future__ import annotations

from typing import Any

import torch

from skpolyode.dynamics import STEPPERS
from skpolyode.models.packed import Packed
from skpolyode.models.polyode import PolyODE
from skpolyode.models.sweep import CHUNK, observed_states, sweep

__all__ = ["TASKS", "IntervalTask", "SeriesTask", "forecasting_mse"]

_LAST_SWEEPS = 4  # bring the last states within 1e-4 of their distance to the exact ones
# The first part of the training, in which the field is still far off. Midpoint steps, the states of
# straight lines and the intervals of few steps show it where to go, and cost less.
_COARSE_SHARE = 1 / 8
_COARSE_STEPS = 4
_DECAY = 0.7  # weight of each further observation that is looked at


class _Mean:
    """Running mean of squared errors, kept on the device."""

    def __init__(self) -> None:
        self.total: float | torch.Tensor = 0.0
        self.count: int | torch.Tensor = 0

    def add(self, error: torch.Tensor, counted: torch.Tensor) -> None:
        self.total = self.total + torch.where(counted, error, 0.0).square().sum()
        self.count = self.count + counted.sum()

    def value(self) -> torch.Tensor:
        return torch.as_tensor(self.total / max(int(self.count), 1))


def forecasting_mse(model: PolyODE, data: Packed) -> float:
    """Mean squared one-step error of the forecasts of all observed values.

    The first row of a series, which starts the state, is not forecast and does not count.

    Parameters
    ----------
    model : PolyODE
        What forecasts.
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
    >>> from skpolyode.models import PolyODE, forecasting_mse, pack
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> model = PolyODE(field, LegTMemory(4, window=2.0), step_size=0.5, max_gap=40.0)
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> forecasting_mse(model, data) > 0
    True
    """
    mean = _Mean()
    with torch.no_grad():
        for step in model.steps(data):
            counted = data.mask[step.rows] & (data.elapsed[step.rows] > 0)[:, None]
            mean.add(data.x[step.rows] - step.prediction, counted)
    return float(mean.value())


class IntervalTask:
    """Train on single intervals, from stored states.

    Parameters
    ----------
    model : PolyODE
    data : Packed
        Training and validation series together: one pass serves both.
    held_out : bool Tensor of shape (n_series,)
        Series that only validate. If there are none, the training error stands in.
    horizon : int
        Observations looked ahead from each stored state, without updates in between.

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
    >>> task = IntervalTask(model, data, torch.tensor([False]), horizon=1)
    >>> error = task.refresh()  # stores the states, before each epoch
    >>> task.items.tolist()  # the two intervals, by the rows that they start from
    [0, 1]
    >>> task.loss(torch.tensor([0, 1])).item() == error
    True
    """

    def __init__(
        self, model: PolyODE, data: Packed, held_out: torch.Tensor, *, horizon: int
    ) -> None:
        self.model, self.data, self.horizon = model, data, horizon
        # All that a field which stands still depends on.
        self.states = observed_states(model, data.x)
        self.starts_anew = model.field.stands_still
        self.stepper = model.stepper
        self.n_refreshed = 0
        self.is_preliminary = False
        validating = held_out[data.series]
        self.items = ((data.next >= 0) & ~validating).nonzero()[:, 0]
        scored = validating if held_out.any() else ~validating
        self.validating = ((data.next >= 0) & scored).nonzero()[:, 0]
        self.counted = data.mask & (scored & (data.elapsed > 0))[:, None]

    @torch.no_grad()
    def refresh(self, progress: float = 1.0) -> float:
        """Store the state after every observation, and return the validation error.

        `progress` is the share of the training that is done. Where they can be, the states are
        those of a :func:`~skpolyode.models.sweep.sweep`. In the coarse first part they stay those
        of straight lines, and the error is preliminary: the model's own states may be worse.
        """
        coarse = self.starts_anew and progress < _COARSE_SHARE
        self._set_coarse(coarse)
        self.is_preliminary = coarse and self.n_refreshed > 0
        if self.is_preliminary:
            return self._validate()
        must_scan, n_sweeps = self._must_scan(), _LAST_SWEEPS if progress == 1 else 1
        mean = _Mean()
        for block in self.data.blocks():
            rows = torch.arange(block[0].start, block[-1].stop, device=self.data.x.device)
            static = self._static_part(rows)
            if must_scan:
                predictions, states = self._scan(block)
            else:
                predictions, states = self._sweep(block, self.states[rows] + static, n_sweeps)
            self.states[rows] = states - static
            mean.add(self.data.x[rows] - predictions, self.counted[rows])
        self.n_refreshed += 1
        return self._validate() if coarse else float(mean.value())

    def _validate(self) -> float:
        """Validation error from the states as they are stored."""
        error = _Mean()
        for rows in self.validating.split(CHUNK):
            target = self.data.next[rows]
            z = self.model.flow(self.states[rows] + self._static_part(rows), self.data.gap[target])
            error.add(self.data.x[target] - z[..., 0], self.counted[target])
        return float(error.value())

    def _short(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows that are followed by a short gap, if there are any."""
        short = self.data.gap[self.data.next[rows]] <= _COARSE_STEPS * self.model.step_size
        return rows[short] if short.any() else rows

    def state_dict(self) -> dict[str, Any]:
        """What `refresh` has prepared."""
        coarse = self.is_coarse
        return {"states": self.states, "n_refreshed": self.n_refreshed, "coarse": coarse}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to what an earlier `refresh` prepared."""
        if state["states"].shape != self.states.shape:
            raise ValueError("states of other series")
        self.states, self.n_refreshed = state["states"].to(self.states.device), state["n_refreshed"]
        self._set_coarse(state["coarse"])

    @property
    def is_coarse(self) -> bool:
        """Whether training is in its coarse first part."""
        return self.model.stepper is not self.stepper

    def _set_coarse(self, coarse: bool) -> None:
        self.model.stepper = STEPPERS["midpoint"] if coarse else self.stepper

    def _must_scan(self) -> bool:
        """Whether a sweep would be too far from the states of the present weights.

        Where all channels are observed together it is not: each observation sets the state anew.
        A channel that is not observed carries its state on, and a sweep brings it no further than
        one observation: weights that blow up over several would look good.
        """
        starts_far = self.n_refreshed == 0 and not self.starts_anew
        return starts_far or not self.model.separable or not bool(self.data.mask.all())

    def _sweep(
        self, block: list[slice], states: torch.Tensor, n_sweeps: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        for _ in range(n_sweeps):
            predictions, states, _ = sweep(self.model, self.data, block, states)
        return predictions, states

    def _scan(self, block: list[slice]) -> tuple[torch.Tensor, torch.Tensor]:
        begin, end = block[0].start, block[-1].stop
        states = torch.empty_like(self.states[begin:end])
        predictions = torch.empty_like(states[..., 0])
        for step in self.model.block_steps(self.data, block):
            rows = step.rows - begin
            predictions[rows], states[rows] = step.prediction, step.z
        return predictions, states

    def _static_part(self, rows: torch.Tensor) -> torch.Tensor | float:
        return 0.0 if self.model.start is None else self.model.static_part(self.data, rows)

    def loss(self, index: torch.Tensor) -> torch.Tensor:
        """Mean squared error over the next observations of some intervals."""
        row = self.items[index]
        if self.is_coarse:
            row = self._short(row)
        z, total, weights = self.states[row] + self._static_part(row), 0.0, 0.0
        for ahead in range(self.horizon):
            row = self.data.next[row]
            if not (exists := row >= 0).all():
                z, row = z[exists], row[exists]
            if not len(row):
                break
            z = self.model.flow(z, self.data.gap[row])
            mean = _Mean()
            mean.add(self.data.x[row] - z[..., 0], self.data.mask[row])
            total = total + _DECAY**ahead * mean.value()
            weights += _DECAY**ahead
        return total / weights


class SeriesTask:
    """Train through whole series, for study: slow and deep, as in the paper.

    Parameters
    ----------
    model : PolyODE
    data : Packed
        All series.
    held_out : bool Tensor of shape (n_series,)
        Series that only validate.
    horizon : int
        Must be 1: whole-series training forecasts one observation ahead.

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
    >>> task = SeriesTask(model, data, torch.tensor([False]), horizon=1)
    >>> task.loss(torch.tensor([0])).item() == task.refresh()
    True
    """

    def __init__(
        self, model: PolyODE, data: Packed, held_out: torch.Tensor, *, horizon: int
    ) -> None:
        if horizon != 1:
            raise ValueError(
                f"gradient='series' looks one observation ahead, got horizon={horizon}; "
                "use gradient='interval' for a longer one"
            )
        self.model, self.data = model, data
        self.is_preliminary = False
        self.items = (~held_out).nonzero()[:, 0]
        self.validation = (held_out if held_out.any() else ~held_out).nonzero()[:, 0]

    def refresh(self, progress: float = 1.0) -> float:
        """Return the validation error; there is nothing to store."""
        return forecasting_mse(self.model, self.data.select(self.validation))

    def state_dict(self) -> dict[str, Any]:
        """Nothing is prepared."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing was prepared."""

    def loss(self, index: torch.Tensor) -> torch.Tensor:
        """Mean squared one-step error over some series."""
        data = self.data.select(self.items[index])
        mean = _Mean()
        for step in self.model.steps(data):
            counted = data.mask[step.rows] & (data.elapsed[step.rows] > 0)[:, None]
            mean.add(data.x[step.rows] - step.prediction, counted)
        return mean.value()


TASKS = {"interval": IntervalTask, "series": SeriesTask}
