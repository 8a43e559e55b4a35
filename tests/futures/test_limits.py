"""Intervals and samples of channels that have a limit, such as counts and rain."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from skpolyode import (
    InterpolationTransformer,
    Panel,
    PanelImputer,
    PolyODETransformer,
    Resampler,
    load,
)
from skpolyode.forecasting import PolyODEForecaster, evaluate_forecasts
from skpolyode.panel import as_panel
from skpolyode.panel.units import CellLimits
from skpolyode.structural import StructuralForecaster

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
    imputer.fit(panel)
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


def stock(n_series: int, seed: int) -> Panel:
    """What is left of a stock, up to 10, that runs out; and what takes both signs."""
    rng, series = np.random.default_rng(seed), []
    for _ in range(n_series):
        t = np.sort(rng.uniform(0, 20, 24))
        left = np.clip(11 - 0.6 * t + rng.normal(0, 0.5, 24), 0, 10)
        x = np.column_stack([left, rng.standard_normal(24)])
        x[rng.random(x.shape) < 0.3] = np.nan
        series.append((t, x))
    return Panel.from_series(series, channel_names=["left", "other"])


INSIDE = np.linspace(0, 20, 41)


@pytest.fixture(scope="module")
def falling() -> PolyODETransformer:
    panel = stock(16, seed=0).with_limits({"left": (0, 10)})
    return PolyODETransformer(n_coefficients=4, max_epochs=2, random_state=0).fit(panel)


@pytest.fixture(scope="module")
def stocks() -> Panel:
    """Four series, of which the last has left the limits of fit on both sides."""
    series = [(t, x.copy()) for t, x in stock(4, seed=1)]
    series[3][1][[2, 20], 0] = 11.0, -1.0
    return Panel.from_series(series, channel_names=["left", "other"])


def without_limits(answer: Callable[[], np.ndarray]) -> np.ndarray:
    """What `answer` gives without any limit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skpolyode.panel.units.clipped", lambda values, *_: values + 0.0)
        return answer()


def assert_inside(answer: Callable[[], np.ndarray], highest: float = np.inf) -> None:
    """Points of four series are those that they would be without limits, or the limit."""
    found, free = (x.reshape(4, -1, 2).copy() for x in (answer(), without_limits(answer)))
    assert free[:3, :, 0].min() < 0
    free[:3, :, 0] = np.clip(free[:3, :, 0], 0, highest)
    np.testing.assert_array_equal(found, free)


def test_points_end_there(falling, stocks):
    """Forecasts, also of the model alone, and paths; a series that has left them is free."""
    assert_inside(lambda: falling.forecast(stocks, AHEAD, "end").values, 10)
    assert_inside(lambda: falling.forecast(stocks, AHEAD, "end", combine=False).values, 10)
    assert_inside(lambda: falling.interpolate(stocks, INSIDE).values, 10)
    cubic = InterpolationTransformer(kind="cubic").fit(stock(16, seed=0))
    assert_inside(lambda: cubic.interpolate(stocks, INSIDE).values)


def test_the_median_and_the_centre_of_samples_are_the_forecast(falling, stocks):
    found = falling.forecast(stocks, AHEAD, "end").values
    median = falling.forecast_quantiles(stocks, AHEAD, [0.5], "end")[0.5].values
    np.testing.assert_array_equal(median, found)
    centre = falling.sample_paths(stocks, AHEAD, "end", **DRAWN).forecast.values
    np.testing.assert_array_equal(centre, found)
    assert found.reshape(4, -1, 2)[:3, :, 0].min() == 0


@pytest.mark.parametrize("skip", [[], ["stacking"]])
def test_points_of_streams_end_there(skip, stocks, tmp_path):
    """Also without forecasts to combine, and after a value beyond them."""
    small = PolyODETransformer(n_coefficients=4, max_epochs=2, random_state=0)
    model = small.fit_stages(stock(16, seed=0), skip=skip)
    stream = model.stream(4)
    for k, (t, x) in enumerate(stocks):
        stream.update(t, x, [k] * len(t))
    stream.save(tmp_path / "stream.safetensors")
    saved = load(tmp_path / "stream.safetensors")
    expected = model.forecast(stocks, AHEAD, "end").values
    for own in (stream, model.stream(stocks), saved):
        found = own.forecast(AHEAD, relative_to="end").values
        np.testing.assert_allclose(found, expected, atol=1e-9)
        assert found.reshape(4, -1, 2)[:3, :, 0].min() >= 0
    assert found.reshape(4, -1, 2)[3, :, 0].min() < 0


def test_points_of_structural_models_end_there(stocks):
    model = StructuralForecaster(random_state=0).fit(stock(3, seed=0))
    found = model.forecast(stocks, AHEAD, "end").values.reshape(4, -1, 2)
    assert found[:3, :, 0].min() == 0
    assert found[3, :, 0].min() < 0
    assert (model.forecast_std(stocks, AHEAD, "end").values > 0).all()


@pytest.mark.parametrize("refine", [False, True])
def test_filled_cells_lie_in_their_intervals(refine, stocks):
    """And keep limits where a regression corrects the path, in tables as in panels."""
    small = PolyODETransformer(n_coefficients=4, max_epochs=2, random_state=0)
    imputer = PanelImputer(small, refine=refine).fit(stock(16, seed=0))
    lower, upper = (x.values for x in imputer.interval(stocks, 0.5))
    filled = imputer.transform(stocks).values
    assert ((lower <= filled) & (filled <= upper)).all()
    assert_inside(lambda: imputer.transform(stocks).values)
    table = as_panel(stocks).values.reshape(4, 24, 2)
    assert imputer.transform(table)[:3, :, 0].min() >= 0


def test_resampled_series_end_there(stocks):
    small = InterpolationTransformer(kind="cubic")
    resampler = Resampler(small, n_points=60).fit(stock(16, seed=0))
    assert_inside(lambda: resampler.transform(stocks).transpose(0, 2, 1))


@pytest.mark.parametrize("kind", ["falling", "cubic"])
def test_averages_are_of_the_path_that_is_shown(kind, falling, stocks):
    """Their mean, and not the limit of a mean; never minus zero, nor past a limit by rounding."""
    model = falling
    if kind == "cubic":
        model = InterpolationTransformer(kind="cubic").fit(stock(16, seed=0))
    table = model.average(stocks, -0.5, 0.0, "end")
    grid = np.linspace(-0.5, 0.0, 4001)
    path = model.interpolate(stocks, grid, "end").values.reshape(4, -1, 2)
    expected = (path[:, 1:] + path[:, :-1]).mean(axis=1) / 2
    np.testing.assert_allclose(table["value"].to_numpy().reshape(4, 2), expected, atol=0.01)
    left = table.xs("left", level="channel").iloc[:3].to_numpy()
    assert (left >= 0).all()
    assert not np.signbit(left).any()


def test_an_average_at_a_limit_is_zero_without_a_sign():
    """Nor is it outside of its interval, in the past, ahead or in both."""
    rng, t = np.random.default_rng(7), np.arange(24.0)
    rain = rng.gamma(1.0, 3.0, (6, 24)) * (rng.random((6, 24)) < 0.5)
    model = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0)
    model.fit(Panel.from_series([(t, np.column_stack([x, x - 2])) for x in rain]))
    dry = [(t, np.column_stack([np.zeros(24), np.ones(24)]))]
    for window in ((-3.0, 0.0), (-3.3, -0.4), (-1.0, 4.0), (0.0, 3.0)):
        for ask in (model.average, model.integral):
            value, lower, upper = ask(dry, *window, "end").to_numpy()[0]
            assert 0 <= lower <= value <= upper
            assert not np.signbit(value)


def test_a_path_that_is_held_at_a_limit_has_no_slope(stocks):
    model = InterpolationTransformer(kind="cubic").fit(stock(16, seed=0))
    times = np.linspace(5.0, 19.0, 700)
    inside = times[(times > stocks.start.max()) & (times < stocks.end.min())]
    path = model.embedder_.path_values(stocks, np.tile(inside, 4), np.arange(5) * len(inside))
    held = path[:, 0] < 0
    held[-len(inside) :] = False  # the series that has left its limits
    expected = without_limits(lambda: model.derivative(stocks, inside).values).copy()
    assert held.any()
    assert (expected[held, 0] != 0).all()
    expected[held, 0] = 0.0
    np.testing.assert_array_equal(model.derivative(stocks, inside).values, expected)


def test_a_forecast_has_one_score(falling, stocks):
    """Whatever other metrics are asked for, of trained models and of others."""
    small = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0)
    forecaster = PolyODEForecaster(small, random_state=0).pretrain(stock(8, seed=0))
    for model in (falling, small, forecaster):
        alone = evaluate_forecasts(model, stocks, cutoff=0.6, metrics=["mse"])
        beside = evaluate_forecasts(model, stocks, cutoff=0.6, metrics=["coverage", "mse"])
        beside = beside[beside["metric"] == "mse"].reset_index(drop=True)
        assert alone.equals(beside)
        for share in (np.float64(0.6), np.array(0.6)):
            assert evaluate_forecasts(model, stocks, cutoff=share, metrics=["mse"]).equals(alone)


def test_a_second_fit_finds_its_own(falling, stocks):
    signed = stocks.like(stocks.times, stocks.values - 5.0, stocks.offsets)
    for model in (
        InterpolationTransformer().fit(stock(16, seed=0).with_limits({"left": (0, 10)})),
        StructuralForecaster(random_state=0).fit(stock(3, seed=0)),
        PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0).fit(stock(6, seed=0)),
    ):
        assert model.limits_.floor[0] == 0
        limits = model.fit(signed).limits_
        np.testing.assert_array_equal([limits.floor[0], limits.ceiling[0]], [-np.inf, np.inf])


def test_panels_together_have_the_limits_of_all():
    plain, named = wet(2, seed=0), wet(2, seed=0).with_limits({"rain": (0, 40)})
    other = wet(2, seed=0).with_limits({"other": (None, 9)})
    for join in (Panel.concat, as_panel):
        for panels in ([plain, named], [named, plain]):
            assert join(panels).rows.limits == {"rain": (0.0, 40.0)}
        assert join([other, named]).rows.limits == {"rain": (0, 40), "other": (-np.inf, 9)}
        with pytest.raises(ValueError, match=r"same limits of 'rain': \(0.0, 40.0\) or \(0.0, 9"):
            join([plain, named, wet(2, seed=1).with_limits({"rain": (0, 9)})])
    unnamed = Panel.from_series([(np.arange(3.0), np.ones((3, 3)))]).with_limits({"x1": (0, 5)})
    assert Panel.concat([unnamed, plain]).rows.limits == {"loss": (0.0, 5.0)}


def test_series_may_have_no_times(falling, forecaster, stocks, others):
    """A list that is empty gives no rows, and those of the others are what they are alone."""
    model, asked = falling, [[], AHEAD, [2.0], []]
    stream, one = model.stream(stocks), stocks[1:3]
    for answer, alone in (
        (model.forecast(stocks, asked, "end"), model.forecast(one, asked[1:3], "end")),
        (model.interpolate(stocks, asked), model.interpolate(one, asked[1:3])),
        (stream.forecast(asked, relative_to="end"), model.forecast(one, asked[1:3], "end")),
        *zip(
            model.forecast_interval(stocks, asked, 0.9, "end"),
            model.forecast_interval(one, asked[1:3], 0.9, "end"),
            strict=True,
        ),
        (
            forecaster.forecast(others, [[], AHEAD, []], "end"),
            forecaster.forecast(others[1:2], AHEAD, "end"),
        ),
        (forecaster.interpolate(others, [[], [3.5], []]), forecaster.interpolate(others[1:2], 3.5)),
    ):
        np.testing.assert_allclose(answer.values, alone.values, atol=1e-9)
        assert answer.n_series == len(stocks) or answer.n_series == len(others)
        assert (answer.lengths[[0, -1]] == 0).all()
    paths = [
        model.sample_paths(stocks, asked, "end", **DRAWN),
        stream.sample_paths(asked, relative_to="end", **DRAWN),
    ]
    alone = model.sample_paths(one, asked[1:3], "end", **DRAWN)
    for found in paths:
        for ask in (
            lambda x: x.mean("left"),
            lambda x: x.integral("left"),
            lambda x: x.extremes("below", "left"),
            lambda x: x.time_beyond(1.0, "above", "left"),
        ):
            np.testing.assert_allclose(ask(found)[1:3], ask(alone), atol=1e-9)
            assert np.isnan(ask(found)[[0, 3]]).all()
        total = found.total([[], [1.0], [0.0], []], "left", "start")
        assert (total[[0, 3]] == 0).all()


def test_forecasts_say_that_times_are_missing(falling, forecaster, stocks, others):
    stream, structural = falling.stream(stocks), StructuralForecaster(random_state=0)
    structural.fit(stock(2, seed=0))
    for ask in (
        lambda: falling.forecast(stocks),
        lambda: falling.forecast_interval(stocks),
        lambda: falling.sample_paths(stocks),
        lambda: forecaster.forecast(others),
        lambda: structural.forecast(stocks),
        stream.forecast,
        stream.sample_paths,
    ):
        with pytest.raises(TypeError, match=r"times are missing: give some, such as \[1, 2\]"):
            ask()
    with pytest.raises(TypeError, match="start: times must be numbers or datetimes, got"):
        falling.average(stocks, True, 10.0)
