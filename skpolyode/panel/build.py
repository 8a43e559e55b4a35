"""Rows from lists of series and from arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from skpolyode.errors import Faults
from skpolyode.panel.cells import BadCell, read_values
from skpolyode.panel.faults import COLUMNS, NOT_NUMERIC
from skpolyode.panel.rows import (
    Blocks,
    Rows,
    are_offsets,
    default_channel_names,
    offsets_from,
    require_series,
)
from skpolyode.panel.timeaxis import TimeBlock, join_times, read_times

Block = tuple[TimeBlock, np.ndarray, Sequence[BadCell]]


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
    _check_offsets(bounds, len(array), faults)
    array = array[:, None] if array.ndim == 1 else array
    joined, axis = join_times([block], time_unit)
    rows = Rows(joined, np.array(array, dtype=np.float64), bounds.astype(np.int64), axis)
    lines = [_bad_cell_line(cell, rows, faults) for cell in bad[: faults.limit]]
    faults.add(NOT_NUMERIC, lines, len(bad))
    return rows


def rows_from_series(series: Iterable[object], faults: Faults, time_unit: str | None) -> Rows:
    """Read a list of (times, values) pairs."""

    def read(pair: object) -> Block:
        times, values = _split(pair)
        return read_times(times), *read_values(values)

    return _rows_from_blocks(series, read, faults, time_unit)


def rows_from_tables(tables: Iterable[object], faults: Faults, time_unit: str | None) -> Rows:
    """Read a list of (L, D) arrays, at times 0, 1, ..., L - 1."""

    def read(table: object) -> Block:
        array, bad = read_values(table)
        if array.ndim != 2:
            raise ValueError(f"must be 2-D (time, channel) like the others, got {array.ndim}-D")
        return TimeBlock(np.arange(len(array))), array, bad

    return _rows_from_blocks(tables, read, faults, time_unit)


def rows_from_frames(
    frames: Iterable[pd.DataFrame | pd.Series], faults: Faults, time_unit: str | None
) -> Rows:
    """Read a list of DataFrames or Series that are indexed by time."""

    def read(table: object) -> Block:
        if not isinstance(table, pd.DataFrame | pd.Series):
            raise TypeError(f"must be a DataFrame or Series like the others, got {type(table)}")
        return read_times(table.index), *read_values(table)

    tables = list(frames)
    if faults.channel_names is None and tables and isinstance(tables[0], pd.DataFrame):
        faults.channel_names = _column_names(tables[0])
    rows = _rows_from_blocks(tables, read, faults, time_unit)
    return replace(rows, channel_names=_frame_channel_names(tables, faults))


def _rows_from_blocks(
    items: Iterable[object],
    read: Callable[[object], Block],
    faults: Faults,
    time_unit: str | None,
) -> Rows:
    blocks = Blocks(faults)
    position = -1
    for position, item in enumerate(items):
        try:
            times, values, bad = read(item)
        except (TypeError, ValueError) as error:
            raise _named(error, faults, position) from error
        blocks.add(times, values, bad)
    require_series(position + 1, faults.name)
    return blocks.join(time_unit)


def rows_from_array(array: object, times: object, faults: Faults, time_unit: str | None) -> Rows:
    """Read an array of shape (n, time) or (n, time, channel), all rows of it or without padding."""
    ids = _row_labels(array) if faults.ids is None else faults.ids
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
    block = _array_times(times, values, faults)
    grid, axis = join_times([block._replace(data=block.data.ravel())], time_unit)
    grid = np.broadcast_to(grid.reshape(block.data.shape), values.shape[:2])
    keep = _rows_to_keep(values, grid, block.data.ndim == 2, keep_trailing)
    offsets = offsets_from(keep.sum(axis=1))
    faults.ids = ids
    flat = values.reshape(grid.size, values.shape[2])
    full = Rows(grid.ravel(), flat, _even_offsets(values), axis)
    lines = [_bad_cell_line(cell, full, faults) for cell in bad[: faults.limit]]
    faults.add(NOT_NUMERIC, lines, len(bad))
    return Rows(grid[keep], values[keep], offsets, axis)


def _array_times(times: object, values: np.ndarray, faults: Faults) -> TimeBlock:
    if times is None:
        return TimeBlock(np.arange(values.shape[1]))
    block = read_times(times)
    if block.data.shape not in (values.shape[1:2], values.shape[:2]):
        raise ValueError(
            f"{faults.name}: times must be of shape {values.shape[1:2]} (for all series) or "
            f"{values.shape[:2]} (for each), got {block.data.shape}."
        )
    return block


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


def _even_offsets(values: np.ndarray) -> np.ndarray:
    return np.arange(len(values) + 1) * values.shape[1]


def _row_labels(array: object) -> np.ndarray | None:
    """Return the index of a 2-D frame, which tells its series apart, where it is unique."""
    if not isinstance(array, pd.DataFrame) or not array.index.is_unique:
        return None
    return array.index.to_numpy()


def _split(pair: object) -> tuple[object, object]:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(
            "must be a pair (times, values), a tuple of two, got "
            + (f"{len(pair)} items" if isinstance(pair, tuple) else f"{type(pair)}")
        )
    return pair


def _named(error: Exception, faults: Faults, position: int) -> Exception:
    """Put the name of the series before an error that reading it raised."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{faults.name}: {faults.series(position)}: {error}")


def _frame_channel_names(
    tables: Sequence[pd.DataFrame | pd.Series], faults: Faults
) -> tuple[str, ...] | None:
    """Return the columns, which must agree; names of Series count only where all are equal."""
    frames = [(i, table) for i, table in enumerate(tables) if isinstance(table, pd.DataFrame)]
    if not frames:
        names = {table.name for table in tables}
        name = names.pop() if len(names) == 1 else None
        return None if name is None else (str(name),)
    first_position, first = frames[0]
    for position, frame in frames[1:]:
        if len(frame.columns) == len(first.columns) and not frame.columns.equals(first.columns):
            line = (
                f"columns {_columns(frame)}, where {faults.series(first_position)} has "
                f"{_columns(first)}"
            )
            faults.add(COLUMNS, [f"{faults.series(position)}: {line}"])
    return _column_names(first)


def _column_names(frame: pd.DataFrame) -> tuple[str, ...]:
    if isinstance(frame.columns, pd.RangeIndex):
        return default_channel_names(len(frame.columns))
    return tuple(map(str, frame.columns))


def _columns(frame: pd.DataFrame) -> str:
    names = [str(name) for name in frame.columns]
    return str(names) if len(names) <= 6 else f"[{', '.join(map(repr, names[:6]))}, ...]"


def _check_offsets(offsets: np.ndarray, n_rows: int, faults: Faults) -> None:
    if not are_offsets(offsets, n_rows):
        raise ValueError(
            f"{faults.name}: offsets must be integers that rise from 0 to the number of rows, "
            f"{n_rows}, got {offsets!r}."
        )
    require_series(len(offsets) - 1, faults.name)


def _bad_cell_line(cell: BadCell, rows: Rows, faults: Faults) -> str:
    row, channel = divmod(cell.position, rows.values.shape[1])
    series = faults.series(rows.series_of(row))
    time = rows.axis.format(rows.times[row])
    return f"{series}, {faults.channel(channel)}, time {time}: not a number, {cell}"
