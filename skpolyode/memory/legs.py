"""The scaled Legendre measure: the whole history, uniformly weighted, however long it is.

In the logarithm of time it is an invariant measure, which gives the transitions over gaps. It is
also the exact projection of the history, which gives the responses to signals.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from skpolyode.memory.base import Array, Memory, Time
from skpolyode.memory.legt import gauss_nodes, legt_basis
from skpolyode.memory.tables import N_ORDERS, ResponseTable, TransitionTable, legendre_spacing


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

    def basis(self, age: Tensor, elapsed: Tensor) -> Tensor:
        """Polynomials at times `age` before now; before the start the first values hold."""
        position = 1.0 - self.relative_age(age, elapsed).detach().cpu().numpy()
        return torch.from_numpy(legt_basis(position, self.n_coefficients)).to(age.device)
