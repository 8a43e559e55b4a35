from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from skpolyode.errors import FaultKind, Faults
from skpolyode.panel import Panel, as_panel

GOOD = ([0.0, 1.0], [1.0, 2.0])
NAN, INF = np.nan, np.inf


def message(make) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        make()
    return str(caught.value)


@pytest.mark.parametrize(
    ("pair", "line", "remedy"),
    [
        (([0.0, 3.0, 2.0], [1, 2, 3]), "time 2: times must increase, .* is 3", "pass sort=True"),
        (([0.0, 2.0, 2.0], [1, 2, 3]), "time 2: the row before it has the same time", '"mean"'),
        (
            ([0.0, NAN], [1, 2]),
            "row 1, missing time: the time must be finite",
            "repair their times",
        ),
        (([0.0, INF], [1, 2]), "row 1, time inf: the time must be finite", "repair their times"),
        (([-INF, 0.0], [1, 2]), "row 0, time -inf: the time must be finite", "drop these rows"),
        (([0.0, 1.5], [1, INF]), "channel 'hr', time 1.5: .* infinity, got inf", "by NaN"),
        (([0.0, 1.5], [1, -INF]), "channel 'hr', time 1.5: .* infinity, got -inf", "by NaN"),
        (([0.0, 1.5], [NAN, NAN]), r"all values of its 2 row\(s\) are NaN", "leave these"),
        (([], []), "has no rows", "leave these series out"),
        (([0.0, 1.0, 2.0], [1, 2]), "3 times but 2 rows of values", "one time for each row"),
        (([0.0], [[[1.0]]]), r"values of shape \(1, 1, 1\)", "values of shape"),
        (([[0.0]], [1.0]), r"times of shape \(1, 1\)", "times of shape"),
        ((0.0, 1.0), r"times of shape \(\), values of shape \(\)", "times of shape"),
        (([0.0], [[1.0, 2.0]]), r"2 channel\(s\), where series 0 .* has 1", "NaN where one"),
        (([0.0, 4.0], [1.0, "high"]), r"'hr', time 4: not a number, got 'high' \(str\)", "one-hot"),
        (([0.0, 4.0], ["1.5", "2"]), r"'hr', time 0: not a number, got '1.5'", "convert them"),
        (([0.0], [{}]), r"not a number, got \{\} \(dict\)", "convert them"),
        (([0.0], [pd.Timestamp("2024")]), "not a number, got Timestamp", "convert them"),
        (([0.0], np.array(["2024"], "M8[ns]")), r"not a number, got datetime\.datetime", "convert"),
        (
            (
                [0.0],
                [
                    np.timedelta64(5, "ns"),
                ],
            ),
            r"not a number, got datetime\.timedelta",
            "convert",
        ),
    ],
)
def test_each_fault_names_its_place_and_its_remedy(pair, line, remedy):
    def make():
        Panel.from_series([GOOD, pair], ids=["a", "p07"], channel_names=["hr"])

    text = message(make)
    assert "series 1 (id 'p07')" in text
    assert re.search(line, text), text
    assert remedy in text


def test_names_without_ids_and_names():
    text = message(lambda: as_panel([GOOD, ([0.0], [INF])]))
    assert text.startswith("X: series 1, channel 'x0', time 0: values must not be infinity")


@pytest.mark.parametrize("cell", [np.timedelta64(5, "ns"), np.datetime64("2024", "ns")])
def test_dates_among_objects_are_no_numbers(cell):
    objects = np.array([cell, None], dtype=object)
    assert "time 0: not a number" in message(lambda: as_panel([([0.0, 1.0], objects)]))


def test_an_infinite_time_is_one_fault():
    text = message(lambda: as_panel([([INF, 0.0, NAN, 1.0], [1.0, 2.0, 3.0, 4.0])]))
    assert text.startswith("X has 2 faults:")
    assert "times out of order" not in text


def test_the_name_of_the_input_starts_the_message():
    text = message(lambda: as_panel([([0.0], [INF])], name="validation set"))
    assert text.startswith("validation set: series 0")
    with pytest.raises(TypeError, match=r"y is one bare Series; wrap it in a list, \[y\]"):
        as_panel(pd.Series([1.0, 2.0]), name="y")


def test_a_remedy_names_the_method_that_was_called():
    table = pd.DataFrame({"id": 0, "t": [0.0, 0.0], "x": [1.0, 2.0]})
    stacked = table.set_index(["id", "t"])
    for maker, make in {
        "Panel": lambda: Panel([0.0, 0.0], [[1.0], [2.0]], [0, 2]),
        "Panel.from_series": lambda: Panel.from_series([([0.0, 0.0], [1.0, 2.0])]),
        "Panel.from_frames": lambda: Panel.from_frames([table[["x"]].set_axis([0.0, 0.0])]),
        "Panel.from_array": lambda: Panel.from_array(np.ones((1, 2)), times=[0.0, 0.0]),
        "Panel.from_long": lambda: Panel.from_long(table, id="id", time="t"),
        "Panel.from_sktime": lambda: Panel.from_sktime(stacked),
        r"Panel, Panel\.from_series, \.\.\.": lambda: as_panel([([0.0, 0.0], [1.0, 2.0])]),
    }.items():
        with pytest.raises(ValueError, match=f'"last" to {maker} to merge rows of equal time'):
            make()


def test_a_datetime_is_shown_as_such():
    times = pd.DatetimeIndex(["2024-03-02 10:00", "2024-03-01"], tz="Europe/Berlin")
    text = message(lambda: as_panel([(times, [1.0, 2.0])]))
    assert "time 2024-03-01 00:00:00+01:00: times must increase" in text
    assert "before it is 2024-03-02 10:00:00+01:00" in text
    text = message(lambda: as_panel([(times[::-1], [1.0, "x"])]))
    assert "time 2024-03-02 10:00:00+01:00: not a number" in text
    text = message(lambda: as_panel([(pd.to_timedelta([1], "h"), ["x"])]))
    assert "time 3600: not a number" in text  # as `times` has it


def test_not_a_time():
    times = pd.DatetimeIndex(["2024-03-02", pd.NaT])
    text = message(lambda: as_panel([(times, [1.0, 2.0])]))
    assert "series 0, row 1, missing time: the time must be finite" in text


def test_all_faults_come_in_one_error():
    series = [
        ([1.0, 0.0], [1.0, INF]),
        ([0.0, 0.0], [1.0, 2.0]),
        ([0.0, 1.0], [NAN, NAN]),
        ([0.0, 1.0], [1.0]),
        ([0.0], ["x"]),
        ([0.0], [[1.0, 2.0]]),
        ([NAN], [1.0]),
    ]
    text = message(lambda: Panel.from_series(series, ids=list("aabcdef"), channel_names=["u", "v"]))
    for line in (
        "series 0 (id 'a'), time 0: times must increase, but the time before it is 1",
        "series 0 (id 'a'), channel 'x0', time 0: values must not be infinity, got inf",
        "series 1 (id 'a'), time 0: the row before it has the same time",
        "series 1 (id 'a'): its id occurs before",
        "series 2 (id 'b'): all values of its 2 row(s) are NaN",
        "series 3 (id 'c'): 2 times but 1 rows of values",
        "series 4 (id 'd'), channel 'u', time 0: not a number, got 'x' (str)",
        "series 5 (id 'e'): 2 channel(s), where series 0 (id 'a') has 1",
        "series 6 (id 'f'), row 0, missing time: the time must be finite",
        "2 channel names for 1 channels",
    ):
        assert line in text
    assert text.startswith("series has 10 faults:")
    assert "more" not in text
    assert text.count("\n") == 1 + 10 + 10


def test_places_stay_right_when_series_before_are_left_out():
    series = [([0.0, 1.0], [1.0]), GOOD, ([], []), ([0.0], [INF])]
    text = message(lambda: as_panel(series))
    assert "series 0: 2 times but 1 rows" in text
    assert "series 2: has no rows" in text
    assert "series 3, channel 'x0', time 0: values must not be infinity" in text


def test_cells_of_a_series_of_a_wrong_shape_are_told_as_well():
    series = [GOOD, ([0.0, 1.0, 2.0], ["low", 1.0]), ([0.0], np.array([[1.0, {}]], object))]
    found = message(lambda: as_panel(series))
    assert "series 1: 3 times but 2 rows of values" in found
    assert "series 1, values[0, 0]: not a number, got 'low' (str)" in found
    assert "series 2, values[0, 1]: not a number, got {} (dict)" in found


def test_when_no_series_fits_only_the_reason_is_told():
    text = message(lambda: Panel.from_series([([0.0], [])], channel_names=["u", "v"]))
    assert text.startswith("series: series 0: 1 times but 0 rows of values. Remedy:")


def test_a_bad_cell_is_no_other_fault_besides():
    text = message(lambda: as_panel([([0.0], ["x"])]))
    assert text.startswith("X: series 0, channel 'x0', time 0: not a number")


def test_ten_lines_and_the_total():
    values = np.ones((47, 3))
    values[:, 1] = INF
    text = message(lambda: Panel(np.arange(47), values, [0, 47]))
    assert text.startswith("Panel has 47 faults:\n")
    assert text.count("values must not be infinity") == 10
    assert "\n  ... and 37 more, 47 in all\n" in text
    assert "infinite values (47): replace them by NaN" in text


def test_every_kind_is_shown_however_many_come_before():
    times = np.zeros(100)
    times[-1] = -1.0
    values = np.full((100, 1), INF)
    text = message(lambda: Panel(times, values, [0, 100]))
    assert text.count("times must increase") == 1
    assert text.count("has the same time") == 8
    assert text.count("values must not be infinity") == 1
    assert "... and 189 more, 199 in all" in text


def test_duplicates_across_series_are_none():
    panel = as_panel([([0.0, 1.0], [1, 2]), ([1.0, 2.0], [1, 2]), ([0.0], [1])])
    assert panel.n_observations == 5


def test_rows_without_values_are_kept():
    panel = as_panel([([0.0, 1.0, 2.0], [[NAN, NAN], [1.0, NAN], [NAN, NAN]])])
    assert panel.lengths.tolist() == [3]


@pytest.mark.parametrize(
    ("second", "line"),
    [
        (["b", "a"], r"series 1: columns \['b', 'a'\], where series 0 has \['a', 'b'\]"),
        (["a", "c"], r"columns \['a', 'c'\]"),
        (["a"], r"1 channel\(s\), where series 0 has 2"),
    ],
)
def test_columns_must_agree(second, line):
    frames = [pd.DataFrame(np.ones((1, len(c))), columns=c) for c in (["a", "b"], second)]
    assert re.search(line, message(lambda: as_panel(frames)))


def test_long_column_lists_are_cut():
    frames = [pd.DataFrame(np.ones((1, 9)), columns=list(c)) for c in ("abcdefghi", "bacdefghi")]
    text = message(lambda: as_panel(frames))
    assert "['b', 'a', 'c', 'd', 'e', 'f', ...]" in text
    assert "frame.reindex(columns=...)" in text


def test_a_cell_of_a_frame_is_named_by_its_column():
    cells = {"hr": [61.0, 62.0, 63.0], "state": [1.0, "bad", 2.0]}
    frame = pd.DataFrame(cells, index=[0.5, 2.5, 3.0])
    text = message(lambda: as_panel([frame]))
    assert "series 0, channel 'state', time 2.5: not a number, got 'bad' (str)" in text
    text = message(lambda: as_panel([frame, frame]))
    assert "cells that are not numbers (2)" in text


def test_a_cell_of_an_array_is_named():
    X = pd.DataFrame([[1.0, 2.0], [3.0, "x"]], index=["p", "q"])
    assert "series 1 (id 'q'), channel 'x0', time 1: not a number" in message(lambda: as_panel(X))
    rows = [[1, 2], [3, None], [3, 2]], [[5, 6], [7, "x"], [6, 6]]
    cube = np.array(rows, dtype=object)
    assert "series 1, channel 'x1', time 1: not a number" in message(lambda: as_panel(cube))
    flat = np.array([[1, 2], [3, "x"]], dtype=object)
    text = message(lambda: Panel([0, 5], flat, [0, 1, 2]))
    assert "series 1, channel 'x1', time 5: not a number" in text


def test_labels_that_do_not_fit():
    def make(**labels):
        return message(lambda: Panel.from_series([GOOD, GOOD], **labels))

    assert "3 ids for 2 series" in make(ids=[1, 2, 3])
    assert "series 1 (id 'a'): its id occurs before" in make(ids=["a", "a"])
    assert "series 1 (id 3): its id occurs before" in make(ids=np.array([3, 3]))
    assert "2 channel names for 1 channels" in make(channel_names=["u", "v"])
    assert "3 static rows for 2 series" in make(static=np.zeros((3, 1)))
    twice = message(lambda: as_panel([pd.DataFrame(np.ones((1, 2)), columns=["a", "a"])]))
    assert "channel name 'a' occurs more than once" in twice


def test_collector_without_faults_does_nothing():
    faults = Faults()
    kind = FaultKind("something", "nothing")
    faults.add(kind, [])
    faults.add(kind, ["never counted"], 0)
    assert not faults
    assert faults.total == 0
    faults.raise_if_any()


def test_collector_counts_over_many_calls():
    faults = Faults("X", ids=np.array([10, 11]))
    kind, other = FaultKind("a", "mend a"), FaultKind("b", "mend b")
    for number in range(30):
        faults.add(kind, [f"line {number}"])
    faults.add(other, ["the other"], 5)
    assert faults.total == 35
    assert faults.series(1) == "series 1 (id 11)"
    assert faults.series(2) == "series 2"
    assert faults.series(-1) == "series -1"
    dated = Faults("X", ids=np.array(["2024-01-01"], dtype="M8[ns]"))
    assert dated.series(0).startswith("series 0 (id '2024-01-01T00:00:00")
    with pytest.raises(
        ValueError, match=r"(?s)35 faults.*line 8\n  the other\n  \.\.\. and 25 more"
    ):
        faults.raise_if_any()


@pytest.mark.parametrize("make", [Panel.from_series, Panel.from_frames])
def test_what_is_no_list_is_named(make):
    with pytest.raises(
        TypeError, match=r"(series|frames) must be a list of series, got <class 'int'>"
    ):
        make(3)


def test_local_times_that_go_back_where_clocks_do_are_not_just_unsorted():
    """To sort them would mix both hours."""
    local = pd.date_range("2026-10-25 00:20", periods=4, freq="25min", tz="UTC")
    times = local.tz_convert("Europe/Berlin").tz_localize(None)
    frame = pd.DataFrame({"x": np.arange(4.0), "y": 0.0}, index=times)
    with pytest.raises(ValueError, match=r"clocks were set back there.*tz_localize\(zone, amb"):
        Panel.from_frames([frame])
    days = pd.date_range("2026-10-24", periods=4)[::-1]
    with pytest.raises(ValueError, match=r"times out of order \(3\): pass sort=True"):
        Panel.from_frames([frame.set_axis(days)])


def test_series_without_static_covariates_are_named():
    table = pd.DataFrame({"id": ["a", "b", "c"], "t": 0.0, "x": 1.0})
    static = pd.DataFrame({"age": [50, 60]}, index=["a", "c"])
    with pytest.raises(ValueError, match="2 static rows for 3 series, none for b"):
        Panel.from_long(table, id="id", time="t", static=static)
