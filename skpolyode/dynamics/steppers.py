"""Explicit Runge-Kutta methods as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Stepper:
    """An explicit Runge-Kutta method: ``y + h sum_i b_i k_i``.

    Parameters
    ----------
    name : str
        Name that users give.
    order : int
        Order of convergence.
    a : tuple of tuples
        Strictly lower triangular stage weights, row i for stage i + 1.
    b : tuple of float
        Weights of the stages.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.dynamics import STEPPERS
    >>> y, k = torch.ones(1, 1), torch.full((1, 1), -1.0)
    >>> step = torch.full((1, 1), 0.1)
    >>> round(STEPPERS["rk4"].step(torch.neg, y, k, step).item(), 6)
    0.904837
    """

    name: str
    order: int
    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]

    def step(
        self,
        field: Callable[[Tensor], Tensor],
        y: Tensor,
        slope: Tensor,
        h: Tensor,
    ) -> Tensor:
        """One step of length `h` (rows, 1) from `y` (rows, M), where ``slope = field(y)``."""
        slopes = [slope]  # (rows, M) of each stage
        for row in self.a:
            slopes.append(field(combine(y, h, row, slopes)))
        return combine(y, h, self.b, slopes)


def combine(y: Tensor, h: Tensor, weights: tuple[float, ...], slopes: list[Tensor]) -> Tensor:
    """``y + h sum_i weights_i slopes_i``."""
    for weight, slope in zip(weights, slopes, strict=True):
        if weight:
            y = torch.addcmul(y, h, slope, value=weight)
    return y


def weighted_sum(weights: Sequence[float], parts: Sequence[Tensor]) -> Tensor:
    """``sum_i weights_i parts_i``."""
    (first, part), *others = [pair for pair in zip(weights, parts, strict=True) if pair[0]]
    total = part * first
    for weight, part in others:
        total = total.add(part, alpha=weight)
    return total


STEPPERS = {
    stepper.name: stepper
    for stepper in (
        Stepper("euler", 1, (), (1.0,)),
        Stepper("midpoint", 2, ((0.5,),), (0.0, 1.0)),
        Stepper("rk4", 4, ((0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
    )
}
