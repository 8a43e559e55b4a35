"""Faulty cells: values so far from all others that they can hardly be measurements."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from skpolyode.errors import FaultKind, Faults
from skpolyode.panel.checks import note_cells
from skpolyode.panel.panel import Panel
from skpolyode.panel.select import hide_cells

VAGUE = 1e3
"""Standard deviations of a channel, of an error beyond which a cell tells nothing."""

# A cell is doubtful beyond so many half widths of the central nine tenths, if it is also so many
# times as far out as all nearer ones: log-normal noise of sigma 1 has one in 1 % of sets of 300.
_DOUBTFUL, _JUMP = 10.0, 5.0
_FAULTY = 30.0  # times the distance from which cells are doubtful
OUTLIER = FaultKind(
    "values far from all others",
    "such values are taken as not observed; correct them, or fit on more series that have them",
)
DOUBTFUL = FaultKind(
    "values that may be faults",
    "such values are used as they are; correct them, or make them NaN if they are no measurements",
)
JUDGED = {
    OUTLIER: "{:g} is far from all others",
    DOUBTFUL: "{:g} may be a fault: it is far from others",
}
"""What is said of the cells that :func:`judge_cells` marks, in its order."""
_NOTHING_LEFT = FaultKind(
    "series far from all that fit has seen",
    "give them in the units of fit, fit on series like them, or leave them out",
)


def cell_limits(values: np.ndarray) -> np.ndarray:
    """Least and largest value (2, D) that is credible, from values (P, D) with NaN.

    No limits for a channel that hardly varies. One value of a thousand, and at least one, may be
    out of line; as far as more of them are, the channel has heavy tails.
    """
    limits = np.tile([[-np.inf], [np.inf]], values.shape[1])
    for j, x in enumerate(values.T):
        x = x[~np.isnan(x)]
        if not len(x):
            continue
        with np.errstate(over="ignore", invalid="ignore"):  # of values near the largest float
            low, middle, high = np.quantile(x, [0.05, 0.5, 0.95])
            reach = _DOUBTFUL * (high / 2 - low / 2)
            if reach > 0:
                nearest = -1 - max(1, len(x) // 1000)
                far = np.sort(np.partition(np.abs(x - middle), nearest)[nearest:])
                jumps = far[1:] > np.maximum(_JUMP * far[:-1], reach)
                credible = far[jumps.argmax()] if jumps.any() else far[-1]
                reach = _FAULTY * max(_JUMP * credible, reach)
                limits[:, j] = middle - reach, middle + reach
    return limits


def judge_cells(
    values: np.ndarray, limits: np.ndarray, errors: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Mark the cells (P, D) that are faulty, and those that may be, by limits (2, D).

    One that its known error explains is not doubtful.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        reach = limits[1] / 2 - limits[0] / 2
        away = np.abs(values - (limits[0] + reach))
        faulty, doubtful = away > reach, (away > reach / _FAULTY) & (away <= reach)
        if errors is not None:
            doubtful &= ~(away <= _JUMP * errors)
    return faulty, doubtful


@contextmanager
def doubts_are_told() -> Iterator[None]:
    """Within, nothing warns of doubtful cells: the caller has."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", f"(?s).*{re.escape(DOUBTFUL.remedy)}")
        yield


def without_vague(panel: Panel, scale: np.ndarray | None = None, name: str = "X") -> Panel:
    """Take cells as not observed whose known errors are far larger than their channel varies.

    That is a standard deviation `scale` (D,), or half the width of the central nine tenths.
    """
    if panel.errors is None:
        return panel
    if scale is None:
        with warnings.catch_warnings():  # of channels without any value
            warnings.simplefilter("ignore", RuntimeWarning)
            ends = np.nanquantile(panel.values, [0.05, 0.95], axis=0)
        scale = ends[1] / 2 - ends[0] / 2
    hidden = panel.errors > VAGUE * np.where(scale > 0, scale, np.inf)
    return _with_rest(
        panel, hidden, name, "all errors are a thousand times as large as values vary"
    )


def without_outliers(panel: Panel, limits: np.ndarray, name: str = "X") -> Panel:
    """Take cells outside limits (2, D) as not observed, with a warning that names them.

    Doubtful ones are warned of, and stay. Each cell is judged by itself, so that a stream, which
    sees one at a time, does the same. A series of which nothing is left is refused: its unit
    differs.
    """
    judged = judge_cells(panel.values, limits, panel.errors)
    faults = Faults(name, panel.ids, panel.channel_names)
    for (kind, rule), wrong in zip(JUDGED.items(), judged, strict=True):
        note_cells(kind, wrong, rule, panel.rows, faults)
    found = _with_rest(panel, judged[0], name, "all values are far from those of fit")
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
