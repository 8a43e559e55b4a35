"""The protocol that the paper's experiments ran, number by number."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import odeint

from skpolyode.datasets import make_lorenz63, make_lorenz96, make_synthetic, paper

MAKERS = {"synthetic": make_synthetic, "lorenz63": make_lorenz63, "lorenz96": make_lorenz96}
LORENZ = [make_lorenz63, make_lorenz96]


@pytest.fixture(scope="module")
def data():
    return {
        name: make(4000, protocol="paper-code", random_state=0) for name, make in MAKERS.items()
    }


def standardised(path, axis):
    return (path - path.mean(axis=axis)) / path.std(axis=axis)


def test_grid_of_synthetic(data):
    times = data["synthetic"].truth.times
    assert len(times) == 10
    assert_allclose(times[[0, 5, -1]], [1.045, 5.568, 9.186], atol=5e-4)
    assert_allclose(np.diff(times), 0.9045, atol=5e-5)


@pytest.mark.parametrize("name", ["lorenz63", "lorenz96"])
def test_grid_of_lorenz(data, name):
    times = data[name].truth.times
    assert len(times) == 100
    assert_allclose(times[[0, 60, -1]], [1.0, 6.411, 9.928], atol=5e-4)
    assert_allclose(np.diff(times), 0.0902, atol=5e-5)


@pytest.mark.parametrize(
    ("name", "base_rate", "variance"),
    [("synthetic", 0.195, 0.251), ("lorenz63", 0.54, 0.92), ("lorenz96", 0.49, 0.98)],
)
def test_base_rate_and_variance_of_the_label(data, name, base_rate, variance):
    # The reference numbers come from 1000 series: three of their standard errors.
    assert_allclose(data[name].y.mean(), base_rate, atol=0.045)
    assert_allclose(data[name].label_value.var(), variance, atol=0.1)


@pytest.mark.parametrize(
    ("name", "index", "threshold"),
    [("synthetic", 5, 0.5), ("lorenz63", 60, 0.0), ("lorenz96", 60, 0.0)],
)
def test_label_is_the_last_state_at_its_grid_point(data, name, index, threshold):
    bunch = data[name]
    assert_array_equal(bunch.label_value, bunch.truth.values[:, index, -1])
    assert_array_equal(bunch.y, bunch.label_value > threshold)


@pytest.mark.parametrize(
    ("name", "probability", "n_grid"),
    [("synthetic", 0.7, 10), ("lorenz63", 0.3, 100), ("lorenz96", 0.3, 100)],
)
def test_thinning_of_all_channels_together_with_forced_last_point(data, name, probability, n_grid):
    panel, truth = data[name].panel, data[name].truth
    assert np.isfinite(panel.values).all()
    assert_array_equal(panel.times[panel.offsets[1:] - 1], truth.times[-1])
    seen = ~truth.heldout
    assert_allclose(seen[:, :-1].mean(axis=0), probability, atol=0.035)
    assert_array_equal(seen.sum(axis=1), panel.lengths)
    assert_allclose(panel.lengths.mean(), probability * (n_grid - 1) + 1, rtol=0.01)


@pytest.mark.parametrize("name", list(MAKERS))
def test_observations_are_the_truth_at_the_points_that_are_not_held_out(data, name):
    panel, truth = data[name].panel, data[name].truth
    series, index = np.nonzero(~truth.heldout)
    assert_array_equal(panel.times, truth.times[index])
    assert_array_equal(panel.values, truth.values[series, index][:, truth.observed])
    assert_array_equal(truth.at_observations, truth.values[series, index])


def test_synthetic_signal_is_half_a_difference_of_sines(data):
    truth = data["synthetic"].truth
    # sin a cos 3a = (sin 4a - sin 2a) / 2 has no other frequencies and mean square 1/4.
    angles = np.multiply.outer([2.0, 4.0], truth.times)
    basis = np.concatenate([np.sin(angles), np.cos(angles)])
    weights = truth.values[:, :, 0] @ np.linalg.pinv(basis)
    assert_allclose(weights @ basis, truth.values[:, :, 0], atol=1e-12)
    assert_allclose(np.hypot(weights[:, :2], weights[:, 2:]), 0.5, atol=1e-12)


def test_lorenz63_path_is_explicit_euler():
    path = paper._paper_path_lorenz63()
    assert path.shape == (10_001, 3)
    assert_allclose(path.mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(path.std(axis=0), 1.0)
    reference = [np.array([0.0, 1.0, 1.05])]
    params = np.array([10.0, 28.0, 2.667])
    for _ in range(999):
        reference.append(reference[-1] + 0.01 * paper.lorenz63(reference[-1], params))
    # Later points depend on the order of the operations: the system is chaotic.
    assert_allclose(standardised(path[:1000], 0), standardised(np.array(reference), 0), atol=1e-6)


def test_lorenz96_path_has_one_mean_and_one_deviation():
    path = paper._paper_path_lorenz96()
    assert path.shape == (10_000, 5)
    assert_allclose([path.mean(), path.std()], [0.0, 1.0], atol=1e-12)
    assert np.ptp(path.std(axis=0)) > 1e-3
    reference = odeint(
        lambda x, _: (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + 8.0,
        np.array([8.01, 8.0, 8.0, 8.0, 8.0]),
        np.arange(500) * 0.01,
    )
    assert_allclose(standardised(path[:500], None), standardised(reference, None), atol=1e-5)


def starts(bunch, path):
    place = {tuple(state): index for index, state in enumerate(path)}
    return np.array([place[tuple(window[0])] for window in bunch.truth.values])


@pytest.mark.parametrize(
    ("name", "path"),
    [("lorenz63", paper._paper_path_lorenz63), ("lorenz96", paper._paper_path_lorenz96)],
)
def test_windows_of_one_trajectory_with_doubled_density_at_its_start(data, name, path):
    path = path()
    start = starts(data[name], path)
    assert 8900 < start.max() < 9000
    assert_allclose(np.mean(start < 1000), 0.2, atol=0.025)
    assert_allclose(np.mean(start >= 8000), 0.1, atol=0.02)
    steps = np.arange(0, 500, 5)
    assert_array_equal(data[name].truth.values, path[start[:, None] + steps])


@pytest.mark.parametrize("make", LORENZ)
def test_own_mask_for_every_channel(make):
    bunch = make(300, protocol="paper-code", per_channel=True, random_state=0)
    panel, truth = bunch.panel, bunch.truth
    assert_array_equal(panel.values[panel.offsets[1:] - 1], truth.values[:, -1, truth.observed])
    observed = np.isfinite(panel.values)
    assert observed.any(axis=1).all()
    assert_allclose(observed.sum(axis=0) / 300, 0.3 * 99 + 1, rtol=0.03)
    missing = 0.7**panel.n_channels
    assert_allclose(truth.heldout[:, :-1].mean(), missing, atol=0.02)


def test_rate_above_one_is_no_probability():
    with pytest.raises(ValueError, match=r"in \(0, 1\], got 1.5"):
        make_lorenz63(10, rate=1.5, protocol="paper-code")
