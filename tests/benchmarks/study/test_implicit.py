"""The implicit multistep methods of the dynamics."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks.paper.study.implicit import MULTISTEPS, ImplicitStepper, Multistep, jacobian
from skpolyode.dynamics import STEPPERS, WalledMLP, integrate

every_method = pytest.mark.parametrize(
    "method", MULTISTEPS.values(), ids=lambda method: method.name
)


def make_field(strength=2.0, wall=1.5):
    field = WalledMLP(
        3, (7,), wall=wall, pull=2.0, generator=torch.Generator().manual_seed(0)
    ).double()
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.mul_(strength)
    return field


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def solve(field, z, gaps, step_size, method):
    gap = torch.tensor(gaps, dtype=torch.float64)
    stepper = ImplicitStepper(field, method)
    return integrate(field.bind(), z, gap, step_size=step_size, stepper=stepper)[0]


@every_method
def test_measured_order_of_convergence(method):
    field, z, gaps = make_field(wall=9.0), 0.3 * draw(2, 3), [1.6, 0.8]
    gap = torch.tensor(gaps, dtype=torch.float64)
    with torch.no_grad():
        exact, _ = integrate(field, z, gap, step_size=2e-3, stepper=STEPPERS["rk4"])
        errors = [float((solve(field, z, gaps, 0.8 / n, method) - exact).norm()) for n in (16, 32)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(method.order, abs=0.35)
    assert errors[1] < 0.04


def test_backward_euler_solves_its_equation():
    field, z = make_field(), 3 * draw(4, 3)
    with torch.no_grad():
        end = solve(field, z, [0.5] * 4, 0.5, MULTISTEPS["backward_euler"])
        torch.testing.assert_close(end, z + 0.5 * field(end), rtol=0, atol=1e-10)


def test_adams_moulton_is_its_formula():
    """The fifth point of a path from the four before, as written out."""
    field, z, h = make_field(), 0.3 * draw(1, 3), 0.1
    method = MULTISTEPS["adams_moulton"]
    with torch.no_grad():
        y = [z] + [solve(field, z, [n * h], h, method) for n in range(1, 5)]
        f = [field(point) for point in y]
        slope = 251 * f[4] + 646 * f[3] - 264 * f[2] + 106 * f[1] - 19 * f[0]
    torch.testing.assert_close(y[4], y[3] + h / 720 * slope, rtol=0, atol=1e-12)


@every_method
def test_gradients_are_those_of_the_root(method):
    field, z = make_field(), draw(3, 3)
    gaps = [0.7, 0.15, 0.4]  # of 7, 2 and 4 steps

    def end(start, *weights):
        with torch.no_grad():
            for parameter, weight in zip(field.parameters(), weights, strict=True):
                parameter.copy_(weight)
        return solve(field, start, gaps, 0.1, method)

    weights = [parameter.detach().clone() for parameter in field.parameters()]
    direction = draw(3, 3)
    z.requires_grad_()
    (end(z, *weights) * direction).sum().backward()
    found = [z.grad, *(parameter.grad for parameter in field.parameters())]
    with torch.no_grad():
        inputs = [z.detach(), *weights]
        for k, gradient in enumerate(found):
            change = draw(*gradient.shape)
            shifted = [
                [x + eps * change if i == k else x for i, x in enumerate(inputs)]
                for eps in (1e-5, -1e-5)
            ]
            up, down = ((end(*values) * direction).sum() for values in shifted)
            slope = (up - down) / 2e-5
            torch.testing.assert_close((gradient * change).sum(), slope, rtol=1e-6, atol=1e-8)


def test_jacobian_is_that_of_autograd():
    field, z = make_field(), 2 * draw(6, 3)
    assert (z.abs() > field.wall).any()
    rows = [torch.autograd.functional.jacobian(lambda x: field(x[None])[0], row) for row in z]
    torch.testing.assert_close(jacobian(field, z).detach(), torch.stack(rows))


def test_what_newton_cannot_solve_is_an_error():
    field, z = make_field(), draw(1, 3)
    z[0, 0] = math.nan
    message = r"solver='backward_euler': the equation of a step was not solved in 30 Newton"
    with torch.no_grad(), pytest.raises(ValueError, match=message):
        solve(field, z, [0.1], 0.1, MULTISTEPS["backward_euler"])


def test_misprinted_weights_are_refused():
    with pytest.raises(ValueError, match=r"misprint is not of order 5: its integral of s\*\*0"):
        Multistep("misprint", (251 / 270, 646 / 720, -264 / 720, 106 / 720, -19 / 720))
