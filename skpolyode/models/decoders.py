"""Networks that turn frozen features back into coefficients of the past."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.polynomial import legendre
from torch import nn

from skpolyode.dynamics import WalledMLP
from skpolyode.memory import legt_basis
from skpolyode.models.layers import drawn
from skpolyode.saving.modules import register_module

__all__ = ["BackwardODE", "NetworkDecoder"]

_STATE = 32  # length of the state that is integrated backward


class NetworkDecoder(nn.Module):
    """Coefficients (n, D, N) of the past by a network with one hidden layer.

    Parameters
    ----------
    n_features : int
        Number F of features.
    n_channels : int
        Number D of channels.
    n_coefficients : int
        Number N of coefficients a channel.
    hidden_size : int
        Width of the hidden layer.
    duration : float
        Not used: it is there so that all decoders are made alike.
    generator : torch.Generator or None, default=None
        Source of the initial weights.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.models import NetworkDecoder
    >>> decoder = NetworkDecoder(3, 2, 6, 8, 4.0, generator=torch.Generator().manual_seed(0))
    >>> decoder(torch.zeros(5, 3)).shape
    torch.Size([5, 2, 6])
    """

    def __init__(
        self,
        n_features: int,
        n_channels: int,
        n_coefficients: int,
        hidden_size: int,
        duration: float,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.sizes = (n_features, n_channels, n_coefficients, hidden_size, duration)
        self.inner = drawn(nn.Linear, n_features, hidden_size, generator=generator)
        self.outer = drawn(nn.Linear, hidden_size, n_channels * n_coefficients, generator=generator)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Coefficients (n, D, N) of features (n, F)."""
        flat = self.outer(nn.functional.silu(self.inner(features)))
        return flat.unflatten(1, (self.sizes[1], -1))


class BackwardODE(nn.Module):
    """Coefficients (n, D, N) of the path of an ODE that runs back in time.

    ``z(0) = W features, dz/da = f(z)`` with the age a, and the channels are a linear map of z: the
    decoder of the auto-encoder of ODE-RNN. The path is projected by Gauss quadrature, at ``2 N``
    ages within the window, between which midpoint steps are taken.

    Parameters
    ----------
    n_features : int
        Number F of features.
    n_channels : int
        Number D of channels.
    n_coefficients : int
        Number N of coefficients a channel.
    hidden_size : int
        Width of the hidden layer of f.
    duration : float
        Length of the window, in the unit of time of f.
    generator : torch.Generator or None, default=None
        Source of the initial weights.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.models import BackwardODE
    >>> decoder = BackwardODE(3, 2, 6, 8, 4.0, generator=torch.Generator().manual_seed(0))
    >>> decoder(torch.zeros(5, 3)).shape
    torch.Size([5, 2, 6])
    """

    def __init__(
        self,
        n_features: int,
        n_channels: int,
        n_coefficients: int,
        hidden_size: int,
        duration: float,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.sizes = (n_features, n_channels, n_coefficients, hidden_size, duration)
        self.lift = drawn(nn.Linear, n_features, _STATE, generator=generator)
        self.field = WalledMLP(_STATE, (hidden_size,), generator=generator)
        self.readout = drawn(nn.Linear, _STATE, n_channels, generator=generator)
        node, weight = legendre.leggauss(2 * n_coefficients)
        age, weight = (1 + node) / 2, weight / 2  # shares of the window
        basis = legt_basis(1 - age, n_coefficients)
        steps = duration * np.diff(age, prepend=0.0)
        self.register_buffer("steps", torch.tensor(steps, dtype=torch.float32))
        projection = torch.tensor(weight[:, None] * basis, dtype=torch.float32)
        self.register_buffer("projection", projection)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Coefficients (n, D, N) of features (n, F)."""
        z, field, path = self.lift(features), self.field.bind(), []
        for step in self.steps:
            z = z + step * field(z + step / 2 * field(z))
            path.append(self.readout(z))
        return torch.einsum("knd,km->ndm", torch.stack(path), self.projection)


def _arguments(decoder: nn.Module) -> dict[str, Any]:
    names = ("n_features", "n_channels", "n_coefficients", "hidden_size", "duration")
    return dict(zip(names, decoder.sizes, strict=True))


for _cls in (NetworkDecoder, BackwardODE):
    register_module(_cls, _arguments)
