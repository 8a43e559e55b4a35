"""The fading memory: its matrices, its polynomials, and that it is a projection."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.polynomial import laguerre
from scipy.linalg import expm

from skpolyode.memory import LagTMemory, lagt_matrices

SIZES = [1, 2, 8, 16, 32, 64]


@pytest.mark.parametrize("size", SIZES)
def test_identities_of_the_matrices(size):
    A, B = lagt_matrices(size)
    np.testing.assert_allclose(A[:, 0], -B)  # a constant is a fixed point
    skew = A + np.ones((size, size)) / 2 + np.eye(size) / 2
    np.testing.assert_allclose(skew, -skew.T)


@pytest.mark.parametrize("size", [*SIZES, 128])
def test_gaps_that_never_repeat(size):
    rng = np.random.default_rng(size)
    gaps = 10 ** rng.uniform(-6, 1, 25)
    c = rng.normal(size=(25, 1, size))
    memory = LagTMemory(size, window=8.0)  # one unit of time is one of the measure
    moved = memory.propagate(*map(torch.from_numpy, (c, gaps, gaps)))
    A, _ = lagt_matrices(size)
    expected = [expm(A * gap) @ own[0] for own, gap in zip(c, gaps, strict=True)]
    np.testing.assert_allclose(moved[:, 0], expected, atol=1e-11)


def test_polynomials_are_orthonormal_for_the_weight():
    size = 20
    node, weight = laguerre.laggauss(size)
    ages = torch.from_numpy(node / 4)  # a = 8 / window = 4
    basis = LagTMemory(size, window=2.0).basis(ages, ages).numpy()
    np.testing.assert_allclose(basis.T @ (weight[:, None] * basis), np.eye(size), atol=1e-10)


@pytest.mark.parametrize("size", [8, 32, 128])
def test_impulses_are_weighted_polynomials(size):
    ages = torch.linspace(0, 2, 40, dtype=torch.float64)
    memory = LagTMemory(size, window=2.0)
    response = memory.impulse(torch.ones(40, 1, 1).double(), ages[:, None], ages)[:, 0].numpy()
    expected = 4 * np.exp(-4 * ages[:, None].numpy()) * memory.basis(ages, ages).numpy()
    np.testing.assert_allclose(response, expected, atol=1e-12)


def test_the_past_of_a_smooth_signal_is_read_back():
    memory = LagTMemory(32, window=5.0)
    knots = torch.linspace(40, 0, 8001, dtype=torch.float64)[:-1]
    slope = -torch.cos(knots)  # f(t) = sin(t) at t = -age, by lines
    values = -torch.sin(torch.linspace(40, 0, 8001, dtype=torch.float64))
    slope = values.diff() / (knots[0] - knots[1])
    steps = torch.zeros(8000, 1, 2, dtype=torch.float64)
    steps[0, 0, 0], steps[:, 0, 1] = values[0], slope.diff(prepend=torch.zeros(1))
    c = memory.respond(steps, knots, knots).sum(dim=0, keepdim=True)
    ages = torch.linspace(0, 2.5, 60, dtype=torch.float64)
    read = memory.reconstruct(c, ages[None], torch.ones(1).double())[0, :, 0]
    np.testing.assert_allclose(read, -torch.sin(ages), atol=1e-4)
