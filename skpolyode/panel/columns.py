"""Columns that accompany the values of a panel, such as their known errors.

`Rows.beside` holds them by name: float64 of the shape (n_obs, D) of the values, NaN where not
known. Selections, windows, merged rows and concatenated panels treat all such columns alike. A new
column only needs a name, and an entry in `MEANS` if averaging rows does not average its cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

Beside = Mapping[str, np.ndarray]


def mean_of_cells(cells: np.ndarray, known: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Means (n_groups, D) of the known cells (n_rows, D) of groups; NaN without any."""
    count = np.add.reduceat(known.astype(np.float64), starts)
    share = np.where(known, cells, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduceat(share, starts)
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    if np.isinf(total).any():  # the sum of two finite numbers can overflow, their mean cannot
        smaller = share / np.repeat(np.maximum(count, 1), _sizes(starts, len(cells)), axis=0)
        mean = np.where(np.isinf(total), np.add.reduceat(smaller, starts), mean)
    return mean


def error_of_mean(errors: np.ndarray, known: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Standard deviations of the means of independent cells; see `mean_of_cells`."""
    count = np.add.reduceat(known.astype(np.float64), starts)
    noise = np.hypot.reduceat(np.where(known, errors, 0.0), starts)
    return np.where(count > 0, noise / np.maximum(count, 1), np.nan)


MEANS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "errors": error_of_mean
}
"""How a named column is reduced when rows are averaged; others take the mean."""


def reduce_groups(
    values: np.ndarray, beside: Beside, starts: np.ndarray, how: str
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Reduce groups of rows to one row each, ignoring NaN cells where a group has others.

    `values` (n_rows, D) are the rows, `starts` (n_groups,) the first row of each group, increasing
    from 0. Returns the values, and the columns `beside` of their mean, sum or selected cells, of
    shape (n_groups, D).
    """
    known = ~np.isnan(values)
    if how in ("mean", "sum"):
        reduced = {
            name: MEANS[name](column, known, starts)
            if name in MEANS
            else mean_of_cells(column, known & ~np.isnan(column), starts)
            for name, column in beside.items()
        }
        mean = mean_of_cells(values, known, starts)
        if how == "mean":
            return mean, reduced
        n = np.maximum(np.add.reduceat(known.astype(np.float64), starts), 1)
        with np.errstate(over="ignore"):
            return mean * n, {name: column * n for name, column in reduced.items()}
    group = np.repeat(np.arange(len(starts)), _sizes(starts, len(values)))
    rows = np.where(known, np.arange(len(values))[:, None], np.nan)
    taken = pd.DataFrame(rows).groupby(group).agg(how).to_numpy()
    place = np.nan_to_num(taken).astype(np.int64)

    def pick(cells: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(taken), np.nan, np.take_along_axis(cells, place, axis=0))

    return pick(values), {name: pick(column) for name, column in beside.items()}


def _sizes(starts: np.ndarray, n_rows: int) -> np.ndarray:
    return np.diff(starts, append=n_rows)


def join_beside(panels: Sequence[Any]) -> dict[str, np.ndarray]:
    """Columns of concatenated panels; NaN for panels that lack one."""
    names = dict.fromkeys(name for panel in panels for name in panel.rows.beside)
    blank = [np.full(panel.values.shape, np.nan) for panel in panels] if names else []
    return {
        name: np.concatenate(
            [panel.rows.beside.get(name, b) for panel, b in zip(panels, blank, strict=True)]
        )
        for name in names
    }
