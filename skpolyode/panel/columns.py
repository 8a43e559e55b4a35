"""Columns of cells that travel beside the values of a panel, such as their known errors.

`Rows.beside` holds them by name: float64 of the shape (n_obs, D) of the values, NaN where nothing
is told of a cell. They go where their cells go, into selections, windows, merged rows and panels
one behind the other, all of which are written once for all of them. A further column needs no more
than its name, and an entry in `MEANS` if that of a mean is not the mean of what its cells have.
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
"""What is told of the mean of cells, by the name of the column; of others the mean of what is."""


def reduce_groups(
    values: np.ndarray, beside: Beside, starts: np.ndarray, how: str
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Reduce groups of rows to one row each; NaN cells count only where a group has no other.

    `values` (n_rows, D) are the rows, `starts` (n_groups,) the first row of each group, increasing
    from 0; the result is of shape (n_groups, D). So are the columns `beside`: those of a mean or a
    sum, or of the cell that is taken.
    """
    known = ~np.isnan(values)
    if how in ("mean", "sum"):
        told = {
            name: MEANS[name](column, known, starts)
            if name in MEANS
            else mean_of_cells(column, known & ~np.isnan(column), starts)
            for name, column in beside.items()
        }
        mean = mean_of_cells(values, known, starts)
        if how == "mean":
            return mean, told
        n = np.maximum(np.add.reduceat(known.astype(np.float64), starts), 1)
        with np.errstate(over="ignore"):
            return mean * n, {name: column * n for name, column in told.items()}
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
    """Columns of panels one behind the other: NaN for those that have not got one."""
    names = dict.fromkeys(name for panel in panels for name in panel.rows.beside)
    blank = [np.full(panel.values.shape, np.nan) for panel in panels] if names else []
    return {
        name: np.concatenate(
            [panel.rows.beside.get(name, b) for panel, b in zip(panels, blank, strict=True)]
        )
        for name in names
    }
