"""Cells and rows that were observed, hidden, and filled in again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.real.part import Part, Scores
from benchmarks.real.sets import SETS, dealt
from benchmarks.units import Units
from skpolyode import InterpolationTransformer, Panel, PanelImputer, PolyODETransformer
from skpolyode.datasets import drop_cells

OWN = "PanelImputer(), PolyODE"
EMBEDDERS: dict[str, Any] = {
    OWN: PolyODETransformer(random_state=0),
    "last carried": InterpolationTransformer(kind="constant"),
    "linear": InterpolationTransformer(kind="linear"),
    "PCHIP": InterpolationTransformer(kind="pchip"),
    "natural cubic": InterpolationTransformer(kind="cubic"),
}


class Hiding(NamedTuple):
    name: str  # of the set
    share: float
    whole_rows: bool


class Fold(NamedTuple):
    train: Panel  # with cells hidden, too
    test: Panel
    truth: np.ndarray  # (n_obs, D): what was hidden of the test part, else NaN


HIDDEN = {
    "eicu, 30 % of cells": Hiding("eicu", 0.3, False),
    "storms, 70 % of rows": Hiding("storms", 0.7, True),
}


def hide(panel: Panel, share: float, whole_rows: bool) -> tuple[Panel, np.ndarray]:
    """Panel with the same rows, of which cells or all cells of rows are hidden, and what was.

    The first and the last row of a series stay: what is asked for are gaps, not forecasts.
    """
    values = np.zeros((panel.n_observations, 1)) if whole_rows else panel.values
    cells = Panel(panel.times, values, panel.offsets)
    gone = ~np.isnan(drop_cells(cells, share, random_state=0)[1].values)
    gone[panel.offsets[:-1]] = gone[panel.offsets[1:] - 1] = False
    known, truth = (np.where(gone == own, np.nan, panel.values) for own in (True, False))
    return panel.like(panel.times, known, panel.offsets), truth


def folds(hiding: Hiding, folder: Path, n_folds: int) -> Iterator[Fold]:
    panel, truth = hide(SETS[hiding.name].load(folder), hiding.share, hiding.whole_rows)
    values = panel.like(panel.times, truth, panel.offsets)
    pairs = zip(dealt(panel, n_folds), dealt(values, n_folds), strict=True)
    for (train, test, _), (_, hidden, _) in pairs:
        yield Fold(train, test, hidden.values)


def measure(_: str, fold: Fold, rows: list[str]) -> dict[str, Scores]:
    """Squared errors of hidden cells, in variances of the training part."""
    scores, scale = {}, Units.of(fold.train).scale
    for row in rows:
        start = time.process_time()
        filled = PanelImputer(EMBEDDERS[row]).fit(fold.train).transform(fold.test).values
        error = float(np.nanmean(((filled - fold.truth) / scale) ** 2))
        scores[row] = {"hidden cells": error, "CPU s": time.process_time() - start}
    return scores


def reader(hiding: Hiding) -> Any:
    return lambda folder, n_folds: folds(hiding, folder, n_folds)


PART = Part(
    {name: reader(hiding) for name, hiding in HIDDEN.items()},
    lambda _: list(EMBEDDERS),
    [OWN],
    measure,
)
