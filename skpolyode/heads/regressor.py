"""A regressor of irregular series."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_y

from skpolyode.heads.base import FEWEST_TO_BOOST, HeadEstimator, Heads
from skpolyode.heads.folds import Fold, spread_folds
from skpolyode.saving.objects import register_estimator

__all__ = ["PolyODERegressor"]


# Heads are imported where they are made: `import skpolyode` would take a fifth longer.


def _support_vectors(seed: int, n_series: int) -> list[Any]:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR

    # The width of the tube and C are in units of the target.
    return [
        TransformedTargetRegressor(SVR(C=C), transformer=StandardScaler()) for C in (10, 1, 100)
    ]


def _ridge(seed: int, n_series: int) -> list[Any]:
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return [make_pipeline(StandardScaler(with_mean=False), RidgeCV(alphas=np.logspace(-3, 3, 10)))]


def _trees(seed: int, n_series: int) -> list[Any]:
    from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

    trees = ExtraTreesRegressor(n_estimators=200, random_state=seed)
    # Of a few dozen series boosting learns nothing: it wants twenty for each leaf.
    boosted = HistGradientBoostingRegressor(random_state=seed)
    return [trees] if n_series < FEWEST_TO_BOOST else [trees, boosted]


@register_estimator
class PolyODERegressor(RegressorMixin, HeadEstimator):
    """Predict a number from irregular, ragged, partly observed series.

    An embedder is trained on the series without their targets. Then three kinds of features
    compete by cross-validation, each with a head of its own:

    =============== ========================================== ==================================
    `features`      what the head reads                        default head
    =============== ========================================== ==================================
    "coefficients"  the embedding, on its own scale            support vectors, C of 1, 10 or 100
    "path"          the path on a regular grid, by MiniRocket  ridge regression
    "summary"       a dozen summary statistics of each channel extremely random or boosted trees
    =============== ========================================== ==================================

    Static covariates of a Panel stand beside the features. To predict the series themselves take
    the embedder's `forecast` or a `PolyODEForecaster`.

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
    head : regressor or None, default=None
        Any regressor of scikit-learn, cloned. None: that of the table.
    cv : int, default=5
        Number of folds, over which targets are spread evenly. Fewer than 200 series are dealt out
        several times, at most five.
    scoring : str, callable or None, default=None
        What cross-validation compares, as in scikit-learn's searches; None is R².
    random_state : int, RandomState instance or None, default=None
        Seed of the embedder, the folds and the heads. None leaves the embedder with its own.

    Attributes
    ----------
    target_mean_ : float
        Mean target of `fit`: what is said of a series without any observation.
    features_ : str
        The kind of features that was taken.
    cv_scores_ : dict of str to float
        Cross-validated score of each kind, of its best head. Empty where there was nothing to
        choose.
    embedder_ : transformer
        The fitted embedder.
    transformer_ : transformer
        From series to the features that the head reads, static covariates included.
    head_ : regressor
        The fitted head.
    n_features_in_ : int
        Number of channels, or of time points if fitted on a 2-D array.
    n_channels_in_ : int
        Number of channels.

    See Also
    --------
    PolyODEClassifier : The same for labels; its notes hold here too.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import InterpolationTransformer, PolyODERegressor
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 3, 60)
    >>> times = [np.sort(rng.uniform(0, 6, rng.integers(20, 30))) for _ in y]
    >>> series = [(t, np.sin(rate * t)) for rate, t in zip(y, times)]
    >>> embedder = InterpolationTransformer(n_coefficients=16)
    >>> model = PolyODERegressor(embedder, features="coefficients", random_state=0)
    >>> model.fit(series[::2], y[::2]).score(series[1::2], y[1::2]) > 0.9
    True
    """

    _heads = Heads(_support_vectors, _ridge, _trees)

    def _read_target(self, y: Any) -> np.ndarray:
        if y is None:
            raise ValueError("PolyODERegressor requires y to be passed, but the target y is None.")
        return _check_y(y, y_numeric=True).astype(np.float64)

    def _folds(
        self, target: np.ndarray, groups: np.ndarray | None, rng: np.random.RandomState
    ) -> list[Fold]:
        n_folds = min(self.cv, len(target) // 2)  # R² is defined for two series and more
        return spread_folds(target, n_folds, rng, keep_single=False, groups=groups)

    def _finish(self, Z: np.ndarray, target: np.ndarray, folds: list[Fold]) -> None:
        self.target_mean_ = float(target.mean())

    @property
    def _guess(self) -> np.ndarray:
        return np.array([self.target_mean_])
