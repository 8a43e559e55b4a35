"""Shapes and words used throughout the package.

| letter | axis                                    |
|--------|-----------------------------------------|
| B      | series (or intervals) of a batch        |
| L      | observations of a series                |
| D      | channels                                |
| N      | coefficients of a channel               |
| K      | steps inside one interval               |
| P      | pieces or knots of paths, of all rows   |
| Q      | query times                             |

Axis order is (..., time, channel); coefficients are (..., channel, coefficient). The state of the
dynamics is (B, D, 1 + N): the signal h0 first, then the hidden copy of the coefficients.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

__all__ = ["CubicPath"]


class CubicPath(NamedTuple):
    """Piecewise cubic signals, one a row, each on its own even grid.

    Row `b` has ``n_steps[b]`` pieces of length ``step[b]``; what lies beyond them in the padded
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
    >>> from skpolyode.legend import CubicPath
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
