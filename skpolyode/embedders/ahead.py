"""Times ahead of many series, each from its own last observation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skpolyode.embedders.chunks import series_chunks
from skpolyode.panel import Panel, query_times, series_index
from skpolyode.panel.query import name_query

__all__ = ["continue_series", "run_all"]


def continue_series(
    panel: Panel,
    times: Any,
    end: np.ndarray,
    run_ahead: Callable[[slice, np.ndarray], np.ndarray],
) -> Panel:
    """Panel of what follows each series.

    Parameters
    ----------
    panel : Panel
        The series, or a panel of the same labels; its rows are not read.
    times : array-like of shape (Q,) or list of such
        Times from the last observation on, for all series or for each.
    end : float64 ndarray of shape (B,)
        Time of the last observation of each series.
    run_ahead : callable
        Values (b, Q, D) of a slice of the series at times (b, Q) after their ends.

    Raises
    ------
    ValueError
        If a time is before the last observation of its series.
    """
    flat, offsets = query_times(panel, times)
    series = series_index(offsets)
    ahead = flat - end[series]
    if (ahead < 0).any():
        first = int(np.flatnonzero(ahead < 0)[0])
        raise ValueError(
            f"{name_query(panel, series[first], flat[first], -ahead[first])} before its last "
            f"observation ({int((ahead < 0).sum())} such times); reconstruct reads the past."
        )
    return panel.like(flat, run_all(panel.lengths, offsets, ahead, run_ahead), offsets)


def run_all(
    lengths: np.ndarray,
    offsets: np.ndarray,
    ahead: np.ndarray,
    run_ahead: Callable[[slice, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Values (Q, D) at times `ahead` (Q,) of the ends of series, a few series at a time.

    Parameters
    ----------
    lengths : int64 ndarray of shape (B,)
        Rows that each series is run through.
    offsets : int64 ndarray of shape (B + 1,)
        Where the times of each series start.
    ahead : float64 ndarray of shape (Q,)
    run_ahead : callable
        As of :func:`continue_series`.
    """
    counts, values = np.diff(offsets), []
    for part in series_chunks(np.maximum(lengths, counts)):
        rows = slice(offsets[part.start], offsets[part.stop])
        padded = np.zeros((part.stop - part.start, counts[part].max()))
        inside = np.arange(padded.shape[1]) < counts[part, None]
        padded[inside] = ahead[rows]
        values.append(run_ahead(part, padded)[inside])
    return np.concatenate(values)
