"""Values that are too far from all others to be measurements."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

import numpy as np

from skpolyode.errors import FaultKind, Faults
from skpolyode.panel.checks import note_cells
from skpolyode.panel.panel import Panel
from skpolyode.panel.rows import Rows
from skpolyode.panel.select import hide_cells
from skpolyode.saving.codec import saved

# In half widths of the central 90 % of a channel. A cell further than _DOUBTFUL from the median is
# doubtful, if it is also _JUMP times as far as all nearer ones. In sets of 300 log-normal values of
# sigma 1 this happens in 1 %.
_DOUBTFUL, _JUMP = 10.0, 5.0
_FAULTY = 30.0  # times the distance from which cells are doubtful
_VAGUE = 1e3  # a cell with a larger error has no information
OUTLIER = FaultKind(
    "values far from all others",
    "such values are taken as not observed; correct them, or fit on more series that have them",
)
DOUBTFUL = FaultKind(
    "values that may be faults",
    "such values are used as they are; correct them, or make them NaN if they are no measurements",
)
_NOTHING_LEFT = FaultKind(
    "series far from all that fit has seen",
    "give them in the units of fit, fit on series like them, or leave them out",
)


class Judged(NamedTuple):
    """Masks (P, D) of cells without information, of faulty and of doubtful ones."""

    vague: np.ndarray
    faulty: np.ndarray
    doubtful: np.ndarray

    @property
    def hidden(self) -> np.ndarray:
        """Mask (P, D) of cells that are taken as not observed."""
        return self.vague | self.faulty


@saved(lowest="D inf", highest="D inf", vaguest="D unsigned inf", floor="D inf", ceiling="D inf")
class CellLimits(NamedTuple):
    """Limits of the cells of each channel, beyond which they are taken as not observed.

    They are learned once, from all series of `fit`, and kept with the model: later methods and
    streams accept all cells that `fit` accepted. At most one value in a thousand, but at least one,
    may be an outlier; if more are as far out, the channel has heavy tails.

    Parameters
    ----------
    lowest, highest : float64 ndarray of shape (D,)
        Least and largest credible value; infinite if the central 90 % of the channel are equal.
    vaguest : float64 ndarray of shape (D,)
        Largest useful known error; infinite if the central 90 % of the channel are equal.
    floor, ceiling : float64 ndarray of shape (D,)
        Bounds of intervals and samples of new values: those of `Panel.with_limits`, or else 0 for a
        channel that was never below 0, or never above it, in at least as many values as the median
        series has rows; otherwise infinite.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.outliers import CellLimits
    >>> limits = CellLimits.of(Panel.from_array([[0.0, 1.0, 2.0, 3.0]] * 5))
    >>> limits.highest.tolist()
    [451.5]
    >>> limits.floor.tolist()
    [0.0]
    """

    lowest: np.ndarray
    highest: np.ndarray
    vaguest: np.ndarray
    floor: np.ndarray
    ceiling: np.ndarray

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # values near the largest float
    def of(cls, panel: Panel, *, of_values: bool = True) -> Self:
        """Limits from the cells of a panel; `lowest` and `highest` only if `of_values`."""
        values = panel.values
        half = _middle(values)[1]
        vaguest = np.where(half > 0, _VAGUE * half, np.inf)
        if panel.errors is not None:
            values = np.where(panel.errors > vaguest, np.nan, values)
        middle, half = _middle(values)
        reach = np.full(len(half), np.inf)
        for j in np.flatnonzero((half > 0) & of_values):
            away = np.abs(values[~np.isnan(values[:, j]), j] - middle[j])
            nearest, doubtful = -1 - max(1, len(away) // 1000), _DOUBTFUL * half[j]
            far = np.sort(np.partition(away, nearest)[nearest:])
            jumps = far[1:] > np.maximum(_JUMP * far[:-1], doubtful)
            credible = far[jumps.argmax()] if jumps.any() else far[-1]
            reach[j] = _FAULTY * max(_JUMP * credible, doubtful)
        low, high = (np.where(np.isfinite(reach), middle + s * reach, s * np.inf) for s in (-1, 1))
        values = np.where((values < low) | (values > high), np.nan, values)
        least = np.median(panel.lengths)
        is_known = ((~np.isnan(values)).sum(axis=0) >= least) & (np.nan_to_num(values) != 0).any(
            axis=0
        )
        ends = [
            np.where(is_known & ~(s * values > 0).any(axis=0), 0.0, s * np.inf) for s in (-1, 1)
        ]
        for j, name in enumerate(panel.channel_names):
            if name in panel.rows.limits:
                ends[0][j], ends[1][j] = panel.rows.limits[name]
        return cls(low, high, vaguest, *ends)

    def kept_by(self, panel: Panel) -> tuple[np.ndarray, np.ndarray]:
        """Floor and ceiling (n, D) of each series; infinite if its values are beyond them."""
        floor, ceiling, filled = self.floor, self.ceiling, panel.lengths > 0
        least, most = np.full((2, panel.n_series, panel.n_channels), np.nan)
        for found, f in ((least, np.fmin), (most, np.fmax)):
            found[filled] = f.reduceat(panel.values, panel.offsets[:-1][filled])
        return np.where(least < floor, -np.inf, floor), np.where(most > ceiling, np.inf, ceiling)

    @np.errstate(over="ignore", invalid="ignore")
    def judge(self, values: np.ndarray, errors: np.ndarray | None) -> Judged:
        """Masks of the cells of values (P, D) with NaN, and of their known errors, if any.

        A cell is not doubtful if its known error explains its distance.
        """
        reach = self.highest / 2 - self.lowest / 2
        away = np.abs(values - np.where(np.isfinite(reach), self.lowest + reach, 0.0))
        faulty = (away > reach) & np.isfinite(values)
        doubtful, vague = (away > reach / _FAULTY) & (away <= reach), np.zeros(values.shape, bool)
        if errors is not None:
            vague = errors > self.vaguest
            doubtful &= ~(away <= _JUMP * errors)
        return Judged(vague, faulty & ~vague, doubtful & ~vague)


def _middle(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Median and half the width of the central nine tenths of the columns of values (P, D)."""
    with warnings.catch_warnings():  # channels without any value
        warnings.simplefilter("ignore", RuntimeWarning)
        low, middle, high = np.nanquantile(values, [0.05, 0.5, 0.95], axis=0)
    return middle, high / 2 - low / 2


@contextmanager
def quiet_about_doubts() -> Iterator[None]:
    """Silence warnings of doubtful cells, which the caller issues."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", f"(?s).*{re.escape(DOUBTFUL.remedy)}")
        yield


def within_limits(panel: Panel, limits: CellLimits | None, name: str = "X") -> Panel:
    """Take cells beyond limits as not observed, with a warning that names them.

    Doubtful cells stay, with a warning. Each cell is judged by itself, so that a stream, which sees
    one at a time, gives the same result. A series without any cell left raises a ValueError: its
    unit probably differs.
    """
    if limits is None:
        return panel
    judged = limits.judge(panel.values, panel.errors)
    why = "all errors are a thousand times as large as values vary"
    panel = _with_rest(panel, judged.vague, name, why)
    found = _with_rest(panel, judged.faulty, name, "all values are far from those of fit")
    faults = Faults(name, panel.ids, panel.channel_names)
    note_judged(judged, panel.rows, faults)
    faults.warn_if_any(stacklevel=5)
    return found


def note_judged(judged: Judged, rows: Rows, faults: Faults) -> None:
    """Add faulty and doubtful cells."""
    note_cells(OUTLIER, judged.faulty, "{:g} is far from all others", rows, faults)
    rule = "{:g} may be a fault: it is far from others"
    note_cells(DOUBTFUL, judged.doubtful, rule, rows, faults)


def _with_rest(panel: Panel, hidden: np.ndarray, name: str, why: str) -> Panel:
    """Panel without hidden cells; a ValueError for a series without any cell left."""
    if not hidden.any():
        return panel
    found = hide_cells(panel, hidden)
    lost = np.flatnonzero((panel.rows.n_observed > 0) & (found.rows.n_observed == 0))
    if len(lost) and not panel.rows.keeps_empty:
        faults = Faults(name, panel.ids, panel.channel_names)
        faults.add_each(_NOTHING_LEFT, lost, lambda i: f"{faults.series(i)}: {why}")
        faults.raise_if_any()
    return found
