"""How far an observation is believed: the share of its innovation that a state takes over."""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import nn

from skpolyode.memory.knots import SHORTEST_GAP
from skpolyode.models.packed import Packed
from skpolyode.saving.modules import register_module

__all__ = ["Gain"]

# exp of these is the variance of a forecast over one unit of time, in units of that of the noise:
# half of it was there at its start. Training moves a gain that is too low up more readily than one
# that is too high down: near 1 it hardly has a gradient.
_START = 1.3


class Gain(nn.Module):
    """Kalman's gain of each channel, as a function of the time since it was last observed.

    The variance of a forecast, in units of that of the noise, is ``v = p + q gap``: what was not
    known at the last observation, and what has been added since. The gain is ``K = v / (v + 1)``,
    which is Kalman's ``1 - R / S``; p and q are learned. For a random walk this is exact, once the
    first observations have passed, or if they come at an even pace.

    Parameters
    ----------
    n_channels : int

    Attributes
    ----------
    noise : Tensor of shape (n_channels,)
        Standard deviation of the noise, once :meth:`measure_noise` has seen innovations.

    References
    ----------
    G. Desroziers, L. Berre, B. Chapnik and P. Poli, "Diagnosis of observation, background and
    analysis-error statistics in observation space", Quarterly Journal of the Royal Meteorological
    Society, 2005.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.models.gain import Gain
    >>> gain, seen = Gain(1).double(), torch.tensor([[True], [True], [False]])
    >>> gap = torch.tensor([[0.01], [1.0], [1.0]], dtype=torch.float64)
    >>> gain(gap, seen).flatten().tolist()  # a first observation is taken whole
    [0.78..., 0.88..., 1.0]
    """

    def __init__(self, n_channels: int) -> None:
        super().__init__()
        self.n_channels = n_channels
        self.known = nn.Parameter(torch.full((n_channels,), _START))  # log p
        self.added = nn.Parameter(torch.full((n_channels,), _START))  # log q
        self.register_buffer("noise", torch.zeros(n_channels))

    @classmethod
    def of(cls, share: torch.Tensor) -> Self:
        """Of channels whose gain is `share` (D,) after one unit of time; half of v is p then."""
        gain = cls(len(share)).to(share)
        with torch.no_grad():
            gain.known.copy_(torch.logit(share) - math.log(2.0))
            gain.added.copy_(gain.known)
        return gain

    def forward(self, gap: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Gains (n, D) of observations `gap` (n, D) after the last of their channels."""
        added = self.added + gap.clamp(min=SHORTEST_GAP).log()
        share = torch.sigmoid(torch.logaddexp(self.known.expand_as(added).to(added.dtype), added))
        return torch.where(seen, share.to(self.known.dtype), 1.0)

    @torch.no_grad()
    def measure_noise(self, data: Packed, predictions: torch.Tensor) -> None:
        """Set `noise` from what was expected just before each row, `predictions` (P, D).

        What is left of an innovation after the update, times the innovation, is R on average if
        the gain is the best one: ``(1 - K) S = R`` (Desroziers et al., 2005).
        """
        again = data.mask & data.seen
        left = 1.0 - self(data.channel_gap, data.seen)
        product = torch.where(again, left * (data.x - predictions).square(), 0.0)
        self.noise.copy_((product.sum(dim=0) / again.sum(dim=0).clamp(min=1)).sqrt())


register_module(Gain, lambda gain: {"n_channels": gain.n_channels})
