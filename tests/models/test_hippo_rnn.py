"""HiPPO-RNN's memory against its equation and a projection, and what its cell reads."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.polynomial import legendre
from scipy.integrate import quad, solve_ivp

from skpolyode.memory import MEMORIES, legt_matrices
from skpolyode.models import HiPPORNN, pack
from tests.models.cases import flat_series
from tests.models.weights import observations, shaken, states

H, M, N, WINDOW = 5, 2, 4, 3.0


def make_model(measure="legt", n_static=0):
    memory = MEMORIES[measure](N, WINDOW)
    return shaken(HiPPORNN(2, n_static, H, memory=memory, n_signals=M))


def run(model):
    """Times of the rows of a series, what was written at them, and the last state."""
    data = pack(*flat_series([6]))
    with torch.no_grad():
        steps = list(model.run(data))
    return data.elapsed.numpy(), np.stack([s.state["u"][0] for s in steps]), steps[-1].state


def test_memory_follows_lines_through_the_signals_by_its_equation():
    times, u, state = run(make_model())
    A, B = legt_matrices(N)

    def slope(t, c):
        now = np.array([np.interp(t, times, signal) for signal in u.T])
        return ((c.reshape(M, N) @ A.T + np.outer(now, B)) / WINDOW).ravel()

    c = np.zeros((M, N))
    c[:, 0] = u[0]
    for start, end in pairwise(times):  # smooth in between
        solution = solve_ivp(slope, (start, end), c.ravel(), rtol=1e-10, atol=1e-12)
        c = solution.y[:, -1].reshape(M, N)
    np.testing.assert_allclose(state["c"][0], c, atol=1e-8)


def test_memory_of_the_whole_history_is_its_projection():
    model = make_model("legs")
    times, u, state = run(model)
    end = times[-1]
    for j in range(M):
        for n in range(N):
            basis = np.sqrt(2 * n + 1) * legendre.Legendre.basis(n, domain=[0, end])
            expected, _ = quad(
                lambda t, basis=basis, j=j: basis(t) * np.interp(t, times, u[:, j]) / end,
                *(0, end),
                points=times[1:-1],
                epsabs=1e-12,
            )
            assert state["c"][0, j, n].item() == pytest.approx(expected, abs=1e-10)
    assert model.features(state)["duration"].item() == pytest.approx(end / WINDOW)


def test_cell_reads_what_was_observed_the_gap_and_the_memory():
    model, data, row = make_model(), observations([0.7, np.nan]), torch.arange(1)
    with torch.no_grad():
        state = model.initial(data, row)
        state |= {"h": states(1, H), "c": states(1, M * N, 1).view(1, M, N)}
        state["since"] = torch.full((1, 1), 1.5, dtype=torch.float64)
        found = model.observe(state, data, row)
        inputs = torch.tensor([[0.7, 0.0, 1.0, 0.0, np.log(2.5), *state["c"].flatten()]])
        expected = model.cell(inputs, state["h"])
        torch.testing.assert_close(found["h"], expected)
        torch.testing.assert_close(found["u"], model.write(expected))
    assert found["since"].item() == 0


def test_forecast_is_a_polynomial_of_a_bounded_time():
    model = make_model()
    state = model.initial(observations([0.7, 0.1]), torch.arange(1))
    for since in (0.0, 0.3, 1e9):
        state["since"] = torch.full((1, 1), since, dtype=torch.float64)
        with torch.no_grad():
            hidden = torch.nn.functional.silu(model.head.inner(state["h"]))
            coefficients = model.head.outer(hidden).view(2, 5).numpy()
            found = model.predict(state).mean[0].numpy()
        expected = [np.polynomial.Polynomial(c)(since / (2 + since)) for c in coefficients]
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_where_nothing_was_observed_the_state_is_kept():
    model, data, row = make_model(), observations([np.nan, np.nan]), torch.arange(1)
    with torch.no_grad():
        state = {k: part + 0.3 for k, part in model.initial(data, row).items()}
        after = model.observe(state, data, row)
    assert all(torch.equal(after[name], state[name]) for name in state)


@pytest.mark.parametrize("measure", ["legt", "legs"])
def test_two_half_gaps_are_one_gap(measure):
    model = make_model(measure)
    _, _, state = run(model)
    gap = torch.tensor([2.0], dtype=torch.float64)
    with torch.no_grad():
        elapsed = state["elapsed"][0]
        halfway = model.flow(state, gap / 2, elapsed + 1)
        twice, once = model.flow(halfway, gap / 2, elapsed + 2), model.flow(state, gap, elapsed + 2)
    for name in state:
        torch.testing.assert_close(twice[name], once[name], rtol=0, atol=1e-12)


def test_gradient():
    model, data = make_model(n_static=1), pack(*flat_series([3]), static=np.array([[0.5]]))

    def last_forecast(*weights):
        *_, step = model.run(data)
        return step.prediction.mean

    assert torch.autograd.gradcheck(
        last_forecast, tuple(model.parameters()), atol=1e-6, fast_mode=True
    )
