"""Times far beyond what any data have: every answer is the limit, never NaN."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skpolyode.cubic import CubicPath, hermite_derivatives
from skpolyode.memory import MEMORIES
from skpolyode.memory.base import Pieces, remember
from skpolyode.models.single import SingleMemory
from tests.memory.measures import make_memory

SIZE = 6
TINY = [5e-324, 1e-310, 1e-200, 1e-156, 1e-100]
HUGE = [1e90, 1e112, 1e160, 1e300]

pytestmark = pytest.mark.parametrize("name", MEMORIES)


def double(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def assert_close(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("gap", TINY)
def test_a_gap_of_nothing_changes_nothing(name, gap):
    memory, now = make_memory(name, SIZE), double(1.0)
    c = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 2, SIZE)))
    rise = double([3.0, -1e3])
    assert_close(memory.propagate(c, double(gap), now), c)
    assert_close(memory.hold(c, rise, double(gap), now), c)
    assert_close(memory.bridge(rise, double([gap, gap]), now), 0 * c)
    assert_close(memory.bridge(rise, double([gap, 1e-100]), now), 0 * c)
    path = CubicPath(*torch.ones(2, 4, 1, 2).double(), double(gap), torch.tensor([3]))
    path.values[1] = -5.0
    assert_close(memory.follow(c, path, now), c)
    single = SingleMemory(memory)
    assert_close(torch.from_numpy(single.hold(c[0].numpy(), rise[0].numpy(), gap, 1.0)), c[0])
    followed = single.follow(c[0].numpy(), np.ones((2, 4, 2)), gap * 1e-300, 1.0)  # even by zero
    assert_close(torch.from_numpy(followed), c[0])


@pytest.mark.parametrize("gap", HUGE)
def test_after_an_age_only_what_was_held_is_left(name, gap):
    memory, now = make_memory(name, SIZE), double(gap)
    c = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 2, SIZE)))
    value = double([3.0, -1e3])
    kept = memory.constant(value)
    assert_close(memory.propagate(c, now, now), 0 * c)
    assert_close(memory.hold(c, value, now, now), kept)
    single = SingleMemory(memory)
    held = single.hold(c[0].numpy(), value[0].numpy(), gap, gap)
    assert_close(torch.from_numpy(held), kept[0])
    # A ramp as long: of a window its end alone, of the history the whole, as of any length.
    ramp = memory.bridge(value, double([gap, gap]), now)
    like = memory.bridge(value, double([2.0, 2.0]), double(2.0))
    assert_close(ramp, like if memory.whole_history else kept)
    steps = np.stack([0 * value[0].numpy(), value[0].numpy() / gap], axis=1)
    answer = single.respond(steps[None], np.array([gap]), gap)
    assert_close(torch.from_numpy(answer), ramp)
    # A cubic in the last two units of time, which of the history are nothing.
    steps = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 2, 4)))
    recent = memory.respond(steps, double(2.0), now)
    like = memory.respond(steps, double(2.0), double(2.0))
    assert_close(recent, 0 * like if memory.whole_history else like)
    answer = single.respond(steps.numpy(), np.array([2.0]), gap)
    assert_close(torch.from_numpy(answer), recent)


def path(times, values, slopes, degree):
    """Pieces of a path that goes on to the last time, in the three forms of :class:`Pieces`."""
    with np.errstate(all="ignore"):  # derivatives over such gaps overflow, or vanish
        gap = np.diff(times)
        chord = np.diff(values) / gap
        ends = [[values[:-1], values[1:]], [chord, chord], [0 * chord] * 2, [0 * chord] * 2]
        if degree == 0:
            ends[0][1] = values[:-1]
        if degree == 3:
            *curve, jerk = hermite_derivatives(chord, slopes[:-1], slopes[1:], gap)
            ends[1:] = [slopes[:-1], slopes[1:]], curve, [jerk] * 2
    start, end = (torch.from_numpy(np.stack([e[k] for e in ends], 1)) for k in (0, 1))
    age = torch.from_numpy(times[-1] - times[:-1])
    row = torch.zeros(len(age), dtype=torch.int64)
    return Pieces(row, age, start[:, None, : degree + 1], end[:, None, : degree + 1])


@pytest.mark.parametrize("degree", [0, 1, 3])
@pytest.mark.parametrize("gap", TINY)
def test_a_piece_of_nothing_is_no_piece(name, gap, degree):
    """At the start of a series: further on it would be lost in the rounding of times."""
    memory = make_memory(name, SIZE)
    times, values = np.array([0.0, 1.0, 3.0]), np.array([1.0, -2.0, 0.5])
    slopes = np.array([0.3, 0.2, -1.0])
    plain = remember(memory, path(times, values, slopes, degree), double(3.0))
    times, values = np.insert(times, 1, gap), np.insert(values, 0, 7.0)
    slopes = np.insert(slopes, 0, 0.1)
    pieces = path(times, values, slopes, degree)
    pieces = pieces._replace(age=double(3.0 + 1e-15, 3.0, 2.0) if gap > 1e-15 else pieces.age)
    assert_close(remember(memory, pieces, double(3.0)), plain)
    alone = path(times[:2], values[:2], slopes[:2], degree)
    assert torch.isfinite(remember(memory, alone, double(gap))).all()


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_ages_before_ages(name, degree):
    """Pieces that are long, and short against the history."""
    memory, slopes = make_memory(name, SIZE), np.zeros(4)
    times, values = np.array([0.0, 1.0, 1e3, 1e6]), np.array([2.0, 4.0, 1.0, 1.0])
    found = remember(memory, path(1e110 * times, values, slopes, degree), double(1e116))
    line = remember(memory, path(times, values, slopes, min(degree, 1)), double(1e6))
    expected = line if memory.whole_history else memory.constant(double([1.0]))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("degree", [0, 1, 3])
@pytest.mark.parametrize("gap", HUGE)
def test_a_piece_of_ages_is_remembered_by_its_end(name, gap, degree):
    memory, slopes = make_memory(name, SIZE), np.array([0.5, -0.3, 2.0, -1.0]) / gap
    times, values = np.array([0.0, 1.0, 2.0, gap]), np.array([1.0, 4.0, 2.0, -3.0])
    found = remember(memory, path(times, values, slopes, degree), double(gap))
    if memory.whole_history:  # it is as long as the history: a piece of any length is like it
        slopes = slopes[2:] * gap / 5
        degree = min(degree, 1) if gap > 1e95 else degree  # beyond it all pieces are lines
        like = path(np.array([0.0, 5.0]), values[2:], slopes, degree)
        assert_close(found, remember(memory, like, double(5.0)))
    else:
        assert_close(found, memory.constant(double([values[3 if degree else 2]])))
