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
