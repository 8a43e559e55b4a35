"""The sliding window: its matrices, its polynomials, and how well it remembers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.linalg import expm

from skpolyode.cubic import CubicPath
from skpolyode.memory import LegTMemory, legt_basis, legt_matrices

SIZES = [1, 2, 8, 16, 32, 64]


def double(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


@pytest.mark.parametrize("size", SIZES)
def test_identities_of_the_matrices(size):
    A, B = legt_matrices(size)
    sign = (-1.0) ** np.arange(size)
    even, odd = np.where(sign > 0, B, 0.0), np.where(sign < 0, B, 0.0)
    np.testing.assert_allclose(A[:, 0], -B)  # a constant is a fixed point
    norm = np.outer(B, B) + np.outer(sign * B, sign * B)
    np.testing.assert_allclose(A + A.T, -norm, atol=1e-12 * size)  # hence a contraction
    skew = A + np.outer(even, even) + np.outer(odd, odd)  # normal plus low rank
    np.testing.assert_allclose(skew, -skew.T, atol=1e-12 * size)


def test_matrices_of_two_coefficients():
    A, B = legt_matrices(2)
    root = np.sqrt(3.0)
    np.testing.assert_allclose(A, [[-1, root], [-root, -3]])
    np.testing.assert_allclose(B, [1, root])


@pytest.mark.parametrize("size", SIZES)
def test_basis_is_orthonormal(size):
    x, w = np.polynomial.legendre.leggauss(size)
    basis = legt_basis((x + 1) / 2, size)
    np.testing.assert_allclose(basis.T @ (basis * w[:, None] / 2), np.eye(size), atol=1e-12)


def test_basis_at_the_ends_of_the_window():
    norm = np.sqrt(2 * np.arange(6) + 1.0)
    np.testing.assert_allclose(legt_basis([0.0, 1.0], 6), [norm * (-1.0) ** np.arange(6), norm])
    memory = LegTMemory(6, window=2.5)
    ages = memory.basis(double([0.0, 2.5]), double([9.0])).squeeze()
    np.testing.assert_allclose(ages, [norm, norm * (-1.0) ** np.arange(6)])


@pytest.mark.parametrize("n_channels", [1, 3])  # each has a way of its own
@pytest.mark.parametrize("size", [*SIZES, 100, 128])
def test_gaps_that_never_repeat(size, n_channels):
    rng = np.random.default_rng(size)
    n_gaps = 40 if size <= 64 else 6
    gaps = 10 ** rng.uniform(-7, 1.5, n_gaps)
    c = rng.normal(size=(n_gaps, n_channels, size))
    A, _ = legt_matrices(size)
    expected = np.stack([v @ expm(A * gap).T for v, gap in zip(c, gaps, strict=True)])
    gap = torch.from_numpy(gaps * 3.0)
    moved = LegTMemory(size, window=3.0).propagate(torch.from_numpy(c), gap, gap)
    np.testing.assert_allclose(moved, expected, atol=2e-11)
    single = LegTMemory(size, window=3.0, dtype=torch.float32)
    moved = single.propagate(torch.from_numpy(c).float(), gap, gap)
    np.testing.assert_allclose(moved, expected, atol=1e-4)


@pytest.mark.parametrize("gap", [0.0, 1e-300, 1e6])
def test_extreme_gaps(gap):
    memory, c = LegTMemory(16, window=1.0), torch.randn(1, 2, 16, dtype=torch.float64)
    value, time = double([3.0, -1.0]), double(gap)
    moved, held = memory.propagate(c, time, time), memory.hold(c, value, time, time)
    if gap < 1:
        torch.testing.assert_close(moved, c)
        torch.testing.assert_close(held, c)
    else:
        torch.testing.assert_close(moved, torch.zeros_like(c), atol=1e-15, rtol=0)
        torch.testing.assert_close(held, memory.constant(value), atol=1e-13, rtol=0)


def remember(signal, slope, size, window, until, step=0.0025):
    """Coefficients (N,) of a smooth signal from time 0 on, that was constant before."""
    n = round(until / step)
    t = np.linspace(0, until, n + 1)
    columns = (torch.from_numpy(f(t))[:, None, None] for f in (signal, slope))
    path = CubicPath(*columns, double(until / n), torch.tensor([n]))
    memory = LegTMemory(size, window)
    c = memory.constant(double([float(signal(0.0))]))
    return memory, memory.follow(c, path, double(until))


def mean_square(signal, c, window, until):
    """Mean squared error over the window, by quadrature; also of the best coefficients."""
    x, w = np.polynomial.legendre.leggauss(200)
    basis, past = legt_basis((x + 1) / 2, len(c)), signal(until - window * (1 - x) / 2)
    best = basis.T @ (past * w / 2)
    return tuple(float(((basis @ k - past) ** 2) @ w / 2) for k in (c, best))


@pytest.mark.parametrize("until", [20.0, 20.7, 21.1])
@pytest.mark.parametrize(("rate", "size", "level"), [(4, 16, 2e-6), (8, 32, 5e-10)])
def test_closure_error_of_waves(rate, size, level, until):
    """The memory follows its differential equation, which is a little off the projection."""

    def signal(t):
        return np.sin(rate * t)

    _, c = remember(signal, lambda t: rate * np.cos(rate * t), size, 5.0, until)
    error, least = mean_square(signal, c[0, 0].numpy(), 5.0, until)
    assert least < error < 7 * least
    assert level / 4 < error < 4 * level


def test_closure_error_of_a_step():
    """A square wave with one step of two in the window: .015 for the projection, as in theory."""
    size, memory = 32, LegTMemory(32, 5.0)
    c = memory.constant(double([1.0]))
    for k in range(4):
        now = double(5.0 * (k + 1) if k < 3 else 17.5)
        c = memory.hold(c, double([(-1.0) ** k]), double(5.0 if k < 3 else 2.5), now)
    x = (np.arange(20000) + 0.5) / 20000
    past = np.where(x > 0.5, -1.0, 1.0)
    basis = legt_basis(x, size)
    best = basis.T @ past / len(x)
    error, least = (((basis @ k - past) ** 2).mean() for k in (c[0, 0].numpy(), best))
    assert least <= error < 1.15 * least
    assert least == pytest.approx(4 / (2 * np.pi * size), rel=0.05)


def test_two_waves_are_remembered_to_nine_digits():
    def signal(t):
        return np.sin(t) + np.cos(t)

    memory, c = remember(signal, lambda t: np.cos(t) - np.sin(t), 32, 5.0, 20.0)
    age = np.linspace(0, 5.0, 101)
    back = memory.reconstruct(c, torch.from_numpy(age)[None], double(20.0))[0, :, 0]
    np.testing.assert_allclose(back, signal(20.0 - age), rtol=0, atol=1e-9)


def test_error_falls_with_more_coefficients():
    def signal(t):
        return np.sin(2 * t) * np.exp(np.cos(t))

    def slope(t):
        return (2 * np.cos(2 * t) - np.sin(2 * t) * np.sin(t)) * np.exp(np.cos(t))

    errors = []
    for size in (8, 16, 24, 32):
        _, c = remember(signal, slope, size, 6.0, 24.0)
        errors.append(mean_square(signal, c[0, 0].numpy(), 6.0, 24.0)[0])
    assert all(later < earlier / 50 for earlier, later in pairwise(errors))


def test_polynomials_below_the_number_of_coefficients_are_exact():
    """After many windows nothing is left of the start, and there is no closure error."""
    memory, c = remember(lambda t: (t - 9) ** 3 / 9, lambda t: (t - 9) ** 2 / 3, 4, 1.0, 12.0)
    age = double([0.0, 0.5, 1.0])
    back = memory.reconstruct(c, age, double(12.0))[0, :, 0]
    torch.testing.assert_close(back, (3 - age[0]) ** 3 / 9, rtol=0, atol=1e-8)


def test_many_short_pieces_lose_no_digits():
    """Third derivatives of rough pieces are huge; they have to cancel exactly."""
    rng, n, size = np.random.default_rng(0), 100, 16
    values, slopes = (torch.from_numpy(rng.normal(size=(n + 1, 1, 1))) for _ in range(2))
    memory, step = LegTMemory(size, 1.0), double(1 / n)
    start, age = memory.constant(values[0]), double(1.0)
    whole = memory.follow(start, CubicPath(values, slopes, step, torch.tensor([n])), age)
    parts = start
    for k in range(n):
        piece = slice(k, k + 2)
        path = CubicPath(values[piece], slopes[piece], step, torch.tensor([1]))
        parts = memory.follow(parts, path, age)
    torch.testing.assert_close(whole, parts, rtol=0, atol=1e-8)


def test_memories_of_one_size_share_their_tables():
    one, two = LegTMemory(9, window=1.0), LegTMemory(9, window=4.0)
    assert one.transitions is two.transitions
    assert one.responses is two.responses
