"""The translated Fourier measure: a uniform window, seen as sines and cosines.

The matrices are in units of the window.
"""

from __future__ import annotations

import numpy as np

from skpolyode.memory.base import InvariantMemory


def fout_matrices(n_coefficients: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Matrices of the FouT memory ``dc/dt = A c + B f`` for a window of length one.

    The basis is ``1, sqrt(2) cos(2 pi u), sqrt(2) sin(2 pi u), sqrt(2) cos(4 pi u), ...`` of the
    age u. With p its values at age 0, ``A = R - 2 p p^T`` and ``B = 2 p``, where `R` turns the
    k-th pair at the rate ``2 pi k``.

    Parameters
    ----------
    n_coefficients : int
        Number of coefficients `N`: the mean and ``(N - 1) // 2`` pairs. If it is even, the last
        coefficient has no partner and stays zero.

    Returns
    -------
    A : ndarray of shape (N, N)
    B : ndarray of shape (N,)

    Notes
    -----
    The equation needs the value that leaves the window. At the old end the Fourier sum `S`
    converges to the mean of the values at both ends, so that ``f(t - 1) = 2 S - f(t)``: hence the
    factor two, without which the error is a hundred times as large.

    Examples
    --------
    >>> from skpolyode.memory import fout_matrices
    >>> A, B = fout_matrices(3)
    >>> A.round(2).tolist()
    [[-2.0, -2.83, -0.0], [-2.83, -4.0, -6.28], [-0.0, 6.28, -0.0]]
    >>> B.round(2).tolist()
    [2.0, 2.83, 0.0]
    """
    p = np.zeros(n_coefficients)
    p[0] = 1.0
    p[1 : n_coefficients - 1 : 2] = np.sqrt(2.0)
    A = -2.0 * np.outer(p, p)
    k = np.arange(1, (n_coefficients - 1) // 2 + 1)
    A[2 * k - 1, 2 * k] -= 2 * np.pi * k
    A[2 * k, 2 * k - 1] += 2 * np.pi * k
    if n_coefficients % 2 == 0:
        A[-1, -1] = -1.0  # the coefficient without a partner only forgets
    return A, 2.0 * p


class FouTMemory(InvariantMemory):
    r"""Memory of the last `window` as a Fourier series (HiPPO-FouT), exact over any gap.

    ``dc/dt = (A c + B f) / window`` with the matrices of :func:`fout_matrices`. The series is
    periodic, and rings at the ends of the window unless the signal is periodic too: Legendre
    coefficients describe smooth signals far better. It also forgets slowly: to 1e-16 after fifty
    windows.

    Parameters
    ----------
    n_coefficients : int
        Number of coefficients of a channel. Take an odd number: the last one of an even number
        stays zero.
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
    >>> from skpolyode.memory import FouTMemory
    >>> memory = FouTMemory(3, window=2.0)
    >>> c = memory.constant(torch.tensor([[3.0]], dtype=torch.float64))
    >>> gap = torch.tensor([0.7], dtype=torch.float64)
    >>> value = torch.tensor([[3.0]], dtype=torch.float64)
    >>> memory.hold(c, value, gap, gap).round(decimals=9).abs().tolist()
    [[[3.0, 0.0, 0.0]]]
    """

    response_spacing = 1 / 32
    context = 41.0

    matrices = staticmethod(fout_matrices)

    @staticmethod
    def polynomials(age: np.ndarray, n_coefficients: int) -> np.ndarray:
        """``1, sqrt(2) cos(2 pi age), sqrt(2) sin(2 pi age), ...`` (..., N)."""
        basis = np.zeros((*age.shape, n_coefficients))
        basis[..., 0] = 1.0
        angle = 2 * np.pi * age[..., None] * np.arange(1, (n_coefficients - 1) // 2 + 1)
        basis[..., 1 : n_coefficients - 1 : 2] = np.sqrt(2.0) * np.cos(angle)
        basis[..., 2::2] = np.sqrt(2.0) * np.sin(angle)
        return basis
