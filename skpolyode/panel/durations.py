"""Lengths of time: as parameters give them, or as they follow from the data by default."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.errors import ParameterError
from skpolyode.panel.select import Observed
from skpolyode.panel.timeaxis import MICROSECONDS, as_timedelta

_TOO_LITTLE = 0.5  # share of the typical series below which a window warns
_ONE_MEMORY = 1.25  # contexts up to which one memory serves the window as well
_FURTHEST_MEMORY = 1e9  # longest series, or parts of it: beyond, float32 cannot tell rows apart
# In a gap. An epoch of 12 series of 8 rows takes 0.4 s with 15 steps, 29 s with 1000.
_MANY_STEPS = 50


def typical_gap(rows: Observed) -> float:
    """Mean gap, with the longest gaps counted as four times the third quartile.

    The unit of time of the model. The mean bounds the number of integration steps by the number
    of observations; the cap keeps a few enormous gaps from setting the scale.

    Parameters
    ----------
    rows : Observed
        Of the series of training.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.select import observed_rows
    >>> from skpolyode.panel.durations import typical_gap
    >>> times = [0.0, 1.0, 3.0, 6.0]
    >>> typical_gap(observed_rows(Panel.from_series([(times, times)])))
    2.0
    """
    gaps = rows.gaps
    if not len(gaps):
        return 1.0
    return float(np.minimum(gaps, 4 * np.quantile(gaps, 0.75)).mean())


def read_duration(name: str, value: Any, time_unit: str | None) -> float:
    """Length of time of a parameter, in the units of `times`.

    Parameters
    ----------
    name : str
        Parameter, in messages.
    value : float, timedelta, timedelta64 or str
        A number is in the units of `times`. All else is a duration as `pandas.Timedelta` reads it,
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


def _told(length: float, time_unit: str | None) -> str:
    return f"{length:g}" if time_unit is None else f"{length:g} {time_unit}"


def read_memory(name: str, value: Any, time_unit: str | None, longest: float) -> float:
    """Length of a memory as `read_duration` reads it; a ValueError if no series could fill it.

    `longest` is the length of the longest series, in the units of `times`.
    """
    length = read_duration(name, value, time_unit)
    if not longest / _FURTHEST_MEMORY <= length <= longest * _FURTHEST_MEMORY:
        raise ParameterError(
            f"{name}={value!r} is {length / longest:.0e} times as long as the longest series, of "
            f"length {_told(longest, time_unit)}: choose a more similar length, or 'auto'."
        )
    return length


def choose_window(window: Any, rows: Observed) -> float:
    """Length of the past that is remembered: by default that of the longest series.

    Parameters
    ----------
    window : float, duration or "auto"
        As `read_duration` reads it.
    rows : Observed
        Of the series of training.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.select import observed_rows
    >>> from skpolyode.panel.durations import choose_window
    >>> rows = observed_rows(Panel.from_series([([0.0, 6.0], [1.0, 2.0]), ([0.0], [1.0])]))
    >>> choose_window("auto", rows), choose_window(3, rows)
    (6.0, 3.0)
    """
    longest = float((rows.end - rows.start).max()) or 1.0
    if isinstance(window, str) and window == "auto":
        return longest
    return read_memory("window", window, rows.time_unit, longest)


def choose_context(context: Any, window: float, rows: Observed, n_coefficients: int) -> float:
    """Length of the past that the dynamics see: by default what coefficients resolve finely.

    That is two coefficients an observation. Measured on Lorenz63 (32 coefficients, gap 0.3):
    held-out reconstruction error 0.008 at a length of 5, 0.08 at 9. A window that is not much
    longer is taken itself, so that one memory serves both.

    Parameters
    ----------
    context : float, duration or "auto"
        As `read_duration` reads it.
    window : float
        Length of the past that is remembered.
    rows : Observed
        Of the series of training.
    n_coefficients : int
        Of a channel, in the memory that the dynamics see.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.select import observed_rows
    >>> from skpolyode.panel.durations import choose_context
    >>> rows = observed_rows(Panel.from_series([(range(31), range(31))]))
    >>> choose_context("auto", 30.0, rows, n_coefficients=8)
    4.0
    """
    if not (isinstance(context, str) and context == "auto"):
        longest = float((rows.end - rows.start).max()) or 1.0
        return read_memory("context", context, rows.time_unit, longest)
    fine = max(n_coefficients, 2) / 2 * typical_gap(rows)
    return window if window <= _ONE_MEMORY * fine else fine


def covered(rows: Observed, window: float) -> tuple[float, float]:
    """Share of the typical (median) series that a window covers, and its number of rows.

    Parameters
    ----------
    rows : Observed
        Of the series of training.
    window : float
        Length of the past that is remembered.

    Warns
    -----
    UserWarning
        If the share is small: the user may not know what is left out.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.select import observed_rows
    >>> from skpolyode.panel.durations import covered
    >>> covered(observed_rows(Panel.from_series([(range(31), range(31))])), window=15.0)
    (0.5, 15.5)
    """
    typical = float(np.median(rows.end - rows.start))
    share = min(1.0, window / typical) if typical > 0 else 1.0
    if share < _TOO_LITTLE:
        warnings.warn(
            f"window={_told(window, rows.time_unit)} covers {share:.0%} of the typical series, of "
            f"length {_told(typical, rows.time_unit)}: it does not embed older observations. "
            "Choose window='auto' to remember whole series.",
            UserWarning,
            stacklevel=5,
        )
    return share, share * float(np.median(np.diff(rows.offsets)))


def auto_step_size(rows: Observed, context: float, n_coefficients: int) -> float:
    """Two thirds of the typical gap, but no more than 1.25 contexts over the coefficients.

    The second keeps paths as fine as the memory can resolve where gaps are long. Measured on
    Synthetic (gap 1.2): held-out error 0.04 with steps of 0.16, 0.42 with steps of 0.8.

    Parameters
    ----------
    rows : Observed
        Of the series of training.
    context : float
        Length of the past that the dynamics see.
    n_coefficients : int
        Of a channel, in the memory that the dynamics see.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.select import observed_rows
    >>> from skpolyode.panel.durations import auto_step_size
    >>> rows = observed_rows(Panel.from_series([(range(31), range(31))]))
    >>> auto_step_size(rows, context=8.0, n_coefficients=20)
    0.5
    """
    return min(2 / 3 * typical_gap(rows), 1.25 * context / n_coefficients)


def choose_step_size(step_size: Any, auto: float, rows: Observed) -> float:
    """Longest integration step, in the units of `times`; `auto` is that by default.

    Parameters
    ----------
    step_size : float, duration or "auto"
        As `read_duration` reads it.
    auto : float
        Of `auto_step_size`.
    rows : Observed
        Of the series of training.

    Warns
    -----
    UserWarning
        If a typical gap takes very many steps, with the cost.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.select import observed_rows
    >>> from skpolyode.panel.durations import choose_step_size
    >>> rows = observed_rows(Panel.from_series([(range(31), range(31))]))
    >>> choose_step_size("auto", 0.5, rows), choose_step_size(0.25, 0.5, rows)
    (0.5, 0.25)
    """
    if isinstance(step_size, str) and step_size == "auto":
        return auto
    length, gap = read_duration("step_size", step_size, rows.time_unit), typical_gap(rows)
    if gap / length > _MANY_STEPS:
        warnings.warn(
            f"step_size={step_size!r} makes {gap / length:.0f} integration steps in a typical gap "
            f"of {gap:g}: fit and transform take about {auto / length:.0f} times as long as with "
            f"step_size='auto', which is {auto:.2g}.",
            UserWarning,
            stacklevel=6,
        )
    return length
