"""Free runs over several intervals in a row, of which none waits for another."""

from __future__ import annotations

import torch

from skpolyode.dynamics.integrate import count_steps
from skpolyode.dynamics.rk_backward import take_rounds
from skpolyode.dynamics.steppers import Stepper
from skpolyode.dynamics.steps import Field, steps_of

__all__ = ["visit"]


def visit(
    field: Field,
    z: torch.Tensor,
    row: torch.Tensor,
    gap: torch.Tensor,
    *,
    step_size: float,
    stepper: Stepper,
    recorded: slice,
) -> torch.Tensor:
    """Integrate ``dz/dt = field(z)`` through intervals that follow one another.

    The steps are those of :func:`~skpolyode.dynamics.integrate` over one interval after the other.
    There each interval takes as many rounds as the longest one of all rows; here a row goes on as
    soon as it arrives, and the rounds are those of the row with most steps in all.

    Parameters
    ----------
    field : WalledMLP or callable
        Maps (rows, M) to (rows, M).
    z : Tensor of shape (B, M)
        States at the start.
    row : int64 Tensor of shape (Q,)
        Which of them each interval is of, not decreasing; every one has an interval.
    gap : float64 Tensor of shape (Q,)
        Length of each interval, positive; those of a row are in the order of time.
    step_size : float
        Longest step, in the units of `gap`.
    stepper : Stepper
        The Runge-Kutta method.
    recorded : slice
        Coordinates that are asked for.

    Returns
    -------
    Tensor of shape (Q, D)
        Recorded coordinates at the end of each interval.

    Examples
    --------
    Decay from one, seen at two times, and from two, seen at one:

    >>> import torch
    >>> from skpolyode.dynamics import STEPPERS, visit
    >>> start, row = torch.tensor([[1.0], [2.0]]), torch.tensor([0, 0, 1])
    >>> gap, settings = torch.ones(3, dtype=torch.float64), {"step_size": 0.5, "recorded": slice(1)}
    >>> found = visit(torch.neg, start, row, gap, stepper=STEPPERS["rk4"], **settings)
    >>> [round(x, 2) for x in found.flatten().tolist()]
    [0.37, 0.14, 0.74]
    """
    steps, n_steps = steps_of(field, stepper), count_steps(gap, step_size)
    totals = torch.zeros(len(z), dtype=torch.int64, device=z.device).index_add(0, row, n_steps)
    order = totals.argsort(descending=True, stable=True)
    rank = order.argsort()[row]  # (Q,): place of its row among those with most steps first
    rows_left = torch.bincount(totals)[1:].flip(0).cumsum(0).flip(0)
    done = n_steps.cumsum(0) - (totals.cumsum(0) - totals)[row]  # (Q,): steps of the row by its end
    # Length of each step of each row, (rounds, B, 1).
    of_step = torch.arange(len(gap), device=gap.device).repeat_interleave(n_steps)
    place = torch.arange(len(of_step), device=gap.device) - (n_steps.cumsum(0) - done)[of_step]
    lengths = z.new_zeros(len(rows_left), len(z), 1)
    lengths[place, rank[of_step], 0] = (gap / n_steps)[of_step].to(z.dtype)
    rounds = [h[:n_rows] for h, n_rows in zip(lengths, rows_left.tolist(), strict=True)]
    if steps.learns(z):
        _, signals = take_rounds(steps, z, order, rounds, recorded)
    else:
        y, parts = z[order], []
        for h in rounds:
            y = steps.step(y[: len(h)], h)
            parts.append(y[:, recorded])
        signals = torch.cat(parts)
    return signals[(rows_left.cumsum(0) - rows_left)[done - 1] + rank]
