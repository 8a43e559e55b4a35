"""Piecewise cubics against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.interpolate import CubicHermiteSpline

from skpolyode.cubic import CubicPath, evaluate_path, hermite_derivatives
from tests.closeness import assert_same_but_for_rounding


def test_evaluate_path_is_the_hermite_spline():
    rng = np.random.default_rng(0)
    n_steps, step = np.array([1, 4, 6]), np.array([0.7, 0.25, 2.0])
    values, slopes = rng.normal(size=(2, 7, 3, 2))
    since = rng.uniform(0, 1, (3, 9)) * (n_steps * step)[:, None]
    since[:, 0], since[:, 1] = 0.0, n_steps * step
    path = CubicPath(*map(torch.from_numpy, (values, slopes, step, n_steps)))
    found = evaluate_path(path, torch.from_numpy(since))
    for row, n in enumerate(n_steps):
        grid = step[row] * np.arange(n + 1)
        spline = CubicHermiteSpline(grid, values[: n + 1, row], slopes[: n + 1, row])
        np.testing.assert_allclose(found[row], spline(since[row]), atol=1e-12)
    # times of any of the paths, one after the other
    rows = torch.tensor([2, 0, 2, 1])
    flat = evaluate_path(path, torch.from_numpy(since)[rows, [3, 4, 5, 1]], rows)
    assert_same_but_for_rounding(flat, found[rows, [3, 4, 5, 1]])


def test_a_time_beyond_the_ends_by_rounding_is_of_the_piece_there():
    values = torch.tensor([1.0, 4.0, 9.0]).double()[:, None, None]
    path = CubicPath(values, 0 * values, torch.ones(1).double(), torch.tensor([2]))
    since = torch.tensor([[-1e-17, 2 + 4e-16]], dtype=torch.float64)
    assert evaluate_path(path, since).flatten().tolist() == [1.0, 9.0]


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_derivatives_are_those_of_the_hermite_spline(kind):
    rng = np.random.default_rng(1)
    values, slopes, length = rng.normal(size=(2, 5)), rng.normal(size=(2, 5)), rng.uniform(1, 2, 5)
    chord = (values[1] - values[0]) / length
    found = hermite_derivatives(*map(kind, (chord, *slopes, length)))
    assert all(type(part) is type(kind(chord)) for part in found)
    for j, h in enumerate(length):
        spline = CubicHermiteSpline([0.0, h], values[:, j], slopes[:, j])
        expected = [spline(0.0, 2), spline(h, 2), spline(0.0, 3)]
        np.testing.assert_allclose([part[j] for part in found], expected, atol=1e-12)
