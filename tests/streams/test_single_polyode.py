"""PolyODE for one series, in numpy, is PolyODE, to rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skpolyode.memory import MEMORIES
from skpolyode.models import PolyODE, pack
from skpolyode.streams.single_polyode import SinglePolyODE
from tests.models.cases import SIZE, WINDOW, flat_series, make_model


def run_one(model: PolyODE, times: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, ...]:
    """State and memory of one series at its last observation, observation by observation."""
    single, packed = SinglePolyODE(model), pack(times, values, np.array([0, len(times)]))
    z = np.zeros((values.shape[1], 1 + SIZE))
    c = np.zeros((values.shape[1], SIZE))
    for i in range(len(times)):
        gap, elapsed = float(packed.gap[i]), float(packed.elapsed[i])
        if i:
            z, c = single.advance(z, c, gap, elapsed)
        columns = [column[i].numpy() for column in (packed.mask, packed.seen, packed.channel_gap)]
        z, c = single.observe(z, c, values[i], *columns, elapsed, None)
    return z, c


@pytest.mark.parametrize("measure", MEMORIES)
@given(n_rows=st.integers(1, 12), n_channels=st.integers(1, 3), seed=st.integers(0, 2**20))
@settings(max_examples=8)
def test_one_series_is_run_as_many(measure, n_rows, n_channels, seed):
    model = make_model(n_channels, measure=measure)
    times, values, offsets = flat_series([n_rows], n_channels, seed)
    with torch.no_grad():
        many = model.embed(pack(times, values, offsets))
    for one, other in zip(run_one(model, times, values), many.values(), strict=True):
        np.testing.assert_allclose(one, other[0], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("stepper", ["euler", "midpoint", "rk4"])
@pytest.mark.parametrize(
    "gap", [1e-200, 1e-6, 0.3, 0.3 * 7, 8 * WINDOW, 19.9 * WINDOW, 20.5 * WINDOW, 1e4]
)
@pytest.mark.parametrize("measure", ["legt", "legs"])
def test_gaps_of_any_length_are_crossed_as_by_many(measure, stepper, gap):
    model = make_model(measure=measure, stepper=stepper, strength=1.0)
    rng = np.random.default_rng(0)
    z, c = rng.standard_normal((2, 1 + SIZE)), rng.standard_normal((2, SIZE))
    with torch.no_grad():
        many = model.flow(
            {"z": torch.tensor(z)[None], "c": torch.tensor(c)[None]},
            torch.tensor([gap], dtype=torch.float64),
            torch.tensor([gap + 1], dtype=torch.float64),
        )
    for one, other in zip(
        SinglePolyODE(model).advance(z, c, gap, gap + 1), many.values(), strict=True
    ):
        np.testing.assert_allclose(one, other[0], rtol=1e-10, atol=1e-11)


def test_static_part_is_added_where_the_state_is_set_anew():
    single, rng = SinglePolyODE(make_model()), np.random.default_rng(1)
    z, c = rng.standard_normal((2, 1 + SIZE)), rng.standard_normal((2, SIZE))
    mask, offset = np.array([True, False]), rng.standard_normal((2, SIZE))
    given = z, c, np.array([0.5, np.nan]), mask, mask, np.ones(2), 3.0
    (plain, memory), (moved, same) = single.observe(*given, None), single.observe(*given, offset)
    assert np.array_equal(memory, same)
    np.testing.assert_allclose(moved[0, 1:] - plain[0, 1:], offset[0])
    assert np.array_equal(moved[1], z[1])


def test_nothing_that_is_given_is_changed():
    single, rng = SinglePolyODE(make_model()), np.random.default_rng(1)
    z, c = rng.standard_normal((2, 1 + SIZE)), rng.standard_normal((2, SIZE))
    before = z.copy(), c.copy()
    single.advance(z, c, 1.0, 3.0)
    single.observe(z, c, np.ones(2), np.ones(2, bool), np.ones(2, bool), np.ones(2), 3.0, None)
    assert np.array_equal(z, before[0])
    assert np.array_equal(c, before[1])
