"""Sorting rows by time and merging rows of equal time."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from skpolyode.panel.rows import Rows, offsets_from, series_index, stable_order

Duplicates = Literal["error", "mean", "first", "last"]


def check_duplicates(duplicates: str) -> None:
    """Refuse an unknown way of merging."""
    if duplicates not in get_args(Duplicates):
        choices = ", ".join(map(repr, get_args(Duplicates)))
        raise ValueError(f"duplicates must be one of {choices}, got {duplicates!r}.")


def inside_series(offsets: np.ndarray, n_rows: int) -> np.ndarray:
    """Mark every row, but the first, that has its predecessor in the same series."""
    inside = np.ones(max(n_rows - 1, 0), dtype=bool)
    borders = offsets[(offsets > 0) & (offsets < n_rows)]
    inside[borders - 1] = False
    return inside


def sort_rows(rows: Rows) -> Rows:
    """Return the rows of each series in the order of time (equal times keep their order)."""
    inside = inside_series(rows.offsets, len(rows.times))
    if not np.any((rows.order[1:] < rows.order[:-1]) & inside):
        return rows
    series = series_index(rows.offsets)
    order = np.argsort(rows.order, kind="stable")
    return rows.at(order[stable_order(series[order])], rows.offsets)


def merge_duplicates(rows: Rows, how: Duplicates) -> Rows:
    """Return rows in which neighbours of equal time are merged, channel by channel."""
    same = (rows.order[1:] == rows.order[:-1]) & inside_series(rows.offsets, len(rows.times))
    if not same.any():
        return rows
    first = np.concatenate([[True], ~same])
    merged = rows.at(first, offsets_from(first)[rows.offsets])
    return replace(merged, values=reduce_groups(rows.values, np.flatnonzero(first), how))


def reduce_groups(values: np.ndarray, starts: np.ndarray, how: Duplicates) -> np.ndarray:
    """Reduce groups of rows to one row each; NaN cells count only where a group has no other.

    Parameters
    ----------
    values : ndarray of shape (n_rows, D)
        The rows.
    starts : ndarray of shape (n_groups,)
        First row of each group, increasing from 0.
    how : {"mean", "first", "last"}
        The value of a group.

    Returns
    -------
    ndarray of shape (n_groups, D)
        One row a group.
    """
    known = ~np.isnan(values)
    if how == "mean":
        count = np.add.reduceat(known.astype(np.float64), starts)
        share = np.where(known, values, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            total = np.add.reduceat(share, starts)
        mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        if np.isinf(total).any():  # the sum of two finite numbers can overflow, their mean cannot
            group = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(values)))
            smaller = np.add.reduceat(share / np.maximum(count, 1)[group], starts)
            mean = np.where(np.isinf(total), smaller, mean)
        return mean
    row = np.arange(len(values))[:, None]
    if how == "first":
        pick = np.minimum.reduceat(np.where(known, row, len(values)), starts)
        pick = np.where(pick == len(values), starts[:, None], pick)
    else:
        pick = np.maximum.reduceat(np.where(known, row, -1), starts)
        pick = np.where(pick == -1, starts[:, None], pick)
    return np.take_along_axis(values, pick, axis=0)
