"""Features that need no training, and scikit-learn's models on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.peers_code.rows import Run
from skpolyode import Panel, SummaryStatsTransformer

N_TIMES = 100


def boosting(data: Any, run: Run) -> np.ndarray:
    """Boosted trees on means, deviations, extremes, counts and the like of each channel.

    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from skpolyode import SummaryStatsTransformer
    >>> summary = SummaryStatsTransformer().fit(train)
    >>> trees = HistGradientBoostingClassifier(learning_rate=0.05, max_iter=200)
    >>> risk = trees.fit(summary.transform(train), y).predict_proba(summary.transform(test))[:, 1]
    """
    trees = HistGradientBoostingClassifier(learning_rate=0.05, max_iter=200, random_state=run.seed)
    model = make_pipeline(SummaryStatsTransformer(), trees)
    return model.fit(data.train, data.y).predict_proba(data.test)[:, 1]


def minirocket(data: Any, run: Run) -> np.ndarray:
    """Random convolutions of straight lines at 100 even times of each series; ridge regression.

    >>> from sktime.transformations.panel.rocket import MiniRocketMultivariate
    >>> X, X_test = (np.stack([lines_at_even_times(s) for s in part]) for part in (train, test))
    >>> rocket = MiniRocketMultivariate().fit(X)
    >>> ridge = make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(-3, 3, 7)))
    >>> ridge.fit(rocket.transform(X), y)
    >>> risk = ridge.decision_function(rocket.transform(X_test))
    """
    from sktime.transformations.panel.rocket import MiniRocketMultivariate

    X, X_test = even_lines(data.train), even_lines(data.test)
    rocket = MiniRocketMultivariate(random_state=run.seed).fit(X)
    ridge = make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(-3, 3, 7)))
    ridge.fit(rocket.transform(X).to_numpy(), data.y)
    return ridge.decision_function(rocket.transform(X_test).to_numpy())


def even_lines(panel: Panel) -> np.ndarray:
    """Straight lines (B, D, 100) from the first to the last time of each series."""
    grid = np.zeros((len(panel), panel.n_channels, N_TIMES), dtype=np.float32)
    for own, (times, values) in zip(grid, panel, strict=True):
        even = np.linspace(times[0], times[-1], N_TIMES)
        for line, column in zip(own, values.T, strict=True):
            seen = ~np.isnan(column)
            if seen.any():
                line[:] = np.interp(even, times[seen], column[seen])
    return grid
