"""The vector field of the dynamics: a small network behind a wall."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor, nn
from torch.nn import functional as F

from skpolyode.saving.modules import register_module


class Activation(NamedTuple):
    """The nonlinearity between two layers, in the forms that its users need."""

    of_tensor: Callable[[Tensor], Tensor]
    of_array: Callable[[np.ndarray], np.ndarray]
    backward: Callable[[Tensor, Tensor], Tensor]  # of gradient and input


ACTIVATION = Activation(F.silu, lambda x: x * expit(x), torch.ops.aten.silu_backward.default)
"""SiLU. With equal steps it learns Lorenz63 three times faster than tanh (validation error 0.03
against 0.19 after 8 epochs), at a third of the cost on a CPU."""


class WalledMLP(nn.Module):
    r"""Autonomous field ``dz/dt = net(clamp(z)) - pull (z - clamp(z))``.

    Inside the box ``|z| <= wall`` it is a plain multilayer perceptron with :data:`ACTIVATION`.
    Outside, the network sees the nearest point of the box and a linear pull leads back to it. Free
    runs are therefore bounded whatever the weights, and one long gap cannot ruin a loss.

    Inputs u, as far as they are known, are further coordinates of z, which the network reads and
    does not move: ``du/dt`` is 0, or of a linear input its slope, the last coordinates of z, which
    the network does not read. There is no wall for them.

    Parameters
    ----------
    size : int
        Length of the state that the network moves, in standardised units.
    hidden_layer_sizes : sequence of int
        Widths of the hidden layers.
    wall : float, default=5.0
        Half width of the box, in standard deviations.
    pull : float, default=1.0
        Rate of the pull, one over the units of time.
    n_levels : int, default=0
        Inputs u that the network reads.
    n_linear : int, default=0
        The last of them that have slopes. Length M of z is that of the state, plus both numbers.
    generator : torch.Generator or None, default=None
        Source of the initial weights.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.dynamics import WalledMLP
    >>> field = WalledMLP(3, (8,), generator=torch.Generator().manual_seed(0))
    >>> field(torch.zeros(2, 3)).shape
    torch.Size([2, 3])
    """

    by_hand = True
    """Whether steps use the gradients of `take_rounds`; a fit then takes a fifth less time."""

    def __init__(
        self,
        size: int,
        hidden_layer_sizes: Sequence[int],
        *,
        wall: float = 5.0,
        pull: float = 1.0,
        n_levels: int = 0,
        n_linear: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= n_linear <= n_levels:
            raise ValueError(f"n_linear must be 0 to n_levels={n_levels}, got {n_linear}.")
        self.wall, self.pull = wall, pull
        self.n_levels, self.n_linear = n_levels, n_linear
        widths = [size + n_levels, *hidden_layer_sizes, size]
        self.layers = nn.ModuleList(
            drawn(nn.Linear, *shape, generator=generator) for shape in pairwise(widths)
        )

    def stand_still(self) -> WalledMLP:
        """Set the output inside the box to zero, and return the field itself.

        Training then starts from the naive forecast, the last value. A channel that is constant in
        training never gets a gradient and stays exactly constant.
        """
        for parameter in self.layers[-1].parameters():
            nn.init.zeros_(parameter)
        return self

    @property
    def stands_still(self) -> bool:
        """Whether the output is zero everywhere inside the box."""
        return not any(bool(parameter.any()) for parameter in self.layers[-1].parameters())

    @property
    def size(self) -> int:
        """Length M of z."""
        return self.layers[-1].out_features + self.n_inputs

    @property
    def n_inputs(self) -> int:
        """Coordinates of z, its last ones, that inputs set."""
        return self.n_levels + self.n_linear

    def inside(self, z: Tensor) -> Tensor:
        """Nearest point of the box to `z` (rows, M)."""
        if not self.n_inputs:
            return z.clamp(-self.wall, self.wall)
        own, inputs = z[:, : -self.n_inputs], z[:, -self.n_inputs :]
        return torch.cat([own.clamp(-self.wall, self.wall), inputs], dim=1)

    def drift(self, z: Tensor) -> Tensor:
        """Derivative (rows, M) of linear inputs at `z`; 0 of all other coordinates."""
        n, end = self.n_linear, z.shape[1]
        return F.pad(z[:, end - n :], (end - 2 * n, n))

    def forward(self, z: Tensor) -> Tensor:
        """Time derivative (rows, M) at `z` (rows, M)."""
        return self.bind()(z)

    def bind(self) -> Callable[[Tensor], Tensor]:
        """The field as a plain function, with its current weights looked up once.

        This saves time where the same weights are evaluated hundreds of times on few rows.
        """
        *inner, (weight, bias) = self.affine()
        pull, activation = self.pull, ACTIVATION.of_tensor

        def field(z: Tensor) -> Tensor:
            inside = out = self.inside(z)
            for inner_weight, inner_bias in inner:
                out = activation(F.linear(out, inner_weight, inner_bias))
            out = torch.add(F.linear(out, weight, bias), z - inside, alpha=-pull)
            return out + self.drift(z) if self.n_linear else out

        return field

    def affine(self) -> list[tuple[Tensor, Tensor]]:
        """Weight and bias of each layer, from z to its derivative without drift."""
        layers = [(layer.weight, layer.bias) for layer in self.layers]
        if self.n_inputs:
            weight, bias = layers[0]
            layers[0] = F.pad(weight, (0, self.n_linear)), bias
            weight, bias = layers[-1]
            layers[-1] = F.pad(weight, (0, 0, 0, self.n_inputs)), F.pad(bias, (0, self.n_inputs))
        return layers


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
    >>> from skpolyode.dynamics.field import drawn
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


def _arguments(field: WalledMLP) -> dict[str, Any]:
    _, *hidden = (layer.in_features for layer in field.layers)
    names = ("wall", "pull", "n_levels", "n_linear")
    sizes = {"size": field.layers[-1].out_features, "hidden_layer_sizes": hidden}
    return sizes | {name: getattr(field, name) for name in names}


register_module(WalledMLP, _arguments)
