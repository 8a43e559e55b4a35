"""PolyODE for one series, in numpy, is PolyODE, to rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skpolyode.memory import MEMORIES
from skpolyode.models import PolyODE, pack
from skpolyode.streams.clock import Moment
from skpolyode.streams.single_polyode import SinglePolyODE
from tests.models.cases import SIZE, WINDOW, flat_series, make_model, some_gain


def both_memories(measure="legt", **options) -> PolyODE:
    """A model that is used, not trained: its second memory is of another measure and size."""
    history = MEMORIES[measure](SIZE + 2, 3 * WINDOW)
    return make_model(measure=measure, history=history, **options).eval()


def start(model: PolyODE, n_channels: int, rng=None) -> dict[str, np.ndarray]:
    sizes = {"z": 1 + SIZE} | {name: m.n_coefficients for name, m in model.memories.items()}
    shapes = {name: (n_channels, size) for name, size in sizes.items()}
    return {
        name: np.zeros(shape) if rng is None else rng.standard_normal(shape)
        for name, shape in shapes.items()
    }


def assert_same(state, many, **tolerance) -> None:
    assert state.keys() == many.keys()
    for name, part in state.items():
        np.testing.assert_allclose(part, many[name][0], **tolerance)


@pytest.mark.parametrize("filters", [False, True])
@pytest.mark.parametrize("measure", MEMORIES)
@given(n_rows=st.integers(1, 12), n_channels=st.integers(1, 3), seed=st.integers(0, 2**20))
@settings(max_examples=8)
def test_one_series_is_run_as_many(measure, filters, n_rows, n_channels, seed):
    gain = some_gain(n_channels, seed) if filters else None
    model = both_memories(measure, n_channels=n_channels, gain=gain)
    times, values, offsets = flat_series([n_rows], n_channels, seed)
    packed = pack(times, values, offsets)
    with torch.no_grad():
        many = model.embed(packed)
    single, state = SinglePolyODE(model), start(model, n_channels)
    for i in range(len(times)):
        moment = Moment(*(getattr(packed, name)[i].numpy() for name in Moment._fields))
        if i:
            state = single.flow(state, float(moment.gap), float(moment.elapsed))
        state = single.observe(state, values[i], moment, None)
    assert_same(state, many, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("stepper", ["euler", "midpoint", "rk4"])
@pytest.mark.parametrize(
    "gap", [1e-200, 1e-6, 0.3, 0.3 * 7, 8 * WINDOW, 19.9 * WINDOW, 20.5 * WINDOW, 1e4]
)
@pytest.mark.parametrize("measure", ["legt", "legs"])
def test_gaps_of_any_length_are_crossed_as_by_many(measure, stepper, gap):
    model = both_memories(measure, stepper=stepper, strength=1.0)
    state = start(model, 2, np.random.default_rng(0))
    times = (torch.tensor([t], dtype=torch.float64) for t in (gap, gap + 1))
    with torch.no_grad():
        many = model.flow({n: torch.tensor(part)[None] for n, part in state.items()}, *times)
    moved = SinglePolyODE(model).flow(state, gap, gap + 1)
    assert_same(moved, many, rtol=1e-10, atol=1e-11)


def observed(mask) -> Moment:
    mask = np.array(mask)
    return Moment(mask, mask, np.float64(1.0), np.ones(2), np.float64(3.0))


def test_static_part_is_added_where_the_state_is_set_anew():
    model, rng = both_memories(), np.random.default_rng(1)
    single, state = SinglePolyODE(model), start(model, 2, rng)
    offset, given = (
        rng.standard_normal((2, SIZE)),
        (np.array([0.5, np.nan]), observed([True, False])),
    )
    plain, moved = single.observe(state, *given, None), single.observe(state, *given, offset)
    for name in ("c", "history"):
        assert np.array_equal(plain[name], moved[name])
    np.testing.assert_allclose(moved["z"][0, 1:] - plain["z"][0, 1:], offset[0])
    assert np.array_equal(moved["z"][1], state["z"][1])


def test_nothing_that_is_given_is_changed():
    model = both_memories()
    single, state = SinglePolyODE(model), start(model, 2, np.random.default_rng(1))
    before = {name: part.copy() for name, part in state.items()}
    single.flow(state, 1.0, 3.0)
    single.observe(state, np.ones(2), observed([True, True]), None)
    for name, part in state.items():
        assert np.array_equal(part, before[name])
