"""The kinds of features that a head can read, and the default heads for each kind."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator

from skpolyode.heads.minirocket import MiniRocket, has_minirocket
from skpolyode.heads.weights import ScaledTarget
from skpolyode.panel import Panel
from skpolyode.panel.durations import typical_gap
from skpolyode.panel.units import ChannelScaler
from skpolyode.transformers import Resampler, SummaryStatsTransformer
from skpolyode.transformers.base import SeriesTransformer

MANY_SERIES = 200
"""From this number of series on, boosted trees compete and one deal of folds is enough."""

N_TREES = 200
"""Of a forest on summary statistics."""

# Fewest and most points of grids: of "path" MiniRocket needs 9, of "clock" each is a feature.
_PATH_POINTS, _CLOCK_POINTS = (32, 512), (32, 128)


class FeatureKind(NamedTuple):
    """How features of one kind are made from a transformer, and what learns from them.

    `transformer(fitted, panel, seed)` returns a transformer that is not fitted, around one
    that is. `heads(classifies, n_series, seed)` returns the heads that compete,
    classifiers or regressors, the default one first. `suits(panel)` says whether they compete.
    """

    transformer: Callable[[SeriesTransformer, Panel, int], Any]
    heads: Callable[[bool, int, int], list[Any]]
    needs_path: bool = False
    suits: Callable[[Panel], bool] = lambda _: True


def without_static(panel: Panel) -> Panel:
    """The same series without their static covariates."""
    rows = replace(panel.rows, static=None)
    return Panel.from_rows(rows, panel.is_checked, panel.is_observed)


# Heads and pipelines are imported where they are made: otherwise `import skpolyode` would take a
# fifth longer.


def _support_vectors(classifies: bool, n_series: int, seed: int) -> list[Any]:
    from sklearn.svm import SVC, SVR

    strengths = (10.0, 1.0, 100.0)
    if classifies:  # with broken ties the prediction is the class of the largest score
        return [SVC(C=C, break_ties=True) for C in strengths]
    # C and the width of the tube are in units of the target, hence its standardisation.
    return [ScaledTarget(SVR(C=C)) for C in strengths]


def _path(fitted: SeriesTransformer, panel: Panel, seed: int) -> Any:
    """The path on a regular grid with about a point for each typical gap, then MiniRocket."""
    from sklearn.pipeline import make_pipeline

    n_points = _n_points(float((panel.end - panel.start).max()), panel, _PATH_POINTS)
    resampler = Resampler(FrozenEstimator(fitted), n_points=n_points)
    if has_minirocket():
        return make_pipeline(resampler, MiniRocket(random_state=seed))
    warnings.warn(
        "MiniRocket needs numba and sktime, which are not installed: features='path' are the "
        "values of the path themselves, with the head of features='coefficients'. Install "
        "skpolyode[classify], or choose other features.",
        stacklevel=4,  # whoever called `fit`
    )
    return _values_of(resampler)


def _on_clock(panel: Panel) -> Panel:
    """The series on the clock of the user."""
    return panel.like(panel.times, panel.values, panel.offsets)


def _n_points(span: float, panel: Panel, bounds: tuple[int, int]) -> int:
    """About one for each typical gap."""
    return int(np.clip(np.ceil(span / typical_gap(panel)) + 1, *bounds))


def _clock(fitted: SeriesTransformer, panel: Panel, seed: int) -> Any:
    """Values of the path at times that all series have in common, channels in the same units."""
    panel = _on_clock(panel)
    span = float(panel.end.max() - panel.start.min())
    n_points = _n_points(span, panel, _CLOCK_POINTS)
    resampler = Resampler(FrozenEstimator(fitted), n_points=n_points, relative_to=None)
    return _values_of(resampler, fitted.scaler_)


def _has_clock(panel: Panel) -> bool:
    """Whether most of the series fill most of the time, but do not end together.

    Dates without a common origin are no clock. If series end together, the embedding, which looks
    back from the end, knows it.
    """
    panel = _on_clock(panel)
    start, end = panel.start, panel.end
    return np.ptp(end) > 0 and np.median(end - start) >= (end.max() - start.min()) / 2


def _values_of(resampler: Resampler, scaler: ChannelScaler | None = None) -> Any:
    """All values of a grid as features; see `_flat`."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    return make_pipeline(resampler, FunctionTransformer(_flat, kw_args={"scaler": scaler}))


def _flat(grids: np.ndarray, scaler: ChannelScaler | None = None) -> np.ndarray:
    """Grids (B, D, N) as rows, standardised by a scaler."""
    rows = grids if scaler is None else scaler.transform(np.moveaxis(grids, 1, -1))
    return rows.reshape(len(grids), -1)


def _ridge(classifies: bool, n_series: int, seed: int) -> list[Any]:
    from sklearn.linear_model import RidgeClassifierCV, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if not has_minirocket():
        return _support_vectors(classifies, n_series, seed)
    ridge = RidgeClassifierCV if classifies else RidgeCV
    # Features of MiniRocket are shares of time: their zero means something, their scale does not.
    scaler = StandardScaler(with_mean=False)
    return [make_pipeline(scaler, ridge(alphas=np.logspace(-3, 3, 10)))]


def _summary(fitted: SeriesTransformer, panel: Panel, seed: int) -> Any:
    # Fitted here on the series alone: with static covariates it would warn that it ignores them.
    return FrozenEstimator(SummaryStatsTransformer().fit(without_static(panel)))


def _trees(classifies: bool, n_series: int, seed: int) -> list[Any]:
    from sklearn import ensemble

    kind = "Classifier" if classifies else "Regressor"
    trees = getattr(ensemble, f"ExtraTrees{kind}")(n_estimators=N_TREES, random_state=seed)
    if n_series < MANY_SERIES:  # boosting wants twenty series for each leaf
        return [trees]
    return [trees, getattr(ensemble, f"HistGradientBoosting{kind}")(random_state=seed)]


FEATURES = {
    "coefficients": FeatureKind(lambda fitted, *_: FrozenEstimator(fitted), _support_vectors),
    "path": FeatureKind(_path, _ridge, needs_path=True),
    "summary": FeatureKind(_summary, _trees),
    "clock": FeatureKind(_clock, _support_vectors, needs_path=True, suits=_has_clock),
}
"""The kinds of features by name, the preferred one first."""
