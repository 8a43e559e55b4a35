"""The Fourier window: its matrices, its basis, and how well it remembers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import expm

from skpolyode.memory import FouTMemory, fout_matrices

SIZES = [1, 3, 9, 33, 65]


@pytest.mark.parametrize("size", [*SIZES, 2, 8, 32])
def test_identities_of_the_matrices(size):
    A, B = fout_matrices(size)
    np.testing.assert_allclose(A[:, 0], -B)  # a constant is a fixed point
    skew = A + np.outer(B, B) / 2
    if size % 2 == 0:
        assert not A[-1, :-1].any()
        assert not A[:-1, -1].any()
        assert B[-1] == 0
        skew[-1, -1] += 1
    np.testing.assert_allclose(skew, -skew.T, atol=1e-12)


def test_an_even_number_is_an_odd_one_and_a_zero():
    for even, odd in zip(fout_matrices(8), fout_matrices(7), strict=True):
        np.testing.assert_array_equal(even[:7][..., :7], odd)


@pytest.mark.parametrize("size", [*SIZES, 128])
def test_gaps_that_never_repeat(size):
    rng = np.random.default_rng(size)
    gaps = 10 ** rng.uniform(-6, 1, 25)
    c = rng.normal(size=(25, 1, size))
    moved = FouTMemory(size, window=1.0).propagate(*map(torch.from_numpy, (c, gaps, gaps)))
    A, _ = fout_matrices(size)
    expected = [expm(A * gap) @ own[0] for own, gap in zip(c, gaps, strict=True)]
    np.testing.assert_allclose(moved[:, 0], expected, atol=1e-11)


def test_basis_is_orthonormal():
    ages = torch.arange(64, dtype=torch.float64) / 64 * 2.5
    basis = FouTMemory(17, window=2.5).basis(ages, ages).numpy()
    np.testing.assert_allclose(basis.T @ basis / 64, np.eye(17), atol=1e-12)


def test_a_periodic_signal_is_remembered():
    """A sine whose period divides the window, after its start is forgotten."""
    memory = FouTMemory(33, window=2.0)
    grid = torch.linspace(60, 0, 12001, dtype=torch.float64)
    values = torch.sin(-2 * np.pi * grid)
    slope = values.diff() / (grid[0] - grid[1])
    steps = torch.stack([torch.zeros_like(slope), slope.diff(prepend=torch.zeros(1))], dim=1)
    c = memory.respond(steps[:, None], grid[:-1], grid[:-1]).sum(dim=0, keepdim=True)
    ages = torch.linspace(0, 2, 50, dtype=torch.float64)
    read = memory.reconstruct(c, ages[None], torch.ones(1).double())[0, :, 0]
    np.testing.assert_allclose(read, torch.sin(-2 * np.pi * ages), atol=2e-3)
