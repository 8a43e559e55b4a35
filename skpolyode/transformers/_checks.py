"""Checks of constructor parameters that scikit-learn's table of constraints cannot express."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from skpolyode.dynamics import WalledMLP

__all__ = [
    "check_device",
    "check_repeatable",
    "check_same_network",
    "layer_widths",
    "local_random_state",
]


def layer_widths(n_channels: int, n_coefficients: int, hidden: Sequence[Any]) -> list[int]:
    """Widths of all layers of the field, from the state's to the state's."""
    sizes = list(hidden)
    if not all(isinstance(n, Integral) and n > 0 for n in sizes):
        raise ValueError(
            f"hidden_layer_sizes must be positive integers, one a layer, got {hidden!r}."
        )
    size = n_channels * (1 + n_coefficients)
    return [size, *map(int, sizes), size]


def check_device(device: str) -> None:
    """Raise a ValueError if torch cannot compute on the device here."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device={device!r} cannot be used here ({reason}); device='cpu' always can."
        ) from None


def check_same_network(field: WalledMLP, widths: list[int]) -> None:
    """Raise a ValueError if a warm start would continue another network."""
    fitted = [layer.in_features for layer in field.layers] + [field.layers[-1].out_features]
    if fitted != widths:
        raise ValueError(
            f"warm_start=True continues a network of widths {fitted}, but the number of channels, "
            f"n_coefficients and hidden_layer_sizes now ask for {widths}; keep them as in "
            "the last fit or set warm_start=False."
        )


def local_random_state(seed: Any) -> np.random.RandomState:
    """As `check_random_state`, but None does not touch numpy's global generator."""
    return np.random.RandomState() if seed is None else check_random_state(seed)


def check_repeatable(random_state: Any) -> None:
    """Raise a ValueError if a training that goes on after a crash would draw other numbers."""
    if not isinstance(random_state, Integral):
        raise ValueError(
            f"checkpoint_dir needs an int as random_state, got {random_state!r}: with it a "
            "training that goes on draws the same numbers."
        )
