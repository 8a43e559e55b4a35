"""How much each series counts in training."""

from __future__ import annotations

from dataclasses import replace

import torch

from skpolyode.models.packed import Packed

__all__ = ["weighed", "with_mean_one", "with_weights"]


def with_weights(data: Packed, weights: torch.Tensor) -> Packed:
    """Packed data whose series, in the order of the input, count as weights (n_series,) say."""
    return replace(data, weight=weights.to(data.series.device)[data.series])


def with_mean_one(data: Packed, held_out: torch.Tensor) -> Packed:
    """Weights whose mean is one over all values that are forecast: mean errors are weighted means.

    Once over the series that train, and once over those that only validate.

    Parameters
    ----------
    data : Packed
    held_out : bool Tensor of shape (n_series,)
        Series that only validate.
    """
    if data.weight is None:
        return data
    n_values = (data.mask & (data.elapsed > 0)[:, None]).sum(dim=1)  # (P,)
    validating, weight = held_out[data.series], data.weight.clone()
    for part in (validating, ~validating):
        own, count = weight[part], n_values[part]
        if len(own) and own.max() > 0:
            own = own / own.max()  # the smallest numbers have no inverse
            weight[part] = own * (count.sum() / (own * count).sum().clamp(min=1e-300))
    return replace(data, weight=weight)


def weighed(values: torch.Tensor, data: Packed, rows: torch.Tensor | slice) -> torch.Tensor:
    """Losses or errors (n, D) of some rows, times the weights of their series."""
    return values if data.weight is None else values * data.weight[rows][:, None]
