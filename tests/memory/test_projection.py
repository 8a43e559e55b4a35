"""The projection of given paths against SciPy's curves and quadrature."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.integrate import quad_vec
from scipy.interpolate import CubicHermiteSpline, CubicSpline, PchipInterpolator

from skpolyode.embedders.paths import KINDS, ChannelRows, path_pieces
from skpolyode.memory import LegSMemory, LegTMemory, legt_basis, legt_closure_error
from skpolyode.memory.pieces import Pieces, project, remember

TIMES = np.array([0.0, 1e-3, 0.3, 0.35, 1.1, 1.4, 2.0])
VALUES = np.array([0.5, 0.6, -1.0, 2.0, 1.5, 0.0, 0.7])
END = 2.3  # after the last observation its value is held


def backward(times, values):
    slopes = np.diff(values) / np.diff(times)
    return CubicHermiteSpline(times, values, np.append(slopes[0], slopes))


def centred(times, values):
    rise, gap = np.diff(values) / np.diff(times), np.diff(times)
    inner = (gap[1:] * rise[:-1] + gap[:-1] * rise[1:]) / (gap[1:] + gap[:-1])
    return CubicHermiteSpline(times, values, np.concatenate([rise[:1], inner, rise[-1:]]))


def steps(times, values):
    return lambda t: values[np.searchsorted(times, t, side="right") - 1]


CURVES = {
    "constant": steps,
    "linear": lambda times, values: lambda t: np.interp(t, times, values),
    "hermite": backward,
    "centred": centred,
    "pchip": PchipInterpolator,
    "cubic": lambda times, values: CubicSpline(times, values, bc_type="natural"),
}


def by_quadrature(path, window, size):
    """Coefficients of a path of SciPy that is held at its ends, interval by interval."""

    def integrand(t):
        value = path(min(max(t, TIMES[0]), TIMES[-1]))
        return float(value) * legt_basis(1 - (END - t) / window, size)[0] / window

    edges = np.unique(np.clip([*TIMES, END, END - window], END - window, END))
    parts = [quad_vec(integrand, a, b, epsabs=1e-14, epsrel=1e-14)[0] for a, b in pairwise(edges)]
    return np.sum(parts, axis=0)


def pieces_of(kind, times=TIMES, values=VALUES, end=END):
    rows = ChannelRows(np.array([0]), np.zeros(len(times), dtype=int), times, values[:, None])
    return path_pieces(kind, rows, np.array([end]))


@pytest.mark.parametrize("size", [1, 8, 33])
@pytest.mark.parametrize("window", [0.2, 0.9, 2.1, END, 7.0])
@pytest.mark.parametrize("kind", KINDS)
def test_is_the_integral_of_the_path_over_the_window(kind, window, size):
    """Within the held end, in a piece, in the tiny one, of the history, and beyond its start."""
    first, pieces = pieces_of(kind)
    found = project(pieces, 1, n_coefficients=size, window=window)[0, 0].numpy()
    found[0] += first[0, 0]
    path = CURVES[kind](TIMES, VALUES)
    scale = max(1.0, np.abs(path(np.linspace(0, 2, 500))).max())  # backward slopes overshoot
    expected = by_quadrature(path, window, size)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * scale)


def test_rows_and_channels_do_not_meet_and_rows_without_pieces_are_zero():
    rng = np.random.default_rng(0)
    series, times = np.array([0, 0, 0, 2, 2]), np.array([0.0, 1.0, 2.5, 0.0, 3.0])
    rows = ChannelRows(np.arange(2), series, times, rng.normal(size=(5, 2)))
    end = np.array([3.0, 1.0, 4.0])
    _, pieces = path_pieces("pchip", rows, end)
    together = project(pieces, 3, n_coefficients=5, window=2.0)
    assert not together[1].any()
    for i in (0, 2):
        for j in range(2):
            own = series == i
            _, alone = pieces_of("pchip", times[own], rows.values[own, j], end[i])
            expected = project(alone, 1, n_coefficients=5, window=2.0)[0, 0]
            torch.testing.assert_close(together[i, j], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("size", [12, 64])
@pytest.mark.parametrize("kind", KINDS)
def test_of_the_whole_history_it_is_what_the_history_remembers(kind, size):
    _, pieces = pieces_of(kind)
    kept = remember(LegSMemory(size), pieces, torch.tensor([END], dtype=torch.float64))
    found = project(pieces, 1, n_coefficients=size, window=END)
    torch.testing.assert_close(found, kept, rtol=0, atol=1e-9)


def test_a_piece_of_nothing_is_no_piece():
    """One of a length of 1e-200, whose derivatives overflow, at the end of a constant."""
    row, age = torch.tensor([0, 0]), torch.tensor([2.0, 1e-200], dtype=torch.float64)
    ends = torch.tensor([[[3.0, 0.0, 0.0, 0.0]], [[3.0, 1e200, np.inf, -np.inf]]]).double()
    found = project(Pieces(row, age, ends, ends), 1, n_coefficients=3, window=2.0)
    torch.testing.assert_close(found[0, 0], torch.tensor([3.0, 0.0, 0.0]).double())


def test_a_cubic_is_given_back():
    """It is one of the polynomials: what is left of the window of a long, long piece, too."""
    cubic = np.polynomial.Polynomial([1.0, -2.0, 0.5, 0.3])  # of the time until now
    derivatives = [[[cubic.deriv(q)(t) for q in range(4)]] for t in (-1e4, 0.0)]
    start, end = torch.tensor(derivatives, dtype=torch.float64)[:, None]
    line = Pieces(torch.tensor([0]), torch.tensor([1e4], dtype=torch.float64), start, end)
    c = project(line, 1, n_coefficients=6, window=1.5)[0, 0].numpy()
    ages = np.linspace(0, 1.5, 9)
    np.testing.assert_allclose(legt_basis(1 - ages / 1.5, 6) @ c, cubic(-ages), atol=1e-13)
    assert np.abs(c[4:]).max() < 1e-14


@pytest.mark.parametrize("size", [4, 9])
def test_its_distance_from_the_sliding_memory_is_the_closure_error(size):
    _, pieces = pieces_of("linear")
    moved = remember(LegTMemory(size, 1.2), pieces, torch.tensor([END], dtype=torch.float64))
    distance = (moved - project(pieces, 1, n_coefficients=size, window=1.2)).norm()
    error = legt_closure_error(
        lambda t: np.interp(t, TIMES, VALUES - VALUES[0]),
        window=1.2,
        n_coefficients=size,
        time=END,
        breaks=TIMES,
    )
    assert error > 1e-3
    assert float(distance) == pytest.approx(error, abs=1e-9)
