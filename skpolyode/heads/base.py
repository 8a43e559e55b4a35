"""Common base of classifier and regressor: the choice of features, and a blend of heads on them.

Features do not depend on the targets. Hence the transformer is trained once, on all series, and
only the heads are trained in each fold. What needs no training is compared first: a network is
trained only where that gains on summary statistics.

One more head is trained on the features of each series at several cuts, for predictions along time.
All series have the same number of cuts and so count equally. The age, the time since the first
observation, is one more feature.

Each cut has the full weight of its series. With an eighth of it, support vectors are too smooth
(GunPoint, HiPPO: accuracy on whole series 0.71, against 0.91 with the full weight).
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import get_scorer_names
from sklearn.pipeline import FeatureUnion
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _num_samples, check_is_fitted

from skpolyode.embedders import ChannelScaler
from skpolyode.embedders.encoders import StaticEncoder
from skpolyode.embedders.paths import rows_until
from skpolyode.errors import Faults, plain_repr
from skpolyode.fit_report import FitReport
from skpolyode.heads.contest import (
    Blend,
    BlendedClassifier,
    BlendedRegressor,
    Chosen,
    Competitor,
    Contest,
    fitted,
    spread_folds,
)
from skpolyode.heads.features import FEATURES, MANY_SERIES, UNTRAINED, features_of, without_static
from skpolyode.panel import Panel, query_times, series_index
from skpolyode.panel.cells import unmasked
from skpolyode.panel.inputs import without_later
from skpolyode.panel.select import drop_empty, observed_part, observed_series, series_chunks, take
from skpolyode.panel.selection import refuse_reordered
from skpolyode.panel.units import credible_part
from skpolyode.transformers import InterpolationTransformer, PolyODETransformer, StaticFeatures
from skpolyode.transformers.base import SeriesEstimator, SeriesTransformer, check_names
from skpolyode.transformers.input import (
    align_to_frozen,
    one_each,
    plain_sklearn,
    read_panel,
    refuse_missing,
    unchanged_by_errors,
)
from skpolyode.transformers.neural import NeuralTransformer, local_random_state

# With a few dozen series, the score depends on the split (ArrowHead, 36 series: accuracies of 0.75
# to 0.89). The split is repeated until MANY_SERIES predictions are tested, but at most this often.
_MOST_DEALS = 5
_CHUNK = 200_000  # rows of cut series per call of the transformer


class Given(NamedTuple):
    """Series that a head is fitted to, with an entry for each."""

    panel: Panel
    target: np.ndarray
    groups: np.ndarray | None
    weights: np.ndarray | None

    def at(self, kept: np.ndarray) -> Given:
        """The series that a mask keeps."""
        return Given(*(None if each is None else each[kept] for each in self))


def follows_ages(estimator: HeadEstimator) -> bool:
    """Whether there is a head for all ages; an AttributeError says how to get one."""
    if not estimator.n_cuts:
        raise AttributeError(
            f"answers along time need a head that knows series of all ages: fit "
            f"{type(estimator).__name__}(n_cuts=8)."
        )
    return True


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
    _ages: HeadEstimator  # a copy whose head also reads the age
    _age_unit: float

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
            Weight of each series, for the heads, their blend, the log loss that compares them and
            the default prediction. The training of the transformer is not weighted, nor is a
            `scoring` of yours. A series of weight 0 has no effect. None: equal weights.

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
            drop_empty(panel)  # an error if nothing is observed
            known = observed_series(panel)
            target = self._read_target(y, known)
            labels = None if groups is None else one_each(groups, panel, "groups")
            weights = None if sample_weight is None else read_weights(sample_weight, panel)
            if weights is not None and not (known := known & (weights > 0)).any():
                raise ValueError("sample_weight is zero for every series that has an observation.")
            given = Given(panel, target, labels, weights).at(known)
            given = given._replace(panel=drop_empty(given.panel))
            rng = local_random_state(self.random_state)
            seed = int(rng.randint(2**31 - 1))
            transformer = PolyODETransformer() if self.transformer is None else self.transformer
            is_probe = self.transformer is None and self.features == "auto"
            is_needed = self.transformer is not None or self.features not in ("auto", *UNTRAINED)
            first = transformer if is_needed else InterpolationTransformer()
            kinds = self._fit_transformer(first, given, seed)
            panel = credible_part(given.panel, self.scaler_.limits)
            given = given._replace(panel=panel).at(observed_series(panel))
            if (class_weight := getattr(self, "class_weight", None)) is not None:
                by_class = compute_sample_weight(class_weight, given.target)
                joint = by_class if weights is None else by_class * given.weights
                given = given._replace(weights=joint).at(joint > 0)  # a class may weigh nothing
            _, target, labels, weights = given
            self._learn_default(target, weights)
            classifies = is_classifier(self)
            # R² needs at least two series in each test part.
            n_folds = self.cv if classifies else min(self.cv, len(target) // 2)
            n_deals = int(np.clip(np.ceil(MANY_SERIES / len(target)), 1, _MOST_DEALS))
            spread = {"keep_single": classifies, "groups": labels}
            deals = [spread_folds(target, n_folds, rng, **spread) for _ in range(n_deals)]
            contest = Contest(target, deals, weights, classifies, self.scoring)
            self.fit_report_ = FitReport([])
            if is_probe:
                kinds.remove("coefficients")
            pool = self._competitors(kinds, given, contest, seed, " of lines" * is_probe)
            chosen = contest.choose(pool, blends=self.head is None)
            if is_probe and chosen.gain > chosen.error:
                self._report("probe", "a network is trained", chosen, "kinds without training")
                asked = self._fit_transformer(transformer, given, seed)
                kinds = [kind for kind in asked if kind not in UNTRAINED]
                pool += self._competitors(kinds, given, contest, seed)
                chosen = contest.choose(pool, blends=self.head is None)
            head, Z = self._take(chosen, pool)
            shares = ", ".join(f"{kind} {part:.2f}" for kind, part in self.weights_.items())
            others = "all kinds" if len(self.weights_) > 1 else "the others"
            self._report("features", shares, chosen, others)
            self.head_ = fitted(head, Z, target, weights)
            is_sure = self.head is not None and hasattr(self.head_, "predict_proba")
            self._calibrate(chosen, contest, is_sure=is_sure or isinstance(self.head_, Blend))
            self._fit_ages(head, given, rng)
        return self

    def _check_targets(self, y: Any, panel: Panel) -> None:
        """Raise a ValueError unless there is one target for each series, in their order."""
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        refuse_reordered(y, panel, "y")
        if (n_targets := _num_samples(y)) != panel.n_series:
            raise ValueError(
                f"y must have one entry for each of the {panel.n_series} series, got {n_targets}."
            )
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

    def _fit_transformer(self, transformer: Any, given: Given, seed: int) -> list[str]:
        """Train a transformer unless it is frozen; return the kinds of features to compare."""
        is_trained = isinstance(transformer, FrozenEstimator)
        transformer = transformer.estimator if is_trained else clone(transformer)
        name, panel = type(self).__name__, given.panel
        if not isinstance(transformer, SeriesTransformer):
            raise TypeError(
                f"transformer of {name} must be a transformer of series of this package, such as "
                f"PolyODETransformer(), got {transformer!r}."
            )
        suited = [kind for kind in FEATURES if FEATURES[kind].suits(panel)]
        asked = suited if self.features == "auto" else [self.features]
        kinds = [kind for kind in asked if FEATURES[kind].is_of(transformer)]
        if not kinds:
            has = "learns a state" if FEATURES[self.features].needs_state else "follows a path"
            raise ValueError(
                f"features={self.features!r} of {name} needs a transformer that {has}, and "
                f"{type(transformer).__name__} does not: choose another one, or "
                "features='coefficients'."
            )
        if not is_trained:
            parameters = transformer.get_params(deep=False)
            if self.random_state is not None and "random_state" in parameters:
                transformer.set_params(random_state=seed)
            is_held_out = given.groups is not None and isinstance(transformer, NeuralTransformer)
            options = {"groups": given.groups} if is_held_out else {}
            transformer.fit(panel if transformer.uses_static else without_static(panel), **options)
        self.transformer_ = transformer
        return kinds

    def _competitors(
        self, kinds: list[str], given: Given, contest: Contest, seed: int, path: str = ""
    ) -> list[Competitor]:
        """The best of each group of heads on each kind of features; `path` ends names of kinds."""
        panel, target, *_ = given
        static = [StaticFeatures()] if StaticEncoder.of_panel(panel) is not None else []
        best, grids = [], {}
        for kind in kinds:
            name = kind + path if FEATURES[kind].needs_path else kind
            own = FEATURES[kind].transformer(self.transformer_, panel, seed, self.head is not None)
            transformers = [own, *static]
            parts = [np.asarray(features_of(each, panel, grids), float) for each in transformers]
            for heads in self._heads(kind, target, seed):
                rivals = [Competitor(name, transformers, parts, head) for head in heads]
                if self.head is None or len(kinds) > 1:
                    rivals = [contest.entered(rival) for rival in rivals]
                for rival in rivals:
                    if rival.scores is not None and not np.isfinite(rival.scores).all():
                        raise ValueError(
                            f"scoring={self.scoring!r} of {type(self).__name__} gave "
                            f"{rival.scores.tolist()} for features={name!r}: choose another "
                            "scoring, or fewer folds by cv, so that it is defined on each of them."
                        )
                best.append(max(rivals, key=lambda rival: rival.score))
        return best

    def _take(self, chosen: Chosen, pool: list[Competitor]) -> tuple[Any, np.ndarray]:
        """Return the chosen head, unfitted, and its features (B, F); set what describes them."""
        members, self.cv_scores_, self.weights_ = chosen.members, {}, {}
        for each in pool:
            if each.scores is not None:
                before = self.cv_scores_.get(each.kind, -np.inf)
                self.cv_scores_[each.kind] = max(each.score, before)
        for each, share in zip(members, chosen.shares, strict=True):
            self.weights_[each.kind] = self.weights_.get(each.kind, 0.0) + float(share)
        self.features_ = " + ".join(self.weights_)
        by_kind = {each.kind: each for each in members}
        last = members[-1]  # static covariates of all kinds are the same
        parts = [each.parts[0] for each in by_kind.values()] + last.parts[1:]
        transformers = [each.transformers[0] for each in by_kind.values()] + last.transformers[1:]
        self.feature_transformer_ = transformers[0]
        if len(transformers) > 1:
            named = [(str(k), transformer) for k, transformer in enumerate(transformers)]
            self.feature_transformer_ = FeatureUnion(named)
        head = members[0].head
        if self.head is None and len(pool) > 1:
            stop = np.cumsum([part.shape[1] for part in parts]).tolist()
            blocks = dict(zip(by_kind, pairwise([0, *stop]), strict=False))
            kind = BlendedClassifier if is_classifier(self) else BlendedRegressor
            heads = [each.head for each in members]
            columns, constants = [blocks[each.kind] for each in members], chosen.constants
            head = kind(heads, columns, chosen.weights.tolist(), constants.tolist())
        return head, np.column_stack(parts)

    def _report(self, stage: str, outcome: str, chosen: Chosen, what: str) -> None:
        """Note a decision, and what features gain on summary statistics if several competed."""
        unit = "log loss" if is_classifier(self) else "R²"
        if self.scoring is not None:
            unit = self.scoring if isinstance(self.scoring, str) else "score"
        figures = {}
        if chosen.error > 0:
            outcome += (
                f": {what} gain {chosen.gain:.3f} ± {chosen.error:.3f} of {unit} on statistics"
            )
            figures = {"gain": chosen.gain, "standard_error": chosen.error}
        self.fit_report_.add(stage, outcome, **figures)

    def _heads(self, kind: str, target: np.ndarray, seed: int) -> list[list[Any]]:
        """Groups of heads, not fitted, of which the best on a kind of features competes."""
        if self.head is not None:
            return [[self.head]]
        return FEATURES[kind].heads(is_classifier(self), len(target), seed)

    def _calibrate(self, chosen: Chosen, contest: Contest, *, is_sure: bool) -> None:
        """Learn how sure the head is, unless it knows."""

    def _fit_ages(self, head: Any, given: Given, rng: np.random.RandomState) -> None:
        vars(self).pop("_ages", None)
        if not self.n_cuts:
            return
        panel, target, groups, weights = given
        n_series, n_cuts = panel.n_series, self.n_cuts
        # One random cut in each of `n_cuts` equal parts of the duration; the last is at the end.
        share = (np.arange(n_cuts) + rng.uniform(size=(n_series, n_cuts))) / n_cuts
        times = panel.start[:, None] + share * (panel.end - panel.start)[:, None]
        times[:, -1] = panel.end
        series = np.repeat(np.arange(n_series), n_cuts)
        stop = _rows_until(panel, times.ravel(), np.arange(n_series + 1) * n_cuts)
        age = panel.elapsed[stop - 1]
        ages = copy(self)
        each = None if weights is None else weights[series]  # all series have as many cuts
        centre = np.average(age, weights=each)
        ages._age_unit = float(np.sqrt(np.average((age - centre) ** 2, weights=each))) or 1.0
        Z, target = ages._aged(panel, series, stop), target[series]
        groups = np.arange(n_series) if groups is None else groups
        ages.head_ = fitted(head, Z, target, each)
        # Cuts of a series are similar: a head that counts each of them as a series is too sure.
        spread = {"keep_single": is_classifier(self), "groups": groups[series]}
        deals = [spread_folds(target, self.cv, rng, **spread)]
        contest = Contest(target, deals, each, is_classifier(self))
        only = Chosen([Competitor("", [], [Z], head)], np.ones(1), np.zeros(1), np.ones(1))
        ages._calibrate(only, contest, is_sure=False)
        self._ages = ages

    def _aged(self, panel: Panel, series: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """Features (Q, F + 1) of series (Q,) cut before rows `stop` (Q,); the last is the age."""
        start = panel.offsets[series]
        lengths = stop - start
        if panel.inputs is not None:
            lengths = lengths + panel.inputs.panel.lengths[series]
        cuts = (take(panel, series[k], start[k], stop[k]) for k in series_chunks(lengths, _CHUNK))
        parts = [self.feature_transformer_.transform(without_later(cut)) for cut in cuts]
        return self._with_age(parts, panel.elapsed[stop - 1])

    def _with_age(self, parts: Sequence[Any], age: np.ndarray) -> np.ndarray:
        return np.column_stack([np.concatenate(parts), age / self._age_unit])

    @plain_sklearn()
    def _along(
        self, X: Any, times: Any, relative_to: str | None, default: np.ndarray, names: Sequence[str]
    ) -> Panel:
        """Panel of predictions at times; `default` (1, K) before the first observation."""
        if hasattr(X, "outline"):
            return self._of_stream(X, times, names)
        panel = observed_part(read_panel(self, X, reset=False))
        flat, offsets = panel.times, panel.offsets
        if times is not None:
            flat, offsets = query_times(panel, times, relative_to)
        stop, series = _rows_until(panel, flat, offsets), series_index(offsets)
        begun = stop > panel.offsets[series]
        values = np.repeat(default, len(flat), axis=0)
        if begun.any():  # constant between observations: compute each once
            known, first, place = np.unique(stop[begun], return_index=True, return_inverse=True)
            Z = self._ages._aged(panel, series[begun][first], known)
            values[begun] = self._ages._answer(Z).reshape(len(Z), -1)[place]
        return _with_channels(panel, names).like(flat, values, offsets)

    def _of_stream(self, stream: Any, times: Any, names: Sequence[str]) -> Panel:
        """Predictions for the series of a stream, each at its last observation."""
        kinds = getattr(getattr(self.transformer_.embedder_, "inputs", None), "kinds", ())
        if times is not None or self.features_ != "coefficients" or "linear" in kinds:
            raise ValueError(
                "a stream knows the embedding of its series at their last observations: leave "
                f"times out, fit with features='coefficients' (these are {self.features_!r}), and "
                "without inputs of the kind 'linear', which streams read up to the next point."
            )
        ends, features = stream.outline(), [stream.embedding()]
        if isinstance(self.feature_transformer_, FeatureUnion):
            (_, (_, static)) = self.feature_transformer_.transformer_list
            features.append(static.transform(ends))
        Z = self._ages._with_age([np.column_stack(features)], ends.end - ends.start)
        rows = ends.offsets[1:] - 1
        values = self._ages._answer(Z).reshape(len(Z), -1)
        return _with_channels(ends, names).like(ends.times[rows], values, np.arange(len(rows) + 1))

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

    @plain_sklearn()
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


def _rows_until(panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Position (Q,) in the panel of the first row after each time."""
    return rows_until(panel.times, panel.offsets, times, offsets) + 1


def _with_channels(panel: Panel, names: Sequence[str]) -> Panel:
    """The series without rows, with channels `names`."""
    rows = panel.without_rows().rows
    cells = np.empty((0, len(names)))
    named = {"channel_names": tuple(names), "has_channel_names": True}
    rows = replace(rows, values=cells, beside={}, inputs=None, **named)
    return Panel.from_rows(rows, checked=False)


def read_weights(values: Any, panel: Panel) -> np.ndarray:
    """Check weights (n_series,) of series, and scale them to a maximum of 1."""
    refuse_reordered(values, panel, "sample_weight")
    try:
        weights = np.asarray(unmasked(values), dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"sample_weight must hold one number for each series, got {plain_repr(values)}."
        ) from None
    weights = one_each(weights, panel, "sample_weight", missing="no weight")
    wrong = ~((weights >= 0) & (weights < np.inf))
    if wrong.any():
        first = int(np.argmax(wrong))
        raise ValueError(
            f"sample_weight of {Faults('X', panel.ids).series(first)} is {weights[first]:g} "
            f"({int(wrong.sum())} such series): give finite numbers of 0 or more."
        )
    if not weights.any():
        raise ValueError("sample_weight is zero for all series: there is nothing to learn from.")
    return weights / weights.max()
