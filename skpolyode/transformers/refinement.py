"""Corrections of a path in gaps, from neighbouring observations and other channels of a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold, cross_val_predict

from skpolyode.panel import Panel
from skpolyode.panel.select import ENOUGH_ROWS, hide_cells, series_chunks, series_of_rows
from skpolyode.saving.codec import saved

_FAR = 1e6  # distance of a missing neighbour, in typical gaps
_N_SAME = 9  # features from the same channel
_MOST_CELLS = 2_000_000  # corrected at once
_STRENGTHS = np.logspace(-4, 4, 9)  # penalties of the ridge regression


class HiddenCells(NamedTuple):
    """Settings: the cells to train the regressions on, and their features.

    The regressions multiply errors in hidden cells of wards, storms and a physiological model by
    0.74, 0.59 and 0.99, and of three folds of patients with liver disease by 1.03, 0.98 and 0.93.

    Parameters
    ----------
    n_parts : int, default=5
        Number of random parts of the observed cells. The cells of a part are hidden together.
    n_hidden : int, default=3
        Parts that are hidden, one after the other: each costs a path through all series.
    most_rows, most_cells : int, default=20_000 and 1_000_000
        Most rows and cells of the series that are drawn.
    fewest : int, default=50
        A channel with fewer hidden cells is not corrected.
    better : float, default=0.98
        A channel is only corrected if the ratio of the cross-validated squared error to that of the
        path is at most this.
    most_others : int, default=30
        Most features of other channels in a regression; those most correlated with the target.
    """

    n_parts: int = 5
    n_hidden: int = 3
    most_rows: int = ENOUGH_ROWS
    most_cells: int = 1_000_000
    fewest: int = 50
    better: float = 0.98
    most_others: int = 30


SETTINGS = HiddenCells()


@saved(scale="D positive", gap="positive", coefficients="D F")
class Refinement(NamedTuple):
    """Ridge regressions of the errors of a path, one for each channel."""

    scale: np.ndarray  # (D,), standard deviations of values
    gap: float  # typical gap, in the units of the times
    coefficients: np.ndarray  # (D, F); 0 for channels that are not corrected

    def correction(self, panel: Panel, path: np.ndarray) -> np.ndarray:
        """Corrections (n, D), to add to the path (n, D) at the rows of a panel."""
        result = np.zeros(path.shape)
        n_rows = max(_MOST_CELLS // path.shape[1], 1)  # bounds memory
        for part in series_chunks(panel.lengths, n_rows):
            rows = slice(panel.offsets[part.start], panel.offsets[part.stop])
            features = _Features(panel[part], path[rows], self.scale, self.gap)
            for j in np.flatnonzero(self.coefficients.any(axis=1)):
                result[rows, j] = features.of(j) @ self.coefficients[j]
        return result * self.scale


def learn_refinement(panel: Panel, path: Callable[[Panel], np.ndarray]) -> Refinement:
    """Hide observed cells of a sample of series, and regress the errors of the path there.

    `path` returns values (n, D) of the path through the observations of a panel, at its rows. The
    random seed is fixed.
    """
    rng = np.random.default_rng(0)
    drawn = rng.permutation(panel.n_series)
    most_rows = min(SETTINGS.most_rows, SETTINGS.most_cells // panel.n_channels)
    drawn = drawn[np.cumsum(panel.lengths[drawn]) <= most_rows]
    panel = panel[np.sort(drawn)] if len(drawn) else panel[:1]
    scale = np.nanstd(panel.values, axis=0)
    scale = np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)
    inner = np.delete(np.diff(panel.times), panel.offsets[1:-1] - 1)
    gap = float(np.median(inner)) if len(inner) else 1.0
    part = rng.integers(SETTINGS.n_parts, size=panel.values.shape)
    part[panel.offsets[:-1]] = part[panel.offsets[1:] - 1] = -1  # never hidden: only gaps matter
    known, series, parts = ~np.isnan(panel.values), series_of_rows(panel), []
    for k in range(SETTINGS.n_hidden):
        hidden = known & (part == k)
        holed = hide_cells(panel, hidden)
        features = _Features(holed, path(holed), scale, gap)
        parts.append((features, (panel.values - features.path) / scale, hidden))
    weights = []
    for j in range(panel.n_channels):
        cells = [(features, off[:, j], hidden[:, j]) for features, off, hidden in parts]
        columns = [(features.of(j)[at], off[at], series[at]) for features, off, at in cells]
        design, target, groups = map(np.concatenate, zip(*columns, strict=True))
        weights.append(_weights(design, target, groups))
    return Refinement(scale, gap, np.stack(weights))


def _weights(design: np.ndarray, target: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Weights (F,) of a channel; all are 0 if the regression is no better than the path."""
    nothing = np.zeros(design.shape[1])
    n_groups = len(np.unique(groups))
    if len(target) < SETTINGS.fewest or n_groups < SETTINGS.n_parts:
        return nothing
    relevance = np.abs(target @ design[:, _N_SAME:])
    read = np.r_[:_N_SAME, _N_SAME + np.argsort(-relevance, kind="stable")[: SETTINGS.most_others]]
    design, ridge = design[:, read], RidgeCV(_STRENGTHS, fit_intercept=False)
    folds = GroupKFold(SETTINGS.n_parts)
    found = cross_val_predict(ridge, design, target, groups=groups, cv=folds)
    if np.mean((target - found) ** 2) <= SETTINGS.better * np.mean(target**2):
        nothing[read] = ridge.fit(design, target).coef_
    return nothing


class _Features:
    """Features of each cell, without its own value, in standard deviations of the channel."""

    def __init__(self, panel: Panel, path: np.ndarray, scale: np.ndarray, gap: float) -> None:
        self.panel, self.path, self.scale, self.gap = panel, path, scale, gap
        self.series = series_of_rows(panel)
        # Deviations of observed cells from their line, and from the mean of the channel's others.
        self.lines, self.off = np.empty(path.shape), np.empty((2, *path.shape))
        for j, column in enumerate(panel.values.T):
            *around, mean = self._around(j)
            line = self._line(*around, mean)
            self.lines[:, j] = np.where(np.isnan(line), path[:, j], line)
            self.off[:, :, j] = np.stack([column - self.lines[:, j], column - mean]) / scale[j]
        self.off = np.nan_to_num(self.off)

    def of(self, j: int) -> np.ndarray:
        """Features (n, _N_SAME + 2 (D - 1)): neighbours, mean and line, then the other channels."""
        values, distances, mean = self._around(j)
        at = self.path[:, j]
        near = 1 / (1 + distances[:, [0, 2]] / self.gap)
        near = np.column_stack([near, near.prod(axis=1), np.ones(len(at))])
        same = [values - at[:, None], (mean - at)[:, None] * near, self.lines[:, j] - at]
        others = np.hstack([*np.delete(self.off, j, axis=2)])
        return np.hstack([np.nan_to_num(np.column_stack(same) / self.scale[j]), others])

    def _around(self, j: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Two observations before and two after (n, 4), their distances, the mean of the others."""
        column, series = self.panel.values[:, j], self.series
        seen = ~np.isnan(column)
        rows = np.flatnonzero(seen)
        if not len(rows):
            nothing = np.full((len(column), 4), np.nan)
            return nothing, np.full((len(column), 4), _FAR * self.gap), nothing[:, 0]
        before = np.searchsorted(rows, np.arange(len(column)))
        places = np.stack([before - 1, before - 2, before + seen, before + seen + 1], axis=1)
        near = rows[places.clip(0, len(rows) - 1)]
        there = (places >= 0) & (places < len(rows)) & (series[near] == series[:, None])
        distances = np.abs(self.panel.times[near] - self.panel.times[:, None])
        sums = np.bincount(series[rows], column[rows], self.panel.n_series)
        counts = np.bincount(series[rows], minlength=self.panel.n_series)[series] - seen
        with np.errstate(invalid="ignore"):  # a series that never observes the channel
            mean = (sums[series] - np.where(seen, column, 0.0)) / counts
        return (
            np.where(there, column[near], np.nan),
            np.where(there, distances, _FAR * self.gap),
            mean,
        )

    @staticmethod
    def _line(values: np.ndarray, distances: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Straight line (n,) between both neighbours, else the only neighbour, else the mean."""
        first, last = values[:, 0], values[:, 2]
        share = distances[:, 2] / (distances[:, 0] + distances[:, 2])
        line = share * first + (1 - share) * last
        for other in (first, last, mean):
            line = np.where(np.isnan(line), other, line)
        return line
