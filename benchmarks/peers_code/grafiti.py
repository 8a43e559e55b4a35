"""GraFITi (Yalavarthi et al., AAAI 2024) by its own code: a graph of cells, times and channels.

Its network reads which cells are asked for, all at once, as well as the cells that are known.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from torch import Tensor, nn
from torch.optim import Adam, AdamW

from benchmarks.peers_code.padded import Padded
from benchmarks.peers_code.repositories import Repository
from benchmarks.peers_code.training import Recipe, Shape

REPOSITORY = Repository(
    "https://github.com/yalavarthivk/GraFITi", "698060bb0e9385d79eaf41b7981a05390725a1e5"
)
DECAYED = partial(AdamW, lr=1e-3, weight_decay=1e-3)

# README.md and zhang_experiments.py; README.md and train_grafiti.py; train_grafiti.py of
# Physiome-ODE, its defaults. The sizes are layers, heads and units.
DAY = Recipe(
    1000, 10, 32, partial(Adam, lr=1e-3), by_variable=True, extremes=True, descriptors=True
)
HOURS = Recipe(200, 30, 128, DECAYED, plateau=True, drop_last=True)
PHYSIOME = Recipe(45, 10, 32, DECAYED, plateau=True)
SIZES = {DAY: (4, 2, 64), HOURS: (2, 4, 64), PHYSIOME: (2, 2, 128)}


class Network(nn.Module):
    def __init__(self, repositories: Path, shape: Shape, sizes: tuple[int, int, int]) -> None:
        super().__init__()
        self.span, (n_layers, n_heads, n_units) = shape.span, sizes
        with REPOSITORY.importable(repositories):
            from grafiti.grafiti import GraFITi
        self.own = GraFITi(shape.n_channels, n_heads, n_units, n_layers, device=shape.device)

    def forward(self, batch: Padded) -> Tensor:
        seen, targets = batch.seen, batch.targets
        values = batch.values.where(seen, 0.0)
        return self.own(batch.times / self.span, values, seen.float(), targets.float())


def make(recipe: Recipe, repositories: Path, shape: Shape) -> nn.Module:
    return Network(repositories, shape, SIZES[recipe])
