from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skpolyode.panel import Panel
from skpolyode.panel.rows import stable_order
from tests.panel.strategies import pairs

NAN = np.nan


@given(pairs(), st.randoms(use_true_random=False))
def test_sorting_undoes_any_shuffle(series, random):
    shuffled = []
    for times, values in series:
        order = random.sample(range(len(times)), len(times))
        shuffled.append((times[order], values[order]))
    assert Panel.from_series(shuffled, sort=True).equals(Panel.from_series(series))


@given(pairs(), st.sampled_from(["mean", "sum", "first", "last"]))
def test_without_duplicates_merging_changes_nothing(series, how):
    assert Panel.from_series(series, duplicates=how).equals(Panel.from_series(series))


@given(pairs(), st.sampled_from(["mean", "first", "last"]), st.integers(2, 3))
def test_merging_undoes_repetition(series, how, times_over):
    repeated = [(np.repeat(t, times_over), np.repeat(v, times_over, axis=0)) for t, v in series]
    merged = Panel.from_series(repeated, duplicates=how)
    expected = Panel.from_series(series)
    np.testing.assert_array_equal(merged.times, expected.times)
    np.testing.assert_array_equal(merged.offsets, expected.offsets)
    np.testing.assert_allclose(merged.values, expected.values, rtol=1e-15, atol=1e-320)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("mean", [[1.0, 20.0, NAN], [3.0, 5.0, 6.0]]),
        ("sum", [[1.0, 40.0, NAN], [6.0, 5.0, 6.0]]),
        ("first", [[1.0, 10.0, NAN], [2.0, 5.0, 6.0]]),
        ("last", [[1.0, 30.0, NAN], [4.0, 5.0, 6.0]]),
    ],
)
def test_each_channel_is_merged_by_itself_and_without_warnings(how, expected):
    times = [0.0, 0.0, 0.0, 1.0, 1.0]
    values = [[NAN, 10, NAN], [1, NAN, NAN], [NAN, 30, NAN], [2, 5, NAN], [4, NAN, 6]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        panel = Panel.from_series([(times, values), (times[:1], values[:1])], duplicates=how)
    assert panel.times.tolist() == [0.0, 1.0, 0.0]
    np.testing.assert_array_equal(panel.values[:2], expected)
    assert panel.lengths.tolist() == [2, 1]


def test_neighbours_in_different_series_are_not_merged():
    panel = Panel([1.0, 1.0, 1.0], [1.0, 2.0, 4.0], [0, 1, 3], duplicates="mean")
    assert panel.lengths.tolist() == [1, 1]
    assert panel.values.ravel().tolist() == [1.0, 3.0]


def test_sorting_comes_before_merging():
    with pytest.raises(ValueError, match="times must increase"):
        Panel([1.0, 0.0, 1.0], [1.0, 2.0, 3.0], [0, 3], duplicates="mean")
    panel = Panel([1.0, 0.0, 1.0], [1.0, 2.0, 3.0], [0, 3], sort=True, duplicates="last")
    assert panel.times.tolist() == [0.0, 1.0]
    assert panel.values.ravel().tolist() == [2.0, 3.0]


def test_equal_times_keep_their_order_when_sorted():
    panel = Panel([2.0, 1.0, 2.0], [5.0, 6.0, 7.0], [0, 3], sort=True, duplicates="first")
    assert panel.values.ravel().tolist() == [6.0, 5.0]


def test_the_mean_of_huge_numbers_is_finite():
    panel = Panel([0.0, 0.0], [1.5e308, 1.7e308], [0, 2], duplicates="mean")
    assert panel.values.item() == pytest.approx(1.6e308)


def test_infinity_is_a_fault_even_when_merged():
    with pytest.raises(ValueError, match="must not be infinity"):
        Panel([0.0, 0.0], [np.inf, 1.0], [0, 2], duplicates="mean")
    with pytest.raises(ValueError, match="time must be finite"):
        Panel([0.0, np.nan, -1.0], [1.0, 2.0, 3.0], [0, 3], sort=True, duplicates="mean")


@given(st.lists(st.integers(0, 2**40), max_size=50))
def test_stable_order_is_that_of_numpy(codes):
    codes = np.array(codes, dtype=np.int64)
    expected = np.argsort(codes, kind="stable")
    np.testing.assert_array_equal(stable_order(codes), expected)
    few = codes % 3
    np.testing.assert_array_equal(stable_order(few), np.argsort(few, kind="stable"))
