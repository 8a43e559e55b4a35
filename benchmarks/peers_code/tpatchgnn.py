"""t-PatchGNN (Zhang et al., ICML 2024) by its own code: patches of eight hours, for PhysioNet."""

from __future__ import annotations

import sys
from argparse import Namespace
from functools import partial
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.optim import Adam

from benchmarks.peers_code.padded import Padded
from benchmarks.peers_code.repositories import Repository
from benchmarks.peers_code.training import Recipe, Shape

REPOSITORY = Repository(
    "https://github.com/usail-hkust/t-PatchGNN",
    "00c94e7bbaf21c71b03ed84ff690ae59e37129e5",
    ("tPatchGNN", ""),
)
N_PATCHES, HOURS = 3, 8.0
# scripts/run_all.sh and the defaults of run_models.py
RECIPE = Recipe(
    *(1000, 10, 32, partial(Adam, lr=1e-3)),
    by_variable=True,
    extremes=True,
    descriptors=True,
    tf32=False,
)
SIZES = {"hid_dim": 64, "te_dim": 10, "node_dim": 10, "nhead": 1, "tf_layer": 1, "nlayer": 1}


class Network(nn.Module):
    def __init__(self, repositories: Path, shape: Shape) -> None:
        super().__init__()
        self.span, device = shape.span, torch.device(shape.device)
        own = Namespace(device=device, ndim=shape.n_channels, npatch=N_PATCHES, **SIZES)
        own.hop, own.outlayer = 1, "Linear"
        # Its constructor asks for a GPU, and imports a package of a layer that it does not use.
        reformer = ModuleType("reformer_pytorch")
        reformer.LSHSelfAttention = nn.Module
        with (
            REPOSITORY.importable(repositories),
            patch.dict(sys.modules, {"reformer_pytorch": reformer}),
            patch.object(torch.Tensor, "cuda", lambda tensor: tensor.to(device)),
        ):
            from model.tPatchGNN import tPatchGNN

            self.own = tPatchGNN(own)

    def forward(self, batch: Padded) -> Tensor:
        first = batch.lengths - batch.asked.sum(dim=1)
        b, row = batch.asked.nonzero(as_tuple=True)
        step = row - first[b]
        times = batch.times.new_zeros(len(first), int(step.max()) + 1)
        times[b, step] = batch.times[b, row] / self.span
        found = self.own.forecasting(times, *self.patches(batch))[0]
        forecasts = torch.zeros_like(batch.values)
        forecasts[b, row] = found[b, step]
        return forecasts

    def patches(self, batch: Padded) -> tuple[Tensor, Tensor, Tensor]:
        """Values, times and masks (B, patches, N, D) of the cells of each channel, in order."""
        seen = batch.seen
        patch_of = (batch.times / HOURS).long().clamp(max=N_PATCHES - 1)
        rank = torch.zeros_like(seen, dtype=torch.long)
        for number in range(N_PATCHES):
            own = seen & (patch_of == number)[:, :, None]
            rank[own] = own.cumsum(dim=1)[own] - 1
        b, row, channel = at = seen.nonzero(as_tuple=True)
        place = b, patch_of[b, row], rank[at], channel
        table = torch.zeros(
            (len(seen), N_PATCHES, int(rank.max()) + 1, seen.shape[2]), device=seen.device
        )
        values, times, mask = table, table.clone(), table.clone()
        values[place], times[place], mask[place] = (
            batch.values[at],
            batch.times[b, row] / self.span,
            1.0,
        )
        return values, times, mask
