"""The integration loops: one interval of each row, or several that follow one another."""

from __future__ import annotations

import torch
from torch import Tensor

from skpolyode.cubic import CubicPath
from skpolyode.dynamics.rk_backward import take_rounds
from skpolyode.dynamics.steppers import Stepper
from skpolyode.dynamics.steps import Field, steps_of


def count_steps(gap: Tensor, step_size: float) -> Tensor:
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


def _count_rows(n_steps: Tensor) -> Tensor:
    """How many rows take at least 1, 2, 3, ... steps."""
    return torch.bincount(n_steps)[1:].flip(0).cumsum(0).flip(0)


def integrate(
    field: Field,
    z: Tensor,
    gap: Tensor,
    *,
    step_size: float,
    stepper: Stepper,
    recorded: slice | None = None,
) -> tuple[Tensor, CubicPath | None]:
    """Integrate ``dz/dt = field(z)`` over one interval for each row, each of its own length.

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
    n_steps = count_steps(gap, step_size)
    step, order = gap / n_steps, n_steps.argsort(descending=True, stable=True)
    h = step[order].to(z.dtype)[:, None]
    # The batch shrinks as rows with short gaps finish: those with most steps come first.
    lengths = [h[:n_rows] for n_rows in _count_rows(n_steps).tolist()]
    steps = steps_of(field, stepper, recorded)
    if recorded is None:
        return take_rounds(steps, z, order, lengths)[0], None
    y, finished, values, slopes = z[order], [], [], []
    for h in lengths:
        if len(h) < len(y):
            finished.append(y[len(h) :])
            y = y[: len(h)]
        start = steps.begin(y)
        values.append(y[:, recorded])
        slopes.append(steps.slope(y, start))
        y = steps.end(y, start, h)
    end, inverse = torch.cat([y, *reversed(finished)]), order.argsort()
    end_slopes = steps.slope(end, steps.begin(end))
    grids = (
        _grid(starts, last, n_steps[order])[:, inverse]
        for starts, last in ((values, end[:, recorded]), (slopes, end_slopes))
    )
    return end[inverse], CubicPath(*grids, step, n_steps)


def _grid(starts: list[Tensor], last: Tensor, n_steps: Tensor) -> Tensor:
    """Padded grid (K + 1, B, D) from the starts of the steps and the end of each row."""
    grid = last.new_zeros(len(starts) + 1, *last.shape)
    for k, start in enumerate(starts):
        grid[k, : len(start)] = start
    grid[n_steps, torch.arange(len(last), device=last.device)] = last
    return grid


def rollout(
    field: Field,
    z: Tensor,
    row: Tensor,
    gap: Tensor,
    *,
    step_size: float,
    stepper: Stepper,
    recorded: slice,
) -> Tensor:
    """Integrate ``dz/dt = field(z)`` through several intervals of each row, one after the other.

    The steps are those of :func:`~skpolyode.dynamics.integrate` over one interval after the other,
    where each interval would take as many rounds as the longest one of all rows. Here a row starts
    its next interval as soon as it ends one, so that the number of rounds is that of the row with
    most steps in all.

    Parameters
    ----------
    field : WalledMLP or callable
        Maps (rows, M) to (rows, M).
    z : Tensor of shape (B, M)
        States at the start.
    row : int64 Tensor of shape (Q,)
        Row of `z` that each interval belongs to, not decreasing; each row has an interval.
    gap : float64 Tensor of shape (Q,)
        Length of each interval, positive; those of a row are in the order of time.
    step_size : float
        Longest step, in the units of `gap`.
    stepper : Stepper
        The Runge-Kutta method.
    recorded : slice
        Coordinates to return.

    Returns
    -------
    Tensor of shape (Q, D)
        Recorded coordinates at the end of each interval.

    Examples
    --------
    Decay from one, read at two times, and from two, read at one:

    >>> import torch
    >>> from skpolyode.dynamics import STEPPERS, rollout
    >>> start, row = torch.tensor([[1.0], [2.0]]), torch.tensor([0, 0, 1])
    >>> gap, settings = torch.ones(3, dtype=torch.float64), {"step_size": 0.5, "recorded": slice(1)}
    >>> found = rollout(torch.neg, start, row, gap, stepper=STEPPERS["rk4"], **settings)
    >>> [round(x, 2) for x in found.flatten().tolist()]
    [0.37, 0.14, 0.74]
    """
    n_steps = count_steps(gap, step_size)
    totals = torch.zeros(len(z), dtype=torch.int64, device=z.device).index_add(0, row, n_steps)
    order = totals.argsort(descending=True, stable=True)
    rank = order.argsort()[row]  # (Q,): place of its row among those with most steps first
    n_rows = _count_rows(totals)  # (rounds,)
    done = n_steps.cumsum(0) - (totals.cumsum(0) - totals)[row]  # (Q,): steps of the row by its end
    # Length of each step of each row, (rounds, B, 1).
    of_step = torch.arange(len(gap), device=gap.device).repeat_interleave(n_steps)
    place = torch.arange(len(of_step), device=gap.device) - (n_steps.cumsum(0) - done)[of_step]
    lengths = z.new_zeros(len(n_rows), len(z), 1)
    lengths[place, rank[of_step], 0] = (gap / n_steps)[of_step].to(z.dtype)
    rounds = [h[:n] for h, n in zip(lengths, n_rows.tolist(), strict=True)]
    _, signals = take_rounds(steps_of(field, stepper), z, order, rounds, recorded)
    return signals[(n_rows.cumsum(0) - n_rows)[done - 1] + rank]
