from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skpolyode.panel import Panel

SERIES = [([0.0], [1.0]), ([0.0], [2.0]), ([0.0], [3.0])]


def build(static, ids=("a", "b", "c")) -> Panel:
    return Panel.from_series(SERIES, ids=list(ids), static=static)


def test_static_is_aligned_by_ids():
    table = pd.DataFrame({"age": [3, 1, 2]}, index=["c", "a", "b"])
    panel = build(table)
    assert panel.static["age"].tolist() == [1, 2, 3]
    assert panel[[2, 0]].static["age"].tolist() == [3, 1]
    assert table.index.tolist() == ["c", "a", "b"]


@pytest.mark.parametrize("index", [[0, 1, 2], ["x", "y", "z"], [9, 9, 9]])
def test_static_beside_named_series_needs_their_ids(index):
    table = pd.DataFrame({"age": [3, 1, 2]}, index=index)
    match = r"index of static holds none of the ids \('a', 'b', 'c'\).*static\.set_axis\(ids\)"
    with pytest.raises(ValueError, match=match):
        build(table)
    assert build(table.set_axis(list("abc"))).static["age"].tolist() == [3, 1, 2]
    counted = Panel.from_series(SERIES, static=table)
    assert counted.static["age"].tolist() == [3, 1, 2]
    assert counted.static.index.tolist() == [0, 1, 2]


def test_a_default_index_is_no_order_of_the_series():
    table = pd.DataFrame({"age": [3, 1, 2]})
    assert build(table, ids=[2, 0, 1]).static["age"].tolist() == [2, 3, 1]
    with pytest.raises(ValueError, match="some of the ids, but not each of them once"):
        build(table, ids=[1, 2, 3])
    long = pd.DataFrame({"who": ["b", "b", "a"], "t": [0.0, 1.0, 0.0], "x": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=r"none of the ids \('b', 'a'\)"):
        Panel.from_long(long, id="who", time="t", static=table[:2])


@pytest.mark.parametrize("index", [["a", "b", "d"], ["a", "b", "b"], ["a", "a", "c"]])
def test_static_with_some_of_the_ids_is_refused(index):
    with pytest.raises(ValueError, match="the index of static holds some of the ids, but not each"):
        build(pd.DataFrame({"age": [3, 1, 2]}, index=index))


def test_static_array_is_copied():
    array = np.array([[1.0], [2.0], [3.0]])
    panel = build(array)
    array[:] = 9.0
    assert panel.static[0].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "ids",
    [
        ["a", 1, None],
        [("a", 1), ("a", 2), ("b", 1)],
        np.array([3, 2, 1]),
        pd.Index(["u", "v", "w"]),
        pd.Series([1.5, 2.5, 3.5]),
        pd.DatetimeIndex(["2024-01-01", "2024-01-02", "2024-01-03"]),
    ],
    ids=["mixed", "tuples", "array", "index", "series", "dates"],
)
def test_ids_of_any_kind(ids):
    panel = Panel.from_series(SERIES, ids=ids, static=np.arange(3)[:, None])
    assert panel.ids.shape == (3,)
    assert list(pd.Index(panel.ids, tupleize_cols=False)) == list(ids)
    assert panel[[2, 0]].static[0].tolist() == [2, 0]


def test_ids_are_copied():
    ids = np.array([5, 6, 7])
    panel = Panel.from_series(SERIES, ids=ids)
    ids[:] = 0
    assert panel.ids.tolist() == [5, 6, 7]


def test_a_zero_among_the_ids_hides_nothing():
    with pytest.raises(TypeError, match="ids must be a 1-D sequence of labels"):
        Panel.from_series(SERIES, ids=[0, [1], 2])


def test_channel_names_become_text():
    panel = Panel.from_series([([0.0], [[1.0, 2.0]])], channel_names=np.array([1, 2]))
    assert panel.channel_names == ("1", "2")
