"""The Runge-Kutta methods as data."""

from __future__ import annotations

import math

import pytest
import torch

from skpolyode.dynamics import STEPPERS, integrate

pytestmark = pytest.mark.parametrize("stepper", STEPPERS.values(), ids=lambda stepper: stepper.name)


def pendulum(y: torch.Tensor) -> torch.Tensor:
    return torch.stack([y[:, 1], -torch.sin(y[:, 0])], dim=1)


def solve(field, y, gap, step_size, stepper):
    gap = torch.full((len(y),), gap, dtype=torch.float64)
    return integrate(field, y, gap, step_size=step_size, stepper=stepper)[0]


def test_measured_order_of_convergence(stepper):
    start = torch.tensor([[1.2, 0.3]], dtype=torch.float64)
    exact = solve(pendulum, start, 2.0, 1e-3, STEPPERS["rk4"])
    steps = [2.0 / 20, 2.0 / 40, 2.0 / 80]
    errors = [float((solve(pendulum, start, 2.0, h, stepper) - exact).norm()) for h in steps]
    slopes = [math.log2(errors[k] / errors[k + 1]) for k in range(2)]
    assert slopes == pytest.approx([stepper.order] * 2, abs=0.2)


def test_polynomial_of_its_order_is_exact(stepper):
    """In y' = 1, z' = order * y^(order - 1), quadrature of the method has no error."""
    p = stepper.order

    def field(y):
        return torch.stack([torch.ones_like(y[:, 0]), p * y[:, 0] ** (p - 1)], dim=1)

    end = solve(field, torch.zeros(1, 2, dtype=torch.float64), 1.5, 1.5, stepper)
    torch.testing.assert_close(end, torch.tensor([[1.5, 1.5**p]], dtype=torch.float64))


def test_tableau_is_explicit_and_consistent(stepper):
    assert [len(row) for row in stepper.a] == list(range(1, len(stepper.b)))
    assert sum(stepper.b) == pytest.approx(1)
    nodes = [0.0, *map(sum, stepper.a)]
    mean = sum(w * c for w, c in zip(stepper.b, nodes, strict=True))
    assert stepper.order == 1 or mean == pytest.approx(0.5)
