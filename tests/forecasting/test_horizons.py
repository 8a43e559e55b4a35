"""Horizons that count: steps of each instance, and times from the ends of series."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from sktime.forecasting.base import ForecastingHorizon

from skpolyode.forecasting import PolyODEForecaster
from skpolyode.forecasting.frames import spelled_horizon
from skpolyode.panel import Panel
from tests.closeness import assert_same_but_for_rounding
from tests.forecasting.conftest import HOUR, tiny, waves

# Models are trained on times without a zone.
pytestmark = pytest.mark.filterwarnings("ignore:the times of y have the time zone")


def regular(**indexes: pd.DatetimeIndex) -> pd.DataFrame:
    """A panel whose index has lost its frequencies, as any MultiIndex has."""
    parts = {
        who: pd.DataFrame({"x": np.sin(np.arange(len(own)))}, index=own)
        for who, own in indexes.items()
    }
    return pd.concat(parts, names=["who", "when"])


@pytest.fixture(scope="module")
def steps() -> pd.DataFrame:
    return regular(
        hours=pd.date_range("2024-03-01", periods=15, freq="h"),
        days=pd.date_range("2024-02-01", periods=20, freq="D"),
        months=pd.date_range("2023-01-01", periods=12, freq="MS"),
    )


@pytest.fixture(scope="module")
def one_channel(steps) -> PolyODEForecaster:
    """Pretrained: fits set the context only."""
    return tiny().pretrain(steps)


def test_integers_count_the_steps_of_each_instance(steps):
    fitted = tiny().pretrain(steps).fit(steps)
    answer, within, intervals = (
        fitted.predict([1, 3]),
        fitted.predict([-1, 0]),
        fitted.predict_interval([1]),
    )
    assert within.loc["days"].index.day.tolist() == [19, 20]
    assert intervals.loc["months"].index[0] == pd.Timestamp("2024-01-01")
    ahead = {
        "days": ["2024-02-21", "2024-02-23"],
        "hours": ["2024-03-01 15:00", "2024-03-01 17:00"],
        "months": ["2024-01-01", "2024-03-01"],
    }
    for who, times in ahead.items():
        own = answer.loc[who]
        assert own.index.tolist() == pd.DatetimeIndex(times).tolist()
        absolute = fitted.fit(steps.loc[[who]]).predict(own.index)
        np.testing.assert_allclose(absolute.loc[who], own, rtol=1e-9)


@pytest.mark.parametrize("tz", [None, "Europe/Berlin"])
def test_horizons_may_be_text(tz, one_channel):
    index = pd.date_range("2024-03-01", periods=15, freq="h", tz=tz)
    y = pd.Series(np.sin(np.arange(15.0)), index=index, name="x")
    fitted, at = one_channel.fit(y), pd.DatetimeIndex(["2024-03-01 15:30"], tz=tz)
    expected = fitted.predict(at)
    spelled = ["2024-03-01 15:30"]
    for fh in (spelled, spelled[0], np.array(spelled), ["90min"], "90min", list(at), at[0]):
        pd.testing.assert_series_equal(fitted.predict(fh), expected, check_freq=False)
    pd.testing.assert_frame_equal(fitted.predict_interval(spelled), fitted.predict_interval(at))
    pd.testing.assert_series_equal(one_channel.fit(y, fh=spelled).predict(), expected)
    with pytest.raises(ValueError, match=r"fh: text must be dates .* got 'tomorrow'; durations"):
        fitted.predict(["tomorrow"])


def test_text_names_periods_and_no_integers(one_channel):
    months = pd.period_range("2023-01", periods=12, freq="M")
    y = pd.Series(np.sin(np.arange(12.0)), index=months, name="x")
    assert one_channel.fit(y).predict(["2024-02"]).index.equals(months[-1:] + 2)
    with pytest.raises(TypeError, match="fh: got '2024-02', but the index of y counts"):
        one_channel.fit(y.reset_index(drop=True)).predict(["2024-02"])


HOLIDAY = pd.offsets.CustomBusinessDay(holidays=["2024-03-08"])
DECLARED = {  # start, number of rows, the next two rows
    "B": ("2024-03-04", 5, ["2024-03-11", "2024-03-12"]),
    "2B": ("2024-03-04", 4, ["2024-03-14", "2024-03-18"]),
    "bh": ("2024-03-04 09:00", 7, ["2024-03-04 16:00", "2024-03-05 09:00"]),
    HOLIDAY: ("2024-03-04", 4, ["2024-03-11", "2024-03-12"]),
    "MS": ("2024-01-01", 2, ["2024-03-01", "2024-04-01"]),
}


@pytest.mark.parametrize("clock", [pd.PeriodIndex, pd.DatetimeIndex])
def test_words_are_no_horizons(clock):
    for fh in ("now", ["2024-03-01", "today"]):
        with pytest.raises(ValueError, match=r"fh: text must be dates .* got '(now|today)'"):
            spelled_horizon(fh, clock(["2024-03-01"], freq="D"))


@pytest.mark.parametrize("freq", DECLARED, ids=str)
@pytest.mark.parametrize("tz", [None, "Europe/Berlin"])
def test_the_declared_frequency_counts(freq, tz, one_channel):
    """Of so few rows pandas would infer days, or hours."""
    start, n_rows, expected = DECLARED[freq]
    index = pd.date_range(start, periods=n_rows, freq=freq, tz=tz)
    y = pd.Series(np.arange(float(n_rows)), index=index, name="x")
    horizons = [[1, 2], ForecastingHorizon([1, 2], freq=freq)]
    for fh in horizons:
        ahead = one_channel.fit(y).predict(fh).index
        assert ahead.equals(pd.DatetimeIndex(expected, tz=tz))
    assert one_channel.fit(y).predict([-1, 0]).index.equals(index[-2:])
    both = pd.concat({who: y.to_frame() for who in "ab"}, names=["who", "when"])
    levels = pd.MultiIndex.from_product([["a", "b"], index], names=["who", "when"])
    ahead = one_channel.fit(both.set_axis(levels)).predict([1, 2]).index
    assert ahead.get_level_values("when").equals(pd.DatetimeIndex(expected * 2, tz=tz))


def test_an_instance_without_steps_is_named_and_the_remedy_helps(steps):
    mixed = regular(gaps=pd.date_range("2024-03-01", periods=9, freq="h")[[0, 1, 4, 5, 8]])
    fitted = tiny().fit(pd.concat([mixed, steps]))
    with pytest.raises(TypeError, match=r"fh counts \[1\] steps, .* of instance 'gaps' in y"):
        fitted.predict([1])
    answer = fitted.predict(ForecastingHorizon([1], is_relative=True, freq="h"))
    assert answer.loc["gaps"].index[0] == pd.Timestamp("2024-03-01 09:00")
    assert answer.loc["months"].index[0] == pd.Timestamp("2023-12-01 01:00")


def test_forecasts_count_from_the_ends_of_series(forecaster, y):
    panel = Panel.from_sktime(y)
    expected = forecaster.fit(y).predict([HOUR / 2, 3 * HOUR])
    for ahead in ([HOUR / 2, 3 * HOUR], [1800.0, 3 * 3600.0]):
        answer = forecaster.forecast(panel, ahead, relative_to="end")
        np.testing.assert_allclose(answer.values, expected.to_numpy(), rtol=1e-12)
        late = answer.user_times() - expected.index.get_level_values("when")
        assert abs(late).max() < pd.Timedelta("1us")
    quantiles = forecaster.forecast_quantiles(panel, [HOUR], [0.9], relative_to="end")
    table = forecaster.predict_quantiles([HOUR], alpha=0.9)
    np.testing.assert_allclose(quantiles[0.9].values, table.to_numpy(), rtol=1e-12)


def test_a_series_without_any_observation_does_not_stop_a_batch(trained):
    panel = waves(4, seed=3, fewest=12)
    times, values = panel[2]
    series = [*panel.to_series()[:2], (times, np.full_like(values, np.nan)), panel[3]]
    kept = Panel.from_series(
        [(t * 3600, x) for t, x in series], empty="keep", time_unit="s", ids=list("abcd")
    )
    known = [0, 1, 3]
    later = pd.to_datetime([13 * 3600], unit="s")
    answer, expected = (trained.forecast(own, later) for own in (kept, kept[known]))
    assert_same_but_for_rounding(answer[known].values, expected.values)
    assert np.isnan(answer[[2]].values).all()
    assert trained.forecast(kept[[2]], [HOUR], relative_to="end").n_observations == 0
    learned = tiny().pretrain(kept)
    again = tiny().pretrain(kept[known])
    assert_same_but_for_rounding(
        learned.forecast(kept[known], later).values, again.forecast(kept[known], later).values
    )


def test_static_covariates_reach_the_embedder():
    panel = waves(12, seed=0, fewest=10)
    ids = list("abcdefghijkl")
    static = pd.DataFrame({"group": np.tile(["a", "b"], 6), "size": np.arange(12.0)}, index=ids)
    told = Panel(panel.times, panel.values, panel.offsets, ids=ids, static=static)
    learned = tiny().pretrain(told)
    assert learned.transformer_.embedder_.static.names == ["size", "group_a", "group_b"]
    answer = learned.forecast(told, [13.0])
    other = told.rows.static.assign(size=5.0)
    changed = Panel(panel.times, panel.values, panel.offsets, static=other.reset_index(drop=True))
    # Weights may ignore a run that was hardly trained; the run itself does not ignore them.
    runs = (learned.transformer_.forecast(own, [13.0], combine=False) for own in (told, changed))
    assert not np.allclose(*(run.values for run in runs))
    alone = learned.forecast(told[[3]], [13.0])
    np.testing.assert_allclose(alone.values, answer[[3]].values, rtol=1e-9)
    with pytest.raises(ValueError, match=r"lacks the static covariates \['size', 'group'\]"):
        learned.forecast(panel, [13.0])


ZONE = "Europe/Zurich"  # where clocks change on 2026-03-29


@pytest.mark.parametrize(
    ("of", "zone"), [("series", "UTC"), ("panel", "America/New_York"), ("hierarchy", "+05:30")]
)
def test_new_rows_are_read_on_the_clock_of_fit(of, zone, one_channel):
    """Daily steps stay at midnight after clocks change, wherever the new rows come from."""
    days = pd.date_range("2026-03-10", periods=24, freq="D", tz=ZONE)
    y = pd.DataFrame({"x": np.sin(np.arange(24.0))}, index=days)
    for name in {"series": [], "panel": ["who"], "hierarchy": ["who", "site"]}[of]:
        y = pd.concat({"a": y, "b": y}, names=[name])
    level = {} if of == "series" else {"level": -1}
    times = y.index.get_level_values(-1)
    past, parts = y[times < days[18]], [y[(times >= days[18]) & (times < days[21])]]
    parts.append(y[times >= days[21]])
    one, other = (one_channel.clone().fit(past) for _ in range(2))
    for own in parts:
        moved = own.tz_convert(zone, **level)
        one.update(own, update_params=False)
        swept = copy.deepcopy(other).update_predict(moved, update_params=False)
        ahead = swept.index.get_level_values(-1)
        assert str(ahead.tz) == ZONE
        assert not ahead.hour.any()
        other.update(moved, update_params=False)
        assert other.cutoff.equals(one.cutoff)
        assert str(other.cutoff.tz) == ZONE
    for ask in ("predict", "predict_interval"):
        expected, found = (getattr(own, ask)([1, 2, 3]) for own in (one, other))
        assert found.index.equals(expected.index)
        np.testing.assert_array_equal(found, expected)
    ahead = pd.date_range("2026-04-03", periods=3, freq="D", tz=ZONE)
    assert (found.index.get_level_values(-1).to_numpy().reshape(-1, 3) == ahead.to_numpy()).all()
    pd.testing.assert_frame_equal(other.predict_residuals(), one.predict_residuals())
    moved = past.tz_convert(zone, **level)  # a new fit sets a new clock
    assert other.fit(moved).cutoff.tz == moved.index.get_level_values(-1).tz
