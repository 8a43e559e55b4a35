"""The measures: how the past is weighted, by matrices and polynomials.

A uniform window that slides along with time (LegT, and FouT in sines and cosines), an exponential
weight (LagT), and the whole history (LegS). The first three are invariant: they have constant
matrices, in the measure's unit of time, and :class:`~skpolyode.memory.base.InvariantMemory`
converts. The last one is invariant in the logarithm of time, which gives the transitions over gaps.
It is also the exact projection of the history, which gives the responses to signals.

A reconstruction from the sliding Legendre memory has two errors: that of the projection onto N
polynomials, bounded by :func:`reconstruction_error_bound`, and that of the memory's equation, which
replaces what leaves the window by its own reconstruction, measured by :func:`legt_closure_error`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.polynomial import laguerre, legendre
from numpy.typing import ArrayLike
from scipy.special import zeta
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


def reconstruction_error_bound(
    lipschitz: float,
    jumps: ArrayLike = (),
    jump_ages: ArrayLike | None = None,
    *,
    window: float,
    n_coefficients: int,
    form: str = "sharp",
    constants: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> float:
    r"""Bound on the error of projecting a signal onto the polynomials of its window.

    Parameters
    ----------
    lipschitz : float
        Largest slope of the signal between its jumps, in units of value per unit of time.
    jumps : array-like of shape (K,), default=()
        Sizes of the jumps within the window, for example the innovations at observations.
    jump_ages : array-like of shape (K,) or None, default=None
        Time of each jump before now, in [0, window]; needed by "sharp" if there are jumps.
    window : float
        Length of the window, in the units of the times.
    n_coefficients : int
        Number of coefficients `N`.
    form : {"sharp", "position_free", "paper"}, default="sharp"
        "sharp" uses the ages of the jumps; "position_free" holds wherever they are; "paper" is the
        printed Result 3.1, see the notes.
    constants : tuple of float, default=(1.0, 1.0, 1.0)
        C0, C1 and C2 of "paper", which does not specify them.

    Returns
    -------
    float
        Bound on the root mean square error over the window.

    Raises
    ------
    ValueError
        If `form` is unknown, or ages of jumps are missing, too many or outside the window.

    Warns
    -----
    UserWarning
        With ``form="paper"``: that expression is not a bound.

    See Also
    --------
    legt_closure_error : The error that the memory's equation adds to that of the projection.

    Notes
    -----
    With b the position of a jump J in the window scaled to [-1, 1], the bound is

    .. math::

        \frac{W L}{\sqrt{6 N (N+1)}} + \sum_i |J_i| \sqrt{T_N(b_i)}, \qquad
        T_N(b) = \frac{1 - b}{2} - \frac{(1-b)^2}{4}
        - \sum_{n=1}^{N-1} \frac{(P_{n-1}(b) - P_{n+1}(b))^2}{4 (2n+1)}.

    The first term follows from ``sum n (n+1) c_n^2 = 1/2 int (1 - y^2) f'(y)^2 dy``, the second
    is the exact error of unit steps, superposed. T vanishes at both ends: a jump now costs
    nothing. "position_free" replaces it by ``kappa / N``, with kappa = 1/4 for N = 1 and 3/16
    above: a constant that was checked numerically for every N up to 130, not proved.

    "paper" is the root of ``C0 W^2 L^2 (K+1)^2 / (N (2N-1)) + (C1 W L (K+1) S + C2 S^2) zeta(3/2,
    N)`` with K jumps and S the sum of their sizes. Its derivation does not hold (a sum is replaced
    by a product, an absolute value is taken after an integral, the jumps are assumed in the inner
    part of the window): with C0 = 1/8, as derived there, zigzags without any jump exceed the first
    term. It also bounds a squared error that grows with the number of jumps whatever their size,
    and falls more slowly with N. It is here for comparison.

    References
    ----------
    E. De Brouwer and R. G. Krishnan, "Anamnesic neural differential equations with orthogonal
    polynomial projections", ICLR 2023, Result 3.1.

    Examples
    --------
    >>> from skpolyode.memory import reconstruction_error_bound
    >>> bound = reconstruction_error_bound(2.0, [0.5], [1.0], window=5.0, n_coefficients=32)
    >>> round(bound, 3)
    0.157
    """
    sizes = np.abs(np.asarray(jumps, dtype=np.float64)).ravel()
    rise = window * lipschitz
    if form == "paper":
        warnings.warn(
            'form="paper" is the printed Result 3.1 with constants of your choice; it is not a '
            'bound. Use form="sharp" or "position_free".',
            stacklevel=2,
        )
        N, pieces, total = n_coefficients, len(sizes) + 1, sizes.sum()
        first = constants[0] * (rise * pieces) ** 2 / (N * (2 * N - 1))
        others = constants[1] * rise * pieces * total + constants[2] * total**2
        return math.sqrt(first + others * zeta(1.5, N))
    smooth = rise / math.sqrt(6 * n_coefficients * (n_coefficients + 1))
    if form == "sharp":
        ages = np.asarray(() if jump_ages is None else jump_ages, dtype=np.float64).ravel()
        if len(ages) != len(sizes):
            raise ValueError(
                f"jump_ages must hold one age for each of the {len(sizes)} jumps, got {len(ages)}; "
                'form="position_free" needs none.'
            )
        if not ((ages >= 0) & (ages <= window)).all():
            raise ValueError(
                f"jump_ages must be in [0, {window:g}], the window; got {ages.tolist()}."
            )
        b, n = 1 - 2 * ages / window, np.arange(1, n_coefficients)
        values = legendre.legvander(b, n_coefficients)  # (K, N + 1)
        gains = (values[:, n - 1] - values[:, n + 1]) ** 2 / (4 * (2 * n + 1))
        tails = np.maximum((1 - b) / 2 - ((1 - b) / 2) ** 2 - gains.sum(axis=1), 0.0)
    elif form == "position_free":
        # The largest N T_N(b) over b and N >= 2, found numerically for N <= 130; exact for N = 1.
        kappa = 3 / 16 if n_coefficients > 1 else 1 / 4
        tails = np.full(len(sizes), kappa / n_coefficients)
    else:
        raise ValueError(f'form must be "sharp", "position_free" or "paper", got {form!r}.')
    return float(smooth + sizes @ np.sqrt(tails))


def legt_closure_error(
    signal: Callable[[np.ndarray], np.ndarray],
    *,
    window: float,
    n_coefficients: int,
    time: float = 0.0,
    breaks: Sequence[float] = (),
) -> float:
    r"""Distance between the memory's coefficients and the projection of the signal.

    The equation of the sliding window needs the value that leaves it, and takes it from the
    reconstruction. The coefficients are therefore not exactly the projection of the last window.

    Parameters
    ----------
    signal : callable
        Maps times (M,) to values (M,). It is evaluated over several windows before `time`, as far
        back as the memory reaches.
    window : float
        Length of the window, in the units of the times.
    n_coefficients : int
        Number of coefficients `N`.
    time : float, default=0.0
        Moment at which the coefficients are compared.
    breaks : sequence of float, default=()
        Times at which the signal or its slope jumps. Pass all that lie before `time`, or the
        integrals are not accurate.

    Returns
    -------
    float
        Euclidean distance of the coefficients: the root mean square difference, over the window,
        of the two reconstructions.

    See Also
    --------
    reconstruction_error_bound : Bound on the error of the projection itself.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.memory import legt_closure_error
    >>> legt_closure_error(np.sin, window=5.0, n_coefficients=32) < 1e-12
    True
    """
    memory = LegTMemory(n_coefficients, window)
    # Panels that are short against both the polynomials and the window.
    width = window / max(8.0, n_coefficients**2 / 64)
    start = time - memory.horizon
    inner = [b for b in breaks if start < b < time]
    edges = np.unique([start, time - window, time, *np.arange(time, start, -width), *inner])
    node, weight = gauss_nodes(24)
    length = np.diff(edges)[:, None]
    times = edges[:-1, None] + length * node
    strength = (signal(times.ravel()).reshape(times.shape) * length * weight).ravel()
    ages = time - times.ravel()
    impulses = memory.impulse(
        torch.from_numpy(strength)[:, None, None],
        torch.from_numpy(ages)[:, None],
        torch.zeros(len(ages), dtype=torch.float64),
    )
    remembered = impulses.sum(dim=0)[0].numpy()
    inside = ages <= window
    basis = legt_basis(1 - ages[inside] / window, n_coefficients)
    return float(np.linalg.norm(remembered - strength[inside] @ basis / window))
