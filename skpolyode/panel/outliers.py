"""Faulty cells: values so far from all others that they can hardly be measurements."""

from __future__ import annotations

import warnings
from typing import NamedTuple, Self

import numpy as np

from skpolyode.errors import FaultKind, Faults
from skpolyode.panel.checks import note_cells
from skpolyode.panel.panel import Panel
from skpolyode.panel.select import hide_cells
from skpolyode.saving.codec import saved

# Both in half widths of the central nine tenths of a channel.
_VAGUE = 1e3  # an error beyond which a cell tells nothing
_REACH = 300.0  # log-normal noise of sigma 2 stays inside
OUTLIER = FaultKind(
    "values far from all others",
    "such values are taken as not observed; correct them, or fit on more series that have them",
)
_NOTHING_LEFT = FaultKind(
    "series far from all that fit has seen",
    "give them in the units of fit, fit on series like them, or leave them out",
)


@saved
class CellLimits(NamedTuple):
    """What a cell of each channel may be; beyond, it is taken as not observed.

    They are learned once, from all series that `fit` is given, and kept with the model: whatever
    `fit` took is taken later, and by a stream.

    Parameters
    ----------
    lowest, highest : float64 ndarray of shape (D,)
        Least and largest value that is credible; infinite of a channel that hardly varies, or in
        which one value of a thousand, and more than one, would lie outside: it has heavy tails.
    vaguest : float64 ndarray of shape (D,)
        Largest known error that tells anything; infinite of a channel that hardly varies.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.outliers import CellLimits
    >>> limits = CellLimits.of(Panel.from_array([[0.0, 1.0, 2.0, 1e6]] * 5))
    >>> limits.highest.tolist()
    [inf]
    """

    lowest: np.ndarray
    highest: np.ndarray
    vaguest: np.ndarray

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # of values near the largest float
    def of(cls, panel: Panel, *, of_values: bool = True) -> Self:
        """Limits of the cells of a panel; without `of_values` only those of errors."""
        values = panel.values
        half = _middle(values)[1]
        vaguest = np.where(half > 0, _VAGUE * half, np.inf)
        if panel.errors is not None:
            values = np.where(panel.errors > vaguest, np.nan, values)
        middle, half = _middle(values)
        reach = _REACH * half
        n_outside = np.sum(np.abs(values - middle) > reach, axis=0)
        n_most = np.maximum(1, np.sum(~np.isnan(values), axis=0) // 1000)
        is_limited = (reach > 0) & (n_outside <= n_most) & of_values
        ends = (np.where(is_limited, middle + side * reach, side * np.inf) for side in (-1, 1))
        return cls(*ends, vaguest)

    def hidden(self, values: np.ndarray, errors: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """Masks (P, D) of cells whose known errors, and of those whose values are beyond."""
        vague = np.zeros(values.shape, bool) if errors is None else errors > self.vaguest
        outside = (values < self.lowest) | (values > self.highest)
        return vague, outside & ~vague & np.isfinite(values)


def _middle(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median and half the width of the central nine tenths of the columns of values (P, D)."""
    with warnings.catch_warnings():  # of channels without any value
        warnings.simplefilter("ignore", RuntimeWarning)
        low, middle, high = np.nanquantile(values, [0.05, 0.5, 0.95], axis=0)
    return middle, high / 2 - low / 2


def within_limits(panel: Panel, limits: CellLimits | None, name: str = "X") -> Panel:
    """Take cells beyond limits as not observed; a warning names those with such values.

    Each cell is judged by itself, so that a stream, which sees one at a time, does the same. A
    series of which nothing is left is refused: its unit differs.
    """
    if limits is None:
        return panel
    vague, outside = limits.hidden(panel.values, panel.errors)
    why = "all errors are a thousand times as large as values vary"
    panel = _with_rest(panel, vague, name, why)
    found = _with_rest(panel, outside, name, "all values are far from those of fit")
    faults = Faults(name, panel.ids, panel.channel_names)
    note_cells(OUTLIER, outside, "{:g} is far from all others", panel.rows, faults)
    faults.warn_if_any(stacklevel=5)
    return found


def _with_rest(panel: Panel, hidden: np.ndarray, name: str, why: str) -> Panel:
    """What is left without some cells; a ValueError for a series of which nothing is."""
    if not hidden.any():
        return panel
    found = hide_cells(panel, hidden)
    lost = np.flatnonzero((panel.rows.n_observed > 0) & (found.rows.n_observed == 0))
    if len(lost) and not panel.rows.keeps_empty:
        faults = Faults(name, panel.ids, panel.channel_names)
        faults.add_each(_NOTHING_LEFT, lost, lambda i: f"{faults.series(i)}: {why}")
        faults.raise_if_any()
    return found
