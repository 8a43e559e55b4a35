"""The translated Laguerre measure: the past fades exponentially.

The matrices are in units of the time in which the weight falls by a factor e.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import laguerre

from skpolyode.memory.base import InvariantMemory


def lagt_matrices(n_coefficients: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Matrices of the LagT memory ``dc/dt = A c + B f`` for the weight ``exp(-age)``.

    ``A = -1`` on and below the diagonal, 0 above it; ``B[n] = 1``. For the weight
    ``a exp(-a age)`` multiply both by `a`.

    Parameters
    ----------
    n_coefficients : int
        Number of coefficients `N` (degrees 0 to N-1).

    Returns
    -------
    A : ndarray of shape (N, N)
    B : ndarray of shape (N,)

    Notes
    -----
    The coefficients are projections onto the Laguerre polynomials themselves, which are
    orthonormal for this weight. Code elsewhere often stores projections onto half-tilted
    functions instead, with ``A + 1/2`` in the place of `A`.

    Examples
    --------
    >>> from skpolyode.memory import lagt_matrices
    >>> A, B = lagt_matrices(2)
    >>> A.tolist(), B.tolist()
    ([[-1.0, -0.0], [-1.0, -1.0]], [1.0, 1.0])
    """
    return -np.tril(np.ones((n_coefficients, n_coefficients))), np.ones(n_coefficients)


class LagTMemory(InvariantMemory):
    r"""Memory that fades exponentially with age (HiPPO-LagT), exact over any gap.

    The past is weighted by ``a exp(-a age)`` with ``a = 8 / window``, which falls to 3e-4 of its
    start at the age of a window, and remembered as ``f(t - age) ~ sum_n c_n L_n(a age)``. The
    memory of recent values is the most accurate; the error grows as ``exp(a age / 2)``.

    Parameters
    ----------
    n_coefficients : int
        Number of coefficients of a channel.
    window : float
        Age at which the past has faded, in the units of the gaps and ages given later.
    dtype : torch.dtype, default=torch.float64
        Type of the coefficients.
    device : str, default="cpu"
        Where the tables live.

    Examples
    --------
    A constant is remembered exactly over any gap:

    >>> import torch
    >>> from skpolyode.memory import LagTMemory
    >>> memory = LagTMemory(4, window=2.0)
    >>> c = memory.constant(torch.tensor([[3.0]], dtype=torch.float64))
    >>> gap = torch.tensor([0.7], dtype=torch.float64)
    >>> value = torch.tensor([[3.0]], dtype=torch.float64)
    >>> memory.hold(c, value, gap, gap).round(decimals=9).abs().tolist()
    [[[3.0, 0.0, 0.0, 0.0]]]
    """

    # With 2, where the mean age is half a window, 32 coefficients cannot resolve a sine.
    units_per_window = 8.0
    response_spacing = 1 / 16
    context = 8.0

    matrices = staticmethod(lagt_matrices)

    @staticmethod
    def polynomials(age: np.ndarray, n_coefficients: int) -> np.ndarray:
        """Laguerre polynomials at an age in units of 1 / a."""
        return laguerre.lagvander(age, n_coefficients - 1)
