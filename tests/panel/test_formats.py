"""Every format that `as_panel` and the constructors accept, and what they refuse."""

from __future__ import annotations

import pickle
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from scipy.sparse import csr_array

from skpolyode import HiPPOTransformer
from skpolyode.panel import Panel, as_panel, is_ragged
from tests.panel.strategies import pairs

T0, V0 = np.array([0.0, 1.0, 3.0]), np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]])
T1, V1 = np.array([0.5]), np.array([[7.0, 8.0]])
PAIRS = [(T0, V0), (T1, V1)]


def frames(**kwargs) -> list[pd.DataFrame]:
    return [pd.DataFrame(v, index=t, columns=["a", "b"], **kwargs) for t, v in PAIRS]


def object_array(items: list) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


RAGGED = {
    "panel": Panel.from_series(PAIRS),
    "pairs": PAIRS,
    "tuple of pairs": tuple(PAIRS),
    "object array of pairs": object_array(PAIRS),
    "pairs of lists": [(t.tolist(), v.tolist()) for t, v in PAIRS],
    "pairs with an index": [(pd.Index(t), v) for t, v in PAIRS],
    "pairs of pandas": [(pd.Series(t), pd.DataFrame(v)) for t, v in PAIRS],
    "pairs of tensors": [(torch.tensor(t), torch.tensor(v)) for t, v in PAIRS],
    "pairs of masked arrays": [(t, np.ma.masked_invalid(v)) for t, v in PAIRS],
    "series of another panel": list(Panel.from_series(PAIRS)),
    "frames": frames(),
    "tuple of frames": tuple(frames()),
    "object array of frames": object_array(frames()),
    "nullable frames": [frame.astype("Float64") for frame in frames()],
}


@pytest.mark.parametrize("X", RAGGED.values(), ids=RAGGED)
def test_ragged_formats(X):
    panel = as_panel(X)
    assert is_ragged(X)
    assert panel.times.tolist() == [0.0, 1.0, 3.0, 0.5]
    np.testing.assert_array_equal(panel.values, np.concatenate([V0, V1]))
    assert panel.offsets.tolist() == [0, 3, 4]
    named = "frame" in str(type(X[0])).lower()
    assert panel.channel_names == (("a", "b") if named else ("x0", "x1"))


def test_a_panel_is_returned_as_it_is():
    panel = RAGGED["panel"]
    assert as_panel(panel) is panel


def test_tables_stand_at_whole_times_and_keep_all_rows():
    X = [V0, np.array([[1.0, 2.0], [np.nan, np.nan]])]
    assert is_ragged(X)
    panel = as_panel(X)
    assert panel.times.tolist() == [0.0, 1.0, 2.0, 0.0, 1.0]
    assert panel.lengths.tolist() == [3, 2]


def test_univariate_pairs_and_pandas_series():
    for X in ([(T0, T0)], [pd.Series(T0, index=T0)]):
        assert is_ragged(X)
        panel = as_panel(X)
        assert panel.values.tolist() == T0[:, None].tolist()
        assert panel.channel_names == ("x0",)
    same = as_panel([pd.Series(T0, name="hr"), pd.Series(T1, name="hr")])
    assert same.channel_names == ("hr",)
    other = as_panel([pd.Series(T0, name="patient 1"), pd.Series(T1, name="patient 2")])
    assert other.channel_names == ("x0",)


def test_frames_without_column_names_get_default_names():
    assert as_panel([pd.DataFrame(V0)]).channel_names == ("x0", "x1")
    assert as_panel([pd.DataFrame(V0, columns=[7, 9])]).channel_names == ("7", "9")


class ArrayLike:
    """Has nothing but a conversion to an array."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.asarray(self.array, dtype=dtype)


WIDE = np.array([[np.nan, 2.0, 3.0], [4.0, 5.0, np.nan]])
RECTANGULAR = {
    "array": WIDE,
    "lists": WIDE.tolist(),
    "lists with None": [[None, 2, 3], [4, 5, None]],
    "tuple of tuples": (*map(tuple, WIDE), (0.0, 0.0, 0.0)),
    "list of arrays": list(WIDE),
    "frame": pd.DataFrame(WIDE),
    "nullable frame": pd.DataFrame(WIDE).astype("Float64"),
    "polars": pl.DataFrame(WIDE),
    "tensor": torch.tensor(WIDE),
    "array-like": ArrayLike(WIDE),
    "objects": np.array([[None, Decimal(2), pd.NA], [True, np.float32(5), pd.NaT]], dtype=object),
}


@pytest.mark.parametrize("X", RECTANGULAR.values(), ids=RECTANGULAR)
def test_rectangular_formats_keep_every_row(X):
    assert not is_ragged(X)
    panel = as_panel(X)
    assert panel.n_channels == 1
    assert set(panel.lengths) == {3}
    assert panel.times[:6].tolist() == [0.0, 1.0, 2.0] * 2
    if X is RECTANGULAR["objects"]:
        np.testing.assert_array_equal(panel.values.ravel(), [np.nan, 2, np.nan, 1, 5, np.nan])
    else:
        np.testing.assert_array_equal(panel.values.ravel()[:6], WIDE.ravel())


def test_a_2d_frame_lends_its_index():
    assert as_panel(pd.DataFrame(WIDE, index=["p", "q"])).ids.tolist() == ["p", "q"]
    assert as_panel(pd.DataFrame(WIDE, index=["p", "p"])).ids.tolist() == [0, 1]
    given_ids = Panel.from_array(pd.DataFrame(WIDE, index=["p", "q"]), ids=["r", "s"])
    assert given_ids.ids.tolist() == ["r", "s"]


def test_3d_padding_is_dropped_at_the_end_only():
    nan = np.nan
    cube = np.array(
        [
            [[nan, nan], [1.0, nan], [nan, nan], [2.0, 3.0]],
            [[4.0, nan], [nan, 5.0], [nan, nan], [nan, nan]],
        ]
    )
    for X in (cube, cube.tolist(), torch.tensor(cube)):
        assert not is_ragged(X)
        panel = as_panel(X)
        assert panel.lengths.tolist() == [4, 2]
        assert panel.times.tolist() == [0.0, 1.0, 2.0, 3.0, 0.0, 1.0]
    later = Panel.from_array(cube, times=[0.0, 0.5, 2.0, 9.0])
    assert later.times.tolist() == [0.0, 0.5, 2.0, 9.0, 0.0, 0.5]


def test_own_times_mark_the_padding():
    nan = np.nan
    values = np.array([[[1.0], [nan], [nan]], [[2.0], [3.0], [4.0]]])
    panel = Panel.from_array(values, [[0.0, 1.0, nan], [0.0, 2.0, 4.0]])
    assert panel.lengths.tolist() == [2, 3]
    with pytest.raises(ValueError, match="series 0, row 1, missing time: the time must be finite"):
        Panel.from_array([[1.0, 2.0]], [[0.0, nan]])


@pytest.mark.parametrize("times", [[0.0, 1.0], [[0.0, 1.0, 2.0]], 5.0])
def test_times_of_an_array_must_fit(times):
    with pytest.raises(ValueError, match=r"times must be of shape \(3,\) .* or \(2, 3\)"):
        Panel.from_array(WIDE, times)


def test_array_with_datetimes():
    days = pd.date_range("2024-01-01", periods=3)
    panel = Panel.from_array(WIDE, days, time_unit="D")
    assert panel.user_times().equals(days.append(days).as_unit("us"))
    both = np.array([days, days + pd.Timedelta("1D")], dtype="M8[ns]")
    assert Panel.from_array(WIDE, both).user_times()[3] == pd.Timestamp("2024-01-02")


@pytest.mark.filterwarnings("ignore:.* is read as")
@given(pairs())
def test_frames_and_pairs_agree(series):
    by_frame = Panel.from_frames([pd.DataFrame(v, index=t) for t, v in series])
    assert by_frame.equals(Panel.from_series(series))
    tables = [values for _, values in series]
    assert as_panel(tables).equals(
        Panel.from_series([(np.arange(len(values)), values) for values in tables])
    )


def test_flat_rows():
    panel = Panel([0, 1, 0.5], [1, 2, 3], [0, 2, 3], ids=["a", "b"], channel_names=["hr"])
    assert panel.equals(
        Panel.from_series([([0, 1], [1, 2]), ([0.5], [3])], ids=["a", "b"], channel_names=["hr"])
    )


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float32])
def test_kinds_of_numbers(dtype):
    times = np.array([0, 1], dtype=int if dtype is bool else dtype)  # True is no time
    panel = as_panel([(times, np.array([1, 0], dtype=dtype))])
    assert panel.times.tolist() == [0.0, 1.0]
    assert panel.values.ravel().tolist() == [1.0, 0.0]
    assert panel.values.dtype == np.float64


def test_tiny_and_huge_numbers_are_kept():
    values = [1e-30, 1e30, 5e-324, -1.7976931348623157e308]
    times = [-1e18, 1e-30, 1.7e9, 1e300]
    panel = as_panel([(times, values)])
    assert panel.times.tolist() == times
    assert panel.values.ravel().tolist() == values


@pytest.mark.parametrize(
    "X",
    [{"a": [1]}, "text", b"text", 3, None, {1, 2}, object()],
    ids=lambda X: type(X).__name__,
)
def test_other_kinds_are_refused_with_the_list_of_formats(X):
    assert is_ragged(X)  # so that estimators say the same
    with pytest.raises(TypeError, match=r"train must be a collection of series, got .* Accepted:"):
        as_panel(X, name="train")


def test_sparse_is_refused():
    with pytest.raises(TypeError, match="X is sparse"):
        as_panel(csr_array(np.eye(3)))


@pytest.mark.parametrize("X", [(T0, V0), (T0, T0), ([0, 1], [2, 3]), (pd.Index(T0), V0)])
def test_a_bare_pair_is_refused(X):
    assert is_ragged(X)
    with pytest.raises(TypeError, match=r"wrap it in a list: \[\(times, values\)\]"):
        as_panel(X)


def test_frames_that_hold_many_series_are_refused():
    nested = pd.DataFrame({"x": [pd.Series([1.0, 2.0]), pd.Series([3.0])]})
    multi = pd.DataFrame({"x": [1.0]}, index=pd.MultiIndex.from_tuples([(0, 0)]))
    assert is_ragged(nested)
    assert is_ragged(multi)
    with pytest.raises(TypeError, match=r"cells hold whole series; .* Panel\.from_sktime"):
        as_panel(nested)
    with pytest.raises(TypeError, match=r"MultiIndex.*Panel\.from_sktime.*Panel\.from_long"):
        as_panel(multi)
    with pytest.raises(TypeError, match="frames: series 1: times must be one index level"):
        Panel.from_frames([pd.DataFrame({"x": [1.0]}), multi])


def test_long_tables_with_a_column_of_times_are_refused():
    days = pd.DatetimeIndex(["2024-01-01", "2024-01-02"])
    kinds = days, days.tz_localize("UTC"), days - days[0], days.to_period("D")
    tables = [pd.DataFrame({"who": [1, 1], "when": kind, "hr": [61.0, 64.0]}) for kind in kinds]
    tables += [pl.DataFrame({"who": [1, 1], "when": list(days.to_pydatetime()), "hr": [61, 64]})]
    for table in tables:
        for read in (as_panel, HiPPOTransformer().fit):
            with pytest.raises(
                TypeError, match=r"columns of times \(when\), .* Panel\.from_long\(.*time='when'\)"
            ):
                read(table)
    numbers = pl.DataFrame({"t0": [1.0, 2.0], "t1": [3.0, 4.0]})
    assert as_panel(numbers).values[:, 0].tolist() == [1, 3, 2, 4]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([(T0, V0), frames()[0]], r"X: series 1: must be a pair \(times, values\).*DataFrame"),
        ([(T0, V0), [T0, V0]], r"series 1: must be a pair \(times, values\), a tuple of two"),
        ([(T0, V0, V0)], r"series 0: must be a pair .* got 3 items"),
        ([frames()[0], (T0, V0)], "series 1: must be a DataFrame or Series like the others"),
        ([(["mon", "tue"], [1, 2])], r"series 0: times must be numbers .*pandas\.to_datetime"),
        ([(["1", 2, None], [1, 2, 3])], r"series 0: times must be .* got '1' \(str\)"),
        ([(pd.Index(["a"]), [1])], r"series 0: times must be .* got 'a' \(str\) in row 0; convert"),
        ([([1 + 2j], [1])], "series 0: times must be numbers or datetimes, got dtype complex128"),
    ],
)
def test_wrong_kinds_inside_a_list(X, message):
    with pytest.raises(TypeError, match=message):
        as_panel(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[[1.0], [2.0]], [[3.0]]], r"X: lists must be rectangular; .* pairs \(times, values\)"),
        ([([0, 1], [[1], [2, 3]])], "X: series 0: lists must be rectangular"),
        ([1.0, 2.0], r"X: expected a 2-D array .* got shape \(2,\)"),
        (np.zeros((1, 1, 1, 1)), r"expected a 2-D array .* got shape \(1, 1, 1, 1\)"),
        (np.float64(3.0), r"expected a 2-D array .* got shape \(\)"),
        ([V0, T0], "series 1: must be 2-D .* got 1-D"),
        ([(T0, V0 + 1j)], "series 0: Complex data not supported"),
        (WIDE + 1j, "X: Complex data not supported"),
    ],
)
def test_wrong_shapes(X, message):
    with pytest.raises(ValueError, match=message):
        as_panel(X)


@pytest.mark.parametrize("X", [[], (), {}, np.zeros((0, 3)), np.zeros((0, 3, 2)), pd.DataFrame()])
def test_no_series(X):
    with pytest.raises(ValueError, match=r"X has 0 sample\(s\).*minimum of 1 is required"):
        as_panel(X)


def test_no_series_elsewhere():
    some = Panel.from_series(PAIRS)
    empty = pd.DataFrame({"id": [], "t": [], "x": []})
    makers = [
        lambda: as_panel(some[:0]),
        lambda: Panel([], np.zeros((0, 1)), [0]),
        lambda: Panel.from_frames([]),
        lambda: Panel.from_series(iter([])),
        lambda: Panel.from_long(empty, id="id", time="t"),
        lambda: Panel.from_sktime(empty),
    ]
    for make in makers:
        with pytest.raises(ValueError, match=r"0 sample\(s\).*minimum of 1 is required"):
            make()


def test_no_channels():
    for make in (
        lambda: as_panel(np.zeros((2, 3, 0))),
        lambda: as_panel([(T0, np.zeros((3, 0)))]),
        lambda: Panel.from_long(pd.DataFrame({"id": [1], "t": [0]}), id="id", time="t"),
    ):
        with pytest.raises(ValueError, match=r"0 feature\(s\).*minimum of 1 is required"):
            make()


def test_answers_are_checked_when_they_are_used():
    panel = Panel.from_series(PAIRS)
    wrong = panel.like([1.0, 0.0, 0.0], np.ones((3, 2)), [0, 2, 3])
    for part in (wrong, wrong[:1], pickle.loads(pickle.dumps(wrong))):
        with pytest.raises(ValueError, match=r"y: series 0 \(id 0\), time 0: times must increase"):
            as_panel(part, name="y")
    right = panel.like([0.0, 1.0, 0.0], np.ones((3, 2)), [0, 2, 3])
    assert as_panel(right) is right


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"duplicates": "max"},
            ValueError,
            "duplicates must be one of 'error', 'mean', 'sum', 'first'",
        ),
        ({"time_unit": "week"}, ValueError, "time_unit must be one of None, 'us', .* got 'week'"),
        ({"ids": "ab"}, TypeError, "ids must be a 1-D sequence of labels, got 'ab'"),
        ({"ids": [[1, 2]]}, TypeError, "ids must be a 1-D sequence of labels"),
        ({"channel_names": "ab"}, TypeError, "channel_names must be a sequence of names"),
        ({"static": 3}, TypeError, "static must be a DataFrame or a 2-D array"),
        ({"colour": 3}, TypeError, "unexpected keyword argument 'colour'"),
    ],
)
def test_wrong_options(options, error, message):
    with pytest.raises(error, match=message):
        Panel.from_series(PAIRS, **options)


@pytest.mark.parametrize(
    "offsets", [[0, 2], [0, 3, 2, 4], [1, 4], [0.0, 4.0], [[0, 4]], [], [0, -1, 4]]
)
def test_wrong_offsets(offsets):
    with pytest.raises(ValueError, match=r"offsets must be integers that rise from 0 to .* 4"):
        Panel(np.arange(4), np.arange(4), offsets)


@pytest.mark.parametrize("shapes", [((4,), (3,)), ((4, 1), (4,)), ((4,), (4, 1, 1)), ((1,), ())])
def test_wrong_flat_shapes(shapes):
    times, values = (np.zeros(shape) for shape in shapes)
    with pytest.raises(ValueError, match=r"flat times must be of shape \(n_obs,\)"):
        Panel(times, values, [0, 4])
