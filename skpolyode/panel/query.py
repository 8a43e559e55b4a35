"""Times and lengths of time: from users, or by default from the data."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.errors import ParameterError, plain_repr
from skpolyode.panel.cells import (
    MICROSECONDS,
    TimeBlock,
    Times,
    as_timedelta,
    join_times,
    read_times,
)
from skpolyode.panel.checks import plain_label
from skpolyode.panel.panel import Panel
from skpolyode.panel.rows import offsets_from, series_index
from skpolyode.panel.select import observed_part, split_rows
from skpolyode.panel.selection import refuse_reordered

_LEADS = '; to count durations, pass relative_to="end" or "start"'
_SHARES = "; a share of the duration of each series is a number between 0 and 1"
_TOO_LITTLE = 0.5  # a window that covers a smaller share of the median series warns
_FURTHEST_MEMORY = 1e9  # largest ratio to the longest series: beyond, float32 rounds rows together


def query_times(
    panel: Panel, times: Any, relative_to: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Read the query times of each series of a panel.

    Parameters
    ----------
    panel : Panel
        The series.
    times : scalar, array-like of shape (Q,) or sequence of n_series such
        Times for all series, or a list with the times for each, which may be empty for some of
        them. Numbers, in the units of the
        panel's `times`; for a panel of datetimes datetimes, with a time zone if and only if the
        panel has one, or text such as "2026-01-02 05:00", which without a UTC offset is in the
        panel's zone. Any order, repetitions allowed.
    relative_to : {"start", "end"} or None, default=None
        What `times` count from: the first or the last observation of each series; they are then
        numbers, or for a panel of datetimes timedeltas, also as text ("90min"). A series without
        any observation gets no times. None: absolute times.

    Returns
    -------
    times : float64 ndarray of shape (n_queries,)
        Times of all series one after the other, in the order given, in the units and from the
        origin of the panel's `times`.
    offsets : int64 ndarray of shape (n_series + 1,)
        Where the times of each series start and those of the last one end.

    Raises
    ------
    ValueError
        If there are no times, too many or too few lists of them, or any that is not finite.
    TypeError
        If the type of the times does not fit that of the panel, or they are None.

    Examples
    --------
    >>> from skpolyode.panel import Panel, query_times
    >>> panel = Panel.from_series([([0, 1], [5, 6]), ([0, 2], [7, 8])])
    >>> query_times(panel, [0.5, 3.0])
    (array([0.5, 3. , 0.5, 3. ]), array([0, 2, 4]))
    >>> query_times(panel, [[0.5], [1.0, 2.0]])
    (array([0.5, 1. , 2. ]), array([0, 1, 3]))
    >>> query_times(panel, [-0.5, 3.0], relative_to="end")
    (array([0.5, 4. , 1.5, 5. ]), array([0, 2, 4]))
    """
    if relative_to is None:
        return times_since(panel, times, None)
    seen = observed_part(panel)
    return times_since(panel, times, edge(relative_to, seen.start, seen.end))


def edge(relative_to: str | None, start: np.ndarray, end: np.ndarray) -> np.ndarray | None:
    """Return the origin (n_series,) of relative times: `start`, `end` or None."""
    if relative_to is None:
        return None
    if relative_to not in ("start", "end"):
        raise ValueError(f'relative_to must be "start", "end" or None, got {relative_to!r}.')
    return start if relative_to == "start" else end


def times_since(
    panel: Panel, times: Any, since: np.ndarray | None, name: str = "times", remedy: str = _LEADS
) -> tuple[np.ndarray, np.ndarray]:
    """As `query_times`, for times that count from `since` (n_series,); no times where it is NaN.

    None: absolute times. `name` is the name in messages, and `remedy` what to do about durations.
    """
    relative, origin = since is not None, panel.rows.origin
    if times is None:
        raise TypeError(f'{name} are missing: give some, such as [1, 2] with relative_to="end".')
    if isinstance(times, pd.Series):
        _refuse_times_by_ids(times, panel, name)

    def read(times: Any, name: str = name) -> Times:
        if relative:
            return read_leads(times, panel.time_unit, name)
        try:
            block = read_instants(times, panel, name, remedy)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from error
        if block.data.size:
            check_kind(block, panel, name, "in the panel", remedy)
        return _checked(block, panel.time_unit, name, times)

    is_list = isinstance(times, list | tuple | np.ndarray) and getattr(times, "ndim", 1)
    first = times[0] if is_list and len(times) else None
    one_each = isinstance(first, list | tuple) or getattr(first, "ndim", 0) == 1
    if not one_each or not any(map(np.size, times)):
        reads = [read(times)] * panel.n_series
    elif len(times) == panel.n_series:
        labelled = ((f"{name} of series {i}", t) for i, t in enumerate(times))
        reads = [read(t, label) if np.size(t) else Times(np.empty(0)) for label, t in labelled]
    else:
        raise ValueError(
            f"{name} must be one list for all series or one for each of the {panel.n_series} "
            f"series, got {len(times)} lists."
        )
    if relative:
        starts = zip(since, reads, strict=True)
        blocks = [t + leads.counts if np.isfinite(t) else np.empty(0) for t, leads in starts]
    elif origin is None:
        blocks = [each.counts for each in reads]
    else:
        blocks = [panel.rows.since_origin(*pair) for pair in zip(reads, origin, strict=True)]
    return np.concatenate([np.empty(0), *blocks]), offsets_from([len(block) for block in blocks])


def split_at(panel: Panel, cutoff: Any) -> tuple[Panel, Panel]:
    """Rows up to the cutoff and those after it, for series with observations in both."""
    panel = observed_part(panel)
    past, future = split_rows(panel, read_cutoff(panel, cutoff))
    kept = (past.lengths > 0) & (future.lengths > 0)
    if not kept.any():
        raise ValueError(
            "no series has observations both up to its cutoff and after it; choose another cutoff."
        )
    return past[kept], future[kept]


def read_cutoff(panel: Panel, cutoff: Any) -> np.ndarray:
    """Cutoff times (B,), from a share of the durations, one time, or one for each series."""
    # A number of any precision, also in an array without axes.
    if np.ndim(cutoff) == 0 and np.asarray(cutoff).dtype.kind == "f" and 0 < cutoff < 1:
        return panel.start + float(cutoff) * (panel.end - panel.start)
    if isinstance(cutoff, str) and not panel.is_datetime:
        raise TypeError(f"cutoff must be a share or times, got {cutoff!r}.")
    return one_time_each(panel, cutoff, None, "cutoff", _SHARES)


def one_time_each(
    panel: Panel, given: Any, since: np.ndarray | None, name: str, remedy: str = _LEADS
) -> np.ndarray:
    """Read one time (n_series,) of each series, from one for all or for each; see `times_since`."""
    refuse_reordered(given, panel, name)
    times = given
    if pd.api.types.is_list_like(given):
        times = [list(t) if pd.api.types.is_list_like(t) else [t] for t in given]
        if [len(each) for each in times] != [1] * panel.n_series:
            raise ValueError(
                f"{name} must be one time, or one for each of the {panel.n_series} series, got "
                f"{plain_repr(given)}."
            )
    flat, offsets = times_since(panel, times, since, name, remedy)
    found = np.full(panel.n_series, np.nan)
    found[np.diff(offsets) == 1] = flat
    return found


def _refuse_times_by_ids(times: pd.Series, panel: Panel, name: str) -> None:
    """Refuse times whose index holds the ids: they would be read as times for all series."""
    if panel.n_series < 2 or not panel.rows.has_ids or isinstance(times.index, pd.RangeIndex):
        return
    index, ids = ({*map(plain_label, labels)} for labels in (times.index, panel.ids.tolist()))
    if index != ids:
        return
    raise ValueError(
        f"the index of {name} holds the ids of the series, but a flat list of times is for all of "
        f"them. Pass [[t] for t in {name}.loc[panel.ids]] for one time each, or "
        f"{name}.to_numpy() for all."
    )


def name_query(panel: Panel, series: int, time: float, gap: float, name: str = "times") -> str:
    """Describe a time outside the valid range, and its distance, for an error message.

    The time is shown because numbers may have been meant as steps, or as counts since 1970.
    """
    unit = f" {panel.time_unit}" if panel.is_datetime else ""
    asked = panel.rows.format_from(series, time)
    return f"{name} of series {plain_repr(panel.ids[series])}: {asked}, {gap:g}{unit}"


def refuse_early(
    panel: Panel, times: np.ndarray, offsets: np.ndarray, first: np.ndarray, why: str
) -> None:
    """Raise a ValueError for times before the `first` valid ones (n_series,).

    The times of each series start at `offsets` (n_series + 1,). `why` is a format string for the
    text after "before"; it takes the number of times that are too early.
    """
    early, series = np.repeat(first, np.diff(offsets)) - times, series_index(offsets)
    why = f"before {why}"
    refuse_first(early > 0, lambda k: name_query(panel, series[k], times[k], early[k]), why)


def refuse_first(wrong: np.ndarray, name: Callable[[int], str], why: str) -> None:
    """Raise a ValueError with the `name` of the first entry of a mask; `why` takes their number."""
    if wrong.any():
        raise ValueError(f"{name(int(np.argmax(wrong)))} {why.format(int(wrong.sum()))}")


def read_leads(times: Any, time_unit: str | None, name: str = "times") -> Times:
    """Relative times (Q,), in units of `time_unit`.

    Numbers, or with datetimes (`time_unit` is not None) timedeltas, or text such as "90min".
    """
    is_datetime = time_unit is not None
    try:
        times = [times] if np.ndim(times) == 0 else times
        if is_datetime and any(isinstance(time, str) for time in times):
            times = [as_timedelta(time) for time in times]
        block = read_times(times)
    except ValueError:  # text that is no duration
        raise ValueError(
            f'{name} must be timedeltas, or text with a unit, such as "90min", got '
            f"{plain_repr(times)}."
        ) from None
    except TypeError as error:
        fault: object = error
        if not is_datetime:
            fault = f"give numbers, as the series have; got {plain_repr(times)}"
        raise TypeError(f"{name}: {fault}") from error
    if block.data.size and block.kind not in ("number", "timedelta")[: 1 + is_datetime]:
        wanted = "timedeltas, or counts of their unit" if is_datetime else "numbers"
        raise TypeError(
            f"{name} must be {wanted} where they are relative to the start or the end of a series "
            f"of {'datetimes' if is_datetime else 'numbers'}, got {block.kind}s."
        )
    return _checked(block, time_unit, name, times)


def read_instants(times: Any, panel: Panel, name: str, remedy: str = "") -> TimeBlock:
    """Absolute times from a user; for a panel of datetimes also as text.

    Text without a UTC offset is in the time zone of the panel. `remedy` is for durations.
    """
    times = [times] if np.ndim(times) == 0 else times
    if isinstance(times, pd.DatetimeIndex) or not any(isinstance(time, str) for time in times):
        return read_times(times)
    if not panel.is_datetime:
        raise TypeError(f"the times of the series are numbers: give numbers, got {times[0]!r}")
    return read_times(moments(times, panel.tz, name, remedy))


def moments(times: Any, tz: Any, name: str, remedy: str = "") -> pd.DatetimeIndex:
    """Datetimes in a time zone, from datetimes and text; UTC offsets in text are converted."""
    plain = [str(time) if isinstance(time, str) else time for time in times]  # no strings of numpy
    refuse_words(plain, name, tz, remedy)
    try:
        index = _read_texts(plain)
    except (TypeError, ValueError, FutureWarning):
        texts = [repr(time) for time in plain if isinstance(time, str)]
        raise ValueError(
            f"{name}: text must be dates and times such as '2026-01-02 05:00', all or none with a "
            f"UTC offset, got {', '.join(texts[:3])}{remedy}."
        ) from None
    if tz is None:
        return index
    if index.tz is not None:
        return index.tz_convert(tz)
    local = index.tz_localize(tz, ambiguous="NaT", nonexistent="NaT")
    if (unclear := local.isna() & ~index.isna()).any():
        raise ValueError(
            f"{name}: {index[unclear][0]} does not exist or occurs twice in {tz}, because clocks "
            "change: give all times with their UTC offset, such as '+01:00'."
        )
    return local


def refuse_words(times: Any, name: str, tz: Any = None, remedy: str = "") -> None:
    """Raise a ValueError for text such as "now", which pandas reads on a clock in UTC."""
    for time in times:
        if isinstance(time, str) and re.fullmatch(r"\D*[a-zA-Z]\D*", time):
            zone = "" if tz is None else repr(str(tz))
            raise ValueError(
                f"{name}: text must be dates and times such as '2026-01-02 05:00', got {time!r}"
                f"{remedy}; the present is pandas.Timestamp.now({zone})."
            )


def _read_texts(times: list[Any]) -> pd.DatetimeIndex:
    """Datetimes from text; several UTC offsets become UTC. Errors are those of pandas."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)  # pandas 2 warns of mixed offsets
            return pd.to_datetime(times, format="ISO8601")
    except (ValueError, FutureWarning):
        if any(pd.to_datetime(time, format="ISO8601").tzinfo is None for time in times):
            raise
        return pd.to_datetime(times, format="ISO8601", utc=True)


def _checked(block: TimeBlock, time_unit: str | None, name: str, given: Any) -> Times:
    """Times of a block; a ValueError if there are none or they are not finite."""
    if block.data.ndim != 1 or block.data.size == 0:
        raise ValueError(f"{name} must be one-dimensional and not empty, got {plain_repr(given)}.")
    read = join_times([block], time_unit)
    if not np.isfinite(read.counts).all():
        row = int(np.flatnonzero(~np.isfinite(read.counts))[0])
        found = "a missing time" if np.isnan(read.counts[row]) else read.counts[row]
        raise ValueError(f"{name} must be finite, got {found} at position {row}.")
    return read


def check_kind(block: TimeBlock, panel: Panel, name: str, like: str, remedy: str = "") -> None:
    """Raise an error if the type of times is not that of the panel; `remedy` is for durations."""
    if block.kind == "number" and not panel.is_datetime:
        return
    if block.kind != "datetime" or not panel.is_datetime:
        if pd.isna(block.data).all():
            raise ValueError(f"{name} must not be missing (NaN, NaT).")
        wanted = "datetimes" if panel.is_datetime else "numbers"
        remedy = "" if block.kind == "datetime" else remedy
        if block.kind == "number":
            zone = "" if panel.tz is None else f", utc=True).tz_convert({panel.tz!r}"
            unit = {"min": "m"}.get(panel.time_unit, panel.time_unit)
            remedy += (
                "; turn counts since 1970 into datetimes with pandas.to_datetime(times, "
                f"unit={unit!r}{zone})"
            )
        raise TypeError(f"{name} must be {wanted}, as {like}, got {block.kind}s{remedy}.")
    if (block.tz is None) != (panel.tz is None):
        ours, its = (f"the time zone {tz}" if tz else "no time zone" for tz in (panel.tz, block.tz))
        raise TypeError(
            f"{name}: the series have {ours}, the times {its}: give both the same with tz_localize."
        )


def read_duration(name: str, value: Any, time_unit: str | None) -> float:
    """Length of time that a parameter states, in the units of `times`.

    Parameters
    ----------
    name : str
        Name of the parameter in messages.
    value : float, timedelta, timedelta64 or str
        A number is in the units of `times`. Anything else is a duration for `pandas.Timedelta`,
        such as "90min", and needs datetimes.
    time_unit : str or None
        `Panel.time_unit`: None for plain numbers.

    Raises
    ------
    ValueError
        If it is not a positive length, or a duration where times are plain numbers.

    Examples
    --------
    >>> from skpolyode.panel.query import read_duration
    >>> read_duration("window", "90min", "h"), read_duration("window", 5, None)
    (1.5, 5.0)
    """
    rule = (
        f"{name} must be a positive length of time: a number, in the units of `times`, or beside "
        f'datetimes a duration, such as "90min" or a timedelta; got {plain_repr(value)}'
    )
    if isinstance(value, Real) and not isinstance(value, bool | np.timedelta64):
        length = float(value)
    else:
        try:
            length = as_timedelta(value) / pd.Timedelta(1, "us") / MICROSECONDS[time_unit or "us"]
        except (TypeError, ValueError, OverflowError):
            raise ParameterError(f"{rule}.") from None
        if time_unit is None:
            raise ParameterError(f"{rule}, but the times are plain numbers: give a number.")
    if not 0 < length < np.inf:
        raise ParameterError(f"{rule}.")
    return length


def _text(length: float, time_unit: str | None) -> str:
    return f"{length:g}" if time_unit is None else f"{length:g} {time_unit}"


def read_memory(name: str, value: Any, time_unit: str | None, longest: float) -> float:
    """Length of a memory, as `read_duration` reads it; a ValueError if far from that of series.

    `longest` is the length of the longest series, in the units of `times`.
    """
    length = read_duration(name, value, time_unit)
    if not longest / _FURTHEST_MEMORY <= length <= longest * _FURTHEST_MEMORY:
        raise ParameterError(
            f"{name}={value!r} is {length / longest:.0e} times as long as the longest series, of "
            f"length {_text(longest, time_unit)}: choose a more similar length, or 'auto'."
        )
    return length


@dataclass(frozen=True)
class LengthSettings:
    """When series are outliers: much longer than all others.

    Then another unit of time or a wrong row is likely, and a memory that holds them could not
    resolve the others. In 26 real collections no length is more than 1.09 times the next shorter
    one above the median.
    """

    most: float = 0.1  # of the series
    times_next: float = 8.0  # the longest of the others; so many coefficients become one


LENGTHS = LengthSettings()


def longest_duration(panel: Panel) -> float:
    """Length of the longest series that is no outlier, by `LengthSettings`; 1 if all are 0.

    Parameters
    ----------
    panel : Panel
        Series without empty rows.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.query import longest_duration
    >>> series = [([0.0, end], [1.0, 2.0]) for end in [*range(20, 40), 36e3]]
    >>> longest_duration(Panel.from_series(series))
    39.0
    """
    lengths = np.sort(panel.end - panel.start)
    lengths = lengths[lengths > 0]  # a series of one row has none
    jumps = lengths[1:] > LENGTHS.times_next * lengths[:-1]
    jumps[: math.ceil((1 - LENGTHS.most) * len(lengths)) - 1] = False
    return float(np.append(lengths[:-1][jumps], lengths[-1:])[:1].sum()) or 1.0


def choose_window(window: Any, panel: Panel, whole: bool = False) -> float:
    """Length of the remembered past; by default that of the longest series.

    Parameters
    ----------
    window : float, duration or "auto"
        As `read_duration` reads it.
    panel : Panel
        Training series without empty rows.
    whole : bool, default=False
        Take the length of the longest series, for a memory of the whole history.

    Warns
    -----
    UserWarning
        If series are outliers, as in `longest_duration`, which "auto" leaves out.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.query import choose_window
    >>> panel = Panel.from_series([([0.0, 6.0], [1.0, 2.0]), ([0.0], [1.0])])
    >>> choose_window("auto", panel), choose_window(3, panel)
    (6.0, 3.0)
    """
    longest = float((panel.end - panel.start).max()) or 1.0
    if whole:
        return longest
    if not (isinstance(window, str) and window == "auto"):
        return read_memory("window", window, panel.time_unit, longest)
    chosen = longest_duration(panel)
    if chosen < longest:
        far = np.flatnonzero(panel.end - panel.start > chosen)
        names, length = [*map(plain_repr, panel.ids[far[:3]])], _text(chosen, panel.time_unit)
        warnings.warn(
            f"window='auto' is {length}, but {len(far)} series are far longer, up to {longest:g} "
            f"(ids: {', '.join(names)}). Are their times in another unit, or is one of them wrong? "
            f"Only their ends are remembered, unless you give window={longest:g}.",
            stacklevel=5,
        )
    return chosen


def covered(panel: Panel, window: float) -> tuple[float, float]:
    """Mean share of the series that a window covers, and its number of rows of a typical one.

    Parameters
    ----------
    panel : Panel
        Training series without empty rows.
    window : float
        Length of the remembered past.

    Warns
    -----
    UserWarning
        If the share of the typical (median) series is less than half.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.query import covered
    >>> covered(Panel.from_series([(range(31), range(31))]), window=15.0)
    (0.5, 15.5)
    """
    lengths = panel.end - panel.start
    typical = float(np.median(lengths))
    share = min(1.0, window / typical) if typical > 0 else 1.0
    if share < _TOO_LITTLE:
        warnings.warn(
            f"window={_text(window, panel.time_unit)} covers {share:.0%} of the typical series, of "
            f"length {_text(typical, panel.time_unit)}: it does not embed older observations. "
            "Choose window='auto' to remember whole series.",
            UserWarning,
            stacklevel=5,
        )
    mean = float(np.mean(window / np.maximum(lengths, window)))
    return mean, share * float(np.median(panel.lengths))
