"""Observations that a user passes to `update`, read and checked before anything changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from skpolyode.embedders import ChannelScaler
from skpolyode.errors import FaultKind, Faults, plain_repr
from skpolyode.panel import Panel
from skpolyode.panel.cells import read_values
from skpolyode.panel.checks import (
    EXTREME,
    INFINITE,
    SHORTEST,
    TOO_LARGE,
    WRONG_ERROR,
    name_unknown,
    some_of,
    wrong_errors,
)
from skpolyode.panel.outliers import JUDGED
from skpolyode.panel.query import check_kind, read_instants
from skpolyode.panel.readers.kinds import column_names
from skpolyode.panel.readers.lists import names_in
from skpolyode.panel.selection import channel_order, refuse_reordered
from skpolyode.panel.timeaxis import Times, join_times

_LATE = FaultKind(
    "times out of order",
    "give each series its observations in the order of time; the stream is as it was",
)
_TWICE = FaultKind(
    "duplicate times",
    "merge observations of equal time into one row, NaN where not observed; the stream is as it "
    "was",
)
_BAD_TIME = FaultKind("missing or infinite times", "drop these rows; the stream is as it was")
_INFINITE, _TOO_LARGE, _EXTREME, _WRONG_ERROR = (
    FaultKind(kind.title, f"{kind.remedy}; the stream is as it was")
    for kind in (INFINITE, TOO_LARGE, EXTREME, WRONG_ERROR)
)


class NewRows(NamedTuple):
    """New observations, series after series, each in the order of time."""

    series: np.ndarray  # int64 (B,): which series have any, rising
    offsets: np.ndarray  # int64 (B + 1,): where the rows of each start
    times: np.ndarray  # float64 (P,), in the units of the panel
    values: np.ndarray  # float64 (P, D), none of them all NaN
    errors: np.ndarray | None = None  # float64 (P, D), NaN where not known

    def part(self, chosen: slice) -> Self:
        """Rows of a slice of the series."""
        offsets = self.offsets[chosen.start : chosen.stop + 1]
        rows = slice(offsets[0], offsets[-1])
        cells = (x if x is None else x[rows] for x in self[2:])
        return NewRows(self.series[chosen], offsets - offsets[0], *cells)


def read_rows(
    panel: Panel,
    last: np.ndarray,
    scaler: ChannelScaler,
    times: Any,
    values: Any,
    series: Any,
    errors: Any = None,
) -> NewRows:
    """Read new observations of some series of a panel, of which `last` (B,) was the last time.

    Raises
    ------
    ValueError
        If something is wrong with them: one error that lists the first faults.
    TypeError
        If they are of a kind that cannot be observations.
    """
    one_time = np.ndim(times) == 0
    stamps = _read_times(times, panel)
    table = _read_values(values, panel, one_row=one_time)
    if one_time and len(table) > 1:
        many = np.zeros(len(table), dtype=np.int64)
        stamps = stamps.at(many) if isinstance(stamps, Times) else stamps[many]
    if series is None:
        refuse_reordered(values, panel, "values")
    n_times = len(stamps.counts) if isinstance(stamps, Times) else len(stamps)
    if n_times != len(table):
        raise ValueError(
            f"update: {n_times} times for {len(table)} rows of values: give one time for each row."
        )
    owner = _owners(series, len(table), panel.ids)
    if panel.rows.origin is not None:
        stamps = panel.rows.since_origin(stamps, panel.rows.origin[owner])
    if errors is not None:
        errors = _read_errors(errors, table, one_time, panel, owner)
    if scaler.limits is not None:
        judged = scaler.limits.judge(table, errors)
        for (kind, rule), wrong in zip(JUDGED.items(), judged[1:], strict=True):
            _faulty_cells(kind, wrong, rule, table, owner, panel).warn_if_any(stacklevel=3)
        table = np.where(judged.hidden, np.nan, table)

    def at(index: np.ndarray) -> list[np.ndarray]:
        return [x if x is None else x[index] for x in (owner, stamps, table, errors)]

    observed = ~np.isnan(table).all(axis=1)
    if not observed.all():
        owner, stamps, table, errors = at(observed)
    starts, previous = np.arange(len(owner)), last[owner]
    if len(owner) > 1:
        owner, stamps, table, errors = at(np.argsort(owner, kind="stable"))
        begins = np.append(True, owner[1:] != owner[:-1])
        starts = np.flatnonzero(begins)
        earlier = np.where(begins, -np.inf, np.roll(stamps, 1))
        previous = np.maximum(earlier, last[owner])
    check_new(panel, scaler, owner, stamps, previous, table)
    return NewRows(owner[starts], np.append(starts, len(stamps)), stamps, table, errors)


def _read_errors(
    errors: Any, table: np.ndarray, one_row: bool, panel: Panel, owner: np.ndarray
) -> np.ndarray:
    """Errors (P, D) of new rows; a ValueError for those that cannot be."""
    found = _read_values(errors, panel, one_row=one_row, name="errors")
    if found.shape != table.shape:
        raise ValueError(
            f"update: errors must have the shape of the values, {table.shape}, got {found.shape}."
        )
    for rule, wrong in wrong_errors(table, found).items():
        _faulty_cells(_WRONG_ERROR, wrong, rule, found, owner, panel).raise_if_any()
    return found


def _faulty_cells(
    kind: FaultKind,
    wrong: np.ndarray,
    rule: str,
    cells: np.ndarray,
    owner: np.ndarray,
    panel: Panel,
) -> Faults:
    """The cells (P, D) that are wrong; `rule` is a format that takes what they hold."""
    faults = Faults("update", panel.ids, panel.channel_names)

    def line(cell: np.ndarray) -> str:
        where = f"{faults.series(int(owner[cell[0]]))}, {faults.channel(cell[1])}"
        return f"{where}: {rule.format(cells[tuple(cell)])}"

    faults.add_each(kind, np.argwhere(wrong), line)
    return faults


def read_series(series: Any, ids: np.ndarray, name: str = "series") -> np.ndarray:
    """Positions of some series, given by position or by ids that are text, one or a sequence."""
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


def first_times(panel: Panel, times: Any) -> dict[str, Any]:
    """What the first datetimes of a stream set: the time zone and the origin of its times."""
    block = read_instants(times, panel, "update: times")
    if block.kind != "datetime":
        return {}
    read = join_times([block], panel.time_unit)
    zone = {"tz": block.tz if panel.tz is None else panel.tz}
    known = np.flatnonzero(np.isfinite(read.counts))
    if read.ticks is None or len(known) == 0:
        return zone
    origin = np.full(panel.n_series, read.ticks[known].min())
    return zone | {"origin": origin, "per_unit": read.per_unit}


def _read_times(times: Any, panel: Panel) -> np.ndarray | Times:
    """Times as numbers, or, for a panel seen from its start, as they are."""
    block = read_instants(times, panel, "update: times")
    if block.data.ndim != 1:
        raise ValueError(f"update: times must be one-dimensional, got shape {block.data.shape}.")
    exact = panel.rows.origin is not None
    if block.kind == "number" and not panel.is_datetime:
        return join_times([block], panel.time_unit) if exact else block.data.astype(np.float64)
    check_kind(block, panel, "update: times", like="those of the transformer's fit")
    read = join_times([block], panel.time_unit)
    return read if exact else read.counts


def _read_values(values: Any, panel: Panel, *, one_row: bool, name: str = "values") -> np.ndarray:
    """Cells (P, D); columns of a frame, entries of a Series or a dict are matched by name."""
    n_channels, must = panel.n_channels, f"update: {name} must be numbers, NaN where not observed"
    if isinstance(values, Mapping):  # channels that it leaves out were not observed
        absent = dict.fromkeys(panel.channel_names if panel.has_channel_names else (), np.nan)
        row = {**absent, **values}
        values = pd.DataFrame([row] if one_row else row)
    names = _names_of(values, one_row=one_row, one_channel=n_channels == 1) or None
    try:
        array, bad = read_values(values)
    except ValueError as error:
        raise TypeError(f"{must} ({error.__cause__ or error}).") from None
    if names is not None:
        array = array.reshape(-1, len(names))
    if bad:
        row, channel = divmod(bad[0].position, max(array.shape[1:], default=1))
        known = panel.channel_names if names is None else names
        where = Faults(channel_names=known).channel(channel)
        raise TypeError(f"{must}: row {row}, {where}: {bad[0]}.")
    table = array.astype(np.float64)
    if names is not None:
        wanted, named, whose = panel.channel_names, panel.has_channel_names, f"update: {name}"
        order = channel_order(names, wanted, known=True, named=named, owner="the model", name=whose)
        return table[:, order]
    if n_channels == 1 and table.ndim < 2:
        return table.reshape(-1, 1)
    if one_row and table.ndim == 1:
        table = table[None]
    if table.ndim != 2 or table.shape[1] != n_channels:
        raise ValueError(
            f"update: {name} must have the shape (n_rows, {n_channels}), a column a channel, got "
            f"{np.shape(values)}."
        )
    return table


def _names_of(values: Any, *, one_row: bool, one_channel: bool) -> tuple[str, ...] | None:
    """Names of the channels in a frame, or in a Series of one row; None if there are none."""
    if isinstance(values, pd.DataFrame):
        return names_in(values.columns)
    if isinstance(values, pd.Series):  # that of one channel may be of many series
        return names_in(values.index) if one_row and not one_channel else None
    return tuple(map(str, column_names(values)))


def _owners(series: Any, n_rows: int, ids: np.ndarray) -> np.ndarray:
    """Which series each row belongs to."""
    n_series = len(ids)
    if series is None:
        if n_series == 1:
            return np.zeros(n_rows, dtype=np.int64)
        if n_rows == n_series:
            return np.arange(n_series)
        raise ValueError(
            f"update: {n_rows} rows for {n_series} series: pass series, the position or the id of "
            "the series that each row belongs to."
        )
    owner = read_series(series, ids, "update: series")
    if np.ndim(series) == 0:
        return np.repeat(owner, n_rows)
    if len(owner) != n_rows:
        raise ValueError(
            f"update: {len(owner)} entries of series for {n_rows} rows: give one for each row."
        )
    return owner


def check_new(
    panel: Panel,
    scaler: ChannelScaler,
    owner: np.ndarray,
    times: np.ndarray,
    previous: np.ndarray,
    values: np.ndarray,
) -> None:
    """Raise one error for all faults of P rows, sorted by series."""
    unknown, infinite = ~np.isfinite(times), np.isinf(values).any(axis=1)
    large = scaler.is_too_far(values).any(axis=1) & ~infinite
    late = ~unknown & (times <= previous)
    with np.errstate(over="ignore"):
        gap = np.where(late | unknown | np.isinf(previous), 1.0, times - previous)
    extreme = (gap < SHORTEST) | (gap > 1 / SHORTEST)
    if not (unknown | infinite | large | late | extreme).any():
        return
    faults = Faults("update", panel.ids, panel.channel_names)

    def when(row: int, times: np.ndarray) -> str:
        return panel.rows.format_from(int(owner[row]), times[row])

    twice = late & (times == previous)
    for kind, wrong, what in (
        (_BAD_TIME, unknown, lambda row: name_unknown(times[row])),
        (_TWICE, twice, lambda row: "it has an observation at this time"),
        (_LATE, late & ~twice, lambda row: f"it is known up to {when(row, previous)}"),
        (_EXTREME, extreme, lambda row: f"it is {gap[row]:g} after the one before"),
        (_INFINITE, infinite, lambda row: f"{values[row]}"),
        (_TOO_LARGE, large, lambda row: f"{values[row]}"),
    ):

        def line(row: int, what: Callable[[int], str] = what) -> str:
            at = "" if unknown[row] else f", time {when(row, times)}"
            return f"{faults.series(int(owner[row]))}{at}: {what(row)}"

        faults.add_each(kind, np.flatnonzero(wrong), line)
    faults.raise_if_any()
