"""Every measure as the ordinary differential equation that it solves: the oracle of its tests.

A new measure of `skpolyode.memory.MEMORIES` is tested by adding its equation to `EQUATIONS`, and
its projection, if it is one of the signal itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from scipy.integrate import solve_ivp

from skpolyode.cubic import CubicPath
from skpolyode.memory import MEMORIES, Memory
from tests.transformers.paths import Path, laguerre_weighted, legendre_weighted

WINDOW = 1.7  # of the memories under test; not one, so that a forgotten unit shows


@dataclass(frozen=True)
class Equation:
    """``dc/dt = rate(t) (A c + B f)``, t since the start of the series."""

    matrices: Callable[[int], tuple[np.ndarray, np.ndarray]]
    rate: Callable[[float], float]
    projection: Callable[[int, float], tuple[Path, float, float]] | None = None
    """Of a history of a length: weighted polynomials of the age, how far they go, and a length
    over which they are smooth. None where coefficients are not a projection of the signal."""


def _legt(size: int) -> tuple[np.ndarray, np.ndarray]:
    A, B = np.empty((size, size)), np.sqrt(2 * np.arange(size) + 1.0)
    for n in range(size):
        for m in range(size):
            A[n, m] = -B[n] * B[m] * (1 if m <= n else (-1) ** (n - m))
    return A, B


def _legs(size: int) -> tuple[np.ndarray, np.ndarray]:
    B = np.sqrt(2 * np.arange(size) + 1.0)
    return -np.tril(np.outer(B, B), -1) - np.diag(np.arange(1.0, size + 1)), B


def _lagt(size: int) -> tuple[np.ndarray, np.ndarray]:
    return -np.tril(np.ones((size, size))), np.ones(size)


def _fout(size: int) -> tuple[np.ndarray, np.ndarray]:
    at_zero = np.zeros(size)
    A = np.zeros((size, size))
    at_zero[0] = 1
    for k, pair in enumerate(range(1, size - 1, 2), 1):
        at_zero[pair] = np.sqrt(2)
        A[pair, pair + 1], A[pair + 1, pair] = -2 * np.pi * k, 2 * np.pi * k
    if size % 2 == 0:
        A[-1, -1] = -1  # without a partner: never driven
    return A - 2 * np.outer(at_zero, at_zero), 2 * at_zero


def _whole_history(size: int, length: float) -> tuple[Path, float, float]:
    return legendre_weighted(size, length), length, np.inf


def _fading(size: int, length: float) -> tuple[Path, float, float]:
    return laguerre_weighted(size, 8 / WINDOW), 80 * WINDOW / 8, WINDOW / 8


EQUATIONS = {
    "legt": Equation(_legt, lambda t: 1 / WINDOW),
    "legs": Equation(_legs, lambda t: 1 / t, _whole_history),
    "lagt": Equation(_lagt, lambda t: 8 / WINDOW, _fading),
    "fout": Equation(_fout, lambda t: 1 / WINDOW),
}


@lru_cache(maxsize=64)
def make_memory(name: str, size: int, dtype: torch.dtype = torch.float64) -> Memory:
    return MEMORIES[name](size, WINDOW, dtype=dtype)


def solve(
    name: str, c: np.ndarray, pieces: Sequence[tuple[float, np.ndarray]], start: float
) -> np.ndarray:
    """Coefficients (D, N) after a signal, from `c` (D, N) at time `start`.

    A piece is its length and its polynomials (degree + 1, D), lowest power first, in the time
    since the piece began.
    """
    equation, (n_channels, size) = EQUATIONS[name], c.shape
    A, B = equation.matrices(size)
    for length, polynomial in pieces:

        def slope(t: float, flat: np.ndarray, begin=start, polynomial=polynomial) -> np.ndarray:
            signal = (t - begin) ** np.arange(len(polynomial)) @ polynomial
            c = flat.reshape(n_channels, size)
            return (equation.rate(t) * (c @ A.T + signal[:, None] * B)).ravel()

        end = start + length
        # The tolerance of a step is below the rounding of c; DOP853 needs no Jacobian.
        done = solve_ivp(slope, (start, end), c.ravel(), "DOP853", rtol=1e-12, atol=1e-13)
        assert done.success
        c, start = done.y[:, -1].reshape(c.shape), end
    return c


def random_path(rng: np.random.Generator, gaps: np.ndarray, n_steps: np.ndarray, n_channels: int):
    """A path with random values and slopes at its grid, whose padding is full of NaN."""
    shape = n_steps.max() + 1, len(gaps), n_channels
    step = gaps / n_steps
    values, slopes = rng.normal(size=shape), rng.normal(size=shape) / step[:, None]
    beyond = np.arange(shape[0])[:, None] > n_steps
    values[beyond], slopes[beyond] = np.nan, np.nan
    return CubicPath(*map(torch.from_numpy, (values, slopes, step, n_steps)))


def hermite_pieces(path: CubicPath, row: int) -> list[tuple[float, np.ndarray]]:
    """The pieces of one row for `solve`."""
    h, pieces = float(path.step[row]), []
    for k in range(int(path.n_steps[row])):
        y0, y1 = path.values[k, row].numpy(), path.values[k + 1, row].numpy()
        d0, d1 = path.slopes[k, row].numpy(), path.slopes[k + 1, row].numpy()
        quadratic = (3 * (y1 - y0) / h - 2 * d0 - d1) / h
        cubic = (2 * (y0 - y1) / h + d0 + d1) / h**2
        pieces.append((h, np.stack([y0, d0, quadratic, cubic])))
    return pieces
