"""What may be wrong with rows: each fault with its remedy, found in one pass over the arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypedDict, get_args

import numpy as np

from skpolyode.errors import FaultKind, Faults
from skpolyode.panel.labels import fit_channel_names, fit_ids, fit_static
from skpolyode.panel.merge import (
    Duplicates,
    check_duplicates,
    inside_series,
    merge_duplicates,
    sort_rows,
)
from skpolyode.panel.rows import Rows, offsets_from

UNSORTED = FaultKind(
    "times out of order",
    "pass sort=True to Panel, Panel.from_series, ... to sort every series by time",
)
SWAPPED = FaultKind(
    "times out of order, while the values are in order",
    "give pairs as (times, values); if they are, pass sort=True to Panel, Panel.from_series, ...",
)
DUPLICATE = FaultKind(
    "duplicate times",
    'pass duplicates="mean", "first" or "last" to Panel, Panel.from_series, ... to merge rows of '
    "equal time",
)
TOO_LATE = FaultKind(
    "times too large for their 16 digits to tell them apart",
    "count them from a later moment, or give them as int64 or datetime64",
)
TOO_CLOSE = FaultKind(
    "times too close for their 16 digits",
    "leave out one of each two rows, or cut the series in parts",
)
TOO_FAR = FaultKind("times too far apart", "give them in a larger unit")
BAD_TIME = FaultKind("missing or infinite times", "drop these rows or repair their times")
EXTREME = FaultKind("times too close or too far apart to compute with", "give them in another unit")
INFINITE = FaultKind("infinite values", "replace them by NaN, which means not observed")
TOO_LARGE = FaultKind(
    "values too large to compute with",
    "repair their unit, or replace them by NaN, which means not observed",
)
UNOBSERVED = FaultKind(
    "series without any observation",
    'leave these series out, or pass empty="keep" to Panel, Panel.from_series, Panel.from_array, '
    "... to have NaN for them",
)
NOT_NUMERIC = FaultKind(
    "cells that are not numbers",
    "convert them to numbers (for example one-hot columns), or to NaN where not observed",
)


_LAST_WHOLE = 2.0**53  # float64 holds all whole numbers up to here
SHORTEST, LONGEST = 1e-50, 1e50  # in the user's units: products of several such times are numbers


Empty = Literal["error", "keep"]


class PanelOptions(TypedDict, total=False):
    """Keyword parameters that all ways of building a panel share; see `Panel`."""

    ids: object
    channel_names: Sequence[str] | None
    static: object
    time_unit: str | None
    sort: bool
    duplicates: Duplicates
    empty: Empty


def finish(
    rows: Rows,
    faults: Faults,
    *,
    channel_names: Sequence[str] | None = None,
    static: object = None,
    sort: bool = False,
    duplicates: Duplicates = "error",
    empty: Empty = "error",
) -> Rows:
    """Sort, merge and check rows, fit the labels, and raise all faults together."""
    check_duplicates(duplicates)
    if empty not in get_args(Empty):
        raise ValueError(f"empty must be one of {list(get_args(Empty))}, got {empty!r}.")
    rows = replace(rows, keeps_empty=empty == "keep")
    if sort:
        rows = sort_rows(rows)
    if duplicates != "error":
        rows = merge_duplicates(rows, duplicates)
    n_channels = rows.values.shape[1]
    if n_channels == 0:
        raise ValueError(
            f"{faults.name} has 0 feature(s) (channels) while a minimum of 1 is required."
        )
    given = rows.channel_names if channel_names is None else channel_names
    names = fit_channel_names(given, n_channels, faults)
    faults.channel_names = names
    check_rows(rows, faults)
    ids = fit_ids(faults.ids, rows.n_input, faults)
    table = fit_static(rows.static if static is None else static, ids, faults)
    faults.raise_if_any()
    return replace(
        rows,
        values=np.ascontiguousarray(rows.values),
        ids=ids,
        channel_names=names,
        has_channel_names=given is not None,
        static=table,
        positions=None,
    )


def check_rows(rows: Rows, faults: Faults) -> None:
    """Add to `faults` whatever is wrong with times and values."""
    _check_times(rows, faults)
    note_cells(INFINITE, np.isinf(rows.values), "values must not be infinity, got {}", rows, faults)
    if rows.keeps_empty:
        return
    observed = ~np.isnan(rows.values).all(axis=1)
    empty = np.flatnonzero(np.diff(offsets_from(observed)[rows.offsets]) == 0)
    lines = [
        f"{faults.series(rows.position(index))}: "
        + (f"all values of its {length} row(s) are NaN" if length else "has no rows")
        for index, length in zip(
            empty[: faults.limit], rows.lengths[empty[: faults.limit]], strict=True
        )
    ]
    faults.add(UNOBSERVED, lines, len(empty))


def _check_times(rows: Rows, faults: Faults) -> None:
    known = np.isfinite(rows.times)
    _add_rows(BAD_TIME, ~known, "the time must be finite", rows, faults)
    times = rows.order if known.all() else np.where(known, rows.times, np.nan)
    inside = inside_series(rows.offsets, len(times))
    with np.errstate(over="ignore", invalid="ignore"):
        gaps = np.diff(times)
    back = np.flatnonzero((gaps < 0) & inside) + 1
    lines = [
        f"{_where(rows, faults, row)}: times must increase, but the time before it is "
        f"{rows.format_time(row - 1)}"
        for row in back[: faults.limit]
    ]
    swapped = rows.values.shape[1] == 1 and len(back) > max(1, inside.sum() / 4)
    if swapped:  # perhaps: times hardly go to and fro, unlike values
        values = rows.values[:, 0]
        swapped = (values[1:] > values[:-1])[inside].all()
    faults.add(SWAPPED if swapped else UNSORTED, lines, len(back))
    same = np.zeros(len(times), dtype=bool)
    same[1:] = (gaps == 0) & inside
    late = (np.abs(times) >= _LAST_WHOLE) & (rows.ticks is None)
    _add_rows(DUPLICATE, same & ~late, "the row before it has the same time", rows, faults)
    rule = f"float64 does not tell it from the one before: above {_LAST_WHOLE:g} it has gaps"
    _add_rows(TOO_LATE, same & late, rule, rows, faults)
    if not len(times) or not known.all():
        return
    # Estimators compute with the times since the first row, which have 16 digits.
    rises = inside & (gaps > 0)
    with np.errstate(over="ignore"):
        smallest, span = gaps.min(where=rises, initial=gaps.max(initial=0)), np.ptp(rows.order)
    if smallest > 1e-15 * span and np.isfinite(span):  # the usual case, in a fifth of the time
        return
    elapsed = rows.elapsed
    far = ~np.isfinite(elapsed)
    _add_rows(TOO_FAR, far, "the time since the first row is too large for a number", rows, faults)
    close = np.zeros(len(elapsed), dtype=bool)
    close[1:] = (elapsed[1:] == elapsed[:-1]) & rises & ~far[1:]
    rule = "beside the time since the first row, that since the row before it is lost"
    _add_rows(TOO_CLOSE, close, rule, rows, faults)


def note_extremes(rows: Rows, faults: Faults) -> None:
    """Add the rows whose times estimators cannot compute with; they are in order."""
    if rows.ticks is not None:  # whole numbers, of 64 bits
        return
    gaps = np.diff(rows.times, prepend=-np.inf)
    gaps[rows.offsets[:-1][rows.lengths > 0]] = np.inf
    rule = f"the time since the row before it is less than {SHORTEST:g}"
    _add_rows(EXTREME, gaps < SHORTEST, rule, rows, faults)
    rule = f"the time since the first row is more than {LONGEST:g}"
    _add_rows(EXTREME, rows.elapsed > LONGEST, rule, rows, faults)


def note_cells(kind: FaultKind, wrong: np.ndarray, rule: str, rows: Rows, faults: Faults) -> None:
    """Add the cells (P, D) that are wrong; `rule` says of a value what is."""
    if not wrong.any():
        return
    cells = np.argwhere(wrong)
    lines = [
        f"{faults.series(rows.series_of(row))}, {faults.channel(channel)}, "
        f"time {rows.format_time(row)}: {rule.format(rows.values[row, channel])}"
        for row, channel in cells[: faults.limit]
    ]
    faults.add(kind, lines, len(cells))


def _add_rows(kind: FaultKind, wrong: np.ndarray, rule: str, rows: Rows, faults: Faults) -> None:
    found = np.flatnonzero(wrong)
    lines = [f"{_where(rows, faults, row)}: {rule}" for row in found[: faults.limit]]
    faults.add(kind, lines, len(found))


def _where(rows: Rows, faults: Faults, row: int) -> str:
    series = rows.series_of(row)
    time = rows.times[row]
    if np.isfinite(time):
        return f"{faults.series(series)}, time {rows.format_time(row)}"
    start = rows.offsets[np.searchsorted(rows.offsets, row, side="right") - 1]
    return f"{faults.series(series)}, row {row - start}, time {time}"
