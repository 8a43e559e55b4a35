"""Intervals and samples of channels that have a limit, such as counts and rain."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode import Panel, PolyODETransformer
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.panel.outliers import CellLimits

AHEAD = [0.5, 1.0, 4.0, 8.0]
DRAWN = {"n_samples": 200, "random_state": 0}


def wet(n_series: int, seed: int) -> Panel:
    """Rain, mostly none; the same, negative; and what takes both signs."""
    rng, t = np.random.default_rng(seed), np.arange(24.0)
    series = []
    for _ in range(n_series):
        rain = rng.gamma(0.7, 4.0, 24) * (rng.random(24) < 0.2)
        series.append((t, np.column_stack([rain, -rain, rng.standard_normal(24)])))
    return Panel.from_series(series, channel_names=["rain", "loss", "other"])


@pytest.fixture(scope="module")
def transformer() -> PolyODETransformer:
    return PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0).fit(wet(16, seed=0))


@pytest.fixture(scope="module")
def forecaster() -> PolyODEForecaster:
    small = PolyODETransformer(n_coefficients=4, max_epochs=1, observations="exact")
    return PolyODEForecaster(small, random_state=0).pretrain(wet(16, seed=0))


@pytest.fixture
def others() -> Panel:
    """Three series, of which the last has left the limits of fit."""
    series = [(t, x.copy()) for t, x in wet(3, seed=1)]
    series[2][1][5, :2] = -1.0, 1.0
    return Panel.from_series(series, channel_names=["rain", "loss", "other"])


def test_zero_is_a_limit_of_what_was_never_past_it():
    """A channel of zeros has none, nor one that was seen too seldom; a code does not count."""
    rng = np.random.default_rng(0)
    x = np.abs(rng.standard_normal((40, 6)))
    x[:, 1] *= -1
    x[7, 2] = -0.1
    x[:, 3] = 0.0
    x[9:, 4] = np.nan
    x[3, 5] = -99999.0
    limits = CellLimits.of(Panel.from_series([(np.arange(10.0), own) for own in np.split(x, 4)]))
    np.testing.assert_array_equal(limits.floor, [0, -np.inf, -np.inf, -np.inf, -np.inf, 0])
    np.testing.assert_array_equal(limits.ceiling, [np.inf, 0, np.inf, np.inf, np.inf, np.inf])


@pytest.mark.parametrize("kind", ["transformer", "forecaster"])
def test_samples_end_there(kind, others, request):
    paths = request.getfixturevalue(kind).sample_paths(others, AHEAD, "end", **DRAWN)
    rain, loss, other = np.moveaxis(paths.values, -1, 0)
    assert rain[:2].min() == 0 == loss[:2].max()
    assert (rain[:2] == 0).any(axis=(1, 2)).all()
    assert rain[2].min() < 0 < loss[2].max()
    assert (other.min(axis=(1, 2)) < 0).all()
    assert (paths.extremes("below", "rain")[:2] >= 0).all()
    assert (paths.quantiles([0.01])[0.01].values[:8, 0] >= 0).all()


def test_intervals_end_there_and_hold_as_much(forecaster, others):
    """Ends are those that they would be without a limit, or the limit."""
    asked = others, AHEAD, 0.9, "end"
    lower, upper = (x.values.reshape(3, 4, 3) for x in forecaster.forecast_interval(*asked))
    assert lower[:2, :, 0].min() == 0 == upper[:2, :, 1].max()
    assert lower[2, :, 0].min() < 0 < upper[2, :, 1].max()
    between = forecaster.interpolate_interval(others, [0.5, 7.5], 0.9)
    assert between[0].values.reshape(3, 2, 3)[:2, :, 0].min() == 0
    free = CellLimits.of(wet(16, seed=0))
    free = free._replace(floor=free.floor - np.inf, ceiling=free.ceiling + np.inf)
    model = forecaster.transformer_.embedder_
    scaler = model.units.scaler._replace(limits=free)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(vars(model), "units", model.units._replace(scaler=scaler))
        wide = [x.values.reshape(3, 4, 3) for x in forecaster.forecast_interval(*asked)]
    assert wide[0][:2, :, 0].min() < 0
    np.testing.assert_array_equal(lower[:2, :, 0], np.maximum(wide[0][:2, :, 0], 0))
    np.testing.assert_array_equal(upper[:2, :, 0], np.maximum(wide[1][:2, :, 0], 0))


def test_nothing_crosses_a_line_past_it(transformer, others):
    for channel, line, direction in (("rain", -0.01, "below"), ("loss", 0.01, "above")):
        asked = {"relative_to": "end", "channel": channel, "direction": direction}
        said = transformer.crossing_times(others, line, 8.0, **asked)["probability"]
        assert (said[:2] == 0).all()
        assert said[2] > 0


def test_streams_have_the_same(transformer, others):
    stream = transformer.stream(3)
    for k, (times, values) in enumerate(others):
        for time, row in zip(times, values, strict=True):
            stream.update(time, row, k)
    expected = transformer.sample_paths(others, AHEAD, "end", **DRAWN)
    for own in (stream, transformer.stream(others)):
        found = own.sample_paths(AHEAD, relative_to="end", **DRAWN)
        np.testing.assert_allclose(found.samples, expected.samples, atol=1e-12)
