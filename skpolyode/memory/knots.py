"""Piecewise cubic signals as sums of knots.

A piecewise cubic is determined by the steps of its value and of its first three derivatives at
its knots; the memory is linear, so its response to the signal is the sum of its responses to the
knots (:class:`~skpolyode.memory.tables.ResponseTable`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from skpolyode.cubic import CubicPath, hermite_derivatives

# In the units of the model: shorter gaps count as this one. A signal that moves within it changes
# nothing to 1e-16, and its third derivatives would overflow.
SHORTEST_GAP = 1e-75

# Pieces whose ages are counted from one moment. Steps of third derivatives grow as 1 / step**3, the
# responses to them as age**3, and cancel: what remains is 1e-16, times the cube of this.
LONGEST_PART = 32


def path_parts(path: CubicPath, horizon: float) -> tuple[Tensor, Tensor, CubicPath]:
    """Cut paths, from their ends, into parts of at most `LONGEST_PART` pieces.

    Parts that ended more than `horizon` ago are forgotten, and left out. Parts without a rest come
    first, in the order of the rows.

    Returns
    -------
    row : int64 Tensor of shape (P,)
        Row that each part belongs to.
    rest : float64 Tensor of shape (P,)
        Time between the end of the part and the end of its row.
    parts : CubicPath
        The parts, one in each of P rows.
    """
    n_parts = (len(path.values) - 2) // LONGEST_PART + 1
    after = LONGEST_PART * torch.arange(n_parts, device=path.step.device)[:, None]  # pieces
    kept = (after < path.n_steps) & (after * path.step <= horizon)  # (parts, B)
    place, row = kept.nonzero(as_tuple=True)
    last = path.n_steps[row] - after[place, 0]
    first = (last - LONGEST_PART).clamp(min=0)
    index = torch.arange(LONGEST_PART + 1, device=row.device)[:, None] + first
    index = torch.minimum(index, last)  # (LONGEST_PART + 1, P)
    step = path.step[row]
    part = CubicPath(path.values[index, row], path.slopes[index, row], step, last - first)
    return row, after[place, 0] * step, part


def path_knots(path: CubicPath, horizon: float) -> tuple[Tensor, Tensor, Tensor]:
    """Knots of a path, as seen from the end of each row.

    Pieces that ended more than `horizon` ago are forgotten and left out; the first remaining piece
    starts the signal. (If they were kept, the large steps of their third derivatives times the cube
    of a long age would cancel to nothing but rounding errors.)

    Returns
    -------
    row : int64 Tensor of shape (P,)
        Row that each knot belongs to.
    age : float64 Tensor of shape (P,)
        Time between the knot and the end of its row.
    steps : float64 Tensor of shape (P, D, 4)
        Steps of the value and of its first three derivatives at the knot.
    """
    step = path.step.clamp(min=SHORTEST_GAP)[:, None]
    y0, y1 = path.values[:-1].double(), path.values[1:].double()
    d0, d1 = path.slopes[:-1].double(), path.slopes[1:].double()
    curve_start, curve_end, jerk = hermite_derivatives((y1 - y0) / step, d0, d1, step)  # (K, B, D)

    index = torch.arange(len(y0), device=step.device)[:, None]
    age_end = (path.n_steps - 1 - index) * path.step
    kept = (index < path.n_steps) & (age_end <= horizon)  # (K, B)
    before = torch.cat([torch.zeros_like(kept[:1]), kept[:-1]])  # the piece before is kept too
    piece, row = kept.nonzero(as_tuple=True)
    inner = before[piece, row][:, None]
    previous = (piece - 1).clamp(min=0)
    steps = torch.stack(
        [
            torch.where(inner, 0.0, y0[piece, row]),
            torch.where(inner, 0.0, d0[piece, row]),
            curve_start[piece, row] - torch.where(inner, curve_end[previous, row], 0.0),
            jerk[piece, row] - torch.where(inner, jerk[previous, row], 0.0),
        ],
        dim=-1,
    )
    return row, (age_end + path.step)[piece, row], steps
