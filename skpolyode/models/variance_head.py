"""How far off a path may be: a scale for every state, every lead, and between observations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import nn

from skpolyode.models.contract import select
from skpolyode.models.gain import counted_mean
from skpolyode.models.layers import drawn
from skpolyode.models.packed import Packed
from skpolyode.models.polyode import PolyODE
from skpolyode.saving.modules import register_module

__all__ = ["N_TERMS", "Hidden", "VarianceHead", "learn_variance"]

N_TERMS = 7
"""Numbers that a scale makes of a state, for each channel; all variances follow from them."""

_WIDTHS = (64, 64)
_BOX = 5.0  # standard deviations: what the head sees of a state
_LONGEST = 4  # observations that forecasts to learn from look ahead
_MOST = 20_000  # rows that they start from
_FEWEST = 30  # observations that are hidden; fewer say nothing of what smoothing leaves
_SHORTEST = 1e-9  # units of time
_LEAST = 1e-12  # variance: of a channel that is always forecast exactly
_STEPS, _BATCH, _RATE = 400, 512, 1e-2
_USUAL = (-1.0, -1.0)  # logarithms of the two parts of a bridge before anything is learned


class VarianceHead(nn.Module):
    """Variance of the signal around its forecast and around its path, in squared deviations.

    Ahead it is ``V = floor + G``, of each channel, with ``G = a (1 - exp(-(b lead)**p))``: what was
    left of the noise after the last observation, and what the dynamics add, which begins with
    nothing, never falls with the lead, and ends in what is never known.

    Between two observations the path is bent to the second one, which was missed by an innovation
    e. At the share u of the way what is added is ``G (c + d e**2 / S) (2u)**q (2 - 2u)**r``, with G
    and the variance ``S = V + noise`` of the innovation at the end of the way: it begins and ends
    with nothing, and is the larger, the more was missed. To this comes what is left of the noise,
    on a line from end to end, which later observations lower. It is ``1 - 4 k u (1 - u)`` of that,
    with k of each channel: between observations dynamics that filter know better than at them.

    A network of the state makes the :data:`N_TERMS` numbers a, b, p, c, d, q and r of each channel.

    Parameters
    ----------
    widths : sequence of int
        Those of all layers: the first is that of a flat state, the last is that of the terms of
        all channels.
    generator : torch.Generator or None, default=None
        Source of the weights.
    """

    def __init__(self, widths: Sequence[int], generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.widths = list(widths)
        pairs = pairwise(widths)
        self.layers = nn.ModuleList(drawn(nn.Linear, *p, generator=generator) for p in pairs)
        self.calm = nn.Parameter(torch.full((widths[-1] // N_TERMS,), -2.0))
        # Variances: of the noise, of the signal at an observation, given those up to it (floor),
        # and given many that follow as well.
        for name in ("noise", "floor", "smoothed"):
            self.register_buffer(name, torch.zeros(widths[-1] // N_TERMS))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """Terms (n, N_TERMS, D) of states after observations, `z` (n, D, 1 + N)."""
        out = z.flatten(1).clamp(-_BOX, _BOX)
        *inner, last = self.layers
        for layer in inner:
            out = nn.functional.silu(layer(out))
        return last(out).unflatten(1, (N_TERMS, -1))

    def ahead(self, terms: torch.Tensor, lead: torch.Tensor) -> torch.Tensor:
        """Variances (n, D) of forecasts, `lead` (n, D) after the channels were last observed."""
        most, rate, power, *_ = terms.unbind(1)
        log_lead = lead.clamp(min=_SHORTEST).log().to(rate.dtype)
        passed = torch.exp((0.3 + 2.7 * torch.sigmoid(power)) * (rate + log_lead).clamp(max=6.0))
        grown = -torch.expm1(-passed) * torch.exp(most.clamp(-30.0, 6.0))
        return self.floor + torch.where(lead > 0, grown, 0.0)

    def between(
        self,
        terms: torch.Tensor,
        since: torch.Tensor,
        length: torch.Tensor,
        innovation: torch.Tensor,
        unsettled: torch.Tensor,
    ) -> torch.Tensor:
        """Variances (n, D) of the path between two observations of the channels.

        They are `length` (n, D) apart, and the first was `since` (n, D) ago. `innovation` (n, D) is
        by how much the second one exceeds its forecast. `unsettled` (n, D, 2) is how much of what
        later observations tell of the noise of either is still missing: 1 if none follows.
        """
        usual, missed, rise, fall = terms.unbind(1)[3:]
        end = self.ahead(terms, length)
        expected = end + self.noise + _LEAST
        size = usual.clamp(max=6.0).exp() + missed.clamp(max=6.0).exp() * innovation**2 / expected
        share = (since / length).clamp(0.0, 1.0)
        left = (1.0 - share).to(rise.dtype)
        share = share.to(rise.dtype)
        shape = (2 * share) ** _power(rise) * (2 * left) ** _power(fall)
        missing = torch.lerp(*unsettled.to(share.dtype).unbind(2), share)
        at_ends = torch.lerp(self.smoothed, self.floor, missing)
        at_ends = at_ends * (1 - torch.sigmoid(self.calm) * 4 * share * left)
        return at_ends + (end - self.floor) * size * shape


def _power(term: torch.Tensor) -> torch.Tensor:
    return 0.5 + 2.0 * torch.sigmoid(term)


register_module(VarianceHead, lambda scale: {"widths": scale.widths})


class Hidden(NamedTuple):
    """n times between two observations of each channel, at which others were hidden."""

    row: torch.Tensor  # int64 (n,): of the hidden ones, as packed; -1 if that does not matter
    z: torch.Tensor  # (n, D, 1 + N): states that the way to them starts from
    since: torch.Tensor  # float64 (n, D): from the observation before
    length: torch.Tensor  # float64 (n, D): from there to the one behind
    innovation: torch.Tensor  # (n, D): by how much that one exceeds its forecast
    unsettled: torch.Tensor  # (n, D, 2): as of `VarianceHead.between`
    missed: torch.Tensor  # (n, D): by how much the hidden ones exceed the path
    left: torch.Tensor  # (n, D): and a path that knows them
    known: torch.Tensor  # bool (n, D): whether there is all of this

    def draw(self, size: int, generator: torch.Generator) -> Hidden:
        """Some of them."""
        some = torch.randint(len(self.z), (size,), generator=generator).to(self.z.device)
        return Hidden(*(column[some] for column in self))


def learn_variance(
    model: PolyODE, data: Packed, generator: torch.Generator, hidden: Hidden | None = None
) -> VarianceHead:
    """Head that knows how large the errors of forecasts and paths are, once the mean is learned.

    First a filter measures the noise. The head then learns by the likelihood of normal errors of
    observations, which are the signal and noise: of forecasts over one to four observations, and of
    paths at hidden ones between.

    Parameters
    ----------
    model : PolyODE
        Trained.
    data : Packed
        Series to learn from.
    generator : torch.Generator
        Source of weights and minibatches.
    hidden : Hidden or None, default=None
        What the smoothed paths of a filter miss, which know all that follows. None, of a model that
        takes observations as exact: paths are bent to the next one only, and forecasts tell all.

    Raises
    ------
    ValueError
        If there is nothing to forecast.
    """
    if not (data.next >= 0).any():
        raise ValueError(
            "how far off a path may be is learned from forecasts, but no series has two rows with "
            "observations: give longer series, or take observations='exact' and another embedding."
        )
    tried = _try_forecasts(model, data, generator)
    n_channels = data.x.shape[1]
    widths = [tried.z[0].numel(), *_WIDTHS, N_TERMS * n_channels]
    scale = VarianceHead(widths, generator).to(tried.z)
    noise = scale.noise if hidden is None else _measure(scale, model, data, hidden)
    _begin(scale, tried)
    weights = list((scale.layers if hidden is None else scale).parameters())
    optimizer = torch.optim.Adam(weights, lr=_RATE)
    for step in range(_STEPS):
        optimizer.param_groups[0]["lr"] = _RATE * math.cos(math.pi / 2 * step / _STEPS)
        optimizer.zero_grad()
        ahead, passed = tried.draw(_BATCH, generator)
        if hidden is not None and len(hidden.z):
            passed = hidden.draw(_BATCH, generator)
        _loss(scale, ahead, passed, noise).backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
    return scale.requires_grad_(False)


@torch.no_grad()
def _measure(scale: VarianceHead, model: PolyODE, data: Packed, hidden: Hidden) -> torch.Tensor:
    """Set what is known of the noise, and return its variances (D,) in the hidden observations.

    The variance of those is that of all, and by how much their innovations are larger: chance would
    be taken for what paths are wrong by otherwise.

    A path that knows an observation takes over a share k of what it missed before, which is ``P +
    R`` on average. So it has k of the noise, and keeps ``1 - k`` of what it was wrong by: ``k**2 R
    + (1 - k)**2 P``.
    """
    predictions = model.predictions(data)
    scale.floor.copy_(model.gain.measure_noise(data, predictions))
    scale.noise.copy_(model.gain.noise.square())
    square, enough = (data.x - predictions).square(), hidden.known.sum(dim=0) >= _FEWEST
    of_hidden = counted_mean(square[hidden.row], hidden.known)
    larger = of_hidden - counted_mean(square, data.mask & data.seen)
    noise = (scale.noise + torch.where(enough, larger, 0.0)).clamp(min=0.0)
    missed = counted_mean(hidden.missed.square(), hidden.known)
    kept = counted_mean(hidden.left * hidden.missed, hidden.known) / missed.clamp(min=_LEAST)
    before = (missed - noise).clamp(min=0.0)
    found = (1.0 - kept).square() * scale.noise + kept.square() * before
    scale.smoothed.copy_(torch.where(enough, found, scale.floor))
    return noise


class _Ahead(NamedTuple):
    """Forecasts of n observations."""

    z: torch.Tensor  # (n, D, 1 + N): states that they start from
    lead: torch.Tensor  # float64 (n, D): since the channel was observed
    error: torch.Tensor  # (n, D)
    known: torch.Tensor  # bool (n, D)


class _Tried(NamedTuple):
    """Forecasts from n states over K observations, none of which is taken in."""

    z: torch.Tensor  # (n, D, 1 + N)
    seen: torch.Tensor  # bool (n, D): whether the channel was observed by then
    lead: torch.Tensor  # float64 (K, n, D)
    error: torch.Tensor  # (K, n, D)
    known: torch.Tensor  # bool (K, n, D)

    def draw(self, size: int, generator: torch.Generator) -> tuple[_Ahead, Hidden]:
        """Some of the forecasts, and paths that are bent to each, over one that it passes."""
        (n_ahead, n_states), device = self.lead.shape[:2], self.z.device
        some = torch.randint(n_states, (size,), generator=generator)
        end = torch.randint(n_ahead, (size,), generator=generator)
        inner = (torch.rand(size, generator=generator) * end).long()
        inside = (inner < end).to(device)[:, None]
        some, end, inner = some.to(device), end.to(device), inner.to(device)
        ahead = _Ahead(self.z[some], *(x[end, some] for x in self[2:]))
        since, missed, also = (x[inner, some] for x in self[2:])
        # As `bridges` bends paths: all of it is shifted to the first observation of a channel.
        left = torch.where(self.seen[some], 1.0 - since / ahead.lead, 0.0)
        missed = missed - (ahead.error * (1.0 - left)).to(missed.dtype)
        settled, known = missed.new_zeros(*missed.shape, 2), inside & ahead.known & also
        way = torch.full_like(some, -1), ahead.z, since, ahead.lead, ahead.error, settled
        return ahead, Hidden(*way, missed, torch.zeros_like(missed), known)


def _loss(scale: VarianceHead, ahead: _Ahead, hidden: Hidden, noise: torch.Tensor) -> torch.Tensor:
    """Minus twice the mean log-likelihood, but for a constant, of errors ahead and between.

    `noise` (D,) is that of the hidden observations.
    """
    terms = scale(ahead.z)
    forecast = scale.ahead(terms, ahead.lead.clamp(min=_SHORTEST))
    length = hidden.length.clamp(min=_SHORTEST)
    since = torch.minimum(hidden.since.clamp(min=1e-6 * length), (1 - 1e-6) * length)
    inner = terms if hidden.z is ahead.z else scale(hidden.z)
    path = scale.between(inner, since, length, hidden.innovation, hidden.unsettled)
    cases = (
        (forecast + scale.noise + _LEAST, ahead.error, ahead.known),
        (path + noise + _LEAST, hidden.missed, hidden.known),
    )
    total = terms.new_zeros(())
    for variance, error, known in cases:
        loss = torch.where(known, variance.log() + error.square() / variance, 0.0)
        total = total + loss.sum() / known.sum().clamp(min=1)
    return total


@torch.no_grad()
def _begin(scale: VarianceHead, tried: _Tried) -> None:
    """Take all errors for alike, and the powers for nearly those of a random walk."""
    mean = counted_mean(tried.error.square(), tried.known, (0, 1))
    scale.layers[-1].weight.mul_(0.1)
    bias = scale.layers[-1].bias.zero_().unflatten(0, (N_TERMS, -1))
    bias[0] = (mean - scale.noise).maximum(1e-3 * mean + _LEAST).log()
    bias[3], bias[4] = _USUAL


@torch.no_grad()
def _try_forecasts(model: PolyODE, data: Packed, generator: torch.Generator) -> _Tried:
    """Forecasts over some observations, from states after some of the rows."""
    z = torch.empty(*data.x.shape, 1 + model.memory.n_coefficients).to(data.x)
    for step in model.run(data):
        z[step.rows] = step.state["z"]
    # Time since the channel was observed, at a row; one that never was is as old as the series.
    age = torch.where(data.seen, data.channel_gap, data.elapsed[:, None] + 1.0)
    age = torch.where(data.mask, 0.0, age)
    origin = (data.next >= 0).nonzero()[:, 0].cpu()
    origin = origin[torch.randperm(len(origin), generator=generator)[:_MOST]].to(z.device)
    seen, shape = (data.seen | data.mask)[origin], (_LONGEST, *age[origin].shape)
    leads, errors = age.new_ones(shape), z.new_zeros(shape)
    known = torch.zeros(shape, dtype=torch.bool, device=z.device)
    state, row, lead = {"z": z[origin]}, origin, age[origin]
    place = torch.arange(len(origin), device=z.device)
    for k in range(_LONGEST):
        going_on = data.next[row] >= 0
        if not going_on.any():
            break
        state, place = select(state, going_on), place[going_on]
        row, lead = data.next[row[going_on]], lead[going_on]
        state = model.flow(state, data.gap[row], data.elapsed[row])
        lead = lead + data.gap[row][:, None]
        leads[k, place], known[k, place] = lead, data.mask[row]
        errors[k, place] = data.x[row] - model.predict(state).mean
    n_ahead = int(known.any(dim=2).any(dim=1).sum())
    return _Tried(z[origin], seen, leads[:n_ahead], errors[:n_ahead], known[:n_ahead])
