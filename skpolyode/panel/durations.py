"""Lengths of time: from parameters, or by default from the data."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.errors import ParameterError
from skpolyode.panel.cells import MICROSECONDS, as_timedelta
from skpolyode.panel.panel import Panel
from skpolyode.panel.rows import inside_series

_TOO_LITTLE = 0.5  # a window that covers a smaller share of the median series warns
_FURTHEST_MEMORY = 1e9  # largest ratio to the longest series: beyond, float32 rounds rows together


def typical_gap(panel: Panel) -> float:
    """Mean gap, with gaps capped at four times the third quartile.

    It is the model's unit of time. The mean bounds the number of integration steps by the number
    of observations; the cap keeps a few enormous gaps from setting the scale.

    Parameters
    ----------
    panel : Panel
        Training series without empty rows.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.durations import typical_gap
    >>> times = [0.0, 1.0, 3.0, 6.0]
    >>> typical_gap(Panel.from_series([(times, times)]))
    2.0
    """
    gaps = np.diff(panel.elapsed)[inside_series(panel.offsets, len(panel.times))]
    if not len(gaps):
        return 1.0
    return float(np.minimum(gaps, 4 * np.quantile(gaps, 0.75)).mean())


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
    >>> from skpolyode.panel.durations import read_duration
    >>> read_duration("window", "90min", "h"), read_duration("window", 5, None)
    (1.5, 5.0)
    """
    rule = (
        f"{name} must be a positive length of time: a number, in the units of `times`, or beside "
        f'datetimes a duration, such as "90min" or a timedelta; got {value!r}'
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


def choose_window(window: Any, panel: Panel) -> float:
    """Length of the remembered past; by default that of the longest series.

    Parameters
    ----------
    window : float, duration or "auto"
        As `read_duration` reads it.
    panel : Panel
        Training series without empty rows.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.durations import choose_window
    >>> panel = Panel.from_series([([0.0, 6.0], [1.0, 2.0]), ([0.0], [1.0])])
    >>> choose_window("auto", panel), choose_window(3, panel)
    (6.0, 3.0)
    """
    longest = float((panel.end - panel.start).max()) or 1.0
    if isinstance(window, str) and window == "auto":
        return longest
    return read_memory("window", window, panel.time_unit, longest)


def covered(panel: Panel, window: float) -> tuple[float, float]:
    """Share of the typical (median) series that a window covers, and its number of rows.

    Parameters
    ----------
    panel : Panel
        Training series without empty rows.
    window : float
        Length of the remembered past.

    Warns
    -----
    UserWarning
        If the share is less than half.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.durations import covered
    >>> covered(Panel.from_series([(range(31), range(31))]), window=15.0)
    (0.5, 15.5)
    """
    typical = float(np.median(panel.end - panel.start))
    share = min(1.0, window / typical) if typical > 0 else 1.0
    if share < _TOO_LITTLE:
        warnings.warn(
            f"window={_text(window, panel.time_unit)} covers {share:.0%} of the typical series, of "
            f"length {_text(typical, panel.time_unit)}: it does not embed older observations. "
            "Choose window='auto' to remember whole series.",
            UserWarning,
            stacklevel=5,
        )
    return share, share * float(np.median(panel.lengths))
