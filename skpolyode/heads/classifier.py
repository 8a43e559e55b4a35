"""A classifier of irregular series."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_is_fitted

from skpolyode.heads.base import FEWEST_TO_BOOST, HeadEstimator, Heads
from skpolyode.heads.folds import Fold, spread_folds
from skpolyode.heads.temperature import fit_temperature, probabilities
from skpolyode.saving.objects import register_estimator

__all__ = ["PolyODEClassifier"]


# Heads are imported where they are made: `import skpolyode` would take a fifth longer.


def _support_vectors(seed: int, n_series: int) -> list[Any]:
    from sklearn.svm import SVC

    # With broken ties the prediction is the class of the largest score.
    return [SVC(C=C, break_ties=True) for C in (10.0, 1.0, 100.0)]


def _ridge(seed: int, n_series: int) -> list[Any]:
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # Features are shares of time: their zero means something, their scale does not.
    scaler = StandardScaler(with_mean=False)
    return [make_pipeline(scaler, RidgeClassifierCV(alphas=np.logspace(-3, 3, 10)))]


def _trees(seed: int, n_series: int) -> list[Any]:
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

    trees = ExtraTreesClassifier(n_estimators=200, random_state=seed)
    # Of a few dozen series boosting learns nothing: it wants twenty for each leaf.
    boosted = HistGradientBoostingClassifier(random_state=seed)
    return [trees] if n_series < FEWEST_TO_BOOST else [trees, boosted]


def _rates_classes(classifier: PolyODEClassifier) -> bool:
    head = getattr(classifier, "head_", classifier.head)
    return head is None or hasattr(head, "predict_proba") or hasattr(head, "decision_function")


@register_estimator
class PolyODEClassifier(ClassifierMixin, HeadEstimator):
    """Classify irregular, ragged, partly observed series.

    An embedder is trained on the series without their labels. Then three kinds of features
    compete by cross-validation, each with a head of its own:

    =============== ========================================== ==================================
    `features`      what the head reads                        default head
    =============== ========================================== ==================================
    "coefficients"  the embedding, on its own scale            support vectors, C of 1, 10 or 100
    "path"          the path on a regular grid, by MiniRocket  ridge regression
    "summary"       a dozen summary statistics of each channel extremely random or boosted trees
    =============== ========================================== ==================================

    Static covariates of a Panel stand beside the features. Take it first, and look at
    `cv_scores_`; build a pipeline of your own once you know what works.

    Parameters
    ----------
    embedder : transformer of this package or None, default=None
        Not fitted itself, but a clone of it. Its parameters are reached as ``embedder__<name>``.
        None: a `PolyODETransformer` with its defaults. A fixed one, such as
        `InterpolationTransformer()`, needs no training; one that is trained already, perhaps on
        many more series, is kept as it is inside a `sklearn.frozen.FrozenEstimator`.
    features : {"auto", "coefficients", "path", "summary"}, default="auto"
        What the head reads. "auto" takes what cross-validates best on the series of `fit`; ties go
        to the coefficients. "path" needs an embedder with `interpolate`, and for MiniRocket numba
        and sktime.
    head : classifier or None, default=None
        Any classifier of scikit-learn, cloned. None: that of the table.
    cv : int, default=5
        Number of folds. Classes are spread evenly over them; the only member of a class is in all
        training parts. Fewer than 200 series are dealt out several times, at most five.
    scoring : str, callable or None, default=None
        What cross-validation compares, as in scikit-learn's searches; None is accuracy. Choose
        "roc_auc" or "balanced_accuracy" where one class is rare. What reads probabilities needs a
        `head` that has some of its own.
    random_state : int, RandomState instance or None, default=None
        Seed of the embedder, the folds and the heads. None leaves the embedder with its own.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    class_prior_ : float64 ndarray of shape (n_classes,)
        Share of each class in `fit`: what is said of a series without any observation.
    features_ : str
        The kind of features that was taken.
    cv_scores_ : dict of str to float
        Cross-validated score of each kind, of its best head. Empty where there was nothing to
        choose, or were not two series of one class.
    embedder_ : transformer
        The fitted embedder.
    transformer_ : transformer
        From series to the features that the head reads, static covariates included.
    head_ : classifier
        The fitted head.
    temperature_ : float
        What scores are divided by before they become probabilities; 1 for heads that have
        probabilities of their own.
    n_features_in_ : int
        Number of channels, or of time points if fitted on a 2-D array.
    n_channels_in_ : int
        Number of channels.

    See Also
    --------
    PolyODERegressor : The same for numbers.
    Resampler : The grid of "path", for a pipeline of your own.

    Notes
    -----
    No kind of features reads the labels, so that the embedder is trained once, on all series, and
    not in each fold. The scores of "auto" choose, they do not judge: to tell how good the whole
    classifier is, cross-validate it.

    The grid begins at each series' first observation, has about a point for each typical gap (32
    to 512), and ends where the longest series does; shorter ones are continued by their forecast.
    Without numba or sktime, features="path" are the values of the path, and the head is that of
    "coefficients".

    Support vectors and ridge regression give scores, not probabilities. One temperature T turns
    the scores s of a series into probabilities, softmax(s / T), with the least log loss on folds
    that the head has not seen [1]_. It does not change which class comes first. Heads that have
    probabilities of their own (trees, logistic regression) are taken at their word.

    Boosted trees compete from 200 series on. Support vectors take time by the square of the number
    of series, ridge regression on 10 000 features memory of 80 kB a series: beyond some ten
    thousand series pass a `head` that scales.

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
    >>> embedder = InterpolationTransformer(n_coefficients=16)
    >>> model = PolyODEClassifier(embedder, features="coefficients", random_state=0)
    >>> model.fit(series[::2], y[::2]).score(series[1::2], y[1::2])
    1.0
    >>> model.predict_proba(series[:1]).shape
    (1, 2)
    """

    _heads = Heads(_support_vectors, _ridge, _trees)

    def _read_target(self, y: Any) -> np.ndarray:
        if y is None:
            raise ValueError("PolyODEClassifier requires y to be passed, but the target y is None.")
        labels = _check_y(y)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only, {labels[0]}: a classifier needs two or more.")
        return labels

    def _folds(
        self, target: np.ndarray, groups: np.ndarray | None, rng: np.random.RandomState
    ) -> list[Fold]:
        return spread_folds(target, self.cv, rng, keep_single=True, groups=groups)

    def _finish(self, Z: np.ndarray, target: np.ndarray, folds: list[Fold]) -> None:
        self.class_prior_ = (target[:, None] == self.classes_).mean(axis=0)
        self.temperature_ = 1.0
        head = self.head_
        if hasattr(head, "predict_proba") or not hasattr(head, "decision_function") or not folds:
            return
        parts = [
            clone(head).fit(Z[train], target[train]).decision_function(Z[test])
            for train, test in folds
        ]
        tested = np.concatenate([test for _, test in folds])
        label = np.searchsorted(self.classes_, target[tested])
        self.temperature_ = fit_temperature(np.concatenate(parts), label)

    @available_if(_rates_classes)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series, with the channels of `fit`, and its static covariates if it had any.

        Returns
        -------
        float64 ndarray of shape (n_series, n_classes)
            In the order of `classes_`. Of series without any observation, `class_prior_`.
        """
        check_is_fitted(self)
        return self._predict_each(X, self._rate, self.class_prior_[None])

    def _rate(self, Z: np.ndarray) -> np.ndarray:
        """Probabilities (B, n_classes) from features."""
        if hasattr(self.head_, "predict_proba"):
            return self.head_.predict_proba(Z)
        return probabilities(self.head_.decision_function(Z), self.temperature_)

    @property
    def _guess(self) -> np.ndarray:
        return self.classes_[[np.argmax(self.class_prior_)]]
