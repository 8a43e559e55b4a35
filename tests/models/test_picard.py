"""All intervals at once: a fixed point of which is the pass in order."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from skpolyode.models import pack
from skpolyode.models.picard import sweep as sweep_block
from skpolyode.training import forecasting_mse
from skpolyode.training.tasks import PolyODETask
from tests.models import cases
from tests.models.cases import flat_series, some_gain

LENGTHS = [6, 1, 4, 9, 2]
CASES = {
    "legt": {},
    "legs": {"measure": "legs"},
    "long gaps are held": {"max_gap": 0.5},
    "filter": {"gain": some_gain(2)},
    "as in the paper": {"n_hidden": 0, "n_static": 0},
}


def make_model(**options):
    """A model that reads the covariates."""
    return cases.make_model(**{"n_static": 3} | options)


def packed(missing=0.0, block_rows=200_000):
    generator = torch.Generator().manual_seed(0)
    static = torch.randn(len(LENGTHS), 3, generator=generator, dtype=torch.float64).numpy()
    flat = flat_series(LENGTHS, missing=missing)
    return pack(*flat, static=static, block_rows=block_rows)


@torch.no_grad()
def sweep(model, data, states):
    """Of all blocks: states before, memories before and states after the rows."""
    parts = []
    for block in data.blocks():
        rows = slice(block[0].start, block[-1].stop)
        before, c_before, c = sweep_block(model, data, block, states[rows])
        parts.append((before, c_before, model.reset(before, c, data, rows)))
    return [torch.cat(columns) for columns in zip(*parts, strict=True)]


def in_order(model, data):
    """States before, memories before and states after the rows, by the scan."""
    before, after = (data.x.new_empty(len(data), model.size) for _ in range(2))
    c = data.x.new_empty(*data.x.shape, model.memory.n_coefficients)
    with torch.no_grad():
        for step in model.run(data):
            before[step.rows], c[step.rows] = step.before["z"], step.before["c"]
            after[step.rows] = step.state["z"]
    return before, c, after


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("missing", [0.0, 0.5])
@pytest.mark.parametrize("block_rows", [200_000, 8])
def test_the_scan_is_a_fixed_point(case, missing, block_rows):
    model, data = make_model(**CASES[case]), packed(missing, block_rows)
    expected = in_order(model, data)
    for one, other in zip(sweep(model, data, expected[2]), expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


def test_it_takes_at_most_as_many_sweeps_as_observations():
    model, data = make_model(), packed(0.5)
    z = torch.zeros_like(in_order(model, data)[2])
    for _ in range(max(LENGTHS)):
        before, _, z = sweep(model, data, z)
    torch.testing.assert_close(before, in_order(model, data)[0], atol=1e-10, rtol=1e-10)


def test_states_come_closer_with_each_sweep():
    model, data = make_model(strength=1.0, n_hidden=0), packed()
    exact = in_order(model, data)[2]
    z = torch.zeros_like(exact)
    errors = []
    for _ in range(4):
        *_, z = sweep(model, data, z)
        errors.append(float((z - exact).norm()))
    assert all(later < 0.3 * before for before, later in pairwise(errors))


def stored(model, data):
    """What a task stores: states before rows, with the memory in place of its copy."""
    before, c, _ = in_order(model, data)
    channels, w = model.split(before)
    reset = torch.cat([channels[..., :1], c], dim=-1)
    channels = torch.where(data.mask[..., None], reset, channels)
    return torch.cat([channels.flatten(1), w], dim=1)


def standing_still(missing):
    """A model that knows nothing, its data and its task."""
    model, data = make_model(), packed(missing)
    model.field.stand_still()
    for parameter in model.start.parameters():
        torch.nn.init.zeros_(parameter)
    return model, data, PolyODETask(model, data, torch.zeros(len(LENGTHS), dtype=torch.bool))


@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_a_field_that_stands_still_needs_one_refresh(missing):
    """But for the learned state, which it does not see."""
    model, data, task = standing_still(missing)
    task.refresh(progress=0.0)
    n_channels = model.signals.stop
    expected = stored(model, data)[:, :n_channels]
    torch.testing.assert_close(task.states["z"][:, :n_channels], expected)


@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_after_the_coarse_part_states_and_errors_are_those_of_the_present_weights(missing):
    """By one sweep if all channels are observed together, exactly if not and at the end."""
    model, data, task = standing_still(missing)
    task.refresh(progress=0.0)
    assert model.stepper.name == "midpoint"
    assert not task.is_preliminary
    straight = task.states["z"].clone()
    move(model)
    task.refresh(progress=0.1)
    assert torch.equal(task.states["z"], straight)  # the coarse part keeps those of straight lines
    assert task.is_preliminary
    for progress in (0.2, 0.3, 1.0):
        with torch.no_grad():
            after = task._depart(torch.arange(len(data)))["z"]
        error = task.refresh(progress)
        assert model.stepper.name == "rk4"
        assert not task.is_preliminary
        if missing or progress == 1.0:
            torch.testing.assert_close(task.states["z"], stored(model, data))
            assert error == pytest.approx(forecasting_mse(model, data))
        else:
            before = sweep(model, data, after)[0]
            w = slice(model.signals.stop, None)
            torch.testing.assert_close(task.states["z"][:, w], before[:, w])
            torch.testing.assert_close(task.states["z"][:, model.signals], before[:, model.signals])
        move(model)


@torch.no_grad()
def move(model):
    for parameter in model.field.parameters():
        parameter.add_(0.3)
