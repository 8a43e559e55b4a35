"""Responses of a memory to short stretches of signal, whatever their shape.

A knot of a cubic is a step of its third derivative, which for a short piece is huge, and cancels
against that of the next knot. An integral of the signal times the impulse response does not.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch

from skpolyode.memory.tables import N_ORDERS, ResponseTable

__all__ = ["ImpulseTable", "impulse_table"]


class ImpulseTable:
    """Response to clusters of impulses: the nodes of a quadrature over a short stretch.

    Parameters
    ----------
    responses : ResponseTable
        Holds the impulse response on its grid.

    Attributes
    ----------
    radius : float
        Longest stretch, in the measure's unit of time.
    """

    def __init__(self, responses: ResponseTable) -> None:
        size = responses.table.shape[2]
        # Near age 0 the impulse response has a Taylor series like (N**2 age)**k / k!**2: with
        # eight there are less than 20 terms, and none much larger than their sum.
        self.radius = min(8 / size**2, 1 / 8)
        stride = max(1, math.floor(self.radius / 2 / responses.spacing))
        self.spacing = stride * responses.spacing
        self.table = self._derivatives(responses, stride)

    def _derivatives(self, responses: ResponseTable, stride: int) -> torch.Tensor:
        """Taylor coefficients (K, M, N) of the impulse response about each grid point."""
        generator = torch.as_tensor(responses.generator, device=responses.table.device)
        stack = [responses.table[::stride, N_ORDERS]]
        scale, size = stack[0].abs().max(), 1.0
        while len(stack) < 40 and stack[-1].abs().max() * size > 1e-15 * scale:
            size *= (self.spacing + self.radius) / 2 / len(stack)
            stack.append(stack[-1] @ generator.T)
        return torch.stack(stack, dim=1)

    def apply(self, strength: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
        """Memory of clusters of impulses.

        Parameters
        ----------
        strength : float64 Tensor of shape (P, D, M)
            Values times durations, of the M impulses of each cluster.
        age : float64 Tensor of shape (P, M)
            Time since each impulse; those of a cluster lie within `radius`.

        Returns
        -------
        float64 Tensor of shape (P, D, N)
        """
        cell = (age.mean(dim=1) / self.spacing).round().clamp(max=len(self.table) - 1)
        offset = age - cell[:, None] * self.spacing
        powers = [torch.ones_like(offset)]
        for k in range(1, self.table.shape[1]):
            powers.append(powers[-1] * offset / k)
        return strength @ torch.stack(powers, dim=-1) @ self.table[cell.long()]


@lru_cache(maxsize=32)
def impulse_table(responses: ResponseTable) -> ImpulseTable:
    """Table that goes with a table of responses, shared like it and made at the first use."""
    return ImpulseTable(responses)
