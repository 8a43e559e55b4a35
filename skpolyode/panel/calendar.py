"""Days of the week and holidays as inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skpolyode.panel.durations import read_duration
from skpolyode.panel.inputs import Inputs
from skpolyode.panel.panel import Panel
from skpolyode.panel.query import moments

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def calendar_inputs(panel: Panel, *, holidays: Any = None, ahead: Any = "7D") -> Inputs:
    """Days of the week, and holidays, as inputs of series with datetimes.

    Parameters
    ----------
    panel : Panel
        Series with datetimes.
    holidays : array-like of dates, or mapping from dates, or None, default=None
        Days off, as dates, datetimes or text such as "2026-12-25".
    ahead : float, timedelta or str, default="7D"
        For how long after the last row of each series the calendar goes on: at least as long as
        what is forecast. A number is in the units of `times`.

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
        If `ahead` is not a positive length of time.

    See Also
    --------
    Panel.with_inputs : Takes them.

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
    first = _day_numbers(times[panel.offsets[:-1][has_rows]])
    last = _day_numbers(times[panel.offsets[1:][has_rows] - 1] + further)
    lengths = np.zeros(panel.n_series, dtype=np.int64)
    lengths[has_rows] = last - first + 1
    offsets = np.append(0, np.cumsum(lengths))
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    days = np.repeat(first, lengths[has_rows]) + place
    columns = {name: (days + 3) % 7 == k for k, name in enumerate(_DAYS)}  # 1970 began on Thursday
    if holidays is not None:
        columns["holiday"] = np.isin(days, _day_numbers(moments(list(holidays), None, "holidays")))
    midnights = pd.DatetimeIndex(days.astype("M8[D]").astype("M8[s]"))
    if panel.tz is not None:  # some clocks change at midnight
        twice = np.ones(len(days), dtype=bool)
        midnights = midnights.tz_localize(panel.tz, ambiguous=twice, nonexistent="shift_forward")
    rows = Panel(
        midnights,
        np.column_stack(list(columns.values())).astype(np.float64),
        offsets,
        ids=panel.ids if panel.rows.has_ids else None,
        channel_names=list(columns),
        time_unit=panel.time_unit,
        empty="keep",
    )
    return Inputs(rows, "hold")


def _day_numbers(times: pd.DatetimeIndex) -> np.ndarray:
    """Days since 1970 on the clock of the times."""
    return times.tz_localize(None).to_numpy().astype("M8[D]").astype(np.int64)
