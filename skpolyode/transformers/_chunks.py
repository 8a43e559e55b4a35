"""Work on a few series at a time: bounded memory, and a core for each of some chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch

from skpolyode.panel import Panel
from skpolyode.training import intra_op_threads

__all__ = ["map_chunks", "series_chunks"]

_CHUNK_ROWS = 50_000  # rows embedded at once: bounds memory


def series_chunks(lengths: np.ndarray) -> Iterator[slice]:
    """Consecutive series of about `_CHUNK_ROWS` rows."""
    chunk = (np.cumsum(lengths) - 1) // _CHUNK_ROWS
    bounds = np.flatnonzero(np.diff(chunk, prepend=-1, append=-1))
    for start, stop in pairwise(bounds):
        yield slice(int(start), int(stop))


def map_chunks(embed: Callable[[Panel], np.ndarray], panel: Panel) -> np.ndarray:
    """Rows of features of all series, chunk by chunk, on the threads that torch may use.

    The chunks do not depend on the number of threads, and neither does the result. Each thread
    runs torch's operations by itself: the operations are many and small, and a second thread
    inside them would mostly wait for the first.
    """
    parts = [panel[chunk] for chunk in series_chunks(panel.lengths)]
    n_threads = min(torch.get_num_threads(), len(parts))
    with intra_op_threads(1):
        if n_threads < 2:
            return np.concatenate([embed(part) for part in parts])
        with ThreadPoolExecutor(n_threads) as pool:
            return np.concatenate(list(pool.map(embed, parts)))
