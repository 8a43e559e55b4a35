"""Some series of many that are packed."""

from __future__ import annotations

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.paper.study.series_task import of_series
from skpolyode.models import pack
from tests.models.cases import assert_same, flat_series, join, part, series


@given(series(), st.data())
def test_select_is_packing_the_subset(flat, choice):
    n_series = len(flat[2]) - 1
    chosen = choice.draw(st.sets(st.integers(0, n_series - 1), min_size=1))
    chosen = sorted(chosen)
    subset = pack(*join([part(flat, i) for i in chosen]))
    subset.series.copy_(torch.tensor(chosen)[subset.series])
    for block_rows in (200_000, 4):
        selected = of_series(pack(*flat, block_rows=block_rows), torch.tensor(chosen))
        if block_rows == 4:  # several blocks: longest first holds within a block only
            assert len(selected) == len(subset)
            continue
        assert_same(selected, subset)


def test_selected_series_run_as_one_block():
    """Also from several blocks: steps must never grow, and pointers must follow them."""
    flat = flat_series([2, 7, 3, 5, 1, 6])
    selected = of_series(pack(*flat, block_rows=6), torch.tensor([1, 2, 4, 5]))
    (block,) = selected.blocks()
    for before, rows in pairwise(block):
        n = rows.stop - rows.start
        following = torch.arange(rows.start, rows.stop)
        assert torch.equal(selected.next[before.start : before.start + n], following)
