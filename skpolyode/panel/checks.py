"""Checks of rows and labels: each fault with its remedy, found in one pass over the arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from numbers import Number
from typing import Literal, TypedDict, get_args

import numpy as np
import pandas as pd

from skpolyode.errors import FaultKind, Faults, plain_repr
from skpolyode.panel.cells import LAST_WHOLE, MICROSECONDS, BadCell, foreign, is_missing, unmasked
from skpolyode.panel.doubts import DOUBTS, doubt_channels
from skpolyode.panel.inputs import fit_inputs
from skpolyode.panel.rows import (
    Duplicates,
    Rows,
    are_equal_times,
    default_channel_names,
    inside_series,
    merge_duplicates,
    sort_rows,
)

UNSORTED = FaultKind("times out of order", "pass sort=True to {maker} to sort every series by time")
SWAPPED = FaultKind(
    "times out of order, while the values are in order",
    "give pairs as (times, values); if they are, pass sort=True to {maker}",
)
RESTARTED = FaultKind(
    "times that start again",
    "if a clock started again there (midnight, a counter at its limit, a logger), add what it had "
    "counted to later times, or give datetimes; if an id has several columns, name all of them, "
    "id=[...]; if neither, " + UNSORTED.remedy,
)
DUPLICATE = FaultKind(
    "duplicate times",
    'pass duplicates="mean", "first" or "last" to {maker} to merge rows of equal time, or "sum" to '
    "add up amounts such as doses",
)
SET_BACK = FaultKind(
    "times without a time zone that go back by up to an hour",
    "if clocks were set back there, give the times of each series their zone before, with pandas "
    'tz_localize(zone, ambiguous="infer"); if not, ' + UNSORTED.remedy,
)
REPEATED_HOUR = FaultKind(
    "duplicate times without a time zone",
    "if clocks were set back there, give times their zone before, with "
    'pandas tz_localize(zone, ambiguous="infer"); if not, ' + DUPLICATE.remedy,
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
    'leave these series out, or pass empty="keep" to {maker} to have NaN for them',
)
NOT_NUMERIC = FaultKind(
    "cells that are not numbers",
    "convert them to numbers (for example one-hot columns), or to NaN where not observed",
)
TEXT = FaultKind(
    "columns of text",
    "convert them, with pandas.to_numeric(column, errors='coerce') where they hold numbers, or "
    "leave them out",
)
WRONG_ERROR = FaultKind(
    "errors that are no standard deviations of values",
    "give finite numbers of 0 or more, in the units of the channel; NaN where not known, or where "
    "the value is NaN",
)
IDS = FaultKind("ids that do not fit", "give one unique id for each series")
NAMES = FaultKind("channel names that do not fit", "give one unique name for each channel")
STATIC = FaultKind(
    "static rows that do not fit",
    "give one row for each series, indexed by the ids: static.set_index(...), or "
    "static.set_axis(ids) if its rows are in the order of the series",
)

# In the user's units; the longest time is 1 / SHORTEST. Products of several such times are finite.
SHORTEST = 1e-50

Empty = Literal["error", "keep"]


class PanelOptions(TypedDict, total=False):
    """Keyword parameters that all constructors of a panel share; see `Panel`."""

    ids: object
    channel_names: Sequence[str] | None
    static: object
    inputs: object
    time_unit: str | None
    sort: bool
    duplicates: Duplicates
    empty: Empty
    missing: Sequence[float]


def build_rows(
    name: str,
    reader: Callable[..., Rows],
    data: object,
    maker: str | None = None,
    *,
    ids: object = None,
    channel_names: Sequence[str] | None = None,
    static: object = None,
    inputs: object = None,
    time_unit: str | None = None,
    sort: bool = False,
    duplicates: Duplicates = "error",
    empty: Empty = "error",
    missing: Sequence[float] = (),
    doubts: Collection[FaultKind] = DOUBTS.keys(),
) -> Rows:
    """Read data, named `name` in messages; sort, merge and check rows, and align the labels.

    All faults are raised together. `maker` is the method of `Panel` that was called, or None. A
    warning names channels of the kinds `doubts`, if the columns of a table are the channels.
    """
    if reason := foreign(data, name):
        raise TypeError(f"{name} must be converted: {reason}.")
    options = {"time_unit": time_unit, "duplicates": duplicates, "empty": empty}
    choices = (None, *MICROSECONDS), get_args(Duplicates), get_args(Empty)
    for (option, value), known in zip(options.items(), choices, strict=True):
        if value not in known:
            known = ", ".join(map(repr, known))
            raise ValueError(f"{option} must be one of {known}, got {value!r}.")
    faults = Faults(name, None if ids is None else read_ids(ids), channel_names, maker)
    rows = replace(reader(data, faults, time_unit), keeps_empty=empty == "keep")
    if np.size(missing) and (unknown := is_missing(rows.values, missing)).any():
        rows = rows.with_cells(lambda cells: np.where(unknown, np.nan, cells))
    if doubts and channel_names is None and rows.channel_names is not None:
        doubt_channels(rows, faults, doubts)
    rows = sort_rows(rows) if sort else rows
    rows = rows if duplicates == "error" else merge_duplicates(rows, duplicates)
    if rows.values.shape[1] == 0:
        raise ValueError(f"{name} has 0 feature(s) (channels) while a minimum of 1 is required.")
    given = rows.channel_names if channel_names is None else channel_names
    names = fit_channel_names(given, rows.values.shape[1], faults)
    faults.channel_names = names
    check_rows(rows, faults)
    has_ids, n_series = faults.ids is not None, len(rows.offsets) - 1
    labels = fit_ids(faults.ids, n_series, faults) if has_ids else np.arange(n_series)
    table = rows.static if static is None else static
    table = None if table is None else fit_static(table, labels, has_ids, faults)
    driven = None if inputs is None else fit_inputs(inputs, labels, rows.times, faults)
    faults.raise_if_any()
    return replace(
        rows,
        values=np.ascontiguousarray(rows.values),
        ids=labels,
        has_ids=has_ids,
        channel_names=names,
        has_channel_names=given is not None,
        static=table,
        inputs=driven,
    )


def check_rows(rows: Rows, faults: Faults) -> None:
    """Add faults of times, values and errors."""
    counts, ticks = rows.times.counts, rows.times.ticks
    known = np.isfinite(counts)
    note_cells(BAD_TIME, ~known, "the time must be finite", rows, faults)
    times = rows.times.order if known.all() else np.where(known, counts, np.nan)
    inside = inside_series(rows.offsets, len(times))
    with np.errstate(over="ignore", invalid="ignore"):
        gaps, span = np.diff(times), np.ptp(times) if len(times) else 0.0
    if (falls := (gaps < 0) & inside).any():
        _note_falls(rows, times, np.flatnonzero(falls) + 1, inside, faults)
    same = np.zeros(len(times), dtype=bool)
    same[1:] = are_equal_times(times) & inside
    late = (np.abs(times) >= LAST_WHOLE) & (ticks is None)
    kind = REPEATED_HOUR if rows.times.unit and not rows.times.tz else DUPLICATE
    note_cells(kind, same & ~late, "the row before it has the same time", rows, faults)
    rule = f"float64 cannot tell it from the one before: above {LAST_WHOLE:g} it has gaps"
    note_cells(TOO_LATE, same & late, rule, rows, faults)
    rises = inside & (gaps > 0) & ~same[1:]
    smallest = gaps.min(where=rises, initial=gaps.max(initial=0))
    if known.all() and not smallest > 1e-15 * span < np.inf:
        _note_lost(rows, rises, faults)
    note_cells(INFINITE, np.isinf(rows.values), "values must not be infinity, got {}", rows, faults)
    if rows.errors is not None:
        named = replace(rows, values=rows.errors)
        possible = (rows.errors >= 0) & (rows.errors < np.inf)
        rule, wrong = "the error must not be {:g}", ~(possible | np.isnan(rows.errors))
        note_cells(WRONG_ERROR, wrong, rule, named, faults)
        rule = "the error is {:g}, but the value there is missing"
        note_cells(WRONG_ERROR, possible & np.isnan(rows.values), rule, named, faults)
    if rows.keeps_empty or (rows.n_observed > 0).all():
        return
    empty = rows.n_observed == 0
    empty[list(rows.unreadable)] = False  # these have a fault already

    def line(series: int) -> str:
        length = rows.lengths[series]
        what = f"all values of its {length} row(s) are NaN" if length else "has no rows"
        return f"{faults.series(series)}: {what}"

    faults.add_each(UNOBSERVED, np.flatnonzero(empty), line)


def _note_lost(rows: Rows, rises: np.ndarray, faults: Faults) -> None:
    """Add rows whose times since the first row, with 16 digits, lose some of the gaps `rises`."""
    far = ~np.isfinite(elapsed := rows.elapsed)
    rule = "the time since the first row is too large for a number"
    note_cells(TOO_FAR, far, rule, rows, faults)
    close = np.zeros(len(elapsed), dtype=bool)
    close[1:] = (elapsed[1:] == elapsed[:-1]) & rises & ~far[1:]
    rule = "the time since the row before it is lost to rounding"
    note_cells(TOO_CLOSE, close, rule, rows, faults)


def _note_falls(
    rows: Rows, times: np.ndarray, back: np.ndarray, inside: np.ndarray, faults: Faults
) -> None:
    """Add rows `back` at which times fall, with the likely cause."""
    counts, unit, tz = rows.times[:3]
    values = rows.values[:, 0]  # often decrease, times rarely do
    hour = MICROSECONDS["h"] / MICROSECONDS[unit or "h"]
    if unit and not tz and (np.diff(counts)[back - 1] >= -hour).all():
        kind = SET_BACK
    elif (
        rows.values.shape[1] == 1
        and len(back) > max(1, inside.sum() / 4)
        and (values[1:] > values[:-1])[inside].all()
    ):
        kind = SWAPPED
    else:
        kind = RESTARTED if _start_again(times, rows.offsets, back) else UNSORTED

    def line(row: int) -> str:
        before = f"times must increase, but the time before it is {rows.format(row - 1)}"
        return f"{_where(rows, faults, row)}: {before}"

    faults.add_each(kind, back, line)


def _start_again(times: np.ndarray, offsets: np.ndarray, back: np.ndarray) -> bool:
    """Whether times fall, in most series, to where they began, and first by all that had passed."""
    verdicts = []
    for k in np.unique(np.searchsorted(offsets, back, side="right") - 1)[:100]:
        since = (times[offsets[k] : offsets[k + 1]] - times[offsets[k]]).astype(np.float64)
        falls, span = np.flatnonzero(since[1:] < since[:-1]), np.ptp(since)
        before, after, later = np.append(since, np.inf)[falls[0] + np.arange(3)]
        # After a row out of place times go on from where they were, and not from its time.
        least = max(np.ptp(since[: falls[0] + 1]), 0.6 * span * (later > before))
        is_apart = len(since) > 2 and (np.diff(falls) > 1).all() and before - after > 0.9 * least
        verdicts.append(is_apart and since[falls + 1].max() < 0.1 * span)
    return 2 * sum(verdicts) > len(verdicts)


def note_extremes(rows: Rows, faults: Faults) -> None:
    """Add rows whose times are too extreme for estimators; the rows are sorted."""
    if rows.times.ticks is not None:  # whole numbers of 64 bits are never too extreme
        return
    gaps = np.diff(rows.times.counts, prepend=-np.inf)
    gaps[rows.offsets[:-1][rows.lengths > 0]] = np.inf
    rule = f"the time since the row before it is less than {SHORTEST:g}"
    note_cells(EXTREME, gaps < SHORTEST, rule, rows, faults)
    rule = f"the time since the first row is more than {1 / SHORTEST:g}"
    note_cells(EXTREME, rows.elapsed > 1 / SHORTEST, rule, rows, faults)


def note_cells(kind: FaultKind, wrong: np.ndarray, rule: str, rows: Rows, faults: Faults) -> None:
    """Add the cells of a mask (n_obs, D), or the rows of a mask (n_obs,).

    `rule` is a format string for the value of a cell.
    """

    def line(cell: np.ndarray) -> str:
        return f"{_where(rows, faults, *cell)}: {rule.format(rows.values[tuple(cell)])}"

    if wrong.any():
        faults.add_each(kind, np.argwhere(wrong), line)


def note_bad_cells(
    bad: Sequence[BadCell], rows: Rows, faults: Faults, *, may_be_text: bool = False
) -> None:
    """Add cells that are not numbers; one line per channel that is mostly text."""
    width = rows.values.shape[1]
    texts: dict[int, list[BadCell]] = {}
    for cell in bad if may_be_text else ():
        if isinstance(cell.content, str):
            texts.setdefault(cell.position % width, []).append(cell)
    for channel, cells in texts.items():
        series = [rows.series_of(cell.position // width) for cell in cells]
        if len(cells) > max(1, rows.lengths[np.unique(series)].sum() / 2):
            example = f"{cells[0].content!r} ({faults.series(series[0])})"
            faults.add(TEXT, [f"{faults.channel(channel)} holds text, such as {example}"])
            bad = [cell for cell in bad if cell.position % width != channel]

    def line(cell: BadCell) -> str:
        return f"{_where(rows, faults, *divmod(cell.position, width))}: not a number, {cell}"

    faults.add_each(NOT_NUMERIC, bad, line)


def _where(rows: Rows, faults: Faults, row: int, channel: int | None = None) -> str:
    """Name the series, the channel if there is one, and the time of a row."""
    series, time = rows.series_of(row), rows.times.counts[row]
    where = faults.series(series)
    where = where if channel is None else f"{where}, {faults.channel(channel)}"
    if np.isfinite(time):
        return f"{where}, time {rows.format(row)}"
    unknown = "missing time" if np.isnan(time) else f"time {time}"
    return f"{where}, row {row - rows.offsets[series]}, {unknown}"


def read_ids(ids: object) -> np.ndarray:
    """Return ids as a 1-D array of their type."""
    try:
        if isinstance(ids, str | bytes):
            raise TypeError
        labels = np.array(pd.Index(ids, tupleize_cols=False).to_numpy())
        set(labels.tolist())  # raises if one is not hashable, such as a list
        return labels
    except (TypeError, ValueError):
        raise TypeError(f"ids must be a 1-D sequence of labels, got {plain_repr(ids)}.") from None


def fit_ids(ids: np.ndarray, n_series: int, faults: Faults) -> np.ndarray:
    """Return one id per series."""
    if len(ids) != n_series:
        faults.add(IDS, [f"{len(ids)} ids for {n_series} series"])
        return np.arange(n_series)
    repeated = np.flatnonzero(pd.Index(ids, tupleize_cols=False).duplicated())
    faults.add_each(IDS, repeated, lambda k: f"{faults.series(k)}: its id occurs before")
    return ids


def fit_channel_names(
    names: Sequence[Hashable] | None, n_channels: int, faults: Faults
) -> tuple[str, ...]:
    """Return one name per channel; x0, x1, ... if none were given."""
    if names is None:
        return default_channel_names(n_channels)
    if isinstance(names, str):
        raise TypeError(f"channel_names must be a sequence of names, got the text {names!r}.")
    found = tuple(map(str, names))
    if len(found) != n_channels:
        faults.add(NAMES, [f"{len(found)} channel names for {n_channels} channels"])
        return default_channel_names(n_channels)
    repeated = sorted({name for name in found if found.count(name) > 1})
    faults.add(NAMES, [f"channel name {name!r} occurs more than once" for name in repeated])
    return found


def fit_static(
    static: object, ids: np.ndarray, has_ids: bool, faults: Faults
) -> pd.DataFrame | None:
    """Return static rows in the order of the ids.

    A frame whose index holds exactly the ids is aligned by them. Without ids, or for an array, rows
    are taken in their order.
    """
    table = static
    if not isinstance(static, pd.DataFrame):
        array = np.array(unmasked(static))
        if array.ndim != 2:
            raise TypeError(
                "static must be a DataFrame or a 2-D array with one row a series, got "
                f"{type(static)}."
            )
        table = pd.DataFrame(array)
    index = pd.Index(ids, tupleize_cols=False)
    if len(table) != len(ids):
        absent = index.difference(table.index, sort=False) if table is static and has_ids else []
        whose = f", none for {', '.join(map(str, absent[:3]))}" if len(absent) else ""
        faults.add(STATIC, [f"{len(table)} static rows for {len(ids)} series{whose}"])
        return None
    known = table.index.isin(index)
    is_counted = table is not static or not has_ids
    if not is_counted and known.all() and table.index.is_unique and index.is_unique:
        return table.reindex(index)
    is_other = known.any() and not table.index.equals(pd.RangeIndex(len(table)))
    is_other = is_other or (not has_ids and first_misplaced(table.index, ids) is not None)
    if not is_counted or is_other:
        held = "some of the ids, but not each of them once" if known.any() else "none of the ids"
        if table.index.is_unique and (known.all() or is_counted):
            held = "the numbers of the series in another order"
        faults.add(STATIC, [f"the index of static holds {held} ({some_of(ids)})"])
        return None
    return table.set_axis(index, axis=0)


def first_misplaced(labels: Iterable[object], ids: Iterable[object]) -> int | None:
    """First position whose label, as text or number, is the id of another position, or None."""
    labels, ids = list(labels), list(ids)
    differing = [k for k, (label, id) in enumerate(zip(labels, ids, strict=True)) if label != id]
    if not differing:
        return None
    found, wanted = ([*map(plain_label, each)] for each in (labels, ids))
    known = set(wanted)
    return next((k for k in differing if found[k] != wanted[k] and found[k] in known), None)


def plain_label(label: object) -> Hashable:
    """Normalised label: "7", 7 and 7.0 are equal; anything but a whole number in text is text."""
    if isinstance(label, tuple):
        return tuple(map(plain_label, label))
    if isinstance(label, Number):
        return label
    text = label.decode(errors="replace") if isinstance(label, bytes) else str(label).strip()
    whole = re.fullmatch(r"([+-]?\d+)(\.0*)?", text)
    return int(whole[1]) if whole else text


def some_of(labels: np.ndarray) -> str:
    """Name the first few labels in a message."""
    return ", ".join([*map(plain_repr, labels[:3]), *["..."] * (len(labels) > 3)])
