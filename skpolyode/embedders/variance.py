"""Predictive variance of paths between observations and of forecasts, and a memory of it.

A head is trained on the errors of forecasts and, for a filter, of paths at hidden rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from skpolyode.embedders.base import CHUNK_ROWS, Late
from skpolyode.embedders.direct import PathEmbedder
from skpolyode.embedders.paths import PathQuery
from skpolyode.embedders.smoother import (
    HIDDEN_SPACING,
    Expected,
    Shares,
    follow,
    hide_rows,
    path_of,
    path_values,
    shares,
)
from skpolyode.models.contract import Packed, select
from skpolyode.models.gain import FEWEST, counted_mean
from skpolyode.models.polyode import PolyODE
from skpolyode.models.variance_head import (
    LEAST,
    N_TERMS,
    SHORTEST,
    TERMS,
    Gap,
    VarianceHead,
    fill_nan,
)
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.select import (
    ENOUGH_ROWS,
    at_times,
    first_series,
    series_chunks,
    series_of_rows,
)
from skpolyode.threads import one_thread
from skpolyode.training.loop import Muon

if TYPE_CHECKING:
    from skpolyode.embedders.model import ModelEmbedder


_N_HIDDEN = 6000  # rows; if one pass hides fewer, further passes hide others
_N_NODES = 12  # nodes in each gap, between which a memory takes the standard deviation as linear
# Standard deviations at which an innovation is clipped, so that its fourth power is finite.
_FARTHEST = np.sqrt(np.sqrt(np.finfo(np.float32).max))


@dataclass(frozen=True)
class HeadTrainingSettings:
    """How a :class:`VarianceHead` is trained.

    Of filters, forecasts that reach 10 observations make intervals of 90 % hold 0.87 to 0.89 of the
    truth eight to ten gaps ahead on Lorenz63, those that reach 4 hold 0.82 to 0.84 (noise of 0.1,
    `benchmarks/forecast_coverage.py`). Models that take observations as exact learn about paths
    from the same forecasts: with 10, scale and error of the path correlate less (0.55 instead of
    0.67 on the damped pendulum, `benchmarks/uncertainty.py`).

    On new series, 200 steps of Muon reach the likelihood of 400 steps of Adam: minus twice its mean
    logarithm is -1.11 against -1.11 on sines, -0.35 against -0.33 on Lorenz63 with noise of 0.1,
    and -1.54 against -1.48 without. It needs no import of torch's optimizers, which takes a second.
    """

    widths: tuple[int, ...] = (64, 64)  # of the hidden layers
    n_ahead: int = 4  # rows that the forecasts to learn from reach
    n_ahead_filtered: int = 10  # the same of a filter
    n_steps: int = 200
    batch_size: int = 512
    learning_rate: float = 0.05  # at first; it falls to zero along a cosine


SETTINGS = HeadTrainingSettings()


@dataclass(frozen=True)
class Hidden(Gap):
    """n hidden observations, each in a gap between two others of every channel."""

    row: Tensor  # int64 (n,): packed row; -1 where it is not used
    z: Tensor  # (n, M): state that the path starts from
    missed: Tensor  # (n, D): hidden observation less the path
    residual: Tensor  # (n, D): hidden observation less the path that it is part of
    known: Tensor  # bool (n, D): whether these and the gap exist
    hidden_noise: Tensor  # (n, D): variance of its noise, NaN where not known

    def draw(self, size: int, generator: torch.Generator) -> Hidden:
        """A random sample."""
        sample = torch.randint(len(self.z), (size,), generator=generator).to(self.z.device)
        return Hidden(**{name: column[sample] for name, column in vars(self).items()})


def with_variance(
    embedder: ModelEmbedder, panel: Panel, random_state: np.random.RandomState
) -> ModelEmbedder:
    """The same embedder with a variance head, learned late from the first series of the panel."""
    panel, seed = first_series(panel), int(random_state.randint(2**31))
    if not (panel.lengths > 1).any():
        raise ValueError(
            "the standard deviation of the path is learned from forecasts, but no series has two "
            "rows with observations: give longer series, or take observations='exact'."
        )
    trained = embedder.without_late()
    return replace(embedder, scale=Late(lambda: _learn(trained, panel, seed)))


def _learn(embedder: ModelEmbedder, panel: Panel, seed: int) -> VarianceHead:
    """Train a head on the errors of a trained model, by their normal likelihood.

    The errors are those of forecasts over some observations. Smoothed paths of a filter depend on
    all later observations: their errors are those at hidden observations between others. The paths
    of a model that takes observations as exact are bent to the next observation only, and their
    errors follow from those of forecasts.
    """
    model, data, hidden = embedder.model, embedder.pack(panel, torch.float32), None
    generator = torch.Generator().manual_seed(seed)
    if embedder.filters:
        packed, share = data.observations, _N_HIDDEN * HIDDEN_SPACING
        n_passes = min(HIDDEN_SPACING, -(-share // max(len(packed), 1)))
        first = torch.randint(HIDDEN_SPACING, (panel.n_series,), generator=generator).numpy()
        path = path_values(embedder, panel, panel.times, panel.offsets)
        passes = [_hide(embedder, panel, path, packed, first + k) for k in range(n_passes)]
        columns = {name: torch.cat([vars(x)[name] for x in passes]) for name in vars(passes[0])}
        hidden = Hidden(**columns)
    n_ahead = SETTINGS.n_ahead if hidden is None else SETTINGS.n_ahead_filtered
    forecasts = _forecast(model, data, generator, n_ahead)
    widths = [forecasts.z.shape[1], *SETTINGS.widths, N_TERMS * data.x.shape[1]]
    head = VarianceHead(widths, generator).to(forecasts.z)
    noise = head.noise if hidden is None else _measure_noise(head, model, data, hidden)
    with torch.no_grad():  # at first the variance is near the mean square error in all states
        mean = counted_mean(forecasts.error.square(), forecasts.known, (0, 1))
        head.layers[-1].weight.mul_(0.1)
        bias = head.layers[-1].bias.zero_().unflatten(0, (N_TERMS, -1))
        bias[TERMS.index("most")] = (mean - head.noise).maximum(1e-3 * mean + LEAST).log()
        bias[TERMS.index("typical")] = bias[TERMS.index("missed")] = -1.0
    weights = list((head.layers if hidden is None else head).parameters())
    optimizer = Muon(weights, SETTINGS.learning_rate)
    for step in range(SETTINGS.n_steps):
        share = step / SETTINGS.n_steps
        optimizer.lr = SETTINGS.learning_rate * math.cos(math.pi / 2 * share)
        optimizer.zero_grad()
        ahead, passed = forecasts.draw(SETTINGS.batch_size, generator)
        if hidden is not None and len(hidden.z):
            passed = hidden.draw(SETTINGS.batch_size, generator)
        _loss(head, ahead, passed, noise).backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
    return head.requires_grad_(False)


@torch.no_grad()
def _measure_noise(head: VarianceHead, model: PolyODE, data: Packed, hidden: Hidden) -> Tensor:
    """Set the variances of the noise, and return those (D,) of the hidden observations.

    The latter are the former plus the excess of their squared innovations. Chance in the sample
    would otherwise be taken for errors of paths.

    When an observation is added, its path moves by a share k of its error ``P + R`` (mean square).
    So it keeps ``k**2 R + (1 - k)**2 P``.
    """
    predictions = model.predictions(data)
    head.floor.copy_(model.gain.after(data, predictions))
    head.noise.copy_(model.gain.noise.square())
    square, enough = (data.x - predictions).square(), hidden.known.sum(dim=0) >= FEWEST
    of_hidden = counted_mean(square[hidden.row], hidden.known)
    larger = of_hidden - counted_mean(square, data.mask & data.seen)
    noise = (head.noise + torch.where(enough, larger, 0.0)).clamp(min=0.0)
    missed = counted_mean(hidden.missed.square(), hidden.known)
    kept = counted_mean(hidden.residual * hidden.missed, hidden.known) / missed.clamp(min=LEAST)
    before = (missed - noise).clamp(min=0.0)
    found = (1.0 - kept).square() * head.noise + kept.square() * before
    head.smoothed.copy_(torch.where(enough, found, head.floor))
    return noise


class _Forecasts(NamedTuple):
    """Forecasts from n states over K rows without updates; a sample of them has no axis K."""

    z: Tensor  # (n, M)
    seen: Tensor  # bool (n, D): whether the channel was observed by then
    lead: Tensor  # float64 (K, n, D): time since the channel was observed
    error: Tensor  # (K, n, D)
    known: Tensor  # bool (K, n, D)
    noise: Tensor  # (K, n, D): variance of the noise forecast as well, NaN where not known
    floor: Tensor  # (n, D): variance of the signal after the observation before, or NaN

    def draw(self, size: int, generator: torch.Generator) -> tuple[_Forecasts, Hidden]:
        """A sample of forecasts, and of earlier rows on paths bent to the rows forecast."""
        (n_ahead, n_states), device = self.lead.shape[:2], self.z.device
        some = torch.randint(n_states, (size,), generator=generator)
        end = torch.randint(n_ahead, (size,), generator=generator)
        inner = (torch.rand(size, dtype=torch.float32, generator=generator) * end).long()
        inside = (inner < end).to(device)[:, None]
        some, end, inner = some.to(device), end.to(device), inner.to(device)
        columns = (x[end, some] for x in self[2:-1])
        ahead = _Forecasts(self.z[some], self.seen[some], *columns, self.floor[some])
        since, missed, is_there = (x[inner, some] for x in self[2:5])
        # Paths are bent by bridges: to the first observation of a channel they shift as a whole.
        left = torch.where(ahead.seen, 1.0 - since / ahead.lead, 0.0)
        missed = missed - (ahead.error * (1.0 - left)).to(missed.dtype)
        unsettled, unknown = missed.new_zeros(*missed.shape, 2), torch.full_like(missed, torch.nan)
        gap = vars(Gap(since, ahead.lead, ahead.error, unsettled, *[unknown] * 4))
        known, rest = inside & ahead.known & is_there, torch.zeros_like(missed)
        row = {"row": torch.full_like(some, -1), "z": ahead.z, "missed": missed, "residual": rest}
        return ahead, Hidden(**gap, **row, known=known, hidden_noise=unknown)


def _loss(head: VarianceHead, ahead: _Forecasts, hidden: Hidden, noise: Tensor) -> Tensor:
    """Minus twice the mean log-likelihood of errors ahead and between, up to a constant.

    `noise` (D,) is the variance of the noise of the hidden observations.
    """
    terms = head(ahead.z)
    forecast = head.ahead(terms, ahead.lead.clamp(min=SHORTEST), ahead.floor)
    length = hidden.length.clamp(min=SHORTEST)
    since = torch.minimum(hidden.since.clamp(min=1e-6 * length), (1 - 1e-6) * length)
    inner = terms if hidden.z is ahead.z else head(hidden.z)
    path = head.between(inner, replace(hidden, since=since, length=length))
    noises = fill_nan(ahead.noise, head.noise), fill_nan(hidden.hidden_noise, noise)
    cases = (
        (forecast + noises[0] + LEAST, ahead.error, ahead.known),
        (path + noises[1] + LEAST, hidden.missed, hidden.known),
    )
    total = terms.new_zeros(())
    for variance, error, known in cases:
        loss = torch.where(known, variance.log() + error.square() / variance, 0.0)
        total = total + loss.sum() / known.sum().clamp(min=1)
    return total


@torch.no_grad()
def _forecast(model: PolyODE, data: Packed, generator: torch.Generator, n_ahead: int) -> _Forecasts:
    """Forecasts over `n_ahead` rows, from the states after a sample of the rows."""
    z = torch.empty(len(data.x), model.size).to(data.x)
    for step in model.run(data):
        z[step.rows] = step.state["z"]
    # Time since each channel was observed, at each row (P, D); since the start if it never was.
    age = torch.where(data.seen, data.channel_gap, data.elapsed[:, None] + 1.0)
    age = torch.where(data.mask, 0.0, age)
    origin = (data.next >= 0).nonzero()[:, 0].cpu()
    drawn = torch.randperm(len(origin), generator=generator)[:ENOUGH_ROWS]
    origin = origin[drawn].to(z.device)
    seen, shape = (data.seen | data.mask)[origin], (n_ahead, *age[origin].shape)
    leads, errors = age.new_ones(shape), z.new_zeros(shape)
    known = torch.zeros(shape, dtype=torch.bool, device=z.device)
    noise, floor, noises = errors + torch.nan, torch.full_like(data.x[origin], torch.nan), None
    if data.posterior is not None:
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


def _hide(
    embedder: ModelEmbedder, panel: Panel, path: np.ndarray, packed: Tensor, first: np.ndarray
) -> Hidden:
    """Hide rows inside series, and compare them with the smoothed paths of the others.

    All rows of the panel hold an observation. `path` (P, D) is the path through all of them,
    `packed` (P,) their packed rows, and `first` (B,) the first hidden row of each series, modulo
    the spacing.
    """
    hidden, known, *at, truth = hide_rows(panel, first)
    asked, scaler = PathQuery.of(known, *at), embedder.units.scaler
    filtered = shares(embedder, known)
    expected = follow(embedder, known, asked, lambda state: state["z"])
    gap, z = _gap(embedder, asked, expected, filtered), expected.looked
    expected = expected._replace(looked=z[:, embedder.follower.signals])
    paths = path_of(embedder, asked, expected, filtered), path[hidden]
    missed, residual = (np.nan_to_num((truth - one) / scaler.scale) for one in paths)
    noise = np.full(truth.shape, np.nan)
    if panel.errors is not None and filtered.variances is not None:
        noise = (panel.errors[hidden] / scaler.scale) ** 2
    parts = {"z": z[asked.row], "missed": missed, "residual": residual, "hidden_noise": noise}
    parts = {k: torch.from_numpy(x).to(embedder.device, torch.float32) for k, x in parts.items()}
    known = ~np.isnan(truth) & (asked.before >= 0) & (asked.following >= 0)
    parts["known"] = torch.from_numpy(known).to(embedder.device)
    return Hidden(**vars(gap), row=packed[torch.from_numpy(hidden)], **parts)


def _gap(
    embedder: ModelEmbedder, asked: PathQuery, expected: Expected, filtered: Shares | None
) -> Gap:
    """For each time, the gap between its neighbouring observations and the innovation at its end.

    Times are in units of the model. Where no observation follows, the gap ends at the time itself.
    """
    seen, following, is_open = asked.seen, np.maximum(asked.following, 0), asked.following < 0
    missed = embedder.units.scaler.read(seen.values) - expected.mean
    missed = np.take_along_axis(missed, following, axis=0)
    since, until = asked.leads(embedder.units.time_scale)
    length = since + np.where(is_open, 0.0, until)
    innovation = np.clip(np.where(is_open, 0.0, missed), -_FARTHEST, _FARTHEST)
    unsettled, variances = np.zeros((*since.shape, 2)), np.full((4, *since.shape), np.nan)
    if filtered is not None:
        # A correction reaches a row through all later observations of a channel, each of which
        # carries a share back. The row lacks the square of the product of these shares.
        kept = np.maximum(1.0 - filtered.lost, np.finfo(np.float64).eps)
        kept[np.isnan(seen.values)] = 1.0
        sums = np.cumsum(2 * np.log(kept), axis=0)
        later = np.repeat(sums[seen.offsets[1:] - 1], seen.lengths, axis=0) - sums
        missing = np.exp(np.minimum(later, 0.0))
        ends = np.maximum(asked.before, 0), following
        unsettled = np.stack([np.take_along_axis(missing, row, axis=0) for row in ends], axis=2)
        if filtered.variances is not None:
            noise, after, smoothed = filtered.variances
            known = asked.before >= 0
            columns = (after, ends[0]), (smoothed, ends[0]), (smoothed, ends[1]), (noise, ends[1])
            variances = [
                np.where(known, np.take_along_axis(x, row, axis=0), np.nan) for x, row in columns
            ]
    times = (torch.from_numpy(x).to(embedder.device) for x in (since, length))
    others = innovation, unsettled, *variances  # variances: of the floor, the two ends, the noise
    return Gap(*times, *(torch.from_numpy(x).to(embedder.device, torch.float32) for x in others))


def path_std(
    embedder: ModelEmbedder, panel: Panel, times: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Standard deviations (Q, D) of the signal around `path_values`, in the user's units.

    Parameters
    ----------
    embedder : ModelEmbedder
        Embedder with a variance head `scale`.
    panel : Panel
    times : float64 ndarray of shape (Q,)
        Times of all series, one after the other.
    offsets : int64 ndarray of shape (B + 1,)
        Where the times of each series start.
    """
    head, (scaler, unit) = embedder.scale, embedder.units
    asked = PathQuery.of(panel, times, offsets)
    with torch.no_grad(), one_thread():
        expected = follow(embedder, panel, look=lambda state: head(state["z"].float()))
        gap = _gap(embedder, asked, expected, shares(embedder, panel))
        # Before its first observation the variance is that of a forecast of the same lead.
        early = ((asked.times - times) / unit)[:, None]
        looked = expected.looked[asked.row]
        terms, since = (torch.from_numpy(x).to(embedder.device) for x in (looked, early))
        gap = replace(gap, since=torch.where(since > 0, since, gap.since))
        ahead, inside = head.ahead(terms, gap.since, gap.floor), head.between(terms, gap)
    is_ahead = (asked.following < 0) | (early > 0)
    return scaler.inverse_std(np.where(is_ahead, roots(ahead), roots(inside)))


def roots(variance: Tensor) -> np.ndarray:
    """Standard deviations; variances below zero, from rounding, count as zero."""
    return variance.clamp(min=0.0).sqrt().double().cpu().numpy()


def std_coefficients(embedder: ModelEmbedder, panel: Panel) -> np.ndarray:
    """Coefficients (B, D, N) of the standard deviation of the remembered path, at the last rows.

    The memory is like that of the path. It follows lines between a few nodes in each gap, through
    the root of the sum of two squares: the standard deviation of the signal around the path, and
    the difference between the path and its reconstruction. Before a series begins the value is that
    at its start.
    """
    past, n_nodes, found = embedder.past, _N_NODES, []
    follower = PathEmbedder(past.of_differences.units, past, "linear")
    # Denser near the ends of a gap, where the standard deviation changes fastest.
    nodes = (1 - np.cos(np.pi * np.arange(n_nodes) / n_nodes)) / 2
    # A chunk has as many times as nodes in the gaps after its rows.
    for part in series_chunks(panel.lengths, CHUNK_ROWS // n_nodes):
        chunk = panel[part]
        gap = np.diff(chunk.times, append=0.0)
        gap[chunk.offsets[1:] - 1] = 0.0
        times = (chunk.times[:, None] + gap[:, None] * nodes).ravel()
        series = np.repeat(series_of_rows(chunk), n_nodes)
        kept = np.append(True, (times[1:] > times[:-1]) | (series[1:] > series[:-1]))
        times, series = times[kept], series[kept]
        offsets = offsets_from(np.bincount(series, minlength=chunk.n_series))
        deviation = path_std(embedder, chunk, times, offsets)
        inside = chunk.end[series] - times <= past.reach
        missed = path_values(embedder, chunk, times, offsets)[inside]
        coefficients = embedder.coefficients_of(embedder.states(chunk))
        missed -= past.read_past(coefficients, chunk, times[inside], offsets_from(inside)[offsets])
        deviation[inside] = np.hypot(deviation[inside], missed)
        deviations = at_times(chunk, times, offsets, deviation)
        found.append(follower.coefficients_of(deviations))
    return np.concatenate(found)
