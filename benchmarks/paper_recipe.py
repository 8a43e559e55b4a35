"""PolyODE as the paper trains it, on torchdiffeq: the yardstick of the speed benchmarks.

To the letter and on its own, where `benchmarks.paper.study` has the paper's choices one by one.

One union grid of times for the whole batch, the coupled system of dynamics and memory integrated
from grid point to grid point by `implicit_adams` with steps of 0.05, a ReLU network of two hidden
layers of 32 units, Adam with a learning rate of 1e-3, gradients clipped at 0.5, batches of 128
series, back-propagation through whole series, and a state that starts from zero at time zero.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn
from torchdiffeq import odeint

from skpolyode.memory import legt_matrices
from skpolyode.panel import Panel, series_index

STEP_SIZE = 0.05
WIDTH = 32
BATCH_SIZE = 128
LEARNING_RATE = 1e-3


class Recipe(nn.Module):
    """The coupled system on a grid that all series share."""

    def __init__(self, n_channels: int, n_coefficients: int = 32, window: float = 5.0) -> None:
        super().__init__()
        self.shape = n_channels, n_coefficients
        size = n_channels * (1 + n_coefficients)
        self.net = nn.Sequential(
            *(nn.Linear(size, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()),
            nn.Linear(WIDTH, size),
        )
        A, B = legt_matrices(n_coefficients)
        self.register_buffer("A_T", torch.tensor(A.T / window, dtype=torch.float32))
        self.register_buffer("B", torch.tensor(B / window, dtype=torch.float32))

    def forward(self, t: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """Derivative of (h0, h, c), of shape (batch, channel, 1 + 2 N)."""
        n = self.shape[1]
        h, c = state[..., : 1 + n], state[..., 1 + n :]
        dh = self.net(h.flatten(1)).view_as(h)
        return torch.cat([dh, c @ self.A_T + h[..., :1] * self.B], dim=-1)

    def run(
        self, grid: torch.Tensor, x: torch.Tensor, mask: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Predictions (batch, grid, channel) before each update, and the last coefficients."""
        n = self.shape[1]
        state = x.new_zeros(len(x), self.shape[0], 1 + 2 * n)
        predictions, now = [], torch.zeros(())
        for k, then in enumerate(grid):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of every step whose iteration did not converge
                state = odeint(
                    self,
                    state,
                    torch.stack([now, then]),
                    method="implicit_adams",
                    options={"step_size": STEP_SIZE},
                )[-1]
            now = then
            predictions.append(state[..., 0])
            update = torch.cat([x[:, k, :, None], state[..., 1 + n :], state[..., 1 + n :]], dim=-1)
            state = torch.where(mask[:, k, :, None], update, state)
        return torch.stack(predictions, dim=1), state[..., 1 + n :]


def on_grid(panel: Panel, grid: np.ndarray, mean: np.ndarray, scale: np.ndarray):
    """Values (series, grid, channel) with zeros and a mask where a series is not observed."""
    x = np.zeros((len(panel), len(grid), panel.n_channels), dtype=np.float32)
    mask = np.zeros(x.shape, dtype=bool)
    series = series_index(panel.offsets)
    place = np.abs(panel.times[:, None] - grid).argmin(axis=1)
    x[series, place] = (panel.values - mean) / scale
    mask[series, place] = True
    return torch.from_numpy(x), torch.from_numpy(mask)


def masked_mse(prediction: torch.Tensor, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean squared error over observed values but the first of each series."""
    counted = mask & (mask.cumsum(dim=1) > 1)
    return (prediction - x)[counted].square().mean()


def train(
    model: Recipe,
    grid: torch.Tensor,
    training: tuple[torch.Tensor, torch.Tensor],
    validation: tuple[torch.Tensor, torch.Tensor],
    n_epochs: int,
    seed: int = 0,
) -> Iterator[tuple[float, float]]:
    """Yield (seconds of training, validation MSE) after each epoch."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    seconds = 0.0
    for _ in range(n_epochs):
        start = time.perf_counter()
        for batch in torch.randperm(len(training[0]), generator=generator).split(BATCH_SIZE):
            x, mask = training[0][batch], training[1][batch]
            optimizer.zero_grad()
            prediction, _ = model.run(grid, x, mask)
            (prediction - x)[mask].square().mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
        with torch.no_grad():
            error = masked_mse(model.run(grid, *validation)[0], *validation).item()
        seconds += time.perf_counter() - start
        yield seconds, error
