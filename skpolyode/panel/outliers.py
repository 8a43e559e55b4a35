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

# All in half widths of the central nine tenths of a channel. A cell is doubtful so far out, if it
# is also so many times as far out as all nearer ones: log-normal noise of sigma 1 has one in 1 % of
# sets of 300.
_DOUBTFUL, _JUMP = 10.0, 5.0
_FAULTY = 30.0  # times the distance from which cells are doubtful
_VAGUE = 1e3  # an error beyond which a cell tells nothing
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
    """Masks (P, D) of cells that tell nothing, that are no measurements, and that may be none."""

    vague: np.ndarray
    faulty: np.ndarray
    doubtful: np.ndarray

    @property
    def hidden(self) -> np.ndarray:
        """Cells that are taken as not observed."""
        return self.vague | self.faulty


@saved(lowest="D inf", highest="D inf", vaguest="D unsigned inf", floor="D inf", ceiling="D inf")
class CellLimits(NamedTuple):
    """What a cell of each channel may be; beyond, it is taken as not observed.

    They are learned once, from all series that `fit` is given, and kept with the model: whatever
    `fit` took is taken later, and by a stream. One value of a thousand, and at least one, may be
    out of line; as far as more of them are, the channel has heavy tails.

    Parameters
    ----------
    lowest, highest : float64 ndarray of shape (D,)
        Least and largest value that is credible; infinite of a channel that hardly varies.
    vaguest : float64 ndarray of shape (D,)
        Largest known error that tells anything; infinite of a channel that hardly varies.
    floor, ceiling : float64 ndarray of shape (D,)
        Where intervals and samples of new values end: as `Panel.with_limits` has it, or else 0 of a
        channel that was never below it, or never above it, in as many values as a usual series has
        rows; infinite of others.

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
    @np.errstate(over="ignore", invalid="ignore")  # of values near the largest float
    def of(cls, panel: Panel, *, of_values: bool = True) -> Self:
        """Limits of the cells of a panel; without `of_values` only those of errors."""
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
        """Floor and ceiling of each series (n, D); infinite where it has left those of fit."""
        floor, ceiling, filled = self.floor, self.ceiling, panel.lengths > 0
        least, most = np.full((2, panel.n_series, panel.n_channels), np.nan)
        for found, f in ((least, np.fmin), (most, np.fmax)):
            found[filled] = f.reduceat(panel.values, panel.offsets[:-1][filled])
        return np.where(least < floor, -np.inf, floor), np.where(most > ceiling, np.inf, ceiling)

    @np.errstate(over="ignore", invalid="ignore")
    def judge(self, values: np.ndarray, errors: np.ndarray | None) -> Judged:
        """Mark cells of values (P, D), with NaN, whose errors may be known.

        One that its known error explains is not doubtful.
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
    with warnings.catch_warnings():  # of channels without any value
        warnings.simplefilter("ignore", RuntimeWarning)
        low, middle, high = np.nanquantile(values, [0.05, 0.5, 0.95], axis=0)
    return middle, high / 2 - low / 2


@contextmanager
def doubts_are_told() -> Iterator[None]:
    """Within, nothing warns of doubtful cells: the caller has."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", f"(?s).*{re.escape(DOUBTFUL.remedy)}")
        yield


def within_limits(panel: Panel, limits: CellLimits | None, name: str = "X") -> Panel:
    """Take cells beyond limits as not observed; a warning names those with such values.

    Doubtful ones are warned of, and stay. Each cell is judged by itself, so that a stream, which
    sees one at a time, does the same. A series of which nothing is left is refused: its unit
    differs.
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
    """Add the cells that are no measurements, or may be none."""
    note_cells(OUTLIER, judged.faulty, "{:g} is far from all others", rows, faults)
    rule = "{:g} may be a fault: it is far from others"
    note_cells(DOUBTFUL, judged.doubtful, rule, rows, faults)


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
