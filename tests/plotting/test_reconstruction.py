from __future__ import annotations

from typing import Any

import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from skpolyode import HiPPOTransformer, Panel, SummaryStatsTransformer
from skpolyode.datasets import make_lorenz63
from skpolyode.plotting import ReconstructionDisplay
from tests.closeness import assert_same_but_for_rounding
from tests.transformers.data import oscillators, small, wave
from tests.transformers.registry import all_transformers

TRANSFORMERS = {
    name: transformer
    for name, transformer in all_transformers().items()
    if hasattr(transformer, "reconstruct")
}


def draw(*args: Any, **options: Any) -> ReconstructionDisplay:
    display = ReconstructionDisplay.from_estimator(*args, **options)
    display.figure_.canvas.draw()  # where matplotlib would complain
    return display


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_lines_are_what_the_estimator_reconstructs(name: str) -> None:
    X = oscillators()
    estimator = TRANSFORMERS[name].fit(X)
    display = draw(estimator, X, series=2)
    times = display.lines_[0].get_xdata()
    assert len(times) == 200
    assert times[-1] == X[2][0][-1]
    assert times[0] >= X[2][0][0]
    expected = estimator.reconstruct([X[2]], times).values
    drawn = np.stack([line.get_ydata() for line in display.lines_], axis=1)
    assert_same_but_for_rounding(drawn, expected)
    for line, column in zip(display.observed_lines_, X[2][1].T, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), X[2][0])
        np.testing.assert_array_equal(line.get_ydata(), column)
    assert display.truth_lines_ == []


def test_line_covers_the_window_and_no_more() -> None:
    X = oscillators(length=8.0)
    short = draw(HiPPOTransformer(window=2.0).fit(X), X, series=1)
    assert np.ptp(short.times) == pytest.approx(2.0)
    whole = draw(HiPPOTransformer(window=2.0, measure="legs").fit(X), X, series=1)
    assert np.ptp(whole.times) == np.ptp(X[1][0])


@pytest.mark.parametrize("start", [0.0, 1.7e9, -3e12])
def test_rounding_of_large_times_does_not_leave_the_window(start: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        times = start + np.sort(rng.uniform(0, 100, 30)).round(2)
        X = [(np.unique(times), np.unique(times) - start)]
        draw_nothing = HiPPOTransformer(window=float(rng.uniform(1, 50))).fit(X)
        figure = Figure().add_subplot()
        display = ReconstructionDisplay.from_estimator(draw_nothing, X, ax=figure)
        ages = X[0][0][-1] - display.times
        assert abs(ages[-1]) <= np.spacing(abs(start))
        assert ages[0] == pytest.approx(min(draw_nothing.window_, np.ptp(X[0][0])), abs=1e-3)
        assert np.isfinite(display.lines_[0].get_ydata()).all()


@pytest.mark.parametrize("window", ["10h", "30min"])
def test_nanoseconds_are_not_rounded_past_the_end(window: str) -> None:
    rng = np.random.default_rng(0)
    start, gaps = np.datetime64("2026-03-01", "ns"), rng.integers(1, 10**12, (12, 15))
    panel = Panel.from_series(
        [(start + np.cumsum(own).astype("m8[ns]"), np.arange(15.0)) for own in gaps],
        time_unit="min",
    )
    estimator = HiPPOTransformer(window=window).fit(panel)
    for k in range(12):
        times = panel[[k]].user_times()
        display = ReconstructionDisplay.from_estimator(estimator, panel, series=k)
        assert abs(display.times[-1] - times[-1]) < pd.Timedelta("1us")
        first = max(times[0], times[-1] - pd.Timedelta(window))
        assert abs(display.times[0] - first) < pd.Timedelta("2us")
        plt.close(display.figure_)


def test_channels_are_chosen_by_name_and_position() -> None:
    data = make_lorenz63(4, random_state=0)
    estimator = HiPPOTransformer(window=5.0).fit(data.panel)
    both = draw(estimator, data.panel)
    assert [ax.get_ylabel() for ax in both.axes_] == ["x", "y"]
    for channel in ("y", 1, np.int64(1), ["y"]):
        one = draw(estimator, data.panel, channel=channel)
        assert [ax.get_ylabel() for ax in one.axes_] == ["y"]
        assert_same_but_for_rounding(one.lines_[0].get_ydata(), both.lines_[1].get_ydata())
        np.testing.assert_array_equal(
            one.observed_lines_[0].get_ydata(), both.observed_lines_[1].get_ydata()
        )
    swapped = draw(estimator, data.panel, channel=["y", 0])
    assert [ax.get_ylabel() for ax in swapped.axes_] == ["y", "x"]
    assert_same_but_for_rounding(swapped.lines_[1].get_ydata(), both.lines_[0].get_ydata())


def test_truth_is_drawn_on_the_axes_of_its_channel() -> None:
    X, at = oscillators(), np.linspace(0, 4, 50)
    estimator = HiPPOTransformer().fit(X)
    display = draw(estimator, X, truth=(at, wave(at, 1.0)), channel=1)
    np.testing.assert_array_equal(display.truth_lines_[0].get_xdata(), at)
    np.testing.assert_array_equal(display.truth_lines_[0].get_ydata(), wave(at, 1.0)[:, 1])
    _, labels = display.axes_[0].get_legend_handles_labels()
    assert labels == ["truth", "reconstruction", "observed"]


@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_datetimes_are_shown_in_their_own_zone(zone: str | None) -> None:
    times = pd.DatetimeIndex(["2024-03-01 20:00", "2024-03-02 01:30", "2024-03-03"], tz=zone)
    panel = Panel.from_series([(times, [1.0, 2.0, 0.0])], time_unit="h")
    estimator = HiPPOTransformer(n_coefficients=6, window=10.0).fit(panel)
    truth = times[:2], np.array([1.0, 2.0])
    display = draw(estimator, panel, truth=truth)
    assert isinstance(display.times, pd.DatetimeIndex)
    assert display.times[-1] == times[-1]
    assert (display.times[-1] - display.times[0]).round("ms") == pd.Timedelta(10, "h")
    again = estimator.reconstruct(panel, display.times).values
    np.testing.assert_allclose(again, display.values, atol=1e-9)
    drawn = display.observed_lines_[0].get_xdata(orig=False)
    np.testing.assert_allclose(drawn, mdates.date2num(times.to_pydatetime()))
    np.testing.assert_array_equal(display.truth_lines_[0].get_xdata(orig=False), drawn[:2])
    ax = display.axes_[0]
    assert ax.get_xlabel() == ("time" if zone is None else f"time ({zone})")
    offset = ax.xaxis.get_major_formatter().get_offset()
    assert offset.startswith("2024-Mar-0")
    midnights = [t for t in ax.get_xticks() if mdates.num2date(t, tz=times.tz).hour == 0]
    assert midnights, "ticks are at whole hours of the zone"


def test_own_times_and_styles() -> None:
    X = oscillators()
    estimator = HiPPOTransformer(window=3.0).fit(X)
    at = X[0][0][-1] - np.array([2.0, 1.0, 0.5])
    styles = {"line_kw": {"c": "red", "label": "HiPPO"}, "observed_kw": {"ms": 9}}
    display = draw(estimator, X, at, **styles, truth=(at, wave(at, 0)), truth_kw={"lw": 5})
    np.testing.assert_array_equal(display.lines_[1].get_xdata(), at)
    assert display.lines_[0].get_color() == "red"
    assert display.lines_[0].get_label() == "HiPPO"
    assert display.observed_lines_[0].get_markersize() == 9
    assert display.truth_lines_[0].get_linewidth() == 5


def test_given_axes_are_used_and_no_figure_is_made() -> None:
    X = oscillators()
    estimator = HiPPOTransformer().fit(X)
    axes = Figure().subplots(1, 2)
    display = ReconstructionDisplay.from_estimator(estimator, X, ax=axes)
    assert list(display.axes_) == list(axes)
    assert display.figure_ is axes[0].figure
    assert plt.get_fignums() == []
    again = display.plot(ax=list(axes))
    assert again is display
    assert len(axes[0].lines) == 4
    one = ReconstructionDisplay.from_estimator(estimator, X, channel=0, ax=axes[1])
    assert one.axes_[0] is axes[1]


def test_without_axes_one_figure_with_one_legend_is_made() -> None:
    X = oscillators()
    display = draw(HiPPOTransformer().fit(X), X)
    assert plt.get_fignums() == [display.figure_.number]
    (legend,) = display.figure_.legends
    assert [text.get_text() for text in legend.get_texts()] == ["reconstruction", "observed"]
    assert [ax.get_xlabel() for ax in display.axes_] == ["", "time"]


def test_arrays_are_enough() -> None:
    display = ReconstructionDisplay([0, 1, 2], [5.0, 6.0, 7.0], observed=([0, 2], [5.0, 7.0]))
    display.plot()
    assert display.axes_[0].get_ylabel() == "x0"
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), [5, 6, 7])
    with pytest.raises(ValueError, match=r"one name for each of the 1 channels, got \['a', 'b'\]"):
        ReconstructionDisplay([0, 1], [5, 6], observed=([0], [5]), channel_names=["a", "b"]).plot()


def test_one_observation_is_drawn() -> None:
    X = oscillators()
    display = draw(HiPPOTransformer().fit(X), [(np.array([1.0]), np.array([[2.0, 3.0]]))])
    np.testing.assert_allclose(display.lines_[1].get_ydata(), 3.0)


def test_input_is_not_changed() -> None:
    X = oscillators()
    before = [(times.copy(), values.copy()) for times, values in X]
    draw(small().fit(X), X, truth=X[0])
    for old, new in zip(before, X, strict=True):
        np.testing.assert_array_equal(old[0], new[0])
        np.testing.assert_array_equal(old[1], new[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"series": 12}, r"series must be a position from 0 to 11 in X, got 12"),
        ({"series": "a"}, r"got 'a'; to choose by id"),
        ({"series": True}, r"got True"),
        ({"channel": "z"}, r"channel must be one of \['x0', 'x1'\], .* got 'z'"),
        ({"channel": [0, 2]}, r"channel must be .* a position from 0 to 1, got 2"),
        ({"truth": [1.0, 2.0]}, r"truth must be a pair \(times, values\), got list"),
        ({"truth": ([1.0], [2.0])}, r"shape \(1, 2\), one row a time .*\(x0, x1\), got \(1, 1\)"),
        ({"times": [-100.0]}, r"outside \[-"),
        ({"ax": Figure().add_subplot()}, r"ax holds 1 axes, but there are 2 channels \(x0, x1\)"),
    ],
)
def test_errors_say_what_to_do(options: dict[str, Any], message: str) -> None:
    X = oscillators()
    with pytest.raises(ValueError, match=message):
        ReconstructionDisplay.from_estimator(HiPPOTransformer().fit(X), X, **options)
    assert plt.get_fignums() == []


def test_estimators_that_cannot_reconstruct_are_refused() -> None:
    X = oscillators()
    with pytest.raises(TypeError, match="method reconstruct, which SummaryStatsTransformer does"):
        ReconstructionDisplay.from_estimator(SummaryStatsTransformer().fit(X), X)
    with pytest.raises(TypeError, match="of a pipeline or a search pass the fitted step"):
        ReconstructionDisplay.from_estimator(make_pipeline(HiPPOTransformer()).fit(X), X)
    with pytest.raises(NotFittedError):
        ReconstructionDisplay.from_estimator(HiPPOTransformer(), X)
