r"""Exact propagators of ``dc/dt = A c + B f`` for any gap, without a matrix exponential a gap.

Real gaps never repeat, so ``exp(A g)`` cannot be computed gap by gap. Two tables replace it, both
built once by repeated multiplication in float64:

- :class:`TransitionTable` holds ``exp(A k d)`` on a grid of gaps; a short Taylor series in `A`
  covers the remainder, and its terms are products with one shared matrix.
- :class:`ResponseTable` holds, on a grid of ages, what the memory makes of a *knot* of the signal
  (a step in its value or in one of its first three derivatives). Every piecewise cubic signal is a
  sum of knots, so driving, bridging and interpolation are all calls of this one function.

Neither diagonalises `A`: the eigenvectors of LegT have a condition number of 1e15 at N = 32.

Shapes: P rows (knots or intervals), D channels, N coefficients, K grid points, M Taylor terms.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from scipy.linalg import expm

__all__ = ["ResponseTable", "TransitionTable"]

N_ORDERS = 4  # steps of the value and of the first three derivatives: a piecewise cubic
_CACHED = 2**18  # numbers gathered at once: 2 MB, what leaves the cache costs 3x a row
_SAME_AGE = 13  # decimals, in units of the window: as on a grid but for rounding
_SAMPLE = 512  # ages that tell whether they repeat
_WORTH_A_MATRIX = 12  # products with A a row, above which a matrix a row is cheaper


def forgetting_time(A: np.ndarray) -> float:
    """Age beyond which ``exp(A age)`` is below 1e-16: nothing older matters."""
    age, E, relative = 0.0, np.eye(len(A)), expm(A / 16)
    while np.linalg.norm(E) > 1e-16:
        E, age = relative @ E, age + 1 / 16
    return age


def legendre_spacing(size: int) -> float:
    """Grid on which `size` Legendre polynomials of a unit window have short Taylor series."""
    return 1.0 / min(max(64, size**2 // 2), 1024)


def _powers(E: np.ndarray, count: int) -> np.ndarray:
    """``E**0 .. E**(count-1)`` by doubling: log2(count) batched products."""
    table = np.eye(len(E))[None]
    while len(table) < count:
        table = np.concatenate([table, (E @ table[-1]) @ table])
    return table[:count]


def _in_chunks(
    function: Callable[..., torch.Tensor], n_numbers: int, *columns: torch.Tensor
) -> torch.Tensor:
    """A function of rows that gathers so many numbers for each, some rows at a time."""
    chunk = max(16, _CACHED // n_numbers)
    if len(columns[0]) <= chunk:
        return function(*columns)
    parts = zip(*(column.split(chunk) for column in columns), strict=True)
    return torch.cat([function(*part) for part in parts])


class _Table(ABC):
    """Linear maps ``x M(age)``, one for each age."""

    @property
    @abstractmethod
    def n_numbers(self) -> int:
        """Size of an entry."""

    def apply(self, x: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
        """Apply to rows, each at an age of its own.

        Real time stamps repeat. Where ages do, each matrix is made once.

        Parameters
        ----------
        x : Tensor of shape (P, D, Q)
            What the table is for.
        age : float64 Tensor of shape (P,)
            Non-negative, in units of the window.

        Returns
        -------
        Tensor of shape (P, D, N)
        """
        width = x.shape[2]
        if 2 * width >= x.shape[0] * x.shape[1]:  # so few that even one matrix is not worth it
            return self._apply_all(x, age)
        same = age.round(decimals=_SAME_AGE)
        if 2 * len(same[:_SAMPLE].unique()) > _SAMPLE:  # to sort them all takes time
            return self._apply_all(x, age)
        ages, index = same.unique(return_inverse=True)
        if 2 * len(ages) * width >= x.shape[0] * x.shape[1]:
            return self._apply_all(x, age)
        ages = ages.scatter_reduce(0, index, age, "amin", include_self=False)  # not rounded
        unit = torch.eye(width, dtype=x.dtype, device=x.device).expand(len(ages), width, width)
        matrices = self._apply_all(unit, ages)
        if len(ages) == 1:
            return x @ matrices[0]
        return _in_chunks(
            lambda x, index: torch.bmm(x, matrices.index_select(0, index)),
            matrices[0].numel(),
            x,
            index,
        )

    def _apply_all(self, x: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
        return _in_chunks(self._apply_each, self.n_numbers, x, age)

    @abstractmethod
    def _apply_each(self, x: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
        """As `apply`, for so few rows that what they gather stays in the cache."""


class TransitionTable(_Table):
    """``exp(A gap) c`` for memories `c` (P, D, N) and arbitrary gaps.

    Parameters
    ----------
    A : ndarray of shape (N, N)
        Generator of a contraction, in units of the window.
    dtype : torch.dtype
        Arithmetic of :meth:`apply`. The table itself is built in float64.
    device : torch.device
        Where the tables live.
    """

    def __init__(self, A: np.ndarray, dtype: torch.dtype, device: torch.device) -> None:
        size = len(A)
        horizon, norm = forgetting_time(A), np.linalg.norm(A, 2)
        # 2**22 numbers (32 MB) a table; a grid fine enough for a Taylor series in |A| d <= 1
        # then takes one table at N = 32 and two (digits of the gap) at N = 128.
        self.base = int(min(4096, max(64, 2**22 // size**2)))
        n_levels = max(1, math.ceil(math.log(max(horizon * norm, 2.0), self.base) - 0.1))
        self.spacing = horizon / self.base**n_levels
        self.n_cells = self.base**n_levels
        self.tables = [
            torch.tensor(_powers(expm(A * unit), self.base), dtype=dtype, device=device)
            for unit in self.spacing * self.base ** np.arange(n_levels)
        ]
        self.A_T = torch.tensor(A.T * self.spacing, dtype=dtype, device=device)
        radius, self.n_terms = norm * self.spacing / 2, 1
        term = radius  # bounds the last one of the series
        while term > 10 * torch.finfo(dtype).eps:
            self.n_terms += 1
            term *= radius / self.n_terms
        terms = [np.eye(size)]
        for k in range(1, self.n_terms + 1):
            terms.append(terms[-1] @ A.T * (self.spacing / k))
        self.terms = torch.tensor(np.stack(terms), dtype=dtype, device=device).flatten(1)

    @property
    def n_numbers(self) -> int:
        """Size of an entry."""
        return self.A_T.numel()

    def _apply_each(self, c: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
        cells = gap / self.spacing
        cell = cells.round().clamp(max=self.n_cells - 1)
        c = self._taylor(c, (cells - cell).clamp(max=0.5).to(c.dtype)[:, None])
        cell = cell.long()
        for table in self.tables:
            c = torch.bmm(c, table.index_select(0, cell % self.base).mT)
            cell = cell // self.base
        # Past the last cell exp(A gap) is below 1e-16 and stays a contraction.
        return c

    def _taylor(self, c: torch.Tensor, remainder: torch.Tensor) -> torch.Tensor:
        """Memories after the remainders (P, 1) of the gaps, in cells."""
        if c.shape[1] * self.n_terms < _WORTH_A_MATRIX:
            total = c
            for k in range(self.n_terms, 0, -1):  # Horner: one product and one update a term
                total = torch.addcmul(c, total @ self.A_T, remainder[:, None] / k)
            return total
        # The channels share exp(A remainder)^T. With 12 channels that is 5 times as fast.
        powers = remainder ** torch.arange(self.n_terms + 1, device=c.device)
        return torch.bmm(c, (powers @ self.terms).unflatten(1, self.A_T.shape))


class ResponseTable(_Table):
    r"""Response of the memory to knots of the signal.

    ``R_q(age) = int_0^age exp(A (age - s)) B s^(q-1) / (q-1)! ds`` for q = 1..4 is the memory, at
    `age` after the knot, of a signal whose (q-1)-th derivative stepped by one at the knot. The
    table is applied to the steps (P, D, Q) of the value and of the first Q - 1 derivatives, Q <= 4,
    in float64.

    Parameters
    ----------
    A : ndarray of shape (N, N)
    B : ndarray of shape (N,)
        In units of the window. Always float64: the steps of third derivatives are large and
        cancel, which float32 would not survive for long gaps.
    device : torch.device
        Where the table lives.
    spacing : float or None, default=None
        Distance of the grid points, in units of the window. The default suits Legendre
        polynomials; smoother responses take a wider grid, and less memory.
    """

    def __init__(
        self,
        A: np.ndarray,
        B: np.ndarray,
        device: torch.device,
        spacing: float | None = None,
    ) -> None:
        self.generator = A  # of the impulse response
        self.horizon = forgetting_time(A)
        self.spacing = legendre_spacing(len(A)) if spacing is None else spacing
        n_cells = math.ceil(self.horizon / self.spacing)
        stack = self._derivatives(A, self._grid_values(A, B, n_cells + 1))
        # Past the horizon the impulse response is zero, and what is left is exactly polynomial
        # in the age: the last grid point then serves every larger age.
        stack[-1, N_ORDERS:] = 0.0
        self.table = torch.tensor(stack, device=device)

    @property
    def n_numbers(self) -> int:
        """Size of an entry."""
        return self.table[0].numel()

    def _grid_values(self, A: np.ndarray, B: np.ndarray, count: int) -> np.ndarray:
        """``[R_4, R_3, R_2, R_1, r]`` on the grid, shape (count, N, 5), by doubling.

        With the augmented generator G = [[A, B e_1^T], [0, S]] (S the shift), ``exp(G age)`` has
        R_1 .. R_4 in its upper right block, and doubling the grid is one batched product.
        """
        size = len(A)
        G = np.zeros((size + N_ORDERS, size + N_ORDERS))
        G[:size, :size], G[:size, size] = A, B
        G[range(size, size + N_ORDERS - 1), range(size + 1, size + N_ORDERS)] = 1.0
        step = expm(G * self.spacing)
        columns = np.eye(size + N_ORDERS)[None, :, size:]  # R_1..R_4 above the powers of age
        impulse = B[None, :]
        while len(columns) < count:
            doubled = np.linalg.matrix_power(step, len(columns))
            columns = np.concatenate([columns, doubled @ columns])
            impulse = np.concatenate([impulse, impulse @ doubled[:size, :size].T])
        values = np.concatenate([columns[:count, :size, ::-1], impulse[:count, :, None]], axis=2)
        return values

    def _derivatives(self, A: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Taylor coefficients of ``R_4`` about each grid point: shape (K, M, N).

        The derivatives of R_4 are R_3, R_2, R_1, r, A r, A^2 r, ...; terms are added until they
        fall below 1e-15 of the largest, for R_1, the least smooth of the four.
        """
        stack = [values[:, :, k] for k in range(N_ORDERS + 1)]
        half, term = self.spacing / 2, self.spacing / 2
        scale = np.abs(values[:, :, 3]).max()
        while np.abs(stack[-1]).max() * term > 1e-15 * scale and len(stack) < 40:
            stack.append(stack[-1] @ A.T)
            term *= half / (len(stack) - N_ORDERS)
        return np.stack(stack, axis=1)

    def _apply_each(self, steps: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
        cell = (age / self.spacing).round().clamp(max=len(self.table) - 1)
        offset, count = age - cell * self.spacing, self.table.shape[1]
        k = torch.arange(1, count, dtype=offset.dtype, device=offset.device)
        # The offset grows without bound past the horizon. There only powers below Q count; higher
        # ones meet zeros of the table, which an infinite power would turn into NaN.
        near = offset.clamp(max=self.spacing)
        counts = k < steps.shape[2]
        factors = torch.where(counts, offset[:, None], near[:, None]) / k  # (P, M - 1)
        # [0, 0, 0, 1, o, o**2 / 2, ...] (P, 3 + M): the Taylor terms of R_4 behind as many zeros
        # as it has derivatives before R_1. Written in place, without a copy.
        padded = offset.new_zeros(len(offset), N_ORDERS + count - 1)
        padded[:, N_ORDERS - 1] = 1.0
        torch.cumprod(factors, dim=1, out=padded[:, N_ORDERS:])
        # A step of derivative q is answered by R_{q+1} = (d/d age)**(3 - q) R_4: with the same
        # terms, each 3 - q places further on. So row q (of Q) of the weights is the window of
        # `padded` that starts at q: overlapping views (P, Q, M) of the same numbers.
        shifted = padded.as_strided((len(offset), steps.shape[2], count), (padded.stride(0), 1, 1))
        weights = torch.bmm(steps, shifted)  # (P, D, Q) @ (P, Q, M), of the Taylor coefficients
        return torch.bmm(weights, self.table.index_select(0, cell.long()))
