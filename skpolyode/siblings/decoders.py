"""A network that decodes coefficients of the past from frozen features, and its training."""

from __future__ import annotations

import torch
from torch import nn

from skpolyode.models.layers import drawn
from skpolyode.saving.modules import register_module
from skpolyode.training.loop import Task
from skpolyode.training.tasks import Minibatches


@register_module
class NetworkDecoder(nn.Module):
    """Coefficients (n, D, N) of the past by a network with one hidden layer.

    Parameters
    ----------
    n_features : int
        Number F of features.
    n_channels : int
        Number D of channels.
    n_coefficients : int
        Number N of coefficients per channel.
    hidden_size : int
        Width of the hidden layer.
    generator : torch.Generator or None, default=None
        Source of the initial weights.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.siblings import NetworkDecoder
    >>> decoder = NetworkDecoder(3, 2, 6, 8, generator=torch.Generator().manual_seed(0))
    >>> decoder(torch.zeros(5, 3)).shape
    torch.Size([5, 2, 6])
    """

    def __init__(
        self,
        n_features: int,
        n_channels: int,
        n_coefficients: int,
        hidden_size: int,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.n_features, self.n_channels = n_features, n_channels
        self.n_coefficients, self.hidden_size = n_coefficients, hidden_size
        self.inner = drawn(nn.Linear, n_features, hidden_size, generator=generator)
        self.outer = drawn(nn.Linear, hidden_size, n_channels * n_coefficients, generator=generator)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Coefficients (n, D, N) of features (n, F)."""
        flat = self.outer(nn.functional.silu(self.inner(features)))
        return flat.unflatten(1, (self.n_channels, -1))


class DecodingTask(Task):
    """Train a decoder on what was observed before several moments of each series.

    Parameters
    ----------
    decoder : nn.Module
        From features (n, F) to coefficients (n, D, N).
    features : Tensor of shape (S, F)
        Features at S moments.
    offsets : int64 Tensor of shape (S + 1,)
        Where the observations of each moment start.
    basis : Tensor of shape (P, N)
        Polynomials at the ages of the observations.
    x : Tensor of shape (P, D)
        Observations, standardised, NaN where there is none.
    held_out : bool Tensor of shape (S,)
        Moments that only validate; if there are none, all of them do.

    Examples
    --------
    Two moments, and one observation before each:

    >>> import torch
    >>> from skpolyode.siblings import NetworkDecoder
    >>> from skpolyode.siblings.decoders import DecodingTask
    >>> decoder = NetworkDecoder(3, 1, 2, 8, generator=torch.Generator().manual_seed(0))
    >>> basis, x = torch.ones(2, 2), torch.tensor([[0.0], [1.0]])
    >>> offsets, held_out = torch.tensor([0, 1, 2]), torch.tensor([False, False])
    >>> task = DecodingTask(decoder, torch.zeros(2, 3), offsets, basis, x, held_out)
    >>> task.loss(torch.arange(2)).item() == task.refresh() > 0
    True
    """

    minibatches = Minibatches(16, smallest=32, n_most=512)

    def __init__(
        self,
        decoder: nn.Module,
        features: torch.Tensor,
        offsets: torch.Tensor,
        basis: torch.Tensor,
        x: torch.Tensor,
        held_out: torch.Tensor,
    ) -> None:
        self.decoder, self.features, self.offsets = decoder, features, offsets
        self.basis, self.x, self.mask = basis, x.nan_to_num(), ~x.isnan()
        self.items = (~held_out).nonzero()[:, 0]
        self.validation = held_out.nonzero()[:, 0] if held_out.any() else self.items

    def refresh(self, progress: float = 1.0) -> float:
        """Return the validation error."""
        with torch.no_grad():
            return float(self._error(self.validation))

    def loss(self, index: torch.Tensor) -> torch.Tensor:
        """Mean squared error of the past of a minibatch of moments."""
        return self._error(self.items[index])

    def _error(self, moments: torch.Tensor) -> torch.Tensor:
        start, count = self.offsets[moments], self.offsets.diff()[moments]
        which = torch.arange(len(moments)).repeat_interleave(count)  # (P',), of `moments`
        rows = torch.arange(len(which)) + (start - count.cumsum(0) + count)[which]
        coefficients = self.decoder(self.features[moments])[which]  # (P', D, N)
        error = torch.einsum("pdn,pn->pd", coefficients, self.basis[rows]) - self.x[rows]
        return error[self.mask[rows]].square().mean()
