"""How much the score of a model depends on each channel of its series."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.metrics import check_scoring
from sklearn.utils import Bunch, check_random_state, check_scalar

from skpolyode.panel import Panel, as_panel, offsets_from
from skpolyode.panel.select import series_of_rows

__all__ = ["permutation_importance"]


def permutation_importance(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    scoring: Any = None,
    n_repeats: int = 5,
    random_state: Any = None,
) -> Bunch:
    """How much worse a model scores when series swap their values of a channel.

    As `sklearn.inspection.permutation_importance`, which permutes columns of tables, of channels of
    ragged series: each series gets all observations of a channel of another one, with their times
    since its start, and keeps the rest.

    Parameters
    ----------
    estimator : fitted estimator
        Its scores are compared.
    X : Panel, list of (times, values), list of DataFrames, or array
        The series: best those that have not trained the estimator.
    y : array-like of shape (n_series,) or None, default=None
        What it predicts.
    scoring : str, callable or None, default=None
        As in scikit-learn's searches; None: the `score` of the estimator.
    n_repeats : int, default=5
        How often each channel is permuted.
    random_state : int, RandomState instance or None, default=None
        Seed of the permutations.

    Returns
    -------
    Bunch
        `importances` (n_channels, n_repeats), by how much the score falls; their mean and standard
        deviation over the repeats, `importances_mean` and `importances_std`; `channel_names`.

    See Also
    --------
    observation_importance : What drove the answer about each series.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import HiPPOTransformer, PolyODEClassifier
    >>> from skpolyode.inspection import permutation_importance
    >>> rng, y = np.random.default_rng(0), np.repeat([0, 1], 20)
    >>> series = [(np.arange(5.0), rng.normal(size=(5, 2)) + [9 * k, 0]) for k in y]
    >>> model = PolyODEClassifier(HiPPOTransformer(n_coefficients=2), features="coefficients")
    >>> found = permutation_importance(model.fit(series, y), series, y, random_state=0)
    >>> bool(found.importances_mean[0] > 0.2), float(found.importances_mean[1])
    (True, 0.0)
    """
    check_scalar(n_repeats, "n_repeats", Integral, min_val=1)
    panel, score = as_panel(X), check_scoring(estimator, scoring=scoring)
    rng, usual = check_random_state(random_state), score(estimator, panel, y)
    importances = np.array(
        [
            [
                usual - score(estimator, _swapped(panel, j, rng.permutation(panel.n_series)), y)
                for _ in range(n_repeats)
            ]
            for j in range(panel.n_channels)
        ]
    )
    return Bunch(
        importances_mean=importances.mean(axis=1),
        importances_std=importances.std(axis=1),
        importances=importances,
        channel_names=panel.channel_names,
    )


def _swapped(panel: Panel, channel: int, owner: np.ndarray) -> Panel:
    """Panel in which series ``owner[i]`` has the observations that series i has of a channel."""
    row, column = np.nonzero(~np.isnan(panel.values))
    series, elapsed = series_of_rows(panel)[row], panel.elapsed[row]
    series = np.where(column == channel, owner[series], series)
    order = np.lexsort((elapsed, series))
    row, column, series, elapsed = row[order], column[order], series[order], elapsed[order]
    new = np.append(True, (np.diff(elapsed) != 0) | (np.diff(series) != 0))[: len(row)]
    offsets = offsets_from(np.bincount(series[new], minlength=panel.n_series))
    start = panel.times[np.minimum(panel.offsets[:-1], panel.n_observations - 1)]
    cells = [panel.values] if panel.errors is None else [panel.values, panel.errors]
    swapped = [np.full((int(new.sum()), panel.n_channels), np.nan) for _ in cells]
    for found, known in zip(swapped, cells, strict=True):
        found[np.cumsum(new) - 1, column] = known[row, column]
    like = panel.like(start[series[new]] + elapsed[new], swapped[0], offsets)
    errors = None if panel.errors is None else swapped[1]
    return Panel.from_rows(replace(like.rows, errors=errors, keeps_empty=True), checked=False)
