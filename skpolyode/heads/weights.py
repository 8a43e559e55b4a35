"""Weights of series, as the heads of scikit-learn take them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import has_fit_parameter


def series_weights(
    target: np.ndarray, sample_weight: np.ndarray | None, class_weight: Any
) -> np.ndarray | None:
    """Weights (B,) of series: their own times those of their classes; None if all count alike."""
    if class_weight is None:
        return sample_weight
    own = compute_sample_weight(class_weight, target)
    return own if sample_weight is None else own * sample_weight


def fit_parameters(head: Any, weights: np.ndarray | None) -> dict[str, np.ndarray]:
    """What `fit` of a head is given, besides features and targets, so that weights arrive.

    Raises
    ------
    ValueError
        If the head cannot use weights.
    """
    if weights is None:
        return {}
    name, last = "sample_weight", head
    while hasattr(last, "steps"):
        step, last = last.steps[-1]
        name = f"{step}__{name}"
    inner = getattr(last, "regressor", last)  # of a transformed target
    if not has_fit_parameter(inner, "sample_weight"):
        raise ValueError(
            f"the head {type(inner).__name__} takes no sample_weight in fit: choose another head, "
            "or leave out sample_weight and class_weight."
        )
    return {name: weights}
