"""The vector field of the dynamics: a small network behind a wall."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

__all__ = ["WalledMLP"]


class WalledMLP(nn.Module):
    r"""Autonomous field ``dz/dt = net(clamp(z)) - pull (z - clamp(z))``.

    Inside the box ``|z| <= wall`` it is a plain multilayer perceptron; outside it the network
    sees the nearest point of the box and a linear pull leads back. Free runs are therefore
    bounded whatever the weights, and one long gap cannot ruin a loss.

    Parameters
    ----------
    size : int
        Length M of the state, in standardised units.
    hidden_layer_sizes : sequence of int
        Widths of the hidden layers.
    wall : float, default=5.0
        Half width of the box, in standard deviations.
    pull : float, default=1.0
        Rate of the pull, one over the units of time.
    generator : torch.Generator, optional
        Source of the initial weights.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.dynamics import WalledMLP
    >>> field = WalledMLP(3, (8,), generator=torch.Generator().manual_seed(0))
    >>> field(torch.zeros(2, 3)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        size: int,
        hidden_layer_sizes: Sequence[int],
        *,
        wall: float = 5.0,
        pull: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.wall, self.pull = wall, pull
        widths = [size, *hidden_layer_sizes, size]
        layers: list[nn.Module] = []
        for n_in, n_out in zip(widths[:-1], widths[1:], strict=True):
            layers += [_linear(n_in, n_out, generator), nn.SiLU()]
        self.net = nn.Sequential(*layers[:-1])

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """Time derivative (rows, M) at `z` (rows, M)."""
        inside = z.clamp(-self.wall, self.wall)
        return self.net(inside) - self.pull * (z - inside)


def _linear(n_in: int, n_out: int, generator: torch.Generator | None) -> nn.Linear:
    """A linear layer with torch's default distribution, drawn from a local generator."""
    layer = nn.utils.skip_init(nn.Linear, n_in, n_out)
    bound = n_in**-0.5
    with torch.no_grad():
        for parameter in (layer.weight, layer.bias):
            parameter.uniform_(-bound, bound, generator=generator)
    return layer
