"""Resolution of PolyODE: the past that its dynamics see, and the integration step.

Lengths are in the units of `times`.
"""

from __future__ import annotations

import warnings
from typing import Any

from skpolyode.panel import Panel
from skpolyode.panel.durations import read_duration, read_memory, typical_gap

# Coefficients that the dynamics see set the field's size: most per channel, most in all, least per
# channel, most in all even so. With 128 in all but at least 8 per channel, in place of 512, squared
# errors 1, 2, 4 and 8 rows ahead are 0.98, 0.98, 0.96 and 0.98 times as large on 14 turbofan
# sensors, 0.98, 0.96, 0.94 and 0.78 times on pbcseq (12 channels), 0.99, 0.99, 0.99 and 1.01 times
# on eICU wards (10) and 0.129 instead of 0.145 on KAR02 (13), in 0.7 to 0.9 of the time for a fit.
_CONTEXT_SIZE, _CONTEXT_OF_ALL, _CONTEXT_LEAST, _WIDEST = 32, 128, 8, 512
_ONE_MEMORY = 1.25  # a window of up to this many contexts needs no second memory
# In a typical gap. An epoch of 12 series of 8 rows takes 0.4 s with 15 steps, 29 s with 1000.
_MANY_STEPS = 50


def context_size(n_coefficients: int, n_channels: int) -> int:
    """Coefficients of each channel that the dynamics see.

    Parameters
    ----------
    n_coefficients : int
        Coefficients per channel in the memory of the window.
    n_channels : int

    Examples
    --------
    >>> from skpolyode.transformers.resolution import context_size
    >>> [context_size(64, n_channels) for n_channels in (1, 8, 100)]
    [32, 16, 5]
    """
    share = max(_CONTEXT_OF_ALL // n_channels, _CONTEXT_LEAST)
    return max(1, min(n_coefficients, _CONTEXT_SIZE, share, _WIDEST // n_channels))


def choose_context(context: Any, window: float, panel: Panel, n_coefficients: int) -> float:
    """Length of the past that the dynamics see: by default two coefficients per observation.

    On Lorenz63 (32 coefficients, gap 0.3) the held-out reconstruction error was 0.008 with a length
    of 5, and 0.08 with 9. If the window is not much longer, it is taken instead, so that one memory
    serves both.

    Parameters
    ----------
    context : float, duration or "auto"
        As `read_duration` reads it.
    window : float
        Length of the past that is remembered.
    panel : Panel
        Training series without empty rows.
    n_coefficients : int
        Coefficients per channel in the memory that the dynamics see.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.transformers.resolution import choose_context
    >>> panel = Panel.from_series([(range(31), range(31))])
    >>> choose_context("auto", 30.0, panel, n_coefficients=8)
    4.0
    """
    if not (isinstance(context, str) and context == "auto"):
        longest = float((panel.end - panel.start).max()) or 1.0
        return read_memory("context", context, panel.time_unit, longest)
    fine = max(n_coefficients, 2) / 2 * typical_gap(panel)
    return window if window <= _ONE_MEMORY * fine else fine


def auto_step_size(panel: Panel, context: float, n_coefficients: int) -> float:
    """Two thirds of the typical gap, at most 1.25 contexts divided by the coefficients.

    The bound keeps paths in long gaps as fine as the memory can resolve. On Synthetic (gap 1.2) the
    held-out error was 0.04 with steps of 0.16, and 0.42 with steps of 0.8.

    Parameters
    ----------
    panel : Panel
        Training series without empty rows.
    context : float
        Length of the past that the dynamics see.
    n_coefficients : int
        Coefficients per channel in the memory that the dynamics see.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.transformers.resolution import auto_step_size
    >>> panel = Panel.from_series([(range(31), range(31))])
    >>> auto_step_size(panel, context=8.0, n_coefficients=20)
    0.5
    """
    return min(2 / 3 * typical_gap(panel), 1.25 * context / n_coefficients)


def choose_step_size(step_size: Any, auto: float, panel: Panel) -> float:
    """Longest integration step, in the units of `times`.

    Parameters
    ----------
    step_size : float, duration or "auto"
        As `read_duration` reads it.
    auto : float
        Default, from `auto_step_size`.
    panel : Panel
        Training series without empty rows.

    Warns
    -----
    UserWarning
        If a typical gap takes more than 50 steps; the message states the cost.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.transformers.resolution import choose_step_size
    >>> panel = Panel.from_series([(range(31), range(31))])
    >>> choose_step_size("auto", 0.5, panel), choose_step_size(0.25, 0.5, panel)
    (0.5, 0.25)
    """
    if isinstance(step_size, str) and step_size == "auto":
        return auto
    length, gap = read_duration("step_size", step_size, panel.time_unit), typical_gap(panel)
    if gap / length > _MANY_STEPS:
        warnings.warn(
            f"step_size={step_size!r} makes {gap / length:.0f} integration steps in a typical gap "
            f"of {gap:g}: fit and transform take about {auto / length:.0f} times as long as with "
            f"step_size='auto', which is {auto:.2g}.",
            UserWarning,
            stacklevel=6,
        )
    return length
