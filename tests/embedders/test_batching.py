"""Series are embedded a few at a time, on several threads; neither may show."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skpolyode.embedders.base import map_chunks
from skpolyode.panel import Panel
from skpolyode.panel.select import series_chunks
from skpolyode.transformers import HiPPOTransformer, InterpolationTransformer


@pytest.fixture
def panel():
    rng = np.random.default_rng(0)
    return Panel.from_series(
        [(np.sort(rng.uniform(0, 4, 7)), rng.normal(size=7)) for _ in range(9)]
    )


@pytest.mark.parametrize("embedder", [InterpolationTransformer(kind="cubic"), HiPPOTransformer()])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_chunk_boundary_leaves_no_trace(panel, embedder, n_threads, monkeypatch):
    whole = embedder.fit(panel).transform(panel)
    monkeypatch.setattr("skpolyode.embedders.base.CHUNK_ROWS", 10)
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        np.testing.assert_allclose(embedder.transform(panel), whole, atol=1e-12)
        assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)


def test_chunks_cover_all_series_in_order(panel, monkeypatch):
    monkeypatch.setattr("skpolyode.embedders.base.CHUNK_ROWS", 15)
    chunks = list(series_chunks(panel.lengths, 15))
    assert [n for chunk in chunks for n in range(9)[chunk]] == list(range(9))
    assert len(chunks) == 5
    parts = map_chunks(lambda part: part.lengths, panel)
    assert np.concatenate(parts).tolist() == panel.lengths.tolist()


def test_an_error_in_a_chunk_reaches_the_caller(panel, monkeypatch):
    monkeypatch.setattr("skpolyode.embedders.base.CHUNK_ROWS", 15)
    with pytest.raises(ZeroDivisionError):
        map_chunks(lambda part: 1 / 0, panel)
