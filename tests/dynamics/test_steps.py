"""Steps of a network by its drive, against those of the field itself."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from skpolyode.dynamics import STEPPERS, NetworkSteps, WalledMLP, integrate
from tests.closeness import assert_same_but_for_rounding

every_stepper = pytest.mark.parametrize("stepper", STEPPERS.values(), ids=lambda s: s.name)
every_depth = pytest.mark.parametrize("hidden", [(), (6,), (6, 5, 4)])


def make_field(size=4, hidden=(6, 5), **options):
    return WalledMLP(size, hidden, generator=torch.Generator().manual_seed(0), **options).double()


def states(n_rows, size=4, scale=1.0):
    return torch.from_numpy(scale * np.random.default_rng(0).normal(size=(n_rows, size)))


@every_stepper
@every_depth
def test_inside_the_box_they_are_steps_of_the_field(stepper, hidden):
    field, z = make_field(hidden=hidden), states(9)
    gap = torch.linspace(0.1, 2.0, 9, dtype=torch.float64)
    options = {"step_size": 0.4, "stepper": stepper, "recorded": slice(None, None, 2)}
    with torch.no_grad():
        end, path = integrate(field, z, gap, **options)
        plain, plain_path = integrate(field.bind(), z, gap, **options)
    torch.testing.assert_close(end, plain, rtol=0, atol=1e-12)
    torch.testing.assert_close(path.values, plain_path.values, rtol=0, atol=1e-12)
    torch.testing.assert_close(path.slopes, plain_path.slopes, rtol=0, atol=1e-12)


@every_depth
def test_gradients_are_those_of_plain_stages(hidden):
    gap = torch.linspace(0.1, 2.0, 9, dtype=torch.float64)
    gradients = []
    for way in (lambda field: field, WalledMLP.bind):
        field, z = make_field(hidden=hidden), states(9).requires_grad_()
        end, _ = integrate(way(field), z, gap, step_size=0.4, stepper=STEPPERS["rk4"])
        (end * torch.linspace(-1, 1, 36).view(9, 4)).sum().backward()
        gradients.append([z.grad, *(parameter.grad for parameter in field.parameters())])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_slopes_are_those_of_the_field_on_both_sides_of_the_wall():
    field, z, at = make_field(), states(20, scale=6.0), slice(1, None, 2)
    steps = NetworkSteps(field, STEPPERS["rk4"], at)
    with torch.no_grad():
        slope = steps.slope(z, steps.begin(z))
        torch.testing.assert_close(slope, field(z)[:, at], rtol=0, atol=1e-12)


def test_what_is_beyond_the_wall_decays_by_itself():
    field = make_field(pull=0.7)
    z = torch.tensor([[0.3, 8.0, -6.0, 1.0]], dtype=torch.float64)
    corner = torch.tensor([[0.3, 5.0, -5.0, 1.0]], dtype=torch.float64)
    steps, h = NetworkSteps(field, STEPPERS["rk4"]), torch.tensor([[0.25]], dtype=torch.float64)
    with torch.no_grad():
        end, moved = (steps.end(y, steps.begin(y), h) for y in (z, corner))
        torch.testing.assert_close(end - moved, math.exp(-0.25 * 0.7) * (z - corner))


def test_across_the_wall_they_converge_to_the_field():
    field = make_field(wall=1.0, pull=2.0)
    with torch.no_grad():
        field.layers[-1].weight.mul_(8)

    def slope(t, y):
        return field(torch.from_numpy(y)[None])[0].detach().numpy()

    z, gap = states(1), torch.tensor([3.0], dtype=torch.float64)
    solution = solve_ivp(slope, (0, 3), z[0].numpy(), rtol=1e-9, atol=1e-10)
    assert np.abs(solution.y).max() > 1.2
    errors = []
    for step_size in (0.02, 0.01, 0.005):
        with torch.no_grad():
            end, _ = integrate(field, z, gap, step_size=step_size, stepper=STEPPERS["rk4"])
        errors.append(float((end[0] - torch.from_numpy(solution.y[:, -1])).norm()))
    assert errors[-1] < 0.02
    slopes = [math.log2(before / after) for before, after in pairwise(errors)]
    assert slopes == pytest.approx([1, 1], abs=0.3)


@every_stepper
@every_depth
@pytest.mark.parametrize("scale", [0.3, 6.0])
def test_a_step_in_one_is_the_same(stepper, hidden, scale):
    """Also its gradient, with states beyond the wall and without any."""
    field, z, h = make_field(hidden=hidden), states(9, scale=scale), states(9, size=1).abs()
    assert bool((z.abs() > field.wall).any()) == (scale > 1)
    found = []
    for in_one in (True, False):
        y, steps = z.clone().requires_grad_(), NetworkSteps(field, stepper)
        end = steps.step(y, h) if in_one else steps.end(y, steps.begin(y), h)
        weights = [y, *field.parameters()]
        found.append([end, *torch.autograd.grad((end * end).sum(), weights)])
    for one, other in zip(*found, strict=True):
        assert_same_but_for_rounding(one.detach(), other.detach())


def test_what_is_no_number_stays_that():
    steps, z = NetworkSteps(make_field(), STEPPERS["rk4"]), states(3)
    z[1, 2] = math.nan
    end = steps.step(z, torch.full((3, 1), 0.1, dtype=torch.float64))
    assert end.isnan().any(dim=1).tolist() == [False, True, False]
