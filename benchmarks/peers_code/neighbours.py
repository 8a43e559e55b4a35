"""Hidden cells by least squares: what a few rows around and the other channels are worth."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.peers_code.rows import Run
from benchmarks.real.hidden import hide
from benchmarks.units import gaps
from skpolyode import Panel, PanelImputer, PolyODETransformer
from skpolyode.panel.select import series_of_rows

SHARE = 0.2
STRENGTH = 1e-5  # of the ridge, a share of the number of cells
FAR = 1e6  # away, where there is no neighbour


def around(panel: Panel, channel: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two known values before and two after each row (n, 4), their distances, and their mean.

    What the row itself shows of the channel is left out. NaN where there is nothing.
    """
    column, series = panel.values[:, channel], series_of_rows(panel)
    rows, every = np.flatnonzero(~np.isnan(column)), np.arange(panel.n_observations)
    before, known = np.searchsorted(rows, every), ~np.isnan(column)
    places = np.stack([before - 1, before - 2, before + known, before + known + 1], axis=1)
    near = rows[places.clip(0, len(rows) - 1)]
    there = (places >= 0) & (places < len(rows)) & (series[near] == series[:, None])
    values = np.where(there, column[near], np.nan)
    distances = np.where(there, np.abs(panel.times[near] - panel.times[:, None]), FAR)
    sums, counts = np.zeros((2, len(panel)))
    np.add.at(sums, series[rows], column[rows])
    np.add.at(counts, series[rows], 1)
    others = (counts[series] - known).clip(1)
    return values, distances, (sums[series] - np.nan_to_num(column)) / others


def lines_and_terms(panel: Panel, channel: int) -> tuple[np.ndarray, np.ndarray]:
    """Straight line (n,) between the neighbours of each row, and how far these are off it."""
    values, distances, mean = around(panel, channel)
    first, last = values[:, 0], values[:, 2]
    share = distances[:, 2] / (distances[:, 0] + distances[:, 2])
    line = share * first + (1 - share) * last
    for other in (first, last, mean):
        line = np.where(np.isnan(line), other, line)
    nearness = 1 / (1 + distances[:, [0, 2]] / np.median(gaps(panel)))
    nearness = np.column_stack([nearness, nearness.prod(axis=1), np.ones(len(line))])
    off = np.nan_to_num(values - line[:, None])
    return line, np.column_stack([off, (mean - line)[:, None] * nearness])


class Context(NamedTuple):
    """What rows around and other channels tell about each cell of a panel."""

    lines: np.ndarray  # (n, D)
    off: np.ndarray  # (n, D) of observed cells from their lines; 0 where nothing is observed
    terms: list[np.ndarray]  # (n, F) of each channel

    @classmethod
    def of(cls, panel: Panel) -> Context:
        found = [lines_and_terms(panel, j) for j in range(panel.n_channels)]
        lines = np.stack([line for line, _ in found], axis=1)
        return cls(lines, np.nan_to_num(panel.values - lines), [terms for _, terms in found])

    def design(self, j: int, others: bool, path: np.ndarray | None) -> np.ndarray:
        parts = [self.terms[j]]
        if others:
            parts.append(np.delete(self.off, j, axis=1))
        if path is not None:
            parts.append((path - self.lines)[:, [j]])
        return np.hstack(parts)


def regressed(
    train: Context,
    target: np.ndarray,
    test: Context,
    others: bool = True,
    paths: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """Values (n, D) of a ridge regression for each channel on the cells (m, D) of a target."""
    filled, path, path_test = test.lines.copy(), *(paths or (None, None))
    for j in range(target.shape[1]):
        known = ~np.isnan(target[:, j])
        X = train.design(j, others, path)[known]
        y = (target - train.lines)[known, j]
        gram = X.T @ X + STRENGTH * len(X) * np.eye(X.shape[1])
        filled[:, j] += test.design(j, others, path_test) @ np.linalg.solve(gram, X.T @ y)
    return filled


def least_squares(data: Any, _: Run) -> np.ndarray:
    """Neighbours and the other channels of the row.

    >>> X, off = neighbours_and_lines(train)
    >>> models = [Ridge().fit(np.hstack([X[j], np.delete(off, j, axis=1)]), off[:, j])
    ...           for j in range(n_channels)]
    >>> X, off = neighbours_and_lines(test)
    >>> filled = [lines(test)[:, j] + model.predict(np.hstack([X[j], np.delete(off, j, axis=1)]))
    ...           for j, model in enumerate(models)]
    """
    return regressed(Context.of(data.train), data.train.values, Context.of(data.test))


def own_channel(data: Any, _: Run) -> np.ndarray:
    """Neighbours alone.

    >>> X, off = neighbours_and_lines(train)
    >>> models = [Ridge().fit(X[j], off[:, j]) for j in range(n_channels)]
    >>> X, off = neighbours_and_lines(test)
    >>> filled = [lines(test)[:, j] + model.predict(X[j]) for j, model in enumerate(models)]
    """
    return regressed(Context.of(data.train), data.train.values, Context.of(data.test), others=False)


def with_path(data: Any, run: Run) -> np.ndarray:
    """The same with the path of PolyODE as one more column, learned on cells hidden once more.

    >>> from skpolyode import PanelImputer, PolyODETransformer
    >>> imputer = PanelImputer(PolyODETransformer()).fit(train)
    >>> holed = hide(train, 0.2)
    >>> X, off = neighbours_and_lines(holed)
    >>> path = imputer.transform(holed)
    >>> models = [Ridge().fit(design(X, off, path, j), hidden[:, j]) for j in range(n_channels)]
    >>> X, off, path = *neighbours_and_lines(test), imputer.transform(test)
    >>> filled = [model.predict(design(X, off, path, j)) for j, model in enumerate(models)]
    """
    imputer = PanelImputer(PolyODETransformer(random_state=run.seed)).fit(data.train)
    holed, hidden = hide(data.train, SHARE, whole_rows=False)
    paths = tuple(imputer.transform(part).values for part in (holed, data.test))
    return regressed(Context.of(holed), hidden, Context.of(data.test), paths=paths)
