"""Predictive variance of forecasts, and of the path between observations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from skpolyode.dynamics.field import drawn
from skpolyode.saving.modules import register_module

TERMS = ("most", "rate", "power", "typical", "missed", "rise", "fall")
N_TERMS = len(TERMS)
"""Numbers that the network gives for each channel of a state; all variances follow from them."""

_BOX = 5.0  # standard deviations: the network reads states within this box
SHORTEST = 1e-9  # units of time
LEAST = 1e-12  # variance of a channel that is always forecast exactly


@dataclass(frozen=True)
class Gap:
    """n times, each between two observations of every channel; variances are NaN if not known."""

    since: Tensor  # float64 (n, D): time since the first observation
    length: Tensor  # float64 (n, D): time between the two
    innovation: Tensor  # (n, D): the second observation less its forecast
    unsettled: Tensor  # (n, D, 2): share of smoothing that each lacks; 1 if none follows
    floor: Tensor  # (n, D): variance of the signal after the first observation
    first: Tensor  # (n, D): variance of the path at the first observation
    second: Tensor  # (n, D): variance of the path at the second observation
    noise: Tensor  # (n, D): variance of the noise of the second observation


@register_module
class VarianceHead(nn.Module):
    """Variance of the signal around its forecast and around its path, in squared deviations.

    Ahead the variance of each channel is ``V = floor + G`` with ``G = a (1 - exp(-(b lead)**p))``.
    The floor is left from noise after the last observation. G, the error of the dynamics, begins at
    zero, never falls with the lead, and has a limit.

    Between two observations the path is bent to the second one, whose innovation is e. After a
    share u of the gap the dynamics add ``G (c + d e**2 / S) (2u)**q (2 - 2u)**r``, with G and the
    variance ``S = V + noise`` of the innovation at the end of the gap. That is zero at both ends,
    and grows with the innovation. The variance left from noise is added: it runs on a line from end
    to end, which later observations lower, times ``1 - 4 k u (1 - u)`` with k of each channel, as
    between observations a filter knows the signal better than at them.

    A network of the state gives the numbers a, b, p, c, d, q and r of each channel (:data:`TERMS`).

    Parameters
    ----------
    widths : sequence of int
        Widths of all layers, from the length of a flat state to that of the terms of all channels.
    generator : torch.Generator or None, default=None
        Source of the weights.
    """

    def __init__(self, widths: Sequence[int], generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.widths = list(widths)
        pairs = pairwise(widths)
        self.layers = nn.ModuleList(drawn(nn.Linear, *p, generator=generator) for p in pairs)
        self.calm = nn.Parameter(torch.full((widths[-1] // N_TERMS,), -2.0, dtype=torch.float32))
        # Variances of the noise, and of the signal at an observation: given all up to it (floor),
        # and given many later ones as well (smoothed).
        for name in ("noise", "floor", "smoothed"):
            self.register_buffer(name, torch.zeros(widths[-1] // N_TERMS, dtype=torch.float32))

    def forward(self, z: Tensor) -> Tensor:
        """Terms (n, N_TERMS, D) of states after observations, `z` (n, M)."""
        out = z.clamp(-_BOX, _BOX)
        *inner, last = self.layers
        for layer in inner:
            out = nn.functional.silu(layer(out))
        return last(out).unflatten(1, (N_TERMS, -1))

    def ahead(self, terms: Tensor, lead: Tensor, floor: Tensor | None = None) -> Tensor:
        """Variances (n, D) of forecasts, `lead` (n, D) after the channels were last observed.

        `floor` (n, D) is NaN where the errors of observations are not known; None if none is.
        """
        floor = self.floor if floor is None else fill_nan(floor, self.floor)
        most, rate, power, *_ = terms.unbind(1)
        log_lead = lead.clamp(min=SHORTEST).log().to(rate.dtype)
        passed = torch.exp((0.3 + 2.7 * torch.sigmoid(power)) * (rate + log_lead).clamp(max=6.0))
        grown = -torch.expm1(-passed) * torch.exp(most.clamp(-30.0, 6.0))
        return floor + torch.where(lead > 0, grown, 0.0)

    def between(self, terms: Tensor, gap: Gap) -> Tensor:
        """Variances (n, D) of the path between two observations of each channel."""
        floor, noise = fill_nan(gap.floor, self.floor), fill_nan(gap.noise, self.noise)
        typical, missed, rise, fall = terms.unbind(1)[3:]
        length = gap.length.clamp(min=torch.finfo(gap.length.dtype).tiny)
        end = self.ahead(terms, length, floor)
        growth = missed.clamp(max=6.0).exp() * gap.innovation**2 / (end + noise + LEAST)
        size = typical.clamp(max=6.0).exp() + growth
        share = (gap.since / length).clamp(0.0, 1.0)  # (n, D), of the gap
        left = (1.0 - share).to(rise.dtype)
        share = share.to(rise.dtype)
        rise, fall = (0.5 + 2.0 * torch.sigmoid(term) for term in (rise, fall))
        shape = (2 * share) ** rise * (2 * left) ** fall
        missing = torch.lerp(*gap.unsettled.unbind(2), share)
        at_ends = torch.lerp(self.smoothed, self.floor, missing)
        at_ends = fill_nan(torch.lerp(gap.first, gap.second, share), at_ends)
        at_ends = at_ends * (1 - torch.sigmoid(self.calm) * 4 * share * left)
        return at_ends + (end - floor) * size * shape


def fill_nan(values: Tensor, others: Tensor) -> Tensor:
    """`values`, and `others` where they are NaN."""
    return torch.where(values.isnan(), others, values)
