"""The solvers on single gaps, and the steps with which they diverge.

The oracle is scipy's DOP853 on the coupled equations as they are written down.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from benchmarks.paper.study import CoupledPolyODE
from benchmarks.paper.study.implicit import MULTISTEPS
from benchmarks.paper.study.solvers import COUPLED, _block_weights
from skpolyode.dynamics import WalledMLP
from skpolyode.memory import LegTMemory, legt_matrices
from tests.benchmarks.study.cases import make_coupled, make_model
from tests.models.cases import SIZE, WINDOW

ORDERS = {"euler": 1, "rk4": 4, "backward_euler": 1, "adams_moulton": 5}

every_solver = pytest.mark.parametrize("solver", COUPLED)


def start(n_rows=3):
    rng = np.random.default_rng(0)
    z = torch.from_numpy(rng.normal(size=(n_rows, 2 * (1 + SIZE))))
    return z, torch.from_numpy(rng.normal(size=(n_rows, 2, SIZE)))


def advance(model, z, c, gaps):
    gaps = torch.tensor(gaps, dtype=torch.float64)
    with torch.no_grad():
        end = model.flow({"z": z, "c": c}, gaps, gaps)
    return end["z"], end["c"]


def oracle(model, z, c, gaps):
    """State and memory of each row by DOP853."""
    A, B = (matrix / WINDOW for matrix in legt_matrices(SIZE))

    def derivative(_, y):
        state, memory = y[: z[0].numel()], y[z[0].numel() :].reshape(2, SIZE)
        with torch.no_grad():
            phi = model.field(torch.from_numpy(state)[None])[0].numpy()
        return np.r_[phi, (memory @ A.T + np.outer(state[:: 1 + SIZE], B)).ravel()]

    ends = []
    for k, gap in enumerate(gaps):
        y = np.r_[z[k].numpy().ravel(), c[k].numpy().ravel()]
        ends.append(solve_ivp(derivative, (0, gap), y, "DOP853", rtol=1e-12, atol=1e-12).y[:, -1])
    ends = torch.from_numpy(np.stack(ends))
    return ends[:, : z[0].numel()].view_as(z), ends[:, z[0].numel() :].view_as(c)


@pytest.fixture(scope="module")
def reference():
    z, c = start()
    gaps = [0.8, 0.4, 0.15]
    return z, c, gaps, oracle(make_model(strength=1.5), z, c, gaps)


@pytest.mark.parametrize("solver", ORDERS)
def test_measured_order_of_convergence(solver, reference):
    z, c, gaps, (z_exact, c_exact) = reference
    errors = []
    for n_steps in (32, 64):
        model = make_coupled(solver, step_size=0.8 / n_steps)
        z_end, c_end = advance(model, z, c, gaps)
        # Rows of equal steps, so that halving the step size halves all of them.
        errors.append([float((z_end - z_exact)[:2].norm()), float((c_end - c_exact)[:2].norm())])
    slopes = np.log2(np.divide(*errors))
    np.testing.assert_allclose(slopes, ORDERS[solver], atol=0.4)
    assert max(errors[1]) < 0.3 ** ORDERS[solver]


def test_dopri5_reaches_its_tolerance_whatever_the_step_size(reference):
    z, c, gaps, exact = reference
    for step_size in (0.01, 10.0):
        ends = advance(make_coupled("dopri5", step_size=step_size), z, c, gaps)
        for end, expected in zip(ends, exact, strict=True):
            torch.testing.assert_close(end, expected, rtol=0, atol=1e-7)


def test_exact_memory_agrees_with_the_oracle(reference):
    z, c, gaps, exact = reference
    for end, expected in zip(
        advance(make_model(strength=1.5, step_size=5e-3), z, c, gaps), exact, strict=True
    ):
        torch.testing.assert_close(end, expected, rtol=0, atol=1e-8)


@every_solver
def test_flow_with_and_without_memory_and_trace_agree(solver):
    model, (z, c), gaps = make_coupled(solver, step_size=0.1), start(), [1.3, 0.45, 0.1]
    gap = torch.tensor(gaps, dtype=torch.float64)
    with torch.no_grad():
        flowed = model.flow({"z": z}, gap, gap)["z"]
        traced, path = model.trace(z, gap)
    ended, _ = advance(model, z, c, gaps)
    torch.testing.assert_close(traced, flowed, rtol=0, atol=1e-8)
    torch.testing.assert_close(ended, flowed, rtol=0, atol=1e-8)
    torch.testing.assert_close(path.values[0], z[:, model.signals])
    last = path.values[path.n_steps, torch.arange(3)]
    torch.testing.assert_close(last, flowed[:, model.signals], rtol=0, atol=1e-8)
    torch.testing.assert_close(path.step * path.n_steps, gap)


@every_solver
def test_after_the_longest_gap_the_signal_is_held(solver):
    model, (z, c) = make_coupled(solver, step_size=0.1, max_gap=2.0), start()
    z_end, c_end = advance(model, z, c, [7.0, 2.0, 0.3])
    z_two, c_two = advance(model, z, c, [2.0, 2.0, 0.3])
    rest = torch.tensor([5.0], dtype=torch.float64)
    held = model.memory.hold(c_two[:1], z_two[:1, model.signals], rest, rest)
    torch.testing.assert_close(z_end, z_two, rtol=0, atol=1e-8)
    torch.testing.assert_close(c_end, torch.cat([held, c_two[1:]]), rtol=0, atol=1e-8)


def test_weights_of_a_block_integrate_polynomials():
    for n_steps in range(1, 5):
        nodes, weights = np.arange(n_steps + 1.0), _block_weights(n_steps)
        for power in range(n_steps + 1):
            integrals = nodes[1:] ** (power + 1) / (power + 1)
            np.testing.assert_allclose(weights @ nodes**power, integrals, rtol=1e-12)
    last_step = np.diff(_block_weights(4), axis=0)[-1]
    adams_moulton = MULTISTEPS["adams_moulton"].weights
    np.testing.assert_allclose(last_step[::-1], adams_moulton, rtol=1e-12)


@pytest.mark.parametrize("n_steps", [1, 2, 3])
def test_a_block_is_stable_for_every_decay(n_steps):
    """All its points: no solution of z' = rate z that decays grows, however long the steps."""
    weights = _block_weights(n_steps)
    angles = np.linspace(np.pi / 2, 3 * np.pi / 2, 31)
    rates = (np.geomspace(1e-3, 1e4, 50)[:, None] * np.exp(1j * angles)).ravel()[:, None, None]
    matrices = np.eye(n_steps) - rates * weights[:, 1:]
    points = np.linalg.solve(matrices, 1 + rates * weights[:, :1])
    assert abs(points).max() < 1 + 1e-9


def model_of_32(solver, step_size, unit=1.0):
    """The paper's memory; the field is never asked."""
    field, memory = WalledMLP(33, ()), LegTMemory(32, window=5.0 / unit)
    options = {"step_size": step_size / unit, "max_gap": 100.0, "unit": unit}
    return CoupledPolyODE(field, memory, solver=solver, **options)


# The largest eigenvalue of a step passes one at .0254, .2528 and .128 (with 60 digits); errors that
# grow a hundredfold first are worse than none.
@pytest.mark.parametrize(
    ("solver", "stable", "diverging"),
    [("euler", 0.0185, 0.025), ("rk4", 0.06, 0.1), ("adams_moulton", 0.05, 0.1)],
)
@pytest.mark.parametrize("unit", [1.0, 0.3])
def test_a_step_that_diverges_is_an_error_and_says_which_does_not(solver, stable, diverging, unit):
    model_of_32(solver, stable, unit)
    message = rf"solver='{solver}' diverges with step_size={diverging:g}: .*window=5\)"
    with pytest.raises(ValueError, match=message) as error:
        model_of_32(solver, diverging, unit)
    advised = float(str(error.value).split("at most ")[1].split(",")[0])
    assert stable <= advised < diverging
    model_of_32(solver, advised, unit)


@pytest.mark.parametrize("solver", ["backward_euler", "dopri5"])
def test_what_is_stable_for_every_step_is_never_refused(solver):
    for step_size in (0.001, 0.5, 50.0):
        assert model_of_32(solver, step_size).step_size == step_size


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_limits_of_small_memories_are_those_of_their_eigenvalues(size):
    """Double precision gets these right, and the detours of Euler's method are short."""
    eigenvalues = np.linalg.eigvals(legt_matrices(size)[0])
    limit = (-2 * eigenvalues.real / abs(eigenvalues) ** 2).min()
    field, memory = WalledMLP(1 + size, ()), LegTMemory(size, window=1.0)
    CoupledPolyODE(field, memory, solver="euler", step_size=0.99 * limit, max_gap=1.0)
    with pytest.raises(ValueError, match="diverges"):
        CoupledPolyODE(field, memory, solver="euler", step_size=1.01 * limit, max_gap=1.0)
