"""torchcde 0.2.5: a neural controlled differential equation that classifies.

As its example `time_series_classification.py` has it: 8 states, a layer of 128 units and a tanh,
Hermite splines with backward differences, Adam at .001, batches of 32, 30 epochs. Its example
`irregular_data.py` adds time and counts of observations as channels and repeats last rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torchcde

from benchmarks.peers_code.grids import padded
from benchmarks.peers_code.rows import Run

N_STATES, N_HIDDEN, N_EPOCHS, BATCH = 8, 128, 30, 32


class NeuralCDE(torch.nn.Module):
    def __init__(self, n_channels: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(n_channels, N_STATES)
        self.hidden = torch.nn.Linear(N_STATES, N_HIDDEN)
        self.matrix = torch.nn.Linear(N_HIDDEN, N_STATES * n_channels)
        self.readout = torch.nn.Linear(N_STATES, 1)

    def field(self, _: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        matrix = self.matrix(self.hidden(state).relu()).tanh()
        return matrix.view(len(state), N_STATES, -1)

    def forward(self, splines: torch.Tensor) -> torch.Tensor:
        path = torchcde.CubicSpline(splines)
        start = self.first(path.evaluate(path.interval[0]))
        parameters = tuple(self.parameters())
        states = torchcde.cdeint(path, self.field, start, path.interval, adjoint_params=parameters)
        return self.readout(states[:, -1]).squeeze(1)


def splines_of(data: Any) -> list[torch.Tensor]:
    """Splines of both parts, the clock and the counts in deviations of the training part."""
    paths = [padded(part) for part in (data.train, data.test)]
    n_channels = data.train.n_channels
    scale = np.ones(paths[0].shape[2])
    for channel in (0, *range(1 + n_channels, 1 + 2 * n_channels)):
        scale[channel] = max(paths[0][:, :, channel].std(), 1e-6)
    tensors = [torch.from_numpy(path / scale).float() for path in paths]
    return [torchcde.hermite_cubic_coefficients_with_backward_differences(x) for x in tensors]


def neural_cde(data: Any, run: Run) -> np.ndarray:
    """Solved along a spline of each series.

    >>> import torch, torchcde
    >>> class Field(torch.nn.Module):
    ...     def __init__(self, n_channels, n_states=8):
    ...         super().__init__()
    ...         self.shape = n_states, n_channels
    ...         self.first = torch.nn.Linear(n_states, 128)
    ...         self.second = torch.nn.Linear(128, n_states * n_channels)
    ...     def forward(self, t, z):
    ...         return self.second(self.first(z).relu()).tanh().view(len(z), *self.shape)
    >>> class Classifier(torch.nn.Module):
    ...     def __init__(self, n_channels):
    ...         super().__init__()
    ...         self.field = Field(n_channels)
    ...         self.first = torch.nn.Linear(n_channels, 8)
    ...         self.readout = torch.nn.Linear(8, 1)
    ...     def forward(self, splines):
    ...         X = torchcde.CubicSpline(splines)
    ...         z = self.first(X.evaluate(X.interval[0]))
    ...         return self.readout(torchcde.cdeint(X, self.field, z, X.interval)[:, -1])[:, 0]
    >>> splines = torchcde.hermite_cubic_coefficients_with_backward_differences
    >>> X, X_test = (splines(padded_with_time_and_counts(part)) for part in (train, test))
    >>> model = Classifier(n_channels)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> loader = DataLoader(TensorDataset(X, y), batch_size=32, shuffle=True)
    >>> for epoch in range(30):
    ...     for batch, label in loader:
    ...         binary_cross_entropy_with_logits(model(batch), label).backward()
    ...         optimizer.step()
    ...         optimizer.zero_grad()
    >>> risk = model(X_test)
    """
    torch.manual_seed(run.seed)
    train, test = splines_of(data)
    y = torch.from_numpy(data.y).float()
    model = NeuralCDE(1 + 2 * data.train.n_channels)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with run.training():
        for _ in range(N_EPOCHS):
            for batch in torch.randperm(len(y)).split(BATCH):
                optimizer.zero_grad()
                loss = torch.nn.functional.binary_cross_entropy_with_logits
                loss(model(train[batch]), y[batch]).backward()
                optimizer.step()
    with torch.no_grad():
        return model(test).numpy()
