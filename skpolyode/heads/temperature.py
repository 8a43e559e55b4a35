"""Scores of classes as probabilities, without a change of their order."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

__all__ = ["fit_temperature", "probabilities"]

_LOG_RANGE = (-7.0, 7.0)  # of the temperature


def probabilities(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities (B, K) of scores (B, K), or (B,) of the second of two classes."""
    return softmax(_of_classes(scores) / temperature, axis=1)


def fit_temperature(scores: np.ndarray, label: np.ndarray) -> float:
    """Temperature with the least log loss of series that were not learned from.

    As in Platt's scaling the targets are not quite 0 and 1, but what as many series can tell:
    else scores without an error would get a temperature of zero.

    Parameters
    ----------
    scores : ndarray of shape (n_series, n_classes) or (n_series,)
        Scores, of the second class if there are two.
    label : int ndarray of shape (n_series,)
        Number of the class of each series.

    Returns
    -------
    float
    """
    scores = _of_classes(scores)
    n_series, n_classes = scores.shape
    target = np.full(scores.shape, 1 / (n_series + n_classes))
    target[np.arange(n_series), label] += n_series / (n_series + n_classes)

    def loss(log_temperature: float) -> float:
        return -float(np.mean(target * log_softmax(scores * np.exp(-log_temperature), axis=1)))

    return float(np.exp(minimize_scalar(loss, bounds=_LOG_RANGE, method="bounded").x))


def _of_classes(scores: np.ndarray) -> np.ndarray:
    return scores if scores.ndim == 2 else np.column_stack([np.zeros_like(scores), scores])
