"""State spaces against exact discretisations and convolutions, recurrences against a plain loop."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import cont2discrete

from skpolyode.models import pack
from skpolyode.siblings.s4 import DiagonalStateSpace, LinearRecurrence, before_each
from tests.models.cases import flat_series
from tests.models.weights import shaken, states

H, K = 3, 2
LENGTHS = [6, 1, 14, 9, 2]
SIZES = [4, 3, 3, 1]


def recurrence(sizes=SIZES, width=3):
    """Start, factors and additions of random states of two real numbers each."""
    n, later = sizes[0], sum(sizes) - sizes[0]
    return tuple(
        states(k, 2 * width, seed).view(k, 2, width) for seed, k in enumerate((n, *[later] * 2))
    )


def as_complex(x):
    return torch.complex(x[:, 0], x[:, 1])


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6).map(lambda n: sorted(n, reverse=True)))
def test_recurrence_is_that_of_each_series(sizes):
    x, turn, push = recurrence(sizes)
    found = as_complex(LinearRecurrence.apply(x, turn, push, sizes))
    starts = np.cumsum([0, *sizes])
    for series in range(sizes[0]):
        y = as_complex(x)[series]
        for k, size in enumerate(sizes):
            if series >= size:
                break
            row = starts[k] + series
            if k:
                y = as_complex(turn)[row - sizes[0]] * y + as_complex(push)[row - sizes[0]]
            torch.testing.assert_close(found[row], y)


def test_rows_before_are_those_of_the_same_series():
    data = pack(*flat_series(LENGTHS))
    (block,) = data.blocks()
    rows = before_each([part.stop - part.start for part in block], data.x.device)
    first = block[0].stop
    assert torch.equal(data.next[rows], torch.arange(first, len(data)))


def test_gradient_of_the_recurrence():
    weights = tuple(part.requires_grad_() for part in recurrence())
    assert torch.autograd.gradcheck(lambda *parts: LinearRecurrence.apply(*parts, SIZES), weights)


def make_layer():
    return shaken(DiagonalStateSpace(H, K, None), size=2.0)


def matrices(layer, feature):
    """What drives the states of a feature, in real numbers: ``dx/dt = A x + B u, y = C x + D u``.

    The states are the real parts, then the imaginary parts.
    """
    with torch.no_grad():
        rates, speed = (part[feature].numpy() for part in layer.rates())
        b, c = layer.b[:, feature].numpy(), layer.c[:, feature].numpy()
        d = layer.d[feature].item()
    real, imaginary = np.diag(rates.real), np.diag(rates.imag)
    A = np.block([[real, -imaginary], [imaginary, real]])
    return A, speed * b.reshape(-1, 1), 2 * np.concatenate([c[0], -c[1]])[None], np.array([[d]])


def test_rates_decay_whatever_the_weights():
    rates, speed = make_layer().rates()
    assert (rates.real < 0).all()
    assert (speed > 0).all()
    untrained, _ = DiagonalStateSpace(H, 3, None).rates()
    ratio = (untrained.imag / untrained.real).detach()
    torch.testing.assert_close(ratio, -2 * torch.pi * torch.arange(3.0).expand(H, -1))


def test_recurrence_is_a_convolution_on_an_even_grid():
    layer, gap = make_layer(), 0.3
    signal = states(7, H)
    x, found = torch.zeros(1, 2, H, K, dtype=torch.float64), []
    with torch.no_grad():
        for k, u in enumerate(signal[:, None]):
            if k:
                x = layer.flow(x, torch.tensor([gap], dtype=torch.float64))
            x = layer.observe(x, u)
            found.append(layer(x, u)[0])
    for h in range(H):
        A, B, C, D = matrices(layer, h)
        Ad, *_ = cont2discrete((A, B, C, D), gap, method="zoh")
        powers = [np.linalg.matrix_power(Ad, k) for k in range(len(signal))]
        kernel = [(C @ power @ B).item() + (k == 0) * D.item() for k, power in enumerate(powers)]
        expected = np.convolve(kernel, signal[:, h].numpy())[: len(signal)]
        np.testing.assert_allclose(torch.stack(found)[:, h], expected, atol=1e-9)
