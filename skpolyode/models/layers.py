"""Layers of learned cells: their weights come from a generator of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from skpolyode.models.contract import State
from skpolyode.models.packed import Packed

__all__ = [
    "AgeHead",
    "ResNet",
    "Start",
    "drawn",
    "observed_inputs",
    "where_observed",
    "zero_map",
]

_HALFWAY = 2.0  # units of time, of the share of infinity that polynomials of time are of
_DEGREE = 4
_FAR = 1e9  # units of time, from which on nothing changes any more


def drawn(
    kind: type[nn.Module], *sizes: int, generator: torch.Generator | None, **options: Any
) -> nn.Module:
    """A layer of torch with torch's default distribution; the global generator is left alone.

    Parameters
    ----------
    kind : type
        `nn.Linear` or `nn.GRUCell`.
    *sizes : int
        Its first arguments, those of its input and of its output.
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
        weight = torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator)
        setattr(layer, name, nn.Parameter(weight))
    return layer


class Start(nn.Module):
    """Learned state before the first observation: ``b + W static``, zero at first.

    Parameters
    ----------
    n_static : int
        Features of static covariates.
    size : int
        Length of the state.
    """

    def __init__(self, n_static: int, size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size))
        self.weight = nn.Parameter(torch.zeros(size, n_static)) if n_static else None

    def forward(self, data: Packed, rows: torch.Tensor) -> torch.Tensor:
        """States (n, size) of series, given by their first rows."""
        if self.weight is None:
            return self.bias.expand(len(rows), -1)
        return torch.addmm(self.bias, data.static[rows], self.weight.t())


class AgeHead(nn.Module):
    """Polynomials of the time since an observation, whose coefficients a network gives.

    The variable is ``t / (2 + t)``: near the observation it goes as time, and far from it it is a
    constant, so that forecasts are bounded. A network that reads the time among its inputs overfits
    more (HiPPO-RNN, 200 series of Lorenz63: 0.15 instead of 0.11).

    Parameters
    ----------
    n_inputs : int
        Length of what the coefficients depend on.
    width : int
        Width of the hidden layer.
    n_channels : int
        Number D of polynomials.
    generator : torch.Generator or None
        Source of the weights.
    """

    def __init__(
        self, n_inputs: int, width: int, n_channels: int, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        self.inner = drawn(nn.Linear, n_inputs, width, generator=generator)
        self.outer = drawn(nn.Linear, width, n_channels * (1 + _DEGREE), generator=generator)

    def forward(self, x: torch.Tensor, since: torch.Tensor) -> torch.Tensor:
        """Values (n, D), of inputs (n, `n_inputs`) and times (n, 1)."""
        coefficients = self.outer(nn.functional.silu(self.inner(x))).unflatten(1, (-1, 1 + _DEGREE))
        since = since.clamp(max=_FAR)
        share = since / (_HALFWAY + since)
        powers = share ** torch.arange(1 + _DEGREE, device=since.device)
        return (coefficients * powers[:, None]).sum(dim=2)


class ResNet(nn.Module):
    """Residual blocks ``x + s (W' silu(W x + b) + b')``; the identity at first (ReZero).

    Parameters
    ----------
    size : int
        Length of input and output.
    widths : sequence of int
        Width inside each block.
    generator : torch.Generator or None
        Source of the weights.
    """

    def __init__(self, size: int, widths: Sequence[int], generator: torch.Generator | None) -> None:
        super().__init__()
        self.inner, self.outer = (
            nn.ModuleList(drawn(nn.Linear, *shape, generator=generator) for shape in shapes)
            for shapes in ([(size, n) for n in widths], [(n, size) for n in widths])
        )
        self.strength = nn.Parameter(torch.zeros(len(widths)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of any rows (n, size)."""
        for strength, inner, outer in zip(self.strength, self.inner, self.outer, strict=True):
            x = x + strength * outer(nn.functional.silu(inner(x)))
        return x


def observed_inputs(data: Packed, rows: torch.Tensor) -> torch.Tensor:
    """What was observed, of what, and static covariates: (n, 2 D + S), the input of plain cells."""
    x = data.x[rows]
    return torch.cat([x, data.mask[rows].to(x.dtype), data.static[rows]], dim=1)


def zero_map(n_in: int, n_out: int) -> nn.Linear:
    """A linear map that says nothing at first."""
    layer = nn.Linear(n_in, n_out, device="meta")  # draws nothing from the global generator
    layer.weight = nn.Parameter(torch.zeros(n_out, n_in))
    layer.bias = nn.Parameter(torch.zeros(n_out))
    return layer


def where_observed(mask: torch.Tensor, new: State, old: State) -> State:
    """New parts of a state in the rows with any observation; all others, and the rest, as before.

    `mask` (n, D) says what was observed.
    """
    rows = mask.any(dim=1)
    if rows.all():
        return old | new
    return old | {
        name: torch.where(rows.view(-1, *[1] * (part.ndim - 1)), part, old[name])
        for name, part in new.items()
    }
