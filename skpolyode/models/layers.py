"""Layers that neural models share; their weights come from a generator that is passed in."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from skpolyode.models.packed import Packed


def drawn(
    kind: type[nn.Module], *sizes: int, generator: torch.Generator | None, **options: Any
) -> nn.Module:
    """A layer with torch's default distribution, drawn without torch's global generator.

    Parameters
    ----------
    kind : type
        `nn.Linear` or `nn.GRUCell`.
    *sizes : int
        Lengths of its input and output.
    generator : torch.Generator or None
        Source of the weights.
    **options : dict
        Its other arguments.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.models.layers import drawn
    >>> layer = drawn(torch.nn.Linear, 3, 2, generator=torch.Generator().manual_seed(0))
    >>> layer(torch.zeros(1, 3)).shape
    torch.Size([1, 2])
    """
    layer = kind(*sizes, device="meta", **options)  # draws nothing
    bound = sizes[1 if kind is nn.GRUCell else 0] ** -0.5
    for name, parameter in list(layer.named_parameters()):
        weight = torch.empty(parameter.shape, dtype=torch.float32)
        setattr(layer, name, nn.Parameter(weight.uniform_(-bound, bound, generator=generator)))
    return layer


def driven_update(
    cell: nn.Module,
    seen: torch.Tensor,
    w: torch.Tensor,
    data: Packed,
    rows: torch.Tensor,
    n_state: int,
) -> torch.Tensor:
    """Learned states `w` (n, H), as a cell leaves them, before the inputs from some rows on.

    The cell reads what was `seen` (n, F) and impulses, and moves the states of rows with an
    observation or an impulse. Inputs with a value and slopes, `n_state` in all, follow the states.
    """
    moves, after = data.mask[rows].any(dim=1, keepdim=True), []
    if data.inputs is not None:
        levels, impulses = data.inputs[rows].split((n_state, data.inputs.shape[1] - n_state), dim=1)
        moves, after = moves | (impulses != 0).any(dim=1, keepdim=True), [levels]
        seen = torch.cat([seen, impulses], dim=1)
    w = torch.where(moves, cell(seen, w), w)
    return torch.cat([w, *after], dim=1) if after else w


def zero_map(n_in: int, n_out: int) -> nn.Linear:
    """A linear map whose weights are zero at first."""
    layer = nn.Linear(n_in, n_out, device="meta")  # draws nothing from the global generator
    layer.weight = nn.Parameter(torch.zeros(n_out, n_in, dtype=torch.float32))
    layer.bias = nn.Parameter(torch.zeros(n_out, dtype=torch.float32))
    return layer
