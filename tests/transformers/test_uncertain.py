"""How far off paths may be, of observations that are taken at their word."""

from __future__ import annotations

import numpy as np
import pytest

import skpolyode
from skpolyode import Panel
from skpolyode.siblings import GRUODEBayesTransformer
from tests.transformers.data import short_oscillators, small

SERIES = short_oscillators(8)  # two channels, observed apart


@pytest.fixture(scope="module")
def fitted():
    return small().fit(SERIES)


@pytest.fixture(scope="module")
def panel():
    return Panel.from_series(SERIES)


def test_it_vanishes_where_a_channel_was_observed_and_nowhere_else(fitted, panel):
    own = fitted.interpolate_std(panel).values
    known = np.isfinite(panel.values)
    np.testing.assert_array_equal(own[known], 0.0)
    assert (own[~known] > 0).all()
    ends = np.array([t[-1] for t, _ in SERIES])
    ahead = fitted.interpolate_std(panel, np.array([0.1, 1.0, 3.0]), relative_to="end").values
    assert (np.diff(ahead.reshape(len(ends), 3, 2), axis=1) >= 0).all()
    early = fitted.interpolate_std(panel, np.array([-2.0, -1.0]), relative_to="start").values
    assert (early.reshape(len(ends), 2, 2)[:, 0] >= early.reshape(len(ends), 2, 2)[:, 1]).all()


def test_every_trained_model_has_one():
    model = GRUODEBayesTransformer(max_epochs=1, random_state=0).fit(SERIES)
    std = model.interpolate_std(SERIES, [1.0, 2.05]).values
    assert np.isfinite(std).all()
    assert (std >= 0).all()
    assert std.any()


def test_series_do_not_depend_on_their_company(fitted):
    times = np.linspace(0.3, 2.5, 7)
    whole = fitted.interpolate_std(SERIES, times).values.reshape(len(SERIES), 7, 2)
    for k in (0, 5):
        alone = fitted.interpolate_std(SERIES[k : k + 1], times).values
        np.testing.assert_allclose(alone, whole[k], rtol=1e-6)


def test_units_do_not_matter(fitted):
    scale, shift = np.array([7.0, 0.25]), np.array([-3.0, 40.0])
    moved = [(60 * t, x * scale + shift) for t, x in SERIES]
    other, times = small().fit(moved), np.array([-1.5, -0.7, -0.2])
    here = fitted.interpolate_std(SERIES, times, relative_to="end").values
    there = other.interpolate_std(moved, 60 * times, relative_to="end").values
    np.testing.assert_allclose(there, here * scale, rtol=0.05, atol=1e-3 * scale.min())


def test_it_is_saved(fitted, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    again = skpolyode.load(tmp_path / "model.safetensors")
    std = fitted.interpolate_std(SERIES, [0.7, 2.5, 9.0]).values
    np.testing.assert_array_equal(again.interpolate_std(SERIES, [0.7, 2.5, 9.0]).values, std)


@pytest.mark.parametrize("observations", ["exact", "noisy"])
def test_a_stream_knows_how_far_off_its_forecasts_may_be(observations):
    """As the transformer does, also of a channel that was never observed."""
    fitted = small(observations=observations).fit(SERIES)
    series = [*SERIES[:3], (SERIES[3][0], np.where([True, False], SERIES[3][1], np.nan))]
    stream, ahead = fitted.stream(4), np.array([0.0, 0.4, 2.0])
    for k, (times, values) in enumerate(series):
        stream.update(times, values, k)
    found = stream.forecast_std(ahead, relative_to="end").values
    wanted = fitted.interpolate_std(series, ahead, relative_to="end").values
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    forecast = stream.forecast(ahead, relative_to="end").values
    path = fitted.interpolate(series, ahead, relative_to="end").values
    np.testing.assert_allclose(forecast[1:3], path[1:3], rtol=1e-6)  # what it is the deviation of
    one = stream.forecast_std(ahead, series=2, relative_to="end").values
    np.testing.assert_allclose(one, found[6:9], rtol=1e-5)
    with pytest.raises(ValueError, match="before its last observation"):
        stream.forecast_std([-1.0], relative_to="end")


def test_wild_values_and_gaps_do_not_break_it(fitted):
    """A reading of 1e90, three rows from 1e-9 to 1e12 apart, times far before and after."""
    t, x = SERIES[0][0], np.nan_to_num(SERIES[0][1])
    x[5] = 1e90
    wild = [(t, x), (np.array([0.0, 1e-9, 1e12]), x[:3])]
    with pytest.warns(UserWarning, match="far from all others"):
        std = fitted.interpolate_std(wild, [-1e9, 2.0, 0.5e12, 2e12]).values
    assert np.isfinite(std).all()
    assert (std > 0).all()
