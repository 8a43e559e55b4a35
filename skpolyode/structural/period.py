"""The parameter `period`: lengths of seasons, as users give them."""

from __future__ import annotations

from typing import Any

import numpy as np

from skpolyode.errors import ParameterError
from skpolyode.panel.durations import read_duration


def read_period(period: Any, time_unit: str | None) -> tuple[float, ...] | None:
    """Lengths of seasons in the units of `times`.

    Parameters
    ----------
    period : float, timedelta, str, sequence of such, "auto" or None
        As `read_duration` reads each. None: there is no season.
    time_unit : str or None
        `Panel.time_unit`.

    Returns
    -------
    tuple of float or None
        None for "auto": the series are searched for seasons.

    Raises
    ------
    ValueError
        If there is something else.

    Examples
    --------
    >>> from skpolyode.structural.period import read_period
    >>> read_period(["1D", 12], "h"), read_period("auto", None), read_period(None, None)
    ((24.0, 12.0), None, ())
    """
    if period is None:
        return ()
    if isinstance(period, str) and period == "auto":
        return None
    lengths = period if isinstance(period, list | tuple | np.ndarray) else [period]
    if not len(lengths):
        raise ParameterError(
            'period must be a positive length of time, some of them, None or "auto"; got none.'
        )
    return tuple(read_duration("period", length, time_unit) for length in lengths)
