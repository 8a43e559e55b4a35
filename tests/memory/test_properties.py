"""What holds for every measure, because the memory is linear and remembers a signal."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skpolyode.cubic import CubicPath
from skpolyode.memory import MEMORIES
from tests.closeness import assert_same_but_for_rounding
from tests.memory.measures import WINDOW, make_memory, random_path

SIZE, START = 12, 0.8
SEEDS = st.integers(0, 2**20)
GAPS = st.floats(1e-6, 30.0).map(lambda gap: gap * WINDOW)

pytestmark = pytest.mark.parametrize("name", MEMORIES)


def double(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def random_case(seed, gap, n_steps=3, n_channels=2):
    rng = np.random.default_rng(seed)
    c = torch.from_numpy(rng.normal(size=(1, n_channels, SIZE)))
    return c, random_path(rng, np.array([gap]), np.array([n_steps]), n_channels)


def assert_close(one, two, tolerance=1e-10):
    scale = max(1.0, float(two.abs().max()))
    torch.testing.assert_close(one, two, rtol=0, atol=tolerance * scale)


@given(seed=SEEDS, gap=GAPS, weights=st.tuples(*[st.floats(-10, 10)] * 2))
def test_following_is_linear(name, seed, gap, weights):
    memory, elapsed = make_memory(name, SIZE), double(START + gap)
    (c1, p1), (c2, p2) = random_case(seed, gap), random_case(seed + 1, gap)
    a, b = weights
    mixed = p1._replace(values=a * p1.values + b * p2.values, slopes=a * p1.slopes + b * p2.slopes)
    separate = a * memory.follow(c1, p1, elapsed) + b * memory.follow(c2, p2, elapsed)
    assert_close(memory.follow(a * c1 + b * c2, mixed, elapsed), separate)


@given(seed=SEEDS, gap=GAPS, first=st.integers(1, 4))
def test_following_two_parts_is_following_the_whole(name, seed, gap, first):
    memory = make_memory(name, SIZE)
    c, whole = random_case(seed, gap, n_steps=5)
    parts = [
        CubicPath(whole.values[cut], whole.slopes[cut], whole.step, torch.tensor([n]))
        for cut, n in ((slice(first + 1), first), (slice(first, None), 5 - first))
    ]
    middle = memory.follow(c, parts[0], START + first * whole.step)
    end = memory.follow(middle, parts[1], double(START + gap))
    assert_close(end, memory.follow(c, whole, double(START + gap)))


@pytest.mark.parametrize("step", [0.02 * WINDOW, 3.0 * WINDOW])
def test_many_pieces_are_remembered_as_exactly_as_few(name, step):
    """Paths of 600 and of 33 pieces and of one, against each piece on its own."""
    memory, lengths = make_memory(name, SIZE), np.array([600, 33, 1])
    times = torch.from_numpy(step * np.arange(601)[:, None, None] * np.ones((3, 1)))
    path = CubicPath(
        torch.cos(times / WINDOW),
        -torch.sin(times / WINDOW) / WINDOW,
        double(step, step, step),
        torch.from_numpy(lengths),
    )
    c = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 1, SIZE)))
    whole = memory.follow(c, path, START + path.step * path.n_steps)
    for row, n_steps in enumerate(lengths):
        one, own = c[row : row + 1], slice(row, row + 1)
        for k in range(n_steps):
            piece = slice(k, k + 2)
            part = CubicPath(
                path.values[piece, own], path.slopes[piece, own], path.step[own], torch.tensor([1])
            )
            one = memory.follow(one, part, START + (k + 1) * path.step[own])
        assert_close(whole[own], one)


@given(seed=SEEDS, gaps=st.tuples(GAPS, GAPS))
def test_two_gaps_are_one(name, seed, gaps):
    memory, (c, _) = make_memory(name, SIZE), random_case(seed, 1.0)
    g1, g2 = map(double, gaps)
    twice = memory.propagate(memory.propagate(c, g1, START + g1), g2, START + g1 + g2)
    assert_close(twice, memory.propagate(c, g1 + g2, START + g1 + g2), 1e-12)
    value = c[..., 0]
    twice = memory.hold(memory.hold(c, value, g1, START + g1), value, g2, START + g1 + g2)
    assert_close(twice, memory.hold(c, value, g1 + g2, START + g1 + g2), 1e-12)


@given(seed=SEEDS, gap=GAPS)
def test_a_gap_contracts(name, seed, gap):
    memory, (c, _) = make_memory(name, SIZE), random_case(seed, 1.0)
    after = memory.propagate(c, double(gap), double(START + gap))
    assert (after.norm(dim=-1) <= c.norm(dim=-1) * (1 + 1e-12)).all()


@given(value=st.floats(-1e3, 1e3), gap=GAPS, size=st.integers(1, 20))
def test_a_constant_stays(name, value, gap, size):
    memory, signal = make_memory(name, size), double([value])
    c, elapsed = memory.constant(signal), double(START + gap)
    assert c.shape == (1, 1, size)
    assert_close(memory.hold(c, signal, double(gap), elapsed), c, 1e-13)
    path = CubicPath(
        signal.expand(3, 1, 1), torch.zeros(3, 1, 1), double(gap / 2), torch.tensor([2])
    )
    assert_close(memory.follow(c, path, elapsed), c, 1e-12)
    age = double([0.0, 0.3 * START, START])
    assert_close(memory.reconstruct(c, age, elapsed), signal.expand(1, 3, 1), 1e-12)


@given(seed=SEEDS, gap=GAPS)
def test_holding_is_following_a_constant_path(name, seed, gap):
    memory, (c, _) = make_memory(name, SIZE), random_case(seed, 1.0)
    value, elapsed = c[..., 1], double(START + gap)
    path = CubicPath(
        value.expand(4, 1, 2), torch.zeros(4, 1, 2), double(gap / 3), torch.tensor([3])
    )
    held = memory.hold(c, value, double(gap), elapsed)
    assert_close(held, memory.follow(c, path, elapsed))


@given(seed=SEEDS, gap=GAPS)
def test_bridging_is_following_a_ramp(name, seed, gap):
    memory, rise = make_memory(name, SIZE), random_case(seed, gap)[0][..., 0]
    slope = rise / gap
    path = CubicPath(
        torch.stack([0 * rise, rise]), torch.stack([slope, slope]), double(gap), torch.tensor([1])
    )
    c, elapsed = torch.zeros(1, 2, SIZE, dtype=torch.float64), double(START + gap)
    bridged = memory.bridge(rise, double(gap).expand(1, 2), elapsed)
    assert_close(bridged, memory.follow(c, path, elapsed))


def test_channels_that_were_seen_apart_are_bridged_apart(name):
    memory, elapsed = make_memory(name, SIZE), double(5.0, 6.0)
    rise, gap = double([1.0, -2.0], [0.5, 3.0]), double([0.4, 1.9], [0.4, 0.4])
    together = memory.bridge(rise, gap, elapsed)
    for j in range(2):
        alone = memory.bridge(rise[:, j : j + 1], gap[:, j : j + 1], elapsed)
        assert_close(together[:, j : j + 1], alone, 1e-13)


@given(seed=SEEDS, gap=GAPS, n_steps=st.sampled_from([1, 3, 8, 70]))
def test_many_channels_are_answered_like_each_of_them(name, seed, gap, n_steps):
    """Paths of 150 channels, which are short of and beyond that of many steps, and of another."""
    memory, rng = make_memory(name, SIZE), np.random.default_rng(seed)
    gaps, counts = np.array([gap, 0.7 * gap]), np.array([n_steps, max(n_steps // 2, 1)])
    path, elapsed = random_path(rng, gaps, counts, 150), START + torch.from_numpy(gaps)
    together = memory.driven(path, elapsed)
    for some in (slice(0, 1), slice(77, 82)):
        columns = path._replace(values=path.values[..., some], slopes=path.slopes[..., some])
        assert_close(together[:, some], memory.driven(columns, elapsed), 1e-9)


def test_of_many_channels_only_those_that_rise_are_bridged(name):
    """Apart and together, of rows of which some have nothing to be bridged."""
    memory, rng, shape = make_memory(name, SIZE), np.random.default_rng(0), (4, 40)
    elapsed = torch.from_numpy(START + rng.random(4))
    apart = torch.from_numpy(0.1 + 0.5 * rng.random(shape))
    rise = torch.from_numpy(np.where(rng.random(shape) < 0.1, rng.normal(size=shape), 0.0))
    rise[2] = 0.0
    for gap in (apart, apart[:, :1].expand(shape)):
        together = memory.bridge(rise, gap, elapsed)
        for j in range(40):
            alone = memory.bridge(rise[:, j : j + 1], gap[:, j : j + 1], elapsed)
            assert_close(together[:, j : j + 1], alone, 1e-13)


def test_a_bridged_past_ends_at_the_observation(name):
    """The remembered path is a constant, then a ramp to the observation."""
    gap, elapsed = double([0.4 * WINDOW]), double(1.2 * WINDOW)
    # A Fourier series takes the mean of both ends of its period there.
    end = (2.0 + 5.0) / 2 if name == "fout" else 5.0
    errors = []
    for size in (16, 32, 64):
        memory = make_memory(name, size)
        c = memory.constant(double([2.0])) + memory.bridge(double([3.0]), gap, elapsed)
        errors.append(float(memory.reconstruct(c, double([0.0]), elapsed)) - end)
    assert abs(errors[0]) < 0.1
    assert abs(errors[2]) < 0.02
    middle = memory.reconstruct(c, double([0.2 * WINDOW, 0.6 * WINDOW]), elapsed)[0, :, 0]
    torch.testing.assert_close(middle, double(3.5, 2.0), rtol=0, atol=0.02)


@given(seed=SEEDS, unit=st.floats(1e-4, 1e4))
def test_the_unit_of_time_does_not_matter(name, seed, unit):
    c, path = random_case(seed, 2.3)
    scaled = path._replace(slopes=path.slopes / unit, step=path.step * unit)
    one, other = make_memory(name, SIZE), MEMORIES[name](SIZE, WINDOW * unit)
    elapsed, age = double(START + 2.3), double([0.0, 0.4, 1.1])
    c1 = one.follow(c, path, elapsed)
    c2 = other.follow(c, scaled, elapsed * unit)
    assert_close(c2, c1)
    read = other.reconstruct(c2, age * unit, elapsed * unit)
    assert_close(read, one.reconstruct(c1, age, elapsed))


@pytest.mark.parametrize("n_rows", [1023, 1025, 5000])
def test_rows_do_not_meet(name, n_rows):
    """Also where large batches are worked on in chunks."""
    rng, memory = np.random.default_rng(0), make_memory(name, SIZE)
    gaps, n_steps = rng.uniform(0.01, 3, n_rows), rng.integers(1, 4, n_rows)
    path = random_path(rng, gaps, n_steps, 1)
    c, elapsed = torch.from_numpy(rng.normal(size=(n_rows, 1, SIZE))), torch.from_numpy(gaps + 1)
    together = memory.follow(c, path, elapsed)
    for row in (0, 1022, n_rows - 1):
        rows = slice(row, row + 1)
        alone = CubicPath(
            path.values[:, rows], path.slopes[:, rows], path.step[rows], path.n_steps[rows]
        )
        assert_close(together[rows], memory.follow(c[rows], alone, elapsed[rows]), 1e-13)


@pytest.mark.parametrize("n_distinct", [1, 7])
@pytest.mark.parametrize("n_rows", [200, 5000])
def test_gaps_that_repeat_are_as_any_others(name, n_distinct, n_rows):
    """Their matrices are made once; a grid's gaps are equal but for rounding."""
    rng, memory = np.random.default_rng(0), make_memory(name, SIZE)
    gap = 0.3 * (1 + torch.from_numpy(rng.integers(0, n_distinct, n_rows))).double()
    gap *= 1 + 4e-16 * torch.from_numpy(rng.integers(-2, 3, n_rows)).double()
    elapsed = torch.full_like(gap, 9.0)
    c, steps = (torch.from_numpy(rng.normal(size=(n_rows, 3, n))) for n in (SIZE, 4))
    kept, answer = memory.propagate(c, gap, elapsed), memory.respond(steps, gap, elapsed)
    for rows in (slice(row, row + 1) for row in (0, 1, 150, n_rows - 1)):
        given = gap[rows], elapsed[rows]
        assert_close(kept[rows], memory.propagate(c[rows], *given), 1e-11)
        assert_close(answer[rows], memory.respond(steps[rows], *given), 1e-11)


def test_what_a_measure_declares_is_so(name):
    """Of the class as of an instance: how far back, how much of the past, and of how long one."""
    measure, memory = MEMORIES[name], MEMORIES[name](32, WINDOW)
    assert memory.reach(WINDOW) == measure.reach(WINDOW) >= WINDOW
    elapsed = double(1e3, 2e3)
    old = memory.propagate(torch.eye(32).double().expand(2, -1, -1), elapsed / 2, elapsed)
    assert bool(old.abs().max() > 1e-6) == np.isinf(measure.context)  # half a long life ago
    if np.isfinite(measure.context):
        gap = double(measure.context * WINDOW)
        moved = memory.propagate(torch.eye(32).double()[None], gap, gap)
        assert float(torch.linalg.matrix_norm(moved)) < 1e-12
    one, other = memory.basis(double(0.5, 0.5), elapsed)
    assert torch.allclose(one, other, rtol=1e-12, atol=1e-12) != measure.whole_history
    if np.isinf(measure.reach(WINDOW)):  # and before the start is as at the start
        before, start = memory.basis(double(5e3, 1e3), elapsed[:1].expand(2))
        assert_same_but_for_rounding(before, start)


def test_inputs_are_left_alone(name):
    memory, (c, path) = make_memory(name, SIZE), random_case(0, 1.5)
    before = [tensor.clone() for tensor in (c, *path)]
    elapsed = double(START + 1.5)
    memory.follow(c, path, elapsed)
    memory.hold(c, path.values[0], double(1.5), elapsed)
    memory.bridge(path.values[0], double([1.5, 1.0]), elapsed)
    for tensor, old in zip((c, *path), before, strict=True):
        torch.testing.assert_close(tensor, old, rtol=0, atol=0)


@pytest.mark.parametrize("gap", [0.2, 4 * WINDOW])
def test_gradients(name, gap):
    memory, (c, path) = make_memory(name, 5), random_case(0, gap)
    c, elapsed, time = c[..., :5].contiguous(), double(START + gap), double(gap)
    inputs = [t.requires_grad_() for t in (c, path.values, path.slopes)]

    def everything(c, values, slopes):
        moving = path._replace(values=values, slopes=slopes)
        followed = memory.follow(c, moving, elapsed)
        held = memory.hold(followed, values[0], time, elapsed + gap)
        bridged = held + memory.bridge(slopes[0], time.expand(1, 2), elapsed + gap)
        return memory.reconstruct(bridged, double([0.0, 0.5]), elapsed + gap)

    assert torch.autograd.gradcheck(everything, inputs)
