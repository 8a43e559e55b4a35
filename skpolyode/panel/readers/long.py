"""Rows from one long table of all series, and from sktime's containers, read without sktime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.errors import FaultKind, Faults, plain_repr
from skpolyode.panel.cells import (
    BadCell,
    Times,
    column_of,
    is_id_name,
    is_missing,
    is_nested,
    is_time_name,
    join_times,
    read_times,
    read_values,
    text_columns,
)
from skpolyode.panel.checks import DUPLICATE, NOT_NUMERIC, TEXT
from skpolyode.panel.readers.lists import rows_from_array, rows_from_frames
from skpolyode.panel.rows import (
    Duplicates,
    Rows,
    offsets_from,
    reduce_groups,
    require_series,
    series_index,
    stable_order,
)

NOT_CONSTANT = FaultKind(
    "static columns that vary", "keep in `static` only columns that are constant in each series"
)


@dataclass(frozen=True)
class Table:
    """Columns of a long table: rows in any order, `codes` are the positions of their series."""

    codes: np.ndarray
    ids: np.ndarray
    times: Times
    faults: Faults
    # Of single observations: how those of equal time are merged, and numbers that mean "missing".
    duplicates: Duplicates = "error"
    missing: Sequence[float] = ()

    def where(self, row: int, channel: str = "") -> str:
        """Name the series, the channel and the time of a row."""
        time = self.times._replace(ticks=None).format(row)
        return f"{self.faults.series(self.codes[row])}{channel}, time {time}"


def rows_from_long(
    df: Any,
    faults: Faults,
    time_unit: str | None,
    *,
    id: str | Sequence[str],
    time: str,
    values: str | Sequence[str] | None = None,
    channel: str | None = None,
    value: str | None = None,
    error: str | Mapping[str, str] | None = None,
    static: object = None,
    **merging: Any,
) -> Rows:
    """Read a table with columns of ids and a column of times; see `Panel.from_long`."""
    ids = id_columns(id, time)
    if hasattr(df, "column_names") and hasattr(df, "to_pandas"):  # pyarrow
        df = df.to_pandas()
    if isinstance(df, pd.DataFrame):
        if df.columns.nlevels > 1:
            raise ValueError(
                f"{faults.name} has columns of {df.columns.nlevels} levels, such as "
                f"{df.columns[-1]!r}: make one name of each, with {faults.name}.set_axis("
                f"['_'.join(filter(None, map(str, c))) for c in {faults.name}.columns], axis=1)."
            )
        # Ids and times may be in the index.
        levels = [k for k in (*ids, time) if k in df.index.names and k not in df.columns]
        df = df.reset_index(level=levels) if levels else df
    elif not hasattr(df, "__len__") or not hasattr(df, "columns"):
        raise TypeError(
            f"{faults.name} must be a pandas or polars DataFrame, got {type(df)}; collect a lazy "
            "frame first."
        )
    if (channel is None) != (value is None) or (channel is not None and values is not None):
        raise TypeError("pass either values=, or channel= and value= together.")
    columns = [static] if isinstance(static, str) else static
    is_named = isinstance(columns, list | tuple) and all(isinstance(name, str) for name in columns)
    static_columns = columns if is_named else []  # a separate table, or none
    used = [*ids, time, *static_columns, *([channel, value] if channel is not None else [])]
    used += error_columns(error)
    names = value_columns(faults.name, df.columns, used, values)
    require_series(len(df), faults.name)
    labels = [column_of(df, name) for name in ids]
    table = read_table(labels, column_of(df, time), faults, time_unit, **merging)
    if channel is not None:
        rows = _pivot_columns(df, table, channel, value, error)
    else:
        rows = group_rows(table, [column_of(df, name) for name in names], names)
        if error is not None:
            known, nothing = _errors_by_channel(error, names), np.full(len(df), np.nan)
            columns = [column_of(df, known[name]) if name in known else nothing for name in names]
            rows = rows.with_beside(errors=group_rows(table, columns, names).values)
    if static_columns:
        static = _constant_columns(df, table, static_columns)
    return replace(rows, static=static)


def id_columns(id: Any, time: Any) -> list[Any]:
    """Columns of ids, of which there may be several; a TypeError for several ones of times."""
    refuse_many("time", time)
    return list(id) if isinstance(id, list | tuple) else [id]


def refuse_many(role: str, columns: Any) -> None:
    """Raise a TypeError for several columns where one is needed, as for times."""
    if isinstance(columns, list | tuple):
        joined = " + ' ' + ".join(f"table[{name!r}].astype(str)" for name in columns)
        remedy = f"join several before, with table.assign({role}={joined})"
        raise TypeError(f"{role} must be the name of one column, got {columns!r}: {remedy}.")


def rows_from_nothing(
    df: Any, faults: Faults, time_unit: str | None, *, id: Any, time: str
) -> Rows:
    """Rows of an empty table, without series: its columns, except `id` and `time`, are channels."""
    names = tuple(str(name) for name in df.columns if name not in (*id_columns(id, time), time))
    return Rows(join_times([], time_unit), np.empty((0, len(names))), np.zeros(1, int), None, names)


def read_table(
    ids: object, times: object, faults: Faults, time_unit: str | None, **merging: Any
) -> Table:
    """Number the series in the order in which they first occur."""
    if isinstance(ids, list):
        ids = ids[0] if len(ids) == 1 else pd.MultiIndex.from_arrays(ids)
    if isinstance(ids, pd.MultiIndex):  # faster than to factorize tuples
        groups = pd.Series(0, ids).groupby(level=[*range(ids.nlevels)], sort=False, observed=True)
        codes = groups.ngroup().fillna(-1).to_numpy(dtype=np.int64)
        uniques = ids[np.unique(codes, return_index=True)[1]]
    else:
        codes, uniques = pd.factorize(ids)
    missing = np.flatnonzero(codes < 0)
    if len(missing):
        raise ValueError(
            f"{faults.name}: {len(missing)} row(s) have no id, the first is row {missing[0]}; "
            "drop these rows or give them one."
        )
    labels = pd.Index(uniques, tupleize_cols=False).to_numpy()
    if faults.ids is None:
        faults.ids = labels
    try:
        block = read_times(times)
    except TypeError as error:
        name = getattr(times, "name", None)
        where = "" if name is None else f"column {name!r}: "
        raise TypeError(f"{faults.name}: {where}{error}") from error
    return Table(codes, labels, join_times([block], time_unit), faults, **merging)


def group_rows(table: Table, columns: Sequence[object], names: Sequence[str]) -> Rows:
    """Group rows that hold all channels by series."""
    values = np.empty((len(table.codes), len(columns)))
    for index, (column, name) in enumerate(zip(columns, names, strict=True)):
        values[:, index] = _numbers(column, name, table)
    times = table.times
    offsets = offsets_from(np.bincount(table.codes, minlength=len(table.ids)))
    if np.any(table.codes[1:] < table.codes[:-1]):
        order = stable_order(table.codes)
        times, values = times.at(order), values[order]
    return Rows(times, values, offsets, channel_names=tuple(map(str, names)))


def pivot(
    table: Table, channels: np.ndarray, cells: np.ndarray, names: list[str], **beside: np.ndarray
) -> Rows:
    """Pivot single observations: one row for each series and time, sorted by time."""
    order = stable_order(channels)
    order = order[np.argsort(table.times.order[order], kind="stable")]
    order = order[stable_order(table.codes[order])]
    codes, times, channels = table.codes[order], table.times.order[order], channels[order]
    cells = cells[order]
    cells[is_missing(cells, table.missing)] = np.nan  # before cells of equal time are merged
    new_row = np.ones(len(codes), dtype=bool)
    new_row[1:] = (codes[1:] != codes[:-1]) | (times[1:] != times[:-1])
    new_cell = new_row.copy()
    new_cell[1:] |= channels[1:] != channels[:-1]

    def line(k: int) -> str:
        name = plain_repr(names[channels[k]])
        return f"{table.where(order[k])}: channel {name} occurs again"

    how = table.duplicates
    if how == "error":
        table.faults.add_each(DUPLICATE, np.flatnonzero(~new_cell), line)
        how = "first"
    starts = np.flatnonzero(new_cell)
    columns = {name: column[order][:, None] for name, column in beside.items()}
    found, merged = reduce_groups(cells[:, None], columns, starts, how)
    place = (np.cumsum(new_row) - 1)[starts], channels[starts]

    def table_of(column: np.ndarray) -> np.ndarray:
        values = np.full((int(new_row.sum()), len(names)), np.nan)
        values[place] = column[:, 0]
        return values

    offsets = offsets_from(np.bincount(codes[new_row], minlength=len(table.ids)))
    kept, labels = table.times.at(order[new_row]), tuple(map(str, names))
    rows = Rows(kept, table_of(found), offsets, channel_names=labels)
    return rows.with_beside(**{name: table_of(column) for name, column in merged.items()})


def _pivot_columns(df: Any, table: Table, channel: str, value: str, error: Any) -> Rows:
    channels, names = pd.factorize(column_of(df, channel))
    unnamed = np.flatnonzero(channels < 0)
    if len(unnamed):
        raise ValueError(
            f"{table.faults.name}: {table.where(unnamed[0])}: the column {channel!r} is empty "
            f"there, and in {len(unnamed)} row(s) in all; drop these rows."
        )
    cells = _numbers(column_of(df, value), value, table)
    numbered = range(len(names))
    try:
        order = sorted(numbered, key=lambda k: names[k])
    except TypeError:  # names of several types cannot be compared
        order = sorted(numbered, key=lambda k: str(names[k]))
    place, labels, beside = np.argsort(order), [names[k] for k in order], {}
    if error is not None:
        name = _errors_by_channel(error, [value])[value]
        beside["errors"] = _numbers(column_of(df, name), name, table)
    return pivot(table, place[channels], cells, labels, **beside)


def error_columns(error: str | Mapping[str, str] | None) -> list[str]:
    """Columns of errors that the argument `error` of `from_long` names."""
    if error is None or isinstance(error, str):
        return [] if error is None else [error]
    return list(error.values())


def value_columns(
    table: str, known: Sequence[str], used: Sequence[str], values: str | Sequence[str] | None
) -> list[str]:
    """Columns of the channels: `values`, or by default all `known` ones that are not `used`.

    Raises
    ------
    ValueError
        If the `table` lacks a column of `values` or `used`.
    """
    if isinstance(values, str):
        values = [values]
    names = [name for name in known if name not in used] if values is None else list(values)
    if missing := [name for name in (*used, *names) if name not in known]:
        raise ValueError(f"{table} has no column {missing[0]!r}; its columns are {list(known)}.")
    return names


def _errors_by_channel(error: str | Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    known = dict.fromkeys(names, error) if isinstance(error, str) else dict(error)
    if (isinstance(error, str) and len(names) > 1) or (unknown := set(known) - set(names)):
        what = "one column for several channels" if isinstance(error, str) else f"{unknown}"
        raise ValueError(
            f"error names {what}, but the channels are {list(names)}: give a mapping from them, "
            "{channel: column of its errors}."
        )
    return known


def _numbers(column: object, name: str, table: Table) -> np.ndarray:
    array, bad = read_values(column)
    if text := text_columns(bad, array.size):
        table.faults.add(TEXT, [f"column {name!r} holds text, such as {text[0].content!r}"])
        return np.zeros(array.size)

    def line(cell: BadCell) -> str:
        where = table.where(cell.position, f", channel {name!r}")
        return f"{where}: not a number, {cell}"

    table.faults.add_each(NOT_NUMERIC, bad, line)
    return array.astype(np.float64)


def _constant_columns(df: Any, table: Table, names: Sequence[str]) -> pd.DataFrame:
    faults, row = table.faults, np.empty(len(table.ids), dtype=np.int64)
    row[table.codes] = np.arange(len(table.codes))  # any row of each series
    columns = {}
    for name in names:
        column = pd.Series(column_of(df, name))
        try:
            content = pd.factorize(column)[0]
        except TypeError as error:  # a list, which cannot be compared
            raise TypeError(
                f"{faults.name}: static column {name!r}: {error}; give a number or a text for each "
                "series, or one column for each item."
            ) from error
        varies = np.unique(table.codes[content != content[row][table.codes]])
        lines = [f"{faults.series(code)}: static column {name!r} varies" for code in varies]
        faults.add(NOT_CONSTANT, lines)
        columns[name] = column.iloc[row].array
    return pd.DataFrame(columns, index=pd.Index(table.ids, tupleize_cols=False))


def rows_from_sktime(X: object, faults: Faults, time_unit: str | None, **merging: Any) -> Rows:
    """Read any of the containers; see `Panel.from_sktime`."""
    if isinstance(X, list | tuple):
        return rows_from_frames(X, faults, time_unit)
    if isinstance(X, np.ndarray) and X.ndim == 3:
        return rows_from_array(X.transpose(0, 2, 1), faults, time_unit)
    if isinstance(X, pd.DataFrame):
        require_series(len(X), faults.name)
        if isinstance(X.index, pd.MultiIndex):
            refuse_swapped_levels(X.index, faults.name)
            ids, times = X.index.droplevel(-1), X.index.get_level_values(-1)
            columns = [X.iloc[:, index] for index in range(X.shape[1])]
            table = read_table(ids, times, faults, time_unit)
            return group_rows(table, columns, list(X.columns))
    if not isinstance(X, pd.DataFrame) or not is_nested(X):
        raise TypeError(
            f'{faults.name} must be one of sktime\'s "nested_univ", "pd-multiindex", "df-list" or '
            f'"numpy3D", got {type(X)}.'
        )
    labels, blocks = X.index.to_numpy(), []
    if faults.ids is None and X.index.is_unique:
        faults.ids = labels
    for position, cell in enumerate(X.to_numpy(dtype=object).ravel()):
        row, column = divmod(position, X.shape[1])
        where = f"{faults.name}: {faults.series(row)}, channel {X.columns[column]!r}"
        if not isinstance(cell, pd.Series | np.ndarray):
            raise TypeError(f"{where}: the cell must hold a Series, got {type(cell)}.")
        values, bad = read_values(cell)
        if bad:
            raise ValueError(f"{where}, row {bad[0].position}: not a number, {bad[0]}.")
        index = cell.index if isinstance(cell, pd.Series) else np.arange(len(cell))
        blocks.append((read_times(index), values))
    counts = [len(values) for _, values in blocks]
    codes, channels = np.divmod(series_index(offsets_from(counts)), X.shape[1])
    times = join_times([block for block, _ in blocks], time_unit)
    table = Table(codes, labels, times, faults, **merging)
    values = np.concatenate([values for _, values in blocks], dtype=np.float64)
    return pivot(table, channels, values, list(X.columns))


def refuse_swapped_levels(index: pd.MultiIndex, name: str) -> None:
    """Raise a ValueError if types or names show that the last level does not hold the times."""
    dated = list(map(_are_dated, index.levels))
    if not any(dated) and is_id_name(index.names[-1]):
        dated = list(map(is_time_name, index.names))
    if dated[-1] or not any(dated):
        return
    k = dated.index(True)
    order = [*(other for other in range(len(dated)) if other != k), k]
    raise ValueError(
        f"{name} has the index levels {list(index.names)}, of which the last must hold the times, "
        f"but level {k} does: give {name}.reorder_levels({order}).sort_index(). If it holds ids of "
        "series, make text of them."
    )


def _are_dated(labels: pd.Index) -> bool:
    try:
        return read_times(labels).kind != "number"
    except TypeError:  # text
        return False


def refuse_repeated_rows(frame: pd.DataFrame, name: str) -> None:
    """Raise a ValueError for rows of equal instance and time, with a remedy for frames."""
    if frame.index.is_unique:
        return
    repeated = frame.index.duplicated()
    levels = list(range(frame.index.nlevels))
    whose = "instance and time" if len(levels) > 1 else "time"
    raise ValueError(
        f"{name} has rows of equal {whose} ({int(repeated.sum())} such rows, the first at "
        f"{plain_repr(frame.index[repeated][0])}): merge them before, for example by "
        f"{name}.groupby(level={levels}).mean()."
    )
