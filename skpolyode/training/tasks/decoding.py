"""Train a decoder of the past on frozen features."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from skpolyode.training.tasks.interval import Minibatches

__all__ = ["DecodingTask"]


class DecodingTask:
    """Train a decoder on what was observed before some moments.

    Parameters
    ----------
    decoder : nn.Module
        From features (n, F) to coefficients (n, D, N).
    features : Tensor of shape (S, F)
        Those of S moments.
    offsets : int64 Tensor of shape (S + 1,)
        Where the observations of each moment start.
    basis : Tensor of shape (P, N)
        Polynomials at the ages of the observations.
    x : Tensor of shape (P, D)
        Observations, standardised, NaN where there is none.
    held_out : bool Tensor of shape (S,)
        Moments that only validate; if there are none, the training error stands in.

    Examples
    --------
    Two moments, and one observation before each:

    >>> import torch
    >>> from skpolyode.models import NetworkDecoder
    >>> from skpolyode.training.tasks import DecodingTask
    >>> decoder = NetworkDecoder(3, 1, 2, 8, 4.0, generator=torch.Generator().manual_seed(0))
    >>> basis, x = torch.ones(2, 2), torch.tensor([[0.0], [1.0]])
    >>> offsets, held_out = torch.tensor([0, 1, 2]), torch.tensor([False, False])
    >>> task = DecodingTask(decoder, torch.zeros(2, 3), offsets, basis, x, held_out)
    >>> task.loss(torch.arange(2)).item() == task.refresh() > 0
    True
    """

    minibatches = Minibatches(16, smallest=32, n_most=512)
    item_size = 1.0
    is_preliminary = False

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
        """Return the validation error; there is nothing to prepare."""
        with torch.no_grad():
            return float(self._error(self.validation))

    def loss(self, index: torch.Tensor) -> torch.Tensor:
        """Mean squared error of what was observed before some moments."""
        return self._error(self.items[index])

    def _error(self, moments: torch.Tensor) -> torch.Tensor:
        start, count = self.offsets[moments], self.offsets.diff()[moments]
        which = torch.arange(len(moments)).repeat_interleave(count)
        rows = torch.arange(len(which)) + (start - count.cumsum(0) + count)[which]
        coefficients = self.decoder(self.features[moments])[which]  # (P', D, N)
        error = torch.einsum("pdn,pn->pd", coefficients, self.basis[rows]) - self.x[rows]
        return error[self.mask[rows]].square().mean()

    def state_dict(self) -> dict[str, Any]:
        """Nothing is prepared."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing was prepared."""
