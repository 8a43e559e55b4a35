r"""The projection of a given signal onto the polynomials of its last window.

No equation is solved: where :class:`~skpolyode.memory.legt.LegTMemory` replaces what leaves the
window by its own reconstruction, here the signal is known, and its integral is taken.
"""

from __future__ import annotations

import math

import torch

from skpolyode.memory.knots import SHORTEST_GAP
from skpolyode.memory.legt import legt_basis
from skpolyode.memory.pieces import Pieces, gauss_nodes

__all__ = ["project"]

_CACHED = 2**18  # numbers of a basis at once: 2 MB


def project(pieces: Pieces, n_series: int, *, n_coefficients: int, window: float) -> torch.Tensor:
    r"""Legendre coefficients of piecewise polynomials over the last `window`, exactly.

    ``c_n = 1/W int_0^W f(now - age) p_n(1 - age / W) d age`` with the polynomials p of
    :func:`~skpolyode.memory.legt_basis`: of all polynomials of `n_coefficients` these come nearest
    to the signal in the mean square. A constant is ``(constant, 0, 0, ...)``; add a first value
    that the pieces leave out to the first coefficient.

    Parameters
    ----------
    pieces : Pieces
        Of B rows and D channels; the signals are zero before their first piece.
    n_series : int
        Number of rows B, also those without a piece.
    n_coefficients : int
        Number of coefficients `N`.
    window : float
        Length of the window, in the units of the ages of the pieces; it may begin before the
        signals do.

    Returns
    -------
    float64 Tensor of shape (B, D, N)

    See Also
    --------
    remember : What a memory holds of the same signals.
    legt_closure_error : How far the sliding memory is from this projection.

    Notes
    -----
    Gauss quadrature of each piece within the window, with as many nodes as make it exact. The
    cost is that of the pieces, whatever their lengths.

    Examples
    --------
    The signal rose from 0 to 2 in the last two units of time:

    >>> import torch
    >>> from skpolyode.memory.pieces import Pieces
    >>> from skpolyode.memory.projection import project
    >>> line = Pieces(
    ...     row=torch.tensor([0]),
    ...     age=torch.tensor([2.0], dtype=torch.float64),
    ...     start=torch.tensor([[[0.0, 1.0]]], dtype=torch.float64),
    ...     end=torch.tensor([[[2.0, 1.0]]], dtype=torch.float64),
    ... )
    >>> project(line, 1, n_coefficients=3, window=2.0).round(decimals=3).abs().tolist()
    [[[1.0, 0.577, 0.0]]]
    """
    n_channels, n_orders = pieces.end.shape[1:]
    total = pieces.end.new_zeros(n_series, n_channels, n_coefficients)
    node, weight = gauss_nodes((n_coefficients + n_orders) // 2)  # exact to degree N + Q - 2
    age_end = pieces.age_end
    inside = (age_end < window) & (pieces.age - age_end > SHORTEST_GAP)
    columns = pieces.row, pieces.age.clamp(max=window), age_end, pieces.end
    chunk = max(16, _CACHED // (len(node) * n_coefficients))
    for row, age, age_end, end in zip(*(x[inside].split(chunk) for x in columns), strict=True):
        # From the end of a piece backwards: what of it lies before the window does not matter.
        before = (age - age_end)[:, None] * node  # (P, M), time before the end
        powers = [(-before) ** q / math.factorial(q) for q in range(n_orders)]
        signal = end @ torch.stack(powers, dim=1)  # (P, D, Q) @ (P, Q, M)
        strength = signal * ((age - age_end)[:, None] / window * weight)[:, None]
        position = 1.0 - (age_end[:, None] + before) / window
        basis = torch.from_numpy(legt_basis(position.numpy(), n_coefficients))  # (P, M, N)
        total.index_add_(0, row, strength @ basis)
    return total
