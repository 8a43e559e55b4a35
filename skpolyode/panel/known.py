"""Answers about the series that hold an observation, and NaN about the others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skpolyode.panel.panel import Panel
from skpolyode.panel.rows import offsets_from
from skpolyode.panel.select import observed_series

__all__ = ["known_part", "known_rows", "known_values"]


def known_part(panel: Panel, name: str = "X") -> Panel:
    """The series that hold an observation: what can be learned from."""
    known = observed_series(panel)
    if known.all():
        return panel
    if not known.any():
        raise ValueError(f"{name} has no observation in any series: there is nothing to learn.")
    return panel[known]


def known_rows(
    panel: Panel, compute: Callable[[Panel], np.ndarray], width: Callable[[], int]
) -> np.ndarray:
    """Rows (n_series, width) that `compute` makes of known series, NaN in those of the others."""
    known = observed_series(panel)
    if known.all():
        return compute(panel)
    rows = np.full((panel.n_series, width()), np.nan)
    if known.any():
        rows[known] = compute(panel[known])
    return rows


def known_values(
    panel: Panel,
    times: np.ndarray,
    offsets: np.ndarray,
    compute: Callable[[Panel, np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Values (Q, D) that `compute` finds at times (Q,) of known series, NaN at those of the others.

    `offsets` (n_series + 1,) are where the times of each series start.
    """
    known = observed_series(panel)
    if known.all():
        return compute(panel, times, offsets)
    counts = np.diff(offsets)
    asked = np.repeat(known, counts)
    values = np.full((len(times), panel.n_channels), np.nan)
    if known.any():
        values[asked] = compute(panel[known], times[asked], offsets_from(counts[known]))
    return values
