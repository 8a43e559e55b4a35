from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skpolyode.panel import Panel, Series, as_panel
from tests.panel.strategies import pairs


@pytest.fixture
def panel() -> Panel:
    return Panel.from_series(
        [
            ([0.0, 1.0, 3.0], [[1.0, np.nan], [2.0, 20.0], [3.0, 30.0]]),
            ([5.0], [[4.0, 40.0]]),
            ([-1.0, 7.0], [[5.0, np.nan], [6.0, np.nan]]),
        ],
        ids=["a", "b", "c"],
        channel_names=["hr", "bp"],
        static=pd.DataFrame({"age": [50, 60, 70]}, index=["c", "a", "b"]),
    )


def test_attributes(panel):
    assert (panel.n_series, panel.n_channels, panel.n_observations) == (3, 2, 6)
    assert len(panel) == 3
    assert panel.shape == (3,)
    assert panel.times.dtype == panel.values.dtype == np.float64
    assert panel.values.shape == (6, 2)
    assert panel.offsets.dtype == np.int64
    assert panel.offsets.tolist() == [0, 3, 4, 6]
    assert panel.lengths.tolist() == [3, 1, 2]
    assert panel.ids.tolist() == ["a", "b", "c"]
    assert panel.channel_names == ("hr", "bp")
    assert panel.static["age"].tolist() == [60, 70, 50]
    assert panel.static.index.tolist() == ["a", "b", "c"]
    assert panel.time_unit is None
    assert panel.tz is None
    assert not panel.is_datetime


def test_defaults_of_ids_and_names():
    panel = Panel.from_series([([0], [[1, 2]]), ([0], [[3, 4]])])
    assert panel.ids.tolist() == [0, 1]
    assert panel.channel_names == ("x0", "x1")
    assert panel.static is None


def test_an_integer_gives_a_series(panel):
    for index in (1, np.int32(1), -2):
        one = panel[index]
        assert isinstance(one, Series)
        assert one.times.tolist() == [5.0]
        assert one.values.tolist() == [[4.0, 40.0]]
    with pytest.raises(IndexError, match="series 3 of a panel of 3 series"):
        panel[3]
    with pytest.raises(IndexError, match="series -4 of a panel"):
        panel[-4]


def test_iteration(panel):
    assert [len(one.times) for one in panel] == [3, 1, 2]
    assert [len(one.times) for one in reversed(panel)] == [2, 1, 3]


@pytest.mark.parametrize("key", ["b", ["a", "b"], True, 1.0, [0.5], np.zeros((2, 2), int), None])
def test_only_positions_are_keys(panel, key):
    with pytest.raises(IndexError, match=r"(?s)indexed by positions .*panel\.select_ids"):
        panel[key]


def test_a_mask_must_fit(panel):
    with pytest.raises(IndexError, match="boolean"):
        panel[[True, False]]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (slice(None), [0, 1, 2]),
        (slice(1, None), [1, 2]),
        (slice(None, None, -1), [2, 1, 0]),
        ([2, 0, 2], [2, 0, 2]),
        ([], []),
        (np.array([-1]), [2]),
        ([True, False, True], [0, 2]),
        (pd.Series([False, True, True]), [1, 2]),
        ((np.array([1, 0]), Ellipsis), [1, 0]),
    ],
)
def test_selection_takes_everything_along(panel, key, expected):
    part = panel[key]
    assert isinstance(part, Panel)
    assert part.lengths.tolist() == panel.lengths[expected].tolist()
    assert part.ids.tolist() == panel.ids[expected].tolist()
    assert part.channel_names == panel.channel_names
    assert part.static["age"].tolist() == panel.static["age"].iloc[expected].tolist()
    for own, index in zip(part, expected, strict=True):
        np.testing.assert_array_equal(own.times, panel[index].times)
        np.testing.assert_array_equal(own.values, panel[index].values)


@given(pairs(), st.data())
def test_selection_equals_that_of_a_list(series, data):
    panel = Panel.from_series(series)
    n = len(series)
    key = data.draw(
        st.slices(n)
        | st.lists(st.integers(-n, n - 1))
        | st.lists(st.booleans(), min_size=n, max_size=n)
    )
    if isinstance(key, slice):
        expected = series[key]
    else:
        expected = [series[i] for i in np.arange(n)[np.array(key, dtype=int if not key else None)]]
    part = panel[key]
    assert len(part) == len(expected)
    for own, (times, values) in zip(part, expected, strict=True):
        np.testing.assert_array_equal(own.times, times)
        np.testing.assert_array_equal(own.values, values)


@given(pairs())
def test_selecting_twice_equals_selecting_once(series):
    panel = Panel.from_series(series)
    assert panel[::-1][::-1].equals(panel)
    assert panel[1:][:1].equals(panel[1:2])


def test_a_stretch_is_a_view(panel):
    assert np.shares_memory(panel[1:].values, panel.values)
    assert np.shares_memory(panel[0].times, panel.times)


def test_nothing_can_be_changed(panel):
    for part in (panel, panel[[2, 0]], pickle.loads(pickle.dumps(panel)), copy.deepcopy(panel)):
        for array in (part.times, part.values, part.offsets, part.ids, *part[0]):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = array
    with pytest.raises(AttributeError):
        panel.times = np.zeros(6)
    table = panel.static
    table.loc["a", "age"] = 0
    assert panel.static.loc["a", "age"] == 60


def test_input_is_copied_and_left_alone():
    times, values = np.array([2.0, 1.0, 1.0]), np.array([1.0, 2.0, 4.0])
    panel = Panel(times, values, [0, 3], sort=True, duplicates="mean")
    assert times.tolist() == [2.0, 1.0, 1.0]
    assert values.tolist() == [1.0, 2.0, 4.0]
    assert times.flags.writeable
    times[:], values[:] = 9.0, 9.0
    assert panel.times.tolist() == [1.0, 2.0]
    assert panel.values.ravel().tolist() == [3.0, 1.0]


def test_flat_arrays_are_copied():
    times, values = np.array([0.0, 1.0]), np.array([[1.0], [2.0]])
    table = pd.DataFrame({"age": [50]})
    panel = Panel(times, values, [0, 2], static=table)
    times[:], values[:] = 9.0, 9.0
    table.loc[0, "age"] = 0
    assert panel.times.tolist() == [0.0, 1.0]
    assert panel.values.tolist() == [[1.0], [2.0]]
    assert panel.static["age"].tolist() == [50]


def test_read_only_input_is_accepted():
    times, values, cube = np.arange(3.0), np.ones((3, 2)), np.ones((2, 3, 2))
    for array in (times, values, cube):
        array.flags.writeable = False
    assert Panel(times, values, [0, 3]).equals(Panel.from_series([(times, values)]))
    assert len(Panel.from_array(cube, times)) == 2
    assert len(Panel.from_array(values)) == 3


def test_hash_stays_when_a_panel_is_used():
    """joblib's memory, which pipelines use, recognises a panel by it."""
    series = [([0.0, 1.0], [2.0, np.nan]), ([0.5], [1.0])]
    panel = Panel.from_series(series)
    before = joblib.hash(panel)
    assert not panel.is_observed
    assert joblib.hash(panel) == joblib.hash(Panel.from_series(series)) == before


@given(pairs())
def test_pickle_and_copy(series):
    panel = Panel.from_series(series, ids=[f"s{i}" for i in range(len(series))])
    for same in (pickle.loads(pickle.dumps(panel)), copy.copy(panel), copy.deepcopy(panel)):
        assert panel.equals(same)
        assert isinstance(same, Panel)


def test_equals_sees_every_part(panel):
    assert panel.equals(panel[:])
    assert not panel.equals("panel")
    assert not panel.equals(panel[:2])
    plain = Panel(panel.times, panel.values, panel.offsets)
    others = [
        Panel(panel.times + 1, panel.values, panel.offsets),
        Panel(panel.times, panel.values + 1, panel.offsets),
        Panel(panel.times, panel.values, [0, 2, 4, 6]),
        Panel(panel.times, panel.values, panel.offsets, ids=[1, 2, 3]),
        Panel(panel.times, panel.values, panel.offsets, channel_names=["a", "b"]),
        Panel(panel.times, panel.values, panel.offsets, time_unit="h"),
        Panel(panel.times, panel.values, panel.offsets, static=np.zeros((3, 1))),
    ]
    assert not any(plain.equals(other) or other.equals(plain) for other in others)


def test_repr(panel):
    assert repr(panel) == (
        "Panel(3 series, 2 channels, 6 observations, 75% of cells observed, times -1 to 7)"
    )
    assert repr(panel[:0]) == "Panel(0 series, 2 channels, 0 observations)"
    many = Panel.from_array(np.zeros((1200, 4)))
    assert "1 200 series, 1 channel, 4 800 observations" in repr(many)
    seconds = Panel.from_series([([1_700_000_000, 1_700_000_060], [1, 2])])
    assert "times 1700000000 to 1700000060" in repr(seconds)
    start = pd.Timestamp("2026-10-25 01:00:00.123456789", tz="Europe/Paris")
    hours, moment = ([start, start + pd.Timedelta(d)] for d in ("3h", "1us"))
    shown = "times 2026-10-25 01:00:00+02:00 to 2026-10-25 03:00:00+01:00"
    assert shown in repr(Panel.from_series([(hours, [1, 2])]))
    assert "01:00:00.123457789+02:00" in repr(Panel.from_series([(moment, [1, 2])]))


def test_like_keeps_labels_and_takes_any_rows(panel):
    answer = panel.like([3.0, 1.0, 1.0], np.full((3, 2), np.nan), [0, 0, 2, 3])
    assert answer.ids.tolist() == ["a", "b", "c"]
    assert answer.channel_names == panel.channel_names
    assert answer.static.equals(panel.static)
    assert answer.lengths.tolist() == [0, 2, 1]
    assert answer.times.tolist() == [3.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("n_times", "shape", "offsets"),
    [
        (3, (2, 2), [0, 1, 2, 3]),
        (3, (3, 1), [0, 1, 2, 3]),
        (3, (3, 2), [0, 3]),
        (3, (3, 2), [0, 1, 2, 2]),
        (3, (3, 2), [1, 1, 2, 3]),
        (3, (3, 2), [0, 2, 1, 3]),
    ],
)
def test_like_refuses_rows_that_do_not_fit(panel, n_times, shape, offsets):
    with pytest.raises(ValueError, match="must have the shapes"):
        panel.like(np.arange(n_times), np.zeros(shape), offsets)


@given(pairs())
def test_to_series_is_the_inverse_of_from_series(series):
    panel = Panel.from_series(series)
    assert Panel.from_series(panel.to_series()).equals(panel)
    for (times, values), own in zip(panel.to_series(), series, strict=True):
        np.testing.assert_array_equal(times, own[0])
        np.testing.assert_array_equal(values, own[1])


@given(pairs())
def test_to_long_is_the_inverse_of_from_long(series):
    panel = Panel.from_series(series)
    table = panel.to_long()
    assert table.columns.tolist() == ["id", "time", *panel.channel_names]
    assert Panel.from_long(table, id="id", time="time").equals(panel)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_to_long_returns_polars_for_polars(zone):
    times = pd.date_range("2026-03-28", periods=3, tz=zone)
    values = [[1.0, np.nan], [2.0, 3.0], [np.nan, 4.0]]
    panel = Panel.from_series([(times, values)] * 2, ids=[("a", 1), ("b", 2)])
    table = panel.to_long(id=["ward", "bed"], kind="polars")
    assert isinstance(table, pl.DataFrame)
    assert table.columns == ["ward", "bed", "time", "x0", "x1"]
    assert Panel.from_long(table, id=["ward", "bed"], time="time").equals(panel)
    with pytest.raises(ValueError, match='kind must be "pandas" or "polars", got \'arrow\''):
        panel.to_long(kind="arrow")


def test_to_long_refuses_a_name_twice():
    panel = Panel.from_series([([0], [1])], channel_names=["time"])
    with pytest.raises(ValueError, match="a channel has the name 'time' of a column"):
        panel.to_long()
    assert panel.to_long(time="when").columns.tolist() == ["id", "when", "time"]


def test_empty_series_in_answers_are_sliced_right(panel):
    answer = panel.like([1.0, 2.0], np.ones((2, 2)), [0, 0, 2, 2])
    assert answer[1].times.tolist() == [1.0, 2.0]
    assert answer[[2, 1]].lengths.tolist() == [0, 2]
    assert answer[2].times.tolist() == []


SHIFT = pd.Timestamp("2024-01-01")


def refilled(kind, n_series=4):
    """Series that all lie in the same arrays, one after the other."""
    times, values, frame = np.zeros(3), np.zeros((3, 1)), pd.DataFrame({"a": np.zeros(3)})
    for k in range(n_series):
        times[:], values[:] = np.arange(3.0) + k, k
        frame["a"], frame.index = float(k), np.arange(3.0) + k
        yield {
            "pair": lambda: (times, values),
            "dates": lambda: (pd.to_datetime(times, unit="D", origin=SHIFT), values),
            "numpy dates": lambda: (times.astype("m8[D]") + SHIFT.to_datetime64(), values),
            "masked": lambda: (times, np.ma.array(values, mask=False, copy=False)),
            "tensor": lambda: (torch.from_numpy(times), torch.from_numpy(values)),
            "rows": lambda: (times, list(values)),
            "pair of a frame": lambda: (times, pd.DataFrame(values, copy=False)),
            "frame": lambda: pd.DataFrame(values, index=times, copy=False),
            "series": lambda: pd.Series(values[:, 0], index=pd.Index(times), copy=False),
            "one frame": lambda: frame,
            "polars": lambda: pl.DataFrame({"a": values[:, 0]}),
        }[kind]()


class Lazy(Mapping):
    """Series of a file, say, that are read into one array."""

    def __init__(self, kind):
        self.kind = kind

    def __getitem__(self, key):
        *_, last = refilled(self.kind, key + 1)
        buffer[:] = last[1]
        return last[0], buffer

    def __iter__(self):
        return iter(range(4))

    def __len__(self):
        return 4


buffer = np.zeros((3, 1))
FRAMES = ("frame", "series", "one frame", "polars")
PAIRS = ("pair", "dates", "numpy dates", "masked", "tensor", "rows", "pair of a frame")


@pytest.mark.parametrize("wrap", [lambda items: items, lambda items: map(lambda x: x, items)])
@pytest.mark.parametrize("kind", [*FRAMES, *PAIRS])
def test_an_array_that_is_filled_again_is_copied(kind, wrap):
    read = Panel.from_frames if kind in FRAMES else Panel.from_series
    panel = read(wrap(refilled(kind)))
    assert panel.values[::3, 0].tolist() == [0.0, 1.0, 2.0, 3.0]
    unit = 86400 if panel.is_datetime else 1
    first = 0 if kind == "polars" else np.arange(4.0)
    assert ((panel.start - panel.start[0]) / unit).tolist() == (first * np.ones(4)).tolist()


def test_errors_that_are_filled_again_are_copied():
    def errors():
        for _, values in refilled("pair"):
            values += 0.5
            yield values

    expected = [0.5, 1.5, 2.5, 3.5]
    series = [(np.arange(3.0) + k, np.full((3, 1), k)) for k in range(4)]
    assert Panel.from_series(series, errors=errors()).errors[::3, 0].tolist() == expected
    panel = Panel.from_series(refilled("pair"), errors=errors())
    assert panel.errors[::3, 0].tolist() == expected
    assert panel.values[::3, 0].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_mapping_that_reads_into_one_array_is_copied():
    for read in (Panel.from_series, as_panel):
        panel = read(Lazy("pair"))
        assert panel.values[::3, 0].tolist() == panel.start.tolist() == [0.0, 1.0, 2.0, 3.0]


def arrays_of(panel):
    rows = panel.rows
    return [rows.times.counts, rows.times.ticks, rows.values, rows.offsets, rows.ids, rows.errors]


@pytest.mark.parametrize("kind", [float, np.int64, "M8[s]", "M8[us]", "M8[ns]", "m8[us]"])
def test_no_constructor_keeps_or_changes_an_array_of_the_user(kind):
    times, values, errors = np.array([0, 5]).astype(kind), np.ones((2, 2)), np.full((2, 2), 0.5)
    ids, offsets, static = np.array([7]), np.array([0, 2]), np.array([[50.0]])
    given = [times, values, errors, ids, offsets, static]
    before = [array.copy() for array in given]
    frame = pd.DataFrame(values, index=times, columns=["a", "b"], copy=False)
    long = pd.DataFrame({"id": 1, "t": times, "a": values[:, 0], "b": values[:, 1]}, copy=False)
    labels = {"ids": ids, "static": static, "missing": [9.0]}
    for panel in (
        Panel(times, values, offsets, errors=errors, **labels),
        Panel.from_series([(times, values)], errors=[errors], **labels),
        Panel.from_series({7: (times, values)}, errors={7: errors}, static=static),
        Panel.from_frames([frame], errors=[errors], **labels),
        Panel.from_array(values[None], times, errors=errors[None], **labels),
        Panel.from_long(long, id="id", time="t"),
        as_panel([(times, values)]),
        as_panel([frame]),
        as_panel(np.ones((2, 2))),
    ):
        for array in arrays_of(panel):
            own = [*given, frame.to_numpy(), frame.index.to_numpy(), long["t"].to_numpy()]
            assert array is None or not any(np.shares_memory(array, other) for other in own)
        held = panel.static is not None
        assert not held or not np.shares_memory(panel.static.to_numpy(), static)
    for array, was in zip(given, before, strict=True):
        np.testing.assert_array_equal(array, was)
        assert array.flags.writeable
