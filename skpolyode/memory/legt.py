"""The translated Legendre measure: a uniform window that slides along with time.

The matrices are in units of the window (window = 1); :class:`LegTMemory` converts.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.polynomial import legendre

from skpolyode.memory.base import InvariantMemory


def legt_matrices(n_coefficients: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Matrices of the LegT memory ``dc/dt = A c + B f`` for a window of length one.

    ``A[n, m] = -sqrt((2n+1)(2m+1)) * (1 if m <= n else (-1)**(n-m))`` and
    ``B[n] = sqrt(2n+1)``. For a window `W` divide both by `W`.

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
    This is the corrected form of Appendix A of De Brouwer & Krishnan (2023), where both cases
    of `A` are printed with the same condition. ``A e_0 = -B``: a constant is a fixed point.

    Examples
    --------
    >>> from skpolyode.memory import legt_matrices
    >>> A, B = legt_matrices(2)
    >>> A.round(3).tolist()
    [[-1.0, 1.732], [-1.732, -3.0]]
    """
    n = np.arange(n_coefficients)
    norm = np.sqrt(2.0 * n + 1.0)
    sign = np.where(n[:, None] >= n[None, :], 1.0, (-1.0) ** (n[:, None] - n[None, :]))
    return -np.outer(norm, norm) * sign, norm


def legt_basis(position: np.ndarray, n_coefficients: int) -> np.ndarray:
    r"""Orthonormal Legendre polynomials on the window.

    Parameters
    ----------
    position : array-like of shape (...)
        Position in the window: 0 is its old end, 1 is now.
    n_coefficients : int
        Number of polynomials `N`.

    Returns
    -------
    ndarray of shape (..., N)
        ``sqrt(2n+1) P_n(2 position - 1)``; orthonormal for the uniform density on [0, 1].

    Examples
    --------
    >>> from skpolyode.memory import legt_basis
    >>> legt_basis([1.0], 3).round(3).tolist()
    [[1.0, 1.732, 2.236]]
    """
    y = 2.0 * np.asarray(position, dtype=np.float64) - 1.0
    return legendre.legvander(y, n_coefficients - 1) * np.sqrt(2.0 * np.arange(n_coefficients) + 1)


@lru_cache
def gauss_nodes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss-Legendre quadrature on [0, 1]; exact to degree 2 count - 1."""
    node, weight = legendre.leggauss(count)
    return (1 + node) / 2, weight / 2


class LegTMemory(InvariantMemory):
    r"""Memory of the last `window`, uniformly weighted (HiPPO-LegT), exact over any gap.

    ``dc/dt = (A c + B f) / window`` with the matrices of :func:`legt_matrices`; the past is
    ``f(s) ~ sum_n c_n sqrt(2n+1) P_n(2 (s - t) / window + 1)`` for s in [t - window, t].

    Parameters
    ----------
    n_coefficients : int
        Number of coefficients of a channel. Each period within the window needs about pi of them.
    window : float
        Length of the remembered past, in the units of the gaps and ages given later.
    dtype : torch.dtype, default=torch.float64
        Type of the coefficients.
    device : str, default="cpu"
        Where the tables live.

    Examples
    --------
    A constant is remembered exactly over any gap:

    >>> import torch
    >>> from skpolyode.memory import LegTMemory
    >>> memory = LegTMemory(4, window=2.0)
    >>> c = memory.constant(torch.tensor([[3.0]], dtype=torch.float64))
    >>> gap = torch.tensor([0.7], dtype=torch.float64)
    >>> memory.reconstruct(c, torch.tensor([[0.0, 1.0, 2.0]]).double(), gap).squeeze().tolist()
    [3.0, 3.0, 3.0]
    """

    context = 4.0  # longer ones change nothing, trained or not

    matrices = staticmethod(legt_matrices)

    @staticmethod
    def polynomials(age: np.ndarray, n_coefficients: int) -> np.ndarray:
        """Legendre polynomials at an age in windows."""
        return legt_basis(1.0 - age, n_coefficients)
