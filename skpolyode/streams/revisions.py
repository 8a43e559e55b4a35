"""Late, corrected and retracted observations of streams that keep their latest rows.

Such a stream holds a second one that lags behind: its state is that before the rows that are kept.
A revision changes these rows, and recomputes the state of the series from there.
"""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpolyode.errors import FaultKind, ParameterError
from skpolyode.panel import Panel
from skpolyode.panel.query import read_duration
from skpolyode.panel.rows import offsets_from
from skpolyode.panel.select import keep_rows
from skpolyode.streams.panels import AS_WAS, add_inputs, new_rows, without_past

if TYPE_CHECKING:
    from skpolyode.streams.stream import SeriesStream

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


class History:
    """The rows that a stream keeps, and the stream before them."""

    def __init__(self, before: SeriesStream, keep: Any) -> None:
        self.before, self.keep = before, keep
        self.nothing = Kept.of(before._panel, 0)  # a panel without rows
        self.rows: dict[int, Kept] = {}

    def of(self, series: int) -> Kept:
        """Rows of one series."""
        return self.rows.get(series, self.nothing)

    def append(self, rows: Panel, panel: Panel, inputs: Any) -> None:
        """Keep the rows and inputs of an update; rows that are now too old go into `before`.

        The origin of its times is that of `panel`.
        """
        before, was = self.before, self.before._panel
        if was.inputs is None or was.rows.origin is None is not panel.rows.origin:
            before._panel = panel
        elif inputs is not None:
            before._panel = add_inputs(was, before._embedder, inputs, before._clock.last)
        new = {s: self.of(s).joined(Kept.of(rows, k)) for k, s in enumerate(rows.ids.tolist())}
        joint = gathered(new, before._panel)
        late = late_rows(joint, self.keep)
        latest = keep_rows(joint, late)
        self.rows |= {s: Kept.of(latest, k) for k, s in enumerate(joint.ids.tolist())}
        before._write(before._followed(keep_rows(joint, ~late), before._panel))
        before._panel = without_past(before._panel, before._clock.last)

    @classmethod
    def restored(cls, kind: type[SeriesStream], state: dict[str, Any]) -> History | None:
        """The history in the saved state of a stream; None if it has none."""
        if (saved := state.get("history")) is None:
            return None
        before = kind.__new__(kind)
        before.__setstate__(saved["before"] | {"of": state["of"]})
        history, rows = cls(before, saved["keep"]), saved["rows"]
        history.rows = {s: Kept.of(rows, k) for k, s in enumerate(rows.ids.tolist())}
        return history

    def check(self) -> None:
        """Raise a ValueError if rows of a file, which may come from anyone, do not fit."""
        n_series, n_channels = self.before.n_series, self.before._panel.n_channels
        fit = isinstance(self.keep, int | float) and self.keep > 0
        for s, row in self.rows.items():
            shapes = (n := len(row.times),), (n, n_channels), (n, n_channels)
            fit &= 0 <= s < n_series and tuple(x.shape for x in row) == shapes
            fit &= all(x.dtype == np.float64 for x in row) and bool((np.diff(row.times) > 0).all())
        if not fit:
            raise ValueError("rows that are not of this stream")

    def __getstate__(self) -> dict[str, Any]:
        rows = gathered(self.rows, self.before._panel)
        before = self.before.__getstate__() | {"of": None}
        return {"keep": self.keep, "rows": rows, "before": before}


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
