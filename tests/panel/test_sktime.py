"""sktime's containers, made by sktime's own conversions."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sktime.datasets import load_japanese_vowels
from sktime.datatypes import convert_to

from skpolyode.panel import Panel, as_panel

NAN = np.nan


@pytest.fixture(scope="module")
def vowels() -> dict[str, object]:
    nested, _ = load_japanese_vowels(split="train")
    nested = nested.iloc[:12]
    kinds = ("nested_univ", "df-list", "pd-multiindex")
    return {kind: convert_to(nested.copy(), kind) for kind in kinds}


def test_containers_of_unequal_series_agree(vowels):
    panels = {kind: Panel.from_sktime(X) for kind, X in vowels.items()}
    first = panels["df-list"]
    assert (first.n_series, first.n_channels) == (12, 12)
    assert len(set(first.lengths)) > 1
    for panel in panels.values():
        np.testing.assert_array_equal(panel.times, first.times)
        np.testing.assert_array_equal(panel.values, first.values)
        np.testing.assert_array_equal(panel.offsets, first.offsets)
        assert panel.ids.tolist() == list(range(12))
    assert as_panel(vowels["df-list"]).equals(first)


def test_numpy3d_has_channels_before_times():
    X = np.arange(24.0).reshape(2, 3, 4)
    panel = Panel.from_sktime(X)
    assert (panel.n_channels, panel.lengths.tolist()) == (3, [4, 4])
    np.testing.assert_array_equal(panel[1].values, X[1].T)
    assert panel.equals(as_panel(X.transpose(0, 2, 1)))
    by_index = Panel.from_sktime(convert_to(X, "pd-multiindex"))
    np.testing.assert_array_equal(by_index.values, panel.values)


def multiindexed() -> pd.DataFrame:
    days = pd.DatetimeIndex(["2024-01-01", "2024-01-05", "2024-01-02"])
    index = pd.MultiIndex.from_arrays([["b", "b", "a"], days], names=["who", "when"])
    return pd.DataFrame({"hr": [1.0, NAN, 3.0], "bp": [4.0, 5.0, 6.0]}, index=index)


def test_multiindex_keeps_labels_and_irregular_datetimes():
    X = multiindexed()
    panel = Panel.from_sktime(X, time_unit="D")
    assert panel.ids.tolist() == ["b", "a"]
    assert panel.channel_names == ("hr", "bp")
    assert panel.times.tolist() == [19723.0, 19727.0, 19724.0]
    np.testing.assert_array_equal(panel.values, X.to_numpy())


def test_hierarchies_are_named_by_all_upper_levels():
    index = pd.MultiIndex.from_tuples([("h", 1, 0), ("h", 1, 1), ("h", 2, 0), ("g", 1, 0)])
    panel = Panel.from_sktime(pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]}, index=index))
    assert panel.ids.tolist() == [("h", 1), ("h", 2), ("g", 1)]
    assert panel.lengths.tolist() == [2, 1, 1]


def test_channels_of_a_nested_frame_may_have_their_own_times():
    X = pd.DataFrame(
        {
            "u": [pd.Series([1.0, 2.0], index=[0.0, 1.5]), pd.Series([3.0], index=[0.0])],
            "v": [pd.Series([4.0, 5.0], index=[1.0, 1.5]), pd.Series([6.0], index=[9.0])],
        },
        index=["p", "q"],
    )
    panel = Panel.from_sktime(X)
    assert panel.ids.tolist() == ["p", "q"]
    assert panel.times.tolist() == [0.0, 1.0, 1.5, 0.0, 9.0]
    np.testing.assert_array_equal(
        panel.values, [[1.0, NAN], [NAN, 4.0], [2.0, 5.0], [3.0, NAN], [NAN, 6.0]]
    )


def test_nested_frames_of_arrays_and_repeated_labels():
    X = pd.DataFrame({"u": [np.array([1.0, 2.0]), np.array([3.0])]}, index=["p", "p"])
    panel = Panel.from_sktime(X)
    assert panel.ids.tolist() == [0, 1]
    assert panel.times.tolist() == [0.0, 1.0, 0.0]


def test_faults_of_nested_frames():
    twice = pd.DataFrame({"u": [pd.Series([1.0, 3.0], index=[2.0, 2.0])]}, index=["p"])
    with pytest.raises(ValueError, match=r"\(id 'p'\), time 2: channel 'u' occurs again"):
        Panel.from_sktime(twice)
    assert Panel.from_sktime(twice, duplicates="mean").values.tolist() == [[2.0]]
    text = pd.DataFrame({"u": [pd.Series([1.0]), pd.Series([1.0, "x"])]})
    with pytest.raises(
        ValueError, match=r"X: series 1 .*channel 'u', row 1: not a number, got 'x'"
    ):
        Panel.from_sktime(text)
    mixed = pd.DataFrame({"u": [pd.Series([1.0]), 5.0]})
    with pytest.raises(TypeError, match=r"series 1 .*channel 'u': the cell must hold a Series"):
        Panel.from_sktime(mixed)
    dates = pd.DatetimeIndex(["2024-01-01"])
    kinds = pd.DataFrame({"u": [pd.Series([1.0]), pd.Series([1.0], index=dates)]})
    with pytest.raises(
        TypeError, match="times must be of one kind in all series, got datetime and"
    ):
        Panel.from_sktime(kinds)


@pytest.mark.parametrize("X", [np.zeros((2, 2)), pd.DataFrame({"x": [1.0]}), "text", {}])
def test_other_containers(X):
    with pytest.raises(TypeError, match='X must be one of sktime\'s "nested_univ"'):
        Panel.from_sktime(X)


DAYS = pd.date_range("2024-01-01", periods=3)


@pytest.mark.parametrize(
    ("levels", "names"),
    [
        ([DAYS, range(2)], [None, None]),
        ([DAYS.to_period("D"), range(2)], ["time", "id"]),
        ([range(3), range(2)], ["time", "stay_id"]),
        ([["ward"], DAYS, list("ab")], ["ward", "when", "who"]),
    ],
)
def test_times_in_another_level_than_the_last_are_refused(levels, names):
    index = pd.MultiIndex.from_product(levels, names=names)
    X = pd.DataFrame({"x": np.arange(6.0)}, index=index)
    with pytest.raises(ValueError, match="the last must hold the times, but level") as caught:
        Panel.from_sktime(X)
    call = re.search(r"give (X\..*\))\. If", str(caught.value))[1]
    panel = Panel.from_sktime(eval(call, {"X": X}))
    assert panel.lengths.tolist() == [3, 3]
    assert panel.values.ravel().tolist() == [0, 2, 4, 1, 3, 5]


def test_days_may_be_ids_as_text():
    index = pd.MultiIndex.from_product([DAYS.astype(str), range(24)], names=["day", "hour"])
    assert Panel.from_sktime(pd.DataFrame({"x": np.ones(72)}, index=index)).n_series == 3
