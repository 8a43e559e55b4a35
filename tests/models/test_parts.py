"""Parts of series side by side: from the states of a run they are that run."""

from __future__ import annotations

import pytest
import torch

from skpolyode.models import pack
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
def in_parts(model, data, stored, length=3):
    """States before and memories before the rows, by parts that begin with `stored` states."""
    before, c = (torch.full_like(part, torch.nan) for part in stored)
    for block in data.blocks():
        later = block[length::length]
        rows = torch.cat([torch.arange(r.start, r.stop) for r in later]) if later else None
        starts = rows if rows is None else (rows, {"z": stored[0][rows], "c": stored[1][rows]})
        for step in model.run_block(data, block, starts):
            assert before[step.rows].isnan().all()  # each row comes once
            before[step.rows], c[step.rows] = step.before["z"], step.before["c"]
    return before, c


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
def test_parts_from_the_states_of_a_run_are_that_run(case, missing, block_rows):
    model, data = make_model(**CASES[case]), packed(missing, block_rows)
    expected = in_order(model, data)[:2]
    for one, other in zip(in_parts(model, data, expected), expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


def test_each_round_of_parts_gets_one_part_further():
    model, data = make_model(), packed(0.5)
    number, expected = data.steps(), in_order(model, data)[:2]
    found = tuple(map(torch.zeros_like, expected))
    for n_rounds in (1, 2, 3):
        found = in_parts(model, data, found)
        right = (found[0] - expected[0]).abs().amax(dim=1) < 1e-10
        assert right[number <= 3 * n_rounds].all()
        assert n_rounds == 3 or not right[number > 3 * n_rounds].any()


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
    """In parts that begin with the last states if all channels are observed together."""
    model, data, task = standing_still(missing)
    task.part_rows = 3
    task.refresh(progress=0.0)
    assert model.stepper.name == "midpoint"
    assert not task.is_preliminary
    straight = task.states["z"].clone()
    move(model)
    task.refresh(progress=0.1)
    assert torch.equal(task.states["z"], straight)  # the coarse part keeps those of straight lines
    assert task.is_preliminary
    first = data.steps() <= 3  # rows of the first part, and the end of its way
    for progress in (0.2, 0.3, 1.0):
        error = task.refresh(progress)
        assert model.stepper.name == "rk4"
        assert not task.is_preliminary
        exact = first | torch.tensor(bool(missing) or progress == 1.0)
        torch.testing.assert_close(task.states["z"][exact], stored(model, data)[exact])
        if exact.all():
            assert error == pytest.approx(forecasting_mse(model, data))
        else:
            assert not torch.allclose(task.states["z"], stored(model, data))
        move(model)


@torch.no_grad()
def move(model):
    for parameter in model.field.parameters():
        parameter.add_(0.3)
