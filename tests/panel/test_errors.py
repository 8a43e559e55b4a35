"""Known errors of observations, as panels hold them."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skpolyode.panel import Panel
from skpolyode.panel.rows import merge_duplicates
from skpolyode.panel.select import hide_cells, keep_rows, take

SERIES = [([0.0, 1.0, 2.0], [1.0, 2.0, 3.0]), ([0.0, 1.0], [4.0, 5.0])]
ERRORS = [[0.1, 0.2, np.nan], [0.0, 0.5]]


def known(**options) -> Panel:
    return Panel.from_series(SERIES, errors=ERRORS, ids=["a", "b"], **options)


def cells(panel: Panel) -> list[float | None]:
    return [None if np.isnan(x) else float(x) for x in panel.errors.ravel()]


CUT = np.array([1, 0]), np.array([4, 1]), np.array([5, 3])


@pytest.mark.parametrize(
    "change",
    [
        lambda panel: panel[[1, 0]],
        lambda panel: panel.since_start(),
        lambda panel: keep_rows(panel, np.arange(5) % 2 == 1),
        lambda panel: take(panel, *CUT),
        lambda panel: hide_cells(panel, panel.values > 3),
        lambda panel: panel.like(panel.times, panel.values, panel.offsets),
        lambda panel: Panel.concat([panel[[1]], Panel.from_series(SERIES, ids=["c", "d"]), panel]),
        lambda panel: pickle.loads(pickle.dumps(panel)),
        *(
            lambda panel, how=how: Panel.from_rows(
                merge_duplicates(
                    replace(panel.rows, times=panel.rows.times._replace(counts=np.zeros(5))), how
                )
            )
            for how in ("mean", "first", "last")
        ),
    ],
)
def test_a_further_column_follows_its_cells(change):
    """One that is ten times the values stays so, and errors stay beside it."""
    panel = known()
    panel = Panel.from_rows(panel.rows.with_beside(tenfold=10 * panel.values))
    assert not panel.equals(known())
    changed = change(panel)
    column = changed.rows.beside["tenfold"]
    assert changed.errors.shape == column.shape == changed.values.shape
    told = ~np.isnan(column)
    assert told.any()
    np.testing.assert_allclose(column[told], 10 * changed.values[told])
    assert not np.isnan(changed.values[told]).any()
    assert "tenfold" not in Panel.from_rows(changed.rows.with_beside(tenfold=None)).rows.beside


@pytest.mark.parametrize(
    "build",
    [
        lambda: known(),
        lambda: Panel(
            [0.0, 1.0, 2.0, 0.0, 1.0],
            [1.0, 2.0, 3.0, 4.0, 5.0],
            [0, 3, 5],
            errors=[0.1, 0.2, np.nan, 0.0, 0.5],
        ),
        lambda: Panel.from_frames(
            [pd.Series(x, index=t) for t, x in SERIES],
            errors=[pd.Series(e, index=t) for e, (t, _) in zip(ERRORS, SERIES, strict=True)],
        ),
        lambda: Panel.from_series(dict(zip("ab", SERIES, strict=True)), errors=ERRORS),
        lambda: Panel.from_series(
            dict(zip("ab", SERIES, strict=True)), errors=dict(zip("ba", ERRORS[::-1], strict=True))
        ),
        lambda: Panel.from_array(
            np.array([[1.0, 2.0, 3.0], [4.0, 5.0, np.nan]])[..., None],
            errors=np.array([[0.1, 0.2, np.nan], [0.0, 0.5, np.nan]]),
        ),
        lambda: Panel.from_long(known().to_long(), id="id", time="time", error="x0_error"),
        lambda: Panel.from_long(
            known().to_long().rename(columns={"x0": "value"}).assign(channel="x0").iloc[::-1],
            id="id",
            time="time",
            channel="channel",
            value="value",
            error="x0_error",
        )[[1, 0]],
    ],
    ids=["series", "flat", "frames", "dict", "dicts", "padded", "long", "one observation a row"],
)
def test_every_way_of_building_reads_them(build):
    assert cells(build()) == [0.1, 0.2, None, 0.0, 0.5]


@pytest.mark.parametrize("in_dict", [False, True])
def test_columns_of_frames_in_a_dict_are_matched_by_name(in_dict):
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]}, index=[0.0, 1.0])
    error = pd.DataFrame({"y": [0.3, 0.4], "x": [0.1, 0.2]}, index=[0.0, 1.0])
    tables = [error, 2 * error]
    given = dict(zip("ba", tables[::-1], strict=True)) if in_dict else tables
    panel = Panel.from_frames({"a": frame, "b": frame}, errors=given)
    expected = np.array([[0.1, 0.3], [0.2, 0.4]])
    np.testing.assert_array_equal(panel.errors, np.vstack([expected, 2 * expected]))


@pytest.mark.parametrize("series", [SERIES, dict(zip("ab", SERIES, strict=True))])
def test_errors_in_a_dict_need_series_with_the_same_keys(series):
    with pytest.raises(ValueError, match="series must be in a dict with the same keys"):
        Panel.from_series(series, errors=dict(zip("ac", ERRORS, strict=True)))


def test_a_panel_without_errors_has_none():
    assert Panel.from_series(SERIES).errors is None


def test_they_follow_their_cells():
    panel = known()
    assert cells(panel[[1, 0]]) == [0.0, 0.5, 0.1, 0.2, None]
    assert cells(panel.select_ids("b")) == [0.0, 0.5]
    assert cells(keep_rows(panel, np.arange(5) % 2 == 1)) == [0.2, 0.0]
    assert cells(take(panel, np.array([1]), np.array([4]), np.array([5]))) == [0.5]
    assert cells(hide_cells(panel, panel.values > 3)) == [0.1, 0.2, None, None, None]
    other = Panel.from_series([([3.0], [7.0])], ids=["c"])
    assert cells(Panel.concat([other, panel])) == [None, 0.1, 0.2, None, 0.0, 0.5]
    assert Panel.concat([other]).errors is None
    again = pickle.loads(pickle.dumps(panel))
    assert again.equals(panel)
    assert not again.equals(Panel.from_series(SERIES, ids=["a", "b"]))
    assert not panel.errors.flags.writeable
    back = Panel.from_long(panel.to_long(), id="id", time="time", error={"x0": "x0_error"})
    assert back.equals(
        Panel.from_series(SERIES, errors=ERRORS, ids=["a", "b"], channel_names=["x0"])
    )
    unsorted = [([2.0, 0.0, 1.0], [3.0, 1.0, 2.0]), SERIES[1]]
    errors = [[np.nan, 0.1, 0.2], ERRORS[1]]
    assert cells(Panel.from_series(unsorted, errors=errors, sort=True)) == cells(panel)
    days = pd.date_range("2024", periods=2)
    assert cells(Panel.from_series([(days, [1.0, 2.0])], errors=[[1, 2]]).since_start()) == [1, 2]


def test_channels_keep_theirs():
    panel = Panel([0.0], [[1.0, 2.0]], [0, 1], errors=[[0.1, 0.2]], channel_names=["g", "r"])
    assert cells(panel.select_channels(["r", "g"])) == [0.2, 0.1]
    table = panel.to_long()
    one = Panel.from_long(table, id="id", time="time", values=["g", "r"], error={"r": "r_error"})
    assert cells(one) == [None, 0.2]
    two = Panel.from_long(table, id="id", time="time", error={"g": "g_error", "r": "r_error"})
    assert two.equals(Panel.from_long(table.iloc[:, :4], id="id", time="time")) is False
    assert two.channel_names == ("g", "r")
    assert cells(two) == [0.1, 0.2]


@pytest.mark.parametrize(
    ("how", "wanted"),
    [("mean", np.hypot(0.3, 0.4) / 2), ("sum", np.hypot(0.3, 0.4)), ("first", 0.3), ("last", 0.4)],
)
def test_merged_rows_have_the_error_of_what_is_taken(how, wanted):
    rows = [0.0, 0.0], [[1.0, np.nan], [3.0, 2.0]], [0, 2]
    errors = [[0.3, np.nan], [0.4, 0.7]]
    assert cells(Panel(*rows, errors=errors, duplicates=how)) == [pytest.approx(wanted), 0.7]
    table = pd.DataFrame({"id": 0, "t": 0.0, "band": "g", "mag": [1.0, 3.0], "err": [0.3, 0.4]})
    names = {"id": "id", "time": "t", "channel": "band", "value": "mag", "error": "err"}
    assert cells(Panel.from_long(table, **names, duplicates=how)) == [pytest.approx(wanted)]


def test_what_cannot_be_is_named():
    errors = [[0.1, -0.2, np.nan], [np.inf, 0.5]]
    with pytest.raises(ValueError, match="2 faults") as caught:
        Panel.from_series(SERIES, errors=errors, ids=["a", "b"], channel_names=["mag"])
    assert "(id 'a'), channel 'mag', time 1: the error must not be -0.2" in str(caught.value)
    assert "(id 'b'), channel 'mag', time 0: the error must not be inf" in str(caught.value)
    with pytest.raises(
        ValueError, match=r"time 1: the error is 0.2, but the value there is missing"
    ):
        Panel([0, 1], [1.0, np.nan], [0, 2], errors=[0.1, 0.2])
    with pytest.raises(
        ValueError, match=r"shape of each series, \(5, 1\), got \[\(3, 1\), \(1, 1\)\]"
    ):
        Panel.from_series(SERIES, errors=[[1, 1, 1], [1]])
    with pytest.raises(ValueError, match=r"shape of the values, \(2, 1\), got \[\(3, 1\)\]"):
        Panel([0, 1], [1.0, 2.0], [0, 2], errors=[0.1, 0.2, 0.3])
    with pytest.raises(TypeError, match="errors must be numbers"):
        Panel([0, 1], [1.0, 2.0], [0, 2], errors=["a", 0.2])
    table = pd.DataFrame({"id": [0], "t": [0.0], "g": [1.0], "r": [1.0], "e": [0.1]})
    with pytest.raises(ValueError, match="one column for several channels"):
        Panel.from_long(table, id="id", time="t", error="e")
    with pytest.raises(ValueError, match=r"error names \{'i'\}, but the channels are"):
        Panel.from_long(table, id="id", time="t", error={"i": "e"})
    with pytest.raises(ValueError, match="no column 'f'"):
        Panel.from_long(table, id="id", time="t", error={"g": "e", "r": "f"})


FRAME = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], index=[0.5, 0.7], columns=["g", "r"])
OF_FRAME = pd.DataFrame([[0.1, 0.2], [0.3, 0.4]], index=[0.5, 0.7], columns=["g", "r"])
WAYS = [
    lambda errors: Panel.from_frames([FRAME], errors=[errors]),
    lambda errors: Panel.from_frames(iter([FRAME]), errors=iter([errors])),
    lambda errors: Panel(FRAME.index, FRAME, [0, 2], errors=errors),
    lambda errors: Panel.from_array(FRAME, errors=errors),
]


@pytest.mark.parametrize("read", WAYS)
def test_columns_of_errors_are_matched_by_name(read):
    for errors in (
        OF_FRAME,
        OF_FRAME[["r", "g"]],
        OF_FRAME.to_numpy(),
        OF_FRAME.reset_index()[["r", "g"]],
    ):
        assert cells(read(errors)) == [0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize("read", WAYS)
def test_errors_with_other_labels_are_refused(read):
    with pytest.raises(
        ValueError, match=r"errors have the columns \['g', 'b'\], .* have \['g', 'r"
    ):
        read(OF_FRAME.rename(columns={"r": "b"}))
    with pytest.raises(ValueError, match=r"another index than values: .*reindex\(values.index\)"):
        read(OF_FRAME[::-1])


def test_errors_of_a_series_have_its_index():
    with pytest.raises(ValueError, match=r"frames: series 0 \(id 'p'\): errors have another index"):
        Panel.from_frames([FRAME["g"]], errors=[OF_FRAME["g"][::-1]], ids=["p"])
