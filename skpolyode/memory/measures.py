"""The measures: how the past is weighted, by matrices and polynomials.

A uniform window that slides along with time (LegT, and FouT in sines and cosines), an exponential
weight (LagT), and the whole history (LegS). The first three are invariant: they have constant
matrices, in the measure's unit of time, and :class:`~skpolyode.memory.base.InvariantMemory`
converts. The last one is invariant in the logarithm of time, which gives the transitions over gaps.
It is also the exact projection of the history, which gives the responses to signals.

A reconstruction from the sliding Legendre memory has two errors: that of the projection onto N
polynomials, and that of the memory's equation, which replaces what leaves the window by its own
reconstruction.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from numpy.polynomial import laguerre, legendre
from torch import Tensor

from skpolyode.memory.base import Array, InvariantMemory, Memory, Time
from skpolyode.memory.tables import (
    N_ORDERS,
    ResponseTable,
    TransitionTable,
    gauss_nodes,
    legendre_spacing,
)


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


def legs_matrices(n_coefficients: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Matrices of the LegS memory ``dc/dt = (A c + B f) / t``, `t` the length of the history.

    ``A[n, m] = -sqrt((2n+1)(2m+1))`` below the diagonal, ``-(n+1)`` on it, 0 above it, and
    ``B[n] = sqrt(2n+1)``.

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
    Unlike those of the sliding window these equations are closed: their solution is the exact
    projection of the history.

    Examples
    --------
    >>> from skpolyode.memory import legs_matrices
    >>> A, B = legs_matrices(2)
    >>> A.round(3).tolist()
    [[-1.0, -0.0], [-1.732, -2.0]]
    """
    n = np.arange(n_coefficients)
    norm = np.sqrt(2.0 * n + 1.0)
    return -np.tril(np.outer(norm, norm), -1) - np.diag(n + 1.0), norm


class LegSMemory(Memory):
    r"""Memory of the whole history [0, t], uniformly weighted (HiPPO-LegS), exact over any gap.

    ``dc/dt = (A c + B f) / t`` with the matrices of :func:`legs_matrices`, t the time since the
    start of the series; the past is ``f(s) ~ sum_n c_n sqrt(2n+1) P_n(2 s / t - 1)``. There is no
    window to choose; a longer history is remembered more coarsely.

    Parameters
    ----------
    n_coefficients : int
        Number of coefficients of a channel.
    window : float or None, default=None
        Ignored; all measures have the same signature.
    dtype : torch.dtype, default=torch.float64
        Type of the coefficients.
    device : str, default="cpu"
        Where the tables live.

    Examples
    --------
    The value was 3 for two units of time and is 5 for the next two:

    >>> import torch
    >>> from skpolyode.memory import LegSMemory
    >>> memory = LegSMemory(2)
    >>> c = memory.constant(torch.tensor([[3.0]], dtype=torch.float64))
    >>> gap, elapsed = torch.tensor([2.0, 4.0], dtype=torch.float64)[:, None]
    >>> value = torch.tensor([[5.0]], dtype=torch.float64)
    >>> memory.hold(c, value, gap, elapsed).round(decimals=3).tolist()
    [[[4.0, 0.866]]]
    """

    whole_history = True
    horizon = math.inf  # nothing is forgotten
    polynomials = staticmethod(LegTMemory.polynomials)  # before the start the first values hold

    @classmethod
    @lru_cache(maxsize=16)
    def _tables(
        cls, size: int, dtype: torch.dtype, device: torch.device
    ) -> tuple[TransitionTable, ResponseTable]:
        """Tables over ages that are shares x of the history.

        ``R_q(x) = int_0^x (x - v)^(q-1) / (q-1)! p(1 - v) dv`` with the polynomials p of a unit
        history: the impulse response is a polynomial instead of ``exp(A x) B``.
        """
        spacing = legendre_spacing(size)
        # [R_4, R_3, R_2, R_1, p] on the grid, (K, N, 5), by Gauss quadrature: exact.
        share = np.linspace(0.0, 1.0, round(1 / spacing) + 1)
        node, weight = gauss_nodes((size + N_ORDERS) // 2 + 1)
        polynomials = legt_basis(1 - share[:, None] * node, size)
        powers = [
            share[:, None] ** q * (1 - node) ** (q - 1) / math.factorial(q - 1) * weight
            for q in range(N_ORDERS, 0, -1)
        ]
        values = [np.einsum("km,kmn->kn", power, polynomials) for power in powers]
        values = np.stack([*values, legt_basis(1 - share, size)], axis=2)
        # Turns polynomials at ``1 - x`` into their derivatives by x.
        A, norm = legs_matrices(size)
        odd = np.subtract.outer(np.arange(size), np.arange(size)) % 2 == 1
        generator = -2.0 * np.tril(np.outer(norm, norm) * odd, -1)
        responses = ResponseTable(generator, values, device, spacing=spacing, horizon=1.0)
        return TransitionTable(A, dtype, device), responses

    def unit_at(self, elapsed: float) -> float:
        """The length of the history."""
        return elapsed

    def relative_age(self, age: Array, elapsed: Array | float) -> Array:
        """Ages as shares of the history; a history of no length has only a present."""
        if isinstance(age, np.ndarray):
            return np.minimum(age / elapsed, 1.0) if elapsed > 0 else np.zeros_like(age)
        share = torch.where(elapsed > 0, age / elapsed.clamp(min=1e-300), 0.0)
        return share.clamp(max=1.0)

    def relative_gap(self, gap: Time, elapsed: Time) -> Time:
        """Gaps in the logarithm of time: ``exp(A log(t / (t - gap)))`` forgets."""
        if isinstance(gap, Tensor):
            return -torch.log1p(-self.relative_age(gap, elapsed))
        if gap < elapsed:
            return -math.log1p(-gap / elapsed)
        return math.inf if elapsed > 0 else 0.0

    def respond(self, steps: Tensor, age: Tensor, elapsed: Tensor) -> Tensor:
        """Coefficients of knots, `age` after them; a q-th derivative scales as elapsed**q."""
        units = elapsed[:, None, None] ** torch.arange(steps.shape[-1], device=steps.device)
        units = units.clamp(max=1e300)  # a history of 1e100 has no third derivatives
        return self.responses.apply(steps * units, self.relative_age(age, elapsed))

    def impulse(self, strength: Tensor, age: Tensor, elapsed: Tensor) -> Tensor:
        """Coefficients of clusters of impulses."""
        history = torch.where(elapsed > 0, elapsed, 1.0)[:, None, None]
        share = self.relative_age(age, elapsed[:, None])
        return self.responses.impulses.apply(strength / history, share)
