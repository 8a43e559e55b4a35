"""Folds over which targets are spread evenly."""

from __future__ import annotations

import numpy as np

Fold = tuple[np.ndarray, np.ndarray]
"""Rows to train on and rows to test on."""


def spread_folds(
    y: np.ndarray,
    n_folds: int,
    rng: np.random.RandomState,
    *,
    keep_single: bool,
    groups: np.ndarray | None = None,
) -> list[Fold]:
    """Training and test rows of each fold, with the targets spread evenly over the folds.

    Rows (or groups, by their mean target) are sorted by their targets and dealt to the folds in
    turn. Unlike scikit-learn's stratified folds this also works for numbers, and for classes with
    fewer members than folds.

    Parameters
    ----------
    y : ndarray of shape (n_series,)
        Labels or numbers.
    n_folds : int
        Number of folds; fewer if there are fewer rows (or groups).
    rng : RandomState
        Shuffles rows with the same target.
    keep_single : bool
        Keep the only member (or group) of a class in all training parts, so that each part has
        all classes.
    groups : ndarray of shape (n_series,) or None, default=None
        Labels; rows with the same label are tested together.

    Returns
    -------
    list of (int ndarray, int ndarray)
        Empty if there would be fewer than two folds.
    """
    groups = np.arange(len(y)) if groups is None else np.unique(groups, return_inverse=True)[1]
    _, label = np.unique(y, return_inverse=True)
    level = np.bincount(groups, label) / np.bincount(groups)
    shuffled = rng.permutation(len(level))
    order = shuffled[np.argsort(level[shuffled], kind="stable")]
    if keep_single:
        pairs = np.unique(np.stack([label, groups]), axis=1)  # which class is in which group
        is_only = np.bincount(pairs[0])[pairs[0]] == 1
        order = order[~np.isin(order, pairs[1, is_only])]
    n_folds = min(n_folds, len(order))
    if n_folds < 2:
        return []
    fold = np.full(len(level), -1)  # never tested
    fold[order] = np.arange(len(order)) % n_folds
    fold = fold[groups]
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]
    if not keep_single:
        return folds
    # If groups have several classes, one fold may hold all groups of a class: leave it out.
    return [fold for fold in folds if len(np.unique(label[fold[0]])) == label.max() + 1]
