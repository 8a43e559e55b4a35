"""How the benchmarks score an embedding: the paper's downstream network, and reconstruction.

A classifier or regressor is an MLP of 32 ReLU units on the frozen, unstandardised embedding,
trained by Adam (1e-3, batches of 128) for at most 1000 epochs, with patience 50 and the best
weights on the validation part. `label_regression_mse` (regressing the unthresholded label) is what
the paper's tables call "Reconstruction" for the synthetic sets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.metrics import roc_auc_score
from sklearn.utils import Bunch

from skpolyode.panel import Panel

PAPER_WINDOW = 5.0
_N_HIDDEN = 32
_BATCH = 128


class Downstream(NamedTuple):
    auc: float
    label_regression_mse: float


def downstream(embedding: np.ndarray, data: Bunch, seed: int = 0) -> Downstream:
    """Test AUC of the label and test MSE of its unthresholded value, from an embedding."""
    return Downstream(label_auc(embedding, data, seed), label_regression_mse(embedding, data, seed))


def label_auc(embedding: np.ndarray, data: Bunch, seed: int = 0) -> float:
    test = np.asarray(data.split) == "test"
    logits = fit_mlp(embedding, data.y, data.split, CROSS_ENTROPY, seed)
    return float(roc_auc_score(data.y[test], logits[test]))


def label_regression_mse(embedding: np.ndarray, data: Bunch, seed: int = 0) -> float:
    test = np.asarray(data.split) == "test"
    values = fit_mlp(embedding, data.label_value, data.split, SQUARED_ERROR, seed)
    return float(np.mean((values[test] - data.label_value[test]) ** 2))


class Loss(NamedTuple):
    """Loss of each output, and its slope in the output."""

    value: Callable[[np.ndarray, np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray, np.ndarray], np.ndarray]


CROSS_ENTROPY = Loss(
    lambda logit, y: np.logaddexp(0, logit) - y * logit, lambda logit, y: expit(logit) - y
)
SQUARED_ERROR = Loss(lambda output, y: (output - y) ** 2, lambda output, y: 2 * (output - y))


class MLP:
    """One hidden layer of ReLU units and its gradient, all weights views of one flat vector.

    Written out because it is trained thousands of times on tiny batches, where the overhead of
    a framework is nine tenths of the time.
    """

    def __init__(self, n_inputs: int, rng: np.random.RandomState) -> None:
        self.shapes = ((n_inputs, _N_HIDDEN), (_N_HIDDEN,), (_N_HIDDEN,), (1,))
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        # Uniform with the width 1/sqrt(inputs) of each layer, as torch.nn.Linear starts.
        bounds = np.repeat([n_inputs, n_inputs, _N_HIDDEN, _N_HIDDEN], sizes) ** -0.5
        self.weights = rng.uniform(-bounds, bounds).astype(np.float32)
        self.gradient = np.zeros_like(self.weights)

    def views(self, flat: np.ndarray) -> list[np.ndarray]:
        ends = np.cumsum([np.prod(shape) for shape in self.shapes])[:-1]
        return [
            part.reshape(shape)
            for part, shape in zip(np.split(flat, ends), self.shapes, strict=True)
        ]

    def predict(self, X: np.ndarray) -> np.ndarray:
        w, b, v, a = self.views(self.weights)
        return np.maximum(X @ w + b, 0) @ v + a

    def differentiate(self, X: np.ndarray, y: np.ndarray, loss: Loss) -> np.ndarray:
        """Gradient of the mean loss, in `gradient`."""
        w, b, v, a = self.views(self.weights)
        to_w, to_b, to_v, to_a = self.views(self.gradient)
        hidden = np.maximum(X @ w + b, 0)
        slope = loss.slope(hidden @ v + a, y) / np.float32(len(y))
        np.matmul(slope, hidden, out=to_v)
        to_a[0] = slope.sum()
        slope = np.multiply.outer(slope, v) * (hidden > 0)
        np.matmul(X.T, slope, out=to_w)
        slope.sum(axis=0, out=to_b)
        return self.gradient


class Adam:
    def __init__(self, weights: np.ndarray, rate: float = 1e-3) -> None:
        self.weights, self.rate, self.n_steps = weights, rate, 0
        self.mean, self.square = np.zeros_like(weights), np.zeros_like(weights)

    def step(self, gradient: np.ndarray) -> None:
        self.n_steps += 1
        self.mean += np.float32(0.1) * (gradient - self.mean)
        self.square += np.float32(0.001) * (gradient * gradient - self.square)
        rate = np.float32(self.rate / (1 - 0.9**self.n_steps))
        unbias = np.float32((1 - 0.999**self.n_steps) ** -0.5)
        self.weights -= rate * self.mean / (np.sqrt(self.square) * unbias + np.float32(1e-8))


def fit_mlp(
    X: np.ndarray, y: np.ndarray, split: np.ndarray, loss: Loss, seed: int, patience: int = 50
) -> np.ndarray:
    """Outputs for all rows of the network that is best on the validation part."""
    X, y, split = np.asarray(X, np.float32), np.asarray(y, np.float32), np.asarray(split)
    rng = np.random.RandomState(seed)
    net = MLP(X.shape[1], rng)
    adam = Adam(net.weights)
    rows, validation = np.flatnonzero(split == "train"), split == "validation"
    best, best_loss, waited = net.weights.copy(), np.inf, 0
    for _ in range(1000):
        rng.shuffle(rows)
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            adam.step(net.differentiate(X[batch], y[batch], loss))
        now = loss.value(net.predict(X[validation]), y[validation]).mean()
        waited += 1
        if now < best_loss:
            best, best_loss, waited = net.weights.copy(), now, 0
        if waited > patience:
            break
    net.weights[:] = best
    return net.predict(X)


class Reconstruction(NamedTuple):
    observed: float
    held_out: float


def reverse_reconstruction(
    estimator: Any, data: Bunch, window: float = PAPER_WINDOW
) -> Reconstruction:
    """MSE of the past rebuilt from the embedding of the test series, in units of the variance.

    Over the last window of each series, from its first observation on: at its own observations,
    and at the grid times of the truth where it was not observed.
    """
    test = np.asarray(data.split) == "test"
    panel, scale = data.panel[test], data.panel.values.std(axis=0)
    errors = (
        reconstruction_mse(estimator, panel, targets, scale, window)
        for targets in (panel, held_out_truth(data, test))
    )
    return Reconstruction(*errors)


def held_out_truth(data: Bunch, series: np.ndarray) -> Panel:
    """True values of the channels of some series at the times where they were not observed."""
    truth = data.truth
    held_out = truth.heldout[series]
    times = np.broadcast_to(truth.times, held_out.shape)[held_out]
    values = truth.values[series][:, :, truth.observed][held_out]
    return data.panel[series].like(times, values, np.append(0, held_out.sum(axis=1).cumsum()))


def reconstruction_mse(
    estimator: Any, panel: Panel, targets: Panel, scale: np.ndarray, window: float
) -> float:
    """MSE of what the memory of each series says about the values of `targets` in its window."""
    return float(np.nanmean(past_errors(estimator, panel, targets, scale, window).squares))


class PastErrors(NamedTuple):
    """Squared errors (Q, D) at Q times, their series (Q,) and times (Q,) before its end."""

    squares: np.ndarray
    series: np.ndarray
    ages: np.ndarray


def past_errors(
    estimator: Any, panel: Panel, targets: Panel, scale: np.ndarray, window: float
) -> PastErrors:
    """Errors of what is read back at the times of `targets` in the window of each series."""
    starts, ends = panel.times[panel.offsets[:-1]], panel.times[panel.offsets[1:] - 1]
    start, end = (np.repeat(edge, targets.lengths) for edge in (starts, ends))
    inside = (targets.times >= start) & (targets.times > end - window) & (targets.times <= end)
    counts = np.diff(np.append(0, inside.cumsum())[targets.offsets])
    times = np.split(targets.times[inside], counts.cumsum()[:-1])
    asked = np.flatnonzero(counts)
    rebuilt = estimator.reconstruct(panel[asked], [times[i] for i in asked]).values
    squares = ((rebuilt - targets.values[inside]) / scale) ** 2
    return PastErrors(squares, np.repeat(asked, counts[asked]), (end - targets.times)[inside])
