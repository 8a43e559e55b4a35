from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from skpolyode import HiPPOTransformer, Panel, PolyODETransformer
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.plotting import ForecastDisplay
from tests.closeness import assert_same_but_for_rounding
from tests.transformers.data import oscillators, small, wave


@pytest.fixture(scope="module")
def transformer() -> PolyODETransformer:
    return small().fit(oscillators())


@pytest.fixture(scope="module")
def forecaster() -> PolyODEForecaster:
    embedder = PolyODETransformer(n_coefficients=4, hidden_layer_sizes=(8,), max_epochs=2)
    model = PolyODEForecaster(embedder, random_state=0)
    return model.pretrain(Panel.from_series(oscillators(24)))


def draw(*args: Any, **options: Any) -> ForecastDisplay:
    display = ForecastDisplay.from_estimator(*args, **options)
    display.figure_.canvas.draw()
    return display


def ends(band: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, lower and upper end of a band, read back from the polygon that was drawn."""
    outline = band.get_paths()[0].vertices
    times = np.unique(outline[:, 0])
    heights = [outline[outline[:, 0] == t, 1] for t in times]
    return times, np.array([h.min() for h in heights]), np.array([h.max() for h in heights])


def test_line_is_the_forecast_of_the_transformer(transformer: PolyODETransformer) -> None:
    X = oscillators()
    display = draw(transformer, X, series=3, grid_resolution=50)
    times, values = X[3]
    drawn = display.lines_[1].get_xdata()[1:]
    np.testing.assert_array_equal(drawn, display.times)
    assert len(drawn) == 50
    assert (drawn > times[-1]).all()
    assert drawn[-1] == pytest.approx(times[-1] + np.ptp(times) / 3)
    expected = transformer.forecast([X[3]], drawn).values
    assert_same_but_for_rounding(display.lines_[1].get_ydata()[1:], expected[:, 1])
    np.testing.assert_array_equal(display.observed_lines_[1].get_ydata(), values[:, 1])
    low, high = transformer.forecast_interval([X[3]], drawn)
    _, *band = ends(display.bands_[0.9][1])
    for found, end in zip(band, (low, high), strict=True):
        assert_same_but_for_rounding(found[1:], end.values[:, 1])
    assert (display.future_lines_, display.truth_lines_) == ([], [])


def test_curves_start_at_the_last_observation_of_their_channel(
    forecaster: PolyODEForecaster,
) -> None:
    X = oscillators(24)
    times, values = X[5]
    values = values.copy()
    values[-1], values[-3:, 1] = [0.7, np.nan], np.nan  # the second channel was last seen earlier
    display = draw(forecaster, [(times, values)])
    for j in (0, 1):
        last = np.flatnonzero(~np.isnan(values[:, j]))[-1]
        x, y = display.lines_[j].get_data()
        assert (x[0], y[0]) == (times[last], values[last, j])
        started, lower, upper = ends(display.bands_[0.9][j])
        assert (started[0], lower[0], upper[0]) == (times[last], values[last, j], values[last, j])
    values[:, 1] = np.nan  # never seen
    never = draw(forecaster, [(times, values)]).lines_
    assert [len(line.get_xdata()) for line in never] == [201, 200]


def test_a_curve_goes_through_the_forecasts_at_the_times_asked(
    forecaster: PolyODEForecaster,
) -> None:
    X = oscillators(24)
    asked, end = [6.0, 4.5], X[5][0][-1]
    display = draw(forecaster, X, asked, series=5)
    grid = np.linspace(end, 6.0, 201)[1:]
    np.testing.assert_array_equal(display.times, np.union1d(grid, asked))
    x, y = display.lines_[0].get_data()
    expected = forecaster.forecast([X[5]], asked).values[:, 0]
    assert_same_but_for_rounding(y[np.searchsorted(x, asked)], expected)


def test_times_may_count_from_the_end(forecaster: PolyODEForecaster) -> None:
    X = oscillators(24)
    end = draw(forecaster, X, [1.5], series=5, relative_to="end")
    np.testing.assert_allclose(end.times, draw(forecaster, X, [X[5][0][-1] + 1.5], series=5).times)


def test_bands_are_the_quantiles_of_the_forecaster(forecaster: PolyODEForecaster) -> None:
    X = oscillators(24)
    display = draw(forecaster, X, [6.0], series=5, coverage=[0.5, 0.8], grid_resolution=3)
    expected = forecaster.forecast_quantiles([X[5]], display.times, [0.1, 0.25, 0.75, 0.9])
    assert list(display.bands_) == [0.8, 0.5]
    assert display.bands_[0.8][0].get_alpha() < display.bands_[0.5][0].get_alpha()
    for level, low, high in ((0.8, 0.1, 0.9), (0.5, 0.25, 0.75)):
        for channel in (0, 1):
            times, lower, upper = ends(display.bands_[level][channel])
            np.testing.assert_array_equal(times[1:], display.times)
            key = min(expected, key=lambda a, low=low: abs(a - low))
            np.testing.assert_allclose(lower[1:], expected[key].values[:, channel])
            key = min(expected, key=lambda a, high=high: abs(a - high))
            np.testing.assert_allclose(upper[1:], expected[key].values[:, channel])
    forecast = forecaster.forecast([X[5]], display.times).values
    assert_same_but_for_rounding(display.lines_[0].get_ydata()[1:], forecast[:, 0])
    _, labels = display.axes_[0].get_legend_handles_labels()
    assert labels == ["observed", "forecast", "80 % interval", "50 % interval"]


def test_paths_are_the_futures_that_are_sampled(forecaster: PolyODEForecaster) -> None:
    X = oscillators(24)
    display = draw(forecaster, X, series=5, coverage=[], grid_resolution=4, n_paths=3, channel=[1])
    expected = forecaster.sample_paths([X[5]], display.times, n_samples=3, random_state=0)[0]
    (courses,) = display.paths_
    for drawn, course in zip(courses, expected[..., 1], strict=True):
        np.testing.assert_array_equal(drawn.get_xdata()[1:], display.times)
        assert_same_but_for_rounding(drawn.get_ydata()[1:], course)
        assert drawn.get_ydata()[0] == X[5][1][-1, 1]


def test_no_bands_on_request(forecaster: PolyODEForecaster) -> None:
    assert draw(forecaster, oscillators(24), coverage=[]).bands_ == {}


def test_cutoff_hides_the_rest_from_the_model(transformer: PolyODETransformer) -> None:
    X = oscillators()
    times, values = X[2]
    cutoff = times[0] + 0.6 * np.ptp(times)
    known = times <= cutoff
    for given in (0.6, cutoff):
        display = draw(transformer, X, series=2, cutoff=given)
        np.testing.assert_array_equal(display.observed_lines_[0].get_xdata(), times[known])
        np.testing.assert_array_equal(display.future_lines_[0].get_xdata(), times[~known])
        np.testing.assert_array_equal(display.future_lines_[0].get_ydata(), values[~known, 0])
        drawn = display.lines_[0].get_xdata()[1:]
        assert times[known][-1] < drawn[0] <= drawn[-1] == times[-1]
        expected = transformer.forecast([(times[known], values[known])], drawn).values
        assert_same_but_for_rounding(display.lines_[0].get_ydata()[1:], expected[:, 0])


def test_empty_rows_are_no_observations(transformer: PolyODETransformer) -> None:
    times, values = oscillators()[0]
    late = np.append(times, times[-1] + 5.0), np.vstack([values, [np.nan, np.nan]])
    display, plain = (draw(transformer, [pair]) for pair in (late, (times, values)))
    np.testing.assert_array_equal(display.times, plain.times)
    assert_same_but_for_rounding(display.values, plain.values)


def test_cutoff_at_the_end_leaves_nothing_to_come(transformer: PolyODETransformer) -> None:
    X = oscillators()
    display = draw(transformer, X, cutoff=100.0)
    assert len(display.future_lines_[0].get_xdata()) == 0
    np.testing.assert_array_equal(display.values, draw(transformer, X).values)


def test_truth_and_channel(transformer: PolyODETransformer) -> None:
    at = np.linspace(0, 6, 40)
    X, truth = oscillators(), (at, wave(at, 0.5))
    display = draw(transformer, X, channel="x1", truth=truth)
    np.testing.assert_array_equal(display.truth_lines_[0].get_ydata(), truth[1][:, 1])
    assert [ax.get_ylabel() for ax in display.axes_] == ["x1"]
    assert display.values.shape == (200, 1)


def test_datetimes() -> None:
    series = [
        (pd.Timestamp("2024-05-01") + pd.to_timedelta(times, unit="D").round("s"), values)
        for times, values in oscillators()
    ]
    panel = Panel.from_series(series, time_unit="D")
    embedder = PolyODETransformer(n_coefficients=4, hidden_layer_sizes=(8,), max_epochs=1)
    model = PolyODEForecaster(embedder, random_state=0)
    model.pretrain(panel)
    display = draw(model, panel, cutoff=pd.Timestamp("2024-05-03"), series=1)
    assert isinstance(display.times, pd.DatetimeIndex)
    assert display.observed[0].max() <= pd.Timestamp("2024-05-03") < display.future[0].min()
    asked = pd.DatetimeIndex(["2024-05-06", "2024-05-07 12:00"])
    display = draw(model, panel, asked, series=1)
    assert set(asked) < set(display.times)
    assert display.times[-1] == asked[-1]
    last = panel[[1]].user_times()[-1]
    assert list(display.lines_[0].get_xdata()) == [last, *display.times]
    drawn = display.bands_[0.9][0].get_paths()[0].vertices[:, 0]
    np.testing.assert_array_equal(np.unique(drawn), display.lines_[0].get_xdata(orig=False))


def test_nanoseconds_are_not_rounded_to_before_the_end() -> None:
    last = pd.Timestamp("2026-03-01 00:00:00.000000700")
    times = [last - pd.Timedelta(9, "s"), last - pd.Timedelta(2, "s"), last]
    panel = Panel.from_series([(pd.DatetimeIndex(times), oscillators()[0][1][:3])])
    asked = last + pd.Timedelta(1, "ns")
    model = PolyODETransformer(n_coefficients=4, hidden_layer_sizes=(4,), max_epochs=1).fit(panel)
    display = draw(model, panel, asked, grid_resolution=1)
    assert display.times.tolist() == [asked]


def test_styles_and_given_axes(forecaster: PolyODEForecaster) -> None:
    axes = Figure().subplots(2)
    styles = {"line_kw": {"lw": 4}, "band_kw": {"alpha": 0.5}, "future_kw": {"marker": "s"}}
    display = ForecastDisplay.from_estimator(
        forecaster, oscillators(24), cutoff=0.5, ax=axes, **styles
    )
    assert plt.get_fignums() == []
    assert list(display.axes_) == list(axes)
    assert display.lines_[0].get_linewidth() == 4
    assert display.bands_[0.9][1].get_alpha() == 0.5
    assert display.future_lines_[1].get_marker() == "s"


def test_arrays_are_enough() -> None:
    values = np.array([[1.0, 5.0], [2.0, 6.0]])
    display = ForecastDisplay(
        [2, 3],
        values,
        observed=([0, 1], [[0.0, 4.0], [0.5, np.nan]]),
        intervals={0.5: (values - 1, values + 1), 0.9: (values - 2, values + 2)},
        future=([2.5], [[1.4, 5.5]]),
        channel_names=["a", "b"],
    ).plot()
    assert [ax.get_ylabel() for ax in display.axes_] == ["a", "b"]
    for level, width in ((0.5, 1), (0.9, 2)):
        times, lower, upper = ends(display.bands_[level][1])
        np.testing.assert_array_equal(times, [0, 2, 3])  # the last observation, and the forecast
        np.testing.assert_array_equal(lower, [4, 5 - width, 6 - width])
        np.testing.assert_array_equal(upper, [4, 5 + width, 6 + width])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"series": -13}, "series must be a position from 0 to 11 in X, got -13"),
        ({"channel": "z"}, r"channel must be one of \['x0', 'x1'\], .* got 'z'"),
        ({"channel": []}, r"channel chooses none: pass one or several of \['x0', 'x1'\], or None"),
        ({"cutoff": -1.0}, r"cutoff=-1.0 is before the first observation .* give a later one"),
        ({"coverage": 90}, "coverage must lie between 0 and 1, got 90"),
        ({"times": [-3.0]}, "before its last observation"),
    ],
)
def test_errors_say_what_to_do(
    transformer: PolyODETransformer, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ForecastDisplay.from_estimator(transformer, oscillators(), **options)
    assert plt.get_fignums() == []


def test_error_of_a_cutoff_names_it(transformer: PolyODETransformer) -> None:
    with pytest.raises(TypeError, match=r"cutoff must be a share or times, got 'soon'"):
        ForecastDisplay.from_estimator(transformer, oscillators(), cutoff="soon")


def test_one_observation_has_no_duration_to_go_on_for(transformer: PolyODETransformer) -> None:
    X = [(np.array([1.0]), np.array([[0.5, 0.5]]))]
    with pytest.raises(ValueError, match=r"has one observation .* pass the times to forecast"):
        ForecastDisplay.from_estimator(transformer, X)
    assert draw(transformer, X, [1.5, 2.0], grid_resolution=2).values.shape == (2, 2)


def test_estimators_that_cannot_forecast_are_refused() -> None:
    X = oscillators()
    with pytest.raises(TypeError, match="a method forecast, which HiPPOTransformer does not"):
        ForecastDisplay.from_estimator(HiPPOTransformer().fit(X), X)
