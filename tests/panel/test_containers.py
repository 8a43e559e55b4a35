"""Containers of series by id, and the ways between them and panels."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sktime.datatypes import check_is_mtype

from skpolyode import HiPPOTransformer
from skpolyode.panel import Panel, as_panel, is_ragged

DAYS = pd.to_datetime(["2024-01-01", "2024-01-03", "2024-01-02"])


@pytest.fixture
def panel() -> Panel:
    return Panel(
        DAYS,
        [[1.0, np.nan], [2.0, 5.0], [3.0, 6.0]],
        [0, 2, 3],
        ids=["ann", "bob"],
        channel_names=["hr", "bp"],
        static=pd.DataFrame({"age": [71, 45]}, index=["ann", "bob"]),
        time_unit="D",
    )


def test_a_dict_of_series_has_ids():
    table = pd.DataFrame({"who": ["b", "a", "b"], "t": [0.0, 0.5, 2.0], "hr": [1.0, 2.0, 3.0]})
    groups = {k: g.set_index("t")[["hr"]] for k, g in table.groupby("who")}
    expected = Panel.from_long(table.sort_values("who"), id="who", time="t")
    assert as_panel(groups).equals(expected)
    pairs = {"a": ([0.5], [2.0]), "b": ([0.0, 2.0], [1.0, 3.0])}
    assert as_panel(pairs).ids.tolist() == ["a", "b"]
    assert_array_equal(as_panel(pairs).values, expected.values)
    assert HiPPOTransformer().fit_transform(groups).shape == (2, 32)
    pairs = list(table.set_index("t")[["who", "hr"]].groupby("who"))
    with pytest.raises(TypeError, match=r"keys beside frames.* in a dict by key"):
        as_panel(pairs)


def test_id_and_time_may_stand_in_the_index_of_a_long_frame(panel):
    table = panel.to_long()
    for levels in (["id"], ["time"], ["id", "time"]):
        again = Panel.from_long(table.set_index(levels), id="id", time="time", time_unit="D")
        assert_array_equal(again.values, panel.values)
        assert again.channel_names == ("hr", "bp")


def test_an_array_of_series_is_read_back(panel):
    array = np.asarray(panel)
    assert array.shape == (2,)
    frame = pd.DataFrame({"series": array})
    for X in (array, array[:, None], list(array), frame, frame["series"]):
        assert is_ragged(X)
        assert as_panel(X).equals(panel)
    assert as_panel(array[[1, 1, 0]]).ids.tolist() == ["bob", "bob", "ann"]
    with pytest.raises(TypeError, match=r"no array of float64.*Resampler"):
        np.asarray(panel, dtype=np.float64)


class Mean(TransformerMixin, BaseEstimator):
    """The mean of each series."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.array([[values.mean()] for _, values in as_panel(X)])


def test_what_only_knows_arrays_and_frames_takes_series():
    y = np.arange(20) % 2
    panel = Panel.from_series([([0.0, 1.0], [n, n + 0.5]) for n in y])
    frame = pd.DataFrame({"series": np.asarray(panel), "age": 1.0})
    columns = ColumnTransformer([("mean", Mean(), ["series"]), ("age", "passthrough", ["age"])])
    assert_array_equal(columns.fit_transform(frame)[:, 0], y + 0.25)
    model = make_pipeline(Mean(), LogisticRegression())
    bagging = BaggingClassifier(model, n_estimators=3, random_state=0)
    X = np.asarray(panel)[:, None]
    assert_array_equal(bagging.fit(X, y).predict(X), y)


def test_panels_are_put_one_behind_the_other(panel):
    assert Panel.concat([panel[:1], panel[1:]]).equals(panel)
    swapped = panel[1:].select_channels(["bp", "hr"])
    assert Panel.concat([panel[:1], swapped]).equals(panel)
    twice = Panel.concat([panel, panel], ids=list("abcd"))
    assert twice.ids.tolist() == twice.static.index.tolist() == list("abcd")
    assert twice.lengths.tolist() == [2, 1, 2, 1]


def test_panels_that_do_not_fit_together(panel):
    plain = Panel.from_series([([0.0], [[1.0, 2.0]])])
    days = DAYS.sort_values()
    other_names = Panel(days, panel.values, [0, 3], channel_names=["hr", "temp"], time_unit="D")
    for panels, match in (
        ([], "no panel"),
        ([panel, plain], "panel 1 has times in plain numbers, panel 0 in datetimes"),
        (
            [panel, other_names],
            r"panel 1 has the channels \['hr', 'temp'\], but panel 0 has \['hr', 'bp'\]; give all",
        ),
        (
            [plain, Panel.from_series([([0.0], [[1.0]])], channel_names=["hr"])],
            r"panel 0 has the channels \['x0', 'x1'\], but panel 1 has \['hr'\]; give all",
        ),
        ([panel, Panel(days, panel.values, [0, 3], time_unit="D")], "different static columns"),
    ):
        with pytest.raises(ValueError, match=match):
            Panel.concat(panels)
    with pytest.raises(ValueError, match="its id occurs before"):
        Panel.concat([plain, plain], ids=["a", "a"])


def test_series_are_found_by_their_ids(panel):
    assert panel.select_ids(["bob", "ann"]).ids.tolist() == ["bob", "ann"]
    assert panel.select_ids("bob").equals(panel[1:])
    keys = Panel.from_series([([0], [1]), ([0], [2])], ids=[("a", 1), ("b", 2)])
    assert keys.select_ids(("b", 2)).values.tolist() == [[2.0]]
    assert keys.select_ids([("b", 2), ("a", 1)]).values.tolist() == [[2.0], [1.0]]
    with pytest.raises(KeyError, match="no series with the id 'eve'"):
        panel.select_ids(["ann", "eve"])
    with pytest.raises(ValueError, match="id 'ann' belongs to several series"):
        panel[[0, 0]].select_ids("ann")


def test_frames_are_undone(panel):
    frames = panel.to_frames()
    again = Panel.from_frames(frames, ids=panel.ids, static=panel.static, time_unit="D")
    assert again.equals(panel)


def test_describe(panel):
    table = panel.describe()
    assert table.index.tolist() == ["hr", "bp", "(any)"]
    figures = table.loc["hr", :"longest_gap"]
    assert figures.tolist() == [2, 3, 1.0, 1.5, 2.0, 1.0, 1.0, 3.0, 2.0, 2.0]
    assert table.loc["bp", ["series", "cells", "share"]].tolist() == [2, 2, 2 / 3]
    assert table.loc["bp", ["median_gap", "longest_gap"]].isna().all()
    assert table["cells"].dtype.kind == "i"


def test_describe_ends_with_the_rows_of_all_channels():
    """Which say more than any channel where these are observed apart."""
    nan = np.nan
    apart = [[1.0, nan], [nan, 2.0], [nan, nan], [3.0, nan], [nan, 4.0]]
    panel = Panel.from_series([([0.0, 1.0, 2.0, 4.0, 5.0], apart), ([0.0], [[1.0, 2.0]])])
    columns = ["series", "cells", "share", "per_series", "median_gap", "longest_gap"]
    table = panel.describe()
    assert table.loc["(any)", columns].tolist() == [2, 5, 5 / 6, 2.5, 1.0, 3.0]
    assert table.loc["x0", columns].tolist() == [2, 3, 0.5, 1.5, 4.0, 4.0]
    assert table.loc["(any)", ["mean", "std", "min", "max"]].isna().all()
    assert Panel.from_series([([0.0], [nan])], empty="keep").describe()["cells"].tolist() == [0, 0]


def test_equal_panels(panel):
    assert panel == pickle.loads(pickle.dumps(panel))
    assert panel != panel[[1, 0]]
    assert panel != 3
    assert len({panel, panel[:], panel[:1]}) == 2


@pytest.mark.parametrize("index", [DAYS.sort_values(), pd.Index([0, 2, 5]), pd.Index([0.0, 2, 5])])
def test_a_table_for_sktime(index):
    series = [(index, [[1.0, 2.0], [np.nan, 3.0], [4.0, 5.0]]), (index[1:], [[1.0, 2.0]] * 2)]
    panel = Panel.from_series(series, ids=["ann", "bob"], channel_names=["hr", "bp"])
    table = panel.to_sktime()
    assert check_is_mtype(table, "pd-multiindex", scitype="Panel")
    assert Panel.from_sktime(table) == panel
    irregular = Panel.from_series([([0.0, 0.7], [1.0, 2.0])])
    assert Panel.from_sktime(irregular.to_sktime()).equals(irregular.select_channels(["x0"]))
