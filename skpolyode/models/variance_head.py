"""Predictive variance of forecasts, and of the path between observations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import nn

from skpolyode.models.contract import select
from skpolyode.models.gain import FEWEST, counted_mean
from skpolyode.models.layers import drawn
from skpolyode.models.packed import Packed
from skpolyode.models.polyode import PolyODE
from skpolyode.saving.modules import register_module

TERMS = ("most", "rate", "power", "usual", "missed", "rise", "fall")
N_TERMS = len(TERMS)
"""Numbers that the network gives for each channel of a state; all variances follow from them."""

_BOX = 5.0  # standard deviations: the network reads states within this box
_SHORTEST = 1e-9  # units of time
_LEAST = 1e-12  # variance of a channel that is always forecast exactly


@dataclass(frozen=True)
class VarianceSettings:
    """How a :class:`VarianceHead` is trained.

    Of filters, forecasts that reach 10 observations make intervals of 90 % hold more than such that
    reach 4: eight to ten gaps ahead .89 and .89, not .87 and .85, on sines, and .84 and .89, not
    .74 and .86, on Lorenz63 (noise of .1 and .3, 200 series, new ones). Models that take
    observations as exact learn about paths from the same forecasts: with 10, scale and error of the
    path correlate less (.54 instead of .67 on the damped pendulum).
    """

    widths: tuple[int, ...] = (64, 64)  # of the hidden layers
    n_ahead: int = 4  # observations that the forecasts to learn from reach
    n_ahead_filtered: int = 10  # the same of a filter
    n_origins: int = 20_000  # rows that they start from, at most
    n_steps: int = 400  # steps of Adam
    batch_size: int = 512
    learning_rate: float = 1e-2  # at first; it falls to zero along a cosine


SETTINGS = VarianceSettings()


@register_module
class VarianceHead(nn.Module):
    """Variance of the signal around its forecast and around its path, in squared deviations.

    Ahead the variance of each channel is ``V = floor + G`` with ``G = a (1 - exp(-(b lead)**p))``:
    the floor is left from noise after the last observation; G, the error of the dynamics, begins at
    zero, never falls with the lead, and has a limit.

    Between two observations the path is bent to the second one, whose innovation is e. At the share
    u of the way the dynamics add ``G (c + d e**2 / S) (2u)**q (2 - 2u)**r``, with G and the
    variance ``S = V + noise`` of the innovation at the end of the way: nothing at both ends, and
    the more, the larger the innovation was. To this comes the variance left from noise, on a line
    from end to end, which later observations lower, times ``1 - 4 k u (1 - u)`` with k of each
    channel: between observations a filter knows the signal better than at them.

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
        self.calm = nn.Parameter(torch.full((widths[-1] // N_TERMS,), -2.0))
        # Variances of the noise, and of the signal at an observation: given all up to it (floor),
        # and given many later ones as well (smoothed).
        for name in ("noise", "floor", "smoothed"):
            self.register_buffer(name, torch.zeros(widths[-1] // N_TERMS))

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """Terms (n, N_TERMS, D) of states after observations, `z` (n, M)."""
        out = z.clamp(-_BOX, _BOX)
        *inner, last = self.layers
        for layer in inner:
            out = nn.functional.silu(layer(out))
        return last(out).unflatten(1, (N_TERMS, -1))

    def ahead(
        self, terms: torch.Tensor, lead: torch.Tensor, floor: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Variances (n, D) of forecasts, `lead` (n, D) after the channels were last observed.

        `floor` (n, D) is told where errors of observations are, and else NaN, as of all.
        """
        floor = self.floor if floor is None else _or_usual(floor, self.floor)
        most, rate, power, *_ = terms.unbind(1)
        log_lead = lead.clamp(min=_SHORTEST).log().to(rate.dtype)
        passed = torch.exp((0.3 + 2.7 * torch.sigmoid(power)) * (rate + log_lead).clamp(max=6.0))
        grown = -torch.expm1(-passed) * torch.exp(most.clamp(-30.0, 6.0))
        return floor + torch.where(lead > 0, grown, 0.0)

    def between(
        self,
        terms: torch.Tensor,
        since: torch.Tensor,
        length: torch.Tensor,
        innovation: torch.Tensor,
        unsettled: torch.Tensor,
        told: torch.Tensor,
    ) -> torch.Tensor:
        """Variances (n, D) of the path between two observations of each channel.

        They are `length` (n, D) apart, and the first was `since` (n, D) ago. `innovation` (n, D) is
        the second one less its forecast. `unsettled` (n, D, 2) is the share of smoothing that
        either observation still lacks: 1 if no observation follows. `told` is as of `Hidden`.
        """
        floor, first, second, noise, _ = told.to(terms.dtype).unbind(2)
        floor, noise = _or_usual(floor, self.floor), _or_usual(noise, self.noise)
        usual, missed, rise, fall = terms.unbind(1)[3:]
        end = self.ahead(terms, length, floor)
        expected = end + noise + _LEAST
        size = usual.clamp(max=6.0).exp() + missed.clamp(max=6.0).exp() * innovation**2 / expected
        share = (since / length).clamp(0.0, 1.0)  # (n, D), of the way
        left = (1.0 - share).to(rise.dtype)
        share = share.to(rise.dtype)
        rise, fall = (0.5 + 2.0 * torch.sigmoid(term) for term in (rise, fall))
        shape = (2 * share) ** rise * (2 * left) ** fall
        missing = torch.lerp(*unsettled.to(share.dtype).unbind(2), share)
        at_ends = torch.lerp(self.smoothed, self.floor, missing)
        at_ends = _or_usual(torch.lerp(first, second, share), at_ends)
        at_ends = at_ends * (1 - torch.sigmoid(self.calm) * 4 * share * left)
        return at_ends + (end - floor) * size * shape


def _or_usual(told: torch.Tensor, usual: torch.Tensor) -> torch.Tensor:
    """What is told, or what is usual where it is NaN."""
    return torch.where(told.isnan(), usual, told)


class Hidden(NamedTuple):
    """n hidden observations, between two others of each channel."""

    row: torch.Tensor  # int64 (n,): packed row; -1 where it is not used
    z: torch.Tensor  # (n, M): state that the path starts from
    since: torch.Tensor  # float64 (n, D): time since the observation before
    length: torch.Tensor  # float64 (n, D): time between the observations before and after
    innovation: torch.Tensor  # (n, D): of the observation after
    unsettled: torch.Tensor  # (n, D, 2): see `VarianceHead.between`
    missed: torch.Tensor  # (n, D): hidden observation less the path
    left: torch.Tensor  # (n, D): hidden observation less the path that it is part of
    known: torch.Tensor  # bool (n, D): whether all of these exist
    # (n, D, 5), NaN where errors of observations do not tell them: variances of the signal after
    # the observation before, and of its path at the ones before and after; and of the noise of the
    # one after and of the hidden one.
    told: torch.Tensor

    def draw(self, size: int, generator: torch.Generator) -> Hidden:
        """A random sample."""
        sample = torch.randint(len(self.z), (size,), generator=generator).to(self.z.device)
        return Hidden(*(column[sample] for column in self))


def learn_variance(
    model: PolyODE, data: Packed, generator: torch.Generator, hidden: Hidden | None = None
) -> VarianceHead:
    """Train a head on the errors of a trained model, by their normal likelihood.

    First a filter measures the noise. The errors are those of forecasts over some observations, and
    of paths at hidden observations between others.

    Parameters
    ----------
    model : PolyODE
        Trained.
    data : Packed
        Series to learn from.
    generator : torch.Generator
        Source of weights and minibatches.
    hidden : Hidden or None, default=None
        Errors of the smoothed paths of a filter, which depend on all later observations. None, for
        a model that takes observations as exact: its paths are bent to the next observation only,
        and their errors follow from those of forecasts.

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
    n_ahead = SETTINGS.n_ahead if hidden is None else SETTINGS.n_ahead_filtered
    forecasts = _forecast(model, data, generator, n_ahead)
    widths = [forecasts.z.shape[1], *SETTINGS.widths, N_TERMS * data.x.shape[1]]
    head = VarianceHead(widths, generator).to(forecasts.z)
    noise = head.noise if hidden is None else _measure_noise(head, model, data, hidden)
    with torch.no_grad():  # at first the variance is the mean square error, whatever the state
        mean = counted_mean(forecasts.error.square(), forecasts.known, (0, 1))
        head.layers[-1].weight.mul_(0.1)
        bias = head.layers[-1].bias.zero_().unflatten(0, (N_TERMS, -1))
        bias[TERMS.index("most")] = (mean - head.noise).maximum(1e-3 * mean + _LEAST).log()
        bias[TERMS.index("usual")] = bias[TERMS.index("missed")] = -1.0
    weights = list((head.layers if hidden is None else head).parameters())
    optimizer, rate = torch.optim.Adam(weights), SETTINGS.learning_rate
    for step in range(SETTINGS.n_steps):
        optimizer.param_groups[0]["lr"] = rate * math.cos(math.pi / 2 * step / SETTINGS.n_steps)
        optimizer.zero_grad()
        ahead, passed = forecasts.draw(SETTINGS.batch_size, generator)
        if hidden is not None and len(hidden.z):
            passed = hidden.draw(SETTINGS.batch_size, generator)
        _loss(head, ahead, passed, noise).backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
    return head.requires_grad_(False)


@torch.no_grad()
def _measure_noise(
    head: VarianceHead, model: PolyODE, data: Packed, hidden: Hidden
) -> torch.Tensor:
    """Set the variances of the noise, and return those (D,) of the hidden observations.

    The latter are the former plus the excess of their squared innovations: chance in the sample
    would be taken for errors of paths otherwise.

    A path that an observation is added to moves by a share k of its error ``P + R`` (mean square).
    So it keeps ``k**2 R + (1 - k)**2 P``.
    """
    predictions = model.predictions(data)
    head.floor.copy_(model.gain.measure_noise(data, predictions))
    head.noise.copy_(model.gain.noise.square())
    square, enough = (data.x - predictions).square(), hidden.known.sum(dim=0) >= FEWEST
    of_hidden = counted_mean(square[hidden.row], hidden.known)
    larger = of_hidden - counted_mean(square, data.mask & data.seen)
    noise = (head.noise + torch.where(enough, larger, 0.0)).clamp(min=0.0)
    missed = counted_mean(hidden.missed.square(), hidden.known)
    kept = counted_mean(hidden.left * hidden.missed, hidden.known) / missed.clamp(min=_LEAST)
    before = (missed - noise).clamp(min=0.0)
    found = (1.0 - kept).square() * head.noise + kept.square() * before
    head.smoothed.copy_(torch.where(enough, found, head.floor))
    return noise


class _Forecasts(NamedTuple):
    """Forecasts from n states over K observations without updates, or a sample without axis K."""

    z: torch.Tensor  # (n, M)
    seen: torch.Tensor  # bool (n, D): whether the channel was observed by then
    lead: torch.Tensor  # float64 (K, n, D): time since the channel was observed
    error: torch.Tensor  # (K, n, D)
    known: torch.Tensor  # bool (K, n, D)
    noise: torch.Tensor  # (K, n, D): its variance, NaN where errors do not tell it
    floor: torch.Tensor  # (n, D): variance of the signal after the observation before, or NaN

    def draw(self, size: int, generator: torch.Generator) -> tuple[_Forecasts, Hidden]:
        """A sample of forecasts, and paths bent to the observation forecast, at one passed."""
        (n_ahead, n_states), device = self.lead.shape[:2], self.z.device
        some = torch.randint(n_states, (size,), generator=generator)
        end = torch.randint(n_ahead, (size,), generator=generator)
        inner = (torch.rand(size, generator=generator) * end).long()
        inside = (inner < end).to(device)[:, None]
        some, end, inner = some.to(device), end.to(device), inner.to(device)
        columns = (x[end, some] for x in self[2:-1])
        ahead = _Forecasts(self.z[some], self.seen[some], *columns, self.floor[some])
        since, missed, also = (x[inner, some] for x in self[2:5])
        # Paths are bent by bridges: to the first observation of a channel they shift as a whole.
        left = torch.where(ahead.seen, 1.0 - since / ahead.lead, 0.0)
        missed = missed - (ahead.error * (1.0 - left)).to(missed.dtype)
        settled, known = missed.new_zeros(*missed.shape, 2), inside & ahead.known & also
        way = torch.full_like(some, -1), ahead.z, since, ahead.lead, ahead.error, settled
        nothing = missed.new_full((*missed.shape, 5), torch.nan)
        return ahead, Hidden(*way, missed, torch.zeros_like(missed), known, nothing)


def _loss(
    head: VarianceHead, ahead: _Forecasts, hidden: Hidden, noise: torch.Tensor
) -> torch.Tensor:
    """Minus twice the mean log-likelihood of errors ahead and between, up to a constant.

    `noise` (D,) is the variance of the noise of the hidden observations.
    """
    terms = head(ahead.z)
    forecast = head.ahead(terms, ahead.lead.clamp(min=_SHORTEST), ahead.floor)
    length = hidden.length.clamp(min=_SHORTEST)
    since = torch.minimum(hidden.since.clamp(min=1e-6 * length), (1 - 1e-6) * length)
    inner = terms if hidden.z is ahead.z else head(hidden.z)
    path = head.between(inner, since, length, hidden.innovation, hidden.unsettled, hidden.told)
    noises = _or_usual(ahead.noise, head.noise), _or_usual(hidden.told[..., -1], noise)
    cases = (
        (forecast + noises[0] + _LEAST, ahead.error, ahead.known),
        (path + noises[1] + _LEAST, hidden.missed, hidden.known),
    )
    total = terms.new_zeros(())
    for variance, error, known in cases:
        loss = torch.where(known, variance.log() + error.square() / variance, 0.0)
        total = total + loss.sum() / known.sum().clamp(min=1)
    return total


@torch.no_grad()
def _forecast(model: PolyODE, data: Packed, generator: torch.Generator, n_ahead: int) -> _Forecasts:
    """Forecasts over `n_ahead` observations, from the states after a sample of the rows."""
    z = torch.empty(len(data.x), model.size).to(data.x)
    for step in model.run(data):
        z[step.rows] = step.state["z"]
    # Time since each channel was observed, at each row (P, D); since the start if it never was.
    age = torch.where(data.seen, data.channel_gap, data.elapsed[:, None] + 1.0)
    age = torch.where(data.mask, 0.0, age)
    origin = (data.next >= 0).nonzero()[:, 0].cpu()
    origin = origin[torch.randperm(len(origin), generator=generator)[: SETTINGS.n_origins]].to(
        z.device
    )
    seen, shape = (data.seen | data.mask)[origin], (n_ahead, *age[origin].shape)
    leads, errors = age.new_ones(shape), z.new_zeros(shape)
    known = torch.zeros(shape, dtype=torch.bool, device=z.device)
    noise, floor, noises = errors + torch.nan, torch.full_like(data.x[origin], torch.nan), None
    if data.left is not None:
        noises, after = model.gain.variances(data)
        floor = torch.where(data.mask[origin], after[origin], floor)
    state, row, lead = {"z": z[origin]}, origin, age[origin]
    place = torch.arange(len(origin), device=z.device)
    for k in range(n_ahead):
        going_on = data.next[row] >= 0
        if not going_on.any():
            break
        state, place = select(state, going_on), place[going_on]
        state = model.steer(state, data, row[going_on]) if k else state
        row, lead = data.next[row[going_on]], lead[going_on]
        state = model.flow(state, data.gap[row], data.elapsed[row])
        lead = lead + data.gap[row][:, None]
        leads[k, place], known[k, place] = lead, data.mask[row]
        errors[k, place] = data.x[row] - model.predict(state).mean
        if noises is not None:
            noise[k, place] = noises[row]
    n_ahead = int(known.any(dim=2).any(dim=1).sum())
    columns = (x[:n_ahead] for x in (leads, errors, known, noise))
    return _Forecasts(z[origin], seen, *columns, floor)
