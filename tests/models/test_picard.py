"""All intervals at once: a fixed point of which is the pass in order."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from skpolyode.models import pack
from skpolyode.models.picard import sweep as sweep_block
from skpolyode.training import forecasting_mse
from skpolyode.training.tasks import PolyODETask
from tests.models.cases import SIZE, flat_series, make_model, some_gain

LENGTHS = [6, 1, 4, 9, 2]
CASES = {
    "legt": {},
    "legs": {"measure": "legs"},
    "long gaps are held": {"max_gap": 0.5},
    "filter": {"gain": some_gain(2)},
    "static": {"start": torch.nn.Linear(3, 2 * (1 + SIZE), dtype=torch.float64)},
}


def packed(missing=0.0, block_rows=200_000):
    generator = torch.Generator().manual_seed(0)
    static = torch.randn(len(LENGTHS), 3, generator=generator, dtype=torch.float64).numpy()
    flat = flat_series(LENGTHS, missing=missing)
    return pack(*flat, static=static, block_rows=block_rows)


def sweep(model, data, states):
    """Of all blocks."""
    parts = []
    for block in data.blocks():
        rows = slice(block[0].start, block[-1].stop)
        parts.append(sweep_block(model, data, block, states[rows]))
    return [torch.cat(columns) for columns in zip(*parts, strict=True)]


def in_order(model, data):
    """Predictions, states and memories of the scan."""
    width = model.memory.n_coefficients
    p, z, c = (data.x.new_empty(*data.x.shape, *tail) for tail in ((), (1 + width,), (width,)))
    with torch.no_grad():
        for step in model.run(data):
            p[step.rows] = step.prediction.mean
            z[step.rows], c[step.rows] = step.state["z"], step.state["c"]
    return p, z, c


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("missing", [0.0, 0.5])
@pytest.mark.parametrize("block_rows", [200_000, 8])
def test_the_scan_is_a_fixed_point(case, missing, block_rows):
    model, data = make_model(**CASES[case]), packed(missing, block_rows)
    expected = in_order(model, data)
    for one, other in zip(sweep(model, data, expected[1]), expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


def test_it_takes_at_most_as_many_sweeps_as_observations():
    model, data = make_model(), packed(0.5)
    z = torch.zeros_like(in_order(model, data)[1])
    for _ in range(max(LENGTHS)):
        _, z, c = sweep(model, data, z)
    torch.testing.assert_close(c, in_order(model, data)[2], atol=1e-10, rtol=1e-10)


def test_states_come_closer_with_each_sweep():
    model, data = make_model(strength=1.0), packed()
    exact = in_order(model, data)[1]
    z = torch.zeros_like(exact)
    errors = []
    for _ in range(4):
        _, z, _ = sweep(model, data, z)
        errors.append(float((z - exact).norm()))
    assert all(later < 0.3 * before for before, later in pairwise(errors))


@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_a_field_that_stands_still_needs_one_refresh(missing):
    model, data = make_model(), packed(missing)
    model.field.stand_still()
    task = PolyODETask(model, data, torch.zeros(len(LENGTHS), dtype=torch.bool))
    task.refresh(progress=0.0)
    torch.testing.assert_close(task.states["z"], in_order(model, data)[1])


@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_after_the_coarse_part_states_and_errors_are_those_of_the_present_weights(missing):
    """By one sweep if all channels are observed together, exactly if they are not."""
    model, data = make_model(), packed(missing)
    model.field.stand_still()
    task = PolyODETask(model, data, torch.zeros(len(LENGTHS), dtype=torch.bool))
    task.refresh(progress=0.0)
    assert model.stepper.name == "midpoint"
    assert not task.is_preliminary
    straight = task.states["z"].clone()
    move(model)
    task.refresh(progress=0.1)
    assert torch.equal(task.states["z"], straight)  # the coarse part keeps those of straight lines
    assert task.is_preliminary
    for progress in (0.2, 0.3, 1.0):
        before = task.states["z"].clone()
        error = task.refresh(progress)
        assert model.stepper.name == "rk4"
        assert not task.is_preliminary
        exact = in_order(model, data)[1]
        if missing or progress == 1.0:
            torch.testing.assert_close(task.states["z"], exact)
            assert error == pytest.approx(forecasting_mse(model, data))
        else:
            torch.testing.assert_close(task.states["z"], sweep(model, data, before)[1])
        move(model)


@torch.no_grad()
def move(model):
    for parameter in model.field.parameters():
        parameter.add_(0.3)
