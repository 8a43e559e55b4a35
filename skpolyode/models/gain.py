"""A learned Kalman gain: the share of its innovation by which an observation moves the signal."""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import nn

from skpolyode.memory.knots import SHORTEST_GAP
from skpolyode.models.packed import Packed
from skpolyode.saving.modules import register_module

__all__ = ["FEWEST", "Gain", "counted_mean"]

FEWEST = 30
"""Observations of a channel that statistics of its noise need at least."""

_POOR = 0.2  # share of the variance that the estimate back in time misses: it is not used then


@register_module
class Gain(nn.Module):
    """Kalman's gain of each channel, as a function of the time since it was last observed.

    The variance of a forecast, in units of that of the noise, is ``v = p + q gap``: the variance at
    the last observation, and what has been added since. The gain is ``K = v / (v + 1)``, which is
    Kalman's ``1 - R / S``; p and q are learned. For a random walk this is exact after the first few
    observations, or at even gaps.

    Parameters
    ----------
    n_channels : int

    Attributes
    ----------
    noise : Tensor of shape (n_channels,)
        Standard deviation of the noise, once :meth:`measure_noise` has seen innovations.

    References
    ----------
    A. Stoffelen, "Toward the true near-surface wind speed: Error modeling and calibration using
    triple collocation", Journal of Geophysical Research, 1998.

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
        # log p and log q. Training raises a gain that is too low more readily than it lowers one
        # that is too high: near 1 it hardly has a gradient.
        self.known = nn.Parameter(torch.full((n_channels,), 1.3))
        self.added = nn.Parameter(torch.full((n_channels,), 1.3))
        self.register_buffer("noise", torch.zeros(n_channels))

    @classmethod
    def of(cls, share: torch.Tensor) -> Self:
        """Gain that is `share` (D,) after one unit of time, when half of v is p."""
        gain = cls(len(share)).to(share)
        with torch.no_grad():
            gain.known.copy_(torch.logit(share) - math.log(2.0))
            gain.added.copy_(gain.known)
        return gain

    def forward(self, gap: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Gains (n, D) of observations, `gap` (n, D) after the previous ones of their channels."""
        added = self.added + gap.clamp(min=SHORTEST_GAP).log()
        share = torch.sigmoid(torch.logaddexp(self.known.expand_as(added).to(added.dtype), added))
        return torch.where(seen, share.to(self.known.dtype), 1.0)

    @torch.no_grad()
    def measure_noise(self, data: Packed, predictions: torch.Tensor) -> torch.Tensor:
        """Set `noise` from the `predictions` (P, D) just before each row.

        Returns the variance (D,) of the signal around the state after observations:
        ``K**2 R + (1 - K)**2 P``, whatever the gain K, with the variances R of the noise and P of
        the innovations less R.

        Each observation is compared with two estimates of the signal that do not use it: the
        prediction, from what came before, and a least-squares estimate back in time, from what came
        next. The errors of the three have little in common, so that the mean of
        ``(x - earlier) (x - later)`` is the variance of the noise: triple collocation (Stoffelen,
        1998). The gain itself does not tell the noise: dynamics that see several observations
        filter as well.

        With few observations, from which the estimate back in time cannot be learned, or sparse
        ones, where it misses more than a fifth of the variance as the prediction does, the noise is
        the mean of ``(1 - K) e**2``, which is R if the gain is optimal (Desroziers et al., 2005).
        """
        again, error = data.mask & data.seen, (data.x - predictions).double()
        kept = 1.0 - self(data.channel_gap, data.seen).double()
        variance = counted_mean(kept * error.square(), again)
        order = data.series.argsort(stable=True)
        for j in range(self.n_channels):
            own = order[data.mask[order, j]]  # rows of the channel, series after series
            # Three successive rows of one series (n, 3), the first of which has one before it.
            rows = own.unfold(0, 3, 1) if len(own) > 2 else own.new_empty(0, 3)
            same = data.series[rows[:, 0]] == data.series[rows[:, 2]]
            rows = rows[same & data.seen[rows[:, 0], j]]
            if len(rows) >= FEWEST * self.n_channels:
                now, later = error[rows[:, 0], j], _missed_back(data, j, rows)
                found = (now * later).mean().clamp(0.0, now.square().mean())
                if later.square().mean() - found < _POOR * data.x[rows[:, 0], j].var():
                    variance[j] = found
        self.noise.copy_(variance.sqrt())
        after = (1.0 - kept).square() * variance + kept.square() * (error.square() - variance)
        return counted_mean(after, data.mask).clamp(min=0.0)


def counted_mean(
    x: torch.Tensor, counted: torch.Tensor, dim: tuple[int, ...] = (0,)
) -> torch.Tensor:
    """Mean (D,) of the counted entries of each channel; zero if there are none."""
    return torch.where(counted, x, 0.0).sum(dim=dim) / counted.sum(dim=dim).clamp(min=1)


def _missed_back(data: Packed, channel: int, rows: torch.Tensor) -> torch.Tensor:
    """Observations minus their least-squares estimates (n,) from those that follow.

    `rows` (n, 3) are theirs and those of the next two of their channel. The estimate goes back from
    the first of these by a linear map of the gap, of the step between the two, its slope times the
    gap, and all channels times the gap. It takes the first whole: a share of it would know the
    level of the signal only in part, as a forecast does.
    """
    x, (now, next_, after) = data.x.double(), rows.unbind(1)
    gap, further = data.elapsed[rows].diff(dim=1).unbind(1)
    step = x[next_, channel] - x[after, channel]
    # A slope over less than half a unit of time is mostly noise.
    alone = torch.stack([gap, step, gap * step / further.clamp(min=0.5)], dim=1)
    terms = torch.cat([alone, gap[:, None] * x[next_], torch.ones_like(alone[:, :1])], dim=1)
    back, square = x[now, channel] - x[next_, channel], terms.T @ terms
    square = square + (1e-9 * (square.diag() + 1)).diag()
    missed = back - terms @ torch.linalg.solve(square, terms.T @ back)
    return missed * (len(terms) / (len(terms) - terms.shape[1]))  # as if learned from others
