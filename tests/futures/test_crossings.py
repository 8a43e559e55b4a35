"""Crossings of paths that are given."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode import Panel
from skpolyode.futures import SamplePaths
from skpolyode.futures.crossings import Window, first_crossings, grid_leads


def test_a_path_crosses_where_its_line_does():
    leads = np.array([0.0, 1.0, 3.0, 4.0])
    heights = np.array([[-1, -2, -1, 1, -1], [1, -1, -3, 2, 0], [2, 3, -1, 3, 1], [0, 3, -2, 4, 1]])
    found = first_crossings(leads, heights.astype(float))
    np.testing.assert_allclose(found, [0.5, 1.5, np.inf, 0.0, 1.0])


@pytest.mark.parametrize("gap", [0.5, 2.0])
def test_a_grid_is_finer_than_gaps_and_part_of_that_for_a_longer_horizon(gap):
    short, long = grid_leads(np.array([7.3, 20.0]), gap)
    assert np.diff(long).max() <= gap / 2
    assert short[-1] == 7.3
    np.testing.assert_array_equal(short[:-1], long[: len(short) - 1])
    (coarse,) = grid_leads(np.array([1e5]), gap)
    assert len(coarse) <= 402
    assert np.log2(coarse[1] / long[1]) % 1 == 0  # every second, fourth, ... of the points
    assert [len(own) for own in grid_leads(np.array([1e-3]), gap)] == [2]


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
    same = SamplePaths(paths.forecast[[0]], paths.samples[:2])
    np.testing.assert_array_equal(same.values[0], same[0])


def test_what_samples_tell(paths):
    np.testing.assert_array_equal(paths.extremes("above", "x1"), [[7, 9, 11], [25, 27, 29]])
    np.testing.assert_array_equal(paths.extremes("below"), [[0, 2, 4], [12, 14, 16]])
    beyond = paths.exceedance(8.0, "above")
    np.testing.assert_allclose(beyond.values[:2, 0], [0, 2 / 3])
    np.testing.assert_array_equal(beyond.times, paths.forecast.times)
    np.testing.assert_allclose(paths.time_beyond(8.0, "above"), [[0, 0.5, 0.5], [1, 1, 1]])
    np.testing.assert_allclose(paths.time_beyond(8.0, "below"), [[1, 1, 0.5], [0, 0, 0]])
    np.testing.assert_array_equal(paths.quantiles([0.5])[0.5].values, paths.samples[:, 1])


@pytest.mark.parametrize("line", ["high", [1.0, 2.0], None])
def test_a_line_is_one_number(paths, line):
    for ask in (paths.exceedance, paths.time_beyond):
        with pytest.raises(TypeError, match="threshold must be one number, got"):
            ask(line, "above")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.extremes("up"), 'direction must be "above" or "below", got \'up\''),
        (lambda p: p.extremes("above", "hr"), r"channel must be one of \['x0', 'x1'\].*got 'hr'"),
        (lambda p: p.extremes("above", 2), "a position from 0 to 1, got 2"),
        (lambda p: p.quantiles([1.5]), "alpha"),
    ],
)
def test_what_is_not_known_is_refused(paths, call, message):
    with pytest.raises(ValueError, match=message):
        call(paths)
