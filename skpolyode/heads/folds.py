"""Folds that spread what is rare."""

from __future__ import annotations

import numpy as np

__all__ = ["spread_folds"]

Fold = tuple[np.ndarray, np.ndarray]


def spread_folds(
    y: np.ndarray, n_folds: int, rng: np.random.RandomState, *, keep_single: bool
) -> list[Fold]:
    """Training and test rows of each fold, with the targets spread evenly over the folds.

    In the order of the targets, rows are dealt out in turn. Unlike scikit-learn's stratified folds
    this works with classes of fewer members than folds, and with numbers.

    Parameters
    ----------
    y : ndarray of shape (n_series,)
        Labels or numbers.
    n_folds : int
        Number of folds; fewer if there are not as many rows.
    rng : RandomState
        Decides which rows of a class go where.
    keep_single : bool
        Keep the only member of a class in all training parts, so that none lacks a class.

    Returns
    -------
    list of (int ndarray, int ndarray)
        Empty if there would be fewer than two folds.
    """
    shuffled = rng.permutation(len(y))
    order = shuffled[np.argsort(y[shuffled], kind="stable")]
    if keep_single:
        _, label, count = np.unique(y, return_inverse=True, return_counts=True)
        order = order[count[label[order]] > 1]
    n_folds = min(n_folds, len(order))
    if n_folds < 2:
        return []
    fold = np.full(len(y), -1)  # never tested
    fold[order] = np.arange(len(order)) % n_folds
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]
