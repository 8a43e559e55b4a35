"""Coefficients of given paths by other means than the package: quadrature and matrix functions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.polynomial import laguerre, legendre
from scipy.linalg import expm

Path = Callable[[np.ndarray], np.ndarray]


def project(
    path: Path, knots: np.ndarray, end: float, basis: Path, reach: float, panel: float = np.inf
) -> np.ndarray:
    """``int path(end - age) basis(age) d age`` over [0, reach], piece by piece; exact in effect.

    `basis` maps ages (M,) to (M, N) and contains the weight; a path is smooth between `knots`.
    """
    ages = np.concatenate([end - knots, np.arange(0.0, reach, min(panel, reach)), [reach]])
    edges = np.unique(np.clip(ages, 0.0, reach))
    node, weight = legendre.leggauss(80)
    total = 0.0
    for left, right in pairwise(edges):
        age = left + (right - left) * (1 + node) / 2
        total = total + (weight * path(end - age)) @ basis(age) * (right - left) / 2
    return total


def legendre_weighted(n_coefficients: int, length: float) -> Path:
    norm = np.sqrt(2 * np.arange(n_coefficients) + 1.0)

    def basis(age: np.ndarray) -> np.ndarray:
        return legendre.legvander(1 - 2 * age / length, n_coefficients - 1) * norm / length

    return basis


def laguerre_weighted(n_coefficients: int, rate: float) -> Path:
    def basis(age: np.ndarray) -> np.ndarray:
        x = rate * age
        return rate * np.exp(-x)[:, None] * laguerre.lagvander(x, n_coefficients - 1)

    return basis


def solve(A: np.ndarray, B: np.ndarray, gaps: np.ndarray, derivatives: np.ndarray) -> np.ndarray:
    """Solution of ``dc/dt = A c + B f`` after all gaps, from the past ``f = derivatives[0, 0]``.

    In each gap f is the polynomial with the value and the derivatives (gaps, Q) at its start.
    """
    size, order = len(A), derivatives.shape[1]
    generator = np.zeros((size + order, size + order))
    generator[:size, :size], generator[:size, size] = A, B
    generator[range(size, size + order - 1), range(size + 1, size + order)] = 1.0
    c = np.zeros(size)
    c[0] = derivatives[0, 0]
    for gap, start in zip(gaps, derivatives, strict=True):
        c = (expm(generator * gap) @ np.concatenate([c, start]))[:size]
    return c
