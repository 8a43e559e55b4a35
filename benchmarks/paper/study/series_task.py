"""Training through whole series, as the paper's code trains."""

from __future__ import annotations

import torch

from skpolyode.models.contract import SequenceModel
from skpolyode.models.packed import Packed
from skpolyode.training.losses import WeightedMean, forecasting_mse, prediction_loss, with_mean_one
from skpolyode.training.task import Task
from skpolyode.training.tasks import Minibatches


class SeriesTask(Task):
    """Train through whole series: slow and deep, but with the whole gradient.

    Parameters
    ----------
    model : SequenceModel
    data : Packed
        All series.
    held_out : bool Tensor of shape (n_series,)
        Series that only validate.
    """

    minibatches = Minibatches(16, smallest=32, n_most=512)

    def __init__(self, model: SequenceModel, data: Packed, held_out: torch.Tensor) -> None:
        self.model = model
        self.take(data, held_out)

    def take(self, data: Packed, held_out: torch.Tensor) -> None:
        """Continue with other series."""
        self.data = with_mean_one(data, held_out)
        # A series of one observation has nothing to forecast, and a minibatch of such no gradient.
        several = torch.bincount(data.series, minlength=len(held_out)) > 1
        self.items = (several & ~held_out).nonzero()[:, 0]
        self.validation = (held_out if held_out.any() else ~held_out).nonzero()[:, 0]

    def refresh(self, progress: float = 1.0) -> float:
        """Return the validation error; there is nothing to store."""
        return forecasting_mse(self.model, self.data.select(self.validation))

    def loss(self, index: torch.Tensor) -> torch.Tensor:
        """Mean one-step loss over a minibatch of series."""
        data = self.data.select(self.items[index])
        forecasts, updates = WeightedMean(data), WeightedMean(data)
        for step in self.model.run(data):
            rows, mask = step.rows, data.mask[step.rows]
            loss = prediction_loss(step.prediction, data.x[rows])
            forecasts.add(loss, rows, mask & (data.elapsed[rows] > 0)[:, None])
            updates.add(self.model.update_loss(step.state, data, rows), rows, mask)
        return forecasts.value() + updates.value()
