"""Piecewise cubic signals, their values and their derivatives.

Dynamics record them, memories follow them, and paths through observations consist of them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import torch

Array = TypeVar("Array", np.ndarray, torch.Tensor)


class CubicPath(NamedTuple):
    """Piecewise cubic signals, one in each row, each on an even grid.

    Row `b` has ``n_steps[b]`` pieces of length ``step[b]``; anything beyond them on the padded
    axis is ignored. Between two grid points the signal is the cubic with the given end values and
    slopes (Hermite form).

    Parameters
    ----------
    values : Tensor of shape (K + 1, B, D)
        Signal at the grid points.
    slopes : Tensor of shape (K + 1, B, D)
        Its time derivative there.
    step : float64 Tensor of shape (B,)
        Length of a piece.
    n_steps : int64 Tensor of shape (B,)
        Number of pieces.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.cubic import CubicPath
    >>> line = CubicPath(
    ...     values=torch.tensor([0.0, 1.0])[:, None, None],
    ...     slopes=torch.ones(2, 1, 1),
    ...     step=torch.ones(1, dtype=torch.float64),
    ...     n_steps=torch.ones(1, dtype=torch.int64),
    ... )
    >>> line.values.shape
    torch.Size([2, 1, 1])
    """

    values: torch.Tensor
    slopes: torch.Tensor
    step: torch.Tensor
    n_steps: torch.Tensor


def evaluate_path(
    path: CubicPath, since: torch.Tensor, row: torch.Tensor | None = None
) -> torch.Tensor:
    """Values of piecewise cubic paths.

    Parameters
    ----------
    path : CubicPath
        Paths of B rows and D channels.
    since : float64 Tensor of shape (B, Q), or of the shape of `row`
        Times since the start of each path, within it.
    row : int64 Tensor of shape (...) or None, default=None
        Path that each time belongs to. None: `since` has one row of times for each path.

    Returns
    -------
    Tensor of shape (B, Q, D) or (..., D)

    Examples
    --------
    The parabola ``t**2`` from t = 0 to 2, as one cubic:

    >>> import torch
    >>> from skpolyode.cubic import CubicPath, evaluate_path
    >>> path = CubicPath(
    ...     values=torch.tensor([0.0, 4.0])[:, None, None],
    ...     slopes=torch.tensor([0.0, 4.0])[:, None, None],
    ...     step=torch.tensor([2.0], dtype=torch.float64),
    ...     n_steps=torch.tensor([1]),
    ... )
    >>> since = torch.tensor([[0.5, 1.0]], dtype=torch.float64)
    >>> evaluate_path(path, since).flatten().tolist()
    [0.25, 1.0]
    """
    if row is None:
        row = torch.arange(len(since), device=since.device)[:, None]
    h = path.step[row]
    piece = (since / h).floor().long().clamp(min=0)
    piece = torch.minimum(piece, path.n_steps[row] - 1)
    u = (since / h - piece).to(path.values.dtype)[..., None]
    y0, y1 = path.values[piece, row], path.values[piece + 1, row]
    h = h[..., None].to(u.dtype)
    d0, d1 = h * path.slopes[piece, row], h * path.slopes[piece + 1, row]
    rise = y1 - y0
    return y0 + u * (d0 + u * (3 * rise - 2 * d0 - d1 + u * (d0 + d1 - 2 * rise)))


def hermite_derivatives(
    chord: Array, slope_start: Array, slope_end: Array, length: Array | float
) -> tuple[Array, Array, Array]:
    """Second and third derivatives of cubic pieces, from the values and slopes at their ends.

    Parameters
    ----------
    chord : ndarray or Tensor of shape (...)
        Rise of each piece over its length.
    slope_start : ndarray or Tensor of shape (...)
        First derivative where the piece starts.
    slope_end : ndarray or Tensor of shape (...)
        First derivative where it ends.
    length : ndarray or Tensor that broadcasts to (...), or float
        Length of each piece, in the units of time of the slopes.

    Returns
    -------
    curve_start : ndarray or Tensor of shape (...)
        Second derivative where the piece starts.
    curve_end : ndarray or Tensor of shape (...)
        Second derivative where it ends.
    jerk : ndarray or Tensor of shape (...)
        Third derivative, constant on the piece.

    Examples
    --------
    The cubic ``t**3`` from t = 0 to 2:

    >>> import numpy as np
    >>> from skpolyode.cubic import hermite_derivatives
    >>> [float(d) for d in hermite_derivatives(np.float64(4.0), 0.0, 12.0, 2.0)]
    [0.0, 12.0, 6.0]
    """
    curve_start = (6 * chord - 4 * slope_start - 2 * slope_end) / length
    curve_end = (-6 * chord + 2 * slope_start + 4 * slope_end) / length
    return curve_start, curve_end, (curve_end - curve_start) / length
