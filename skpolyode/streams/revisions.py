"""Late, corrected and retracted observations of streams that keep their latest rows.

Such a stream holds a second one that lags behind: its state is that before the rows that are kept.
A revision changes these rows, and recomputes the state of the series from there.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from skpolyode.errors import FaultKind, ParameterError
from skpolyode.panel import Panel
from skpolyode.panel.query import read_duration
from skpolyode.panel.rows import offsets_from
from skpolyode.streams.panels import AS_WAS, new_rows

# Faults and their lines in an error message, with the last time that is not kept.
BEYOND = (
    FaultKind("times before what is kept", f"make the stream with a larger keep{AS_WAS}"),
    "only what comes after {end} is kept",
)
_NOT_THERE = (
    FaultKind(
        "observations that are not there",
        f"leave these channels out (NaN, or a dict of the others), or add them by insert{AS_WAS}",
    ),
    "{channels} not observed then",
)
_THERE = (
    FaultKind("values that are known already", f"replace them by correct{AS_WAS}"),
    "it has a value at this time",
)
_NOTHING = FaultKind(_NOT_THERE[0].title, f"leave them out{AS_WAS}"), _NOT_THERE[1]
WRONG = {"insert": _THERE, "correct": _NOT_THERE, "retract": _NOTHING}


Revised = tuple["Kept", np.ndarray]
"""Rows after a change, and a mask of the changed cells that are wrong."""


class Kept(NamedTuple):
    """Rows of one series, ordered by time."""

    times: np.ndarray  # float64 (m,), in the units of the stream's panel
    values: np.ndarray  # float64 (m, D)
    errors: np.ndarray  # float64 (m, D), NaN where not known

    @classmethod
    def of(cls, rows: Panel, k: int) -> Kept:
        """Rows of the k-th series of a panel."""
        part = slice(rows.offsets[k], rows.offsets[k + 1])
        values = rows.values[part]
        errors = np.full_like(values, np.nan) if rows.errors is None else rows.errors[part]
        return cls(rows.times[part], values, errors)

    def joined(self, other: Kept) -> Kept:
        """These rows, followed by others."""
        return Kept(*map(np.concatenate, zip(self, other, strict=True)))

    def revised(self, new: Kept, changed: np.ndarray, action: str, whole: bool) -> Revised:
        """Rows after a change of cells, those of a mask (m', D), to those of `new`.

        The change may be of `whole` rows.
        """
        times = np.union1d(self.times, new.times)
        joint = Kept(times, *np.full((2, len(times), new.values.shape[1]), np.nan))
        was, at = np.searchsorted(times, self.times), np.searchsorted(times, new.times)
        joint.values[was], joint.errors[was] = self.values, self.errors
        is_known = ~np.isnan(joint.values[at])
        if whole:
            is_known = np.broadcast_to(is_known.any(axis=1, keepdims=True), changed.shape)
        joint.values[at] = np.where(changed, new.values, joint.values[at])
        joint.errors[at] = np.where(changed, new.errors, joint.errors[at])
        wrong = changed & (is_known == (action == "insert"))
        observed = ~np.isnan(joint.values).all(axis=1)
        return Kept(*(column[observed] for column in joint)), wrong


def rows_by_id(panel: Panel) -> dict[int, Kept]:
    """Rows of each series of a panel, whose ids are positions in a stream."""
    return {s: Kept.of(panel, k) for k, s in enumerate(panel.ids.tolist())}


def check_kept(rows: dict[int, Kept], keep: Any, panel: Panel) -> None:
    """Raise a ValueError if rows of a file, which may come from anyone, are not of these series."""
    fit = isinstance(keep, int | float) and keep > 0
    for s, kept in rows.items():
        shapes = (n := len(kept.times),), (n, panel.n_channels), (n, panel.n_channels)
        fit &= 0 <= s < panel.n_series and tuple(x.shape for x in kept) == shapes
        fit &= all(x.dtype == np.float64 for x in kept) and bool((np.diff(kept.times) > 0).all())
    if not fit:
        raise ValueError("rows that are not of this stream")


def gathered(rows: dict[int, Kept], panel: Panel) -> Panel:
    """Panel of new rows, with the kept rows of all series that have any."""
    series = np.array([s for s in sorted(rows) if len(rows[s].times)], dtype=np.int64)
    parts = [Kept.of(panel, 0), *(rows[s] for s in series.tolist())]  # first: one without rows
    times, values, errors = map(np.concatenate, zip(*parts, strict=True))
    beside = {} if np.isnan(errors).all() else {"errors": errors}
    offsets = offsets_from([len(kept.times) for kept in parts[1:]])
    return new_rows(panel, series, times, values, offsets, **beside)


def late_rows(panel: Panel, keep: int | float) -> np.ndarray:
    """Mask (n_obs,) of the last rows of each series, `keep` of them or within this time."""
    stop = np.repeat(panel.offsets[1:], panel.lengths)
    if isinstance(keep, int):
        return np.arange(len(stop)) >= stop - keep
    return panel.times >= panel.times[stop - 1] - keep


def read_keep(keep: Any, time_unit: str | None) -> int | float:
    """Number of rows to keep, or a length of time in the units of `times`."""
    if not isinstance(keep, Integral) or isinstance(keep, bool | np.timedelta64):
        return read_duration("keep", keep, time_unit)
    if keep < 1:
        raise ParameterError(f"keep must be a positive number of rows or a duration, got {keep}.")
    return int(keep)
