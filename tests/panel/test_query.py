from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from skpolyode import InterpolationTransformer, Resampler
from skpolyode.futures.continued import read_until
from skpolyode.panel import Panel, calendar_inputs, query_times
from skpolyode.panel.query import moments, read_instants, split_at

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


@pytest.mark.parametrize("panel", [DATED, ZONED, ZONED.since_start()])
def test_moments_as_text_are_those_of_pandas(panel):
    texts = ["2024-01-02 05:00", "2024-01-01", "2024-01-05T00:00:01"]
    stamps = pd.to_datetime(texts, format="ISO8601").tz_localize(panel.tz)
    expected, _ = query_times(panel, stamps)
    for times in (texts, np.array(texts), pd.Series(texts), [texts] * panel.n_series):
        np.testing.assert_array_equal(query_times(panel, times)[0], expected)
    np.testing.assert_array_equal(query_times(panel, texts[0])[0], query_times(panel, stamps[0])[0])


def test_text_may_have_an_offset_of_its_own():
    moment = pd.Timestamp("2024-10-27 02:30", tz="UTC")
    assert query_times(ZONED, "2024-10-27T03:30+01:00")[0].tolist() == [moment.timestamp()]


@pytest.mark.parametrize("panel", [ZONED, ZONED.since_start()])
def test_both_hours_of_one_name(panel):
    """The remedy of the hour that comes twice; other offsets are converted to the panel's zone."""
    twice = ["2024-10-27 02:30+02:00", "2024-10-27 02:30+01:00", "2024-10-27T06:30+05:00"]
    hours = pd.DatetimeIndex(["2024-10-27 00:30", "2024-10-27 01:30", "2024-10-27 01:30"], tz="UTC")
    expected, _ = query_times(panel, hours)
    np.testing.assert_array_equal(query_times(panel, twice)[0], expected)
    zone = pd.DatetimeIndex(["2024-10-27 06:30"]).tz_localize("Asia/Tokyo").tz
    for read in (moments(twice, zone, "times"), moments(twice[:1], zone, "times")):
        assert read.tz is zone
        assert (read == hours[: len(read)]).all()


@pytest.mark.parametrize("word", ["now", "today", " NOW ", "NaT", "yesterday"])
def test_words_are_no_moments(word):
    """pandas reads "now" on a clock in UTC, nine hours from that of Tokyo."""
    message = rf"text must be dates .* got {word!r}.*; the present is pandas.Timestamp.now\("
    for panel in (DATED, ZONED):
        for times in (word, [word], ["2024-01-02", word], [[word]] * panel.n_series):
            with pytest.raises(ValueError, match=f"^times.*: {message}"):
                query_times(panel, times)
    with pytest.raises(ValueError, match=f"update: times: {message}"):  # of streams
        read_instants([word], ZONED, "update: times")
    with pytest.raises(ValueError, match=f"until: {message}"):
        read_until(ZONED, word, None)
    with pytest.raises(ValueError, match=f"cutoff: {message}'Europe/Berlin'"):
        split_at(ZONED, word)
    with pytest.raises(ValueError, match=f"holidays: {message}"):
        calendar_inputs(ZONED, holidays=[word])
    with pytest.raises(ValueError, match=f"grid: {message}"):
        Resampler(InterpolationTransformer(), relative_to=None, grid=[word]).fit(ZONED)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (
            "2024-10-27 02:30",
            "2024-10-27 02:30:00 does not exist or occurs twice in Europe/Berlin.*'[+]01:00'",
        ),
        (["2024-01-01", "2024-03-31 02:30"], "2024-03-31 02:30:00 does not exist or occurs twice"),
        ("90min", "times: text must be dates .* got '90min'; .*relative_to=\"end\""),
        (["01/02/2024"], "times: text must be dates and times such as '2026-01-02 05:00'"),
        (["2024-01-02", "2024-01-02T05:00+01:00"], "all or none with a UTC offset"),
        (["2024-01-02", 5.0], "text must be dates and times"),
        (["2024-01-02", ""], "must be finite, got a missing time at position 1"),
    ],
)
def test_text_that_is_no_moment(times, message):
    with pytest.raises(ValueError, match=message):
        query_times(ZONED, times)


RAGGED = Panel.from_series([([1, 3], [5, None]), ([0, 2.5], [7, 8])], empty="keep")


@pytest.mark.parametrize(
    ("times", "relative_to", "expected"),
    [
        ([-1.0, 0.5], "end", [0.0, 1.5, 1.5, 3.0]),  # of observations, not of rows
        ([-1.0, 0.5], "start", [0.0, 1.5, -1.0, 0.5]),
        ([[2.0], [-2.0]], "end", [3.0, 0.5]),
        (1.0, "start", [2.0, 1.0]),
    ],
)
def test_times_from_the_ends_of_series(times, relative_to, expected):
    assert query_times(RAGGED, times, relative_to)[0].tolist() == expected


@pytest.mark.parametrize("seen", [DATED, DATED.since_start()], ids=["counts", "since start"])
@pytest.mark.parametrize(
    "ahead",
    [pd.to_timedelta([12, 36], "h"), [0.5, 1.5], [pd.Timedelta("12h"), pd.Timedelta("36h")]],
)
def test_durations_from_the_ends_of_series(seen, ahead):
    flat, offsets = query_times(seen, ahead, relative_to="end")
    answer = seen.like(flat, np.zeros((4, 1)), offsets)
    assert answer.user_times().tolist() == [DAYS[1] + pd.Timedelta(hours=h) for h in (12, 36)] * 2


def test_a_series_without_any_observation_has_no_ends():
    panel = Panel.from_series([([0, 1], [None, None]), ([0, 2], [7, 8]), ([], [])], empty="keep")
    flat, offsets = query_times(panel, [[1.0], [2.0, 3.0], [4.0]], relative_to="end")
    assert flat.tolist() == [4.0, 5.0]
    assert offsets.tolist() == [0, 0, 2, 2]


@pytest.mark.parametrize(
    ("panel", "times", "error", "message"),
    [
        (DATED, DAYS, TypeError, "timedeltas, or counts .* of a series of datetimes, got datet"),
        (PLAIN, pd.to_timedelta([1], "h"), TypeError, "must be numbers .* got timedeltas"),
        (PLAIN, [[1.0]], ValueError, "one for each of the 2 series, got 1 lists"),
    ],
)
def test_wrong_durations(panel, times, error, message):
    with pytest.raises(error, match=message):
        query_times(panel, times, relative_to="end")


def test_there_are_two_ends():
    with pytest.raises(ValueError, match='must be "start", "end" or None, got \'last\''):
        query_times(PLAIN, [1.0], relative_to="last")


@pytest.mark.parametrize("times", [[pd.NaT], [[np.nan]] * PLAIN.n_series])
def test_missing_times_are_called_missing(times):
    with pytest.raises(ValueError, match=r"times.* must not be missing \(NaN, NaT\)"):
        query_times(DATED, times)


def test_timedeltas_are_told_where_they_are_read():
    with pytest.raises(TypeError, match='durations, pass relative_to="end" or "start"'):
        query_times(DATED, pd.Timedelta("1h"))
    assert query_times(DATED, pd.Timedelta("12h"), relative_to="end")[0].tolist() == [19724.5] * 2


@pytest.mark.parametrize(
    ("panel", "times", "message"),
    [
        (PLAIN, DAYS, "times must be numbers, as in the panel, got datetimes"),
        (PLAIN, [[1.0], DAYS], "times of series 1 must be numbers"),
        (PLAIN, pd.to_timedelta([1], "h"), "times must be numbers, .* got timedeltas"),
        (DATED, pd.to_timedelta([1], "h"), "must be datetimes, as in the panel, got timed"),
        (DATED, [500000.0], r'got numbers; .*relative_to="end".*to_datetime\(times, unit=\'D\'\)'),
        (ZONED, [5.0], r"to_datetime\(times, unit='s', utc=True\)\.tz_convert\('Europe/Berlin'\)"),
        (
            ZONED,
            DAYS,
            "the series have the time zone Europe/Berlin, the times no time zone: give both",
        ),
        (DATED, DAYS.tz_localize("UTC"), "series have no time zone, the times the time zone UTC"),
        (
            DATED,
            "2024-01-01T00:00+01:00",
            "no time zone, the times the time zone UTC.01:00",
        ),
        (PLAIN, "2024-01-01", "the times of the series are numbers: give numbers, got .2024-01-01"),
    ],
)
def test_wrong_kinds(panel, times, message):
    with pytest.raises(TypeError, match=message):
        query_times(panel, times)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([], "times must be one-dimensional and not empty"),
        ([[], []], "times must be one-dimensional and not empty"),
        (np.zeros((1, 2, 2)), "times must be one-dimensional"),
        ([1.0, np.nan], "times must be finite, got a missing time at position 1"),
        ([[1.0], [np.inf]], "times of series 1 must be finite, got inf at position 0"),
        ([[1.0]], "one for each of the 2 series, got 1 lists"),
        ([[1.0]] * 3, "one for each of the 2 series, got 3 lists"),
    ],
)
def test_wrong_times(times, message):
    with pytest.raises(ValueError, match=message):
        query_times(PLAIN, times)


def test_times_that_are_missing_or_no_times():
    for times, message in (
        (None, 'times are missing: give some, such as .* with relative_to="end"'),
        (True, "times must be numbers or datetimes, got dtype bool"),
        ([True, False], "got dtype bool"),
        ([[1.0], np.array([True])], "times of series 1: .* got dtype bool"),
    ):
        with pytest.raises(TypeError, match=message):
            query_times(PLAIN, times)


@pytest.mark.parametrize("since", [None, "start", "end"])
def test_a_series_may_have_no_times(since):
    """Where hidden rows are asked for, some series have none; of all kinds of empty lists."""
    for nothing in ([], (), np.empty(0), np.empty(0, dtype=object), pd.DatetimeIndex([])):
        times, offsets = query_times(PLAIN, [[1.0, 2.0], nothing], since)
        assert (times - (since == "end")).tolist() == [1.0, 2.0]
        assert offsets.tolist() == [0, 2, 2]
        assert query_times(PLAIN, [nothing, [1.0]], since)[1].tolist() == [0, 0, 1]
    asked = {None: pd.DatetimeIndex(["2024-01-01 06:00"], tz=DATED.tz)}.get(since, ["1h"])
    for panel in (DATED, DATED.since_start()):
        assert query_times(panel, [[], asked], since)[1].tolist() == [0, 0, 1]


def test_missing_datetimes():
    with pytest.raises(ValueError, match="must be finite, got a missing time at position 1"):
        query_times(DATED, pd.DatetimeIndex(["2024-01-01", pd.NaT]))


@pytest.mark.parametrize("unit", ["us", "ms", "s", "min", "h", "D"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_the_remedy_for_counts_can_be_followed(unit, zone):
    panel = Panel.from_series([(DAYS.tz_localize(zone), [5, 6])], time_unit=unit)
    with pytest.raises(TypeError, match=r"(pandas\.to_datetime\(.*\))\.$") as caught:
        query_times(panel, panel.times)
    call = str(caught.value).partition("with pandas")[2][:-1]
    stamps = eval(f"pandas{call}", {"pandas": pd, "times": panel.times})
    assert query_times(panel, stamps)[0].tolist() == panel.times.tolist()


@pytest.mark.parametrize("year", [1, 1700, 2318, 9999])
def test_moments_beyond_what_nanoseconds_reach(year):
    """Differences of them do not fit into 64 bits: they must not come out on the other side."""
    rows = np.array(["2026-01-01", "2026-01-02T00:00:00.000000001"], "M8[ns]")
    seen = Panel.from_series([(rows, [5.0, 6.0])], time_unit="D").since_start()
    asked = np.datetime64(f"{year:04}-01-01")
    flat, offsets = query_times(seen, [asked])
    days = (asked - np.datetime64("2026-01-01")).astype(int)
    np.testing.assert_allclose(flat, days, rtol=1e-12)
    found = seen.like(flat, np.ones((1, 1)), offsets).user_times()
    assert abs(found[0].to_numpy() - asked) < np.timedelta64(1, "ms")
    near = seen.like(np.array([1.0]), np.ones((1, 1)), offsets).user_times()
    assert near[0] == pd.Timestamp("2026-01-02")
