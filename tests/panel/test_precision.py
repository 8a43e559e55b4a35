"""Datetimes and large integers are exact: differences are taken before they are rounded."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from skpolyode.panel import Panel, as_panel, query_times
from skpolyode.panel.query import name_query
from skpolyode.panel.select import keep_rows, take

START = pd.Timestamp("2024-02-29 12:34:56.789012300").value  # nanoseconds since 1970
NANO = START + np.array([0, 100, 10_000, 20_100])


def panel_of(*series: np.ndarray, **options) -> Panel:
    return Panel.from_series([(own, np.arange(1.0, 1 + len(own))) for own in series], **options)


def test_stamps_100_ns_apart_are_distinct():
    panel = panel_of(NANO.view("M8[ns]"))
    assert_array_equal(panel.elapsed, [0.0, 1e-7, 1e-5, 2.01e-5])
    assert_array_equal(panel.user_times().asi8, NANO)
    assert_array_equal(panel_of(NANO).elapsed, [0, 100, 10_000, 20_100])
    assert panel_of(NANO).user_times().tolist() == NANO.tolist()
    apart = panel_of(pd.to_timedelta(NANO - START)).elapsed
    assert_array_equal(apart, panel.elapsed)


@pytest.mark.parametrize("unit", ["ms", "s", "h", "D"])
@pytest.mark.parametrize("kind", ["M8[ns]", "M8[us]", "int64"])
def test_a_shift_by_a_day_moves_no_bit(unit, kind):
    ticks = START + 10_000 * np.random.default_rng(0).choice(10_000, 500, replace=False)
    ticks = np.sort(ticks)  # at 100 kHz
    day = 86_400_000_000_000
    here, there = (
        panel_of(own.view("M8[ns]").astype(kind), time_unit=None if kind == "int64" else unit)
        for own in (ticks, ticks + day)
    )
    assert_array_equal(here.elapsed, there.elapsed)
    assert_array_equal(here.since_start().times, there.since_start().times)
    assert_array_equal(here.since_start().elapsed, here.elapsed)
    per_unit = 1 if kind == "int64" else pd.Timedelta(1, unit).value
    exact = (ticks.astype(np.int64) - ticks[0]) // (1000 if kind == "M8[us]" else 1)
    assert_array_equal(here.elapsed, exact / (per_unit / (1000 if kind == "M8[us]" else 1)))


def forms(stamps: np.ndarray) -> dict[str, Panel]:
    """The same two series by every reader."""
    values = np.arange(1.0, 5.0)
    table = pd.DataFrame({"id": list("abab"), "t": stamps, "x": values})
    tidy = table.assign(what="x")
    index = pd.MultiIndex.from_arrays([list("aabb"), stamps[[0, 2, 1, 3]]])
    cells = [pd.Series(values[k::2], index=pd.Index(stamps[k::2])) for k in (0, 1)]
    options = {"ids": ["a", "b"], "channel_names": ["x"]}
    flat = stamps[[0, 2, 1, 3]], values[[0, 2, 1, 3]]
    return {
        "flat": Panel(*flat, [0, 2, 4], **options),
        "long": Panel.from_long(table, id="id", time="t"),
        "tidy": Panel.from_long(tidy[::-1], id="id", time="t", channel="what", value="x")[[1, 0]],
        "frames": Panel.from_frames([cell.to_frame("x") for cell in cells], ids=["a", "b"]),
        "array": Panel.from_array(
            values.reshape(2, 2).T, np.array([stamps[::2], stamps[1::2]]), **options
        ),
        "multiindex": Panel.from_sktime(pd.DataFrame({"x": flat[1]}, index=index)),
        "nested": Panel.from_sktime(pd.DataFrame({"x": cells}, index=["a", "b"])),
        "unsorted": Panel(
            flat[0][[1, 0, 3, 2]], flat[1][[1, 0, 3, 2]], [0, 2, 4], sort=True, **options
        ),
    }


@pytest.mark.parametrize("stamps", [NANO.view("M8[ns]"), NANO], ids=["datetimes", "integers"])
def test_every_reader_and_every_selection_is_exact(stamps):
    nanoseconds = NANO[[0, 2, 1, 3]]
    for name, panel in forms(stamps).items():
        same = pickle.loads(pickle.dumps(panel))
        values = panel.like(panel.times, panel.values + 1, panel.offsets)
        joined = Panel.concat([panel[:1], panel[1:]])
        for known in (panel, same, values, joined, panel[:], panel[[0, 1]]):
            found = np.asarray(known.user_times()).astype(np.int64)
            assert found.tolist() == nanoseconds.tolist(), name
        assert np.asarray(panel[[1]].user_times()).astype(np.int64).tolist() == [NANO[1], NANO[3]]
        part = keep_rows(panel, np.array([False, True, True, True]))
        assert np.asarray(part.user_times()).astype(np.int64).tolist() == nanoseconds[1:].tolist()
        cut = take(panel, np.array([1, 1]), np.array([2, 3]), np.array([4, 4]))
        assert cut.elapsed[1] == panel.elapsed[3]


def test_panels_seen_from_their_starts_are_joined_on_the_clock_of_the_user():
    panel = panel_of(NANO.view("M8[ns]"), NANO[2:].view("M8[ns]"), ids=["a", "b"])
    seen = panel.since_start()
    joined = Panel.concat([seen[:1], seen[1:]])
    assert joined.equals(panel)
    assert joined.since_start().equals(seen)


def test_a_panel_seen_from_its_start_answers_in_the_times_of_the_user():
    panel = panel_of(NANO.view("M8[ns]"), NANO[2:].view("M8[ns]"), ids=["a", "b"])
    seen = panel.since_start()
    assert_array_equal(seen.times[4:], [0.0, 1.01e-5])
    assert seen.user_times().equals(panel.user_times())
    assert str(seen) == str(panel)
    stamps = pd.DatetimeIndex(NANO[1:2].view("M8[ns]"))
    flat, offsets = query_times(seen, stamps)
    assert_array_equal(flat, [1e-7, -9.9e-6])
    answer = seen.like(flat, np.ones((2, 1)), offsets)
    assert answer.user_times().equals(stamps.append(stamps))
    assert_array_equal(answer.times, panel.times[[1, 1]])
    flat, _ = query_times(seen[[1]], [stamps])
    assert_array_equal(flat, [-9.9e-6])
    assert "12:34:56.789012400, 3 s" in name_query(seen, 0, 1e-7, 3.0)
    own = seen.like(seen.times, seen.values, seen.offsets)
    assert own.equals(panel)
    plain = as_panel([([1.0, 2.0], [3.0, 4.0])])
    assert plain.since_start() is plain


@given(st.lists(st.integers(-(2**50), 2**50), min_size=1, max_size=4), st.sampled_from(["s", "D"]))
def test_queries_from_the_start_are_exact(ticks, unit):
    stamps = pd.DatetimeIndex(np.array(ticks).view("M8[us]"))
    first = pd.DatetimeIndex(np.array([START // 1000]).view("M8[us]"))
    panel = panel_of(first, time_unit=unit)
    seen = panel.since_start()
    exact, offsets = query_times(seen, stamps)
    counts, _ = query_times(panel, stamps)
    per_unit = pd.Timedelta(1, unit) // pd.Timedelta(1, "us")
    assert_array_equal(exact, (np.array(ticks) - START // 1000) / per_unit)
    assert_array_equal(seen.like(exact, np.ones((len(ticks), 1)), offsets).times, counts)


def test_integers_may_be_asked_between():
    seen = panel_of(NANO).since_start()
    assert_array_equal(query_times(seen, NANO + 7)[0], NANO - START + 7)
    small = panel_of(np.array([2**60, 2**60 + 3])).since_start()
    assert query_times(small, [float(2**60)])[0].tolist() == [0.0]
    half = small.like(np.array([0.5]), np.ones((1, 1)), np.array([0, 1]))
    assert half.times.tolist() == [2.0**60]


def test_microseconds_stay_what_they_were():
    micro = (NANO // 1000 * 1000).view("M8[ns]")[[0, 2]]
    assert panel_of(micro).user_times().unit == "us"
    assert panel_of(NANO.view("M8[ns]")).user_times().unit == "ns"


def test_times_too_far_for_nanoseconds():
    far = np.array(["0001-01-01", "9999-12-31"], "M8[us]")
    panel = panel_of(far, NANO.view("M8[ns]")[[0, 2]])
    assert_array_equal(panel.user_times()[:2], far)
    wide = np.array([-(2**62) - 2, 2**62 + 2])
    assert panel_of(wide).elapsed.tolist() == [0.0, 2.0**63]


@pytest.mark.parametrize(
    ("times", "match"),
    [
        ([0.0, 1.0, 1.0 + 1e-300], "times must increase|the same time"),
        ([-1.0, 0.0, 1e-17], "lost to rounding.*leave out one of each two"),
        ([-1.7e308, 1.7e308], "too large for a number.*larger unit"),
        ([0, 10**400], r"times must be numbers or datetimes.*\(int\)"),
        ([0.1, 3 / 10, 3 * 0.1], r"time 0\.3: the row before it has the same time.*duplicates="),
        (np.array([START, START]).view("M8[ns]"), "the row before it has the same time"),
        (
            NANO[[1, 0]].view("M8[ns]"),
            r"56\.789012300: times must increase, .*56\.789012400",
        ),
    ],
)
def test_times_beyond_their_digits_are_told(times, match):
    with pytest.raises((ValueError, TypeError), match=match):
        as_panel([(times, np.ones(len(times)))])


def test_times_that_differ_by_rounding_are_one_moment():
    k = np.arange(1, 30)
    x, y = (pd.DataFrame({"id": 0, "t": t, name: k}) for t, name in ((0.1 * k, "x"), (k / 10, "y")))
    table = pd.concat([x, y])
    panel = Panel.from_long(table, id="id", time="t", sort=True, duplicates="mean")
    assert_array_equal(panel.values, np.column_stack([k, k]))
    np.testing.assert_allclose(panel.times, k / 10, rtol=1e-15)
    whole = 2.0**52 + np.arange(3)  # neighbours among floats, but no rounding
    assert Panel.from_series([(whole, [1.0, 2.0, 3.0])], duplicates="mean").n_observations == 3


def test_equal_stamps_are_merged_and_others_are_not():
    stamps = NANO[[0, 0, 1]].view("M8[ns]")
    panel = Panel.from_series([(stamps, [1.0, 3.0, 4.0])], duplicates="mean")
    assert panel.values.ravel().tolist() == [2.0, 4.0]
    table = pd.DataFrame({"id": 0, "t": stamps, "what": "x", "x": [1.0, 3.0, 4.0]})
    tidy = Panel.from_long(table, id="id", time="t", channel="what", value="x", duplicates="mean")
    assert tidy.values.ravel().tolist() == [2.0, 4.0]


def test_a_panel_before_its_first_row_keeps_its_origins():
    seen = panel_of(NANO.view("M8[ns]"), NANO[2:].view("M8[ns]")).since_start()
    for blank in (seen.without_rows(), pickle.loads(pickle.dumps(seen.without_rows()))):
        assert blank.lengths.tolist() == [0, 0]
        answer = blank.like(np.array([1e-7, 1.01e-5]), np.ones((2, 1)), np.array([0, 1, 2]))
        assert answer.user_times().asi8.tolist() == [NANO[1], NANO[3]]
        last = blank.like(np.array([np.nan, 0.0]), np.ones((2, 1)), np.array([0, 1, 2]))
        assert last.user_times()[0] is pd.NaT
