"""Channels are known by their names wherever they have any."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skpolyode.panel import Panel, as_panel

T, AB = np.arange(3.0), np.array([[1.0, 4.0], [2.0, np.nan], [3.0, 6.0]])


def frame(columns: object) -> Panel:
    return as_panel([pd.DataFrame(AB, columns=columns)])


def align(panel: Panel, names: list[str], named: bool = True) -> Panel:
    return panel.align_channels(names, named=named, owner="Owner")


def test_channels_of_a_tidy_table_are_in_the_order_of_their_names():
    table = pd.DataFrame(
        {"id": 0, "t": [0.0, 0.0, 1.0], "what": ["x1", "x0", "x1"], "x": [1.0, 2.0, 3.0]}
    )
    for part in (table, table[::-1]):
        panel = Panel.from_long(part, id="id", time="t", channel="what", value="x")
        assert panel.channel_names == ("x0", "x1")
        assert_array_equal(panel.values, [[2.0, 1.0], [np.nan, 3.0]])
    numbers = table.assign(what=[10, 9, 10])
    panel = Panel.from_long(numbers, id="id", time="t", channel="what", value="x")
    assert panel.channel_names == ("9", "10")
    mixed = table.assign(what=["b", 1, "b"])
    panel = Panel.from_long(mixed, id="id", time="t", channel="what", value="x")
    assert panel.channel_names == ("1", "b")


@pytest.mark.parametrize(
    ("panel", "named"),
    [
        (frame(["x1", "x0"]), True),
        (frame([1, 0]), True),
        (frame(None), False),
        (as_panel([(T, AB)]), False),
        (Panel.from_series([(T, AB)], channel_names=["x0", "x1"]), True),
        (as_panel(AB[None]), False),
        (as_panel([pd.Series(T, name="hr")]), True),
        (as_panel([pd.Series(T)]), False),
    ],
)
def test_a_panel_knows_whether_its_names_were_given(panel, named):
    same = panel.like(panel.times, panel.values, panel.offsets)
    for known in (panel, panel[[0]], same, pickle.loads(pickle.dumps(panel)), copy.copy(panel)):
        assert known.has_channel_names is named


def test_channels_are_chosen_by_name():
    panel = frame(["hr", "bp"])
    chosen = panel.select_channels(["bp", "hr"])
    assert chosen.channel_names == ("bp", "hr")
    assert_array_equal(chosen.values, AB[:, ::-1])
    assert panel.select_channels("bp").values.shape == (3, 1)
    assert frame([1, 0]).select_channels([0, 1]).channel_names == ("0", "1")
    assert_array_equal(panel.values, AB)
    # Of names that were made up, another order says what the channels are.
    array = as_panel(AB[None])
    assert array.select_channels(["x1"]).has_channel_names
    assert not array.select_channels(["x0", "x1"]).has_channel_names


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["hr", "pulse"], r"no channel 'pulse'; .*\['hr', 'bp'\]"),
        (["hr", "hr"], "'hr' is chosen more than once"),
        ([], "choose at least one"),
    ],
)
def test_channels_that_cannot_be_chosen(names, message):
    with pytest.raises(ValueError, match=message):
        frame(["hr", "bp"]).select_channels(names)


def test_a_series_without_observations_in_the_chosen_channels_is_told_when_used():
    panel = as_panel([pd.DataFrame({"a": [1.0], "b": [np.nan]})]).select_channels("b")
    with pytest.raises(ValueError, match="all values of its 1 row"):
        as_panel(panel)


def test_named_channels_are_brought_into_order():
    panel = frame(["x1", "x0"])
    assert align(panel, ["x1", "x0"]) is panel
    assert_array_equal(align(panel, ["x0", "x1"]).values, AB[:, ::-1])
    # Who numbers the columns of an array names them by position.
    for columns in (["x1", "x0"], [1, 0]):
        aligned = align(frame(columns), ["x0", "x1"], named=False)
        assert_array_equal(aligned.values, AB[:, ::-1])


def test_channels_without_names_are_taken_by_position():
    array, named = as_panel(AB[None]), frame(["hr", "bp"])
    assert_array_equal(align(array, ["x1", "x0"]).values, AB)
    assert_array_equal(align(array, ["hr", "bp"]).values, AB)
    assert_array_equal(align(named, ["x0", "x1"], named=False).values, AB)
    with pytest.raises(ValueError, match=r"X has 2 features, but Owner .* x0, x1 in place of hr"):
        align(array, ["hr"])


def test_other_names_are_refused_with_both_lists_and_a_remedy():
    panel = frame(["hr", "bp"])
    for names in (["hr", "temp"], ["hr"], ["hr", "bp", "temp"]):
        with pytest.raises(ValueError, match="Owner was fitted on") as caught:
            align(panel, names)
        assert str(["hr", "bp"]) in str(caught.value)
        assert str(names) in str(caught.value)
    with pytest.raises(ValueError, match=r"\['bp'\] are not known.*select_channels\(\['hr'\]\)"):
        align(panel, ["hr"])


def test_alignment_keeps_the_labels():
    table = pd.DataFrame({"hr": [1.0, 2.0], "bp": [3.0, 4.0]}, index=T[:2])
    panel = Panel.from_frames([table], ids=["ann"], static=pd.DataFrame({"age": [71]}, ["ann"]))
    aligned = align(panel, ["bp", "hr"])
    assert aligned.ids.tolist() == ["ann"]
    assert aligned.static["age"].tolist() == [71]
    assert_array_equal(aligned.times, panel.times)
