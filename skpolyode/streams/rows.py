"""Observations that a user passes to `update`, as a small panel that continues a stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.embedders import ChannelScaler
from skpolyode.errors import Faults, plain_repr
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.cells import as_pandas, join_times, rectangular
from skpolyode.panel.checks import (
    DUPLICATE,
    TOO_LARGE,
    UNSORTED,
    check_rows,
    note_cells,
    note_extremes,
    some_of,
)
from skpolyode.panel.query import check_kind, read_instants
from skpolyode.panel.readers.lists import names_in
from skpolyode.panel.readers.long import Table, group_rows
from skpolyode.panel.rows import default_channel_names
from skpolyode.panel.select import at_times
from skpolyode.panel.selection import channel_order, refuse_reordered
from skpolyode.panel.units import note_judged

AS_WAS = "; the stream is as it was"
_REMEDIES = {  # instead of options that only panels have
    UNSORTED: "give each series its observations in the order of time",
    DUPLICATE: "merge observations of equal time into one row, NaN where not observed",
}


def new_rows(
    panel: Panel,
    series: np.ndarray,
    times: np.ndarray,
    values: np.ndarray,
    offsets: np.ndarray,
    **beside: np.ndarray,
) -> Panel:
    """Panel of new rows, on the clock of `panel`; its ids are positions of series in `panel`."""
    origin = None if panel.rows.origin is None else panel.rows.origin[series]
    labels = {"ids": series, "static": None, "inputs": None, "keeps_empty": True, "origin": origin}
    return at_times(panel, times, offsets, values, beside=beside, **labels)


def read_rows(
    panel: Panel,
    last: np.ndarray,
    scaler: ChannelScaler,
    times: Any,
    values: Any,
    series: Any,
    errors: Any = None,
) -> Panel:
    """Read new observations of series of a panel, whose last times are `last` (B,).

    Returns a panel of :func:`new_rows`, in ascending order of the positions.

    Raises
    ------
    ValueError
        If they are not valid; one error lists the first faults.
    TypeError
        If their times are of another kind than those of the panel.
    """
    block, one_row = read_instants(times, panel, "update: times"), np.ndim(times) == 0
    if block.data.ndim != 1:
        raise ValueError(f"update: times must be one-dimensional, got shape {block.data.shape}.")
    check_kind(block, panel, "update: times", like="those of the transformer's fit")
    clock = join_times([block], panel.time_unit)._replace(tz=panel.tz)
    columns = _columns(values, panel, one_row, "values")
    if series is None:
        refuse_reordered(values, panel, "values")
    clock = clock.at(np.zeros(len(columns[0]), dtype=np.int64)) if one_row else clock
    _refuse_lengths("times", len(clock.counts), columns)
    chosen, codes = np.unique(_owners(series, len(columns[0]), panel.ids), return_inverse=True)
    faults = _faults(panel, chosen, also=AS_WAS)
    table = Table(codes, panel.ids[chosen], clock, faults)
    rows = group_rows(table, columns, panel.channel_names)
    if errors is not None:
        known = _columns(errors, panel, one_row, "errors")
        _refuse_lengths("errors", len(known[0]), columns)
        rows = rows.with_beside(errors=group_rows(table, known, panel.channel_names).values)
    faults.raise_if_any()
    if scaler.limits is not None:
        judged, doubts = scaler.limits.judge(rows.values, rows.errors), _faults(panel, chosen)
        note_judged(judged, rows, doubts)
        doubts.warn_if_any(stacklevel=3)
        rows = rows.with_cells(lambda cells: np.where(judged.hidden, np.nan, cells))
    given = rows.observed
    if rows.errors is not None:  # errors without a value are faults
        given |= ~np.isnan(rows.errors).all(axis=1)
    rows = rows if given.all() else rows.keep(given)
    counts = rows.times.counts
    if (origin := panel.rows.origin) is not None:
        counts = panel.rows.since_origin(rows.times, np.repeat(origin[chosen], rows.lengths))
    filled = rows.lengths > 0
    chosen, offsets = chosen[filled], np.append(0, rows.offsets[1:][filled])
    new = new_rows(panel, chosen, counts, rows.values, offsets, **rows.beside)
    check_new(panel, scaler, new, last[chosen])
    return new


def check_new(panel: Panel, scaler: ChannelScaler, new: Panel, last: np.ndarray) -> None:
    """Raise one error for all faults of new rows, which follow the `last` times of their series.

    A row at the last time, unless this is -inf, is checked together with the new ones.
    """
    begun = np.isfinite(last) & np.isfinite(new.times).all()  # rows of unknown time are counted
    first = new.offsets[:-1][begun]
    times = new.rows.times._replace(counts=np.insert(new.times, first, last[begun]))
    rows = new.rows.with_cells(lambda cells: np.insert(cells, first, np.nan, axis=0))
    rows = replace(rows, times=times, offsets=new.offsets + offsets_from(begun))
    faults = _faults(panel, new.ids, remedies=_REMEDIES, also=AS_WAS)
    check_rows(rows, faults)
    if not faults:
        note_extremes(rows, faults)
    wrong = scaler.is_too_far(rows.values) & np.isfinite(rows.values)
    note_cells(TOO_LARGE, wrong, "{:g} is too large", rows, faults)
    faults.raise_if_any()


def _faults(panel: Panel, series: np.ndarray, **remedies: Any) -> Faults:
    return Faults("update", panel.ids, panel.channel_names, positions=series, **remedies)


def _refuse_lengths(what: str, length: int, columns: list[Any]) -> None:
    if length != (n_rows := len(columns[0])):
        raise ValueError(
            f"update: {length} {what} for {n_rows} rows of values: give one for each row."
        )


def read_series(series: Any, ids: np.ndarray, name: str = "series") -> np.ndarray:
    """Positions of series, which are given by position or by ids that are text, one or many."""
    chosen, n_series = np.atleast_1d(np.asarray(series)), len(ids)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iuUO":
        raise TypeError(
            f"{name} must be positions of series, whole numbers, or ids that are text, got "
            f"{series!r}."
        )
    if chosen.dtype.kind in "UO":
        found = pd.Index(ids, tupleize_cols=False).get_indexer(chosen.astype(object))
        if (found < 0).any():
            unknown = plain_repr(chosen[int(np.argmin(found))])
            raise ValueError(
                f"{name}: there is no series with the id {unknown}; ids are {some_of(ids)}."
            )
        return found.astype(np.int64)
    outside = (chosen < 0) | (chosen >= n_series)
    if outside.any():
        raise ValueError(
            f"{name} must be from 0 to {n_series - 1}, the positions of the {n_series} series, got "
            f"{chosen[outside][0]}."
        )
    return chosen.astype(np.int64)


def begun_at(panel: Panel, times: Any) -> Panel:
    """Panel without rows whose times count from the first datetimes, in their time zone."""
    block = read_instants(times, panel, "update: times")
    if block.kind != "datetime":
        return panel
    read, clock = join_times([block], panel.time_unit), panel.rows.times
    if not (known := np.isfinite(read.counts)).any():
        return panel
    clock = clock._replace(tz=panel.tz or block.tz)
    rows = replace(panel.rows, times=clock)
    if read.ticks is not None:
        clock = clock._replace(ticks=np.empty(0, dtype=np.int64), per_unit=read.per_unit)
        origin = np.full(panel.n_series, read.ticks[known].min())
        rows = replace(rows, times=clock, origin=origin)
    return Panel.from_rows(rows, checked=False)


def _columns(values: Any, panel: Panel, one_row: bool, name: str) -> list[Any]:
    """Cells of each channel; frames, Series and dicts are matched by name."""
    wanted, named = panel.channel_names, panel.has_channel_names
    if isinstance(values, Mapping):  # channels that it leaves out were not observed
        if named and (unknown := [key for key in values if key not in wanted]):
            raise ValueError(f"{name}: there is no channel {unknown[0]!r}, only {list(wanted)}.")
        row = {**dict.fromkeys(wanted if named else (), np.nan), **values}
        values = pd.DataFrame([row] if one_row else row)
    elif isinstance(values, pd.Series) and one_row and len(wanted) > 1:
        values = values.to_frame().T
    values = as_pandas(values)
    if isinstance(values, pd.DataFrame):
        found = names_in(values.columns)
        columns = [values.iloc[:, k] for k in range(values.shape[1])]
    else:
        array, found = rectangular(values), None
        if array.ndim < 2:
            array = array.reshape((1, -1) if one_row and len(wanted) > 1 else (-1, 1))
        if array.ndim > 2:
            raise ValueError(
                f"update: {name} must be 2-D, a column for each channel, got {array.ndim}-D."
            )
        columns = list(array.T)
    labels = {"named": named, "owner": "the model", "name": f"update: {name}"}
    names = default_channel_names(len(columns)) if found is None else found
    order = channel_order(names, wanted, known=found is not None, **labels)
    return [columns[k] for k in order]


def _owners(series: Any, n_rows: int, ids: np.ndarray) -> np.ndarray:
    """Position of the series of each row."""
    owner = np.arange(len(ids)) if series is None else read_series(series, ids, "update: series")
    if len(owner) == n_rows:
        return owner
    if len(owner) > 1 or np.ndim(series) > 0:
        raise ValueError(
            f"update: {n_rows} rows for {len(owner)} series: pass series, the position or the id "
            "of the series that each row belongs to."
        )
    return np.repeat(owner, n_rows)
