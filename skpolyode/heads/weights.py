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
    name, inner = _weighted(head)
    if not takes_weights(head):
        raise ValueError(
            f"the head {type(inner).__name__} takes no sample_weight in fit: choose another head, "
            "or leave out sample_weight and class_weight."
        )
    return {name: weights}


def takes_weights(head: Any) -> bool:
    """Whether `fit` of a head can use weights of series."""
    return has_fit_parameter(_weighted(head)[1], "sample_weight")


def _weighted(head: Any) -> tuple[str, Any]:
    """Name of the weights in `fit` of a head, and the part of it that would use them."""
    name, last = "sample_weight", head
    while hasattr(last, "steps"):
        step, last = last.steps[-1]
        name = f"{step}__{name}"
    return name, getattr(last, "regressor", last)  # of a transformed target
