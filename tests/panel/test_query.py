from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from skpolyode.panel import Panel, query_times

PLAIN = Panel.from_series([([0, 1], [5, 6]), ([0, 2], [7, 8])])
DAYS = pd.DatetimeIndex(["2024-01-01", "2024-01-02"])
DATED = Panel.from_series([(DAYS, [5, 6]), (DAYS, [7, 8])], time_unit="D")
ZONED = Panel.from_series([(DAYS.tz_localize("Europe/Berlin"), [5, 6])])


@pytest.mark.parametrize(
    "times",
    [[3, 0.5], (3, 0.5), np.array([3.0, 0.5]), pd.Series([3, 0.5]), pd.Index([3, 0.5])],
    ids=lambda times: type(times).__name__,
)
def test_one_list_serves_all_series_in_the_order_given(times):
    flat, offsets = query_times(PLAIN, times)
    assert flat.dtype == np.float64
    assert offsets.dtype == np.int64
    assert flat.tolist() == [3.0, 0.5, 3.0, 0.5]
    assert offsets.tolist() == [0, 2, 4]


@pytest.mark.parametrize("time", [2, 2.0, np.float32(2), np.array(2.0)])
def test_a_scalar(time):
    flat, offsets = query_times(PLAIN, time)
    assert flat.tolist() == [2.0, 2.0]
    assert offsets.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "times",
    [
        [[4.0], [1.0, 1.0, 0.0]],
        ([4.0], (1.0, 1.0, 0.0)),
        [np.array([4.0]), pd.Series([1.0, 1.0, 0.0])],
        np.array([[4.0], [1.0, 1.0, 0.0]], dtype=object),
    ],
)
def test_a_list_for_each_series(times):
    flat, offsets = query_times(PLAIN, times)
    assert flat.tolist() == [4.0, 1.0, 1.0, 0.0]
    assert offsets.tolist() == [0, 1, 4]


def test_a_row_for_each_series():
    flat, offsets = query_times(PLAIN, np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert flat.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert offsets.tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    "times",
    [
        DAYS,
        DAYS.to_numpy(),
        list(DAYS),
        pd.Series(DAYS),
        [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)],
        [19723.0, 19724.0],
        [DAYS, DAYS],
    ],
)
def test_datetimes(times):
    flat, _ = query_times(DATED, times)
    assert flat.tolist() == [19723.0, 19724.0] * 2


def test_one_datetime():
    for time in (DAYS[0], DAYS[0].to_pydatetime(), DAYS.to_numpy()[0]):
        assert query_times(DATED, time)[0].tolist() == [19723.0, 19723.0]


def test_another_zone_is_the_same_moment():
    utc = pd.DatetimeIndex(["2023-12-31 23:00"], tz="UTC")
    assert query_times(ZONED, utc)[0].tolist() == [ZONED.times[0]]


@pytest.mark.parametrize(
    ("panel", "times", "message"),
    [
        (PLAIN, DAYS, "times must be numbers, as in the panel, got datetimes"),
        (PLAIN, [[1.0], DAYS], "times of series 1 must be numbers"),
        (PLAIN, pd.to_timedelta([1], "h"), "times must be numbers, .* got timedeltas"),
        (DATED, pd.to_timedelta([1], "h"), "must be datetimes, or counts of their unit, .* timed"),
        (
            ZONED,
            DAYS,
            "the panel has the time zone Europe/Berlin, times have none; use tz_localize",
        ),
        (DATED, DAYS.tz_localize("UTC"), "panel has none, times have the time zone UTC"),
        (DATED, "2024-01-01", r"times: times must be numbers or datetimes.*pandas\.to_datetime"),
        (DATED, ["2024-01-01"], r"pandas\.to_datetime"),
    ],
)
def test_wrong_kinds(panel, times, message):
    with pytest.raises(TypeError, match=message):
        query_times(panel, times)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([], "times must be one-dimensional and not empty"),
        ([[], []], "times of series 0 must be one-dimensional and not empty"),
        ([[1.0], []], "times of series 1 must be one-dimensional and not empty"),
        (np.zeros((1, 2, 2)), "times must be one-dimensional"),
        ([1.0, np.nan], "times must be finite, got nan at position 1"),
        ([[1.0], [np.inf]], "times of series 1 must be finite, got inf at position 0"),
        (None, "times must be finite"),
        ([[1.0]], "one for each of the 2 series, got 1 lists"),
        ([[1.0]] * 3, "one for each of the 2 series, got 3 lists"),
    ],
)
def test_wrong_times(times, message):
    with pytest.raises(ValueError, match=message):
        query_times(PLAIN, times)


def test_missing_datetimes():
    with pytest.raises(ValueError, match="must be finite, got nan at position 1"):
        query_times(DATED, pd.DatetimeIndex(["2024-01-01", pd.NaT]))
