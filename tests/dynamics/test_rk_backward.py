"""Gradients of rounds of steps, against torch's own and finite differences."""

from __future__ import annotations

import pytest
import torch

from skpolyode.dynamics import STEPPERS, NetworkSteps, WalledMLP
from skpolyode.dynamics.integrate import take_rounds
from tests.closeness import assert_same_but_for_rounding

every_stepper = pytest.mark.parametrize("stepper", STEPPERS.values(), ids=lambda s: s.name)
every_depth = pytest.mark.parametrize("hidden", [(5,), (6, 5), (6, 5, 4)])
every_wall = pytest.mark.parametrize("wall", [9.0, 0.6])  # all are inside, or some beyond
ROWS = (4, 4, 2, 1)
ORDER = torch.tensor([2, 0, 3, 1])
RECORDED = slice(None, None, 2)


def make_problem(hidden, wall=9.0):
    generator = torch.Generator().manual_seed(0)
    field = WalledMLP(3, hidden, wall=wall, pull=0.7, generator=generator).double()
    y = torch.randn(4, 3, dtype=torch.float64, generator=generator)
    lengths = [torch.rand(n, 1, dtype=torch.float64, generator=generator) for n in ROWS]
    field.by_hand = True
    return field, y.requires_grad_(), lengths


def step_by_step(steps, y, order, lengths, recorded):
    """As `take_rounds`, with the gradients of torch."""
    y, finished, signals = y[order], [], []
    for h in lengths:
        finished.append(y[len(h) :])
        y = steps.step(y[: len(h)], h)
        signals.append(y[:, recorded])
    return torch.cat([y, *reversed(finished)])[order.argsort()], torch.cat(signals)


@every_stepper
@every_depth
@every_wall
def test_rounds_are_steps_with_their_gradients(stepper, hidden, wall):
    field, y, lengths = make_problem(hidden, wall)
    assert bool((y.abs() > field.wall).any()) is (wall < 1)
    found = []
    for way in (take_rounds, step_by_step):
        parts = way(NetworkSteps(field, stepper), y, ORDER, lengths, RECORDED)
        total = sum((part * torch.arange(part.numel()).view_as(part)).sum() for part in parts)
        asked = [y, *field.parameters()]
        found.append((parts, torch.autograd.grad(total, asked)))
    (parts, gradients), (others, expected) = found
    for one, other in zip(parts, others, strict=True):
        assert_same_but_for_rounding(one.detach(), other.detach())
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@every_stepper
def test_gradients_are_those_of_finite_differences(stepper):
    field, y, lengths = make_problem((6, 5))

    def ends(y, *weights):
        named = dict(zip(dict(field.named_parameters()), weights, strict=True))
        return torch.func.functional_call(_Rounds(field, stepper, lengths), named, (y,))

    assert torch.autograd.gradcheck(ends, (y, *field.parameters()))


class _Rounds(torch.nn.Module):
    """Takes rounds along a field, whose weights `functional_call` replaces."""

    def __init__(self, field, stepper, lengths):
        super().__init__()
        self.layers, self.field = field.layers, [field]
        self.stepper, self.lengths = stepper, lengths

    def forward(self, y):
        steps = NetworkSteps(self.field[0], self.stepper)
        return take_rounds(steps, y, ORDER, self.lengths, RECORDED)


def test_what_is_not_asked_for_has_no_gradient():
    """Signals alone, as of a free run; weights that are held."""
    field, y, lengths = make_problem((6, 5))
    field.requires_grad_(False)
    steps = NetworkSteps(field, STEPPERS["rk4"])
    _, signals = take_rounds(steps, y, ORDER, lengths, RECORDED)
    assert type(signals.grad_fn).__name__ == "_RoundsBackward"
    (gradient,) = torch.autograd.grad(signals.sum(), [y])
    _, others = step_by_step(steps, y, ORDER, lengths, RECORDED)
    torch.testing.assert_close(gradient, torch.autograd.grad(others.sum(), [y])[0])
    with torch.no_grad():
        assert take_rounds(steps, y, ORDER, lengths, RECORDED)[1].grad_fn is None


def test_second_derivatives_are_refused():
    """They would be wrong: what the first ones need is recorded without gradients."""
    field, y, lengths = make_problem((6, 5))
    end, _ = take_rounds(NetworkSteps(field, STEPPERS["rk4"]), y, ORDER, lengths)
    (gradient,) = torch.autograd.grad(end.square().sum(), [y], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()
