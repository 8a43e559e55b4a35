"""Times of any kind to float64 and back.

Datetimes become counts of a unit since 1970-01-01 UTC. They pass through whole microseconds, so
that the way back is exact to the microsecond (until the year 2149, whatever the unit).
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from skpolyode.panel.cells import NUMBER_KINDS, to_float, unmasked

MICROSECONDS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "D": 86_400_000_000,
}
DEFAULT_UNIT = "s"
_TEXT_REMEDY = "; convert text with pandas.to_datetime"
_INDEX_OF = {
    (datetime.date, np.datetime64): pd.DatetimeIndex,
    (datetime.timedelta, np.timedelta64): pd.TimedeltaIndex,
    (pd.Period,): pd.PeriodIndex,
}
_NAT = np.iinfo(np.int64).min


@dataclass(frozen=True)
class TimeAxis:
    """What the numbers in `times` mean: plain numbers (unit None) or datetimes."""

    unit: str | None = None
    tz: str | None = None

    def to_user(self, times: np.ndarray) -> np.ndarray | pd.DatetimeIndex:
        """Return times in the user's type: a DatetimeIndex, or the numbers themselves."""
        if self.unit is None:
            return times
        index = pd.DatetimeIndex(_microseconds(times, self.unit).view("M8[us]"))
        return index if self.tz is None else index.tz_localize("UTC").tz_convert(self.tz)

    def format(self, time: float, digits: int = 15) -> str:
        """Return one time as text; numbers of 10^6 and more keep all their digits."""
        if self.unit is None or not np.isfinite(time):
            return f"{float(time):.{digits if abs(time) < 1e6 else 15}g}"
        return str(self.to_user(np.array([time]))[0])


class TimeBlock(NamedTuple):
    """Times of one series: numbers, or whole microseconds for datetimes and timedeltas."""

    data: np.ndarray
    kind: str = "number"
    tz: str | None = None

    def format(self, row: int) -> str:
        """Return the time of one row as text."""
        if self.kind == "number":
            return f"{float(self.data[row]):.15g}"
        if self.kind == "timedelta":
            return str(pd.Timedelta(self.data[row].view("m8[us]")))
        return TimeAxis("us", self.tz).format(self.data[row])


def check_unit(unit: str | None) -> None:
    """Refuse a unit of time that is not known."""
    if unit is not None and unit not in MICROSECONDS:
        units = ", ".join(map(repr, MICROSECONDS))
        raise ValueError(f"time_unit must be None or one of {units}, got {unit!r}.")


def read_times(times: object) -> TimeBlock:
    """Read the times of one series, whatever their kind.

    Raises
    ------
    TypeError
        If they are neither numbers nor datetimes nor timedeltas.
    """
    times = unmasked(times)
    if isinstance(times, np.ndarray) and times.dtype.kind in NUMBER_KINDS:
        return TimeBlock(times)
    if isinstance(times, pd.Series):
        times = pd.Index(times)
    if isinstance(times, pd.MultiIndex):
        raise TypeError(
            "times must be one index level, got a MultiIndex; use Panel.from_sktime or "
            "Panel.from_long"
        )
    if isinstance(times, pd.PeriodIndex):
        times = times.to_timestamp()
    if isinstance(times, pd.DatetimeIndex) and times.tz is not None:
        return TimeBlock(times.as_unit("us").asi8, "datetime", _tz_name(times.tz))
    array = np.asarray(times)
    return _read_objects(array) if array.dtype.kind == "O" else _read_array(array)


def _read_array(array: np.ndarray) -> TimeBlock:
    if array.dtype.kind in NUMBER_KINDS:
        return TimeBlock(array)
    if array.dtype.kind == "M":
        return TimeBlock(_int_microseconds(array), "datetime")
    if array.dtype.kind == "m":
        return TimeBlock(_int_microseconds(array), "timedelta")
    remedy = _TEXT_REMEDY if array.dtype.kind in "US" else ""
    raise TypeError(f"times must be numbers or datetimes, got dtype {array.dtype}{remedy}")


def _read_objects(array: np.ndarray) -> TimeBlock:
    known = [cell for cell in array.ravel() if cell is not None and cell is not pd.NaT]
    for kinds, index in _INDEX_OF.items():
        if known and all(isinstance(cell, kinds) for cell in known):
            return read_times(index(array.ravel()))
    numbers, bad = to_float(array)
    if bad:
        remedy = _TEXT_REMEDY if isinstance(bad[0].content, str) else ""
        raise TypeError(f"times must be numbers or datetimes, {bad[0]}{remedy}")
    return TimeBlock(numbers)


def join_times(blocks: Sequence[TimeBlock], time_unit: str | None) -> tuple[np.ndarray, TimeAxis]:
    """Concatenate blocks of one kind into float64 times and say what the numbers mean."""
    filled = [block for block in blocks if block.data.size]
    if not filled:
        return np.empty(0), TimeAxis(time_unit)
    kinds = {block.kind for block in filled}
    if len(kinds) > 1:
        raise TypeError(
            f"times must be of one kind in all series, got {' and '.join(sorted(kinds))}; "
            "convert them to one kind."
        )
    data = np.concatenate([block.data for block in filled])
    kind = kinds.pop()
    if kind == "number":
        return data.astype(np.float64, copy=False), TimeAxis(time_unit)
    unit = time_unit or DEFAULT_UNIT
    axis = TimeAxis(unit, _common_tz(filled)) if kind == "datetime" else TimeAxis()
    return _counts(data, unit), axis


def _common_tz(blocks: Sequence[TimeBlock]) -> str | None:
    zones = {block.tz for block in blocks}
    if len(zones) == 1:
        return zones.pop()
    if None in zones:
        raise TypeError(
            "datetimes with and without a time zone cannot be mixed; give all of them one, with "
            "tz_localize."
        )
    return "UTC"


@cache
def _tz_name(tz: datetime.tzinfo) -> str:
    try:
        return str(pd.DatetimeTZDtype(tz=str(tz)).tz)
    except (KeyError, TypeError, ValueError):  # a zone without a name that pandas can read back
        return "UTC"


def _int_microseconds(array: np.ndarray) -> np.ndarray:
    return array.astype(f"{array.dtype.kind}8[us]").view(np.int64)


def _counts(microseconds: np.ndarray, unit: str) -> np.ndarray:
    return np.where(microseconds == _NAT, np.nan, microseconds / MICROSECONDS[unit])


def _microseconds(times: np.ndarray, unit: str) -> np.ndarray:
    known = np.isfinite(times)
    # Whole units and the rest apart: the product of a large count and the unit would round again.
    whole = np.floor(np.where(known, times, 0.0))
    rest = np.where(known, times, 0.0) - whole
    per_unit = MICROSECONDS[unit]
    counts = whole.astype(np.int64) * per_unit + np.rint(rest * per_unit).astype(np.int64)
    return np.where(known, counts, _NAT)
