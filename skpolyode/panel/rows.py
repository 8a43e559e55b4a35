"""The flat rows that a panel stores: exact times, values, sorting and merging.

Columns accompany the values, such as their known errors. `Rows.beside` holds them by name: float64
of the shape (n_obs, D) of the values, NaN where not known. Selections, windows, merged rows and
concatenated panels treat all such columns alike. A new column only needs a name, and an entry in
`MEANS` if averaging rows does not average its cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from skpolyode.panel.cells import Times, to_ticks

Beside = Mapping[str, np.ndarray]


def mean_of_cells(cells: np.ndarray, known: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Means (n_groups, D) of the known cells (n_rows, D) of groups; NaN without any."""
    count = np.add.reduceat(known.astype(np.float64), starts)
    share = np.where(known, cells, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduceat(share, starts)
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    if np.isinf(total).any():  # the sum of two finite numbers can overflow, their mean cannot
        sizes = np.diff(starts, append=len(cells))
        smaller = share / np.repeat(np.maximum(count, 1), sizes, axis=0)
        mean = np.where(np.isinf(total), np.add.reduceat(smaller, starts), mean)
    return mean


def error_of_mean(errors: np.ndarray, known: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Standard deviations of the means of independent cells; see `mean_of_cells`."""
    count = np.add.reduceat(known.astype(np.float64), starts)
    noise = np.hypot.reduceat(np.where(known, errors, 0.0), starts)
    return np.where(count > 0, noise / np.maximum(count, 1), np.nan)


MEANS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "errors": error_of_mean
}
"""How a named column is reduced when rows are averaged; others take the mean."""


def reduce_groups(
    values: np.ndarray, beside: Beside, starts: np.ndarray, how: str
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Reduce groups of rows to one row each, ignoring NaN cells where a group has others.

    `values` (n_rows, D) are the rows, `starts` (n_groups,) the first row of each group, increasing
    from 0. Returns the values, and the columns `beside` of their mean, sum or selected cells, of
    shape (n_groups, D).
    """
    known = ~np.isnan(values)
    if how in ("mean", "sum"):
        reduced = {}
        for name, column in beside.items():
            there = known if name in MEANS else known & ~np.isnan(column)
            reduced[name] = MEANS.get(name, mean_of_cells)(column, there, starts)
        mean = mean_of_cells(values, known, starts)
        if how == "mean":
            return mean, reduced
        n = np.maximum(np.add.reduceat(known.astype(np.float64), starts), 1)
        with np.errstate(over="ignore"):
            return mean * n, {name: column * n for name, column in reduced.items()}
    rows = np.where(known, np.arange(len(values))[:, None], np.nan)
    taken = {"first": np.fmin, "last": np.fmax}[how].reduceat(rows, starts)
    place = np.nan_to_num(taken).astype(np.int64)

    def pick(cells: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(taken), np.nan, np.take_along_axis(cells, place, axis=0))

    return pick(values), {name: pick(column) for name, column in beside.items()}


Duplicates = Literal["error", "mean", "sum", "first", "last"]

_NEAR_TICK = 1e-3  # ticks by which rounding may move a time
_MOST_TICKS = 9.2e18  # that an int64 can hold: 291 years of nanoseconds


@dataclass(frozen=True)
class Rows:
    """Contents of a panel: the rows of all series one after the other, and labels."""

    times: Times
    values: np.ndarray
    offsets: np.ndarray
    ids: np.ndarray | None = None
    channel_names: tuple[str, ...] | None = None
    # Whether the input named the channels; otherwise they have the default names x0, x1, ...
    has_channel_names: bool = False
    static: pd.DataFrame | None = None
    # Positions of series that could not be read: they have no rows, and an error follows.
    unreadable: Sequence[int] = ()
    # Whether series without any observation are kept.
    keeps_empty: bool = False
    # After `since_start`: the ticks (n_series,) from which `times` count.
    origin: np.ndarray | None = None
    # Columns (n_obs, D) by name that accompany the values; see `skpolyode.panel.rows`.
    beside: Beside = field(default_factory=dict)
    # `Inputs` of each series, on the clock of the user; None if there are none.
    inputs: Any = None
    # Whether the ids were given, or result from a selection; otherwise they are 0, 1, ...
    has_ids: bool = False
    # Least and largest value that channels can have, by name; see `Panel.with_limits`.
    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def at(self, index: Any, offsets: np.ndarray) -> Rows:
        """Select rows, in the order of the index, for series with these offsets."""
        rows = self.with_cells(lambda cells: cells[index])
        return replace(rows, times=self.times.at(index), offsets=offsets)

    def of_series(self, series: np.ndarray, start: np.ndarray, stop: np.ndarray) -> Rows:
        """Select series, possibly repeated, with their labels and their rows `start` to `stop`."""
        offsets = offsets_from(stop - start)
        if len(start) and (start[1:] == stop[:-1]).all():  # neighbours: a view
            index: Any = slice(start[0], stop[-1])
        else:
            index = np.arange(offsets[-1]) + np.repeat(start - offsets[:-1], stop - start)
        return replace(
            self.at(index, offsets),
            ids=self.ids[series],
            has_ids=self.has_ids or not np.array_equal(series, np.arange(len(series))),
            static=None if self.static is None else self.static.iloc[series],
            origin=None if self.origin is None else self.origin[series],
            inputs=None if self.inputs is None else self.inputs.at(series),
        )

    def with_cells(self, change: Callable[[np.ndarray], np.ndarray]) -> Rows:
        """Apply a change to the values and to the columns beside them."""
        beside = {name: change(column) for name, column in self.beside.items()}
        return replace(self, values=change(self.values), beside=beside)

    def with_beside(self, **columns: np.ndarray | None) -> Rows:
        """Set columns beside the values; None removes one."""
        joint = {**self.beside, **columns}
        return replace(self, beside={name: x for name, x in joint.items() if x is not None})

    def keep(self, kept: np.ndarray) -> Rows:
        """Select the rows that a mask (n_obs,) keeps; a series may be left without any."""
        return self.at(kept, offsets_from(kept)[self.offsets])

    @property
    def errors(self) -> np.ndarray | None:
        """Standard deviations (n_obs, D) of the values, NaN where not known, or None."""
        return self.beside.get("errors")

    @property
    def observed(self) -> np.ndarray:
        """Mask (n_obs,) of the rows that hold an observation."""
        return ~np.isnan(self.values).all(axis=1)

    @property
    def n_observed(self) -> np.ndarray:
        """Number (n_series,) of rows of each series that hold an observation."""
        return np.diff(offsets_from(self.observed)[self.offsets])

    @property
    def elapsed(self) -> np.ndarray:
        """Times since the first row of the series, float64 (n_obs,), from exact differences."""
        counts, _, _, ticks, per_unit = self.times
        if len(counts) == 0:
            return counts
        first = np.minimum(self.offsets[:-1], len(counts) - 1)  # any row, for series without rows
        if ticks is None or self.origin is not None:
            with np.errstate(over="ignore"):  # later checks report it
                return counts - np.repeat(counts[first], self.lengths)
        since = (ticks - np.repeat(ticks[first], self.lengths)) / per_unit
        return np.where(np.isnan(counts), np.nan, since)

    def since_origin(self, times: Times, origin: np.ndarray) -> np.ndarray:
        """Other times relative to the origins (...,) of their series, in the units of the rows."""
        per_unit, rest = self.times.per_unit, 0.0
        ticks = times.counts * per_unit
        far = ~((np.abs(ticks) < _MOST_TICKS) & (np.abs(ticks - origin) < _MOST_TICKS))  # or NaN
        if times.ticks is not None:
            coarser, finer = max(per_unit // times.per_unit, 1), max(times.per_unit // per_unit, 1)
            whole, rest = np.divmod(times.ticks * coarser, finer)
            rest = rest / finer
        elif self.times.unit is not None:
            whole = to_ticks(np.where(far, 0.0, times.counts), self.times.unit, self.times.per_us)
        else:
            whole = np.floor(np.where(far, 0.0, ticks)).astype(np.int64)
            rest = ticks - np.floor(ticks)
        return np.where(far, ticks - origin, (whole - origin) + rest) / per_unit

    def format(self, row: int) -> str:
        """Return the time of a row as text."""
        if self.origin is None or self.times.ticks is not None:
            return self.times.format(row)
        return self.format_from(self.series_of(row), self.times.counts[row])

    def format_from(self, series: int, time: float) -> str:
        """Return a time, relative to the origin of a series if it has one, as absolute text."""
        return self.on_users_clock(np.array([time]), np.array([series])).format(0)

    def on_users_clock(self, times: np.ndarray, series: np.ndarray) -> Times:
        """Convert other times (Q,), relative to the origins of their series (Q,) if there are any.

        Times without an origin have no ticks; others have them if all are whole ticks.
        """
        if self.origin is None:
            return self.times._replace(counts=times, ticks=None)
        per_unit, origin = self.times.per_unit, self.origin[series]
        ticks = times * per_unit
        whole = np.where(np.isfinite(ticks), np.rint(ticks), np.nan)
        rounded = np.maximum(_NEAR_TICK, 4e-16 * np.abs(ticks))
        exact = np.abs(ticks - whole) <= rounded
        exact &= (np.abs(ticks) < _MOST_TICKS) & (np.abs(origin + ticks) < _MOST_TICKS)
        absolute = origin + np.where(exact, whole, 0.0).astype(np.int64)
        counts = np.where(exact, absolute / per_unit, origin / per_unit + times)
        return self.times._replace(counts=counts, ticks=absolute if exact.all() else None)

    def equals(self, other: Rows) -> bool:
        """Whether other rows have the same content and labels; NaN equals NaN."""
        one, two = self.times, other.times
        pairs = [(one.counts, two.counts)]
        # If only one has ticks, or resolutions differ, only the counts are compared.
        if one.per_unit == two.per_unit and one.ticks is not None and two.ticks is not None:
            pairs.append((one.ticks, two.ticks))
        names = ("offsets", "values", "static", "inputs")
        pairs += [(getattr(self, name), getattr(other, name)) for name in names]
        pairs += [(self.beside.get(k), other.beside.get(k)) for k in {*self.beside, *other.beside}]
        pairs.append(tuple(pd.Index(rows.ids, tupleize_cols=False) for rows in (self, other)))
        labels = [(rows.times.clock, rows.channel_names, rows.limits) for rows in (self, other)]
        return labels[0] == labels[1] and all(_equal(*pair) for pair in pairs)

    @property
    def lengths(self) -> np.ndarray:
        """Rows of each series."""
        return np.diff(self.offsets)

    def series_of(self, row: int) -> int:
        """Return the position of the series that a row belongs to."""
        return int(np.searchsorted(self.offsets, row, side="right")) - 1


def _equal(one: Any, two: Any) -> bool:
    """Whether two arrays, tables or other parts of panels are equal, or both None."""
    if one is None or two is None:
        return one is two
    is_array = isinstance(one, np.ndarray)
    return np.array_equal(one, two, equal_nan=True) if is_array else one.equals(two)


def offsets_from(lengths: np.ndarray | Sequence[int]) -> np.ndarray:
    """Where each series starts and the last one ends.

    Parameters
    ----------
    lengths : array-like of int or bool of shape (n_series,)
        Rows of each series. For a mask of rows, the result at a panel's offsets is the offsets of
        the rows that the mask keeps.

    Returns
    -------
    int64 ndarray of shape (n_series + 1,)
        The `offsets` of a panel.

    See Also
    --------
    series_index : The series of each row.

    Examples
    --------
    >>> from skpolyode.panel import offsets_from
    >>> offsets_from([2, 0, 3])
    array([0, 2, 2, 5])
    """
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def series_index(offsets: np.ndarray) -> np.ndarray:
    """Position of the series that each row belongs to.

    Parameters
    ----------
    offsets : int ndarray of shape (n_series + 1,)
        Where each series starts and the last one ends.

    Returns
    -------
    int64 ndarray of shape (n_obs,)
        Positions, from 0.

    See Also
    --------
    offsets_from : Offsets from the lengths of the series.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.panel import series_index
    >>> series_index(np.array([0, 2, 2, 5]))
    array([0, 0, 2, 2, 2])
    """
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def are_offsets(offsets: np.ndarray, n_rows: int) -> bool:
    """Return whether an array holds valid offsets of `n_rows` rows."""
    if offsets.ndim != 1 or len(offsets) == 0 or offsets.dtype.kind not in "iu":
        return False
    rising = bool((offsets[1:] >= offsets[:-1]).all())
    return rising and offsets[0] == 0 and offsets[-1] == n_rows


def stable_order(codes: np.ndarray) -> np.ndarray:
    """Return the stable order of whole numbers >= 0.

    numpy sorts 16-bit integers by radix, which makes this 5 times faster than sorting the int64.
    """
    order = np.argsort((codes & 0xFFFF).astype(np.uint16), kind="stable")
    high = codes >> 16
    while high.any():
        order = order[np.argsort((high[order] & 0xFFFF).astype(np.uint16), kind="stable")]
        high = high >> 16
    return order


def inside_series(offsets: np.ndarray, n_rows: int) -> np.ndarray:
    """Mask (n_rows - 1,), from row 1 on: whether the row before is in the same series."""
    inside = np.ones(max(n_rows - 1, 0), dtype=bool)
    borders = offsets[(offsets > 0) & (offsets < n_rows)]
    inside[borders - 1] = False
    return inside


def sort_rows(rows: Rows) -> Rows:
    """Return the rows of each series sorted by time (equal times keep their order)."""
    times, inside = rows.times.order, inside_series(rows.offsets, len(rows.values))
    if not np.any((times[1:] < times[:-1]) & inside):
        return rows
    order = np.argsort(times, kind="stable")
    return rows.at(order[stable_order(series_index(rows.offsets)[order])], rows.offsets)


@np.errstate(over="ignore", invalid="ignore")  # times may be infinite
def are_equal_times(times: np.ndarray) -> np.ndarray:
    """Mask (n_rows - 1,), from row 1 on: whether the time is that of the row before.

    Rounding may have changed its last digit, as in ``3 * 0.1`` and ``3 / 10``, if such a gap is
    nothing beside most others.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.panel.rows import are_equal_times
    >>> are_equal_times(np.array([0.1, 3 / 10, 3 * 0.1])).tolist()
    [False, True]
    """
    gaps = np.diff(times)
    rises = gaps[(gaps > 0) & (gaps < np.inf)]
    nothing = 1e-6 * np.quantile(rises, 0.9) if rises.size else 0.0
    rounding = np.minimum(2 * np.finfo(np.float64).eps * np.abs(times[1:]), nothing)
    return (gaps >= 0) & (gaps <= np.where(gaps % 1 > 0, rounding, 0.0))


def merge_duplicates(rows: Rows, how: Duplicates) -> Rows:
    """Merge adjacent rows of equal time, channel by channel."""
    times = rows.times.order
    same = are_equal_times(times) & inside_series(rows.offsets, len(times))
    if not same.any():
        return rows
    first = np.concatenate([[True], ~same])
    starts = np.flatnonzero(first)
    values, beside = reduce_groups(rows.values, rows.beside, starts, how)
    return replace(rows.keep(first), values=values, beside=beside)


def require_series(n_series: int, name: str) -> None:
    """Raise a ValueError for an input without any series."""
    if n_series == 0:
        raise ValueError(f"{name} has 0 sample(s) (series) while a minimum of 1 is required.")


def default_channel_names(n_channels: int) -> tuple[str, ...]:
    """Return the default names of channels: x0, x1, ..."""
    return tuple(f"x{channel}" for channel in range(n_channels))
