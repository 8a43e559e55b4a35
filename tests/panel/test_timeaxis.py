"""Datetimes, time zones, periods and timedeltas."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skpolyode.panel import Panel, as_panel, query_times
from skpolyode.panel.cells import MICROSECONDS, Times, read_times

UNITS = list(MICROSECONDS)
MOMENTS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2149, 1, 1))
NOON = pd.Timestamp("2024-05-01 12:00")


@given(st.lists(MOMENTS, min_size=1, max_size=5, unique=True), st.sampled_from(UNITS))
def test_datetimes_come_back_to_the_microsecond(moments, unit):
    index = pd.DatetimeIndex(sorted(moments)).as_unit("us")
    panel = Panel.from_series([(index, np.ones(len(index)))], time_unit=unit)
    assert panel.time_unit == unit
    assert panel.is_datetime
    assert panel.user_times().equals(index.as_unit("us"))
    assert panel.to_series()[0][0].equals(index.as_unit("us"))


@given(st.lists(MOMENTS, min_size=1, max_size=3, unique=True), st.sampled_from(UNITS))
def test_counts_are_those_of_pandas(moments, unit):
    index = pd.DatetimeIndex(sorted(moments))
    panel = Panel.from_series([(index, np.ones(len(index)))], time_unit=unit)
    expected = (index - pd.Timestamp(0)) / pd.Timedelta(1, unit)
    np.testing.assert_allclose(panel.times, expected, rtol=1e-15, atol=0)


@pytest.mark.parametrize("resolution", ["s", "ms", "us", "ns"])
def test_the_resolution_of_the_input_does_not_matter(resolution):
    index = pd.DatetimeIndex(["2024-01-01", "2024-01-02 00:00:05"]).as_unit(resolution)
    for times in (index, index.to_numpy(), pd.Series(index), list(index), index.to_pydatetime()):
        panel = as_panel([(times, [1, 2])])
        assert panel.times.tolist() == [1704067200.0, 1704153605.0]
        assert panel.time_unit == "s"
        assert panel.tz is None


def test_dates_and_periods_start_at_midnight():
    dates = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 3)]
    periods = pd.PeriodIndex(["2024-01", "2024-02"], freq="M")
    by_date = Panel.from_series([(dates, [1, 2])], time_unit="D")
    assert by_date.times.tolist() == [19723.0, 19725.0]
    for times in (periods, list(periods)):
        panel = Panel.from_series([(times, [1, 2])], time_unit="D")
        assert panel.times.tolist() == [19723.0, 19754.0]
        assert panel.user_times().tolist() == [
            pd.Timestamp("2024-01-01"),
            pd.Timestamp("2024-02-01"),
        ]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kathmandu", "UTC-03:00"])
def test_time_zones_come_back(zone):
    index = pd.date_range("2024-03-30 12:00", periods=5, freq="6h", tz=zone)
    frames = [pd.DataFrame({"a": np.arange(5.0)}, index=index)]
    panel = as_panel(frames)
    assert panel.tz == zone
    assert panel.times[0] == index[0].timestamp()
    assert panel.user_times().equals(index.as_unit("us"))
    assert str(panel.user_times().tz) == zone
    assert str(panel[[0]].to_long()["time"].dt.tz) == zone


def test_the_hour_that_comes_twice_stays_two_hours():
    index = pd.DatetimeIndex(["2024-10-27 00:30", "2024-10-27 01:30"], tz="UTC")
    panel = as_panel([(index.tz_convert("Europe/Berlin"), [1, 2])])
    assert np.diff(panel.times).tolist() == [3600.0]


def test_different_zones_are_given_back_in_utc():
    day = pd.DatetimeIndex(["2024-01-01"])
    series = [(day.tz_localize(zone), [1]) for zone in ("Europe/Berlin", "Asia/Tokyo")]
    panel = as_panel(series)
    assert panel.tz == "UTC"
    assert panel.user_times()[0] == pd.Timestamp("2023-12-31 23:00", tz="UTC")


def test_a_zone_without_a_name_is_given_back_in_utc():
    class Odd(datetime.tzinfo):
        def utcoffset(self, when):
            return datetime.timedelta(hours=1)

        def dst(self, when):
            return datetime.timedelta(0)

        def tzname(self, when):
            return None

        def __str__(self):
            return "no zone that anyone knows"

    index = pd.DatetimeIndex(["2024-01-01"]).tz_localize("UTC").tz_convert(Odd())
    panel = as_panel([(index, [1])])
    assert panel.tz == "UTC"
    assert panel.user_times()[0] == index[0]


def test_with_and_without_zone_cannot_be_mixed():
    day = pd.DatetimeIndex(["2024-01-01"])
    with pytest.raises(TypeError, match=r"with and without a time zone .* tz_localize"):
        as_panel([(day, [1]), (day.tz_localize("UTC"), [1])])


def test_kinds_cannot_be_mixed():
    day = pd.DatetimeIndex(["2024-01-01"])
    with pytest.raises(
        TypeError, match=r"X: series 1: times must be of one kind .* datetimes after n"
    ):
        as_panel([([0.0], [1]), (day, [1])])
    with pytest.raises(TypeError, match=r"series 1: .* got numbers after datetimes"):
        as_panel([(day, [1]), ([0.0], [1])])
    with pytest.raises(TypeError, match="times must be numbers or datetimes, got Timestamp"):
        as_panel([([pd.Timestamp("2024-01-01"), 5], [1, 2])])


DAYS = [pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-02"), None, pd.Timestamp("2024-01-04")]


@pytest.mark.parametrize(
    "dates",
    [
        DAYS,
        [None if day is None else day.to_pydatetime() for day in DAYS],
        [None if day is None else day - DAYS[0] for day in DAYS],
        [None if day is None else pd.Period(day, "D") for day in DAYS],
        [0.5, 1, None, 4],
    ],
)
@pytest.mark.parametrize("row", [0, 2])
def test_one_text_among_times_is_named_with_its_row(dates, row):
    times, values = [*dates], [1.0, 2.0, 3.0, 4.0]
    times[row] = "n/a"
    text = rf"got 'n/a' \(str\) in row {row}; convert text with pandas\.to_datetime"
    array = np.array(times, dtype=object)
    table = pd.DataFrame({"id": "a", "time": pd.Series(times, dtype=object), "v": values})
    with pytest.raises(TypeError, match=f"X: series 1: times must be numbers or datetimes, {text}"):
        as_panel([(dates[:1], [1.0]), (times, values)])
    with pytest.raises(TypeError, match=f"df: column 'time': .*{text}"):
        Panel.from_long(table, id="id", time="time")
    with pytest.raises(TypeError, match=f"frames: series 0: .*{text}"):
        Panel.from_frames([table.set_index("time")[["v"]]])
    with pytest.raises(TypeError, match=text):
        Panel(array, values, [0, 4])
    with pytest.raises(TypeError, match=text.replace(";", " of series 1;")):
        Panel.from_array(np.ones((2, 4)), times=np.array([dates, times], dtype=object))


@pytest.mark.parametrize("stranger", [5.0, pd.Timedelta("1h"), datetime.date])
def test_what_is_no_date_among_dates_is_named(stranger):
    with pytest.raises(TypeError, match=rf"got .* \({type(stranger).__name__}\) in row 2$"):
        as_panel([([*DAYS[:2], stranger, DAYS[3]], [1.0, 2.0, 3.0, 4.0])])


def test_an_empty_series_is_a_fault_of_its_own():
    day = pd.DatetimeIndex(["2024-01-01"])
    with pytest.raises(ValueError, match="series 0: has no rows"):
        as_panel([([], []), (day, [1])])


def test_timedeltas_are_plain_numbers_of_the_unit():
    waits = pd.to_timedelta([0, 90], unit="min")
    for times in (waits, waits.to_numpy(), list(waits), waits.to_pytimedelta()):
        panel = Panel.from_series([(times, [1, 2])], time_unit="h")
        assert panel.times.tolist() == [0.0, 1.5]
        assert not panel.is_datetime
        assert panel.time_unit is None
    assert as_panel([(waits, [1, 2])]).times.tolist() == [0.0, 5400.0]


@pytest.mark.parametrize(
    "times", [pd.to_timedelta([100, 101, 103], unit="h"), 10**17 + np.array([0, 1, 3])]
)
def test_panels_that_count_from_the_start_give_back_the_times_of_the_user(times):
    panel = Panel.from_series([(times, [1.0, 2.0, 3.0])], time_unit=None)
    counted = panel.since_start()
    assert counted.times[0] == 0.0
    np.testing.assert_array_equal(counted.user_times(), panel.user_times())
    np.testing.assert_array_equal(counted.to_series()[0][0], panel.to_series()[0][0])
    assert repr(counted) == repr(panel)


@pytest.mark.parametrize("unit", [None, "D"])
def test_times_that_are_not_finite_are_shown_as_they_are(unit):
    times = Times(np.array([np.inf, -np.inf, np.nan]), unit)
    assert [times.format(row) for row in range(3)] == ["inf", "-inf", "nan"]


def test_unix_seconds_become_datetimes_with_a_unit():
    series = [([1_700_000_000.25, 1_700_000_060.5], [1, 2])]
    plain = as_panel(series)
    assert not plain.is_datetime
    assert plain.user_times().tolist() == [1_700_000_000.25, 1_700_000_060.5]
    dated = Panel.from_series(series, time_unit="s")
    assert dated.user_times()[0] == pd.Timestamp("2023-11-14 22:13:20.250")


def test_slices_and_answers_keep_the_axis():
    index = pd.DatetimeIndex(["2024-01-01", "2024-01-02"], tz="Europe/Berlin")
    panel = Panel.from_series([(index, [1, 2]), (index, [3, 4])], time_unit="h")
    for part in (panel[[1]], panel[1:], panel[:1].like(panel.times[:2], np.ones((2, 1)), [0, 2])):
        assert (part.time_unit, part.tz) == ("h", "Europe/Berlin")
        assert part.user_times().equals(index.as_unit("us"))


def test_huge_offsets_do_not_blur_the_steps():
    times = 1e15 + np.arange(5) * 0.125
    assert np.diff(as_panel([(times, np.ones(5))]).times).tolist() == [0.125] * 4


def test_long_tables_keep_datetimes():
    index = pd.DatetimeIndex(["2024-01-01", "2024-01-03"])
    panel = Panel.from_series([(index, [1, 2])], time_unit="D")
    again = Panel.from_long(panel.to_long(), id="id", time="time", time_unit="D")
    assert again.equals(panel)
    assert repr(panel).endswith("times 2024-01-01 00:00:00 to 2024-01-03 00:00:00)")


def test_a_panel_of_the_far_future_is_shown():
    """As of seconds that are read as hours."""
    panel = Panel.from_series([([1.7e9, 1.8e9], [1.0, 2.0])], time_unit="h")
    assert repr(panel).endswith("times 195905-01-30 08:00:00 to 207313-01-10 00:00:00)")


def test_missing_times_pass_through_the_axis():
    times = Times(np.array([np.nan]), "s")
    assert pd.isna(times.to_user())[0]
    assert times.format(0) == "nan"
    for missing in (pd.DatetimeIndex([pd.NaT, NOON]), [None, NOON.to_pydatetime()]):
        assert read_times(missing).kind == "datetime"


@pytest.mark.parametrize(
    ("count", "unit", "years"),
    [(1.7e18, "s", "5.39e\\+10"), (1.7e9, "D", "4.65e\\+06"), (-9.3e18, "us", "2.95e\\+05")],
)
def test_counts_in_a_wrong_unit_are_refused(count, unit, years):
    match = (
        rf"time_unit='{unit}', .* {years} years, which datetime64\[us\] cannot hold: give the unit"
    )
    with pytest.raises(ValueError, match=match):
        Panel([0.0, count], [1.0, 2.0], [0, 2], time_unit=unit)
    assert "to 1970-01-01" in repr(Panel([0.0, 0.5], [1.0, 2.0], [0, 2], time_unit=unit))


def test_answers_too_far_ahead_are_refused():
    days = Panel.from_series([(pd.date_range("2024-01-01", periods=2), [1.0, 2.0])])
    with pytest.raises(ValueError, match=r"time_unit='s'.*cannot hold"):
        query_times(days, [1e18], relative_to="end")
    with pytest.raises(ValueError, match=r"time_unit='s'.*cannot hold"):
        days.like(np.array([1e18]), np.ones((1, 1)), np.array([0, 1])).user_times()


def test_datetimes_that_wrap_are_refused():
    far = np.array(["2024-01-01", "300000-01-01", "NaT"], "M8[D]")
    with pytest.raises(ValueError, match=r"series 0: datetimes must be .*, got 300000-01-01"):
        Panel.from_series([(far, [1.0, 2.0, 3.0])])
    assert Panel.from_series([(far[:1], [1.0])]).is_datetime
