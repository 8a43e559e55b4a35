"""Input that would be misread without a word is refused, with the way to pass it."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from skpolyode import HiPPOTransformer
from skpolyode.panel import Panel, as_panel, is_ragged
from skpolyode.panel.cells import with_nan

LONG = {"id": [1, 1, 2], "time": [0.0, 1.0, 0.5], "a": [5.0, 6.0, 7.0]}
WIDE = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
DAYS = pd.date_range("2024-01-01", periods=2)


def both_refuse(X, error, match):
    """The panel and the estimators, which would let scikit-learn read it."""
    for read in (as_panel, HiPPOTransformer().fit):
        with pytest.raises(error, match=match):
            read(X)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_long_table_of_numbers_is_no_flat_frame(make):
    X = make(LONG)
    both_refuse(X, TypeError, r"X has columns of times \(time\).*Panel\.from_long\(X, id=.*'time'")
    assert Panel.from_long(X, id="id", time="time").lengths.tolist() == [2, 1]
    ids = make({key: LONG[key] for key in ("id", "a")})
    both_refuse(ids, TypeError, r"X has a column of ids \(id\).*Panel\.from_long\(X, id='id'")


def test_the_remedy_for_a_column_of_ids():
    frame = pd.DataFrame({"patient_id": [7, 8], "0h": [1.0, 2.0], "1h": [3.0, 4.0]})
    both_refuse(frame, TypeError, r"X\.set_index\('patient_id'\)")
    assert as_panel(frame.set_index("patient_id")).ids.tolist() == [7, 8]


@pytest.mark.parametrize(
    "index", [DAYS, DAYS - DAYS[0], DAYS.to_period("D"), [0.0, 0.7], DAYS.tz_localize("UTC")]
)
def test_one_frame_indexed_by_times_is_no_flat_frame(index):
    frame = pd.DataFrame(WIDE, index=index, columns=list("abc"))
    both_refuse(frame, TypeError, r"pass a list, \[X\], .* Panel\.from_array\(X\)")
    assert as_panel([frame]).lengths.tolist() == [2]
    assert Panel.from_array(frame).lengths.tolist() == [3, 3]


@pytest.mark.parametrize("index", [["p", "q"], [7, 3], None])
def test_labels_of_series_are_no_times(index):
    assert not is_ragged(pd.DataFrame(WIDE, index=index))
    assert HiPPOTransformer().fit(pd.DataFrame(WIDE, index=index)).n_channels_in_ == 1


def test_a_column_of_times_or_ids_is_no_channel():
    frame = pd.DataFrame({"time": [0.0, 0.7], "hr": [61.0, 64.0]})
    match = r"series 0: the column 'time' would be a channel.*frame\.set_index\('time'\)"
    both_refuse([frame], TypeError, match)
    assert as_panel([frame.set_index("time")]).channel_names == ("hr",)
    both_refuse([frame.rename(columns={"time": "id"})], TypeError, r"drop\(columns='id'\)")
    groups = dict(list(pd.DataFrame(LONG).groupby("id")))
    both_refuse(groups, TypeError, r"series 0 \(id 1\): the column 'id'")
    # Beside an index of times it is a channel: the hour of the day, say.
    assert as_panel([frame.set_axis(DAYS, axis=0)]).n_channels == 2


@pytest.mark.parametrize("n_channels", [1, 3])
def test_channels_before_times_are_refused(n_channels):
    cube = -np.arange(20.0 * n_channels).reshape(2, n_channels, 10)
    match = (
        rf"sktime and aeon.*Panel\.from_sktime\(X\).*{n_channels} times of 10 channels.*from_array"
    )
    both_refuse(cube, ValueError, match)
    assert Panel.from_array(cube).n_channels == 10
    assert Panel.from_sktime(cube).n_channels == n_channels
    model = HiPPOTransformer(n_coefficients=4).fit(cube.transpose(0, 2, 1))
    assert model.n_channels_in_ == n_channels
    one_row = HiPPOTransformer(n_coefficients=4).fit(np.ones((2, 10, 8)))
    assert one_row.transform(np.ones((2, 1, 8))).shape == (2, 32)  # as many channels as in fit
    with pytest.raises(ValueError, match=r"Panel\.from_sktime"):
        model.transform(cube)


@pytest.mark.parametrize("lengths", [(10, 10), (10, 9)])
@pytest.mark.parametrize("n_channels", [1, 3])
def test_lists_of_channels_before_times_are_refused(n_channels, lengths):
    tables = [-np.arange(1.0 * n_channels * n).reshape(n_channels, n) for n in lengths]
    match = rf"may be \(channel, time\).*\[x\.T for x in X\].*{n_channels} times of 10 channels"
    both_refuse(tables, ValueError, match)
    model = HiPPOTransformer(n_coefficients=4).fit([x.T for x in tables])
    assert model.n_channels_in_ == n_channels
    with pytest.raises(ValueError, match=r"x\.T for x in X"):
        model.transform(tables)
    read = Panel.from_series([(range(len(x)), x) for x in tables[:1]])
    assert read.n_channels == 10
    wide = HiPPOTransformer(n_coefficients=4).fit(read)
    assert wide.transform(tables[:1]).shape == (1, 40)  # as many channels as in fit


def test_keys_of_a_dict_are_ids_and_one_frame_is_no_list():
    frames = {"a": pd.DataFrame({"hr": [61.0, 64.0]}), "b": pd.DataFrame({"hr": [61.0, 64.0]})}
    expected = Panel.from_frames(list(frames.values()), ids=list(frames))
    assert Panel.from_frames(frames) == as_panel(frames) == expected
    assert Panel.from_series({"a": ([0.0], [1.0])}).ids.tolist() == ["a"]
    with pytest.raises(TypeError, match="frames is a dict, whose keys are the ids: leave out ids"):
        Panel.from_frames(frames, ids=["a", "b"])
    with pytest.raises(TypeError, match=r"frames is one DataFrame; wrap it in a list: \[frames\]"):
        Panel.from_frames(frames["a"])


def test_text_where_times_should_be_names_the_table():
    table = pd.DataFrame({"id": [1, 1], "time": ["2024-01-01", "2024-01-02"], "hr": [61.0, 64.0]})
    with pytest.raises(
        TypeError, match=r"df: column 'time': times must be .*'2024-01-01'.*pandas\.to_datetime"
    ):
        Panel.from_long(table, id="id", time="time")


UNEVEN = [0.0, 1.0, 2.0, 50.0, 51.0]


@pytest.mark.parametrize(
    "columns",
    [
        UNEVEN,
        UNEVEN[::-1],
        [4, 3, 2, 1, 0],
        list(map(str, UNEVEN)),
        [0, 24, 48, 72, 96],
        pd.date_range("2024-01-01", periods=5),
        pd.date_range("2024-01-01", periods=5)[::-1],
        ["2024-01-01", "2024-01-02", "2024-02-03", "2024-02-04", "2024-02-05"],
        pd.timedelta_range("0h", periods=5, freq="h"),
        ["h0", "h6", "h12", "h24", "h48"],
        ["0.5h", "1h", "2h", "4h", "8h"],
        ["visit5", "visit4", "visit3", "visit2", "visit1"],
    ],
)
@pytest.mark.parametrize("label", [None, "label"])
def test_columns_that_name_times(columns, label):
    X = Z = pd.DataFrame(np.random.default_rng(0).normal(size=(4, 5)), columns=columns)
    if label:
        X = Z.assign(label=[0, 1, 0, 1])
        X.columns = [*columns, label]
    match = r"X has columns that name times.*(Panel\.from_array\(.*\)), or drop them"
    with pytest.raises(TypeError, match=match) as caught:
        as_panel(X)
    if not label:
        both_refuse(X, TypeError, match)
    assert ("Z is X without ['label']" in str(caught.value)) == bool(label)
    call = re.search(match, str(caught.value))[1]
    panel = eval(call, {"Panel": Panel, "X": X, "Z": Z, "pandas": pd, "re": re})
    are_back = columns[0] != "h0" and columns[0] > columns[-1]  # "h48" > "h6" as text
    step = -1 if are_back else 1
    assert_array_equal(panel.values[:5, 0], Z.to_numpy()[0, ::step])
    assert (np.diff(panel.times[:5]) > 0).all()


def test_whole_numbers_in_steps_of_one_are_times():
    for columns in ([2000, 2001, 2002], ["2000", "2001", "2002"], pd.RangeIndex(2000, 2003)):
        frame = pd.DataFrame(WIDE, columns=columns)
        assert as_panel(frame).times.tolist() == [2000, 2001, 2002] * 2
        model = HiPPOTransformer(n_coefficients=4).fit(frame)
        assert model.interpolate(frame, [2001.0]).values.ravel().tolist() == [2.0, 5.0]
        counted = HiPPOTransformer(n_coefficients=4).fit(frame.to_numpy())
        assert_array_equal(model.transform(frame), counted.transform(frame.to_numpy()))
    for columns in (["1st", "2nd", "3rd"], ["0h", "1h", "2h"], ["t_7", "t_8", "t_9"]):
        named = pd.DataFrame(WIDE, columns=columns)
        assert as_panel(named).times.tolist() == [0, 1, 2] * 2


def test_columns_that_changed_places_keep_their_names():
    frame = pd.DataFrame({0: [1.0, 2.0, 0.0], 1: [5.0, 3.0, 4.0]}).rename(columns=int)
    frame.columns = pd.RangeIndex(2)
    model = HiPPOTransformer(n_coefficients=4).fit([frame])
    assert_array_equal(model.transform([frame[[1, 0]]]), model.transform([frame]))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("ids", [[1, 1, 1, 2, 2], list("bbbaa")])
def test_a_long_table_of_unknown_names(make, ids):
    table = {"subj": ids, "visit_day": [0, 3, 8, 0, 5], "chol": [5.0, 6, 5, 6, 7]}
    match = r"2 series .*Panel\.from_long\(X, id='subj', time='visit_day'\)"
    both_refuse(make(table), TypeError, match)
    assert Panel.from_long(make(table), id="subj", time="visit_day").lengths.tolist() == [3, 2]


def test_a_wide_frame_of_whole_numbers_is_no_long_table():
    counts = np.random.default_rng(0).poisson(5, size=(30, 6))
    days = [f"day{k}" for k in range(6)]
    assert as_panel(pd.DataFrame(counts, columns=days)).n_series == 30
    assert as_panel(pd.DataFrame(np.sort(counts, axis=0), columns=days)).n_series == 30


@pytest.mark.parametrize(
    "X",
    [
        np.array([["1", "2"]]),
        [["1", "2"]],
        pd.DataFrame({"t0": ["1"], "t1": [2.0]}),
        pd.DataFrame({"t0": pd.array(["1"], dtype="string"), "t1": [2.0]}),
        pl.DataFrame({"t0": ["1"], "t1": [2.0]}),
        np.array([["2024-01-01", "2024-01-02"]], "M8[D]"),
        np.array([[1, 2]], "m8[s]"),
        np.array([[pd.Timestamp("2024"), 1.0]], dtype=object),
    ],
    ids=lambda X: type(X).__name__,
)
def test_text_and_dates_are_no_measurements(X):
    both_refuse(X, ValueError, "series 0.*channel 'x0', time 0: not a number")


def test_missing_cells_of_objects_are_not_observed():
    cells = np.array([[1, pd.NA, None], [4.0, 5, 6]], dtype=object)
    expected = [[1, np.nan, np.nan], [4, 5, 6]]
    for X in (cells, pd.DataFrame(cells), np.ma.masked_invalid(np.array(expected))):
        assert_array_equal(np.asarray(with_nan(X), dtype=np.float64), expected)
        assert_array_equal(as_panel(X).values.reshape(2, 3), expected)
    frame = pd.DataFrame(cells, columns=list("abc"))
    assert list(with_nan(frame)) == ["a", "b", "c"]
    assert with_nan(WIDE) is WIDE


def test_kinds_that_cannot_be_series_say_so_in_estimators_too():
    for X in (None, "text", 3, {1, 2}):
        both_refuse(X, TypeError, "X must be a collection of series.*Accepted: a Panel")
    for X in ([], {}):
        both_refuse(X, ValueError, r"X has 0 sample\(s\) \(series\)")
    both_refuse((n for n in range(3)), TypeError, r"X is a generator.*pass list\(X\)")
    both_refuse(iter([1]), TypeError, r"X is a list_iterator.*pass list\(X\)")


def test_what_is_empty_is_called_so():
    both_refuse(pd.DataFrame(index=[1, 2]), ValueError, "X is empty: ")
    both_refuse(pd.DataFrame(), ValueError, r"X is empty|X has 0 sample\(s\)")
    with pytest.raises(ValueError, match="array is empty: its 2 series have no time points"):
        Panel.from_array(np.empty((2, 0, 3)))


def test_values_before_times_are_told():
    both_refuse([([[1.0, 5.0], [2.0, 6.0]], [0.0, 1.0])], ValueError, r"swapped.*\(times, values\)")


@pytest.mark.parametrize("n", [2, 3, 6])
def test_lists_of_times_and_values_are_no_rows_of_channels(n):
    pairs = [[list(map(float, range(n))), [3.0] * n], [list(range(1, n + 1)), [4.0] * n]]
    both_refuse(pairs, TypeError, rf"\[tuple\(pair\) for pair in X\]; or 2 times of {n} channels")
    arrays = [list(map(np.array, pair)) for pair in pairs]
    both_refuse(tuple(arrays), TypeError, r"\[tuple\(pair\) for pair in X\]")
    assert as_panel(list(map(tuple, pairs))).lengths.tolist() == [n, n]
    assert Panel.from_array(pairs).n_channels == n


def test_nested_lists_are_read_as_the_array_of_their_shape():
    tables = np.random.default_rng(0).normal(size=(3, 4, 3))
    tables[:, 0, 0] = 9  # no times
    assert as_panel(tables.tolist()).equals(as_panel(tables))
    with pytest.raises(ValueError, match=r"Panel\.from_sktime\(np\.array\(X\)\); or "):
        as_panel(np.zeros((2, 3, 7)).tolist())


def test_lists_of_ragged_vectors():
    ragged = [[1.0, 2.0, 3.0], [4.0, 5.0]]
    expected = Panel.from_series([(range(3), ragged[0]), (range(2), ragged[1])])
    array = np.empty(2, dtype=object)
    array[:] = [np.array(own) for own in ragged]
    for X in (ragged, list(map(np.array, ragged)), list(map(tuple, ragged)), array):
        assert as_panel(X).equals(expected)
    assert as_panel({"a": ragged[0], "b": ragged[1]}).ids.tolist() == ["a", "b"]
    model = HiPPOTransformer(n_coefficients=4).fit(ragged)
    both = model.transform(ragged)
    assert_array_equal(model.transform(ragged[1:]), both[1:])  # rectangular by chance
    assert_array_equal(model.transform([ragged[0]] * 2), both[[0, 0]])
    with pytest.raises(ValueError, match=r"series 1, channel 'x0', time 0: not a number, got 'a'"):
        as_panel([[1.0], ["a", 2.0]])


def test_one_bare_series():
    for index in (None, DAYS):
        both_refuse(pd.Series([1.0, 2.0], index=index), TypeError, r"one bare Series.*list, \[X\]")


def test_missing_times_are_called_so():
    for times in (pd.DatetimeIndex(["2024-01-01", None]), [0.0, np.nan]):
        both_refuse(
            [(times, [1.0, 2.0])], ValueError, "series 0, row 1, missing time: the time must"
        )


@pytest.mark.parametrize("kind", [object, "string"])
def test_a_column_of_text_is_one_line(kind):
    cells = pd.Series(list("12345") * 5, dtype=kind)
    flat = pd.DataFrame({"t0": cells, "t1": np.arange(25.0), "t2": cells})
    both_refuse(
        flat, ValueError, r"X has 2 faults:\n  column 't0' holds text, got '1'.*\n  column 't2'"
    )
    long = flat.set_axis(list("abc"), axis=1).assign(id=1, t=np.arange(25.0))
    with pytest.raises(ValueError, match=r"column 'a' holds text.*pandas\.to_numeric\(column, err"):
        Panel.from_long(long, id="id", time="t", values=["a", "b"])
    long["a"] = pd.to_numeric(long["a"], errors="coerce")
    assert Panel.from_long(long, id="id", time="t", values=["a", "b"]).n_channels == 2


@pytest.mark.parametrize("kind", [object, "string"])
def test_a_column_of_text_in_many_frames_is_one_line(kind):
    cells = pd.Series(["1", "2", "u"], dtype=kind)
    frames = [pd.DataFrame({"a": cells, "b": [1.0, 2.0, 3.0]}) for _ in range(4)]
    frames[0] = frames[0].assign(a=[1.0, 2.0, 3.0])
    remedy = r"Remedy: .*pandas\.to_numeric\(column, errors='coerce'\)"
    both_refuse(
        frames, ValueError, rf"X: channel 'a' holds text, such as '1' \(series 1\)\. {remedy}"
    )
    read = [frame.assign(a=pd.to_numeric(frame["a"], errors="coerce")) for frame in frames]
    assert as_panel(read).n_series == 4
    both_refuse([frame["a"] for frame in frames], ValueError, "channel 'x0' holds text")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("names", [["age", "weight", "glucose"], ["hr", "bp"], ["t1", "label"]])
def test_a_flat_frame_of_named_channels(make, names):
    X = make({name: WIDE[:, k].tolist() for k, name in enumerate(names)})
    both_refuse(
        X, TypeError, r"pass \[X\] if it is one series.*, and Panel\.from_array\(X\) if its"
    )
    assert as_panel([X]).channel_names == tuple(names)
    assert as_panel([X]).times.tolist() == [0, 1]
    assert_array_equal(as_panel([X]).values, WIDE[:, : len(names)])
    assert_array_equal(Panel.from_array(X).values[: len(names), 0], WIDE[0, : len(names)])


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table])
def test_every_kind_of_frame_is_read_alike(make):
    one, two = {"hr": [61.0, 64.0], "bp": [120.0, None]}, {"hr": [70.0], "bp": [110.0]}
    expected = as_panel({"a": pd.DataFrame(one, dtype=float), "b": pd.DataFrame(two)})
    assert as_panel({"a": make(one), "b": make(two)}).equals(expected)
    assert Panel.from_frames([make(one), make(two)], ids=["a", "b"]).equals(expected)
    timed = make({"time": [0.0, 0.7], "hr": [61.0, 64.0]})
    both_refuse([timed], TypeError, "series 0: the column 'time' would be a channel")
    both_refuse({"a": make({"id": [1], "hr": [61.0]})}, TypeError, "the column 'id' would be")
    with pytest.raises(TypeError, match="frames is one DataFrame"):
        Panel.from_frames(make(two))


RISING = [np.column_stack([np.arange(n) * 0.5 + k, np.arange(n) % 2]) for k, n in enumerate([4, 7])]


def test_columns_that_cannot_be_times_are_told_as_the_faults_that_they_are():
    """Two infinite values in a row: their difference is no number, which nobody asked about."""
    faulty = np.tile([0.5, np.inf, np.inf, 0.4], 4)[:, None] * [1.0, -1.0]
    with pytest.raises(ValueError, match="inf"):
        as_panel([faulty])


@pytest.mark.parametrize("X", [RISING, np.stack([RISING[0]] * 3)], ids=["list", "cube"])
def test_a_first_column_that_rises_in_every_series_may_be_times(X):
    with pytest.warns(UserWarning, match=r"first rises in every series.*give \[\(x\[:, 0\]"):
        panel = as_panel(X)
    assert panel.n_channels == 2
    assert as_panel([(x[:, 0], x[:, 1:]) for x in X]).times[:3].tolist() == [0, 0.5, 1]
    # No warning: as told, if it falls once, and of so few steps that this may be chance.
    assert Panel.from_series([(range(len(x)), x) for x in X]).n_channels == 2
    as_panel([*X, RISING[0][::-1]])
    as_panel(list(X)[:1])
    as_panel([x[:, :1] for x in X])
    with pytest.warns(UserWarning, match="rises in every series"):
        model = HiPPOTransformer(n_coefficients=4).fit(X)
    model.transform(X)  # read as in fit


@pytest.mark.parametrize("shape", [(3, 4, 4), (3, 4, 7), (5, 1, 2)])
@pytest.mark.parametrize("kind", [np.array, list])
def test_cubes_that_can_be_read_two_ways_warn(shape, kind):
    cube = np.random.default_rng(0).normal(size=shape)
    other = r"x\.T for x in X" if kind is list else r"Panel\.from_sktime\(X\)"
    with pytest.warns(UserWarning, match=rf"{shape[1]} times of {shape[2]} channels.*{other}"):
        as_panel(kind(cube))
    as_panel(kind(np.random.default_rng(0).normal(size=(3, 5, 4))))
