"""Rows from arrays: flat ones, and those with an axis of series."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skpolyode.errors import Faults
from skpolyode.panel.cells import BadCell, read_values
from skpolyode.panel.checks import NOT_NUMERIC
from skpolyode.panel.rows import Rows, are_offsets, offsets_from, require_series
from skpolyode.panel.timeaxis import TimeBlock, join_times, read_times


def rows_from_flat(
    times: object, values: object, offsets: object, faults: Faults, time_unit: str | None
) -> Rows:
    """Read rows that are flat already."""
    block = read_times(times)
    array, bad = read_values(values)
    bounds = np.asarray(offsets)
    if block.data.ndim != 1 or array.ndim not in (1, 2) or len(array) != block.data.size:
        raise ValueError(
            f"{faults.name}: flat times must be of shape (n_obs,) and values (n_obs, D), got "
            f"{block.data.shape} and {array.shape}."
        )
    if not are_offsets(bounds, len(array)):
        raise ValueError(
            f"{faults.name}: offsets must be integers that rise from 0 to the number of rows, "
            f"{len(array)}, got {bounds!r}."
        )
    require_series(len(bounds) - 1, faults.name)
    array = array[:, None] if array.ndim == 1 else array
    values = np.array(array, dtype=np.float64)
    rows = Rows.of(join_times([block], time_unit), values, bounds.astype(np.int64))
    lines = [_bad_cell_line(cell, rows, faults) for cell in bad[: faults.limit]]
    faults.add(NOT_NUMERIC, lines, len(bad))
    return rows


def rows_from_array(array: object, times: object, faults: Faults, time_unit: str | None) -> Rows:
    """Read an array of shape (n, time) or (n, time, channel), all rows of it or without padding."""
    ids = faults.ids
    if ids is None and isinstance(array, pd.DataFrame) and array.index.is_unique:
        ids = array.index.to_numpy()
    try:
        values, bad = read_values(array)
    except ValueError as error:
        raise ValueError(f"{faults.name}: {error}") from error
    if values.ndim:
        require_series(len(values), faults.name)
    if values.ndim not in (2, 3):
        raise ValueError(
            f"{faults.name}: expected a 2-D array (series, time) or a 3-D array (series, time, "
            f"channel), got shape {values.shape}; give series of different length as a list of "
            "(times, values)."
        )
    keep_trailing = values.ndim == 2
    values = (values[:, :, None] if keep_trailing else values).astype(np.float64)
    block = TimeBlock(np.arange(values.shape[1])) if times is None else read_times(times)
    if block.data.shape not in (values.shape[1:2], values.shape[:2]):
        raise ValueError(
            f"{faults.name}: times must be of shape {values.shape[1:2]} (for all series) or "
            f"{values.shape[:2]} (for each), got {block.data.shape}."
        )
    times = join_times([block._replace(data=block.data.ravel())], time_unit)
    place = np.arange(block.data.size).reshape(block.data.shape)  # of each cell among the times
    place = np.broadcast_to(place, values.shape[:2])
    keep = _rows_to_keep(values, times.counts[place], block.data.ndim == 2, keep_trailing)
    faults.ids = ids
    flat = values.reshape(place.size, values.shape[2])
    bounds = np.arange(len(values) + 1) * values.shape[1]
    full = Rows.of(times.at(place.ravel()), flat, bounds)
    lines = [_bad_cell_line(cell, full, faults) for cell in bad[: faults.limit]]
    faults.add(NOT_NUMERIC, lines, len(bad))
    if keep.all():
        return full
    return full.at(keep.ravel(), offsets_from(keep.sum(axis=1)))


def _rows_to_keep(
    values: np.ndarray, grid: np.ndarray, own_times: bool, keep_trailing: bool
) -> np.ndarray:
    """Mark the rows of (n, time) that are not padding."""
    observed = ~np.isnan(values).all(axis=2)
    if own_times:
        return observed | ~np.isnan(grid)
    if keep_trailing:
        return np.ones_like(observed)
    return np.maximum.accumulate(observed[:, ::-1], axis=1)[:, ::-1]


def _bad_cell_line(cell: BadCell, rows: Rows, faults: Faults) -> str:
    row, channel = divmod(cell.position, rows.values.shape[1])
    series = faults.series(rows.series_of(row))
    time = rows.format_time(row)
    return f"{series}, {faults.channel(channel)}, time {time}: not a number, {cell}"
