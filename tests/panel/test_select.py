"""Windows, contexts and other stretches of series."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skpolyode.panel import Panel
from skpolyode.panel.select import (
    context_starts,
    cut_windows,
    drop_empty,
    fill_rows,
    fill_values,
    last_seen_rows,
    observed_part,
    recent_part,
    take,
)

NAN = np.nan


def ramp(*lengths: int) -> Panel:
    """Series whose values are the numbers of their rows, over all series."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    times = np.concatenate([np.arange(float(n)) for n in lengths])
    return Panel(times, np.arange(float(offsets[-1])), offsets, ids=[f"s{n}" for n in lengths])


def test_a_stretch_is_a_series_with_the_labels_of_its_own():
    taken = take(ramp(4, 3), np.array([1, 0, 1]), np.array([5, 0, 4]), np.array([7, 2, 7]))
    assert taken.values.ravel().tolist() == [5, 6, 0, 1, 4, 5, 6]
    assert taken.times.tolist() == [1, 2, 0, 1, 0, 1, 2]
    assert taken.ids.tolist() == ["s3", "s4", "s3"]


@given(
    length=st.integers(4, 20),
    overlap=st.integers(0, 3),
    sizes=st.lists(st.integers(1, 90), min_size=1),
)
def test_windows_cover_every_row_and_overlap(length, overlap, sizes):
    panel = ramp(*dict.fromkeys(sizes))
    windows = cut_windows(panel, length, overlap)
    assert set(windows.values.ravel()) == set(panel.values.ravel())
    for i, id_ in enumerate(panel.ids):
        own = [w.values.ravel() for w, key in zip(windows, windows.ids, strict=True) if key == id_]
        if panel.lengths[i] < 1.5 * length:
            assert [len(w) for w in own] == [panel.lengths[i]]
        else:
            assert {len(w) for w in own} == {length}
            shared = [len(np.intersect1d(a, b)) for a, b in pairwise(own)]
            assert min(shared) >= overlap


def test_windows_of_a_long_series_grow_with_its_length_only():
    rows = [cut_windows(ramp(n), 128, 32).n_observations for n in (5_000, 10_000)]
    assert rows[1] < 2.1 * rows[0] < 2.1 * 1.5 * 5_000


def test_rows_without_observation_are_left_out():
    panel = Panel.from_series([([0, 1, 2], [NAN, 1.0, NAN]), ([0, 3], [5.0, 6.0])])
    kept = observed_part(panel)
    assert kept.times.tolist() == [1, 0, 3]
    assert kept.lengths.tolist() == [1, 2]


@pytest.fixture
def channels() -> Panel:
    first = ([0, 1, 2, 9], [[1.0, NAN], [NAN, 2.0], [3.0, NAN], [4.0, NAN]])
    return Panel.from_series([first, ([0, 5], [[5.0, NAN], [6.0, NAN]])])


def test_last_seen_rows_do_not_cross_series(channels):
    assert last_seen_rows(channels.values, channels.offsets)[:, 0].tolist() == [0, 0, 2, 3, 4, 5]
    assert last_seen_rows(channels.values, channels.offsets)[:, 1].tolist() == [-1, 1, 1, 1, -1, -1]


def test_a_context_reaches_back_to_every_channel(channels):
    rows = np.array([2, 3, 5])
    # Rows 2 and 3 need row 1, the last one that observes the second channel, and what that needs.
    # In the second series nothing but its first row has ever set that channel anew.
    assert context_starts(channels, rows, reach=1.0).tolist() == [0, 0, 4]
    assert context_starts(channels, rows, reach=0.5).tolist() == [1, 1, 4]
    assert context_starts(channels, rows, reach=100.0).tolist() == [0, 0, 4]


def test_a_recent_part_has_the_rows_that_are_asked_for():
    panel = ramp(10, 4)
    assert recent_part(panel, 2.0).lengths.tolist() == [3, 3]
    assert recent_part(panel, 2.0, np.array([5, 8])).values[:, 0].tolist() == [*range(5, 14)]
    assert recent_part(panel, 4.5) is panel


def test_a_panel_tells_whether_it_has_empty_rows():
    panel = Panel.from_series([([0, 1, 2], [NAN, 1.0, NAN]), ([0, 3], [5.0, 6.0])])
    assert not panel.is_observed
    kept = observed_part(panel)
    assert kept.is_observed
    assert observed_part(kept) is kept
    assert kept[[1]].is_observed
    assert kept.since_start().is_observed
    assert panel[1:].is_observed
    blank = kept.like(kept.times, np.full((3, 1), NAN), kept.offsets)
    assert not blank.is_observed


def test_stretches_of_an_observed_panel_are_known_to_be_observed():
    panel = ramp(4, 3)
    bounds = np.array([[1, 0], [5, 0], [7, 2]])
    part = take(panel, *bounds)
    assert part.is_observed
    assert part.is_checked
    bounds[2, 1] = 0  # no row of the second one
    part = take(panel, *bounds)
    assert not part.is_observed
    assert not part.is_checked
    partly = Panel.from_series([([0, 1, 2], [NAN, 1.0, NAN])])
    assert take(partly, *np.array([[0], [1], [2]])).is_observed
    assert not take(partly, *np.array([[0], [0], [2]])).is_observed
    blank = take(partly, *np.array([[0], [0], [1]]))
    assert not blank.is_checked  # it has no observation


def test_a_series_that_is_left_without_rows_is_not_observed():
    panel = Panel.from_series([([0, 1], [NAN, NAN]), ([0, 3], [5.0, 6.0])], empty="keep")
    kept = observed_part(panel)
    assert kept.lengths.tolist() == [0, 2]
    assert not kept.is_observed
    assert drop_empty(panel).ids.tolist() == [1]
    assert drop_empty(panel).is_observed
    with pytest.raises(ValueError, match="X has no observation in any series"):
        drop_empty(panel[:1])


def test_series_without_observations_are_skipped_and_filled_with_nan():
    panel = Panel.from_series([([0, 1], [NAN, NAN]), ([0, 2, 3], [5.0, NAN, 6.0])], empty="keep")

    def lengths(part):
        assert part.is_observed
        return part.lengths[:, None].astype(float)

    np.testing.assert_array_equal(fill_rows(panel, lengths, lambda: 1), [[NAN], [2.0]])
    answer = fill_values(
        panel, np.arange(4.0), np.array([0, 1, 4]), lambda part, times, _: times[:, None]
    )
    np.testing.assert_array_equal(answer[:, 0], [NAN, 1.0, 2.0, 3.0])
