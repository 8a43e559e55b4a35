"""What the forecaster refuses, or warns of, and the remedies that it names."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sktime.exceptions import NotFittedError
from sktime.forecasting.base import ForecastingHorizon

from skpolyode import S4Transformer
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.panel import Panel
from tests.forecasting.conftest import HOUR, START, tiny


def test_before_the_first_observation(forecaster, y):
    early = pd.DatetimeIndex([START - HOUR])
    with pytest.raises(ValueError, match=r"fh asks for 2024-02-29 23:00:00 of instance 0, .*first"):
        forecaster.fit(y).predict(early)


def test_panels_have_a_first_row_too_and_levels_are_probabilities():
    panel = Panel.from_series([([0.0, 1.0], [1.0, 2.0])] * 2, ids=["a", "b"])
    learned = tiny().pretrain(panel)
    with pytest.raises(ValueError, match=r"times of series 'b': -0\.5, 0\.5 before its first row"):
        learned.forecast(panel, [[2.0], [1.5, -0.5]])
    dated = Panel(panel.times, panel.values, panel.offsets, ids=[30, 31], time_unit="h")
    with pytest.raises(ValueError, match=r"series 30: 1969-12-31 22:00:00, 2 h before its first"):
        tiny().pretrain(dated).forecast(dated, pd.Timestamp("1969-12-31 22:00"))
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1, got 1"):
        learned.forecast_quantiles(panel, [2.0], [0.5, 1])


def test_levels_that_are_no_probabilities(forecaster, y):
    forecaster.fit(y)
    for call, message in (
        (lambda: forecaster.predict_interval([HOUR], coverage=90), "coverage must lie between 0"),
        (lambda: forecaster.predict_interval([HOUR], None, []), "coverage must hold a number"),
        (lambda: forecaster.predict_quantiles([HOUR], alpha=[]), "alpha must hold a number"),
        (lambda: forecaster.predict_quantiles([HOUR], alpha=[0.5, 5.0]), "alpha must lie between"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert len(forecaster.predict_quantiles([HOUR], alpha=0.5).columns) == y.shape[1]


def test_horizons_that_the_index_cannot_carry(forecaster, y):
    with pytest.raises(TypeError, match=r"fh counts \[1, 2\] steps, .*without a frequency"):
        forecaster.fit(y).predict([1, 2])
    with pytest.raises(
        TypeError, match=r"integers .* as absolute times, but y is indexed by a Dat"
    ):
        forecaster.predict(ForecastingHorizon(pd.Index([5]), is_relative=False))
    regular = pd.Series(np.arange(12.0))
    with pytest.raises(TypeError, match="fh holds durations, but y is indexed by a"):
        tiny().fit(regular).predict([HOUR])
    durations = pd.Series(np.arange(12.0), index=pd.to_timedelta(np.arange(12), unit="h"))
    with pytest.raises(TypeError, match="TimedeltaIndex, from which sktime's horizons cannot"):
        tiny().fit(durations)


@pytest.mark.parametrize("make", [pd.Series, lambda x, index: Panel(index, x, [0, len(x)])])
def test_real_times_are_for_panels(make):
    with pytest.raises(TypeError, match=r"use pretrain\(panel\) and forecast\(panel, times\)"):
        tiny().fit(make([1.0, 2.0, 3.0], index=[0.0, 0.5, 1.7]))


@pytest.mark.parametrize(
    ("y", "remedy"),
    [
        (
            {"a": pd.Series([1.0, 2.0])},
            r"a dict, a type that sktime.*use pretrain\(y\) and",
        ),
        (
            [([0.0, 1.0], [1.0, 2.0])],
            r"a list, a type that sktime.*use pretrain\(y\) and",
        ),
        (pd.Series([1.0, 2.0], index=["2024-03-01", "2024-03-02"]), r"text.*pandas.to_datetime"),
        (pd.DataFrame({"t": [START, START + HOUR], "x": [1.0, 2.0]}), r"y.set_index\('t'\)"),
    ],
)
def test_what_sktime_would_refuse_without_a_remedy(y, remedy):
    with pytest.raises(TypeError, match=remedy):
        tiny().fit(y)


def test_pretraining_reads_what_other_estimators_read():
    series = {"a": ([0.0, 1.0, 2.5], [1.0, 2.0, 3.0]), "b": ([0.5, 1.0], [2.0, 1.0])}
    learned = tiny().pretrain(series)
    assert learned.forecast(series, [3.0]).ids.tolist() == ["a", "b"]


@pytest.mark.parametrize("method", ["fit", "pretrain"])
def test_arrays_have_the_axes_of_sktime(method):
    """(series, channel, time) and (time, channel); this package has times before channels."""
    learn = getattr(tiny(), method)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"24 channels at 2 times. If it is \(series, time, chan"):
        learn(rng.normal(size=(12, 24, 2)))
    with pytest.raises(ValueError, match=r"y is empty: an array of shape \(3, 0, 2\)"):
        learn(rng.normal(size=(3, 0, 2)))
    with pytest.warns(UserWarning, match=r"3 channels at 3 times. .*Panel.from_array\(y\)"):
        learn(rng.normal(size=(12, 3, 3)))


def test_what_sktime_has_as_channels_is_refused_by_forecasts():
    cube = np.random.default_rng(0).normal(size=(12, 2, 9))
    learned = tiny().pretrain(cube)
    with pytest.raises(ValueError, match=r"may be \(series, channel, time\), .*Panel.from_sktime"):
        learned.forecast(cube, [9.0])
    ahead = learned.forecast(Panel.from_sktime(cube), [9.0])
    assert ahead.equals(learned.forecast(cube.transpose(0, 2, 1), [9.0]))


@pytest.mark.parametrize(
    ("y", "error", "match"),
    [
        (None, TypeError, "y must be a collection of series, got .*NoneType"),
        ([], ValueError, "y has 0 sample"),
        ({}, ValueError, "y has 0 sample"),
        (Panel.from_series([([0.0], [1.0])])[:0], ValueError, "y has 0 sample"),
        ([([0.0, 1.0], [1.0, 2e305])] * 3, ValueError, "y has 3 faults.*2e.305 is too large"),
    ],
)
def test_pretraining_says_what_is_wrong_with_y(y, error, match):
    with pytest.raises(error, match=f"(?s){match}"):
        tiny().pretrain(y)


@pytest.mark.parametrize("method", ["fit", "pretrain"])
def test_series_of_several_time_zones_are_refused(y, method):
    frames = [y.loc[0].tz_localize("UTC"), y.loc[1].tz_localize("Europe/Berlin")]
    with pytest.raises(TypeError, match=r"the time zones \['Europe/Berlin', 'UTC'\].*tz_convert"):
        getattr(tiny(), method)(frames)


def test_exogenous_series_beside_a_panel_are_refused(y):
    panel = Panel.from_sktime(y)
    with pytest.raises(TypeError, match=r"X goes with y in sktime's formats.*y.with_inputs"):
        tiny().pretrain(panel, X=y)


def test_empty_horizon(forecaster, y):
    with pytest.raises(ValueError, match="must not be empty"):
        forecaster.fit(y).predict([])


def test_unfitted(y):
    with pytest.raises(NotFittedError, match="has not been fitted"):
        tiny().predict([HOUR])
    with pytest.raises(NotFittedError, match="has not been fitted"):
        tiny().forecast([([0.0, 1.0], [1.0, 2.0])], [2.0])


def test_missing_channels(forecaster, y):
    with pytest.raises(ValueError, match=r"y has the channels \['u'\], but .*\['u', 'v'\]"):
        forecaster.fit(y).update(y[["u"]])
    for wrong in (y[["u"]], y[["v", "u"]], y.rename(columns={"u": "w"})):
        names = re.escape(str(list(wrong.columns)))
        with pytest.raises(ValueError, match=rf"{names}, but .* pretrained on \['u', 'v'\]: give"):
            forecaster.fit(wrong)
    with pytest.raises(ValueError, match="y has 1 features"):
        forecaster.forecast([([0.0, 1.0], [1.0, 2.0])], [2.0])


def test_other_channels_of_residuals(forecaster, y):
    forecaster.fit(y)
    for wrong in (y[["u"]], y.rename(columns={"u": "w"}), y.assign(w=1.0)):
        names = re.escape(str(list(wrong.columns)))
        with pytest.raises(ValueError, match=rf"channels {names}, but .* on \['u', 'v'\]: give"):
            forecaster.predict_residuals(wrong)


def in_zone(y, zone):
    return y.tz_localize(zone, level=-1 if isinstance(y.index, pd.MultiIndex) else None)


def later(y):
    """The same rows, ten days later."""
    times = y.index.get_level_values(-1) + 240 * HOUR
    if not isinstance(y.index, pd.MultiIndex):
        return y.set_axis(times)
    levels = [y.index.get_level_values(k) for k in range(y.index.nlevels - 1)]
    return y.set_axis(pd.MultiIndex.from_arrays([*levels, times], names=y.index.names))


def answers(forecaster):
    interval = forecaster.predict_interval([HOUR])
    return forecaster.predict([HOUR]), interval, forecaster.predict_var([HOUR])


def assert_as_before(forecaster, *refused):
    """After each of pairs of a call that is refused, and what it says."""
    expected, cutoff, held = answers(forecaster), forecaster.cutoff, forecaster._y
    for call, match in refused:
        with pytest.raises((ValueError, TypeError), match=match):
            call(forecaster)
        assert forecaster.cutoff is cutoff
        assert forecaster._y is held
    for found, own in zip(answers(forecaster), expected, strict=True):
        assert type(found) is type(own)
        assert found.equals(own)  # names too


@pytest.mark.parametrize("of", ["frame", "panel", "hierarchy"])
def test_refused_updates_change_nothing(forecaster, y, of):
    hierarchy = pd.concat({"a": y}, names=["site"])
    y = {"frame": y.loc[0], "panel": y, "hierarchy": hierarchy}[of]
    forecaster.fit(y)
    new = later(y)
    zoned = in_zone(new, "UTC")
    assert_as_before(
        forecaster,
        (lambda own: own.update(new.rename(columns={"u": "w"})), r"channels \['w', 'v'\]"),
        (lambda own: own.update(new[["v", "u"]]), r"channels \['v', 'u'\]"),
        (lambda own: own.update(zoned), "the time zone UTC"),
        (lambda own: own.update_predict_single(zoned), "time zone UTC"),
    )


@pytest.mark.parametrize("remember", [False, True])
def test_refused_updates_of_one_series_change_nothing(y, remember):
    y = y.loc[0]["u"].dropna()
    forecaster = tiny().set_config(remember_data=remember).fit(y)
    other, two = later(y).rename("w"), later(y).to_frame().assign(w=1.0)
    assert_as_before(
        forecaster,
        (lambda own: own.update(other), r"channels \['w'\]"),
        (lambda own: own.update(two), r"channels \['u', 'w'\]"),
    )


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("of", ["frame", "panel"])
def test_updates_on_a_clock_without_the_time_zone_of_fit(forecaster, y, of, zone):
    y = y if of == "panel" else y.loc[0]
    forecaster.fit(in_zone(y, zone))
    wrong = in_zone(later(y), "UTC" if zone is None else None)
    found = "the time zone UTC" if zone is None else "no time zone"
    remedy = f"tz_localize({zone!r}{', level=-1' if of == 'panel' else ''})"
    with pytest.raises(ValueError, match=f"datetimes of y have {found}, .*{re.escape(remedy)}"):
        forecaster.update(wrong, update_params=False)
    forecaster.update(in_zone(wrong, zone), update_params=False)


def test_unknown_instance_of_residuals(forecaster, y):
    with pytest.raises(ValueError, match=r"instances \[2\] are not known"):
        forecaster.fit(y.loc[[0, 1]]).predict_residuals(y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"calibration_fraction": 1.0}, "calibration_fraction must lie between 0 and 1, got 1.0"),
        ({"horizon": 0}, "'horizon' parameter"),
    ],
)
def test_parameters_out_of_range(y, options, message):
    with pytest.raises(ValueError, match=message):
        tiny(**options).fit(y)


def test_repeated_rows_are_refused_and_the_remedy_helps(forecaster, y):
    doubled = pd.concat([y + 1, y - 1]).sort_index(level=["who", "when"])
    message = rf"rows of equal instance and time \({len(y)} .*y\.groupby\(level=\[0, 1\]\)\.mean"
    with pytest.raises(ValueError, match=message):
        forecaster.fit(doubled)
    with pytest.raises(ValueError, match=message):
        tiny().pretrain(doubled)
    merged = forecaster.fit(doubled.groupby(level=[0, 1]).mean()).predict([HOUR])
    pd.testing.assert_frame_equal(merged, forecaster.fit(y).predict([HOUR]))
    with pytest.raises(ValueError, match="y has rows of equal instance and time"):
        forecaster.update(doubled, update_params=False)
    own = doubled.loc[0]
    with pytest.raises(ValueError, match=r"equal time .*2024-.*y\.groupby\(level=\[0\]\)"):
        forecaster.fit(own)
    pd.testing.assert_frame_equal(
        forecaster.fit(own.groupby(level=[0]).mean()).predict([HOUR]),
        forecaster.fit(y.loc[0]).predict([HOUR]),
    )


@pytest.mark.parametrize("method", ["fit", "pretrain"])
def test_exogenous_series_are_not_ignored_without_a_word(y, method):
    y = y.loc[[0]]
    forecaster = PolyODEForecaster(S4Transformer(hidden_size=4, max_epochs=1), random_state=0)
    with pytest.warns(UserWarning, match="does not use exogenous series: X is ignored"):
        getattr(forecaster, method)(y, X=y)


KINDS = {
    "numbers": lambda times: pd.RangeIndex(len(times)),
    "PeriodIndex": lambda times: times.to_period("us"),
}


def on_clock(y, kind, of):
    if of == "frame":
        return y.set_axis(KINDS[kind](y.index))
    own = {k: on_clock(rows.droplevel(0), kind, "frame") for k, rows in y.groupby(level=0)}
    return pd.concat(own)


@pytest.fixture(scope="module")
def under_x(y):
    """Fitted under inputs, to one series and to several; what is asked of them is refused."""
    fits = {"frame": y.loc[0], "panel": y}
    return {of: tiny().fit(own, X=inputs_of(own)) for of, own in fits.items()}


def inputs_of(y):
    return y[["u"]].rename(columns={"u": "x"}).fillna(0.0)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("of", ["frame", "panel"])
def test_another_kind_of_index_than_that_of_fit(forecaster, under_x, y, of, kind):
    y = y if of == "panel" else y.loc[0]
    wrong = on_clock(y, kind, of), on_clock(inputs_of(y), kind, of)
    forecaster.fit(y)
    match = rf"times of {{}} are of the kind {kind}, but those of fit are of the kind DatetimeIndex"
    assert_as_before(forecaster, (lambda own: own.update(wrong[0]), match.format("y")))
    model = under_x[of]
    for ask in (
        lambda: model.update(later(y), X=wrong[1], update_params=False),
        lambda: model.predict([HOUR], X=wrong[1]),
    ):
        with pytest.raises(ValueError, match=match.format("X")):
            ask()


@pytest.mark.parametrize("method", ["fit", "pretrain"])
def test_times_in_the_first_level(y, method):
    X = y[["u"]].fillna(0.0)
    for name, data in ("y", (y.swaplevel(), None)), ("X", (y, X.swaplevel())):
        match = rf"the last must hold the times.*{name}\.reorder_levels\(\[1, 0\]\)"
        with pytest.raises(ValueError, match=match):
            getattr(tiny(), method)(data[0], X=data[1])
