"""Times ahead of many series, each from its own last observation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skpolyode.embedders.batching import series_chunks
from skpolyode.panel import Panel, series_index
from skpolyode.panel.query import name_query

__all__ = ["continue_series"]


def continue_series(
    panel: Panel,
    times: np.ndarray,
    offsets: np.ndarray,
    end: np.ndarray,
    run_ahead: Callable[[slice, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Values (Q, D) of what follows each series.

    Parameters
    ----------
    panel : Panel
        The series, or a panel of the same labels; its rows are not read.
    times : float64 ndarray of shape (Q,)
        Times from the last observation on, of all series one after the other.
    offsets : int64 ndarray of shape (B + 1,)
        Where the times of each series start and those of the last one end.
    end : float64 ndarray of shape (B,)
        Time of the last observation of each series.
    run_ahead : callable
        Values (b, Q, D) of a slice of the series at times (b, Q) after their ends.

    Raises
    ------
    ValueError
        If a time is before the last observation of its series.
    """
    counts, series = np.diff(offsets), series_index(offsets)
    ahead = times - end[series]
    if (ahead < 0).any():
        first = int(np.flatnonzero(ahead < 0)[0])
        raise ValueError(
            f"{name_query(panel, series[first], times[first], -ahead[first])} before its last "
            f"observation ({int((ahead < 0).sum())} such times); reconstruct reads the past, "
            'and relative_to="end" counts times from there.'
        )
    values = np.empty((len(times), panel.n_channels))
    for part in series_chunks(np.maximum(panel.lengths, counts)):
        rows = slice(offsets[part.start], offsets[part.stop])
        padded = np.zeros((part.stop - part.start, counts[part].max()))
        inside = np.arange(padded.shape[1]) < counts[part, None]
        padded[inside] = ahead[rows]
        values[rows] = run_ahead(part, padded)[inside]
    return values
