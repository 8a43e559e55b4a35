"""The bounds hold on random functions, and their closed forms are right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import legendre
from scipy.special import zeta

from benchmarks.memory_errors import legt_closure_error, reconstruction_error_bound
from skpolyode.memory import legt_basis


def projection_error(path, breaks, window, size):
    """RMS error of the projection of a path over [0, window], smooth between the breaks."""
    edges = np.unique(np.concatenate([[0.0, window], breaks]))
    node, weight = legendre.leggauss(200)
    times = edges[:-1, None] + np.diff(edges)[:, None] * (1 + node) / 2
    weights = np.diff(edges)[:, None] * weight / 2 / window
    basis = legt_basis(times / window, size)
    values = path(times)
    c = np.einsum("pk,pk,pkn->n", weights, values, basis)
    return np.sqrt((weights * (values - basis @ c) ** 2).sum())


@st.composite
def piecewise_linear(draw):
    """Knots in [0, window], values at them, and jumps there; none needs to be nice."""
    window = draw(st.floats(0.1, 50.0))
    seed, n_knots = draw(st.integers(0, 2**20)), draw(st.integers(0, 8))
    rng = np.random.default_rng(seed)
    knots = np.sort(rng.uniform(0, window, n_knots))
    jumps = rng.normal(size=n_knots) * rng.integers(0, 2, n_knots)
    slopes = rng.normal(size=n_knots + 1) * draw(st.floats(0.0, 5.0))
    return window, knots, jumps, slopes


def evaluate(times, knots, jumps, slopes):
    total = slopes[0] * times
    for knot, jump, change in zip(knots, jumps, np.diff(slopes), strict=True):
        total = total + np.where(times > knot, jump + change * (times - knot), 0.0)
    return total


@given(piecewise_linear(), st.integers(1, 40))
def test_bounds_hold_for_piecewise_linear_functions(function, size):
    window, knots, jumps, slopes = function
    error = projection_error(lambda t: evaluate(t, knots, jumps, slopes), knots, window, size)
    settings = {"window": window, "n_coefficients": size}
    lipschitz = np.abs(slopes).max()
    sharp = reconstruction_error_bound(lipschitz, jumps, window - knots, **settings)
    loose = reconstruction_error_bound(lipschitz, jumps, form="position_free", **settings)
    assert error <= sharp + 1e-12
    assert sharp <= loose + 1e-12


@given(st.integers(0, 2**20), st.integers(2, 40))
def test_bound_holds_for_zigzags(seed, size):
    """The printed first term does not: see the next test."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 3 * size))
    slopes = (-1.0) ** np.arange(n + 1)
    knots = (np.arange(n) + 1) / (n + 1)
    error = projection_error(lambda t: evaluate(t, knots, 0 * knots, slopes), knots, 1.0, size)
    assert error <= reconstruction_error_bound(1.0, window=1.0, n_coefficients=size)


def test_the_printed_form_is_violated():
    """A zigzag at the resolution of the polynomials, without any jump."""
    size, violated = 16, False
    for n in range(2, 40):
        slopes, knots = (-1.0) ** np.arange(n + 1), (np.arange(n) + 1) / (n + 1)
        error = projection_error(
            lambda t, s=slopes, k=knots: evaluate(t, k, 0 * k, s), knots, 1.0, size
        )
        with pytest.warns(UserWarning, match="is not a bound"):
            printed = reconstruction_error_bound(
                1.0, window=1.0, n_coefficients=size, form="paper", constants=(1 / 8, 1.0, 1.0)
            )
        violated |= error > 1.1 * printed
    assert violated


@pytest.mark.parametrize("size", [1, 2, 5, 32])
@pytest.mark.parametrize("age", [0.0, 0.3, 1.1, 2.0])
def test_one_step_is_exact(size, age):
    """The bound of a single jump without slopes is its error."""
    window, jump = 2.0, -3.0
    error = projection_error(
        lambda t: np.where(t > window - age, jump, 0.0), [window - age], window, size
    )
    bound = reconstruction_error_bound(0.0, [jump], [age], window=window, n_coefficients=size)
    assert bound == pytest.approx(error, abs=1e-7)


def test_one_line_with_one_coefficient():
    """f = y on [-1, 1]: the error is its standard deviation, the bound L W / sqrt(12): equal."""
    bound = reconstruction_error_bound(1.0, window=2.0, n_coefficients=1)
    assert bound == pytest.approx(1 / np.sqrt(3))
    assert projection_error(lambda t: t - 1, [], 2.0, 1) == pytest.approx(1 / np.sqrt(3))


def test_paper_form_is_the_printed_one():
    with pytest.warns(UserWarning, match='Use form="sharp" or "position_free"'):
        value = reconstruction_error_bound(
            2.0,
            [0.5, -1.0],
            window=5.0,
            n_coefficients=10,
            form="paper",
            constants=(2.0, 3.0, 5.0),
        )
    rise, total = 10.0 * 3, 1.5
    expected = 2 * rise**2 / (10 * 19) + (3 * rise * total + 5 * total**2) * zeta(1.5, 10)
    assert value**2 == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"jumps": [1.0]}, 'one age for each of the 1 jumps, got 0; form="position_free"'),
        ({"jumps": [1.0], "jump_ages": [3.0]}, r"must be in \[0, 2\]"),
        ({"form": "proved"}, "form must be"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        reconstruction_error_bound(1.0, window=2.0, n_coefficients=4, **arguments)


def test_kappa_is_large_enough():
    """N T_N(b) over a grid of positions."""
    ages = np.linspace(0, 1, 150)
    for size in [1, 2, 3, 4, 5, 7, 16, 33, 64, 130]:
        worst = max(
            reconstruction_error_bound(0.0, [1.0], [age], window=1.0, n_coefficients=size)
            for age in ages
        )
        free = reconstruction_error_bound(
            0.0, [1.0], window=1.0, n_coefficients=size, form="position_free"
        )
        assert worst <= free * (1 + 1e-12)


@pytest.mark.parametrize(("rate", "size"), [(4.0, 16), (8.0, 32)])
def test_closure_error_of_a_sine_is_that_of_its_projection(rate, size):
    closure = legt_closure_error(
        lambda t: np.sin(rate * t), window=5.0, n_coefficients=size, time=10.0
    )
    projection = projection_error(lambda t: np.sin(rate * (t + 5)), [], 5.0, size)
    assert 0.3 * projection < closure < 3 * projection


def test_closure_error_of_steps_and_of_what_the_memory_can_hold():
    steps, breaks = lambda t: np.sign(np.sin(t)), -np.pi * np.arange(1, 20)
    error = legt_closure_error(steps, window=5.0, n_coefficients=32, breaks=breaks)
    projection = projection_error(lambda t: steps(t - 5), 5 + breaks[breaks > -5], 5.0, 32)
    assert 0.05 * projection < error < projection
    line = legt_closure_error(lambda t: 1 + 0.1 * t, window=5.0, n_coefficients=4)
    assert line < 1e-11
