"""Rows from lists of series: pairs, tables and frames."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd

from skpolyode.errors import FaultKind, Faults
from skpolyode.panel.cells import read_values
from skpolyode.panel.readers.blocks import Block, rows_from_blocks
from skpolyode.panel.readers.kinds import is_id_name, is_time_name
from skpolyode.panel.rows import Rows
from skpolyode.panel.timeaxis import TimeBlock, read_times

COLUMNS = FaultKind(
    "different channel names",
    "give every frame the same columns in the same order, with frame.reindex(columns=...)",
)


def rows_from_series(series: Iterable[object], faults: Faults, time_unit: str | None) -> Rows:
    """Read a list of (times, values) pairs."""

    def read(pair: object) -> Block:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(
                "must be a pair (times, values), a tuple of two, got "
                + (f"{len(pair)} items" if isinstance(pair, tuple) else f"{type(pair)}")
            )
        times, values = pair
        return read_times(times), *read_values(values)

    return rows_from_blocks(series, read, faults, time_unit)


def rows_from_tables(tables: Iterable[object], faults: Faults, time_unit: str | None) -> Rows:
    """Read a list of (L, D) arrays, at times 0, 1, ..., L - 1."""

    def read(table: object) -> Block:
        array, bad = read_values(table)
        if array.ndim != 2:
            raise ValueError(f"must be 2-D (time, channel) like the others, got {array.ndim}-D")
        return TimeBlock(np.arange(len(array))), array, bad

    return rows_from_blocks(tables, read, faults, time_unit)


def rows_from_frames(
    frames: Iterable[pd.DataFrame | pd.Series], faults: Faults, time_unit: str | None
) -> Rows:
    """Read a list of DataFrames or Series that are indexed by time."""

    def read(table: object) -> Block:
        if not isinstance(table, pd.DataFrame | pd.Series):
            raise TypeError(f"must be a DataFrame or Series like the others, got {type(table)}")
        if isinstance(table, pd.DataFrame) and (reason := _column_that_is_no_channel(table)):
            raise TypeError(reason)
        return read_times(table.index), *read_values(table)

    tables = list(frames)
    if faults.channel_names is None and tables and isinstance(tables[0], pd.DataFrame):
        faults.channel_names = _column_names(tables[0])
    rows = rows_from_blocks(tables, read, faults, time_unit)
    framed = [(i, table) for i, table in enumerate(tables) if isinstance(table, pd.DataFrame)]
    if not framed:  # names of Series count only where all are equal
        names = {table.name for table in tables}
        name = names.pop() if len(names) == 1 else None
        return replace(rows, channel_names=None if name is None else (str(name),))
    first_position, first = framed[0]
    for position, frame in framed[1:]:
        if len(frame.columns) == len(first.columns) and not frame.columns.equals(first.columns):
            line = (
                f"columns {_columns(frame)}, where {faults.series(first_position)} has "
                f"{_columns(first)}"
            )
            faults.add(COLUMNS, [f"{faults.series(position)}: {line}"])
    return replace(rows, channel_names=_column_names(first))


def _column_that_is_no_channel(table: pd.DataFrame) -> str | None:
    """Say why a column by its name is no channel of a frame whose rows are only counted."""
    if table.index.name is not None or table.index.dtype.kind not in "iu":
        return None
    for name in table.columns:
        if is_time_name(name):
            return (
                f"the column {name!r} would be a channel and not the times; index the frame by it, "
                f"with frame.set_index({name!r}), or call it otherwise"
            )
        if is_id_name(name):
            return (
                f"the column {name!r} would be a channel and not the id; drop it, with "
                f"frame.drop(columns={name!r}), and pass ids= to Panel.from_frames"
            )
    return None


def _column_names(frame: pd.DataFrame) -> tuple[str, ...] | None:
    """Return the columns as text, or None where pandas has only counted them."""
    if isinstance(frame.columns, pd.RangeIndex):
        return None
    return tuple(map(str, frame.columns))


def _columns(frame: pd.DataFrame) -> str:
    names = [str(name) for name in frame.columns]
    return str(names) if len(names) <= 6 else f"[{', '.join(map(repr, names[:6]))}, ...]"
