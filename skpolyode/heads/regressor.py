"""A regressor of irregular series."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_y, check_is_fitted

from skpolyode.heads.base import HeadEstimator, follows_ages
from skpolyode.panel import Panel
from skpolyode.saving.objects import register_estimator


@register_estimator
class PolyODERegressor(RegressorMixin, HeadEstimator):
    """Predict a number from irregular, ragged, partly observed series.

    A transformer is trained on the series without their targets. Then the kinds of features of
    `PolyODEClassifier` compete by cross-validation, each with its own default head: support
    vectors, ridge regression or trees. To predict the series themselves use the `forecast` of a
    transformer, or a `PolyODEForecaster`.

    Parameters
    ----------
    transformer : transformer of this package or None, default=None
        A clone of it is fitted. Set its parameters as ``transformer__<name>``. None: a
        `PolyODETransformer` with its defaults. To keep one that is already trained, pass it
        inside a `sklearn.frozen.FrozenEstimator`.
    features : str, default="auto"
        What the head reads: one of the kinds in the table of `PolyODEClassifier`. "auto" takes the
        kind with the best cross-validated score.
    head : regressor or None, default=None
        Any regressor of scikit-learn; a clone is fitted. None: the default head of the features.
    cv : int, default=5
        Number of folds, over which targets are spread evenly. With fewer than 200 series the split
        is repeated, at most five times.
    scoring : str, callable or None, default=None
        The score to compare, as in scikit-learn's searches. None: R².
    n_cuts : int, default=0
        Number of cuts of each series that `predict_path` is trained on: random ones, and the whole
        series. Each has the weight of the series. 8 works well; more take longer to fit. 0:
        `predict_path` is not available.
    random_state : int, RandomState instance or None, default=None
        Seed of the transformer, the folds and the heads. None keeps the transformer's own seed.

    Attributes
    ----------
    target_mean_ : float
        Weighted mean of the targets of `fit`: the prediction for a series without any observation.
    features_ : str
        The kind of features that was chosen.
    cv_scores_ : dict of str to float
        Cross-validated score of each kind of features. With several default heads it is that of
        the best one, and slightly too high. Empty if there was nothing to choose.
    transformer_ : transformer
        The fitted transformer.
    feature_transformer_ : transformer
        Turns series into the features that the head reads, static covariates included.
    head_ : regressor
        The fitted head.
    n_features_in_ : int
        Number of channels, or of time points if fitted on a 2-D array.
    n_channels_in_ : int
        Number of channels.

    See Also
    --------
    PolyODEClassifier : The same for labels; its notes apply here too.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import InterpolationTransformer, PolyODERegressor
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 3, 60)
    >>> times = [np.sort(rng.uniform(0, 6, rng.integers(20, 30))) for _ in y]
    >>> series = [(t, np.sin(rate * t)) for rate, t in zip(y, times)]
    >>> transformer = InterpolationTransformer(n_coefficients=16)
    >>> model = PolyODERegressor(transformer, features="coefficients", random_state=0)
    >>> model.fit(series[::2], y[::2]).score(series[1::2], y[1::2]) > 0.9
    True
    """

    def _read_target(self, y: Any, known: np.ndarray) -> np.ndarray:
        cells = np.asarray(y)
        text = cells.ravel().tolist() if cells.dtype.kind in "OSU" else []
        if text := [cell for cell in text if isinstance(cell, str | bytes)]:
            raise ValueError(f"y must be numbers, got {text[0]!r}: PolyODEClassifier takes labels.")
        return _check_y(y, y_numeric=True).astype(np.float64)

    def _learn_default(self, target: np.ndarray, weights: np.ndarray | None) -> None:
        self.target_mean_ = float(np.average(target, weights=weights))
        self._default = np.array([self.target_mean_])

    def _answer(self, Z: np.ndarray) -> np.ndarray:
        return self.head_.predict(Z)

    @available_if(follows_ages)
    def predict_path(self, X: Any, times: Any = None, relative_to: str | None = None) -> Panel:
        """Predictions along the series, each from the observations so far; needs `n_cuts`.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, array or stream
            The series; see `PolyODEClassifier.predict_proba_path`.
        times : array-like of shape (Q,), list of such or None, default=None
            Times for all series or for each, in the units and of the type of the series' times.
            None: the observations of each.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from: the first or the last observation of each series. None:
            absolute times.

        Returns
        -------
        Panel
            Predictions, as the channel "y". Before the first observation of a series, the mean
            target of `fit`.

        Raises
        ------
        ValueError
            If a time is not finite, or a series is not valid.

        Examples
        --------
        >>> import numpy as np
        >>> from skpolyode import InterpolationTransformer, PolyODERegressor
        >>> rng = np.random.default_rng(0)
        >>> y = rng.uniform(1, 3, 40)
        >>> series = [(np.arange(8.0), np.full(8, level)) for level in y]
        >>> transformer = InterpolationTransformer(n_coefficients=4)
        >>> model = PolyODERegressor(transformer, features="coefficients", n_cuts=4).fit(series, y)
        >>> model.predict_path(series[:1], [-1.0, 3.0, 7.0])
        Panel(1 series, 1 channel, 3 observations, 100% of cells observed, times -1 to 7)
        """
        check_is_fitted(self)
        return self._along(X, times, relative_to, self._default[None], ["y"])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R² of the predictions.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        y : array-like of shape (n_series,)
            Their targets.
        sample_weight : array-like of shape (n_series,) or None, default=None
            Weight of each series.

        Returns
        -------
        float
        """
        return super().score(self._scored(X, y, sample_weight), y, sample_weight)
