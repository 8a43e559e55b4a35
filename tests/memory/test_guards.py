"""What keeps answers quick or finite, and would not be missed by any result."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skpolyode.cubic import CubicPath
from skpolyode.memory import MEMORIES, LegSMemory
from skpolyode.memory.base import Pieces, path_parts, remember
from tests.memory.measures import make_memory

SIZE = 6


def double(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.parametrize("n_distinct", [1, 7])
def test_ages_that_are_equal_but_for_rounding_are_looked_up_once(name, n_distinct, monkeypatch):
    rng, memory = np.random.default_rng(0), make_memory(name, SIZE)
    gap = 0.3 * (1 + torch.from_numpy(rng.integers(0, n_distinct, 300))).double()
    gap *= 1 + 4e-16 * torch.from_numpy(rng.integers(-2, 3, 300)).double()
    elapsed = torch.full_like(gap, 9.0)
    for table, method, given in (
        (memory.transitions, memory.propagate, torch.ones(300, 3, SIZE)),
        (memory.responses, memory.respond, torch.ones(300, 3, 2)),
    ):
        looked_up = []
        monkeypatch.setattr(
            table,
            "_apply_all",
            lambda x, age, seen=looked_up, do=table._apply_all: (seen.append(len(age)), do(x, age))[
                1
            ],
        )
        method(given.double(), gap, elapsed)
        assert looked_up == [n_distinct]


@pytest.mark.parametrize("name", MEMORIES)
def test_ages_below_the_rounding_are_not_rounded(name):
    """Of the same tiny age, many and one: a knot is answered in proportion to it."""
    memory, elapsed = make_memory(name, SIZE), double(2.0).expand(300)
    steps = torch.ones(300, 2, 1).double()
    for gap in (3e-14, 2.04e-12):
        many = memory.respond(steps, double(gap).expand(300), elapsed)
        one = memory.respond(steps[:1], double(gap), elapsed[:1])
        torch.testing.assert_close(many, one.expand_as(many), rtol=1e-9, atol=0)
        assert float(one[0, 0, 0]) > 0


@pytest.mark.parametrize("size", [8, 128])
def test_impulses_are_weighted_polynomials(size):
    """However many: the tables of the impulses are as fine as the polynomials need."""
    memory, ages = LegSMemory(size), torch.linspace(0, 3, 333, dtype=torch.float64)
    elapsed = double(3.0).expand(333)
    found = memory.impulse(torch.ones(333, 1, 1).double(), ages[:, None], elapsed)[:, 0]
    torch.testing.assert_close(found, memory.basis(ages, elapsed) / 3, rtol=0, atol=1e-10)


def test_impulses_of_a_history_without_length_are_numbers():
    memory = LegSMemory(SIZE)
    strength = double([[0.0, 2.0]])
    answer = memory.impulse(strength[None], double([0.0, 0.0]), double(0.0))
    assert torch.isfinite(answer).all()
    none = memory.impulse(0 * strength[None], double([0.0, 0.0]), double(0.0))
    assert not none.any()


@pytest.mark.parametrize("name", MEMORIES)
def test_what_is_forgotten_leaves_no_rounding_errors(name):
    """Wild cubics long ago, and since then nothing but a constant."""
    memory = make_memory(name, SIZE)
    rng = np.random.default_rng(0)
    start = torch.from_numpy(rng.normal(size=(5, 1, 4))) * double(1.0, 1e2, 1e4, 1e6)
    end = torch.cat([start[1:] + 1, double([[2.0, 0.0, 0.0, 0.0]])[None, 0]])
    start[-1] = end[-1]
    age = 1e4 - double(0.0, 0.4, 0.9, 1.3, 1.8)
    pieces = Pieces(torch.zeros(5, dtype=torch.int64), age, start, end)
    c = remember(memory, pieces, double(1e4))
    if not memory.whole_history:
        expected = memory.constant(double([2.0]))
        torch.testing.assert_close(c, expected, rtol=0, atol=1e-12)


def test_a_short_piece_may_straddle_the_horizon():
    memory = make_memory("legt", 32)
    age = memory.horizon + double(0.007, -0.0001) * memory.window
    start = torch.ones(2, 1, 4).double()
    pieces = Pieces(torch.zeros(2, dtype=torch.int64), age, start, 0 * start)
    pieces.start[1] = 0
    assert remember(memory, pieces, age[:1]).abs().max() < 1e-14


def test_parts_of_a_path_that_are_forgotten_are_left_out():
    values = torch.zeros(401, 2, 1, dtype=torch.float64)
    path = CubicPath(values, values, double(0.1, 1.0), torch.tensor([400, 70]))
    row, rest, parts = path_parts(path, horizon=5.0)
    assert row.tolist() == [0, 1, 0]
    assert parts.n_steps.tolist() == [32, 32, 32]
    torch.testing.assert_close(rest, double(0.0, 0.0, 3.2))
    row, _, parts = path_parts(path, horizon=float("inf"))
    assert torch.bincount(row, parts.n_steps).tolist() == [400, 70]
    assert torch.equal(row[:2], torch.arange(2))


@pytest.mark.parametrize("name", MEMORIES)
def test_the_last_observation_is_no_knot(name, monkeypatch):
    """Nothing came after it. Of series of two observations it would be half of the knots."""
    memory, ages = make_memory(name, SIZE), []
    respond = memory.respond

    def spy(steps, age, elapsed):
        ages.extend(age.tolist())
        return respond(steps, age, elapsed)

    monkeypatch.setattr(memory, "respond", spy)
    start, end = double([[0.0, 0.5]], [[1.0, 0.0]]), double([[1.0, 0.5]], [[1.0, 0.0]])
    row = torch.zeros(2, dtype=torch.int64)
    remember(memory, Pieces(row, double(2.0, 0.0), start, end), double(2.0))
    assert ages == [2.0]
