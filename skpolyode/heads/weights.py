"""Weights of series, for heads of scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import has_fit_parameter

from skpolyode.errors import Faults, plain_repr
from skpolyode.panel import Panel
from skpolyode.panel.cells import unmasked
from skpolyode.panel.selection import refuse_reordered
from skpolyode.transformers.input import one_each


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


def series_weights(
    target: np.ndarray, sample_weight: np.ndarray | None, class_weight: Any
) -> np.ndarray | None:
    """Sample weights times class weights (B,); None if all are equal."""
    if class_weight is None:
        return sample_weight
    by_class = compute_sample_weight(class_weight, target)
    return by_class if sample_weight is None else by_class * sample_weight


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
