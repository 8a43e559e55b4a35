"""The memory of one series, in numpy, is the memory of many, to rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skpolyode.memory import MEMORIES
from skpolyode.models.single import SingleMemory
from tests.memory.measures import WINDOW, make_memory

GAPS = [1e-7, 0.01, 0.3, WINDOW, 5.0, 80.0]
BEFORE = [0.0, 0.5, 100.0]  # length of the history before the gap


def double(array: object) -> torch.Tensor:
    return torch.tensor(array, dtype=torch.float64)


@pytest.mark.parametrize("size", [1, 2, 5, 32, 100])
@pytest.mark.parametrize("name", MEMORIES)
def test_one_series_is_moved_as_many(name, size):
    memory, rng = make_memory(name, size), np.random.default_rng(size)
    single = SingleMemory(memory)
    assert single.horizon == memory.horizon
    for gap in GAPS:
        for elapsed in (before + gap for before in BEFORE):
            c, value = rng.standard_normal((3, size)), rng.standard_normal(3)
            times = double([gap]), double([elapsed])
            many = memory.propagate(double(c)[None], *times)[0]
            np.testing.assert_allclose(single.propagate(c, gap, elapsed), many, atol=1e-13)
            many = memory.hold(double(c)[None], double(value)[None], *times)[0]
            np.testing.assert_allclose(single.hold(c, value, gap, elapsed), many, atol=1e-13)


@pytest.mark.parametrize("name", MEMORIES)
def test_a_history_without_length_is_as_of_many(name):
    """Times so near that nothing is left of their difference in other units."""
    memory, rng = make_memory(name, 4), np.random.default_rng(0)
    c, steps, zero = rng.standard_normal((2, 4)), rng.standard_normal((1, 2, 2)), double([0.0])
    single = SingleMemory(memory)
    moved = memory.propagate(double(c)[None], zero, zero)[0]
    np.testing.assert_allclose(single.propagate(c, 0.0, 0.0), moved, atol=1e-13)
    np.testing.assert_allclose(moved, c, atol=1e-13)
    answer = memory.respond(double(steps), zero, zero)
    np.testing.assert_allclose(single.respond(steps, np.zeros(1), 0.0), answer, atol=1e-13)
    assert not answer.any()


@pytest.mark.parametrize("n_orders", [1, 2, 4])
@pytest.mark.parametrize("name", MEMORIES)
def test_knots_are_answered_as_by_the_memory_of_many(name, n_orders):
    memory, rng = make_memory(name, 16), np.random.default_rng(n_orders)
    age = np.array([1e-6, 0.2, 0.9, WINDOW, 3.0, 40.0])
    steps = rng.standard_normal((len(age), 2, n_orders))
    for elapsed in (age.max(), 77.0, 35.0):  # the last is shorter than the oldest age
        many = memory.respond(double(steps), double(age), double(np.full(len(age), elapsed)))
        one = SingleMemory(memory).respond(steps, age, elapsed)
        np.testing.assert_allclose(one, many, rtol=1e-12, atol=1e-12)
