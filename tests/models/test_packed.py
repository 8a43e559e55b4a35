"""Ragged series as time-major rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skpolyode.models import pack
from tests.models.cases import flat_series, part, series

BLOCKS = st.sampled_from([1, 3, 8, 200_000])


def walk(data, start):
    """Rows of a series, from its first one on, by the pointers to the next."""
    rows = [start]
    while data.next[rows[-1]] >= 0:
        rows.append(int(data.next[rows[-1]]))
    return rows


@given(series(), BLOCKS)
def test_every_row_appears_once_and_pointers_walk_each_series(flat, block_rows):
    times, _, offsets = flat
    data = pack(*flat, block_rows=block_rows)
    assert len(data) == len(times)
    starts = (data.elapsed == 0).nonzero()[:, 0].tolist()
    assert sorted(data.series[starts].tolist()) == list(range(len(offsets) - 1))
    for start in starts:
        i, rows = int(data.series[start]), walk(data, start)
        own_times, own_values = part(flat, i)
        assert (data.series[rows] == i).all()
        np.testing.assert_array_equal(data.elapsed[rows], own_times - own_times[0])
        np.testing.assert_array_equal(data.mask[rows], ~np.isnan(own_values))
        np.testing.assert_array_equal(data.x[rows], np.nan_to_num(own_values))
        gap = np.concatenate([[0.0], np.diff(own_times - own_times[0])])
        np.testing.assert_allclose(data.gap[rows], gap, atol=1e-14)


@given(series(), BLOCKS)
def test_channel_history_by_brute_force(flat, block_rows):
    data = pack(*flat, block_rows=block_rows)
    for start in (data.elapsed == 0).nonzero()[:, 0].tolist():
        rows = walk(data, start)
        for k, row in enumerate(rows):
            for channel in range(data.x.shape[1]):
                before = [r for r in rows[:k] if data.mask[r, channel]]
                assert bool(data.seen[row, channel]) == bool(before)
                gap = float(data.elapsed[row] - data.elapsed[before[-1]]) if before else 1.0
                assert float(data.channel_gap[row, channel]) == gap


@given(series(), BLOCKS)
def test_steps_are_slices_that_never_grow(flat, block_rows):
    """Row k of a step is the successor of row k of the step before: no gather is needed."""
    data, seen = pack(*flat, block_rows=block_rows), []
    for block in data.blocks():
        for before, rows in zip([None, *block], block, strict=False):
            seen += range(rows.start, rows.stop)
            if before is None:
                assert (data.elapsed[rows] == 0).all()
                continue
            n = rows.stop - rows.start
            assert 0 < n <= before.stop - before.start
            following = torch.arange(rows.start, rows.stop)
            assert torch.equal(data.next[before.start : before.start + n], following)
            assert (data.next[before.start + n : before.stop] == -1).all()
        assert (data.next[block[-1]] == -1).all()
    assert seen == list(range(len(data)))


@given(series())
def test_blocks_only_change_the_order_of_rows(flat):
    one, several = pack(*flat), pack(*flat, block_rows=4)
    keys = [np.lexsort((data.elapsed, data.series)) for data in (one, several)]
    for name in ("x", "mask", "seen", "gap", "channel_gap", "elapsed", "series"):
        a, b = (getattr(d, name)[key] for d, key in zip((one, several), keys, strict=True))
        assert torch.equal(a, b)
    assert sum(map(sum, several.sizes)) == len(one)


def test_to_keeps_times_in_float64():
    data = pack(*flat_series([3, 2])).to(torch.device("cpu"), torch.float32)
    assert data.x.dtype == torch.float32
    assert {data.gap.dtype, data.channel_gap.dtype, data.elapsed.dtype} == {torch.float64}


def test_input_is_left_alone():
    flat = flat_series([4, 3])
    before = [array.copy() for array in flat]
    for array in flat:
        array.flags.writeable = False
    data = pack(*flat)
    data.x.add_(1)
    data.gap.add_(1)
    for array, old in zip(flat, before, strict=True):
        np.testing.assert_array_equal(array, old)


@pytest.mark.parametrize("lengths", [[1], [1, 1, 1], [5]])
def test_smallest_inputs(lengths):
    data = pack(*flat_series(lengths))
    assert len(data) == sum(lengths)
    assert int((data.next < 0).sum()) == len(lengths)
