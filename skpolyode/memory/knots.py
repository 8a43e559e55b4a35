"""Piecewise cubic signals as sums of knots.

A piecewise cubic is determined by the steps of its value and of its first three derivatives at
its knots; the memory is linear, so its response to the signal is the sum of its responses to the
knots (:class:`~skpolyode.memory.tables.ResponseTable`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from skpolyode.cubic import CubicPath, hermite_derivatives

__all__ = ["Knots", "path_knots"]


class Knots(NamedTuple):
    """Knots of many rows: which row, how long before the row's end, and which steps."""

    row: torch.Tensor  # int64 (P,)
    age: torch.Tensor  # float64 (P,)
    steps: torch.Tensor  # float64 (P, D, 4): value and first three derivatives


def path_knots(path: CubicPath, horizon: float) -> Knots:
    """Knots of a path, as seen from the end of each row.

    Pieces that ended more than `horizon` ago are forgotten anyway; they are left out, and the
    first remaining piece starts the signal. (Kept, their large steps of third derivatives times
    the cube of a long age would cancel to nothing but rounding errors.)
    """
    step = path.step[:, None]
    y0, y1 = path.values[:-1].double(), path.values[1:].double()
    d0, d1 = path.slopes[:-1].double(), path.slopes[1:].double()
    curve_start, curve_end, jerk = hermite_derivatives((y1 - y0) / step, d0, d1, step)

    index = torch.arange(len(y0), device=step.device)[:, None]
    age_end = (path.n_steps - 1 - index) * path.step
    kept = (index < path.n_steps) & (age_end <= horizon)
    before = torch.nn.functional.pad(kept[:-1], (0, 0, 1, 0))  # the piece before is kept too
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
    return Knots(row, (age_end + path.step)[piece, row], steps)
