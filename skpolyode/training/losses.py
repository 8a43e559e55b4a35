"""Errors of forecasts as what is learned from, and as one number."""

from __future__ import annotations

import torch

from skpolyode.models.contract import Prediction, SequenceModel, State
from skpolyode.models.packed import Packed
from skpolyode.training.weights import weighed

__all__ = ["RunningMean", "add_update_loss", "forecasting_mse", "prediction_loss"]


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
    >>> from skpolyode.models import Prediction
    >>> from skpolyode.training import prediction_loss
    >>> prediction_loss(Prediction(torch.zeros(2)), torch.tensor([1.0, 2.0])).tolist()
    [1.0, 4.0]
    """
    square = (x - prediction.mean).square()
    if prediction.log_scale is None:
        return square
    return prediction.log_scale + 0.5 * square * torch.exp(-2 * prediction.log_scale)


def add_update_loss(
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
    >>> from skpolyode.models import PolyODE, pack
    >>> from skpolyode.training import forecasting_mse
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
