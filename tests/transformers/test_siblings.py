"""What every neural transformer promises, beyond what all transformers do."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import skpolyode
from skpolyode import Panel
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.transformers.neural import NeuralTransformer
from tests.transformers.data import oscillators
from tests.transformers.registry import all_transformers

NEURAL = {
    name: transformer
    for name, transformer in all_transformers().items()
    if isinstance(transformer, NeuralTransformer)
}
SERIES = oscillators(seed=2)
# Test by test of one model after those of another, so that each is fitted once.
pytestmark = pytest.mark.parametrize("name", NEURAL, scope="module")


@pytest.fixture(scope="module")
def fitted(name):
    """Fitted to series of which some have one observation, or a long gap."""
    few = SERIES[:6]
    long_gap = (few[0][0] + 60.0 * (few[0][0] > 2), few[0][1])
    series = [*few, long_gap, (few[1][0][:1], few[1][1][:1])]
    return clone(NEURAL[name]).set_params(max_epochs=2).fit(series), series


@pytest.mark.usefixtures("no_stacking")
def test_it_learns(name):
    transformer = clone(NEURAL[name]).set_params(max_epochs=15).fit(SERIES)
    errors = [entry["validation_error"] for entry in transformer.history_]
    assert transformer.validation_error_ == min(errors) < 0.8 * errors[0]
    assert transformer.score(oscillators(20, seed=102)) > -0.9 * errors[0]


@pytest.mark.filterwarnings("ignore:times are more than 20 times as far")
def test_stream_is_the_batch(name, fitted):
    """Observation by observation, or many at once from the middle on."""
    transformer, series = fitted
    stream = transformer.stream(len(series))
    resumed = transformer.stream([(t[:2], x[:2]) for t, x in series])
    for k, (times, values) in enumerate(series):
        for t, x in zip(times, values, strict=True):
            stream.update(t, x[None], series=k)
        if len(times) > 2:
            resumed.update(times[2:], values[2:], series=np.full(len(times) - 2, k))
    expected = transformer.transform(series)
    ahead = [67.0, 1e7]
    for own in (stream, resumed):
        np.testing.assert_allclose(own.embedding(), expected, atol=1e-9)
        forecasts = own.forecast(ahead).values
        np.testing.assert_allclose(forecasts, transformer.forecast(series, ahead).values, atol=1e-9)


def test_stream_comes_back_from_a_file(name, fitted, tmp_path):
    stream = fitted[0].stream(SERIES[:6])
    stream.save(tmp_path / "stream")
    again = skpolyode.load(tmp_path / "stream")
    assert np.array_equal(again.embedding(), stream.embedding())
    assert np.array_equal(again.forecast([9.0]).values, stream.forecast([9.0]).values)


@pytest.mark.filterwarnings("ignore:times are more than 20 times as far")
def test_a_forecast_starts_from_the_state_and_does_not_depend_on_others(name, fitted):
    transformer, series = fitted
    end = [[times[-1]] for times, _ in series]
    now = transformer.forecast(series, end).values
    assert np.isfinite(now).all()
    soon = transformer.forecast(series, [[t[0] + 1e-9] for t in end]).values
    np.testing.assert_allclose(soon, now, atol=1e-6)
    alone = transformer.forecast(series, [507.0]).values
    among = transformer.forecast(series, [505.0, 507.0, 1e9]).values
    assert np.isfinite(among).all()
    np.testing.assert_allclose(among[1::3], alone, atol=1e-9)


def test_futures_are_sampled_around_the_forecast(name, fitted):
    transformer, series = fitted
    paths = transformer.sample_paths(series, [1.0, 4.0], "end", n_samples=50, random_state=0)
    forecast = transformer.forecast(series, [1.0, 4.0], "end").values
    np.testing.assert_allclose(paths.forecast.values, forecast, atol=1e-9)
    assert (paths.samples.std(axis=1) > 0).all()
    table = transformer.crossing_times(series, 2.0, 4.0, "end", channel=0)
    assert table["probability"].between(0, 1).all()


@pytest.mark.usefixtures("no_stacking")
def test_the_unit_of_time_does_not_matter(name, fitted):
    """Of fit, and of all that follows; a power of two, which rounds nothing."""
    transformer, series = fitted
    slower = [(2.0**20 * times, values) for times, values in series]
    other = clone(transformer).fit(slower)
    assert other.validation_error_ == pytest.approx(transformer.validation_error_, rel=1e-9)
    expected = transformer.transform(series)
    np.testing.assert_allclose(other.transform(slower), expected, atol=1e-9)


@pytest.mark.usefixtures("no_stacking")
def test_generators_of_others_are_left_alone(name):
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    one, other = (clone(NEURAL[name]).fit(SERIES[:6]) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])
    np.testing.assert_array_equal(one.transform(SERIES[:6]), other.transform(SERIES[:6]))
    seeded = clone(NEURAL[name]).set_params(random_state=1).fit(SERIES[:6])
    assert not np.array_equal(seeded.transform(SERIES[:6]), one.transform(SERIES[:6]))


@pytest.mark.usefixtures("no_stacking")
def test_static_covariates_are_used(name):
    """A series that is all in its covariate: its first and only forecast error can fall."""
    sign = np.tile([-1.0, 1.0], 20)
    rng = np.random.default_rng(0)
    panel = Panel.from_series(
        [([0.0, 1.0], [rng.normal(), s]) for s in sign], static=pd.DataFrame({"sign": sign})
    )
    plain = Panel.from_series([(s.times, s.values) for s in panel])
    with_it, without = (
        clone(NEURAL[name]).set_params(max_epochs=n, validation_fraction=None) for n in (15, 3)
    )
    with warnings.catch_warnings():  # from noise most learn nothing, and say so
        warnings.simplefilter("ignore", ConvergenceWarning)
        without.fit(plain)
    with_it.fit(panel)
    assert with_it.validation_error_ < 0.5 * without.validation_error_


def test_it_serves_the_forecaster(name):
    forecaster = PolyODEForecaster(clone(NEURAL[name]), random_state=0)
    panel = Panel.from_series(SERIES[:6])
    found = forecaster.pretrain(panel).forecast(panel, [4.5, 6.0])
    assert type(forecaster.transformer_) is type(NEURAL[name])
    assert np.isfinite(found.values).all()
