"""Days of the week and holidays as inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skpolyode.panel.inputs import Inputs
from skpolyode.panel.panel import Panel
from skpolyode.panel.query import moments, read_duration
from skpolyode.panel.rows import offsets_from

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def calendar_inputs(panel: Panel, *, holidays: Any = None, ahead: Any = "7D") -> Inputs:
    """Days of the week, and holidays, as inputs of series with datetimes.

    Parameters
    ----------
    panel : Panel
        Series with datetimes.
    holidays : array-like of dates, or mapping or Series by dates, or None, default=None
        Days off, as dates, datetimes or text such as "2026-12-25". Give them without a time zone,
        or in that of the panel.
    ahead : float, timedelta or str, default="7D"
        How far the calendar continues after the last row of each series: at least as far as the
        forecasts. A number is in the units of `times`.

    Returns
    -------
    Inputs
        A row for each day of each series, at midnight of the panel's time zone; of the kind "hold".
        The channels "monday" to "sunday" are 1 on their day and 0 on others; with `holidays` there
        is "holiday" too.

    Raises
    ------
    TypeError
        If the times are plain numbers, which have no days.
    ValueError
        If `ahead` is not a positive length of time, or if a holiday is missing, in another time
        zone, or a day that the panel's zone skipped.

    See Also
    --------
    Panel.with_inputs : Adds inputs to a panel.

    Examples
    --------
    >>> import pandas as pd
    >>> from skpolyode.panel import Panel, calendar_inputs
    >>> hours = pd.date_range("2026-12-24 18:00", periods=3, freq="12h")
    >>> panel = Panel.from_series([(hours, [5.0, 1.0, 2.0])])
    >>> inputs = calendar_inputs(panel, holidays=["2026-12-25"], ahead="1D")
    >>> inputs.panel.to_long()[["time", "thursday", "friday", "saturday", "holiday"]]
            time  thursday  friday  saturday  holiday
    0 2026-12-24       1.0     0.0       0.0      0.0
    1 2026-12-25       0.0     1.0       0.0      1.0
    2 2026-12-26       0.0     0.0       1.0      0.0
    """
    if not panel.is_datetime:
        raise TypeError(
            "panel has plain numbers as times, which have no days of the week: build it from "
            "datetimes, such as pandas.to_datetime(times, unit=...)."
        )
    further = pd.Timedelta(read_duration("ahead", ahead, panel.time_unit), panel.time_unit)
    times, has_rows = panel.user_times(), panel.lengths > 0
    off = np.empty(0, np.int64) if holidays is None else _holidays(panel, holidays)
    first = _day_numbers(times[panel.offsets[:-1][has_rows]])
    last = _day_numbers(times[panel.offsets[1:][has_rows] - 1] + further)
    lengths = np.zeros(panel.n_series, dtype=np.int64)
    lengths[has_rows] = last - first + 1
    series = np.repeat(np.arange(panel.n_series), lengths)
    offsets = offsets_from(lengths)
    days = np.repeat(first, lengths[has_rows]) + np.arange(len(series)) - offsets[series]
    midnights = _midnights(days, panel.tz)
    there = _day_numbers(midnights) == days
    days, midnights = days[there], midnights[there]
    columns = {name: (days + 3) % 7 == k for k, name in enumerate(_DAYS)}  # 1970 began on Thursday
    if holidays is not None:
        columns["holiday"] = np.isin(days, off)
    rows = Panel(
        midnights,
        np.column_stack(list(columns.values())).astype(np.float64),
        offsets_from(there)[offsets],
        ids=panel.ids if panel.rows.has_ids else None,
        channel_names=list(columns),
        time_unit=panel.time_unit,
        empty="keep",
    )
    return Inputs(rows, "hold")


def _holidays(panel: Panel, holidays: Any) -> np.ndarray:
    """Day numbers of holidays."""
    if isinstance(holidays, pd.Series) and isinstance(holidays.index, pd.DatetimeIndex):
        holidays = holidays.index
    given = moments(list(holidays), None, "holidays")
    if given.isna().any():
        place = int(np.argmax(given.isna()))
        raise ValueError(f"holidays: the one at position {place} is missing: leave it out.")
    if given.tz is not None and str(given.tz) != panel.tz:
        raise ValueError(
            f"holidays are of the time zone {given.tz} and the panel of {panel.tz or 'none'}: a "
            "holiday lasts for a day of the panel; give dates without a time zone."
        )
    days = _day_numbers(given)
    if (wrong := _day_numbers(_midnights(days, panel.tz)) != days).any():
        left_out = f"{given[wrong][0]:%Y-%m-%d}"
        raise ValueError(f"holidays: {left_out} was no day in {panel.tz}: leave it out.")
    return days


def _midnights(days: np.ndarray, tz: str | None) -> pd.DatetimeIndex:
    """First moments of days; if the time zone skipped the day, that of the next day."""
    midnights = pd.DatetimeIndex(days.astype("M8[D]").astype("M8[s]"))
    if tz is None:
        return midnights
    twice = np.ones(len(days), dtype=bool)  # some clocks change at midnight
    return midnights.tz_localize(tz, ambiguous=twice, nonexistent="shift_forward")


def _day_numbers(times: pd.DatetimeIndex) -> np.ndarray:
    """Days since 1970 in the time zone of the times."""
    return times.tz_localize(None).to_numpy().astype("M8[D]").astype(np.int64)
