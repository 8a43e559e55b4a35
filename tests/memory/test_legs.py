"""The whole history: its matrices, and that it is the projection of the history."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.polynomial import legendre
from scipy.linalg import expm

from skpolyode.memory import LegSMemory, legs_matrices, legt_basis

SIZES = [1, 2, 8, 16, 32, 64]


def double(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


@pytest.mark.parametrize("size", SIZES)
def test_identities_of_the_matrices(size):
    A, B = legs_matrices(size)
    np.testing.assert_allclose(A[:, 0], -B)  # a constant is a fixed point
    skew = A + np.outer(B, B) / 2 + np.eye(size) / 2  # normal plus low rank
    np.testing.assert_allclose(skew, -skew.T, atol=1e-12 * size)
    np.testing.assert_array_equal(A, np.tril(A))


@pytest.mark.parametrize("size", [*SIZES, 128])
def test_forgetting_is_the_projection_of_a_history_that_ended(size):
    """Zero since a share of the history ago: by Gauss quadrature, and by the matrix exponential."""
    rng = np.random.default_rng(size)
    gaps = np.concatenate([10 ** rng.uniform(-6, -0.05, 20), [1.0]])
    c = rng.normal(size=(len(gaps), 1, size))
    elapsed = torch.full((len(gaps),), 2.5, dtype=torch.float64)
    moved = LegSMemory(size).propagate(torch.from_numpy(c), torch.from_numpy(2.5 * gaps), elapsed)
    node, weight = legendre.leggauss(size)
    node, weight = (1 + node) / 2, weight / 2
    A, _ = legs_matrices(size)
    for own, result, gap in zip(c[:, 0], moved[:, 0].numpy(), gaps, strict=True):
        left = 1 - gap
        history = legt_basis(node, size) @ own
        projected = left * (weight * history) @ legt_basis(left * node, size)
        np.testing.assert_allclose(result, projected, atol=1e-11)
        if left > 0:
            np.testing.assert_allclose(result, expm(A * -np.log(left)) @ own, atol=1e-11)


@pytest.mark.parametrize("size", [4, 32, 128])
def test_exact_update_of_a_line(size):
    """A closed form: c(t) = p(t) for f = alpha + beta t, v = (I - A)^-1 B."""
    memory = LegSMemory(size)
    A, B = legs_matrices(size)
    v = np.linalg.solve(np.eye(size) - A, B)
    np.testing.assert_allclose(v[:3], [0.5, 0.5 / np.sqrt(3), 0.0][:size], atol=1e-14)
    steps = double([[0.0, 0.7]])  # a slope from the start of the history on
    c = memory.constant(double([2.0])) + memory.respond(steps, double(3.0), double(3.0))
    np.testing.assert_allclose(c[0, 0], 2.0 * np.eye(size)[0] + 0.7 * 3.0 * v, atol=1e-13)


def test_a_history_without_length_is_its_only_value():
    memory, now = LegSMemory(5), double(0.0)
    c = memory.constant(double([3.0, -1.0]))
    np.testing.assert_array_equal(
        memory.reconstruct(c, double([0.0, 2.0]), now)[0], [[3, -1], [3, -1]]
    )


def test_before_the_start_the_first_value_is_held():
    memory = LegSMemory(3)
    c = memory.constant(double([1.0])) + memory.respond(
        double([[0.0, 1.0]]), double(2.0), double(2.0)
    )
    values = memory.reconstruct(c, double([0.0, 2.0, 7.0]), double(2.0))[0, :, 0]
    np.testing.assert_allclose(values, [3.0, 1.0, 1.0], atol=1e-12)


def test_many_steps_in_float32_stay_accurate():
    """A hundred updates in float32 against one in float64."""
    rng = np.random.default_rng(0)
    gaps = torch.from_numpy(10 ** rng.uniform(-3, 0, 100))
    values = torch.from_numpy(rng.normal(size=101))
    results = []
    for dtype in (torch.float32, torch.float64):
        memory = LegSMemory(32, dtype=dtype)
        c = memory.constant(values[:1, None])
        for gap, value, now in zip(gaps, values[1:], gaps.cumsum(0), strict=True):
            c = memory.hold(c, value[None, None], gap[None], now[None])
        results.append(c.double())
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-5)
