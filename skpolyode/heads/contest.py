"""Heads that compete on series they were not fitted to, and blends of them.

Answers are scores of classes, whose softmax after a multiplication is a probability, or numbers
from the mean of the target. A blend adds the answers of several heads, each with a weight of 0 or
more. So one head with a temperature T is a blend of one, with the weight 1 / T.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.metrics import get_scorer
from sklearn.utils.validation import has_fit_parameter

Fold = tuple[np.ndarray, np.ndarray]
"""Rows to train on and rows to test on."""

SIMPLE = "summary"
"""The kind of features that others must gain on."""

_LEAST_SHARE = 0.05
"""Heads with a smaller share of a blend leave it."""

_LEAST_CHANCE = 1e-3
"""Smallest probability that counts in a blend: forests give 0 to classes that no leaf holds."""


def fit_parameters(head: Any, weights: np.ndarray | None) -> dict[str, np.ndarray]:
    """Keyword arguments that pass weights (B,) to `fit` of a head.

    In a pipeline, earlier steps that take weights, such as `StandardScaler`, get them too.

    Raises
    ------
    ValueError
        If the head cannot use weights.
    """
    if weights is None:
        return {}
    *before, last = getattr(head, "steps", [("", head)])
    if last[1] is not head:
        by_step = {last[0]: fit_parameters(last[1], weights)}
        by_step |= {
            name: {"sample_weight": weights}
            for name, step in before
            if hasattr(step, "fit") and has_fit_parameter(step, "sample_weight")
        }
        return {f"{k}__{name}": w for k, params in by_step.items() for name, w in params.items()}
    inner = getattr(head, "regressor", head)  # of a transformed target
    if not has_fit_parameter(inner, "sample_weight"):
        raise ValueError(
            f"the head {type(inner).__name__} takes no sample_weight in fit: choose another head, "
            "or leave out sample_weight and class_weight."
        )
    return {"sample_weight": weights}


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


def fitted(head: Any, Z: np.ndarray, target: np.ndarray, weights: np.ndarray | None) -> Any:
    """Fit a clone of a head to features (B, F)."""
    return clone(head).fit(Z, target, **fit_parameters(head, weights))


def class_scores(head: Any, Z: np.ndarray) -> np.ndarray:
    """Scores (B, K) of a fitted head: logarithms of probabilities, if it has any.

    Those of a head that only predicts are 1 for the predicted class.
    """
    if hasattr(head, "predict_proba"):
        return np.log(np.clip(head.predict_proba(Z), _LEAST_CHANCE, None))
    if not hasattr(head, "classes_"):
        raise TypeError(f"the head {type(head).__name__} is no classifier: choose one.")
    if not hasattr(head, "decision_function"):
        return (head.predict(Z)[:, None] == head.classes_).astype(np.float64)
    scores = head.decision_function(Z)
    return scores if scores.ndim == 2 else np.column_stack([np.zeros_like(scores), scores])


class Blend(BaseEstimator):
    """Several heads, each on its block of columns; columns after the last block are for all.

    Parameters
    ----------
    heads : list of classifiers or regressors
        Clones are fitted.
    blocks : list of (int, int)
        First column of each head, and the one after its last.
    weights : list of float
        Factors of the answers.
    constants : list of float
        Added to the scores of each class, or to all answers.

    Attributes
    ----------
    heads_ : list of classifiers or regressors
        The fitted heads.
    """

    def __init__(
        self,
        heads: list[Any],
        blocks: list[tuple[int, int]],
        weights: list[float],
        constants: list[float],
    ) -> None:
        self.heads = heads
        self.blocks = blocks
        self.weights = weights
        self.constants = constants

    def fit(self, Z: np.ndarray, target: np.ndarray, sample_weight: Any = None) -> Self:
        """Fit a clone of each head."""
        self.mean_ = None
        if isinstance(self, ClassifierMixin):
            self.classes_ = np.unique(target)
        else:
            self.mean_ = np.average(target, weights=sample_weight)
        parts = zip(self.heads, self._blocks(Z), strict=True)
        self.heads_ = [fitted(head, block, target, sample_weight) for head, block in parts]
        return self

    def _blocks(self, Z: np.ndarray) -> Iterator[np.ndarray]:
        """Columns of each head."""
        common = Z[:, max(stop for _, stop in self.blocks) :]
        return (np.column_stack([Z[:, a:b], common]) for a, b in self.blocks)

    def _blended(self, Z: np.ndarray) -> np.ndarray:
        each = zip(self.heads_, self._blocks(Z), self.weights, strict=True)
        parts = (weight * answers(head, block, self.mean_) for head, block, weight in each)
        return sum(parts, np.array(self.constants))


class BlendedClassifier(ClassifierMixin, Blend):
    """A blend of classifiers."""

    def predict_proba(self, Z: np.ndarray) -> np.ndarray:
        """Probabilities (B, K)."""
        return softmax(self._blended(Z), axis=1)

    def decision_function(self, Z: np.ndarray) -> np.ndarray:
        """Scores (B, K), or (B,) of the second of two classes."""
        scores = self._blended(Z)
        return scores if scores.shape[1] > 2 else scores[:, 1] - scores[:, 0]

    def predict(self, Z: np.ndarray) -> np.ndarray:
        """Classes (B,)."""
        return self.classes_[self._blended(Z).argmax(axis=1)]


class BlendedRegressor(RegressorMixin, Blend):
    """A blend of regressors."""

    def predict(self, Z: np.ndarray) -> np.ndarray:
        """Targets (B,)."""
        return self.mean_ + self._blended(Z)[:, 0]


def answers(head: Any, Z: np.ndarray, mean: float | None) -> np.ndarray:
    """Answers (B, K) of a fitted head: scores of classes, or what is predicted over the mean."""
    return class_scores(head, Z) if mean is None else (head.predict(Z) - mean)[:, None]


class Competitor(NamedTuple):
    """A head, not fitted, on features of a kind."""

    kind: str
    transformers: list[Any]  # fitted: of the series, and of their static covariates, if any
    parts: list[np.ndarray]  # features (B, F) of each
    head: Any
    answers: np.ndarray | None = None  # (R, K), on the test parts of the folds
    scores: np.ndarray | None = None  # of each fold

    @property
    def score(self) -> float:
        """Mean score; 0 if there were no folds."""
        return 0.0 if self.scores is None else float(np.mean(self.scores))


class Chosen(NamedTuple):
    """Competitors of a blend, and what it scores more than the simple ones alone."""

    members: list[Competitor]
    weights: np.ndarray  # (M,)
    constants: np.ndarray  # (K,) of the answers
    shares: np.ndarray  # (M,) of the blend
    gain: float = 0.0
    error: float = 0.0


class Contest:
    """Scores of answers on the test parts of folds, R rows in all.

    Parameters
    ----------
    target : ndarray of shape (B,)
        Labels or numbers.
    deals : list of list of Fold
        Several deals of the rows into folds, which may be empty.
    weights : float64 ndarray of shape (B,) or None
        Weights of the rows.
    classifies : bool
        Whether targets are labels.
    scoring : str, callable or None, default=None
        As of scikit-learn's searches. None: minus the log loss; R² of numbers.
    """

    def __init__(
        self,
        target: np.ndarray,
        deals: list[list[Fold]],
        weights: np.ndarray | None,
        classifies: bool,
        scoring: Any = None,
    ) -> None:
        self.target, self.weights, self.n_deals = target, weights, len(deals)
        self.folds = folds = list(chain(*deals))
        self.classes, label = np.unique(target, return_inverse=True) if classifies else (None, None)
        self.scorer = get_scorer(scoring) if scoring is not None else None
        if not folds:
            return
        rows = np.concatenate([test for _, test in folds])
        stop = np.cumsum([len(test) for _, test in folds])
        self.parts = [slice(*part) for part in zip(np.append(0, stop[:-1]), stop, strict=True)]
        self.row_weights = np.ones(len(rows)) if weights is None else weights[rows]
        self.means = [None if classifies else self._average(train) for train, _ in folds]
        if classifies:
            self.truth = _softened(label[rows], len(self.classes))
        else:
            self.centre = np.repeat(self.means, [len(test) for _, test in folds])
            self.truth = (target[rows] - self.centre)[:, None]
            self.spread = np.average(self.truth[:, 0] ** 2, weights=self.row_weights) or 1.0

    def _average(self, rows: np.ndarray) -> float:
        weights = None if self.weights is None else self.weights[rows]
        return float(np.average(self.target[rows], weights=weights))

    def answers(self, head: Any, Z: np.ndarray) -> np.ndarray:
        """Answers (R, K) of clones that were not fitted to the rows."""
        found = []
        for (train, test), mean in zip(self.folds, self.means, strict=True):
            weights = None if self.weights is None else self.weights[train]
            model = fitted(head, Z[train], self.target[train], weights)
            found.append(answers(model, Z[test], mean))
        return np.concatenate(found)

    def entered(self, competitor: Competitor) -> Competitor:
        """The same with its answers and scores, if there are folds."""
        if not self.folds:
            return competitor
        answers = self.answers(competitor.head, np.column_stack(competitor.parts))
        return competitor._replace(answers=answers, scores=self.scores(self.blended([answers])))

    def choose(self, pool: list[Competitor], *, blends: bool) -> Chosen:
        """The simple competitors, or all, if these gain more than a standard error over the folds.

        They are blended. Without `blends` the best of all competes with the best simple one.
        """
        if len(pool) == 1 or not self.folds:
            weights = np.ones(1)
            if pool[0].answers is not None:
                weights, _ = self.weights_of([pool[0].answers])
            return Chosen(pool[:1], weights, np.zeros(1), np.ones(1))
        simple = [each for each in pool if each.kind == SIMPLE] or pool[:1]
        sides = [simple, pool]
        if not blends:
            sides = [[max(side, key=lambda each: each.score)] for side in sides]
        base, rich = (self.scores(self.blended([each.answers for each in side])) for side in sides)
        error = (rich - base).std(ddof=1) / np.sqrt(len(base) / self.n_deals)  # deals are repeats
        gain = float((rich - base).mean())
        taken = sides[int(gain > error)]
        *_, shares = self._shares(taken)
        kept = np.flatnonzero(shares >= min(_LEAST_SHARE, shares.max()))
        members = [taken[k] for k in kept]
        return Chosen(members, *self._shares(members), gain, float(error))

    def _shares(self, blend: list[Competitor]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights (M,) and constants of a blend, and shares (M,) of the spread of its answers."""
        each = [competitor.answers for competitor in blend]
        weights, constants = self.weights_of(each)
        spread = weights * self._spread(np.stack(each))
        shares = spread / spread.sum() if spread.any() else np.full(len(each), 1 / len(each))
        return weights, constants, shares

    def _spread(self, each: np.ndarray) -> np.ndarray:
        """Deviation (M,) of answers (M, R, K): of scores, from their mean over the classes."""
        centre = 0.0 if self.classes is None else each.mean(axis=2, keepdims=True)
        return (each - centre).std(axis=(1, 2))

    def weights_of(
        self, blend: list[np.ndarray], rows: Any = slice(None)
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights (M,) of 0 or more, and a constant of each class, best on some of the rows.

        The constants are 0 of one head alone, whose most probable class stays so.
        """
        each, weights, truth = np.stack(blend)[:, rows], self.row_weights[rows], self.truth[rows]
        weights, n_heads = weights / weights.sum(), len(blend)
        if self.classes is None:
            root = np.sqrt(weights)
            return nnls(root[:, None] * each[..., 0].T, root * truth[:, 0])[0], np.zeros(1)

        def loss(factors: np.ndarray) -> tuple[float, np.ndarray]:
            scores = np.tensordot(factors[:n_heads], each, 1) + factors[n_heads:]
            chances = log_softmax(scores, axis=1)
            wrong = weights[:, None] * (np.exp(chances) - truth)
            slopes = np.append((each * wrong).sum(axis=(1, 2)), wrong.sum(axis=0))
            return -float(weights @ (truth * chances).sum(axis=1)), slopes

        spread = self._spread(each)
        start = 1 / np.where(spread > 0, spread, 1.0) / n_heads
        constant = (None, None) if n_heads > 1 else (0, 0)
        n_classes = len(self.classes)
        bounds = [(0, None)] * n_heads + [constant] * n_classes
        found = minimize(loss, np.append(start, np.zeros(n_classes)), jac=True, bounds=bounds).x
        return found[:n_heads], found[n_heads:]

    def blended(self, blend: list[np.ndarray]) -> np.ndarray:
        """Answers (R, K) of a blend whose weights are those of the other folds."""
        result = np.empty_like(blend[0])
        for part in self.parts:
            others = np.ones(len(result), dtype=bool)
            others[part] = False
            weights, constants = self.weights_of(blend, others)
            result[part] = np.tensordot(weights, np.stack(blend)[:, part], 1) + constants
        return result

    def scores(self, blended: np.ndarray) -> np.ndarray:
        """Score of each fold; larger is better."""
        kind = BlendedRegressor if self.classes is None else BlendedClassifier
        given = kind([], [], [], [])  # scorings of scikit-learn ask it for what was blended here
        given.classes_, given.mean_, given._blended = self.classes, 0.0, lambda answers: answers
        result = []
        for part, (_, test) in zip(self.parts, self.folds, strict=True):
            truth, own = self.truth[part], blended[part]
            if self.scorer is not None:
                centre = 0.0 if self.classes is not None else self.centre[part, None]
                result.append(self.scorer(given, own + centre, self.target[test]))
                continue
            if self.classes is None:
                each = 1 - ((own - truth) ** 2)[:, 0] / self.spread
            else:
                label = np.searchsorted(self.classes, self.target[test])
                each = log_softmax(own, axis=1)[np.arange(len(test)), label]
            result.append(np.average(each, weights=self.row_weights[part]))
        return np.array(result)


def _softened(label: np.ndarray, n_classes: int) -> np.ndarray:
    """Shares (R, K) of classes that are not exactly 0 and 1, as in Platt's scaling.

    Otherwise scores without any error would give a temperature of 0.
    """
    share = np.full((len(label), n_classes), 1 / (len(label) + n_classes))
    share[np.arange(len(label)), label] += len(label) / (len(label) + n_classes)
    return share
