"""Losses and errors of forecasts, weighted by the precision of the values."""

from __future__ import annotations

from dataclasses import replace

import torch

from skpolyode.models.contract import Prediction, SequenceModel
from skpolyode.models.packed import Packed

_LEAST_MOVE = 1e-3
"""Variances of a channel that forecasts are taken to miss at least: some cells may be exact."""


def prediction_loss(prediction: Prediction, x: torch.Tensor) -> torch.Tensor:
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


class WeightedMean:
    """Running mean, kept on the device, of losses times the precision of their values.

    Parameters
    ----------
    data : Packed
        All series, with precisions if they have any.
    """

    def __init__(self, data: Packed) -> None:
        self.data = data
        self.total: float | torch.Tensor = 0.0
        self.count: int | torch.Tensor = 0

    def add(
        self, losses: torch.Tensor | None, rows: torch.Tensor | slice, counted: torch.Tensor
    ) -> WeightedMean:
        """Add the counted losses (n, D) of some rows; those not counted may be anything."""
        if losses is None:
            return self
        self.total = self.total + self.weighted(losses, rows, counted).sum()
        self.count = self.count + counted.sum()
        return self

    def weighted(
        self, losses: torch.Tensor, rows: torch.Tensor | slice, counted: torch.Tensor
    ) -> torch.Tensor:
        """Losses (n, D) of some rows times their precisions; 0 for those not counted."""
        if self.data.precision is not None:
            losses = losses * self.data.precision[rows].to(losses.dtype)
        return torch.where(counted, losses, 0.0)

    def value(self) -> torch.Tensor:
        """The mean; zero if nothing was counted."""
        mean = self.total / max(int(self.count), 1)
        return torch.as_tensor(mean, device=self.data.x.device)


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
    mean, counted = WeightedMean(data), data.mask & (data.elapsed > 0)[:, None]
    with torch.no_grad():
        for step in model.run(data):
            error = (data.x[step.rows] - step.prediction.mean).square()
            mean.add(error, step.rows, counted[step.rows])
    return float(mean.value())


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
