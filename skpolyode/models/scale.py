"""How far off a forecast may be: a scale for every state and every lead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from skpolyode.models.contract import select
from skpolyode.models.layers import drawn
from skpolyode.models.packed import Packed
from skpolyode.models.polyode import PolyODE
from skpolyode.saving.modules import register_module

__all__ = ["Scale", "learn_scale"]

_WIDTHS = (64, 64)
_BOX = 5.0  # standard deviations: what the head sees of a state
_LONGEST = 4  # observations that forecasts to learn from look ahead
_MOST = 20_000  # rows that they start from
_SHORTEST = 1e-9  # units of time
_STEPS, _BATCH, _RATE = 400, 512, 1e-2


class Scale(nn.Module):
    """Variance of the signal around its forecast, in squared standard deviations.

    It is ``floor + a (1 - exp(-(b lead)**p))``, of each channel, with a, b and p from a network of
    the state: what was left of the noise after the last observation, and what the dynamics add,
    which begins with nothing, never falls with the lead, and ends in what is never known.

    Parameters
    ----------
    widths : sequence of int
        Those of all layers: the first is that of a flat state, the last is 3 D.
    generator : torch.Generator or None, default=None
        Source of the weights.
    """

    def __init__(self, widths: Sequence[int], generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.widths = list(widths)
        pairs = pairwise(widths)
        self.layers = nn.ModuleList(drawn(nn.Linear, *p, generator=generator) for p in pairs)
        self.register_buffer("noise", torch.zeros(widths[-1] // 3))  # variances
        self.register_buffer("floor", torch.zeros(widths[-1] // 3))

    def forward(self, z: torch.Tensor, lead: torch.Tensor) -> torch.Tensor:
        """Variances (n, D) `lead` (n, D) after the channels were last observed.

        `z` (n, D, 1 + N) are states after observations, of which the forecasts are made.
        """
        out = z.flatten(1).clamp(-_BOX, _BOX)
        *inner, last = self.layers
        for layer in inner:
            out = nn.functional.silu(layer(out))
        most, rate, power = last(out).unflatten(1, (3, -1)).unbind(1)
        log_lead = lead.clamp(min=_SHORTEST).log().to(rate.dtype)
        passed = torch.exp((0.3 + 2.7 * torch.sigmoid(power)) * (rate + log_lead).clamp(max=6.0))
        grown = -torch.expm1(-passed) * torch.exp(most.clamp(-30.0, 6.0))
        return self.floor + torch.where(lead > 0, grown, 0.0)


register_module(Scale, lambda scale: {"widths": scale.widths})


def learn_scale(model: PolyODE, data: Packed, generator: torch.Generator) -> Scale:
    """Head that knows how large the errors of forecasts are, after the mean has been learned.

    First the gain of a filter measures the noise. The head then learns by the likelihood of normal
    errors, of forecasts over one to four observations.

    Parameters
    ----------
    model : PolyODE
        Trained.
    data : Packed
        Series to learn from.
    generator : torch.Generator
        Source of weights and minibatches.

    Raises
    ------
    ValueError
        If there is nothing to forecast.
    """
    if not (data.next >= 0).any():
        raise ValueError(
            "the noise is learned from forecasts, but no series has two rows with observations: "
            "take observations='exact'."
        )
    if model.gain is not None:
        with torch.no_grad():
            model.gain.measure_noise(data, model.predictions(data))
    z, lead, error, known = _forecasts(model, data, generator)
    n_channels = z.shape[1]
    scale = Scale([z[0].numel(), *_WIDTHS, 3 * n_channels], generator).to(z)
    if model.gain is not None:
        one = torch.ones(1, n_channels, dtype=torch.float64, device=z.device)
        scale.noise.copy_(model.gain.noise.square())
        scale.floor.copy_((model.gain(one, one > 0)[0] * scale.noise).detach())
    square = torch.where(known, error.square(), 0.0)
    mean = square.sum(dim=0) / known.sum(dim=0).clamp(min=1)
    with torch.no_grad():
        scale.layers[-1].weight.mul_(0.1)
        scale.layers[-1].bias.zero_()  # the power is near that of a random walk
        least = 1e-3 * mean + 1e-12
        scale.layers[-1].bias[:n_channels] = (mean - scale.noise).maximum(least).log()
    optimizer = torch.optim.Adam(scale.parameters(), lr=_RATE)
    for step in range(_STEPS):
        optimizer.param_groups[0]["lr"] = _RATE * math.cos(math.pi / 2 * step / _STEPS)
        some = torch.randint(len(z), (_BATCH,), generator=generator).to(z.device)
        variance = scale(z[some], lead[some]) + scale.noise + 1e-12
        loss = variance.log() + square[some] / variance
        optimizer.zero_grad()
        (torch.where(known[some], loss, 0.0).sum() / known[some].sum().clamp(min=1)).backward()
        nn.utils.clip_grad_norm_(scale.parameters(), 1.0)
        optimizer.step()
    return scale.requires_grad_(False)


@torch.no_grad()
def _forecasts(
    model: PolyODE, data: Packed, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """States after observations, leads, errors of forecasts and what of them is known."""
    z = torch.empty(*data.x.shape, 1 + model.memory.n_coefficients).to(data.x)
    for step in model.run(data):
        z[step.rows] = step.state["z"]
    # Time since the channel was observed, at a row; one that never was is as old as the series.
    age = torch.where(data.seen, data.channel_gap, data.elapsed[:, None] + 1.0)
    age = torch.where(data.mask, 0.0, age)
    origin = (data.next >= 0).nonzero()[:, 0].cpu()
    origin = origin[torch.randperm(len(origin), generator=generator)[:_MOST]].to(z.device)
    state, row, lead = {"z": z[origin]}, origin, age[origin]
    found: list[tuple[torch.Tensor, ...]] = []
    for _ in range(_LONGEST):
        going_on = data.next[row] >= 0
        if not going_on.any():
            break
        state, origin = select(state, going_on), origin[going_on]
        row, lead = data.next[row[going_on]], lead[going_on]
        state = model.flow(state, data.gap[row], data.elapsed[row])
        lead = lead + data.gap[row][:, None]
        error = data.x[row] - model.predict(state).mean
        found.append((z[origin], lead, error, data.mask[row]))
    return tuple(torch.cat(columns) for columns in zip(*found, strict=True))
