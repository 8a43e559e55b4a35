"""The default protocol of the generators, and what all protocols share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.interpolate import CubicSpline

from skpolyode.datasets import (
    make_lorenz63,
    make_lorenz96,
    make_synthetic,
    paper,
)
from skpolyode.datasets.simulation import Simulation

MAKERS = [make_synthetic, make_lorenz63, make_lorenz96]
LORENZ = [make_lorenz63, make_lorenz96]
PROTOCOLS = ["independent", "paper-code"]


def series_of_rows(panel):
    return np.repeat(np.arange(panel.n_series), panel.lengths)


@pytest.mark.parametrize("make", LORENZ)
def test_poisson_counts_and_uniform_times(make):
    panel = make(1000, rate=0.3, random_state=0).panel
    assert_allclose(panel.lengths.mean(), 30.0, atol=0.6)
    assert_allclose(panel.lengths.var(), 30.0, rtol=0.15)
    assert stats.kstest(panel.times / 10.0, "uniform").pvalue > 0.01


def test_rate_of_synthetic_is_per_unit_of_time():
    panel = make_synthetic(2000, rate=2.0, random_state=0).panel
    assert_allclose(panel.lengths.mean(), 20.0, atol=0.4)
    assert panel.times.min() >= 0.0
    assert panel.times.max() <= 10.0


def test_at_least_two_observations_from_the_conditioned_poisson_law():
    lengths = make_synthetic(4000, rate=0.1, random_state=0).panel.lengths
    assert lengths.min() == 2
    expected = (1.0 - np.exp(-1.0)) / stats.poisson.sf(1, 1.0)
    assert_allclose(lengths.mean(), expected, atol=0.05)


def test_rate_near_zero_gives_two_observations():
    assert_array_equal(make_synthetic(10, rate=1e-9, random_state=0).panel.lengths, 2)


@pytest.mark.parametrize("make", LORENZ)
def test_each_channel_at_times_of_its_own(make):
    bunch = make(500, per_channel=True, random_state=0)
    observed = np.isfinite(bunch.panel.values)
    assert_array_equal(observed.sum(axis=1), 1)
    assert_allclose(observed.sum(axis=0) / 500, 30.0, atol=1.0)
    counts = np.add.reduceat(observed, bunch.panel.offsets[:-1], axis=0)
    assert counts.min() >= 2


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("per_channel", [False, True])
def test_observations_without_noise_are_the_truth(make, per_channel):
    bunch = make(50, per_channel=per_channel, random_state=0)
    panel, truth = bunch.panel, bunch.truth
    seen = np.isfinite(panel.values)
    assert_array_equal(panel.values[seen], truth.at_observations[:, truth.observed][seen])


@pytest.mark.parametrize("make", MAKERS)
def test_dense_truth_passes_through_the_observations(make):
    bunch = make(20, random_state=0)
    path = CubicSpline(bunch.truth.times, bunch.truth.values, axis=1)
    series = series_of_rows(bunch.panel)
    interpolated = path(bunch.panel.times)[series, np.arange(len(series))]
    assert_allclose(interpolated, bunch.truth.at_observations, atol=5e-3)


@pytest.mark.parametrize(
    ("make", "time", "threshold"),
    [(make_synthetic, 5.0, 0.5), (make_lorenz63, 6.0, 0.0), (make_lorenz96, 6.0, 0.0)],
)
def test_label_is_the_last_state_at_the_time_of_the_text(make, time, threshold):
    bunch = make(200, random_state=0)
    path = CubicSpline(bunch.truth.times, bunch.truth.values[:, :, -1], axis=1)
    assert_allclose(path(time), bunch.label_value, atol=2e-3)
    assert_array_equal(bunch.y, bunch.label_value > threshold)


def test_synthetic_truth_is_its_formula():
    truth = make_synthetic(20, random_state=0).truth
    # sin a cos 3a = (sin 4a - sin 2a) / 2, whose fourth and second derivatives in t are linear:
    # x'''' + 20 x'' + 64 x = 0, here for the discrete second difference.
    values, step = truth.values[:, :, 0], truth.times[1]
    lag2, lag4 = 2.0 * np.cos(2.0 * step), 2.0 * np.cos(4.0 * step)

    def annihilate(x, lag):
        return x[:, 2:] - lag * x[:, 1:-1] + x[:, :-2]

    assert_allclose(annihilate(annihilate(values, lag2), lag4), 0.0, atol=1e-12)
    assert_allclose((values**2).mean(), 0.25, rtol=0.02)


@pytest.mark.parametrize("make", LORENZ)
def test_states_follow_the_standardised_invariant_measure(make):
    bunch = make(1000, random_state=0)
    states = bunch.truth.values[:, ::20]
    assert_allclose(states.mean(axis=(0, 1)), 0.0, atol=0.08)
    assert_allclose(states.std(axis=(0, 1)), 1.0, atol=0.05)
    # Stationary: the first and the last states follow the same law.
    for state in range(states.shape[2]):
        assert stats.ks_2samp(states[:, 0, state], states[:, -1, state]).pvalue > 1e-3


def test_lorenz63_stays_on_its_attractor():
    truth = make_lorenz63(500, random_state=0).truth
    x, y, z = np.moveaxis(truth.values * paper._LORENZ63.scale + paper._LORENZ63.mean, -1, 0)
    assert np.abs(x).max() < 21.0
    assert np.abs(y).max() < 29.0
    assert z.min() > 0.0
    assert z.max() < 50.0
    # Every bounded orbit ends inside this ellipsoid of Lorenz's.
    assert (28 * x**2 + 10 * y**2 + 10 * (z - 56) ** 2).max() <= 10 * 56**2 * 1.07


def test_lorenz96_stays_in_its_trapping_ball():
    truth = make_lorenz96(500, random_state=0).truth
    states = truth.values * paper._LORENZ96.scale + paper._LORENZ96.mean
    assert (states**2).sum(axis=-1).max() <= 5 * 8.0**2


@pytest.mark.parametrize(
    ("attractor", "divergence"),
    [(paper._LORENZ63, -(10.0 + 1.0 + 8.0 / 3.0)), (paper._LORENZ96, -5.0)],
)
def test_fields_contract_volume_at_their_constant_rate(attractor, divergence):
    state = np.random.default_rng(0).normal(size=(len(attractor.mean), 1)) * 5.0
    params = np.array(attractor.params)[:, None]
    step = 1e-5 * np.eye(len(state))
    difference = attractor.field(state + step, params) - attractor.field(state - step, params)
    assert_allclose(np.trace(difference) / 2e-5, divergence, rtol=1e-8)


def test_advection_of_lorenz96_conserves_energy():
    state = np.random.default_rng(0).normal(size=(5, 7)) * 4.0
    power = (state * paper.lorenz96(state, np.full((1, 7), 8.0))).sum(axis=0)
    assert_allclose(power, (8.0 * state - state**2).sum(axis=0))


@pytest.mark.parametrize("make", LORENZ)
def test_series_share_no_samples(make):
    bunch = make(300, random_state=0)
    states = bunch.truth.values.reshape(-1, bunch.truth.values.shape[2])
    assert len(np.unique(states, axis=0)) == len(states)
    # Independent starts: the sample correlation of two halves of the series vanishes.
    first, second = bunch.truth.values[:150, 0], bunch.truth.values[150:, 0]
    correlation = np.corrcoef(first.T, second.T)[: first.shape[1], first.shape[1] :]
    assert np.abs(correlation).max() < 0.3


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_same_seed_same_data(make, protocol):
    first, again, other = (make(20, protocol=protocol, random_state=seed) for seed in (1, 1, 2))
    assert_array_equal(first.panel.values, again.panel.values)
    assert_array_equal(first.panel.times, again.panel.times)
    assert_array_equal(first.split, again.split)
    assert not np.array_equal(first.label_value, other.label_value)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_noise_changes_the_observations_only(make, protocol):
    clean = make(200, protocol=protocol, random_state=0)
    noisy = make(200, protocol=protocol, noise=0.3, random_state=0)
    assert_array_equal(clean.panel.times, noisy.panel.times)
    assert_array_equal(clean.y, noisy.y)
    assert_array_equal(clean.split, noisy.split)
    assert_array_equal(clean.truth.values, noisy.truth.values)
    assert_array_equal(clean.truth.at_observations, noisy.truth.at_observations)
    error = noisy.panel.values - clean.panel.values
    assert_allclose(error.std(axis=0), 0.3, rtol=0.08)
    assert_allclose(error.mean(axis=0), 0.0, atol=0.03)


@pytest.mark.parametrize("make", MAKERS)
def test_parts_of_the_data(make):
    split = make(1000, random_state=0).split
    assert [np.sum(split == part) for part in ("train", "validation", "test")] == [500, 250, 250]
    assert len(set(split[:20])) == 3


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_shapes_and_names(make, protocol):
    bunch = make(7, protocol=protocol, random_state=0)
    truth, panel = bunch.truth, bunch.panel
    n_times = len(truth.times)
    assert bunch.protocol == protocol
    assert panel.n_series == len(bunch.y) == len(bunch.label_value) == len(bunch.split) == 7
    assert truth.values.shape == (7, n_times, len(truth.channel_names))
    assert truth.heldout.shape == (7, n_times)
    assert truth.at_observations.shape == (panel.n_observations, len(truth.channel_names))
    names = tuple(np.array(truth.channel_names)[truth.observed])
    assert panel.channel_names == names


def test_nothing_of_the_dense_truth_was_observed():
    assert make_lorenz63(5, random_state=0).truth.heldout.all()


@given(
    n_series=st.integers(1, 6),
    n_channels=st.integers(1, 3),
    expected=st.floats(1e-3, 40.0),
    span=st.floats(1e-3, 1e3),
    per_channel=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_are_sorted_inside_the_span_and_at_least_two_a_process(
    n_series, n_channels, expected, span, per_channel, seed
):
    names, rng = tuple("abc"[:n_channels]), np.random.RandomState(seed)
    simulation = Simulation(rng, names, names, n_series, 1.0, "independent", 0.0, per_channel)
    series, times, mask = simulation.poisson_rows(expected, span)
    assert mask.shape == (len(times), n_channels)
    assert (np.diff(series) >= 0).all()
    assert (np.diff(times)[np.diff(series) == 0] > 0).all()
    assert times.min() >= 0.0
    assert times.max() <= span
    offsets = np.searchsorted(series, np.arange(n_series + 1))
    counts = np.add.reduceat(mask, offsets[:-1], axis=0)
    assert counts.min() >= 2
    assert offsets[-1] == len(times)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_series": 0}, "n_series must be an integer of at least 1, got 0"),
        ({"n_series": 2.5}, "n_series must be an integer of at least 1, got 2.5"),
        ({"rate": 0.0}, "rate must be positive and finite, got 0.0"),
        ({"rate": "0.3"}, "rate must be positive and finite, got '0.3'"),
        ({"rate": np.inf}, "rate must be positive and finite, got inf"),
        ({"noise": np.nan}, "noise must be finite and not negative, got nan"),
        ({"noise": -1.0}, "noise must be finite and not negative, got -1.0"),
        ({"protocol": "paper"}, r"protocol must be one of \('independent', 'paper-code'\)"),
    ],
)
@pytest.mark.parametrize("make", MAKERS)
def test_settings_out_of_range(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)
