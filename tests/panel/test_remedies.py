"""Every remedy that an error message gives can be followed, and helps."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skpolyode import HiPPOTransformer
from skpolyode.panel import Panel, as_panel

NAN, INF = np.nan, np.inf
GOOD = ([0.0, 1.0], [1.0, 2.0])
REPEATED = [([0.0, 0.0, 1.0], [1.0, 3.0, 2.0])]
FRAMES = [pd.DataFrame({"a": [1.0], "b": [2.0]}), pd.DataFrame({"b": [2.0], "a": [1.0]})]
LONG = pd.DataFrame({"id": [1, 1], "t": [0.0, 1.0], "x": [1.0, 2.0], "age": [3, 4]})


def from_long(static):
    return Panel.from_long(LONG, id="id", time="t", values="x", static=static)


REMEDIES = {
    "pass sort=True to Panel": (
        lambda: as_panel([([1.0, 0.0], [2.0, 1.0])]),
        lambda: Panel.from_series([([1.0, 0.0], [2.0, 1.0])], sort=True),
    ),
    'pass duplicates="mean"': (
        lambda: as_panel(REPEATED),
        lambda: Panel.from_series(REPEATED, duplicates="mean"),
    ),
    "give pairs as (times, values)": (
        lambda: as_panel([(np.sin(np.arange(5.0)), np.arange(5.0))]),
        lambda: as_panel([(np.arange(5.0), np.sin(np.arange(5.0)))]),
    ),
    "or give them as int64": (
        lambda: as_panel([(10**17 + np.arange(3.0), [1.0, 2.0, 3.0])]),
        lambda: as_panel([(10**17 + np.arange(3), [1.0, 2.0, 3.0])]),
    ),
    "drop these rows": (
        lambda: as_panel([([0.0, NAN, 1.0], [1.0, 9.0, 2.0])]),
        lambda: as_panel([([0.0, 1.0], [1.0, 2.0])]),
    ),
    "replace them by NaN": (
        lambda: as_panel([([0.0, 1.0], [1.0, INF])]),
        lambda: as_panel([([0.0, 1.0], [1.0, NAN])]),
    ),
    "leave these series out": (
        lambda: as_panel([GOOD, ([0.0], [NAN])]),
        lambda: as_panel([GOOD]),
    ),
    'pass empty="keep" to Panel': (
        lambda: as_panel([([0.0], [NAN])]),
        lambda: Panel.from_series([([0.0], [NAN])], empty="keep"),
    ),
    "convert them to numbers": (
        lambda: as_panel([([0.0, 1.0], ["low", "high"])]),
        lambda: as_panel([([0.0, 1.0], pd.get_dummies(["low", "high"]))]),
    ),
    "frame.reindex": (
        lambda: as_panel(FRAMES),
        lambda: as_panel([frame.reindex(columns=["a", "b"]) for frame in FRAMES]),
    ),
    "keep in `static` only": (lambda: from_long(["age"]), lambda: from_long(None)),
    "leave out one of each two rows": (
        lambda: as_panel([([-1.0, 0.0, 5e-324], [1.0, 2.0, 3.0])]),
        lambda: as_panel([([-1.0, 0.0], [1.0, 2.0])]),
    ),
    "give them in a larger unit": (
        lambda: as_panel([([-1.7e308, 1.7e308], [1.0, 2.0])]),
        lambda: as_panel([([-1.7e299, 1.7e299], [1.0, 2.0])]),
    ),
}


@pytest.mark.parametrize("remedy", REMEDIES)
def test_remedy(remedy):
    wrong, mended = REMEDIES[remedy]
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is what the test is about
        wrong()
    assert remedy in str(caught.value)
    assert mended().n_series == 1 + (remedy == "frame.reindex")


def test_series_of_tuples_are_selected_as_the_message_says():
    panel = Panel.from_series([GOOD, GOOD], ids=[("a", 1), ("b", 2)])
    with pytest.raises(IndexError, match=r"panel\.select_ids\(\[\.\.\.\]\)"):
        panel["a"]
    assert panel.select_ids([("b", 2)]).ids.tolist() == [("b", 2)]


def test_estimators_name_a_remedy_that_they_take():
    with pytest.raises(ValueError, match=r"sort=True to Panel, Panel\.from_series"):
        HiPPOTransformer().fit([([1.0, 0.0], [2.0, 1.0])])
    HiPPOTransformer().fit(Panel.from_series([([1.0, 0.0], [2.0, 1.0])], sort=True))


def frame_pairs(table):
    return [("a", table.set_index("t")), ("b", table.set_index("t"))]


@pytest.mark.parametrize("read", [as_panel, Panel.from_series, Panel.from_frames])
@pytest.mark.parametrize(
    "group",
    [
        lambda table: table.groupby("id"),
        lambda table: table.groupby("id")["x"],
        lambda table: list(table.groupby("id")),
        lambda table: list(table.groupby(["id", "x"])),
        lambda table: list(table.groupby("id")["x"]),
        lambda table: pl.DataFrame(table.to_dict("list")).group_by("id"),
        lambda table: list(pl.DataFrame(table.to_dict("list")).group_by("id")),
        frame_pairs,
    ],
)
def test_a_groupby_knows_no_times(read, group):
    """As a dict of frames its row numbers would be the times."""
    table = LONG[["id", "t", "x"]]
    message = (
        r"as a groupby has: .* Panel\.from_long\(table, id=\.\.\., time=\.\.\.\); or, .* in a dict"
    )
    with pytest.raises(TypeError, match=message):
        read(group(table))
    assert Panel.from_long(table, id="id", time="t").times.tolist() == [0.0, 1.0]
    assert as_panel(dict(frame_pairs(table[["t", "x"]]))).ids.tolist() == ["a", "b"]


def test_generated_groups_know_no_times():
    groups = ((key, frame) for key, frame in LONG.groupby("id"))
    with pytest.raises(TypeError, match=r"series: series 0: has keys beside frames"):
        Panel.from_series(groups)


@pytest.mark.parametrize("key", [np.arange(2.0), (0.0, 1.0), [0.0, 1.0], pd.Index([0.0, 1.0])])
def test_times_beside_a_frame_are_no_key(key):
    pair = key, pd.DataFrame({"x": [5.0, 6.0]})
    assert Panel.from_series([pair]).times.tolist() == as_panel([pair]).times.tolist() == [0.0, 1.0]


NIGHT = [22.0, 23.0, 0.5, 2.0]
AGAIN = {
    "a night": NIGHT,
    "a counter": [65000, 65300, 65530, 300, 900],
    "a counter, three times": [30000, 60000, 200, 30000, 65000, 100, 400],
    "a logger": [0.0, 1.0, 2.0, 3.0, 0.0, 1.0],
    "its last row": [22.0, 22.5, 23.0, 0.5],
    "cycles": [0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2],
    "a short run first": [0, 1, 2, *range(9)],
}
DISORDER = {
    "two rows": [2.0, 1.0],
    "neighbours": [0.0, 1.0, 3.0, 2.0, 4.0],
    "the first two": [1.0, 0.0, 2.0, 3.0, 4.0],
    "a row too late": [1.0, 2.0, 0.0, 3.0, 4.0, 5.0, 6.0],
    "latest first": [5.0, 4.0, 3.0, 2.0, 1.0],
    "shuffled": [2.0, 6.0, 1.0, 5.0, 0.0, 3.0, 7.0, 4.0],
    "halves": [0.0, 1.0, 2.0, 3.0, 8.0, 9.0, 4.0, 5.0, 6.0, 7.0],
}
RESTART = (
    r"Remed.*: if a clock started again there .*midnight.* id=\[\.\.\.\]; if neither, pass sort=T"
)


def tables_of(times):
    values = np.column_stack([np.arange(len(times)) % 3, np.arange(len(times)) % 2])
    return pd.DataFrame(values, columns=["a", "b"]).assign(id="p", t=times), values


def with_inputs(table):
    series = table.iloc[:1].assign(a=1.0)
    return Panel.from_long(series, id="id", time="t", inputs=table)


DOORS = {
    "pairs": lambda times: Panel.from_series([(times, tables_of(times)[1])]),
    "list": lambda times: as_panel([(times, tables_of(times)[1])]),
    "flat": lambda times: Panel(times, tables_of(times)[1], [0, len(times)]),
    "array": lambda times: Panel.from_array(tables_of(times)[1][None], times),
    "frames": lambda times: Panel.from_frames([tables_of(times)[0].set_index("t")[["a", "b"]]]),
    "long": lambda times: Panel.from_long(tables_of(times)[0], id="id", time="t"),
    "sktime": lambda times: Panel.from_sktime(tables_of(times)[0].set_index(["id", "t"])),
    "inputs": lambda times: with_inputs(tables_of(times)[0]),
}


@pytest.mark.parametrize("read", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize("dated", [False, True])
@pytest.mark.parametrize("times", AGAIN.values(), ids=AGAIN)
def test_clocks_that_start_again_are_named_before_sorting(times, read, dated):
    times = pd.to_datetime(times, unit="D") if dated else np.array(times)
    with pytest.raises(ValueError, match=f"(?s)must increase.*{RESTART}"):
        read(times)


@pytest.mark.parametrize("dated", [False, True])
@pytest.mark.parametrize("times", DISORDER.values(), ids=DISORDER)
def test_rows_in_disorder_are_to_be_sorted(times, dated):
    times = pd.to_datetime(times, unit="D") if dated else np.array(times)
    with pytest.raises(ValueError, match=r"(?s)must increase.*: pass sort=True to Panel"):
        DOORS["long"](times)


def test_what_most_series_show_is_named():
    good, night, late = (np.arange(4.0), NIGHT, DISORDER["neighbours"])
    series = [(t, np.ones((len(t), 2))) for t in (good, night, good, late, night)]
    with pytest.raises(ValueError, match=f"(?s){RESTART}"):
        as_panel(series)
    with pytest.raises(ValueError, match=r"(?s)Remed.*: pass sort=True"):
        as_panel([*series, *series[3:4] * 2])


def test_a_stream_names_clocks_that_start_again():
    stream = HiPPOTransformer().fit([GOOD]).stream(1).update([21.0, 22.0], [1.0, 2.0], [0, 0])
    for times in ([23.0, 0.5, 2.0], [0.5]):
        with pytest.raises(ValueError, match=r"if a clock started again .* in the order of time"):
            stream.update(times, np.ones(len(times)), [0] * len(times))


def test_the_remedies_for_a_night_help():
    times = np.array(NIGHT)
    again = np.append(0, np.cumsum(np.diff(times) < 0))
    assert DOORS["pairs"](times + 24 * again).elapsed.tolist() == [0.0, 1.0, 2.5, 4.0]
