"""The integration loops: exactness, independence of rows, number of steps, path, gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from skpolyode.cubic import evaluate_path
from skpolyode.dynamics import STEPPERS, WalledMLP, count_steps, integrate, rollout
from tests.closeness import assert_same_but_for_rounding

RK4 = STEPPERS["rk4"]
GAPS = st.floats(1e-6, 8.0)


def make_field(size=3, hidden=(8, 5), **options):
    return WalledMLP(size, hidden, generator=torch.Generator().manual_seed(0), **options).double()


def states(n_rows, size=3, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return torch.from_numpy(scale * rng.normal(size=(n_rows, size)))


def double(numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def test_linear_field_is_solved():
    matrix = np.array([[0.0, 1.0, 0.0], [-2.0, -0.1, 0.3], [0.0, 0.2, -1.0]])
    gaps, y = [0.3, 2.0, 5.0], states(3)
    end, _ = integrate(
        lambda z: z @ torch.from_numpy(matrix.T), y, double(gaps), step_size=0.01, stepper=RK4
    )
    exact = [expm(matrix * gap) @ row.numpy() for gap, row in zip(gaps, y, strict=True)]
    np.testing.assert_allclose(end, exact, rtol=1e-8)


def test_network_field_is_solved():
    field, y = make_field(), states(1, scale=4.0)

    def slope(t, y):
        return field(torch.from_numpy(y)[None])[0].detach().numpy()

    exact = solve_ivp(slope, (0, 3), y[0].numpy(), "DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    with torch.no_grad():
        end, _ = integrate(field, y, double([3.0]), step_size=0.01, stepper=RK4)
    np.testing.assert_allclose(end[0], exact, atol=1e-6)


@given(st.lists(GAPS, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_rows_do_not_meet(gaps, random):
    field, y, gap = make_field(), states(len(gaps)), double(gaps)
    options = {"step_size": 0.7, "stepper": RK4, "recorded": slice(1, 3)}
    with torch.no_grad():
        end, path = integrate(field, y, gap, **options)
        alone = [integrate(field, y[[k]], gap[[k]], **options) for k in range(len(gaps))]
        order = list(range(len(gaps)))
        random.shuffle(order)
        permuted, _ = integrate(field, y[order], gap[order], **options)
    torch.testing.assert_close(end, torch.cat([one for one, _ in alone]), rtol=0, atol=1e-12)
    torch.testing.assert_close(permuted, end[order], rtol=0, atol=1e-12)
    for k, (_, own) in enumerate(alone):
        n = int(own.n_steps)
        assert int(path.n_steps[k]) == n
        assert float(path.step[k]) == float(own.step)
        for one, other in ((path.values, own.values), (path.slopes, own.slopes)):
            torch.testing.assert_close(one[: n + 1, k], other[:, 0], rtol=0, atol=1e-12)


@given(st.lists(GAPS, min_size=1, max_size=5), st.floats(1e-2, 10))
def test_steps_are_no_longer_than_asked_and_no_more_than_needed(gaps, step_size):
    gap = double(gaps)
    n = count_steps(gap, step_size)
    assert (gap / n <= step_size * (1 + 1e-5)).all()
    assert ((n == 1) | (gap / (n - 1) > step_size * (1 - 1e-5))).all()


def test_multiples_of_the_step_take_no_step_more():
    """Whatever the unit of time, although 3 * 0.1 / 0.1 is more than 3."""
    for unit in (1.0, 0.1, 1 / 3600, 86400 / 7):
        multiples = double([1, 2, 3, 7, 50]) * unit
        assert count_steps(multiples, unit).tolist() == [1, 2, 3, 7, 50]


def test_field_is_evaluated_once_for_each_stage_and_only_on_running_rows():
    sizes = []

    def field(z):
        sizes.append(len(z))
        return -z

    gap = double([0.5, 2.5, 0.9, 1.5])  # 1, 3, 1 and 2 steps
    integrate(field, states(4), gap, step_size=1.0, stepper=RK4)
    assert sizes == [4] * 4 + [2] * 4 + [1] * 4


def test_path_starts_and_ends_where_the_integration_does():
    field, y, gap = make_field(), states(5), double([0.1, 2.0, 0.7, 1.0, 3.3])
    with torch.no_grad():
        end, path = integrate(field, y, gap, step_size=0.4, stepper=RK4, recorded=slice(None))
        slope = field(end)
    n, row = path.n_steps, torch.arange(5)
    torch.testing.assert_close(path.values[0], y)
    torch.testing.assert_close(path.values[n, row], end)
    torch.testing.assert_close(path.slopes[n, row], slope)
    torch.testing.assert_close(path.step * n, gap)
    at_ends = evaluate_path(path, torch.stack([torch.zeros(5).double(), gap], dim=1))
    torch.testing.assert_close(at_ends, torch.stack([y, end], dim=1))


def test_recording_does_not_change_the_result():
    field, y, gap = make_field(), states(3), double([0.2, 1.7, 0.9])
    with torch.no_grad():
        plain, nothing = integrate(field, y, gap, step_size=0.4, stepper=RK4)
        end, _ = integrate(field, y, gap, step_size=0.4, stepper=RK4, recorded=slice(0, 1))
    assert nothing is None
    assert_same_but_for_rounding(end, plain)


@pytest.mark.parametrize("stepper", STEPPERS.values(), ids=lambda stepper: stepper.name)
def test_gradients_are_those_of_finite_differences(stepper):
    field, gap = make_field(2, (4,)), double([0.3, 1.7, 0.9])
    # some rows outside the wall, where the field is another one
    z = (states(3, 2, seed=1) * double([1.0, 6.0, 0.5])[:, None]).requires_grad_()
    options = {"step_size": 0.6, "stepper": stepper}

    def with_path(z, *weights):
        end, path = integrate(field, z, gap, recorded=slice(0, 1), **options)
        inside = evaluate_path(path, gap[:, None] * double([[0.2, 0.8]]))
        return end, inside

    assert torch.autograd.gradcheck(with_path, (z, *field.parameters()))


FIELD = WalledMLP(4, (6, 5), generator=torch.Generator().manual_seed(0)).double()
SETTINGS = {"step_size": 0.3, "stepper": RK4}


@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    scale=st.sampled_from([1.0, 6.0]),
    seed=st.integers(0, 2**20),
)
def test_rollouts_are_one_integration_after_the_other(counts, scale, seed):
    """With states within the wall and beyond it; no row depends on the others."""
    rng = np.random.default_rng(seed)
    start = torch.from_numpy(scale * rng.normal(size=(len(counts), 4)))
    row = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    gap = torch.from_numpy(rng.exponential(size=len(row)) + 1e-3)
    with torch.no_grad():
        found = rollout(FIELD, start, row, gap, recorded=slice(1, None, 2), **SETTINGS)
        z = start.clone()
        for k, one in enumerate(row):
            z[one : one + 1], _ = integrate(FIELD, z[one : one + 1], gap[k : k + 1], **SETTINGS)
            torch.testing.assert_close(found[k], z[one, 1::2], rtol=0, atol=1e-12)


@pytest.mark.parametrize("field", [FIELD, FIELD.bind()], ids=["network", "function"])
def test_gradients_of_rollouts_pass_through_all_intervals(field):
    start = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 4))).requires_grad_()
    row, gap = torch.tensor([0, 0, 1]), torch.tensor([0.5, 0.7, 0.4], dtype=torch.float64)

    def through(z):
        return rollout(field, z, row, gap, recorded=slice(2), **SETTINGS)

    assert torch.autograd.gradcheck(through, start)
