"""Common base of classifier and regressor: the choice of features, and a head on them.

Features do not depend on the targets. Hence the transformer is trained once, on all series, and
only the heads are trained in each fold.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import get_scorer_names
from sklearn.utils import check_consistent_length
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpolyode.embedders import ChannelScaler
from skpolyode.embedders.static import StaticEncoder
from skpolyode.heads.features import FEATURES, MANY_SERIES, without_static
from skpolyode.heads.folds import Fold, spread_folds
from skpolyode.heads.weights import fit_parameters, read_weights, series_weights
from skpolyode.panel import Panel
from skpolyode.panel.select import drop_empty, observed_series
from skpolyode.panel.selection import refuse_reordered
from skpolyode.transformers import PolyODETransformer, StaticFeatures
from skpolyode.transformers.base import SeriesEstimator, SeriesTransformer, check_names
from skpolyode.transformers.input import (
    align_to_frozen,
    one_each,
    read_panel,
    refuse_missing,
    unchanged_by_errors,
)
from skpolyode.transformers.neural import NeuralTransformer, local_random_state

# With a few dozen series, the score depends on the split (ArrowHead, 36 series: accuracies of 0.75
# to 0.89). The split is repeated until MANY_SERIES predictions are tested, but at most this often.
_MOST_DEALS = 5


class HeadEstimator(SeriesEstimator):
    """Base of estimators that embed series and put a head on the features."""

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "transformer": [HasMethods(["fit", "transform"]), None],
        "features": [StrOptions({"auto", *FEATURES})],
        "head": [HasMethods(["fit"]), None],  # `predict` may exist only after fitting
        "cv": [Interval(Integral, 2, None, closed="left")],
        "scoring": [StrOptions({*get_scorer_names()}), callable, None],
        "n_cuts": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    transformer_: SeriesTransformer
    _default: np.ndarray  # (1,), the prediction for a series without any observation

    @check_names
    def __init__(
        self,
        transformer: SeriesTransformer | None = None,
        *,
        features: str = "auto",
        head: Any = None,
        cv: int = 5,
        scoring: Any = None,
        n_cuts: int = 0,
        random_state: Any = None,
    ) -> None:
        self.transformer = transformer
        self.features = features
        self.head = head
        self.cv = cv
        self.scoring = scoring
        self.n_cuts = n_cuts
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None) -> Self:
        """Train the transformer on the series, choose features, and train the head.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series; see :func:`skpolyode.panel.as_panel` for every accepted format. Static
            covariates of a Panel become features, too. Series without any observation (a Panel can
            hold them) are left out.
        y : array-like of shape (n_series,), default=None
            Targets in the order of the series; required. For several targets per series,
            put a `FrozenEstimator` of a fitted transformer into this estimator, and this into a
            `MultiOutputClassifier` or `MultiOutputRegressor` of scikit-learn.
        groups : array-like of shape (n_series,) or None, default=None
            Labels, such as the patient of each stay. Series with the same label are tested together
            when features and heads compete, and held out together in training.
        sample_weight : array-like of shape (n_series,) or None, default=None
            Weight of each series, for the head, its calibration and the default prediction. Neither
            cross-validated scores nor the training of the transformer are weighted. A series of
            weight 0 has no effect. None: equal weights.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter, a series or a target is not valid. An error leaves the result of an
            earlier fit unchanged.
        TypeError
            If the transformer is not a transformer of this package.

        Warns
        -----
        UserWarning
            If features "path" are tried and numba or sktime is not installed.
        """
        self._validate_params()
        with unchanged_by_errors(self):
            panel = align_to_frozen(self, read_panel(self, X, reset=True), self.transformer)
            self._check_targets(y, panel)
            known, observed = observed_series(panel), drop_empty(panel)
            target = self._read_target(y, known)
            labels = None if groups is None else one_each(groups, panel, "groups")
            weights = None if sample_weight is None else read_weights(sample_weight, panel)
            if weights is not None and not (known := known & (weights > 0)).any():
                raise ValueError("sample_weight is zero for every series that has an observation.")
            panel = observed if weights is None else drop_empty(panel[known])
            target, labels, weights = _at(known, target, labels, weights)
            rng = local_random_state(self.random_state)
            seed = int(rng.randint(2**31 - 1))
            kinds = self._fit_transformer(panel, labels, seed)
            weights = series_weights(target, weights, getattr(self, "class_weight", None))
            if weights is not None and not (counted := weights > 0).all():  # a class of weight 0
                panel, target, labels, weights = _at(counted, panel, target, labels, weights)
            self._learn_default(target, weights)
            classifies = is_classifier(self)
            # R² needs at least two series in each test part.
            n_folds = self.cv if classifies else min(self.cv, len(target) // 2)
            n_deals = int(np.clip(np.ceil(MANY_SERIES / len(target)), 1, _MOST_DEALS))
            deals = [
                spread_folds(target, n_folds, rng, keep_single=classifies, groups=labels)
                for _ in range(n_deals)
            ]
            folds = [fold for deal in deals for fold in deal]
            head, Z = self._choose(kinds, panel, target, folds, seed, weights)
            self.head_ = clone(head).fit(Z, target, **fit_parameters(head, weights))
            self._calibrate(Z, target, deals[0], weights)
            self._fit_ages(head, panel, target, labels, weights, rng)
        return self

    def _check_targets(self, y: Any, panel: Panel) -> None:
        """Raise a ValueError unless there is one target for each series, in their order."""
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        refuse_reordered(y, panel, "y")
        check_consistent_length(np.empty(panel.n_series), y)
        refuse_missing(y, "y", "no target")
        if max(np.asarray(y).shape[1:], default=1) > 1:
            kind = "Classifier" if is_classifier(self) else "Regressor"
            raise ValueError(
                f"y holds several targets, but PolyODE{kind} takes one: fit "
                f"sklearn.multioutput.MultiOutput{kind} with PolyODE{kind}(FrozenEstimator("
                "transformer)), on a transformer that is fitted."
            )

    @abstractmethod
    def _read_target(self, y: Any, known: np.ndarray) -> np.ndarray:
        """Check the targets and return an array (B,); a head sees only the `known` series (B,)."""

    @abstractmethod
    def _learn_default(self, target: np.ndarray, weights: np.ndarray | None) -> None:
        """Set `_default` from the targets of the series with a positive weight."""

    def _fit_transformer(self, panel: Panel, groups: np.ndarray | None, seed: int) -> list[str]:
        """Train the transformer unless it is frozen; return the kinds of features to compare."""
        transformer = PolyODETransformer() if self.transformer is None else clone(self.transformer)
        is_trained = isinstance(transformer, FrozenEstimator)
        transformer = transformer.estimator if is_trained else transformer
        name = type(self).__name__
        if not isinstance(transformer, SeriesTransformer):
            raise TypeError(
                f"transformer of {name} must be a transformer of series of this package, such as "
                f"PolyODETransformer(), got {transformer!r}."
            )
        suited = [kind for kind in FEATURES if FEATURES[kind].suits(panel)]
        asked = suited if self.features == "auto" else [self.features]
        kinds = [kind for kind in asked if transformer.has_path or not FEATURES[kind].needs_path]
        if not kinds:
            raise ValueError(
                f"features={self.features!r} of {name} needs a transformer that follows a path, "
                f"and {type(transformer).__name__} has none: choose another one, or "
                "features='coefficients'."
            )
        if not is_trained:
            known = transformer.get_params(deep=False)
            if self.random_state is not None and "random_state" in known:
                transformer.set_params(random_state=seed)
            is_held_out = groups is not None and isinstance(transformer, NeuralTransformer)
            options = {"groups": groups} if is_held_out else {}
            transformer.fit(panel if transformer.uses_static else without_static(panel), **options)
        self.transformer_ = transformer
        return kinds

    def _choose(
        self,
        kinds: list[str],
        panel: Panel,
        target: np.ndarray,
        folds: list[Fold],
        seed: int,
        weights: np.ndarray | None,
    ) -> tuple[Any, np.ndarray]:
        """Return the best head, unfitted, and its features (B, F); set their name and scores."""
        # Imported here to keep `import skpolyode` fast.
        from sklearn.model_selection import cross_val_score
        from sklearn.pipeline import make_union

        options = {"scoring": self.scoring, "cv": folds, "error_score": "raise"}
        best, self.cv_scores_ = -np.inf, {}
        for kind in kinds:
            transformer = FEATURES[kind].transformer(self.transformer_, panel, seed)
            if StaticEncoder.of_panel(panel) is not None:
                transformer = make_union(transformer, StaticFeatures())
            Z = np.asarray(transformer.fit(panel, None).transform(panel), dtype=np.float64)
            heads = self._heads(kind, target, seed)
            scores, compared = [0.0], len(kinds) + len(heads) > 2 and len(folds) > 0
            if compared:
                params = [fit_parameters(head, weights) or None for head in heads]
                pairs = zip(heads, params, strict=True)
                each = [
                    cross_val_score(self._as_scored(h), Z, target, params=p, **options)
                    for h, p in pairs
                ]
                scores = [float(np.mean(one)) for one in each]
                self.cv_scores_[kind] = max(scores)
            if not np.isfinite(scores).all():
                raise ValueError(
                    f"scoring={self.scoring!r} of {type(self).__name__} gave {scores} for "
                    f"features={kind!r}: choose another scoring, or fewer folds by cv, so that it "
                    "is defined on each of them."
                )
            # If scores are equal up to rounding, take the first kind.
            if max(scores) > best + np.sqrt(np.finfo(np.float64).eps):
                best, self.features_ = max(scores), kind
                self.feature_transformer_, chosen = transformer, (heads[int(np.argmax(scores))], Z)
        return chosen

    def _heads(self, kind: str, target: np.ndarray, seed: int) -> list[Any]:
        """The heads that compete on a kind of features, not fitted."""
        if self.head is not None:
            return [self.head]
        return FEATURES[kind].heads(is_classifier(self), len(target), seed)

    def _as_scored(self, head: Any) -> Any:
        """An unfitted head with the methods that `scoring` calls."""
        return head

    def _calibrate(
        self, Z: np.ndarray, target: np.ndarray, folds: list[Fold], weights: np.ndarray | None
    ) -> None:
        """Calibrate the predictions of the head, from its features `Z` (B, F)."""

    @abstractmethod
    def _fit_ages(self, head: Any, panel: Panel, target: np.ndarray, *args: Any) -> None:
        """Fit the head for all ages if `n_cuts` is positive."""

    def predict(self, X: Any) -> np.ndarray:
        """Predict the target of each series.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series, with the channels of `fit`, and its static covariates if it had any.

        Returns
        -------
        ndarray of shape (n_series,)
            For a series without any observation (a Panel can hold them), the most frequent class
            of `fit` or the mean of its targets.
        """
        check_is_fitted(self)
        return self._predict_each(X, self.head_.predict, self._default)

    def _predict_each(
        self, X: Any, predict: Callable[[np.ndarray], np.ndarray], default: np.ndarray
    ) -> np.ndarray:
        """Predictions (n_series, ...); `default` (1, ...) for series without any observation."""
        panel = read_panel(self, X, reset=False)
        known = observed_series(panel)
        answers = np.repeat(default, panel.n_series, axis=0)
        if known.any():
            features = self.feature_transformer_.transform(panel[known])
            answers[known] = predict(np.asarray(features, dtype=np.float64))
        return answers

    def _scored(self, X: Any, y: Any, sample_weight: Any) -> Panel:
        """Series to score; a ValueError if targets are missing or ids are in another order."""
        panel = read_panel(self, X, reset=False)
        self._check_targets(y, panel)
        refuse_reordered(sample_weight, panel, "sample_weight")
        return panel

    @property
    def scaler_(self) -> ChannelScaler:
        """Mean and standard deviation of each channel."""
        return self.transformer_.scaler_

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the parameters of an unfitted estimator in one file without code.

        Parameters
        ----------
        path : str or PathLike
            Name of the safetensors file, which should end in ``.safetensors``; an existing file is
            replaced.

        Raises
        ------
        TypeError
            If the estimator is fitted (use joblib), or a file cannot hold the type of a parameter.
        """
        if hasattr(self, "transformer_"):
            raise TypeError(
                f"a fitted {type(self).__name__} cannot be saved: a file without code cannot hold "
                "its head of scikit-learn. Use joblib.dump, or save its transformer_ alone."
            )
        super().save(path)


def _at(kept: np.ndarray, *entries: Any) -> list[Any]:
    """The entries of the series `kept`; None stays None."""
    return [None if each is None else each[kept] for each in entries]
