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

_TERMS = 5  # of a line back in time
_ENOUGH = 50  # observations to learn it from
_SHORTEST = 0.5  # units of time that a slope is measured over, or noise is taken for it


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
    def measure_noise(self, data: Packed, predictions: torch.Tensor) -> torch.Tensor:
        """Set `noise` from what was expected just before each row, `predictions` (P, D).

        Returns the variance (D,) of the signal around the state after observations: a share of the
        noise and what was wrong before, ``K**2 R + (1 - K)**2 P``, whatever K is. P is the variance
        of the innovations less R.

        An observation is compared with two estimates of the signal that know nothing of it: the
        prediction, from what came before, and a line through the next two observations of the
        channel, which least squares draw to it. The errors of all three have little in common, so
        that the mean of ``(x - earlier) (x - later)`` is the variance of the noise: triple
        collocation (Stoffelen, 1998). The gain is not asked, since dynamics that see several
        observations filter as well, and leave it no optimum of Kalman's.

        Of few observations, for which no line can be learned, it is the mean of ``(1 - K) e**2``,
        which is R if the gain is the best one (Desroziers et al., 2005).
        """
        again, error = data.mask & data.seen, (data.x - predictions).double()
        kept = 1.0 - self(data.channel_gap, data.seen).double()
        variance = _mean(kept * error.square(), again)
        order = data.series.argsort(stable=True)
        for j, (mask, seen) in enumerate(zip(data.mask.T, data.seen.T, strict=True)):
            own = order[mask[order]]  # rows of the channel, series after series
            known = (data.series[own[:-2]] == data.series[own[2:]]) & seen[own[:-2]]
            if known.sum() >= _ENOUGH:
                rows = own.unfold(0, 3, 1)[known]  # (n, 3)
                later = _line_back(data.x[rows, j].double(), data.elapsed[rows])
                product = (error[rows[:, 0], j] * later).mean() * (len(rows) / (len(rows) - _TERMS))
                variance[j] = product.clamp(0.0, error[rows[:, 0], j].square().mean())
        self.noise.copy_(variance.sqrt())
        after = (1.0 - kept).square() * variance + kept.square() * (error.square() - variance)
        return _mean(after, data.mask).clamp(min=0.0)


def _mean(x: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Of the counted entries of each column; zero of nothing."""
    return torch.where(counted, x, 0.0).sum(dim=0) / counted.sum(dim=0).clamp(min=1)


def _line_back(x: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
    """By how much observations exceed what the next two say, (n,); both arguments are (n, 3)."""
    gap, step = times.diff(dim=1).unbind(1)
    slope = (x[:, 1] - x[:, 2]) / step.clamp(min=_SHORTEST)
    terms = torch.stack([torch.ones_like(gap), gap, x[:, 1], x[:, 2], gap * slope], dim=1)
    square = terms.T @ terms
    weights = torch.linalg.solve(square + 1e-9 * square.diag().diag(), terms.T @ x[:, 0])
    return x[:, 0] - terms @ weights


register_module(Gain, lambda gain: {"n_channels": gain.n_channels})
