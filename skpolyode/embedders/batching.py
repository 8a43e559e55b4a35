"""Work on a few series at a time: bounded memory, and a core for each of some chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from skpolyode.panel import Panel
from skpolyode.training import intra_op_threads

__all__ = ["map_chunks", "map_slices", "series_chunks"]

_CHUNK_ROWS = 50_000  # rows embedded at once: bounds memory


def series_chunks(lengths: np.ndarray, n_rows: int | None = None) -> Iterator[slice]:
    """Consecutive series of about `n_rows` rows, by default `_CHUNK_ROWS`."""
    chunk = (np.cumsum(lengths) - 1) // (_CHUNK_ROWS if n_rows is None else n_rows)
    bounds = np.flatnonzero(np.diff(chunk, prepend=-1, append=-1))
    for start, stop in pairwise(bounds):
        yield slice(int(start), int(stop))


def map_chunks(embed: Callable[[Panel], Any], panel: Panel, n_rows: int | None = None) -> list:
    """Results of `embed` for consecutive series; see `map_slices`."""
    return map_slices(lambda part: embed(panel[part]), panel.lengths, n_rows)


def map_slices(
    work: Callable[[slice], Any], lengths: np.ndarray, n_rows: int | None = None
) -> list:
    """Results of `work` for slices of series of some lengths, on the threads that torch may use.

    The chunks do not depend on the number of threads, and neither does the result. Each thread
    runs torch's operations by itself: the operations are many and small, and a second thread
    inside them would mostly wait for the first (if the machine is busy, for very long).
    """
    parts = list(series_chunks(lengths, n_rows))
    n_threads = min(torch.get_num_threads(), len(parts))
    with intra_op_threads(1):
        if n_threads < 2:
            return [work(part) for part in parts]
        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(work, parts))
