"""Batches: consecutive series on threads, and long series cut into parts that run in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch

from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.query import refuse_early
from skpolyode.panel.select import context_starts, series_chunks, series_of_rows, take
from skpolyode.threads import one_thread

CHUNK_ROWS = 32_000  # per chunk of a thread: bounds memory
CHUNK_TIMES = 4096  # per chunk, each with a state or coefficients: bounds memory

_BEFORE_END = (
    "its last observation ({} such times). Times are moments, not steps: "
    'relative_to="end" counts them from there. reconstruct reads the past.'
)


def map_chunks(embed: Callable[[Panel], Any], panel: Panel) -> list:
    """Results of `embed` for consecutive series; see `map_slices`."""
    return map_slices(lambda part: embed(panel[part]), panel.lengths)


def map_slices(work: Callable[[slice], Any], lengths: np.ndarray) -> list:
    """Results of `work` for slices of series of these lengths, on the threads that torch may use.

    The chunks do not depend on the number of threads, and neither does the result. Torch operations
    are single-threaded in each thread: they are many and small, and a second thread inside them
    would mostly wait for the first (very long on a busy machine).
    """
    return map_threads(work, list(series_chunks(lengths, CHUNK_ROWS)))


def map_threads(work: Callable[[Any], Any], parts: Sequence[Any]) -> list:
    """Results of `work` for each part, on the threads that torch may use; see `map_slices`."""
    n_threads = min(torch.get_num_threads(), len(parts))
    with one_thread():
        if n_threads < 2:
            return [work(part) for part in parts]
        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(work, parts))


def lead_batches(
    panel: Panel, times: np.ndarray, offsets: np.ndarray, end: np.ndarray
) -> Iterator[tuple[slice, slice, np.ndarray, np.ndarray]]:
    """Split forecasts of many series into batches of bounded size.

    Parameters
    ----------
    panel : Panel
        The series, or a panel with the same labels.
    times : float64 ndarray of shape (Q,)
        Times from the last observation on, of all series one after the other.
    offsets : int64 ndarray of shape (B + 1,)
        Where the times of each series start and those of the last one end.
    end : float64 ndarray of shape (B,)
        Time of the last observation of each series.

    Yields
    ------
    series : slice
        Consecutive series.
    rows : slice
        Rows of these series among all Q.
    leads : float64 ndarray of shape (b, q)
        Times since the last observations, zero where padded.
    asked : bool ndarray of shape (b, q)
        False where padded.

    Raises
    ------
    ValueError
        If a time is before the last observation of its series.
    """
    refuse_early(panel, times, offsets, end, _BEFORE_END)
    counts = np.diff(offsets)
    leads = times - np.repeat(end, counts)
    for part in series_chunks(np.maximum(panel.lengths, counts), CHUNK_ROWS):
        rows = slice(offsets[part.start], offsets[part.stop])
        asked = np.arange(counts[part].max()) < counts[part, None]
        padded = np.zeros(asked.shape)
        padded[asked] = leads[rows]
        yield part, rows, padded, asked


class Parts(NamedTuple):
    """Series cut into parts that run in parallel, each after a warm-up that sets its state."""

    panel: Panel  # K parts as series, each with the rows of its warm-up
    start: np.ndarray  # int64 (K,): first row of the warm-up, among all rows of the uncut panel
    bounds: np.ndarray  # int64 (K + 1,): first row of each part after its warm-up, and the end
    later: np.ndarray  # int64: the parts that are not the first of their series

    def rows(self, chunk: slice) -> tuple[Panel, np.ndarray]:
        """Panel of a chunk of parts, and positions of its rows outside warm-ups, in order."""
        panel = self.panel[chunk]
        series = series_of_rows(panel)
        row = np.arange(panel.n_observations) + (self.start[chunk] - panel.offsets[:-1])[series]
        return panel, np.flatnonzero(row >= self.bounds[chunk][series])


def cut(panel: Panel, reach: float, n_rows: int) -> Parts:
    """Cut long series into parts of about `n_rows` rows, and a warm-up as long as `reach`.

    Parameters
    ----------
    panel : Panel
        Panel without empty rows.
    reach : float
        Length of the past that a state depends on, in the units of `times`. Series of up to twice
        this length are not cut.
    n_rows : int
    """
    first, lengths = panel.offsets[:-1], panel.lengths
    is_long = panel.end - panel.start > 2 * reach
    n_parts = np.where(is_long, np.maximum(lengths // n_rows, 1), 1)
    series = np.repeat(np.arange(panel.n_series), n_parts)
    place = np.arange(len(series)) - offsets_from(n_parts)[series]
    bounds = first[series] + place * lengths[series] // n_parts[series]
    start, bounds = bounds.copy(), np.append(bounds, panel.n_observations)
    later = np.flatnonzero(place)
    if len(later):
        start[later] = context_starts(panel, bounds[later] - 1, reach)
    return Parts(take(panel, series, start, bounds[1:]), start, bounds, later)
