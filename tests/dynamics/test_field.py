"""The network and its wall."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from skpolyode.dynamics import STEPPERS, WalledMLP, integrate
from skpolyode.dynamics.field import ACTIVATION


def make_field(size=4, hidden=(6, 5), seed=0, **options):
    return WalledMLP(size, hidden, generator=torch.Generator().manual_seed(seed), **options)


def test_inside_the_box_it_is_the_network():
    field, z = make_field().double(), torch.from_numpy(np.random.default_rng(0).normal(size=(9, 4)))
    out = z.numpy()
    for k, layer in enumerate(field.layers):
        out = out @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
        if k < 2:
            out = out / (1 + np.exp(-out))
    np.testing.assert_allclose(field(z).detach(), out, atol=1e-12)


def test_weights_are_drawn_by_the_number_of_inputs():
    for layer in make_field(100, (4, 400)).layers:
        for drawn in (layer.weight, layer.bias):
            assert 0.3 < float(drawn.detach().abs().max()) * layer.weight.shape[1] ** 0.5 <= 1.0


def test_the_activation_of_arrays_and_its_slope_are_those_of_tensors():
    x = torch.linspace(-30, 30, 41, dtype=torch.float64, requires_grad=True)
    y = ACTIVATION.of_tensor(x)
    np.testing.assert_allclose(ACTIVATION.of_array(x.detach().numpy()), y.detach(), atol=1e-14)
    (slope,) = torch.autograd.grad(y.sum(), x)
    found = ACTIVATION.backward(torch.ones_like(x), x.detach())
    torch.testing.assert_close(found, slope, rtol=0, atol=1e-13)


@pytest.mark.parametrize("far", [5.5, 30.0, 1e6])
def test_outside_the_box_it_is_the_nearest_point_and_a_pull(far):
    field = make_field(wall=5.0, pull=0.7).double()
    z = torch.tensor([[0.3, far, -far, 1.0]], dtype=torch.float64)
    corner = torch.tensor([[0.3, 5.0, -5.0, 1.0]], dtype=torch.float64)
    expected = field(corner) - 0.7 * (z - corner)
    torch.testing.assert_close(field(z), expected)


@pytest.mark.parametrize("size", [1.0, 30.0, 1e3])
def test_free_runs_are_bounded_whatever_the_weights(size):
    """By the box plus what steps from it can do against the pull."""
    field, step_size = make_field(pull=1.0).double(), 0.5
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.mul_(size)
        z = torch.from_numpy(np.random.default_rng(0).normal(size=(20, 4)))
        corners = torch.sign(torch.from_numpy(np.random.default_rng(1).normal(size=(4000, 4)))) * 5
        options = {"step_size": step_size, "stepper": STEPPERS["rk4"]}
        moved = integrate(field, corners, torch.full((4000,), step_size).double(), **options)[0]
        reach = 5 + 2 * float((moved - corners).abs().max()) / (1 - math.exp(-step_size))
        gap = torch.full((20,), 200.0, dtype=torch.float64)
        end, path = integrate(field, z, gap, recorded=slice(None), **options)
    assert torch.isfinite(end).all()
    assert float(path.values.abs().max()) < reach


def test_weights_come_from_the_generator_alone():
    state = torch.get_rng_state()
    one, two, other = make_field(seed=1), make_field(seed=1), make_field(seed=2)
    assert torch.equal(torch.get_rng_state(), state)
    for a, b, c in zip(one.parameters(), two.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
