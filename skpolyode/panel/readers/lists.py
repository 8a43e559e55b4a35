"""Rows from lists of series and from arrays, and their known errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.errors import FaultKind, Faults, plain_repr
from skpolyode.panel.cells import (
    BadCell,
    TimeBlock,
    as_pandas,
    column_names,
    foreign,
    is_id_name,
    is_time_name,
    join_times,
    read_times,
    read_values,
    text_columns,
)
from skpolyode.panel.checks import NOT_NUMERIC, TEXT, first_misplaced, note_bad_cells, read_ids
from skpolyode.panel.rows import Rows, are_offsets, offsets_from, require_series

_LABELLED = (pd.DataFrame, pd.Series)
Block = tuple[TimeBlock, np.ndarray, Sequence[BadCell]]  # times and values of one series

GROUPED = (
    "has keys beside frames, as a groupby has: read the whole table, with Panel.from_long(table, "
    "id=..., time=...); or, if the frames are indexed by their times, pass them in a dict by key"
)
LENGTHS = FaultKind("times and values of different length", "give one time for each row of values")
SHAPE = FaultKind(
    "wrong number of dimensions", "give times of shape (L,) and values of shape (L,) or (L, D)"
)
CHANNELS = FaultKind(
    "different numbers of channels",
    "give every series the same channels, with NaN where one was not observed",
)
COLUMNS = FaultKind(
    "different channel names",
    "give every frame the same columns in the same order, with frame.reindex(columns=...)",
)


def rows_from_list(
    items: Iterable[object], faults: Faults, time_unit: str | None, read: Callable[[object], Block]
) -> Rows:
    """Read a list of series one by one; wrong shapes are added to the faults."""
    fitting: dict[int, tuple[TimeBlock, np.ndarray]] = {}
    kind, position, n_cells, first = "", -1, 0, None
    found: list[BadCell] = []
    for position, item in enumerate(_series_in(items, faults)):
        try:
            if is_grouped(item):
                raise TypeError(GROUPED)
            times, values, bad = read(item)
        except (TypeError, ValueError) as error:
            error_type = TypeError if isinstance(error, TypeError) else ValueError
            raise error_type(f"{faults.name}: {faults.series(position)}: {error}") from error
        kind = kind or (times.kind if times.data.size else "")
        if times.data.size and times.kind != kind:
            raise TypeError(
                f"{faults.name}: {faults.series(position)}: times must be of one kind in all "
                f"series, got {times.kind}s after {kind}s; convert them to one kind."
            )
        values = values[:, None] if values.ndim == 1 else values
        if fault := _misfit(times.data, values, first, faults):
            faults.add(fault[0], [f"{faults.series(position)}: {fault[1]}"])
            _note_unplaced(bad, position, values.shape, faults)
            continue
        fitting[position] = times, values
        first = first or (position, values.shape[1])
        found += [cell._replace(position=n_cells + cell.position) for cell in bad]
        n_cells += values.size
    require_series(position + 1, faults.name)
    if not fitting:
        faults.raise_if_any()
    lengths = np.zeros(position + 1, dtype=np.int64)
    lengths[list(fitting)] = [len(values) for _, values in fitting.values()]
    rows = Rows(
        join_times([times for times, _ in fitting.values()], time_unit),
        np.concatenate([v for _, v in fitting.values()], dtype=np.float64, casting="unsafe"),
        offsets_from(lengths),
        unreadable=[k for k in range(position + 1) if k not in fitting],
    )
    if found:  # numpy converts a list with one word to text
        note_bad_cells(found, rows, faults, may_be_text=isinstance(item, _LABELLED))
    return rows


def _note_unplaced(
    bad: Sequence[BadCell], position: int, shape: tuple[int, ...], faults: Faults
) -> None:
    """Add cells that are not numbers, by index: the shape of their series gives them no time."""

    def line(cell: BadCell) -> str:
        place = ", ".join(map(str, np.unravel_index(cell.position, shape)))
        return f"{faults.series(position)}, values[{place}]: not a number, {cell}"

    faults.add_each(NOT_NUMERIC, bad, line)


def _misfit(
    times: np.ndarray, values: np.ndarray, first: tuple[int, int] | None, faults: Faults
) -> tuple[FaultKind, str] | None:
    """Fault in the shape of a series, or None; `first` is a valid one, with its channels."""
    if times.ndim != 1 or values.ndim != 2:
        swapped = times.ndim == 2 and values.shape == (len(times), 1)
        hint = ", which look swapped: times come first, (times, values)" if swapped else ""
        return SHAPE, f"times of shape {times.shape}, values of shape {values.shape}{hint}"
    if len(times) != len(values):
        return LENGTHS, f"{len(times)} times but {len(values)} rows of values"
    if first is None or values.shape[1] == first[1]:
        return None
    where = faults.series(first[0])
    return CHANNELS, f"{values.shape[1]} channel(s), where {where} has {first[1]}"


def _read_pair(pair: object) -> Block:
    if not isinstance(pair, tuple) or len(pair) != 2:
        got = f"{len(pair)} items" if isinstance(pair, tuple) else f"{type(pair)}"
        raise TypeError(f"must be a pair (times, values), a tuple of two, got {got}")
    return read_times(pair[0]), *read_values(pair[1])


def _read_array(series: object, shape: str, ndim: int) -> Block:
    array, bad = read_values(series)
    if array.ndim != ndim:
        raise ValueError(f"must be {ndim}-D {shape} like the others, got {array.ndim}-D")
    return TimeBlock(np.arange(len(array))), array, bad


def _read_frame(table: object) -> Block:
    """Read a frame; an error if rows are only numbered and a column is named like times or ids."""
    if not isinstance(table, _LABELLED):
        kind = f"must be a DataFrame or Series like the others, got {type(table)}"
        raise TypeError(foreign(table) or kind)
    is_counted = table.index.name is None and table.index.dtype.kind in "iu"
    for name in table.columns if isinstance(table, pd.DataFrame) and is_counted else ():
        if is_time_name(name):
            raise TypeError(
                f"the column {name!r} would be a channel and not the times; index the frame by it, "
                f"with frame.set_index({name!r}) of pandas, or call it otherwise"
            )
        if is_id_name(name):
            raise TypeError(
                f"the column {name!r} would be a channel and not the id; drop it, with "
                f"frame.drop(columns={name!r}), and pass ids= to Panel.from_frames"
            )
    return read_times(table.index), *read_values(table)


def _series_in(items: Iterable[object], faults: Faults) -> Iterable[object]:
    """The series to iterate over; an error for one frame, whose items are column names."""
    if isinstance(items, list):
        return items
    if is_grouped(items):
        raise TypeError(f"{faults.name} {GROUPED}.")
    if column_names(items):
        raise TypeError(f"{faults.name} is one DataFrame; wrap it in a list: [{faults.name}].")
    if isinstance(items, Mapping):
        items = series_by_id(items, faults)
    if not isinstance(items, Iterable):
        raise TypeError(f"{faults.name} must be a list of series, got {type(items)}.")
    return held(items)


def held(items: Iterable[Any]) -> Iterable[Any]:
    """Items of a list as they are, copies of others: an iterator may fill one array again."""
    return items if isinstance(items, list | tuple | np.ndarray) else map(_copied, items)


def _copied(item: Any) -> Any:
    if isinstance(item, tuple):
        return tuple(map(_copied, item))
    if isinstance(item, _LABELLED):  # whose copy has the same index
        return item.copy().set_axis(item.index.copy(deep=True))
    # Others, such as arrays on disk, are copied when they are read.
    return deepcopy(item) if isinstance(item, list) or hasattr(item, "__deepcopy__") else item


def is_grouped(X: Any) -> bool:
    """Return whether an object is a groupby, or one of its pairs of a key and a frame."""
    if not (isinstance(X, tuple) and len(X) == 2):
        return type(X).__name__.endswith("GroupBy")
    key, frame = X
    is_key = isinstance(key, tuple) or np.ndim(key) == 0
    if not (is_key and (isinstance(frame, pd.Series) or column_names(frame))):
        return False
    return not isinstance(key, tuple) or len(key) != len(frame)  # else times and values


def series_by_id(items: Mapping[Any, Any], faults: Faults) -> list[Any]:
    """The series of a dict, whose keys are their ids."""
    if faults.ids is not None:
        raise TypeError(f"{faults.name} is a dict, whose keys are the ids: leave out ids.")
    faults.ids = read_ids(list(items))
    return list(items.values() if isinstance(items, dict) else held(items.values()))


rows_from_series = partial(rows_from_list, read=_read_pair)
# At times 0, 1, ..., L - 1:
rows_from_vectors = partial(rows_from_list, read=partial(_read_array, shape="(time,)", ndim=1))
rows_from_tables = partial(
    rows_from_list, read=partial(_read_array, shape="(time, channel)", ndim=2)
)


def rows_from_frames(
    frames: Iterable[pd.DataFrame | pd.Series], faults: Faults, time_unit: str | None
) -> Rows:
    """Read a list of DataFrames or Series indexed by time; rows of polars are 0, 1, ..."""
    tables = list(map(as_pandas, _series_in(frames, faults)))
    if faults.channel_names is None and tables and isinstance(tables[0], pd.DataFrame):
        faults.channel_names = names_in(tables[0].columns)
    rows = rows_from_list(tables, faults, time_unit, _read_frame)
    framed = [(i, table) for i, table in enumerate(tables) if isinstance(table, pd.DataFrame)]
    if not framed:  # names of Series are only used if all are equal
        names = {table.name for table in tables}
        name = names.pop() if len(names) == 1 else None
        return replace(rows, channel_names=None if name is None else (str(name),))
    first_position, first = framed[0]
    for position, frame in framed[1:]:
        if len(frame.columns) == len(first.columns) and not frame.columns.equals(first.columns):
            where = f"where {faults.series(first_position)} has {_columns(first)}"
            line = f"{faults.series(position)}: columns {_columns(frame)}, {where}"
            faults.add(COLUMNS, [line])
    return replace(rows, channel_names=names_in(first.columns))


def names_in(columns: pd.Index) -> tuple[str, ...] | None:
    """Return the columns of a frame as text, or None if they are the default 0, 1, ..."""
    # RangeIndex(1, -1, -1) is a default that has been reversed
    is_counted = isinstance(columns, pd.RangeIndex) and columns.equals(pd.RangeIndex(len(columns)))
    return None if is_counted else tuple(map(str, columns))


def _columns(frame: pd.DataFrame) -> str:
    names = [str(name) for name in frame.columns]
    return str(names) if len(names) <= 6 else f"[{', '.join(map(repr, names[:6]))}, ...]"


def read_errors(errors: Any, rows: Rows, name: str, *, by_series: bool = False) -> np.ndarray:
    """Errors (n_obs, D) of rows, from one array, or from one per series (`by_series`)."""
    shape, parts = rows.values.shape, []
    for part in errors if by_series else [errors]:
        array, bad = read_values(part)
        if bad:
            raise TypeError(f"{name}: errors must be numbers, NaN where not known; {bad[0]}.")
        array = array if array.ndim == len(shape) else array[..., None]
        parts.append(array.astype(np.float64, copy=False))
    lengths = rows.lengths.tolist() if by_series else [shape[0]]
    found = [part.shape for part in parts]
    if found != [(n, *shape[1:]) for n in lengths]:
        whose = "each series" if by_series else "the values"
        raise ValueError(
            f"{name}: errors must have the shape of {whose}, {shape}, got {found[:3]}: give one "
            "standard deviation for each cell, NaN where not known."
        )
    return np.concatenate(parts)


def with_errors(reader: Callable[..., Rows], errors: Any) -> Callable[..., Rows]:
    """Extend a reader of a list of series to add their errors, if there are any."""
    if errors is None:
        return reader

    def read(data: Any, faults: Faults, time_unit: str | None) -> Rows:
        data = list(held(data)) if isinstance(data, Iterator) else data
        rows = reader(data, faults, time_unit)
        if rows.unreadable:  # later checks report it
            return rows
        names = (f"{faults.name}: {faults.series(k)}" for k in range(len(rows.lengths)))
        aligned = list(held(_by_key(errors, data) if isinstance(errors, Mapping) else errors))
        data = list(data.values()) if isinstance(data, Mapping) else data
        if len(aligned) == len(rows.lengths):  # else `read_errors` raises
            aligned = list(map(like_values, aligned, data, names))
        return rows.with_beside(errors=read_errors(aligned, rows, faults.name, by_series=True))

    return read


def _by_key(errors: Mapping[Any, Any], data: Any) -> Iterable[Any]:
    """Errors in the order of the series, which are in a dict, too."""
    if not isinstance(data, Mapping) or errors.keys() != data.keys():
        raise ValueError(
            "errors are in a dict, so the series must be in a dict with the same keys; give both "
            "with the ids as keys, or a list of errors in the order of the series."
        )
    return (errors[key] for key in data)


def like_values(errors: Any, values: Any, name: str) -> Any:
    """Errors with columns in the order of the values; a ValueError if the labels differ."""
    if not (isinstance(errors, _LABELLED) and isinstance(values, _LABELLED)):
        return errors
    if isinstance(errors, pd.DataFrame) and isinstance(values, pd.DataFrame):
        found, wanted = names_in(errors.columns), names_in(values.columns)
        if found and wanted and found != wanted:
            if sorted(found) != sorted(wanted):
                raise ValueError(
                    f"{name}: errors have the columns {list(found)}, but values have "
                    f"{list(wanted)}: give each column of values its errors under the same name, "
                    "NaN where not known."
                )
            errors = errors.iloc[:, [found.index(column) for column in wanted]]
    found, index = errors.index, values.index
    differs = names_in(found) and names_in(index) and not found.equals(index)
    if len(found) == len(index) and (differs or first_misplaced(found, index) is not None):
        raise ValueError(
            f"{name}: errors have another index than values: give them that of values, with "
            "errors.reindex(values.index), or errors.set_axis(values.index) if their rows are in "
            "the order of values."
        )
    return errors


def rows_from_flat(
    data: tuple[Any, ...], faults: Faults, time_unit: str | None, errors: object = None
) -> Rows:
    """Read flat times, values and offsets."""
    block, (array, bad), bounds = read_times(data[0]), read_values(data[1]), np.asarray(data[2])
    if block.data.ndim != 1 or array.ndim not in (1, 2) or len(array) != block.data.size:
        raise ValueError(
            f"{faults.name}: flat times must be of shape (n_obs,) and values (n_obs, D), got "
            f"{block.data.shape} and {array.shape}."
        )
    if not are_offsets(bounds, len(array)):
        raise ValueError(
            f"{faults.name}: offsets must be integers that rise from 0 to the number of rows, "
            f"{len(array)}, got {plain_repr(bounds)}."
        )
    require_series(len(bounds) - 1, faults.name)
    values = np.array(array[:, None] if array.ndim == 1 else array, dtype=np.float64)
    rows = Rows(join_times([block], time_unit), values, bounds.astype(np.int64))
    note_bad_cells(bad, rows, faults)
    if errors is None:
        return rows
    aligned = like_values(errors, data[1], faults.name)
    return rows.with_beside(errors=read_errors(aligned, rows, faults.name))


def rows_from_array(
    array: object,
    faults: Faults,
    time_unit: str | None,
    times: object = None,
    errors: object = None,
) -> Rows:
    """Read an array of shape (n, time), or of shape (n, time, channel) without its padding."""
    values, bad = _cells(array, faults)
    has_padding = values.ndim == 3
    values = (values if has_padding else values[:, :, None]).astype(np.float64)
    block = TimeBlock(np.arange(values.shape[1])) if times is None else read_times(times)
    if block.data.shape not in (values.shape[1:2], values.shape[:2]):
        raise ValueError(
            f"{faults.name}: times must be of shape {values.shape[1:2]} (for all series) or "
            f"{values.shape[:2]} (for each), got {block.data.shape}."
        )
    is_labelled = isinstance(array, pd.DataFrame) and names_in(array.index) is not None
    if faults.ids is None and is_labelled and array.index.is_unique:
        faults.ids = array.index.to_numpy()
    clock = join_times([block._replace(data=block.data.ravel())], time_unit)
    place = np.arange(block.data.size).reshape(block.data.shape)  # index of each cell's time
    place = np.broadcast_to(place, values.shape[:2])
    bounds = np.arange(len(values) + 1) * values.shape[1]
    rows = Rows(clock.at(place.ravel()), values.reshape(place.size, -1), bounds)
    note_bad_cells(bad, rows, faults)
    if errors is not None:
        errors = like_values(errors, array, faults.name)
        table = read_errors(errors, replace(rows, values=values), faults.name)
        rows = rows.with_beside(errors=table.reshape(rows.values.shape))
    kept = ~np.isnan(values).all(axis=2)
    if block.data.ndim == 2:  # padding: the time is NaN as well
        kept |= ~np.isnan(clock.counts[place])
    elif has_padding:  # padding: after the last observation
        kept = np.maximum.accumulate(kept[:, ::-1], axis=1)[:, ::-1]
    else:
        return rows
    return rows if kept.all() else rows.at(kept.ravel(), offsets_from(kept.sum(axis=1)))


def _cells(array: object, faults: Faults) -> tuple[np.ndarray, list[BadCell]]:
    """Values (n, time) or (n, time, channel) of an array, and its cells that are not numbers."""
    try:
        values, bad = read_values(array)
    except ValueError as error:
        raise ValueError(f"{faults.name}: {error}") from error
    if isinstance(array, pd.DataFrame):
        text = text_columns(bad, *array.shape)
        lines = [f"column {array.columns[k]!r} holds text, {cell}" for k, cell in text.items()]
        faults.add(TEXT, lines)
        bad = [cell for cell in bad if cell.position % array.shape[1] not in text]
    if values.ndim:
        require_series(len(values), faults.name)
    if values.ndim not in (2, 3):
        raise ValueError(
            f"{faults.name}: expected a 2-D array (series, time) or a 3-D array (series, time, "
            f"channel), got shape {values.shape}; give series of different length as a list of "
            "(times, values)."
        )
    if values.shape[1] == 0:
        raise ValueError(f"{faults.name} is empty: its {len(values)} series have no time points.")
    return values, bad
