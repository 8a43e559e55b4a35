"""LinODENet (Scholz et al., 2023) by its own code, as the benchmark Physiome-ODE ran it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from benchmarks.peers_code.padded import Padded
from benchmarks.peers_code.repositories import Repository
from benchmarks.peers_code.training import Recipe, Shape

REPOSITORY = Repository(
    "https://github.com/kloetergensc/Physiome-ODE",
    "4829169d44e432da40c6d2903425809d9989802a",
    ("experiments/training",),
)
N_UNITS = 128  # hidden and latent ones: the defaults of train_linodenet.py
PRECISION = 1e5  # gaps that differ by less than one of these parts are one
RECIPE = Recipe(100, 10, 32, partial(AdamW, lr=1e-3, weight_decay=1e-3))


class OncePerGap(nn.Module):
    """Its linear system; the matrix exponential of a gap is computed once for all rows of a batch.

    Its own code does so for each row of each series, which takes most of its time: a batch of LEN01
    takes a core 12 s, and .6 s with this, to the same numbers. It is not compiled either.
    """

    def __init__(self, own: nn.Module) -> None:
        super().__init__()
        self.own = own

    def prepare(self, times: Tensor) -> None:
        gaps = times.diff(dim=1).mul(PRECISION).round()
        self.gaps = torch.cat([gaps.new_zeros(1), gaps.flatten()]).unique()
        kernel = self.own.scalar * self.own.kernel_parametrization(self.own.weight)
        self.flows = torch.matrix_exp(self.gaps[:, None, None] / PRECISION * kernel)

    def forward(self, gap: Tensor, state: Tensor) -> Tensor:
        place = torch.searchsorted(self.gaps, gap.mul(PRECISION).round())
        state = state.expand(len(gap), -1)
        after_each = (state @ self.flows.flatten(0, 1).T).unflatten(1, self.flows.shape[:2])
        return after_each[torch.arange(len(gap), device=gap.device), place]


class Network(nn.Module):
    def __init__(self, repositories: Path, shape: Shape) -> None:
        super().__init__()
        self.span = shape.span
        with REPOSITORY.importable(repositories):
            from models.linodenet.models import LinODEnet, ResNet, embeddings, filters, system

            parts = {
                "Filter": filters.SequentialFilter.HP | {"autoregressive": True},
                "System": system.LinODECell.HP | {"kernel_initialization": "skew-symmetric"},
                "Encoder": ResNet.HP,
                "Decoder": ResNet.HP,
                "Embedding": embeddings.ConcatEmbedding.HP,
                "Projection": embeddings.ConcatProjection.HP,
            }
            self.own = LinODEnet(shape.n_channels, N_UNITS, N_UNITS, **parts)
        self.own.system = OncePerGap(self.own.system)

    def forward(self, batch: Padded) -> Tensor:
        """Series end together and begin with empty rows at time 0, as its collation has them."""
        n_rows = batch.times.shape[1]
        place = torch.arange(n_rows, device=batch.times.device)
        ahead = (n_rows - batch.lengths)[:, None]
        there, back = (place - ahead) % n_rows, (place + ahead) % n_rows
        times = batch.times.gather(1, there) / self.span
        values = batch.values.where(batch.seen, torch.nan)
        wide = (slice(None), slice(None), None)
        values = values.gather(1, there[wide].expand(values.shape))
        self.own.system.prepare(times)
        return self.own(times, values).gather(1, back[wide].expand(values.shape))
