"""Conversion of cells of any kind to float64, and of times of any type to float64 and back.

Datetimes become counts of a unit since 1970-01-01 UTC. Today such a count in seconds is rounded to
2.4e-7, so differences of times are computed from ticks (whole micro- or nanoseconds, or the user's
integers), which are stored with the counts.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

NUMBER_KINDS = "biuf"
_TIME_NAMES = frozenset(
    f"{unit}{plural}"
    for unit in ("time", "timestamp", "datetime", "date", "day", "hour", "minute", "second")
    for plural in ("", "s")
)


class BadCell(NamedTuple):
    """A cell that is not a number: its flat position in the block and what it holds."""

    position: int
    content: object

    def __str__(self) -> str:
        text = repr(self.content)
        text = text if len(text) <= 200 else f"{text[:100]}..."
        return f"got {text} ({type(self.content).__name__})"


def read_values(values: object) -> tuple[np.ndarray, Sequence[BadCell]]:
    """Return an array of numbers, and the cells that are not numbers (replaced by 0.0)."""
    if type(values) is np.ndarray and values.dtype.kind in NUMBER_KINDS:  # most series
        return values, ()
    if isinstance(values, pd.DataFrame | pd.Series):
        array = values.to_numpy()
        if array.dtype == object:  # tested late: the dtypes of a frame take most of the time
            dtypes = values.dtypes if isinstance(values, pd.DataFrame) else [values.dtype]
            if all(map(is_numeric_dtype, dtypes)):
                array = values.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        array = rectangular(values)
    if array.dtype.kind in "mM":  # else whole numbers, which look like measurements
        array = array.astype(f"{array.dtype.kind}8[us]").astype(object)
    if array.dtype.kind in NUMBER_KINDS:
        return array, ()
    if array.dtype.kind == "c":
        raise ValueError(
            "Complex data not supported; give the real and imaginary parts as channels"
        )
    return to_float(array)


def is_missing(values: np.ndarray, missing: Any) -> np.ndarray:
    """Mask of the values that are codes for "not observed"."""
    try:
        codes = np.asarray(missing, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"missing must be numbers, such as [-999], got {missing!r}.") from None
    return np.isin(values, codes)


def text_columns(bad: Sequence[BadCell], n_rows: int, n_columns: int = 1) -> dict[int, BadCell]:
    """First bad cell of each column of a block (n_rows, n_columns) that is mostly text."""
    found: dict[int, list[BadCell]] = {}
    for cell in bad:
        if isinstance(cell.content, str):
            found.setdefault(cell.position % n_columns, []).append(cell)
    return {k: cells[0] for k, cells in found.items() if len(cells) > max(1, n_rows / 2)}


def foreign(X: Any, name: str = "x") -> str | None:
    """Return why an object of xarray, astropy or pint would be misread, and its remedy; else None.

    numpy drops its names, times, ids or units. `name` is its name in the remedy.
    """
    if isinstance(X, pd.DataFrame | pd.Series):  # labels are attributes too
        return None
    unit = str(getattr(X, "unit", getattr(X, "units", None)) or "")
    if hasattr(X, "dims") and hasattr(X, "coords"):
        give = f"Panel.from_long({name}.to_dataframe().reset_index(), id=..., time=...)"
        give += f", or {name}.to_numpy() for bare numbers" * hasattr(X, "to_numpy")
    elif hasattr(X, "colnames") and hasattr(X, "to_pandas"):
        give = f"{name}.to_pandas(), or Panel.from_long({name}.to_pandas(), id=..., time=...)"
    elif hasattr(X, "scale") and hasattr(X, "to_value"):
        give = f"{name}.to_value('datetime64') or, for durations, {name}.to_value('s')"
    elif hasattr(X, "to") and unit not in ("", "dimensionless"):
        number = "magnitude" if hasattr(X, "magnitude") else "value"
        give = f"numbers of one unit for all series, {name}.to({unit!r}).{number}"
    else:
        return None
    return f"only the numbers of a {type(X).__name__} would be read; give {give}"


def unmasked(values: Any) -> Any:
    """Return masked arrays, and lists of them, with NaN (None, NaT) in masked cells.

    Anything else is returned as it is. numpy drops the mask silently when it converts a masked
    array to a plain one, and names and units likewise: objects that have any are a TypeError.
    """
    if isinstance(values, list | tuple):
        each = {type(item): item for item in values}.values()  # one of each type
        nested = any(hasattr(item, "__len__") and not isinstance(item, str) for item in each)
        return [unmasked(item) for item in values] if nested else values
    if reason := foreign(values):
        raise TypeError(reason)
    if isinstance(values, np.ndarray) and hasattr(values, "unmasked"):  # of astropy
        values = np.ma.array(values.unmasked, mask=values.mask)
    if values is np.ma.masked or not isinstance(values, np.ma.MaskedArray):
        return None if values is np.ma.masked else values
    if values.dtype.kind in "mM":
        return values.filled(np.array("NaT", values.dtype))
    if values.dtype.kind in NUMBER_KINDS:
        return values.astype(np.float64).filled(np.nan)
    return np.where(np.ma.getmaskarray(values), None, values.data.astype(object))


def with_nan(X: Any) -> Any:
    """Return 2-D input with NaN where it is masked or missing, for scikit-learn's validation.

    The validation drops masks, and raises for `pandas.NA` in object columns. Frames stay frames.
    """
    if isinstance(X, pd.DataFrame):
        has_objects = any(dtype.kind == "O" for dtype in X.dtypes)
        return X.mask(X.isna(), np.nan) if has_objects else X
    X = rectangular(X) if isinstance(X, list | tuple) else unmasked(X)
    if isinstance(X, np.ndarray) and X.dtype == object:
        return np.where(pd.isna(X), np.nan, X)
    return X


def rectangular(values: object) -> np.ndarray:
    """Return an array, with NaN where it is masked."""
    try:
        return np.asarray(unmasked(values))
    except ValueError as error:
        raise ValueError(
            "lists must be rectangular; give series of different length as a list of pairs "
            "(times, values), each a tuple"
        ) from error


def to_float(array: np.ndarray) -> tuple[np.ndarray, list[BadCell]]:
    """Convert an array of objects cell by cell; None and missing markers become NaN."""
    out = np.zeros(array.size)
    bad = []
    for position, cell in enumerate(array.ravel().tolist()):
        if cell is None or cell is pd.NA or cell is pd.NaT:
            out[position] = np.nan
            continue
        try:
            # float("1.5") works, but a column of text is more often a mistake than a measurement;
            # float of a numpy date is its number of ticks.
            if isinstance(cell, str | bytes | np.datetime64 | np.timedelta64):
                raise TypeError
            out[position] = float(cell)
        except (TypeError, ValueError, OverflowError):
            bad.append(BadCell(position, cell))
    return out.reshape(array.shape), bad


def column_names(X: Any) -> list[Any]:
    """Return the names of the columns of a pandas, polars or pyarrow frame, else none."""
    if isinstance(X, pd.DataFrame):
        return list(X.columns)
    return list(getattr(X, "column_names", polars_schema(X)))


def column_of(frame: Any, name: object) -> pd.Series | np.ndarray:
    """Return a column of a pandas or polars frame."""
    found = frame[name]
    if isinstance(found, pd.DataFrame):
        raise ValueError(f"column {name!r} occurs more than once.")
    if isinstance(found, pd.Series):
        return found
    array = found.to_numpy()  # `to_pandas` of polars needs pyarrow
    zone = getattr(getattr(found, "dtype", None), "time_zone", None)  # pyarrow has none
    if zone is None:
        return array
    return pd.Series(pd.DatetimeIndex(array).tz_localize("UTC").tz_convert(zone))


def as_pandas(table: Any) -> Any:
    """Convert a polars or pyarrow frame to pandas, with the same columns."""
    names = [] if isinstance(table, pd.DataFrame) else column_names(table)
    return pd.DataFrame({name: column_of(table, name) for name in names}) if names else table


def polars_schema(X: Any) -> Mapping[str, Any]:
    """Return the types of the columns of a polars frame, by name; else none."""
    schema = getattr(X, "schema", None)
    return schema if isinstance(schema, Mapping) else {}


def is_nested(X: pd.DataFrame) -> bool:
    """Return whether the cells of a frame hold whole series."""
    return X.size > 0 and isinstance(X.iat[0, 0], pd.Series | np.ndarray)


def is_id_name(name: object) -> bool:
    """Return whether a column has a typical name of ids."""
    text = str(name).lower()
    return text == "id" or text.endswith("_id")


def is_time_name(name: object) -> bool:
    """Return whether a column has a typical name of times."""
    return str(name).lower() in _TIME_NAMES


_UNITS = ("us", "ms", "s", "min", "h", "D")
MICROSECONDS = {unit: pd.Timedelta(1, unit) // pd.Timedelta(1, "us") for unit in _UNITS}
DEFAULT_UNIT = "s"
_TEXT_REMEDY = "; convert text with pandas.to_datetime"
_INDEX_OF = {
    (datetime.date, np.datetime64): pd.DatetimeIndex,
    (datetime.timedelta, np.timedelta64): pd.TimedeltaIndex,
    (pd.Period,): pd.PeriodIndex,
}
_RESOLUTIONS = {1: "us", 1000: "ns"}
_NAT = np.iinfo(np.int64).min
_LAST = np.iinfo(np.int64).max
LAST_WHOLE = int(1 / np.finfo(np.float64).epsneg)  # 2**53: float64 holds all whole numbers up to it


class TimeBlock(NamedTuple):
    """Times of one series: numbers, or whole ticks for datetimes and timedeltas."""

    data: np.ndarray
    kind: str = "number"
    tz: str | None = None
    per_us: int = 1  # ticks per microsecond: 1, or 1000 where nanoseconds are needed


def as_timedelta(value: Any) -> pd.Timedelta:
    """Read a duration as `pandas.Timedelta` does, but refuse text without a unit (nanoseconds)."""
    if isinstance(value, str) and not re.search("[a-zA-Z:]", value):
        raise ValueError(f"{value!r} has no unit")
    return pd.Timedelta(value)


class Times(NamedTuple):
    """Times of all rows: counts, which computations use, and exact ticks."""

    counts: np.ndarray  # float64 (n_obs,), NaN where missing
    unit: str | None = None  # of datetimes; None for plain numbers
    tz: str | None = None
    # int64 (n_obs,), exactly `per_unit` times the counts; None if there are only counts.
    ticks: np.ndarray | None = None
    per_unit: int = 1

    def at(self, index: Any) -> Times:
        """Times of the rows that an index selects."""
        ticks = None if self.ticks is None else self.ticks[index]
        return self._replace(counts=self.counts[index], ticks=ticks)

    @property
    def clock(self) -> str:
        """Meaning of the counts, as text."""
        if self.unit is None:
            return "plain numbers"
        zone = "" if self.tz is None else f", of the time zone {self.tz}"
        return f"datetimes counted in {self.unit!r}{zone}"

    @property
    def order(self) -> np.ndarray:
        """Numbers in the exact order of the times."""
        return self.counts if self.ticks is None else self.ticks

    @property
    def per_us(self) -> int:
        """Ticks per microsecond, for datetimes: 1 or 1000."""
        return self.per_unit // MICROSECONDS[self.unit]

    def format(self, row: int, digits: int = 15) -> str:
        """Return the time of a row as text; numbers of 10^6 and more keep all digits."""
        time = self.at([row]).to_user()[0] if np.isfinite(self.counts[row]) else self.counts[row]
        if isinstance(time, pd.Timestamp):
            return str(time)
        return f"{float(time):.{digits if abs(time) < 1e6 else 15}g}"

    def to_user(self) -> np.ndarray | pd.DatetimeIndex:
        """Return the times in the user's type."""
        if self.unit is None:  # timedeltas become plain numbers; whole numbers stay integers
            if self.ticks is None or self.per_unit == 1:
                return self.counts if self.ticks is None else self.ticks
            return np.where(np.isnan(self.counts), np.nan, self.ticks / self.per_unit)
        ticks = to_ticks(self.counts, self.unit) if self.ticks is None else self.ticks
        per_us = 1 if self.ticks is None else self.per_us
        index = pd.DatetimeIndex(ticks.view(f"M8[{_RESOLUTIONS[per_us]}]"))
        return index if self.tz is None else index.tz_localize("UTC").tz_convert(self.tz)


def read_times(times: object) -> TimeBlock:
    """Read the times of one series, of any supported type.

    Raises
    ------
    TypeError
        If they are neither numbers nor datetimes nor timedeltas.
    """
    if type(times) is np.ndarray and times.dtype.kind in "iuf":  # of most series
        return TimeBlock(times)
    times = unmasked(times)
    if isinstance(times, pd.Series):
        times = pd.Index(times, dtype=times.dtype)
    if isinstance(times, pd.MultiIndex):
        raise TypeError(
            "times must be one index level, got a MultiIndex; use Panel.from_sktime or "
            "Panel.from_long"
        )
    if isinstance(times, pd.PeriodIndex):
        times = times.to_timestamp()
    if isinstance(times, pd.DatetimeIndex) and times.tz is not None:
        return _ticks_of(times.asi8.view(f"M8[{times.unit}]"), _tz_name(times.tz))
    array = np.asarray(times)
    if array.dtype.kind in "iuf":
        return TimeBlock(array)
    if array.dtype.kind in "mM":
        return _ticks_of(array)
    if array.dtype.kind not in "OUS":
        raise TypeError(f"times must be numbers or datetimes, got dtype {array.dtype}")
    array = np.array(times, dtype=object)  # numpy has turned a list with one text into text
    known = [cell for cell in array.ravel() if cell is not None and cell is not pd.NaT]
    for kinds, index in _INDEX_OF.items():
        if known and all(isinstance(cell, kinds) for cell in known):
            try:
                return read_times(index(array.ravel()))
            except ValueError as error:
                zones = {getattr(cell, "tzinfo", None) for cell in known}
                if len(zones) < 2:
                    raise
                remedy = "several; convert them with pandas.to_datetime(..., utc=True)"
                if None in zones:
                    remedy = "some without a time zone; give these theirs with tz_localize first"
                raise TypeError(
                    f"times must be datetimes of one UTC offset, got {remedy}"
                ) from error
    numbers, bad = to_float(array)
    if bad:
        raise TypeError(f"times must be numbers or datetimes, {_first_odd(array, bad)}")
    return TimeBlock(numbers)


def _first_odd(array: np.ndarray, bad: Sequence[BadCell]) -> str:
    """Describe the cell that makes times unreadable: among dates what is none, and text first."""
    cells = map(BadCell, range(array.size), array.ravel())
    cells = [cell for cell in cells if cell.content is not None and cell.content is not pd.NaT]
    for kinds in _INDEX_OF:
        others = [cell for cell in cells if not isinstance(cell.content, kinds)]
        bad = others if 0 < 2 * len(others) < len(cells) else bad
    cell = next((cell for cell in bad if isinstance(cell.content, str)), bad[0])
    row = " of series ".join(map(str, np.unravel_index(cell.position, array.shape)[::-1]))
    return f"{cell} in row {row}" + _TEXT_REMEDY * isinstance(cell.content, str)


def join_times(blocks: Sequence[TimeBlock], time_unit: str | None) -> Times:
    """Concatenate blocks of one kind into float64 times with their time axis."""
    filled = [block for block in blocks if block.data.size]
    if not filled:
        return Times(np.empty(0), time_unit)
    kinds = {block.kind for block in filled}
    if len(kinds) > 1:
        raise TypeError(
            f"times must be of one kind in all series, got {' and '.join(sorted(kinds))}; "
            "convert them to one kind."
        )
    if kinds == {"number"}:
        data = np.concatenate([block.data for block in filled])
        counts = data.astype(np.float64, copy=False)
        if time_unit is not None:
            _refuse_far(counts, time_unit)
        large = data.dtype.kind in "iu" and LAST_WHOLE < np.abs(counts).max() < float(_LAST)
        return Times(counts, time_unit, None, *_spanned(data, 1) if large else ())
    unit = time_unit or DEFAULT_UNIT
    per_us = max(block.per_us for block in filled)
    coarse = [block.data for block in filled if block.per_us < per_us]
    if any((np.abs(ticks) >= _LAST // per_us).any() for ticks in coarse):
        per_us = 1  # too far from 1970 for nanoseconds
    data = np.concatenate([_as_ticks(block, per_us) for block in filled])
    per_unit = per_us * MICROSECONDS[unit]
    counts = np.where(data == _NAT, np.nan, data / per_unit)
    if kinds == {"timedelta"}:
        return Times(counts, None, None, *_spanned(data, per_unit))
    zones = {block.tz for block in filled}
    if len(zones) > 1 and None in zones:
        raise TypeError(
            "datetimes with and without a time zone cannot be mixed; give all of them one, with "
            "tz_localize."
        )
    tz = zones.pop() if len(zones) == 1 else "UTC"
    return Times(counts, unit, tz, *_spanned(data, per_unit))


def _as_ticks(block: TimeBlock, per_us: int) -> np.ndarray:
    """Ticks of a block, converted to micro- or nanoseconds."""
    ticks = block.data // max(block.per_us // per_us, 1) * max(per_us // block.per_us, 1)
    return np.where(block.data == _NAT, _NAT, ticks)


def _spanned(ticks: np.ndarray, per_unit: int) -> tuple[np.ndarray, int] | tuple[()]:
    """Ticks and their number per unit; () if differences of ticks do not fit into an int64."""
    known = ticks[ticks != _NAT]
    if known.size and int(known.max()) - int(known.min()) > _LAST:
        return ()
    return ticks.astype(np.int64, copy=False), per_unit


@cache
def _tz_name(tz: datetime.tzinfo) -> str:
    try:
        return str(pd.DatetimeTZDtype(tz=str(tz)).tz)
    except (KeyError, TypeError, ValueError):  # a zone whose name pandas cannot read
        return "UTC"


def _ticks_of(array: np.ndarray, tz: str | None = None) -> TimeBlock:
    """Whole microseconds of datetimes and timedeltas, or nanoseconds if they have any."""
    kind = array.dtype.kind
    name, ticks = "datetime" if kind == "M" else "timedelta", array.astype(f"{kind}8[us]")
    if np.datetime_data(array.dtype)[0] in ("ns", "ps", "fs", "as"):
        nanoseconds = array.astype(f"{kind}8[ns]").view(np.int64)
        rest = nanoseconds % 1000
        if np.any((rest != 0) & (nanoseconds != _NAT)):
            return TimeBlock(nanoseconds, name, tz, 1000)
    elif (wrapped := ~np.isnat(array) & (ticks.astype(array.dtype) != array)).any():
        raise ValueError(f"{name}s must be within 290 000 years of 1970, got {array[wrapped][0]}")
    return TimeBlock(ticks.view(np.int64), name, tz)


def _refuse_far(counts: np.ndarray, unit: str, per_us: int = 1) -> None:
    """Raise a ValueError for counts of a unit beyond the range of datetimes."""
    known = np.abs(counts[np.isfinite(counts)])
    if known.max(initial=0.0) >= _LAST / (per_us * MICROSECONDS[unit]):
        years = known.max() * MICROSECONDS[unit] / (365.25 * MICROSECONDS["D"])
        raise ValueError(
            f"times count in time_unit={unit!r}, and {known.max():g} such units are {years:.3g} "
            f"years, which datetime64[{_RESOLUTIONS[per_us]}] cannot hold: give the unit in which "
            "they count, or datetimes, pandas.to_datetime(times, unit=...)."
        )


def to_ticks(times: np.ndarray, unit: str, per_us: int = 1) -> np.ndarray:
    """Convert counts of a unit to whole micro- or nanoseconds."""
    known = np.isfinite(times)
    _refuse_far(times, unit, per_us)
    # Whole units and fractions separately: the product of a large count and the unit would round.
    whole = np.floor(np.where(known, times, 0.0))
    rest = np.where(known, times, 0.0) - whole
    per_unit = per_us * MICROSECONDS[unit]
    counts = whole.astype(np.int64) * per_unit + np.rint(rest * per_unit).astype(np.int64)
    return np.where(known, counts, _NAT)
