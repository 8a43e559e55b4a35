"""Intervals and samples of channels that have a limit, such as counts and rain."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode import Panel, PanelImputer, PolyODETransformer
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.panel.units import CellLimits

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


NAMED = {"rain": (None, None), "loss": (-6.0, None), "other": (-1.0, 1.5)}


@pytest.fixture(scope="module")
def named() -> PolyODEForecaster:
    """Of the same series, with limits of their channels that are not what these would tell."""
    small = PolyODETransformer(n_coefficients=4, max_epochs=1, observations="exact")
    forecaster = PolyODEForecaster(small, random_state=0)
    return forecaster.pretrain(inside(wet(16, seed=0)).with_limits(NAMED))


@pytest.fixture(scope="module")
def told() -> PolyODETransformer:
    panel = inside(wet(8, seed=0)).with_limits(NAMED)
    return PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0).fit(panel)


def inside(panel: Panel) -> Panel:
    """With what it has of the two channels inside of these limits."""
    values = np.clip(panel.values, [-np.inf, -6.0, -1.0], [np.inf, np.inf, 1.5])
    return panel.like(panel.times, values, panel.offsets)


def test_limits_that_are_named_take_the_place_of_zero(named, others):
    """In intervals of forecasts and between rows, samples, extremes, crossings and streams."""
    asked = inside(others[:2])
    limits = named.transformer_.scaler_.limits
    np.testing.assert_array_equal(limits.floor, [-np.inf, -6.0, -1.0])
    np.testing.assert_array_equal(limits.ceiling, [np.inf, np.inf, 1.5])
    paths = named.sample_paths(asked, AHEAD, "end", **DRAWN)
    rain, loss, other = np.moveaxis(paths.values, -1, 0)
    assert rain.min() < 0
    assert loss.min() == -6.0
    assert loss.max() > 0
    assert (other.min(), other.max()) == (-1.0, 1.5)
    assert paths.extremes("below", "other").min() == -1.0
    for ends in (
        named.forecast_interval(asked, AHEAD, 0.98, "end"),
        named.interpolate_interval(asked, [0.5, 7.5], 0.98),
    ):
        lower, upper = (x.values for x in ends)
        assert lower[:, 0].min() < 0
        assert (lower[:, 2].min(), upper[:, 2].max()) == (-1.0, 1.5)
        assert (lower <= upper).all()
    options = {"relative_to": "end", "channel": "other"}
    said = named.crossing_times(asked, 1.51, 8.0, **options)["probability"]
    assert (said == 0).all()
    assert (named.crossing_times(asked, 1.49, 8.0, **options)["probability"] > 0).all()


def test_streams_have_limits_that_are_named(told):
    part = inside(wet(2, seed=1))
    expected = told.sample_paths(part, AHEAD, "end", **DRAWN)
    found = told.stream(part).sample_paths(AHEAD, relative_to="end", **DRAWN)
    np.testing.assert_allclose(found.samples, expected.samples, atol=1e-12)
    assert found.samples[..., 2].max() == 1.5


def test_limits_follow_their_channels():
    panel = wet(3, seed=0).with_limits({"rain": (0, 40), "other": (None, 9)})
    both = panel.with_limits({"rain": (-1, None)}).select_channels(["other", "loss", "rain"])
    for own in (both, both[[2, 0]].since_start(), Panel.concat([both, both])):
        limits = CellLimits.of(own)
        np.testing.assert_array_equal(limits.floor, [-np.inf, -np.inf, -1.0])
        np.testing.assert_array_equal(limits.ceiling, [9.0, 0.0, np.inf])
    assert not panel.equals(wet(3, seed=0))
    assert panel.equals(wet(3, seed=0).with_limits({"other": (None, 9), "rain": (0, 40)}))


@pytest.mark.parametrize("given", [(1, 1), (2, 1), (np.nan, 1), 3.0, (0, 1, 2), "ab", None])
def test_ends_that_are_none_are_named(given):
    with pytest.raises(ValueError, match="limits of channel 'rain' must be its least and its"):
        wet(1, seed=0).with_limits({"rain": given})
    with pytest.raises(ValueError, match=r"no channel 'snow'; the panel has \['rain', 'loss'"):
        wet(1, seed=0).with_limits({"snow": (0, None)})


def test_imputed_intervals_end_there(others):
    """Of tables too, and of series without any row, whose ends are NaN."""
    panel = wet(16, seed=0)
    imputer = PanelImputer(PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0))
    imputer.fit(panel).transformer_.learn_std(panel)
    values = others.values.copy()
    values[::3, :] = np.nan
    holed = others.like(others.times, values, others.offsets)
    lower, upper = (x.values.reshape(3, 24, 3) for x in imputer.interval(holed))
    assert lower[:2, :, 0].min() == 0 == upper[:2, :, 1].max()
    assert lower[2, :, 0].min() < 0 < upper[2, :, 1].max()
    assert lower[:2, :, 2].min() < -1.0
    table = imputer.interval(values.reshape(3, 24, 3))
    np.testing.assert_allclose(table, [lower, upper], atol=1e-9)
    nothing = Panel.from_series(
        [([], np.empty((0, 3)))], channel_names=panel.channel_names, empty="keep"
    )
    both = imputer.interval(Panel.concat([holed, nothing]))
    np.testing.assert_allclose(both[0].values, lower.reshape(-1, 3), atol=1e-9)


def test_averages_end_there(transformer, told, others):
    """Of the past, of what is ahead, and an integral at the limit times its length."""
    for window in ((-6.0, 0.0), (-1.0, 8.0)):
        table = transformer.average(others, *window, "end", coverage=0.99)
        rain = table.xs("rain", level="channel")
        assert (rain["lower"].iloc[:2] >= 0).all()
        assert (table.xs("loss", level="channel")["upper"].iloc[:2] <= 0).all()
        assert rain["lower"].iloc[2] < 0
    table = told.integral(inside(others), -0.75, -0.25, "end", coverage=1 - 1e-9)
    table = table.xs("other", level="channel")
    np.testing.assert_allclose([table["lower"].min(), table["upper"].max()], [-0.5, 0.75])


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
