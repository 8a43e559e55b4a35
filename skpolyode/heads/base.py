"""What the classifier and the regressor share: an embedder is trained once, then features compete.

Features do not depend on the targets, so that one fit of the embedder serves all folds; only the
heads are trained in each.
"""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, check_consistent_length
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpolyode.embedders import ChannelScaler
from skpolyode.heads.features import (
    FEATURES,
    new_transformer,
    usable_features,
    without_static,
)
from skpolyode.heads.folds import Fold
from skpolyode.heads.minirocket import has_minirocket
from skpolyode.panel import Panel
from skpolyode.panel.known import known_part
from skpolyode.panel.select import observed_series
from skpolyode.saving.objects import save
from skpolyode.transformers import PolyODETransformer
from skpolyode.transformers._checks import local_random_state
from skpolyode.transformers._input import one_each, read_panel, unchanged_by_errors
from skpolyode.transformers.base import SeriesTransformer
from skpolyode.transformers.neural import NeuralTransformer

__all__ = ["FEWEST_TO_BOOST", "HeadEstimator", "Heads"]


# Choosing among a few dozen series, the luck of one deal of folds decides (ArrowHead, 36 series: an
# accuracy of .75 to .89), so that they are dealt several times: until as many have been tested.
_ENOUGH_TESTS = 200
_MOST_DEALS = 5
_TIE = 1e-9

FEWEST_TO_BOOST = 200
"""Number of series from which on boosting competes."""


class Heads(NamedTuple):
    """Heads to choose from for each kind of features, the default one first.

    Made of a seed and the number of series.
    """

    coefficients: Callable[[int, int], list[Any]]
    path: Callable[[int, int], list[Any]]
    summary: Callable[[int, int], list[Any]]


class HeadEstimator(BaseEstimator):
    """Base of estimators that embed series and put a head on the features."""

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "embedder": [HasMethods(["fit", "transform"]), None],
        "features": [StrOptions({"auto", *FEATURES})],
        "head": [HasMethods(["fit", "predict"]), None],
        "cv": [Interval(Integral, 2, None, closed="left")],
        "scoring": [str, callable, None],
        "random_state": ["random_state"],
    }

    _heads: ClassVar[Heads]
    embedder_: SeriesTransformer

    def __init__(
        self,
        embedder: SeriesTransformer | None = None,
        *,
        features: str = "auto",
        head: Any = None,
        cv: int = 5,
        scoring: Any = None,
        random_state: Any = None,
    ) -> None:
        self.embedder = embedder
        self.features = features
        self.head = head
        self.cv = cv
        self.scoring = scoring
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Train the embedder on the series, choose features, and train the head.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series; see :func:`skpolyode.panel.as_panel` for every accepted format. Static
            covariates of a Panel are put beside the features. Series without any observation (of
            a Panel that keeps such) are left out.
        y : array-like of shape (n_series,)
            What to predict.
        groups : array-like of shape (n_series,) or None, default=None
            Labels, such as the patient of each stay: series of one label are tested together where
            features and heads compete, and validate together where the embedder is trained.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter, a series or a target is not valid. What was fitted before is then as it
            was.
        TypeError
            If the embedder is not a transformer of this package.

        Warns
        -----
        UserWarning
            If MiniRocket is asked for, and numba or sktime is not installed.
        """
        self._validate_params()
        with unchanged_by_errors(self):
            panel = read_panel(self, X, reset=True)
            target = self._read_target(y)
            check_consistent_length(np.empty(panel.n_series), target)
            labels = None if groups is None else one_each(groups, panel, "groups")
            known = observed_series(panel)
            if not known.all():
                panel, target = known_part(panel), self._read_target(target[known])
                labels = None if labels is None else labels[known]
            self._learn(panel, target, labels)
        return self

    @abstractmethod
    def _read_target(self, y: Any) -> np.ndarray:
        """Targets (B,), checked."""

    @abstractmethod
    def _folds(
        self, target: np.ndarray, groups: np.ndarray | None, rng: np.random.RandomState
    ) -> list[Fold]:
        """Training and test rows of each fold; none if there are too few series or groups."""

    def _learn(self, panel: Panel, target: np.ndarray, groups: np.ndarray | None) -> None:
        rng = local_random_state(self.random_state)
        embedder = PolyODETransformer() if self.embedder is None else clone(self.embedder)
        is_trained = isinstance(embedder, FrozenEstimator)
        embedder = embedder.estimator if is_trained else embedder
        if not isinstance(embedder, SeriesTransformer):
            raise TypeError(
                "embedder must be a transformer of series of this package, such as "
                f"PolyODETransformer(), got {embedder!r}."
            )
        kinds, seed = usable_features(self.features, embedder), int(rng.randint(2**31 - 1))
        if not is_trained:
            seeded = "random_state" in embedder.get_params(deep=False)
            if seeded and self.random_state is not None:
                embedder.set_params(random_state=seed)
            validates = groups is not None and isinstance(embedder, NeuralTransformer)
            told = {"groups": groups} if validates else {}
            embedder.fit(panel if embedder.uses_static else without_static(panel), **told)
        self.embedder_ = embedder
        n_deals = int(np.clip(np.ceil(_ENOUGH_TESTS / len(target)), 1, _MOST_DEALS))
        deals = [self._folds(target, groups, rng) for _ in range(n_deals)]
        folds = [fold for deal in deals for fold in deal]
        best, self.cv_scores_ = -np.inf, {}
        for kind in kinds:
            transformer = new_transformer(kind, self.embedder_, panel, seed).fit(panel, None)
            Z = np.asarray(transformer.transform(panel), dtype=np.float64)
            heads = self._candidates(kind, seed, len(target))
            is_only = len(kinds) == len(heads) == 1
            scores = [0.0 if is_only else self._score(head, Z, target, folds) for head in heads]
            if not np.isfinite(scores).all():
                raise ValueError(
                    f"scoring={self.scoring!r} gave {scores} for features={kind!r}: choose another "
                    "scoring, or fewer folds by cv, so that it is defined on each of them."
                )
            if not is_only and folds:
                self.cv_scores_[kind] = max(scores)
            if max(scores) > best + _TIE:  # ties go to the first, and the coefficients are
                best, self.features_ = max(scores), kind
                self.transformer_, chosen = transformer, (heads[int(np.argmax(scores))], Z)
        self.head_ = clone(chosen[0]).fit(chosen[1], target)
        self._finish(chosen[1], target, deals[0])

    def _candidates(self, kind: str, seed: int, n_series: int) -> list[Any]:
        if kind == "path" and not has_minirocket():
            warnings.warn(
                "MiniRocket needs numba and sktime, which are not installed: features='path' are "
                "the values of the path themselves, with the head of features='coefficients'. "
                "Install skpolyode[classify], or choose other features.",
                stacklevel=4,
            )
            kind = "coefficients" if self.head is None else kind
        return [self.head] if self.head is not None else getattr(self._heads, kind)(seed, n_series)

    def _score(self, head: Any, Z: np.ndarray, target: np.ndarray, folds: list[Fold]) -> float:
        """Mean score of a head on the test parts of folds; 0 without any."""
        from sklearn.metrics import check_scoring

        scorer = check_scoring(head, self.scoring)
        scores = [
            scorer(clone(head).fit(Z[train], target[train]), Z[test], target[test])
            for train, test in folds
        ]
        return float(np.mean(scores)) if scores else 0.0

    def _finish(self, Z: np.ndarray, target: np.ndarray, folds: list[Fold]) -> None:
        """Learn what else comes from the features (B, F) of the head."""

    def _predict_each(
        self, X: Any, predict: Callable[[np.ndarray], np.ndarray], of_nothing: np.ndarray
    ) -> np.ndarray:
        """What is predicted from features (B, F); `of_nothing` (1, ...) where nothing is known."""
        panel = read_panel(self, X, reset=False)
        known = observed_series(panel)
        answers = np.repeat(of_nothing, panel.n_series, axis=0)
        if known.any():
            features = self.transformer_.transform(panel[known])
            answers[known] = predict(np.asarray(features, dtype=np.float64))
        return answers

    @property
    @abstractmethod
    def _guess(self) -> np.ndarray:
        """What to predict of a series of which nothing is known, of shape (1,)."""

    def predict(self, X: Any) -> np.ndarray:
        """Predict of each series.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series, with the channels of `fit`, and its static covariates if it had any.

        Returns
        -------
        ndarray of shape (n_series,)
            Of series without any observation (of a Panel that keeps such), the most frequent class
            of `fit` or the mean of its targets.
        """
        check_is_fitted(self)
        return self._predict_each(X, self.head_.predict, self._guess)

    @property
    def scaler_(self) -> ChannelScaler:
        """Mean and standard deviation of each channel."""
        return self.embedder_.scaler_

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save in one file without any code, which works before `fit` only.

        The heads of scikit-learn cannot be held by such a file. Keep what was fitted with joblib;
        its `embedder_` can be saved.

        Parameters
        ----------
        path : str or PathLike
            The file, a safetensors file whatever its name; one that exists is replaced.

        Raises
        ------
        TypeError
            If it was fitted, or a parameter is of a type that files cannot hold.

        See Also
        --------
        skpolyode.load : The way back.
        """
        if hasattr(self, "head_"):
            raise TypeError(
                f"a fitted {type(self).__name__} cannot be saved: a file without code holds no "
                "heads of scikit-learn; keep it with joblib.dump, or save its embedder_ alone."
            )
        save(self, path)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags
