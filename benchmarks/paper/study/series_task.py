"""Training through whole series, as the paper's code trains."""

from __future__ import annotations

from dataclasses import fields

import torch

from skpolyode.models.contract import Packed, SequenceModel
from skpolyode.training.loop import Task
from skpolyode.training.tasks import (
    Minibatches,
    forecasting_mse,
    prediction_loss,
    weighted_mean,
    with_precision,
)


def of_series(data: Packed, series: torch.Tensor) -> Packed:
    """Only some series, given by their positions in the input, as one block."""
    step = data.steps()
    order = torch.isin(data.series, series).nonzero()[:, 0]
    order = order[step[order].argsort(stable=True)]
    own = {field.name: getattr(data, field.name) for field in fields(data)[1:]}
    columns = {name: column[order] for name, column in own.items() if column is not None}
    row = torch.full((len(data) + 1,), -1, device=data.series.device)
    row[order] = torch.arange(len(order), device=row.device)
    columns["next"] = row[columns["next"]]
    return Packed([torch.bincount(step[order]).tolist()], **columns)


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
        self.data = with_precision(data)
        # A series of one observation has nothing to forecast, and a minibatch of such no gradient.
        several = torch.bincount(data.series, minlength=len(held_out)) > 1
        self.items = (several & ~held_out).nonzero()[:, 0]
        self.validation = (held_out if held_out.any() else ~held_out).nonzero()[:, 0]

    def refresh(self, progress: float = 1.0) -> float:
        """Return the validation error; there is nothing to store."""
        return forecasting_mse(self.model, of_series(self.data, self.validation))

    def loss(self, index: torch.Tensor) -> torch.Tensor:
        """Mean one-step loss over a minibatch of series."""
        data = of_series(self.data, self.items[index])
        forecasts, updates = [], []
        for step in self.model.run(data):
            rows, mask = step.rows, data.mask[step.rows]
            loss = prediction_loss(step.prediction, data.x[rows])
            forecasts.append((loss, rows, mask & (data.elapsed[rows] > 0)[:, None]))
            updates.append((self.model.update_loss(step.state, data, rows), rows, mask))
        return weighted_mean(data, forecasts) + weighted_mean(data, updates)
