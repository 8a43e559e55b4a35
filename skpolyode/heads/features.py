"""The kinds of features that a head can read, MiniRocket's among them, and their default heads."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from skpolyode.heads.contest import SIMPLE
from skpolyode.panel import Panel
from skpolyode.panel.select import typical_gap
from skpolyode.panel.units import ChannelScaler
from skpolyode.threads import one_thread
from skpolyode.transformers import (
    HiPPOTransformer,
    Resampler,
    StaticFeatures,
    SummaryStatsTransformer,
)
from skpolyode.transformers.base import SeriesTransformer


def has_minirocket() -> bool:
    """Whether MiniRocket can run here."""
    return all(find_spec(package) is not None for package in ("numba", "sktime"))


class MiniRocket(TransformerMixin, BaseEstimator):
    """Features of the shapes of regular series: sktime's MiniRocket, for scikit-learn's pipelines.

    It wraps `MiniRocketMultivariate`: newer pipelines of scikit-learn set an attribute of their
    steps, which sktime's estimators lose when they are fitted.

    Use it after a `Resampler`, with a linear head. It needs numba, which takes about 20 seconds to
    compile on first use.

    Parameters
    ----------
    num_kernels : int, default=10000
        Approximate number of features. Lower it for many series.
    random_state : int or None, default=None
        Seed of the biases, and of the channels of each kernel.

    Attributes
    ----------
    rocket_ : sktime.transformations.panel.rocket.MiniRocketMultivariate
        The fitted transformer of sktime.

    References
    ----------
    A. Dempster, D. F. Schmidt and G. I. Webb, "MiniRocket: a very fast (almost) deterministic
    transform for time series classification", KDD 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.heads import MiniRocket
    >>> X = np.random.default_rng(0).normal(size=(4, 2, 32))  # series, channel, time
    >>> MiniRocket(num_kernels=168, random_state=0).fit_transform(X).shape
    (4, 168)
    """

    def __init__(self, *, num_kernels: int = 10_000, random_state: int | None = None) -> None:
        self.num_kernels = num_kernels
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: Any = None) -> Self:
        """Choose kernels.

        Parameters
        ----------
        X : ndarray of shape (n_series, n_channels, n_times)
            Series of nine times or more.
        y : None, default=None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        ModuleNotFoundError
            If numba or sktime is not installed.
        """
        # Imported here: `import skpolyode` does not load sktime.
        from sktime.transformations.panel.rocket import MiniRocketMultivariate

        rocket = MiniRocketMultivariate(self.num_kernels, random_state=self.random_state)
        with one_thread():  # numba resets the number of torch threads when it starts
            self.rocket_ = rocket.fit(X)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Share of the times at which each kernel responds.

        Parameters
        ----------
        X : ndarray of shape (n_series, n_channels, n_times)
            Series, as long as those of `fit`.

        Returns
        -------
        float64 ndarray of shape (n_series, n_features)
        """
        check_is_fitted(self)
        with one_thread():
            return self.rocket_.transform(X).to_numpy(dtype=np.float64)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore with writable arrays: compiled code rejects the read-only ones of joblib."""
        super().__setstate__(state)
        if hasattr(self, "rocket_"):
            self.rocket_.parameters = tuple(map(np.array, self.rocket_.parameters))


MANY_SERIES = 200
"""From this number of series on, boosted trees compete and one split into folds is enough."""

N_TREES = 100
"""Number of trees of a forest."""

MOST_SERIES = 2000
"""Up to this number of series, kinds on a grid of the path compete: their heads are slow."""

N_COEFFICIENTS = 8
"""Coefficients of each channel of the memory without training."""

_LEAST_AMPLITUDE = 1e-3  # of a spectrum, in deviations of a channel

# Fewest and most grid points: MiniRocket on "path" needs 9; each point of "clock" is a feature.
_PATH_POINTS, _CLOCK_POINTS = (32, 512), (32, 128)


class FeatureKind(NamedTuple):
    """How one kind of features is computed from a transformer, and its default heads.

    `transformer(fitted, panel, seed, fills)` returns an unfitted transformer that may wrap a fitted
    one; with `fills` its features are never missing. `heads(classifies, n_series, seed)` returns
    groups of heads, classifiers or regressors: the best of each group competes. `suits(panel)`
    returns whether "auto" tries this kind.
    """

    transformer: Callable[[SeriesTransformer, Panel, int, bool], Any]
    heads: Callable[[bool, int, int], list[list[Any]]]
    needs_path: bool = False
    needs_state: bool = False
    suits: Callable[[Panel], bool] = lambda _: True

    def is_of(self, transformer: SeriesTransformer) -> bool:
        """Whether a transformer has what the features are made of."""
        has_state = getattr(transformer, "_state_size", 0) > 0
        return (transformer.has_path or not self.needs_path) and (has_state or not self.needs_state)


def features_of(transformer: Any, panel: Panel, grids: dict[Any, Any]) -> Any:
    """Features of series; a grid of the path that several kinds read is computed once."""
    if isinstance(transformer, FrozenEstimator):
        return transformer.transform(panel)
    if isinstance(transformer, StaticFeatures):
        return transformer.fit_transform(panel)
    (name, resampler), *_ = transformer.steps
    key = resampler.n_points, resampler.relative_to
    if key not in grids:
        grids[key] = resampler.fit(panel), resampler.transform(panel)
    transformer.steps[0] = name, grids[key][0]
    return transformer[1:].fit_transform(grids[key][1])


def without_static(panel: Panel) -> Panel:
    """The same series without their static covariates."""
    rows = replace(panel.rows, static=None)
    return Panel.from_rows(rows, panel.is_checked, panel.is_observed)


class ScaledTarget(RegressorMixin, BaseEstimator):
    """Fit a regressor to the standardised target; weights also apply to its mean and scale."""

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, Z: np.ndarray, target: np.ndarray, sample_weight: Any = None) -> Self:
        """Fit a clone of the regressor."""
        self.scaler_ = StandardScaler().fit(target[:, None], sample_weight=sample_weight)
        scaled = self.scaler_.transform(target[:, None])[:, 0]
        self.regressor_ = clone(self.regressor).fit(Z, scaled, sample_weight=sample_weight)
        return self

    def predict(self, Z: np.ndarray) -> np.ndarray:
        """Targets (B,)."""
        return self.scaler_.inverse_transform(self.regressor_.predict(Z)[:, None])[:, 0]


# Heads and pipelines are imported where they are used: `import skpolyode` would otherwise take a
# fifth longer.


def _support_vectors(classifies: bool, n_series: int, seed: int) -> list[list[Any]]:
    from sklearn.svm import SVC, SVR

    strengths = (10.0, 1.0, 100.0)
    if classifies:  # break_ties: predict the class with the largest score
        return [[SVC(C=C, break_ties=True) for C in strengths]]
    # C and epsilon are in units of the target, hence its standardisation.
    return [[ScaledTarget(SVR(C=C)) for C in strengths]]


def _from_start(fitted: SeriesTransformer, panel: Panel) -> Resampler:
    """The path from the first observation of each series on, about one point per typical gap."""
    n_points = _n_points(float((panel.end - panel.start).max()), panel, _PATH_POINTS)
    return Resampler(FrozenEstimator(fitted), n_points=n_points)


def _path(fitted: SeriesTransformer, panel: Panel, seed: int, fills: bool) -> Any:
    """The path on a regular grid with about one point per typical gap, then MiniRocket."""
    from sklearn.pipeline import make_pipeline

    resampler = _from_start(fitted, panel)
    if has_minirocket():
        return make_pipeline(resampler, MiniRocket(random_state=seed))
    warnings.warn(
        "MiniRocket needs numba and sktime, and one is not installed: features='path' are the "
        "values of the path themselves, with the head of features='coefficients'. Install "
        "skpolyode[classify], or choose other features.",
        stacklevel=4,  # whoever called `fit`
    )
    return _values_of(resampler)


def _on_clock(panel: Panel) -> Panel:
    """The series at absolute times."""
    return panel.like(panel.times, panel.values, panel.offsets)


def _n_points(span: float, panel: Panel, bounds: tuple[int, int]) -> int:
    """Number of grid points in `span`: about one per typical gap, within `bounds`."""
    return int(np.clip(np.ceil(span / typical_gap(panel)) + 1, *bounds))


def _clock(fitted: SeriesTransformer, panel: Panel, seed: int, fills: bool) -> Any:
    """Standardised values of the path at absolute times that all series share."""
    panel = _on_clock(panel)
    span = float(panel.end.max() - panel.start.min())
    n_points = _n_points(span, panel, _CLOCK_POINTS)
    resampler = Resampler(FrozenEstimator(fitted), n_points=n_points, relative_to=None)
    return _values_of(resampler, fitted.scaler_)


def _has_time_for_grids(panel: Panel) -> bool:
    return panel.n_series <= MOST_SERIES


def _has_clock(panel: Panel) -> bool:
    """Whether series end at different times and the median one spans half of the total time.

    Dates without a common origin are no clock. If all series end together, the embedding knows the
    time, as it looks back from the end.
    """
    if not _has_time_for_grids(panel):
        return False
    panel = _on_clock(panel)
    start, end = panel.start, panel.end
    return np.ptp(end) > 0 and np.median(end - start) >= (end.max() - start.min()) / 2


def _values_of(resampler: Resampler, scaler: ChannelScaler | None = None) -> Any:
    """All values of a grid as features; see `_flat`."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    return make_pipeline(resampler, FunctionTransformer(_flat, kw_args={"scaler": scaler}))


def _flat(grids: np.ndarray, scaler: ChannelScaler | None = None) -> np.ndarray:
    """Flatten grids (B, D, N) to rows (B, D * N), standardised if there is a scaler."""
    rows = grids if scaler is None else scaler.transform(np.moveaxis(grids, 1, -1))
    return rows.reshape(len(grids), -1)


def _ridge(classifies: bool, n_series: int, seed: int) -> list[list[Any]]:
    from sklearn.linear_model import RidgeClassifierCV, RidgeCV
    from sklearn.pipeline import make_pipeline

    if not has_minirocket():
        return _support_vectors(classifies, n_series, seed)
    ridge = RidgeClassifierCV if classifies else RidgeCV
    # Features of MiniRocket are shares of time: their zero means something, their scale does not.
    scaler = StandardScaler(with_mean=False)
    return [[make_pipeline(scaler, ridge(alphas=np.logspace(-3, 3, 10)))]]


def _summary(fitted: SeriesTransformer, panel: Panel, seed: int, fills: bool) -> Any:
    # Fitted here on the series alone: with static covariates it would warn that it ignores them.
    summary = SummaryStatsTransformer(missing="mean" if fills else "nan")
    return FrozenEstimator(summary.fit(without_static(panel)))


def _memory(fitted: SeriesTransformer, panel: Panel, seed: int, fills: bool) -> Any:
    memory = HiPPOTransformer(n_coefficients=N_COEFFICIENTS, measure="legs")
    return FrozenEstimator(memory.fit(without_static(panel)))


def _state(fitted: SeriesTransformer, panel: Panel, seed: int, fills: bool) -> Any:
    """The learned state alone: a copy of the transformer whose embedding it is."""
    state = copy(fitted)
    state.embedder_ = replace(fitted.embedder_, blocks=("state",))
    return FrozenEstimator(state)


def _spectrum(fitted: SeriesTransformer, panel: Panel, seed: int, fills: bool) -> Any:
    """Logarithms of the amplitudes of the path: series that differ in phase alone have the same."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    resampler = _from_start(fitted, panel)
    options = {"scale": fitted.scaler_.scale}
    return make_pipeline(resampler, FunctionTransformer(_amplitudes, kw_args=options))


def _amplitudes(grids: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Logarithms (B, D * N) of amplitudes, in deviations of a channel, but for the mean."""
    standardised = (grids - grids.mean(axis=-1, keepdims=True)) / scale[:, None]
    amplitudes = np.abs(np.fft.rfft(standardised, axis=-1))[..., 1:]
    return np.log(amplitudes + _LEAST_AMPLITUDE).reshape(len(grids), -1)


def _trees(classifies: bool, n_series: int, seed: int) -> list[Any]:
    """Extremely random trees, and boosted ones of many series; both take missing features."""
    from sklearn import ensemble

    kind = "Classifier" if classifies else "Regressor"
    options = {"n_estimators": N_TREES, "min_samples_leaf": 3, "random_state": seed}
    groups = [[getattr(ensemble, f"ExtraTrees{kind}")(**options)]]
    if n_series >= MANY_SERIES:  # boosting needs twenty series per leaf
        options = {"learning_rate": 0.05, "max_iter": 150, "max_leaf_nodes": 8}
        boosting = getattr(ensemble, f"HistGradientBoosting{kind}")
        groups.append([boosting(**options, random_state=seed)])
    return groups


def _simple(classifies: bool, n_series: int, seed: int) -> list[list[Any]]:
    """Trees, and a linear model of the ranks."""
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import QuantileTransformer

    ranks = QuantileTransformer(
        n_quantiles=min(100, n_series // 2 or 1), output_distribution="normal", random_state=seed
    )
    linear = LogisticRegression(C=0.01, max_iter=300) if classifies else ScaledTarget(Ridge(100.0))
    filled = SimpleImputer(add_indicator=True, keep_empty_features=True)
    return [*_trees(classifies, n_series, seed), [make_pipeline(filled, ranks, linear)]]


def _vectors_and_trees(classifies: bool, n_series: int, seed: int) -> list[list[Any]]:
    return [*_support_vectors(classifies, n_series, seed), *_trees(classifies, n_series, seed)[:1]]


FEATURES = {
    SIMPLE: FeatureKind(_summary, _simple),
    "memory": FeatureKind(_memory, _support_vectors),
    "coefficients": FeatureKind(lambda fitted, *_: FrozenEstimator(fitted), _vectors_and_trees),
    "state": FeatureKind(_state, _support_vectors, needs_state=True),
    "path": FeatureKind(_path, _ridge, needs_path=True, suits=_has_time_for_grids),
    "clock": FeatureKind(_clock, _support_vectors, needs_path=True, suits=_has_clock),
    "spectrum": FeatureKind(
        _spectrum, _vectors_and_trees, needs_path=True, suits=_has_time_for_grids
    ),
}
"""The kinds of features by name."""

UNTRAINED = (SIMPLE, "memory")
"""Kinds that do not read the transformer."""
