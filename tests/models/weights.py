"""Models with weights among which none is special, and states to move on."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from skpolyode.models import Packed, pack


def shaken(model: Any, size: float = 0.4) -> Any:
    """In float64, with noise on all weights, those included that start at zero."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(size * torch.randn(parameter.shape, generator=generator))
    return model.double()


def states(n: int, size: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, size, generator=generator, dtype=torch.float64)


def observations(values: list[float]) -> Packed:
    """One row of one series."""
    return pack(np.zeros(1), np.array([values]), np.array([0, 1]))
