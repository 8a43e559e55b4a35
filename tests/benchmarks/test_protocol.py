"""How the benchmarks score: the network downstream, and reconstruction of the past."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from benchmarks.protocol import (
    CROSS_ENTROPY,
    MLP,
    SQUARED_ERROR,
    Adam,
    fit_mlp,
    held_out_truth,
    reconstruction_mse,
    reverse_reconstruction,
)
from skpolyode.datasets import make_lorenz96
from skpolyode.panel import Panel, query_times

TORCH_LOSSES = [
    (CROSS_ENTROPY, torch.nn.BCEWithLogitsLoss()),
    (SQUARED_ERROR, torch.nn.MSELoss()),
]


@pytest.mark.parametrize(("loss", "reference"), TORCH_LOSSES, ids=["cross entropy", "squared"])
def test_gradient_is_that_of_torch(loss, reference):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(20, 5)).astype(np.float32)
    y = (rng.uniform(size=20) > 0.5).astype(np.float32)
    net = MLP(5, rng)
    w, b, v, a = weights = [
        torch.tensor(part, requires_grad=True) for part in net.views(net.weights)
    ]
    value = reference(torch.relu(torch.tensor(X) @ w + b) @ v + a, torch.tensor(y))
    value.backward()
    assert_allclose(loss.value(net.predict(X), y).mean(), value.item(), rtol=1e-5)
    expected = np.concatenate([part.grad.numpy().ravel() for part in weights])
    assert_allclose(net.differentiate(X, y, loss), expected, atol=1e-6)


def test_adam_moves_by_its_rate_where_the_gradient_does_not_change():
    weights = np.zeros(3, dtype=np.float32)
    adam = Adam(weights)
    for n_steps in range(1, 4):
        adam.step(np.array([5.0, -0.2, 0.0], dtype=np.float32))
        assert_allclose(weights, [-1e-3 * n_steps, 1e-3 * n_steps, 0], rtol=1e-4)


def test_network_keeps_the_weights_that_are_best_on_the_validation_part():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(300, 3))
    split = np.repeat(["train", "validation", "test"], 100)
    output = fit_mlp(X, X[:, 0] - 2 * X[:, 1], split, SQUARED_ERROR, seed=0)
    assert np.mean((output - X[:, 0] + 2 * X[:, 1])[split == "test"] ** 2) < 0.05
    noise = rng.normal(size=300)  # nothing to learn: best is close to the mean
    output = fit_mlp(X, noise, split, SQUARED_ERROR, seed=0)
    assert np.mean((output - noise)[split == "validation"] ** 2) < 1.1 * noise[100:200].var()


class Remembers:
    """Reconstructs the truth of a data set, with an error of its own for each channel."""

    def __init__(self, data, error):
        self.data, self.error = data, np.asarray(error)

    def reconstruct(self, panel, times):
        flat, offsets = query_times(panel, times)
        series = np.repeat(panel.ids, np.diff(offsets))
        truth = self.data.truth
        values = [
            [np.interp(time, truth.times, column) for column in truth.values[i][:, :-1].T]
            for i, time in zip(series, flat, strict=True)
        ]
        return panel.like(flat, np.array(values) + self.error, offsets)


def test_reconstruction_error_is_in_units_of_the_variance():
    data = make_lorenz96(24, protocol="paper-code", random_state=0)
    data.split = np.repeat(["train", "test"], 12)
    scale = data.panel.values.std(axis=0)
    assert_allclose(reverse_reconstruction(Remembers(data, scale), data), 1.0)
    assert_allclose(reverse_reconstruction(Remembers(data, 2 * scale), data), 4.0)
    assert_allclose(reverse_reconstruction(Remembers(data, 0 * scale), data), 0.0, atol=1e-20)


@pytest.mark.parametrize("protocol", ["paper-code", "independent"])
def test_truth_that_is_held_out_is_nowhere_observed(protocol):
    data = make_lorenz96(8, protocol=protocol, random_state=0)
    held_out = held_out_truth(data, np.arange(8) >= 4)
    for i, own in enumerate(held_out):
        observed = data.panel[i + 4].times
        assert not np.isin(own.times, observed).any()
        if protocol == "paper-code":
            assert len(own.times) + len(observed) == 100
        assert_allclose(own.values[0], data.truth.values[i + 4, data.truth.heldout[i + 4]][0, :-1])


def test_only_the_window_since_the_first_observation_counts():
    panel = Panel.from_series([([0, 4, 9], [0, 4, 9]), ([8, 9], [8, 9])])
    targets = Panel.from_series([([1, 3, 5, 11], [1, 3, 5, 0]), ([5], [5])])
    asked = []

    class Zero:
        def reconstruct(self, panel, times):
            asked.extend(zip(panel.ids, map(list, times), strict=True))
            flat, offsets = query_times(panel, times)
            return panel.like(flat, np.zeros((len(flat), 1)), offsets)

    # 5 of the second series is before its first observation; 1 and 11 are outside the window.
    error = reconstruction_mse(Zero(), panel, targets, np.array([2.0]), window=7.0)
    assert asked == [(0, [3.0, 5.0])]
    assert_allclose(error, (9 + 25) / 2 / 4)
