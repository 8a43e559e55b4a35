"""The one integration loop: many intervals at once, each with its own length."""

from __future__ import annotations

from typing import NamedTuple

import torch

from skpolyode.cubic import CubicPath
from skpolyode.dynamics.rk_backward import take_rounds
from skpolyode.dynamics.steppers import Stepper
from skpolyode.dynamics.steps import Field, steps_of

__all__ = ["count_steps", "integrate", "plan_steps"]


def count_steps(gap: torch.Tensor, step_size: float) -> torch.Tensor:
    """Number of equal steps, none longer than `step_size`, that make up each gap.

    A gap that is a multiple of `step_size` up to rounding takes exactly that multiple, so that
    results do not depend on the unit of time.

    Parameters
    ----------
    gap : float64 Tensor of shape (B,)
        Length of each interval, positive.
    step_size : float
        Longest step, in the units of `gap`.

    Returns
    -------
    int64 Tensor of shape (B,)

    Examples
    --------
    >>> import torch
    >>> from skpolyode.dynamics import count_steps
    >>> count_steps(torch.tensor([0.01, 0.1, 0.25, 3 * 0.1]), step_size=0.1).tolist()
    [1, 1, 3, 3]
    """
    return (gap / step_size - 1e-6).ceil().clamp(min=1).long()


class Plan(NamedTuple):
    """How rows with gaps of their own are stepped together: most steps first."""

    n_steps: torch.Tensor  # int64 (B,)
    step: torch.Tensor  # float64 (B,)
    order: torch.Tensor  # rows by falling number of steps
    inverse: torch.Tensor  # place of each row in that order
    rows_left: list[int]  # how many rows take at least 1, 2, 3, ... steps


def plan_steps(gap: torch.Tensor, step_size: float) -> Plan:
    """Sort rows by their number of steps, so that the batch shrinks as short gaps finish."""
    n_steps = count_steps(gap, step_size)
    order = n_steps.argsort(descending=True, stable=True)
    counts = torch.bincount(n_steps)[1:]
    rows_left = counts.flip(0).cumsum(0).flip(0).tolist()
    return Plan(n_steps, gap / n_steps, order, order.argsort(), rows_left)


def integrate(
    field: Field,
    z: torch.Tensor,
    gap: torch.Tensor,
    *,
    step_size: float,
    stepper: Stepper,
    recorded: slice | None = None,
) -> tuple[torch.Tensor, CubicPath | None]:
    """Integrate ``dz/dt = field(z)`` over a gap of its own for each row.

    Parameters
    ----------
    field : WalledMLP or callable
        Maps (rows, M) to (rows, M). A network itself is faster than a function that evaluates it.
    z : Tensor of shape (B, M)
        States at the start.
    gap : float64 Tensor of shape (B,)
        Length of each interval, positive.
    step_size : float
        Longest step, in the units of `gap`.
    stepper : Stepper
        The Runge-Kutta method.
    recorded : slice or None, default=None
        Coordinates whose path is recorded; none by default.

    Returns
    -------
    end : Tensor of shape (B, M)
        States at the end.
    path : CubicPath or None
        The recorded coordinates: cubic Hermite from values and derivatives at the steps' ends.

    Examples
    --------
    Decay over two gaps of different length:

    >>> import torch
    >>> from skpolyode.dynamics import STEPPERS, integrate
    >>> gap = torch.tensor([1.0, 2.0], dtype=torch.float64)
    >>> start = torch.ones(2, 1)
    >>> end, path = integrate(torch.neg, start, gap, step_size=0.5, stepper=STEPPERS["rk4"])
    >>> [round(x, 2) for x in end.flatten().tolist()]
    [0.37, 0.14]
    """
    steps, plan = steps_of(field, stepper, recorded), plan_steps(gap, step_size)
    h = plan.step[plan.order].to(z.dtype)[:, None]
    if recorded is None and steps.learns(z):
        return take_rounds(steps, z, plan.order, [h[:n_rows] for n_rows in plan.rows_left])[0], None
    y = z[plan.order]
    finished, starts = [], []
    for n_rows in plan.rows_left:
        if n_rows < len(y):
            finished.append(y[n_rows:])
            y, h = y[:n_rows], h[:n_rows]
        if recorded is None:
            y = steps.step(y, h)
            continue
        start = steps.begin(y)
        starts.append((y[:, recorded], steps.slope(y, start)))
        y = steps.end(y, start, h)
    end = torch.cat([y, *reversed(finished)])
    if recorded is None:
        return end[plan.inverse], None
    last = (end[:, recorded], steps.slope(end, steps.begin(end)))
    n_steps = plan.n_steps[plan.order]
    values, slopes = (
        _grid([start[k] for start in starts], last[k], n_steps)[:, plan.inverse] for k in (0, 1)
    )
    return end[plan.inverse], CubicPath(values, slopes, plan.step, plan.n_steps)


def _grid(starts: list[torch.Tensor], last: torch.Tensor, n_steps: torch.Tensor) -> torch.Tensor:
    """Padded grid (K + 1, B, D) from the starts of the steps and the end of each row."""
    grid = last.new_zeros(len(starts) + 1, *last.shape)
    for k, start in enumerate(starts):
        grid[k, : len(start)] = start
    grid[n_steps, torch.arange(len(last), device=last.device)] = last
    return grid
