"""Crossings of paths that are given."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

from skpolyode import Panel
from skpolyode.futures import SamplePaths
from skpolyode.futures.continued import Window, first_crossings, grid_leads, standard_error


def test_a_path_crosses_where_its_line_does():
    leads = np.array([0.0, 1.0, 3.0, 4.0])
    heights = np.array([[-1, -2, -1, 1, -1], [1, -1, -3, 2, 0], [2, 3, -1, 3, 1], [0, 3, -2, 4, 1]])
    found = first_crossings(leads, heights.astype(float))
    np.testing.assert_allclose(found, [0.5, 1.5, np.inf, 0.0, 1.0])


def test_a_path_that_only_touches_its_line_has_reached_it():
    heights = np.array([[0.0, -1, -1, -2], [-1, 0, -1, -1], [-2, -1, 0, -1e-12]])
    found = first_crossings(np.array([0.0, 1.0, 3.0]), heights)
    np.testing.assert_allclose(found, [0.0, 1.0, 3.0, np.inf])


@pytest.mark.parametrize("gap", [0.5, 2.0])
@pytest.mark.parametrize("reach", [0.0, 40.0, 1e5])
def test_a_grid_is_part_of_that_for_a_longer_horizon(gap, reach):
    """It is finer than gaps as far as errors are known, and passes the horizon once."""
    longest = grid_leads(1e6 * gap, gap, reach)
    for horizon in (1e-6, 0.3, 0.5 * gap, 7.3, 39.0, 41.0, 3e3, 1e5):
        grid = grid_leads(horizon, gap, reach)
        np.testing.assert_array_equal(grid, longest[: len(grid)])
        assert grid[-2] < horizon <= grid[-1]
    near = longest[longest <= min(reach, 1999 * gap)]
    assert (np.diff(near) <= gap / 2).all()
    steps = np.diff(longest[10:])
    assert (steps >= gap / 2 - 1e-9).all()
    assert (np.diff(steps) > -1e-6).all()
    assert len(longest) < 9000


@pytest.mark.parametrize("n_known", [0, 10, 400])
def test_a_standard_error_is_that_of_a_share_of_so_many(n_known):
    share = np.array([0.0, 0.3, 1.0])
    found = standard_error(share, np.full(3, n_known))
    theirs = beta(n_known * share + 1, n_known * (1 - share) + 1).std()
    np.testing.assert_allclose(found, theirs)
    assert n_known < 400 or found[1] == pytest.approx(np.sqrt(0.3 * 0.7 / n_known), rel=0.01)


def test_a_window_is_of_quantiles_with_what_never_crosses_last():
    crossings = np.array([[1.0, 2, 3, 4, 5, 6, 7, 8, np.inf, np.inf], [np.inf] * 10])
    window = Window.of(crossings, 0.6)
    np.testing.assert_array_equal(window.probability, [0.8, 0.0])
    np.testing.assert_array_equal(window.earliest, [2.0, np.inf])
    np.testing.assert_array_equal(window.median, [5.0, np.inf])
    np.testing.assert_array_equal(window.latest, [8.0, np.inf])


@pytest.fixture
def paths() -> SamplePaths:
    """Two series at two and three times, three samples, two channels."""
    forecast = Panel.from_series([([1.0, 2.0], np.zeros((2, 2))), ([0.0, 1, 2], np.zeros((3, 2)))])
    return SamplePaths(forecast, np.arange(30.0).reshape(5, 3, 2))


def test_samples_are_found_by_series(paths):
    assert len(paths) == 2
    np.testing.assert_array_equal(paths[1], paths.samples[2:].swapaxes(0, 1))
    with pytest.raises(ValueError, match=r"different numbers of times.*paths\[i\]"):
        _ = paths.values
    pair = paths[0:2]
    np.testing.assert_array_equal(pair.samples, paths.samples)
    np.testing.assert_array_equal(paths[::-1][0], paths[1])
    assert len(paths[2:]) == 0
    with pytest.raises(TypeError, match=r"a position or a slice of series, got \[0, 1\]"):
        paths[[0, 1]]
    same = SamplePaths(paths.forecast[[0]], paths.samples[:2])
    np.testing.assert_array_equal(same.values[0], same[0])


def test_what_samples_tell(paths):
    np.testing.assert_array_equal(paths.extremes("above", "x1"), [[7, 9, 11], [25, 27, 29]])
    np.testing.assert_array_equal(paths.extremes("below", 0), [[0, 2, 4], [12, 14, 16]])
    beyond = paths.exceedance(8.0, "above")
    np.testing.assert_allclose(beyond.values[:2, 0], [0, 2 / 3])
    np.testing.assert_array_equal(beyond.times, paths.forecast.times)
    np.testing.assert_allclose(paths.time_beyond(8.0, "above", 0), [[0, 0.5, 0.5], [1, 1, 1]])
    np.testing.assert_allclose(paths.time_beyond(8.0, "below", 0), [[1, 1, 0.5], [0, 0, 0]])
    np.testing.assert_array_equal(paths.quantiles([0.5])[0.5].values, paths.samples[:, 1])


@pytest.mark.parametrize("line", ["high", [1.0, 2.0], None])
def test_a_line_is_one_number(paths, line):
    for ask in (paths.exceedance, paths.time_beyond):
        with pytest.raises(TypeError, match="threshold must be one number, got"):
            ask(line, "above")


def test_no_value_is_above_or_below_nan(paths):
    for ask in (paths.exceedance, paths.time_beyond):
        with pytest.raises(ValueError, match="threshold must be a number, got nan"):
            ask(np.nan, "above")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.extremes("up"), 'direction must be "above" or "below", got \'up\''),
        (lambda p: p.extremes("above", "hr"), r"channel must be one of \['x0', 'x1'\].*got 'hr'"),
        (lambda p: p.extremes("above", 2), "a position from 0 to 1, got 2"),
        (lambda p: p.extremes("above"), "a position from 0 to 1, got None"),
        (lambda p: p.quantiles([1.5]), "alpha"),
    ],
)
def test_what_is_not_known_is_refused(paths, call, message):
    with pytest.raises(ValueError, match=message):
        call(paths)
