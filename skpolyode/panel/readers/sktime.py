"""Rows from sktime's containers of series, read without sktime."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from skpolyode.errors import Faults, plain_repr
from skpolyode.panel.cells import read_values
from skpolyode.panel.readers.arrays import rows_from_array
from skpolyode.panel.readers.kinds import is_id_name, is_nested, is_time_name
from skpolyode.panel.readers.lists import rows_from_frames
from skpolyode.panel.readers.long import Table, group_rows, pivot, read_table
from skpolyode.panel.rows import Duplicates, Rows, offsets_from, require_series, series_index
from skpolyode.panel.timeaxis import join_times, read_times


def rows_from_sktime(
    X: object,
    faults: Faults,
    time_unit: str | None,
    *,
    duplicates: Duplicates = "error",
    missing: Sequence[float] = (),
) -> Rows:
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
            return group_rows(table, columns, list(X.columns), faults)
        if is_nested(X):
            return _rows_from_nested(X, faults, time_unit, duplicates, missing)
    raise TypeError(
        f'{faults.name} must be one of sktime\'s "nested_univ", "pd-multiindex", "df-list" or '
        f'"numpy3D", got {type(X)}.'
    )


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


def _rows_from_nested(
    X: pd.DataFrame,
    faults: Faults,
    time_unit: str | None,
    duplicates: Duplicates,
    missing: Sequence[float],
) -> Rows:
    labels = X.index.to_numpy()
    if faults.ids is None and X.index.is_unique:
        faults.ids = labels
    blocks = []
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
    values = np.concatenate([values for _, values in blocks], dtype=np.float64)
    table = Table(codes, labels, times)
    return pivot(table, channels, values, list(X.columns), faults, duplicates, missing)
