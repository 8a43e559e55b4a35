"""PolyODE for one series, in numpy, is PolyODE, to rounding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skpolyode.memory import MEMORIES
from skpolyode.models import Packed, PolyODE, pack, single
from skpolyode.models.single import FEW_SERIES, Observation
from tests.models.cases import SIZE, WINDOW, flat_series, make_model, some_gain


def both_memories(measure="legt", **options) -> PolyODE:
    """A model that is used, not trained: its second memory is of another measure and size."""
    history = MEMORIES[measure](SIZE + 2, 3 * WINDOW)
    return make_model(measure=measure, history=history, **options).eval()


def start(model: PolyODE, n_channels: int, rng=None) -> dict[str, np.ndarray]:
    shapes = {name: (n_channels, m.n_coefficients) for name, m in model.memories.items()}
    shapes["z"] = (model.size,)
    return {
        name: np.zeros(shape) if rng is None else rng.standard_normal(shape)
        for name, shape in shapes.items()
    }


def assert_same(state, many, **tolerance) -> None:
    assert state.keys() == many.keys()
    for name, part in state.items():
        np.testing.assert_allclose(part, many[name][0], **tolerance)


def as_many(model: PolyODE, packed: Packed) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Predictions and last states of the batch pass, which is the one that has gradients."""
    with torch.enable_grad():
        predictions, state = model.predictions(packed), model.embed(packed)
    return predictions.detach(), {name: part.detach() for name, part in state.items()}


@pytest.mark.parametrize("told", [None, "equal", "each"])
@pytest.mark.parametrize("measure", MEMORIES)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=FEW_SERIES),
    n_channels=st.integers(1, 3),
    n_static=st.integers(0, 2),
    n_hidden=st.integers(0, 3),
    max_gap=st.sampled_from([1.0, 30 * WINDOW]),
    seed=st.integers(0, 2**20),
)
@settings(max_examples=2)
def test_few_series_are_run_as_many(
    measure, told, lengths, n_channels, n_static, n_hidden, max_gap, seed
):
    options = {} if told is None else {"gain": some_gain(n_channels, seed, told)}
    sizes = {"n_channels": n_channels, "n_static": n_static, "n_hidden": n_hidden}
    model = both_memories(measure, **sizes, **options)
    flat = flat_series(lengths, n_channels, seed, max_gap=max_gap)
    rng = np.random.default_rng(seed)
    static, errors = rng.standard_normal((len(lengths), n_static)), None
    if told == "each":  # some are not known, and some observations exact
        errors = rng.choice([0.0, 0.2, 3.0, np.nan], flat[1].shape)
    packed = model.prepared(pack(*flat, static=static, errors=errors))
    predictions, many = as_many(model, packed)
    with torch.no_grad():
        np.testing.assert_allclose(model.predictions(packed), predictions, rtol=0, atol=1e-9)
        few = model.embed(packed)
    assert few.keys() == many.keys()
    for name, part in few.items():
        np.testing.assert_allclose(part, many[name], rtol=0, atol=1e-9)


def test_steps_are_those_of_the_batch(monkeypatch):
    """The same rows, predictions and states on both sides of each; in another order."""
    monkeypatch.setattr(single, "_AT_ONCE", 2)
    model, packed = both_memories(), pack(*flat_series([5, 3], 2, seed=0))
    with torch.no_grad():
        few = list(model.run(packed))
    assert [len(step.rows) for step in few] == [2, 2, 1, 2, 1]  # of one series after the other
    found = {row: (own, k) for own in few for k, row in enumerate(own.rows.tolist())}
    assert sorted(found) == list(range(len(packed)))
    for step in model.run(packed):
        for place, row in enumerate(step.rows.tolist()):
            own, k = found[row]
            pairs = [(own.before, step.before), (own.state, step.state)]
            pairs.append(({"mean": own.prediction.mean}, {"mean": step.prediction.mean}))
            for one, many in pairs:
                for name, part in one.items():
                    torch.testing.assert_close(part[k], many[name][place], rtol=0, atol=1e-11)


def test_only_what_is_used_and_not_trained_is_run_in_numpy():
    model = both_memories()
    assert model.single is not None
    assert both_memories().float().single is None
    assert both_memories().train().single is None


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
    moved = model.single.flow(state, gap, gap + 1)
    assert_same(moved, many, rtol=1e-10, atol=1e-11)


def observed(x, mask) -> Observation:
    mask = np.array(mask)
    return Observation(np.array(x), mask, mask, 1.0, np.ones(2), 3.0)


def test_static_part_is_added_where_the_state_is_reset():
    model, rng = both_memories(n_static=1, n_hidden=0), np.random.default_rng(1)
    single, state = model.single, start(model, 2, rng)
    row = observed([0.5, np.nan], [True, False])
    plain, moved = (single.observe(state, row, np.array([x])) for x in (0.0, 2.0))
    for name in ("c", "history"):
        assert np.array_equal(plain[name], moved[name])
    difference = (moved["z"] - plain["z"]).reshape(2, -1)
    added = 2 * model.start.weight.detach().numpy().reshape(2, -1)
    np.testing.assert_allclose(difference[0], np.r_[0.0, added[0, 1:]])
    assert not difference[1].any()


def test_nothing_that_is_given_is_changed():
    model = both_memories()
    single, state = model.single, start(model, 2, np.random.default_rng(1))
    before = {name: part.copy() for name, part in state.items()}
    single.flow(state, 1.0, 3.0)
    single.observe(state, observed(np.ones(2), [True, True]), np.zeros(0))
    for name, part in state.items():
        assert np.array_equal(part, before[name])
