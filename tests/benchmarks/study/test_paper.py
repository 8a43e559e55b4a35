"""The paper's update and its start from zero."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from benchmarks.paper.study.series_task import SeriesTask
from benchmarks.paper.study.solvers import COUPLED
from skpolyode.memory import legt_matrices
from skpolyode.models import pack
from skpolyode.training import forecasting_mse
from tests.benchmarks.study.cases import make_coupled, make_model, make_paper
from tests.models.cases import SIZE, WINDOW, embed, flat_series, join, part
from tests.models.test_parts import in_order, in_parts, packed
from tests.models.test_polyode import Plain, observe_one
from tests.training.tasks.test_interval import check_gradient, masked_mse

LENGTHS = [6, 1, 4, 9, 2]


def as_the_paper_says(field, times, values):
    """State (D, 1 + N) and memory (D, N) of one series after its last observation.

    ``dh/dt = phi(h), dc/dt = A c + B h0`` from h = c = 0 by DOP853; at an observation of channel
    j ``h0_j := x_j, h_j := c_j``, and nothing else.
    """
    A, B = (matrix / WINDOW for matrix in legt_matrices(SIZE))
    h, c = np.zeros((values.shape[1], 1 + SIZE)), np.zeros((values.shape[1], SIZE))

    def split(y):
        return y[: h.size].reshape(h.shape), y[h.size :].reshape(c.shape)

    def derivative(_, y):
        state, memory = split(y)
        with torch.no_grad():
            phi = field(torch.from_numpy(state.reshape(1, -1)))[0].numpy()
        return np.r_[phi, (memory @ A.T + np.outer(state[:, 0], B)).ravel()]

    now = times[0]
    for time, row in zip(times, values, strict=True):
        if time > now:
            y = np.r_[h.ravel(), c.ravel()]
            y = solve_ivp(derivative, (now, time), y, "DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
            (h, c), now = split(y), time
        for j in np.flatnonzero(~np.isnan(row)):
            h[j] = np.r_[row[j], c[j]]
    return h, c


@pytest.mark.parametrize("solver", ["exact", "adams_moulton", "rk4"])
def test_a_series_starts_from_zero(solver):
    """Channels that come late as well; small steps, so that only the rules can differ."""
    flat = flat_series([4, 1, 3], missing=0.5, max_gap=0.6)
    settings = {"update": "jump", "origin": "zero", "strength": 1.0, "step_size": 0.01}
    make = make_paper if solver == "exact" else lambda **kw: make_coupled(solver, **kw)
    model = make(**settings)
    z, c = embed(model, flat)
    for i in range(3):
        h, memory = as_the_paper_says(model.field, *part(flat, i))
        np.testing.assert_allclose(z[i], h.ravel(), atol=1e-6)
        np.testing.assert_allclose(c[i], memory, atol=1e-6)


def test_a_start_from_zero_is_remembered_as_a_step():
    """A signal that is always one, observed half a window ago and now."""
    values, times = np.ones((2, 1)), np.array([0.0, WINDOW / 2])
    ages = torch.tensor([[0.1, 0.35, 0.65, 0.9]], dtype=torch.float64) * WINDOW
    elapsed = torch.tensor([WINDOW / 2], dtype=torch.float64)
    for origin, expected in {"zero": [1, 1, 0, 0], "constant": [1, 1, 1, 1]}.items():
        model = make_paper(1, size=32, origin=origin)
        model.field.stand_still()
        _, c = embed(model, (times, values, np.array([0, 2])))
        past = model.memory.reconstruct(c, ages, elapsed).flatten()
        np.testing.assert_allclose(past, expected, atol=0.1)


def test_what_covariates_say_of_the_start_is_not_remembered():
    data, rows = packed(missing=0.5), torch.arange(5)
    with torch.no_grad():
        zero, constant = (
            make_paper(n_static=3, origin=origin).initial(data, rows)
            for origin in ("zero", "constant")
        )
    assert torch.equal(zero["z"], constant["z"])
    assert not zero["c"].any()
    signal = constant["z"][:, :: 1 + SIZE]
    assert torch.equal(constant["c"][..., 0], signal)


@pytest.mark.parametrize("longest", [1.0, 8.0], ids=["short gaps", "gaps beyond max_gap"])
def test_jumps_are_those_of_the_plain_model(longest):
    flat = flat_series(LENGTHS, max_gap=longest)
    model = make_paper(max_gap=3.0)
    z, c = embed(model, flat)
    for i in range(len(LENGTHS)):
        _, state, memory = Plain(model, bridges=False).run(*part(flat, i))[-1]
        np.testing.assert_allclose(z[i], state, atol=1e-9)
        np.testing.assert_allclose(c[i], memory, atol=1e-9)


def test_with_our_choices_it_is_the_model_of_the_package():
    flat = flat_series(LENGTHS)
    for one, other in zip(
        embed(make_paper(update="bridge"), flat), embed(make_model(), flat), strict=True
    ):
        assert torch.equal(one, other)


def test_a_bridge_does_not_reach_before_the_first_observation():
    """Of each channel: from zero only what comes later is bridged."""
    series = np.array([0.0, 0.4, 0.7]), np.array([[1.0, np.nan], [np.nan, 2.0], [0.5, 1.0]])
    model = make_paper(update="bridge", origin="zero")
    with torch.no_grad():
        steps = list(model.run(pack(*join([series]))))
    changes = [(step.state["c"] - step.before["c"]).abs().amax(dim=2)[0] for step in steps]
    assert [change.tolist() for change in changes[:2]] == [[0, 0], [0, 0]]
    assert (changes[2] > 0.01).all()


@pytest.mark.parametrize("origin", ["zero", "constant"])
def test_a_jump_leaves_the_memory_as_it_is(origin):
    x, z, z_after, c, c_after = observe_one(make_paper(origin=origin), [True, False])
    assert torch.equal(c_after, c)
    assert torch.equal(z_after[:, 1], z[:, 1])
    assert torch.equal(z_after[:, 0, 0], x[:, 0])
    assert torch.equal(z_after[:, 0, 1:], c[:, 0])


def test_after_jumps_the_memory_misses_the_observations():
    times = np.cumsum(np.full(6, 0.25))
    values = np.random.default_rng(0).normal(size=(6, 1))
    misses = {}
    for update in ("bridge", "jump"):
        model = make_paper(1, size=64, update=update, strength=1.0, step_size=0.05)
        _, c = embed(model, (times, values, np.array([0, 6])))
        ages = torch.from_numpy((times[-1] - times)[None])
        back = model.memory.reconstruct(c, ages, torch.tensor([1.25], dtype=torch.float64))
        misses[update] = abs(back[0, :, 0].numpy() - values[:, 0])[1:].mean()
    assert misses["bridge"] < 0.2 * misses["jump"]


@pytest.mark.parametrize("origin", ["zero", "constant"])
@pytest.mark.parametrize("update", ["jump", "bridge"])
def test_parts_from_the_states_of_a_run_are_that_run(update, origin):
    model = make_paper(update=update, origin=origin, n_static=3)
    data = packed(0.5, block_rows=8)
    expected = in_order(model, data)[:2]
    for one, other in zip(in_parts(model, data, expected), expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)


def test_gradient_through_whole_series_with_jumps():
    model = make_paper(origin="zero")
    data = pack(*flat_series(LENGTHS, max_gap=4.0))
    task = SeriesTask(model, data, torch.tensor([False, True, False, False, False]))
    check_gradient(model, lambda: task.loss(torch.arange(len(task.items))))


def test_gradient_through_whole_series():
    model, data = make_model(), pack(*flat_series(LENGTHS, max_gap=4.0))
    task = SeriesTask(model, data, torch.arange(5) == 1)
    check_gradient(model, lambda: task.loss(torch.arange(len(task.items))))


def test_loss_of_whole_series_is_the_error_of_the_scan():
    model, data = make_model(), pack(*flat_series(LENGTHS), block_rows=8)
    task = SeriesTask(model, data, torch.zeros(5, dtype=torch.bool))
    assert task.items.tolist() == [0, 2, 3, 4]  # the other one has nothing to forecast
    assert task.loss(torch.arange(4)).item() == pytest.approx(forecasting_mse(model, data))
    some = torch.tensor([0, 3])
    rows = torch.isin(data.series, task.items[some])
    assert task.loss(some).item() == pytest.approx(masked_mse(model, data, rows))


def test_arguments_make_the_same_model_again():
    flat = flat_series(LENGTHS)
    coupled = [make_coupled(solver, step_size=0.1) for solver in COUPLED]
    for model in (make_paper(origin="zero"), *coupled):
        again = type(model)(**model.arguments)
        assert vars(again).keys() == vars(model).keys()
        for one, other in zip(embed(again, flat), embed(model, flat), strict=True):
            assert torch.equal(one, other)
