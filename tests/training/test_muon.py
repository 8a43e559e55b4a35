"""Muon's steps, against their formulas and torch's own Adam."""

from __future__ import annotations

import copy

import pytest
import torch

from skpolyode.training import Muon, Trainer, orthogonalise
from tests.training.test_loop import Fit, Line


def matrix(*shape: int, seed: int = 0) -> torch.nn.Parameter:
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (1, 6)])
def test_orthogonalising_keeps_singular_vectors_and_evens_out_the_values(shape):
    m = matrix(*shape).detach()
    u, _, vh = torch.linalg.svd(m, full_matrices=False)
    inner = u.T @ orthogonalise(m) @ vh.T
    values = inner.diag()
    assert (values > 0.6).all()
    assert (values < 1.3).all()
    assert torch.allclose(inner, values.diag(), atol=1e-12)


def test_weights_decay_towards_zero():
    """Without a gradient a matrix shrinks by the rate times `lr`, and a vector stays."""
    weight, bias = matrix(3, 2), matrix(3)
    start = weight.detach().clone(), bias.detach().clone()
    optimizer = Muon([weight, bias], lr=0.1, weight_decay=0.5)
    for _ in range(2):
        weight.grad, bias.grad = torch.zeros_like(weight), torch.zeros_like(bias)
        optimizer.step()
    torch.testing.assert_close(weight.detach(), start[0] * 0.95**2, rtol=1e-14, atol=0)
    assert torch.equal(bias.detach(), start[1])


@pytest.mark.parametrize(
    ("shape", "size"), [((2, 8), 1.0), ((8, 2), 2.0), ((3, 256), 0.5), ((100, 400), 0.5)]
)
def test_steps_of_matrices_go_down_and_look_ahead(shape, size):
    weight, first, second = matrix(*shape), *(matrix(*shape, seed=s).detach() for s in (1, 2))
    expected = weight.detach().clone()
    optimizer = Muon([weight], lr=0.1, momentum=0.8, weight_decay=0.0)
    momentum = torch.zeros_like(expected)
    for gradient in (first, second):
        weight.grad = gradient.clone()
        optimizer.step()
        momentum = 0.8 * momentum + 0.2 * gradient
        expected -= 0.1 * size * orthogonalise(0.2 * gradient + 0.8 * momentum)
    torch.testing.assert_close(weight.detach(), expected, rtol=1e-12, atol=1e-12)


def test_vectors_are_stepped_by_adam():
    """Bias correction included: the first steps are as long as the later ones."""
    vector = matrix(4)
    reference = copy.deepcopy(vector)
    optimizer = Muon([vector], lr=0.05)
    adam = torch.optim.Adam([reference], lr=0.05 * 0.4)
    for seed in range(1, 6):
        vector.grad, reference.grad = (matrix(4, seed=seed).detach() for _ in range(2))
        optimizer.step()
        adam.step()
        torch.testing.assert_close(vector, reference, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("steepness", "expected"), [(1e-3, 4e-3), (1.0, 0.5), (1e9, 0.5)])
def test_gradients_are_clipped_to_their_largest_norm(steepness, expected):
    """Of the loss (w - 2)^2 at w = 0 the gradient is -4; its direction is kept."""
    seen = []

    class Watching(Muon):
        def step(self):
            seen.append(self.parameters[0].grad.item())
            super().step()

    task = Fit(Line())
    task.spoil = lambda: steepness
    trainer = Trainer(0.1, 10, max_epochs=1, patience=None, optimizer=Watching)
    trainer.run(task.line, task, torch.Generator())
    assert seen == [pytest.approx(-expected, rel=1e-5)]
