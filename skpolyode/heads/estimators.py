"""The classifier and the regressor of irregular series, and probabilities from scores."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.dummy import DummyClassifier
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_is_fitted

from skpolyode.heads.base import HeadEstimator, follows_ages
from skpolyode.heads.contest import Chosen, Contest, class_scores
from skpolyode.panel import Panel, series_index
from skpolyode.panel.checks import some_of
from skpolyode.saving.objects import register_estimator
from skpolyode.transformers.base import check_names

_LEAST_WEIGHT = 1e-3  # of scores that say nothing: all classes become about as probable


def _has_scores(classifier: Any) -> bool:
    """Whether the head gives scores, or will if it is not fitted."""
    head = getattr(classifier, "head_", classifier.head)
    return head is None or hasattr(head, "predict_proba") or hasattr(head, "decision_function")


def _follows_risk(classifier: Any) -> bool:
    return follows_ages(classifier) and _has_scores(classifier)


@register_estimator
class PolyODEClassifier(ClassifierMixin, HeadEstimator):
    """Classify irregular, ragged, partly observed series.

    Kinds of features compete by cross-validation, each with its own default heads, and those that
    help are blended:

    ============== ============================================== ================================
    `features`     what the head reads                            default heads
    ============== ============================================== ================================
    "summary"      a dozen summary statistics of each channel     trees, boosted ones from 200
                                                                  series on, and a linear one
    "memory"       8 coefficients of HiPPO, without training      support vectors, C of 1 to 100
    "coefficients" the embedding of the transformer               support vectors, and trees
    "state"        the learned state of a `PolyODETransformer`    support vectors
    "path"         the path on a regular grid, by MiniRocket      ridge regression
    "clock"        the path at times that all series share        support vectors
    "spectrum"     amplitudes of the path, without its phase      support vectors, and trees
    ============== ============================================== ================================

    Summary statistics are what others have to beat: without a gain of more than one standard error
    they are the only features, and no network is trained. Static covariates of a Panel are added to
    all features. Start with this classifier and print `fit_report_`; build your own pipeline once
    you know what works.

    Parameters
    ----------
    transformer : transformer of this package or None, default=None
        A clone of it is fitted. Set its parameters as ``transformer__<name>``. None: a
        `PolyODETransformer` with its defaults; with `features` "auto" it is trained only if the
        untrained kinds of features, with the path of straight lines, gain on summary statistics;
        with "summary" and "memory" never.
        `InterpolationTransformer()` and other fixed ones need no training. To keep one that is
        already trained, perhaps on many more series, pass it inside a
        `sklearn.frozen.FrozenEstimator`.
    features : str, default="auto"
        What the head reads: a kind of the table, or "auto", which blends those that help. "path",
        "clock" and "spectrum" need a transformer with `interpolate`, "path" also numba and sktime
        for MiniRocket. "state" needs a `hidden_size` above 0.
    head : classifier or None, default=None
        Any classifier of scikit-learn; a clone is fitted, to the best kind of features. None: the
        heads of the table.
    cv : int, default=5
        Number of folds. Classes are spread evenly over them; the only member of a class is in all
        training parts. With fewer than 200 series the split is repeated, at most five times.
    scoring : str, callable or None, default=None
        The score to compare, as in scikit-learn's searches. None: the log loss, which also suits
        rare classes. A scoring that reads probabilities gets those of `predict_proba`.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes for the head, as in scikit-learn's classifiers. "balanced": all
        classes have the same total weight. None: all series have the same weight. A class of
        weight 0 has a probability of 0.
    n_cuts : int, default=0
        Number of cuts of each series that `predict_proba_path` is trained on: random ones, and the
        whole series. Each has the weight of the series. 8 works well; more take longer to fit.
        0: `predict_proba_path` is not available.
    random_state : int, RandomState instance or None, default=None
        Seed of the transformer, the folds and the heads. None keeps the transformer's own seed.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    class_prior_ : float64 ndarray of shape (n_classes,)
        Share of each class in `fit`, by weight: the prediction for a series without any
        observation.
    features_ : str
        The kinds of features that were chosen, joined by " + ". With `transformer` None the path of
        an untrained kind is that of straight lines: "path of lines".
    weights_ : dict of str to float
        Share of each kind in the blend; they sum to 1.
    cv_scores_ : dict of str to float
        Cross-validated score of each kind of features: minus the log loss if `scoring` is None.
        With several default heads it is that of the best one, and slightly too high. Empty if there
        was nothing to choose, or no class had two series.
    fit_report_ : FitReport
        What the features gain on summary statistics, with the standard error over the folds, and
        whether a network was trained; print it.
    transformer_ : transformer
        The fitted transformer; an `InterpolationTransformer` if no network was trained.
    feature_transformer_ : transformer
        Turns series into the features that the head reads, static covariates included.
    head_ : classifier
        The fitted head, or a blend, whose `heads_` are fitted.
    temperature_ : float
        Scores are divided by it before they become probabilities; 1 for a blend, and for a head of
        yours with `predict_proba`.
    n_features_in_ : int
        Number of channels, or of time points if fitted on a 2-D array.
    n_channels_in_ : int
        Number of channels.

    See Also
    --------
    PolyODERegressor : The same for numeric targets.
    Resampler : The grid of "path", for custom pipelines.

    Notes
    -----
    No kind of features reads the labels. Hence the transformer is trained once, on all series, and
    not in each fold. The cross-validated scores are slightly optimistic: to estimate the error of
    the whole classifier, cross-validate it.

    A blend adds scores of heads, such as logarithms of probabilities, each with a weight of 0 or
    more, and a constant for each class. These minimize the log loss on folds that the heads have
    not seen; where blends are compared, those of a fold come from the others. Heads with less than
    a twentieth of a blend leave it. A head alone has one weight, the inverse of its temperature T:
    probabilities are softmax(s / T) of its scores s [1]_.

    The grid of "path" and "spectrum" starts at each series' first observation, has about one point
    for each typical gap (32 to 512 points), and covers the duration of the longest series; shorter
    ones are continued by their forecast. Without numba or sktime, features="path" are the values of
    the path, with support vectors.

    Choose "clock" if the class depends on values at a certain time, such as an hour of the day or a
    week since admission. The embedding looks back from the end of a series and does not know when
    that was. The grid has 32 to 128 points from the earliest to the latest observation of `fit`.
    "auto" tries it if series end at different times and the median duration is at least half of
    the time that all series span: series that begin years apart have no common clock.

    A fit takes seconds where no network is trained, and otherwise a third to twice longer than that
    of the transformer. Boosted trees compete from 200 series on; "path", "clock" and "spectrum"
    leave "auto" beyond 2000, as ridge regression on 10 000 features needs 80 kB of memory a series.
    The time of support vectors grows with the square of the number of series: beyond about ten
    thousand pass a `head` that scales.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Q. Weinberger, "On calibration of modern neural
       networks", ICML 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import InterpolationTransformer, PolyODEClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["slow", "fast"], 20)
    >>> times = [np.sort(rng.uniform(0, 6, rng.integers(20, 30))) for _ in y]
    >>> series = [(t, np.sin((2 if k == "slow" else 3) * t)) for k, t in zip(y, times)]
    >>> transformer = InterpolationTransformer(n_coefficients=16)
    >>> model = PolyODEClassifier(transformer, features="coefficients", random_state=0)
    >>> model.fit(series[::2], y[::2]).score(series[1::2], y[1::2])
    1.0
    >>> model.predict_proba(series[:1]).shape
    (1, 2)
    """

    classes_: np.ndarray
    class_prior_: np.ndarray
    _parameter_constraints: ClassVar[dict[str, list]] = {
        **HeadEstimator._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    @check_names
    def __init__(
        self,
        transformer: Any = None,
        *,
        features: str = "auto",
        head: Any = None,
        cv: int = 5,
        scoring: Any = None,
        class_weight: Any = None,
        n_cuts: int = 0,
        random_state: Any = None,
    ) -> None:
        folds = {"cv": cv, "scoring": scoring, "n_cuts": n_cuts, "random_state": random_state}
        super().__init__(transformer, features=features, head=head, **folds)
        self.class_weight = class_weight

    def _read_target(self, y: Any, known: np.ndarray) -> np.ndarray:
        labels = _check_y(y)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels[known])
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class only, {labels[0]}: {type(self).__name__} needs two or more."
            )
        return labels

    def _learn_default(self, target: np.ndarray, weights: np.ndarray | None) -> None:
        is_of = target[:, None] == self.classes_
        self.class_prior_ = np.average(is_of, axis=0, weights=weights)
        self._default = self.classes_[[np.argmax(self.class_prior_)]]

    def _heads(self, kind: str, target: np.ndarray, seed: int) -> list[list[Any]]:
        if (target == target[0]).all():  # all other classes have a weight of 0
            return [[DummyClassifier()]]
        return super()._heads(kind, target, seed)

    def _calibrate(self, chosen: Chosen, contest: Contest, *, is_sure: bool) -> None:
        self.temperature_ = 1.0
        if is_sure or not _has_scores(self) or not contest.folds:
            return
        [only], weights = chosen.members, chosen.weights
        if only.answers is None:
            weights, _ = contest.weights_of([contest.entered(only).answers])
        self.temperature_ = 1 / max(weights[0], _LEAST_WEIGHT)

    @available_if(_has_scores)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series, with the channels of `fit`, and its static covariates if it had any.

        Returns
        -------
        float64 ndarray of shape (n_series, n_classes)
            In the order of `classes_`. For a series without any observation, `class_prior_`.
        """
        check_is_fitted(self)
        return self._predict_each(X, self._answer, self.class_prior_[None])

    def _answer(self, Z: np.ndarray) -> np.ndarray:
        scores = class_scores(self.head_, Z) / self.temperature_
        answers = np.zeros((len(Z), len(self.classes_)))  # 0 for classes of weight 0
        answers[:, self.class_prior_ > 0] = softmax(scores, axis=1)
        return answers

    @available_if(_follows_risk)
    def predict_proba_path(
        self, X: Any, times: Any = None, relative_to: str | None = None
    ) -> Panel:
        """Probabilities along the series, each from what was known then; needs `n_cuts`.

        One head serves all ages of a series. It reads the features and the time since the first
        observation. Probabilities are constant between observations.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, array or stream
            The series, with the channels of `fit`, and its static covariates if it had any. For a
            stream of `transformer_`, probabilities are those at the last observations; the features
            must be "coefficients".
        times : array-like of shape (Q,), list of such or None, default=None
            Times for all series or for each, in the units and of the type of the series' times.
            None: the observations of each.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from: the first or the last observation of each series; they are then
            numbers, or timedeltas for series with datetimes. None: absolute times.

        Returns
        -------
        Panel
            Probabilities, one channel per class, named as in `classes_`. Before the first
            observation of a series, `class_prior_`. Those at a time depend on the observations so
            far and the inputs up to the last of them, not on later ones, even if planned.

        Raises
        ------
        ValueError
            If a time is not finite, or a series is not valid.

        See Also
        --------
        decided_at : When a series is decided.
        skpolyode.plotting.RiskDisplay : Draw probabilities over a series.

        Examples
        --------
        >>> import numpy as np
        >>> from skpolyode import InterpolationTransformer, PolyODEClassifier
        >>> rng = np.random.default_rng(0)
        >>> y = np.repeat(["up", "down"], 20)
        >>> slopes = np.where(y == "up", 1.0, -1.0) * rng.uniform(0.5, 1.5, 40)
        >>> series = [(np.arange(9.0), slope * np.arange(9.0)) for slope in slopes]
        >>> transformer = InterpolationTransformer(n_coefficients=4)
        >>> options = {"features": "coefficients", "n_cuts": 8, "random_state": 0}
        >>> model = PolyODEClassifier(transformer, **options).fit(series, y)
        >>> path = model.predict_proba_path(series[:1])
        >>> path.channel_names
        ('down', 'up')
        >>> bool(path.values[0, 1] < 0.9 < path.values[-1, 1])
        True
        >>> model.decided_at(series[:1], confidence=0.9)["class"].tolist()
        ['up']
        """
        check_is_fitted(self)
        names = [str(label) for label in self.classes_]
        return self._along(X, times, relative_to, self.class_prior_[None], names)

    @available_if(_follows_risk)
    def decided_at(self, X: Any, confidence: Any = 0.95) -> pd.DataFrame:
        """First observation of each series at which a class is probable enough.

        Later observations are not considered: afterwards, the probability may fall again.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series, as in `predict_proba_path`.
        confidence : float or dict, default=0.95
            Required probability, above 0 and at most 1. A dict gives one for each class that may be
            decided: rare classes need lower ones.

        Returns
        -------
        DataFrame
            Columns `series` (the id), `class` and `time`; one row per series. If no class was
            probable enough, the class is None, and the time NaN or NaT.

        Raises
        ------
        ValueError
            If a confidence is not a probability, or a class was not in `fit`.
        """
        check_is_fitted(self)
        each = confidence
        if not isinstance(confidence, dict):
            each = dict.fromkeys(self.classes_, confidence)
        if unknown := [label for label in each if label not in self.classes_]:
            raise ValueError(
                f"confidence names the class {unknown[0]!r}, which was not in fit: classes are "
                f"{some_of(self.classes_)}."
            )
        if wrong := [x for x in each.values() if not (isinstance(x, Real) and 0 < x <= 1)]:
            raise ValueError(
                f"confidence must be a probability over 0 and up to 1, or a dict with one for each "
                f"class, got {wrong[0]!r}."
            )
        # Infinite for classes that are not decided.
        needed = np.array([each.get(label, np.inf) for label in self.classes_.tolist()])
        path = self.predict_proba_path(X)
        series, reached = series_index(path.offsets), path.values >= needed
        row = np.flatnonzero(reached.any(axis=1))
        who, first = np.unique(series[row], return_index=True)
        row = row[first]
        best = np.where(reached, path.values, -1.0)[row].argmax(axis=1)
        label = np.full(path.n_series, None, dtype=object)
        label[who] = self.classes_[best]
        time = pd.Series(path.user_times()[row], index=who).reindex(range(path.n_series))
        return pd.DataFrame(
            {"series": path.ids, "class": pd.Series(label, dtype=object), "time": time.array}
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        y : array-like of shape (n_series,)
            Their classes.
        sample_weight : array-like of shape (n_series,) or None, default=None
            Weight of each series.

        Returns
        -------
        float
        """
        return super().score(self._scored(X, y, sample_weight), y, sample_weight)


@register_estimator
class PolyODERegressor(RegressorMixin, HeadEstimator):
    """Predict a number from irregular, ragged, partly observed series.

    The kinds of features of `PolyODEClassifier` compete by cross-validation, each with its own
    default heads: support vectors, ridge regression or trees. Those that help are blended. To
    predict the series themselves use the `forecast` of a transformer, or a `PolyODEForecaster`.

    Parameters
    ----------
    transformer : transformer of this package or None, default=None
        A clone of it is fitted. Set its parameters as ``transformer__<name>``. None: a
        `PolyODETransformer` with its defaults, trained where untrained features gain on summary
        statistics. To keep one that is already trained, pass it inside a
        `sklearn.frozen.FrozenEstimator`.
    features : str, default="auto"
        What the head reads: one of the kinds in the table of `PolyODEClassifier`, or "auto", which
        blends those that help.
    head : regressor or None, default=None
        Any regressor of scikit-learn; a clone is fitted, to the best kind of features. None: the
        default heads of the features.
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
        The kinds of features that were chosen, joined by " + ".
    weights_ : dict of str to float
        Share of each kind in the blend; they sum to 1.
    cv_scores_ : dict of str to float
        Cross-validated score of each kind of features. With several default heads it is that of
        the best one, and slightly too high. Empty if there was nothing to choose.
    fit_report_ : FitReport
        What the features gain on summary statistics, with the standard error over the folds, and
        whether a network was trained; print it.
    transformer_ : transformer
        The fitted transformer; an `InterpolationTransformer` if no network was trained.
    feature_transformer_ : transformer
        Turns series into the features that the head reads, static covariates included.
    head_ : regressor
        The fitted head, or a blend, whose `heads_` are fitted.
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
        target = _check_y(y, y_numeric=True).astype(np.float64)
        size = float(np.abs(target).max())
        if size and not 0 < size * size * len(target) < np.inf:
            raise ValueError(f"y reaches {size:g}, whose square no float holds: change its unit.")
        return target

    def _learn_default(self, target: np.ndarray, weights: np.ndarray | None) -> None:
        self.target_mean_ = float(np.average(target, weights=weights))
        self._default = np.array([self.target_mean_])

    def _answer(self, Z: np.ndarray) -> np.ndarray:
        return self.head_.predict(Z)

    @available_if(follows_ages)
    def predict_path(self, X: Any, times: Any = None, relative_to: str | None = None) -> Panel:
        """Predictions along the series, each from what was known then; needs `n_cuts`.

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
