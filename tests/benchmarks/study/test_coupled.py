"""PolyODE with one solver for dynamics and memory: series, gradients, errors."""

from __future__ import annotations

import math
import sys

import pytest
import torch

from benchmarks.paper.study import SOLVERS, CoupledPolyODE
from benchmarks.paper.study.coupled import CoupledTask
from benchmarks.paper.study.series_task import SeriesTask
from benchmarks.paper.study.solvers import COUPLED
from skpolyode.dynamics import WalledMLP
from skpolyode.memory import MEMORIES
from skpolyode.models import pack
from skpolyode.training.tasks import PolyODETask
from tests.benchmarks.study.cases import make_coupled, make_model
from tests.models.cases import embed, flat_series, join, part

LENGTHS = [3, 1, 4, 2]
FIRST_ORDER = ("euler", "backward_euler")

every_solver = pytest.mark.parametrize("solver", COUPLED)


@every_solver
def test_short_steps_lead_to_the_exact_memory(solver):
    flat = flat_series(LENGTHS)
    exact = embed(make_model(strength=1.5, step_size=0.02), flat)
    found = embed(make_coupled(solver, step_size=0.01), flat)
    tolerance = 0.2 if solver in FIRST_ORDER else 1e-4
    for one, other in zip(found, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)


@every_solver
def test_a_series_alone_is_embedded_as_among_others(solver):
    flat, model = flat_series(LENGTHS), make_coupled(solver, step_size=0.1)
    z, c = embed(model, flat)
    blocks = pack(*flat, block_rows=7)
    assert len(blocks.sizes) > 1
    with torch.no_grad():
        state = model.embed(blocks)
    torch.testing.assert_close(state, {"z": z, "c": c}, rtol=0, atol=1e-7)
    for i in range(len(LENGTHS)):
        z_alone, c_alone = embed(model, join([part(flat, i)]))
        torch.testing.assert_close(z_alone[0], z[i], rtol=0, atol=1e-7)
        torch.testing.assert_close(c_alone[0], c[i], rtol=0, atol=1e-7)


def test_states_for_training_are_those_of_the_solver():
    """Also when they are refreshed; Euler's are far from the exact ones."""
    model, data = make_coupled("euler", step_size=0.1), pack(*flat_series(LENGTHS))
    task = CoupledTask(model, data, torch.zeros(len(LENGTHS), dtype=torch.bool))
    for _ in range(3):
        task.refresh()
    with torch.no_grad():
        for step in model.run(data):
            torch.testing.assert_close(task._depart(step.rows)["z"], step.state["z"])


def test_a_model_with_steps_of_its_own_looks_far_by_them(monkeypatch):
    """Signal and memory are integrated together there, too."""
    data = pack(*flat_series(LENGTHS))
    model = make_coupled("euler", step_size=0.1)
    task = CoupledTask(model, data, torch.zeros(len(LENGTHS), dtype=torch.bool), furthest=4)
    monkeypatch.setattr(type(model), "visit", None)
    task.refresh(0.5)
    assert all(torch.isfinite(task.loss(torch.arange(3))) for _ in range(3 * task.far_every))


@every_solver
@pytest.mark.parametrize("task", [PolyODETask, SeriesTask])
def test_gradients_are_nearly_those_of_the_exact_model(solver, task):
    data, held_out = pack(*flat_series([4, 3], max_gap=0.5)), torch.tensor([False, False])
    gradients = []
    for model in (make_coupled(solver, step_size=0.01), make_model(strength=1.5, step_size=0.01)):
        training = task(model, data, held_out)
        training.refresh()
        training.loss(torch.arange(len(training.items))).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    error = (gradients[0] - gradients[1]).norm() / gradients[1].norm()
    assert error < (0.1 if solver in FIRST_ORDER else 1e-4)


def test_a_memory_that_outgrows_every_signal_is_an_error():
    model = make_coupled("euler", step_size=0.01)
    model.step_size = 0.7  # as halving the step does, without another check
    with pytest.raises(ValueError, match=r"solver='euler' has diverged: .* Halve step_size"):
        embed(model, flat_series([12], max_gap=4.0))


@every_solver
def test_weights_that_are_no_numbers_are_an_error(solver):
    model = make_coupled(solver, step_size=0.05)
    with torch.no_grad():
        model.field.layers[0].weight[0, 0] = math.nan
    with pytest.raises(ValueError, match=f"solver='{solver}'.*learning_rate_init"):
        embed(model, flat_series([3]))


def test_only_the_sliding_window_has_solvers():
    memory = MEMORIES["legs"](4, 1.0)
    with pytest.raises(ValueError, match="solver='rk4' solves the equation of measure='legt' only"):
        CoupledPolyODE(WalledMLP(5, ()), memory, solver="rk4", step_size=0.1, max_gap=1.0)


def test_dopri5_without_torchdiffeq_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchdiffeq", None)
    with pytest.raises(ImportError, match=r"solver='dopri5' needs torchdiffeq: pip install 'skp"):
        make_coupled("dopri5")


def test_names():
    assert SOLVERS == ("exact", "euler", "rk4", "dopri5", "backward_euler", "adams_moulton")
