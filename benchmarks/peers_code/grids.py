"""Panels as arrays on one grid or padded, which peers read, and back to the rows of a panel."""

from __future__ import annotations

import numpy as np

from skpolyode import Panel
from skpolyode.panel import series_index


def grid_of(*panels: Panel) -> np.ndarray:
    """All times (T,) of some panels."""
    return np.unique(np.concatenate([panel.times for panel in panels]))


def even_grid(panel: Panel, n_times: int) -> np.ndarray:
    """Times (n_times,) from the first to the last one of a panel."""
    return np.linspace(panel.times.min(), panel.times.max(), n_times)


def steps_of(panel: Panel, grid: np.ndarray) -> np.ndarray:
    """Step (n_obs,) of the grid that is nearest to each row."""
    middles = (grid[1:] + grid[:-1]) / 2
    return np.searchsorted(middles, panel.times)


def on_grid(panel: Panel, grid: np.ndarray) -> np.ndarray:
    """Values (B, T, D) at the nearest steps, NaN where there are none; means where rows meet."""
    place = series_index(panel.offsets), steps_of(panel, grid)
    known = ~np.isnan(panel.values)
    sums, counts = np.zeros((2, len(panel), len(grid), panel.n_channels))
    np.add.at(sums, place, np.where(known, panel.values, 0.0))
    np.add.at(counts, place, known)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def at_rows(values: np.ndarray, panel: Panel, grid: np.ndarray) -> np.ndarray:
    """Values (n_obs, D) of an array (B, T, D) at the rows of a panel."""
    return values[series_index(panel.offsets), steps_of(panel, grid)]


def padded(panel: Panel) -> np.ndarray:
    """Times, values and counts of observations so far (B, L, 1 + 2 D), last rows repeated.

    Repeated rows add nothing to an integral along the path.
    """
    seen = ~np.isnan(panel.values)
    columns = np.column_stack([panel.times, panel.values, seen])
    result = np.empty((len(panel), panel.lengths.max(), columns.shape[1]))
    for own, start, stop in zip(result, panel.offsets[:-1], panel.offsets[1:], strict=True):
        rows = columns[start:stop].copy()
        rows[:, 1 + panel.n_channels :] = rows[:, 1 + panel.n_channels :].cumsum(axis=0)
        own[: stop - start], own[stop - start :] = rows, rows[-1]
    return result
