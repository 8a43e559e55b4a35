"""Checks of constructor parameters that scikit-learn's table of constraints cannot express."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import InvalidParameterError

__all__ = [
    "check_coefficients",
    "check_device",
    "check_parameters",
    "check_repeatable",
    "layer_sizes",
    "local_random_state",
]


def layer_sizes(hidden: Sequence[Any] | int) -> list[int]:
    """Widths of hidden layers, as plain integers; a ValueError if they are anything else."""
    sizes = [hidden] if isinstance(hidden, Integral) else list(hidden)
    if not all(isinstance(n, Integral) and n > 0 for n in sizes):
        raise ValueError(
            f"hidden_layer_sizes must be positive integers, one a layer, got {hidden!r}."
        )
    return [int(n) for n in sizes]


def check_coefficients(blocks: Sequence[str]) -> None:
    """A ValueError if an embedding of such blocks cannot be turned back into series."""
    if "coefficients" not in blocks:
        raise ValueError(
            "embedding='hidden' holds no coefficients to invert; use embedding='full' or "
            "'coefficients'."
        )


def check_parameters(estimator: BaseEstimator) -> None:
    """Check parameters by their constraints, which do not know what is likely to be meant."""
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, datetime.timedelta | np.timedelta64):
            unit = "a number, in the units of `times`: of a Panel with datetimes that is"
            remedy = f"{unit} Panel.time_unit, so that {name}=5.0 is five of them"
        elif isinstance(value, torch.device):
            remedy = f"its name, {name}={str(value)!r}"
        else:
            continue
        raise InvalidParameterError(
            f"The {name!r} parameter of {type(estimator).__name__} is a {type(value).__name__}; "
            f"pass {remedy}."
        )
    estimator._validate_params()


def check_device(device: str) -> None:
    """Raise a ValueError if torch cannot compute on the device here."""
    try:
        # All that fit needs: some devices exist but hold no numbers, or none of 64 bits.
        torch.ones(1, dtype=torch.float64, device=device).cpu()
    except (RuntimeError, AssertionError, ImportError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device={device!r} cannot be used here ({reason}); device='cpu' always can."
        ) from None


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
