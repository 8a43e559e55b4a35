r"""Exact propagators of ``dc/dt = A c + B f`` for any gap, without a matrix exponential per gap.

Real gaps never repeat, so ``exp(A g)`` cannot be computed gap by gap. Tables replace it, built
once by repeated multiplication in float64:

- :class:`TransitionTable` holds ``exp(A k d)`` on a grid of gaps; a short Taylor series in `A`
  covers the remainder, and its terms are products with one shared matrix.
- :class:`ResponseTable` holds, on a grid of ages, the response of the memory to a *knot* of the
  signal: a step in its value or in one of its first three derivatives. Every piecewise cubic signal
  is a sum of knots, so driving, bridging and interpolation are all calls of this one function.
- :class:`ImpulseTable` holds the response to impulses, for stretches of signal so short that the
  huge steps of their derivatives would cancel.

None of them diagonalises `A`: the eigenvectors of LegT have a condition number of 1e15 at N = 32.

Shapes: P rows (knots or intervals), D channels, N coefficients, K grid points, M Taylor terms.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache

import numpy as np
import torch
from numpy.polynomial import legendre
from scipy.linalg import expm
from torch import Tensor

N_ORDERS = 4  # steps of the value and of the first three derivatives: a piecewise cubic
CACHED = 2**18  # numbers gathered at once: 2 MB; beyond the cache a row costs three times as much
_SAMPLE = 512  # first ages, by which `apply` judges whether ages repeat


def forgetting_time(A: np.ndarray) -> float:
    """Age beyond which ``exp(A age)`` is below 1e-16: nothing older matters."""
    age, E, relative = 0.0, np.eye(len(A)), expm(A / 16)
    while np.linalg.norm(E) > 1e-16:
        E, age = relative @ E, age + 1 / 16
    return age


def legendre_spacing(size: int) -> float:
    """Grid on which `size` Legendre polynomials of a unit window have short Taylor series."""
    return 1.0 / min(max(64, size**2 // 2), 1024)


@lru_cache
def gauss_nodes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss-Legendre quadrature on [0, 1]; exact to degree 2 count - 1."""
    node, weight = legendre.leggauss(count)
    return (1 + node) / 2, weight / 2


def split_rows(chunk: int, *columns: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Columns of the same rows, `chunk` rows at a time."""
    return zip(*(column.split(chunk) for column in columns), strict=True)


def _in_chunks(function: Callable[..., Tensor], n_numbers: int, *columns: Tensor) -> Tensor:
    """Apply a function of rows, each of which gathers `n_numbers`, to as many as fit the cache."""
    chunk = max(16, CACHED // n_numbers)
    if len(columns[0]) <= chunk:
        return function(*columns)
    return torch.cat([function(*part) for part in split_rows(chunk, *columns)])


class _Table(ABC):
    """Linear maps ``x M(age)``, one for each age."""

    n_numbers: int  # of the matrix of an age

    def apply(self, x: Tensor, age: Tensor) -> Tensor:
        """Apply the map of its age to each row.

        Real time stamps repeat. Where ages do, each matrix is computed once.

        Parameters
        ----------
        x : Tensor of shape (P, D, Q)
            Arguments of the map.
        age : float64 Tensor of shape (P,)
            Non-negative, in units of the window.

        Returns
        -------
        Tensor of shape (P, D, N)
        """
        n_arguments, width = x.shape[0] * x.shape[1], x.shape[2]
        if 2 * width >= n_arguments:  # a matrix is `width` arguments: not even one pays off
            return self._apply_all(x, age)
        same = age.round(decimals=13)  # equal ages differ by rounding
        if 2 * len(same) > _SAMPLE and 2 * len(same[:_SAMPLE].unique()) > _SAMPLE:
            return self._apply_all(x, age)  # sorting all of them would take time
        ages, index = same.unique(return_inverse=True)
        if 2 * len(ages) * width >= n_arguments:
            return self._apply_all(x, age)
        ages = ages.scatter_reduce(0, index, age, "amin", include_self=False)  # not rounded
        unit = torch.eye(width, dtype=x.dtype, device=x.device).expand(len(ages), width, width)
        matrices = self._apply_all(unit, ages)  # (ages, Q, N)
        if len(ages) == 1:
            return x @ matrices[0]

        def gather(x: Tensor, index: Tensor) -> Tensor:
            return torch.bmm(x, matrices.index_select(0, index))

        return _in_chunks(gather, matrices[0].numel(), x, index)

    def _apply_all(self, x: Tensor, age: Tensor) -> Tensor:
        return _in_chunks(self._apply_each, self.n_numbers, x, age)

    @abstractmethod
    def _apply_each(self, x: Tensor, age: Tensor) -> Tensor:
        """As `apply`, for so few rows that the entries they gather stay in the cache."""


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
        size, self.n_numbers = len(A), A.size
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
        term = radius  # bound on the last term of the series
        while term > 10 * torch.finfo(dtype).eps:
            self.n_terms += 1
            term *= radius / self.n_terms
        terms = [np.eye(size)]
        for k in range(1, self.n_terms + 1):
            terms.append(terms[-1] @ A.T * (self.spacing / k))
        self.terms = torch.tensor(np.stack(terms), dtype=dtype, device=device).flatten(1)

    def _apply_each(self, c: Tensor, gap: Tensor) -> Tensor:
        cells = gap / self.spacing
        # Past the last cell exp(A gap) is below 1e-16 and stays a contraction.
        cell = cells.round().clamp(max=self.n_cells - 1)
        remainder = (cells - cell).clamp(max=0.5).to(c.dtype)[:, None]  # (P, 1)
        if c.shape[1] * self.n_terms < 12:  # products with A a row: cheaper than its exponential
            start = c
            for k in range(self.n_terms, 0, -1):  # Horner: one product and one update a term
                c = torch.addcmul(start, c @ self.A_T, remainder[:, None] / k)
        else:
            # The channels share exp(A remainder)^T (P, N, N): with 12 channels five times as fast.
            powers = remainder ** torch.arange(self.n_terms + 1, device=c.device)
            c = torch.bmm(c, (powers @ self.terms).unflatten(1, self.A_T.shape))
        cell = cell.long()
        for table in self.tables:
            c = torch.bmm(c, table.index_select(0, cell % self.base).mT)
            cell = cell // self.base
        return c


def _powers(E: np.ndarray, count: int) -> np.ndarray:
    """``E**0 .. E**(count-1)`` by doubling: log2(count) batched products."""
    table = np.eye(len(E))[None]
    while len(table) < count:
        table = np.concatenate([table, (E @ table[-1]) @ table])
    return table[:count]


class ResponseTable(_Table):
    r"""Response of the memory to knots of the signal.

    ``R_q(age) = int_0^age r(age - s) s^(q-1) / (q-1)! ds`` for q = 1..4, with the impulse response
    `r`, is the memory, at `age` after the knot, of a signal whose (q-1)-th derivative stepped by
    one at the knot. The table is applied to the steps (P, D, Q) of the value and of the first
    Q - 1 derivatives, Q <= 4, in float64.

    Parameters
    ----------
    generator : ndarray of shape (N, N)
        Turns the impulse response into its derivative by age.
    values : ndarray of shape (K, N, 5)
        ``[R_4, R_3, R_2, R_1, r]`` on the grid. Always float64: the steps of third derivatives are
        large and cancel, which float32 would not survive for long gaps.
    device : torch.device
        Where the table lives.
    spacing : float
        Distance of the grid points, in units of the window.
    horizon : float
        Age beyond which a knot is forgotten to 1e-16, in units of the window.
    """

    def __init__(
        self,
        generator: np.ndarray,
        values: np.ndarray,
        device: torch.device,
        *,
        spacing: float,
        horizon: float,
    ) -> None:
        self.generator, self.spacing, self.horizon = generator, spacing, horizon
        # Taylor coefficients of R_4 about each grid point, (K, M, N): its derivatives are R_3,
        # R_2, R_1, r, A r, A^2 r, ... R_1, the least smooth of the four, says how many are needed.
        stack = list(np.moveaxis(values, 2, 0))
        _add_derivatives(stack, generator, 1, spacing / 2, np.abs(values[:, :, 3]).max())
        self.table = torch.tensor(np.stack(stack, axis=1), device=device)
        self.n_numbers = self.table[0].numel()

    @classmethod
    def of(
        cls, A: np.ndarray, B: np.ndarray, device: torch.device, spacing: float | None = None
    ) -> ResponseTable:
        """Table of a memory with ``r(age) = exp(A age) B``, in units of the window.

        The default `spacing` suits Legendre polynomials; smoother responses take a wider grid, and
        less memory. With the augmented generator G = [[A, B e_1^T], [0, S]] (S the shift),
        ``exp(G age)`` has R_1 .. R_4 in its upper right block, and doubling the grid is one batched
        product.
        """
        size, horizon = len(A), forgetting_time(A)
        spacing = legendre_spacing(size) if spacing is None else spacing
        count = math.ceil(horizon / spacing) + 1
        G = np.zeros((size + N_ORDERS, size + N_ORDERS))
        G[:size, :size], G[:size, size] = A, B
        G[range(size, size + N_ORDERS - 1), range(size + 1, size + N_ORDERS)] = 1.0
        step = expm(G * spacing)
        columns = np.eye(size + N_ORDERS)[None, :, size:]  # R_1..R_4 above the powers of age
        impulse = B[None, :]
        while len(columns) < count:
            doubled = np.linalg.matrix_power(step, len(columns))
            columns = np.concatenate([columns, doubled @ columns])
            impulse = np.concatenate([impulse, impulse @ doubled[:size, :size].T])
        values = np.concatenate([columns[:count, :size, ::-1], impulse[:count, :, None]], axis=2)
        # Past the horizon the impulse response is zero, and the rest is exactly polynomial in the
        # age: the last grid point then serves every larger age.
        values[-1, :, N_ORDERS] = 0.0
        return cls(A, values, device, spacing=spacing, horizon=horizon)

    @cached_property
    def impulses(self) -> ImpulseTable:
        """Table of the responses to short stretches of signal."""
        return ImpulseTable(self)

    def _apply_each(self, steps: Tensor, age: Tensor) -> Tensor:
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


class ImpulseTable:
    """Response to clusters of impulses: the nodes of a quadrature over a short stretch.

    An integral of the signal times the impulse response does not cancel, as the responses to the
    knots at both ends of a short cubic piece would.

    Parameters
    ----------
    responses : ResponseTable
        Holds the impulse response on its grid.

    Attributes
    ----------
    radius : float
        Longest stretch, in the measure's unit of time.
    """

    def __init__(self, responses: ResponseTable) -> None:
        size = responses.table.shape[2]
        # Near age 0 the impulse response has a Taylor series like (N**2 age)**k / k!**2: with
        # eight there are less than 20 terms, and none much larger than their sum.
        self.radius = min(8 / size**2, 1 / 8)
        stride = max(1, math.floor(self.radius / 2 / responses.spacing))
        self.spacing = stride * responses.spacing
        generator = torch.as_tensor(responses.generator, device=responses.table.device)
        stack = [responses.table[::stride, N_ORDERS]]
        reach = (self.spacing + self.radius) / 2  # from a grid point to the end of a cluster
        _add_derivatives(stack, generator, 0, reach, stack[0].abs().max())
        self.table = torch.stack(stack, dim=1)  # Taylor coefficients (K, M, N) of the response

    def apply(self, strength: Tensor, age: Tensor) -> Tensor:
        """Memory of clusters of impulses.

        Parameters
        ----------
        strength : float64 Tensor of shape (P, D, M)
            Values times durations, of the M impulses of each cluster.
        age : float64 Tensor of shape (P, M)
            Time since each impulse; those of a cluster lie within `radius`.

        Returns
        -------
        float64 Tensor of shape (P, D, N)
        """
        cell = (age.mean(dim=1) / self.spacing).round().clamp(max=len(self.table) - 1)
        offset = age - cell[:, None] * self.spacing
        powers = [torch.ones_like(offset)]
        for k in range(1, self.table.shape[1]):
            powers.append(powers[-1] * offset / k)
        return strength @ torch.stack(powers, dim=-1) @ self.table[cell.long()]


def _add_derivatives(
    stack: list[np.ndarray] | list[Tensor],
    generator: np.ndarray | Tensor,
    order: int,
    radius: float,
    scale: float | Tensor,
) -> None:
    """Append the Taylor terms that matter within `radius` of a grid point.

    The last of the `stack` (K, N) is the derivative of that `order` of a response of that `scale`.
    """
    term = radius**order
    while abs(stack[-1]).max() * term > 1e-15 * scale and len(stack) < 40:
        order += 1
        term *= radius / order
        stack.append(stack[-1] @ generator.T)
