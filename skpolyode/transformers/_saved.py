"""How files hold the networks of the transformers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from skpolyode.dynamics import WalledMLP
from skpolyode.saving.codec import register

__all__: list[str] = []


def _field_state(field: WalledMLP) -> dict[str, Any]:
    return {"wall": field.wall, "pull": field.pull, "layers": list(field.layers)}


def _field(state: dict[str, Any]) -> WalledMLP:
    # The widths are those of the weights that are there, so that no file can ask for more memory
    # than it takes itself.
    layers = state.pop("layers")
    widths = [layer.out_features for layer in layers[:-1]]
    field = WalledMLP(layers[0].in_features, widths, generator=torch.Generator(), **state)
    field.layers = nn.ModuleList(layers)
    return field


def _linear_state(layer: nn.Linear) -> dict[str, Any]:
    return {"weight": layer.weight, "bias": layer.bias}


def _linear(state: dict[str, Any]) -> nn.Linear:
    weight, bias = state["weight"], state["bias"]
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")  # draws nothing
    layer.weight, layer.bias = nn.Parameter(weight), nn.Parameter(bias)
    return layer


register(WalledMLP, _field_state, _field, part="transformers")
register(nn.Linear, _linear_state, _linear, part="transformers")
