"""The downstream protocol of the paper, shared by the benchmarks.

A classifier or regressor is an MLP of 32 ReLU units on the frozen, unstandardised embedding,
trained by Adam (1e-3) for at most 1000 epochs, with the best weights on the validation part.
`label_regression_mse` (regressing the unthresholded label) is what the paper's tables call
"Reconstruction" for the synthetic sets.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from sklearn.utils import Bunch
from torch import nn

PAPER_WINDOW = 5.0


class Downstream(NamedTuple):
    auc: float
    label_regression_mse: float


def downstream(embedding: np.ndarray, data: Bunch, seed: int = 0) -> Downstream:
    """Test AUC of the label and test MSE of its unthresholded value, from an embedding."""
    split, test = np.asarray(data.split), np.asarray(data.split) == "test"
    logits = _fit_mlp(embedding, data.y, split, nn.BCEWithLogitsLoss(), seed)
    values = _fit_mlp(embedding, data.label_value, split, nn.MSELoss(), seed)
    return Downstream(
        roc_auc_score(data.y[test], logits[test]),
        float(np.mean((values[test] - data.label_value[test]) ** 2)),
    )


def _fit_mlp(
    X: np.ndarray, y: np.ndarray, split: np.ndarray, loss: nn.Module, seed: int, patience: int = 50
) -> np.ndarray:
    inputs, target = (torch.tensor(np.asarray(a), dtype=torch.float32) for a in (X, y))
    train, validation = (torch.tensor(split == part) for part in ("train", "validation"))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(X.shape[1], 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
        best, best_loss, waited = copy.deepcopy(net.state_dict()), float("inf"), 0
        rows = train.nonzero()[:, 0]
        for _ in range(1000):
            for batch in rows[torch.randperm(len(rows))].split(128):
                optimizer.zero_grad()
                loss(net(inputs[batch]), target[batch]).backward()
                optimizer.step()
            with torch.no_grad():
                now = loss(net(inputs[validation]), target[validation]).item()
            waited += 1
            if now < best_loss:
                best, best_loss, waited = copy.deepcopy(net.state_dict()), now, 0
            if waited > patience:
                break
    net.load_state_dict(best)
    with torch.no_grad():
        return net(inputs).numpy()


class Reconstruction(NamedTuple):
    observed: float
    held_out: float


def reverse_reconstruction(estimator, data: Bunch, window: float = PAPER_WINDOW) -> Reconstruction:
    """MSE of the past rebuilt from the embedding of the test series, in standardised units.

    Over the grid of true values within the last window, at observed and at held-out times.
    """
    test = np.asarray(data.split) == "test"
    panel, truth = data.panel[test], data.truth
    end = panel.times[panel.offsets[1:] - 1].min()
    recent = (truth.times > end - window) & (truth.times <= end + 1e-9)
    n_channels = panel.n_channels
    rebuilt = estimator.reconstruct(panel, truth.times[recent]).values
    rebuilt = rebuilt.reshape(len(panel), recent.sum(), n_channels)
    true = truth.values[test][:, recent][:, :, truth.observed]
    error = ((rebuilt - true) / data.panel.values.std(axis=0)) ** 2
    held_out = truth.heldout[test][:, recent]
    return Reconstruction(float(error[~held_out].mean()), float(error[held_out].mean()))
