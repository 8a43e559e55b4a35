"""The projection of given paths against SciPy's curves and quadrature."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.integrate import quad_vec
from scipy.interpolate import CubicHermiteSpline, CubicSpline, PchipInterpolator

from benchmarks.memory_errors import legt_closure_error
from skpolyode.embedders.paths import KINDS, ChannelRows, path_pieces
from skpolyode.memory import LegSMemory, LegTMemory, legt_basis
from skpolyode.memory.base import remember

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


def test_rows_and_channels_do_not_meet_and_rows_without_pieces_are_zero():
    rng = np.random.default_rng(0)
    series, times = np.array([0, 0, 0, 2, 2]), np.array([0.0, 1.0, 2.5, 0.0, 3.0])
    rows = ChannelRows(np.arange(2), series, times, rng.normal(size=(5, 2)))
    end = np.array([3.0, 1.0, 4.0])
    _, pieces = path_pieces("pchip", rows, end)
    memory, elapsed = LegTMemory(5, 2.0), torch.from_numpy(end)
    together = remember(memory, pieces, elapsed)
    assert not together[1].any()
    for i in (0, 2):
        for j in range(2):
            own = series == i
            _, alone = pieces_of("pchip", times[own], rows.values[own, j], end[i])
            expected = remember(memory, alone, elapsed[[i]])[0, 0]
            torch.testing.assert_close(together[i, j], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("size", [1, 12, 33])
@pytest.mark.parametrize("kind", KINDS)
def test_the_memory_of_the_whole_history_is_the_integral_of_the_path(kind, size):
    """With pieces of all lengths, a tiny one, and the held end."""
    first, pieces = pieces_of(kind)
    found = remember(LegSMemory(size), pieces, torch.tensor([END], dtype=torch.float64))[0, 0]
    found[0] += first[0, 0]
    path = CURVES[kind](TIMES, VALUES)
    scale = max(1.0, np.abs(path(np.linspace(0, 2, 500))).max())  # backward slopes overshoot
    expected = by_quadrature(path, END, size)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-9 * scale)


@pytest.mark.parametrize("size", [4, 9])
def test_the_distance_of_the_sliding_memory_from_the_integral_is_the_closure_error(size):
    first, pieces = pieces_of("linear")
    moved = remember(LegTMemory(size, 1.2), pieces, torch.tensor([END], dtype=torch.float64))[0, 0]
    moved[0] += first[0, 0]
    projected = by_quadrature(CURVES["linear"](TIMES, VALUES), 1.2, size)
    distance = np.linalg.norm(moved.numpy() - projected)
    error = legt_closure_error(
        lambda t: np.interp(t, TIMES, VALUES - VALUES[0]),
        window=1.2,
        n_coefficients=size,
        time=END,
        breaks=TIMES,
    )
    assert error > 1e-3
    assert float(distance) == pytest.approx(error, abs=1e-9)
