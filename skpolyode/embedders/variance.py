"""Predictive variance of paths between observations and of forecasts, and a memory of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

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
from skpolyode.models.variance_head import Gap, VarianceHead
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.select import at_times, first_series, series_chunks, series_of_rows
from skpolyode.panel.units import Units
from skpolyode.threads import one_thread
from skpolyode.training.variance import Hidden, learn_variance

if TYPE_CHECKING:
    from skpolyode.embedders.model import ModelEmbedder


_N_HIDDEN = 6000  # rows; if one pass hides fewer, further passes hide others
_N_NODES = 12  # nodes in each gap, between which a memory takes the standard deviation as linear
# Standard deviations at which an innovation is clipped, so that its fourth power is finite.
_FARTHEST = np.sqrt(np.sqrt(np.finfo(np.float32).max))


def with_variance(
    embedder: ModelEmbedder, panel: Panel, random_state: np.random.RandomState
) -> ModelEmbedder:
    """The same embedder with a variance head, learned late from the first series of the panel."""
    panel, seed = first_series(panel), int(random_state.randint(2**31))
    if not (panel.lengths > 1).any():
        raise ValueError(
            "the standard deviation of the path is learned from forecasts, but no series has two "
            "rows with observations: give longer series, or take observations='exact' and another "
            "embedding."
        )
    trained = embedder.without_late()
    return replace(embedder, scale=Late(lambda: _learn(trained, panel, seed)))


def _learn(embedder: ModelEmbedder, panel: Panel, seed: int) -> VarianceHead:
    """Learn a variance head from the errors of forecasts and, for a filter, of hidden rows."""
    data, hidden = embedder.pack(panel, torch.float32), None
    generator = torch.Generator().manual_seed(seed)
    if embedder.filters:
        packed, share = data.observations, _N_HIDDEN * HIDDEN_SPACING
        n_passes = min(HIDDEN_SPACING, -(-share // max(len(packed), 1)))
        first = torch.randint(HIDDEN_SPACING, (panel.n_series,), generator=generator).numpy()
        path = path_values(embedder, panel, panel.times, panel.offsets)
        passes = [_hide(embedder, panel, path, packed, first + k) for k in range(n_passes)]
        columns = {name: torch.cat([vars(x)[name] for x in passes]) for name in vars(passes[0])}
        hidden = Hidden(**columns)
    return learn_variance(embedder.model, data, generator, hidden)


def _hide(
    embedder: ModelEmbedder, panel: Panel, path: np.ndarray, packed: torch.Tensor, first: np.ndarray
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


def roots(variance: torch.Tensor) -> np.ndarray:
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
    units = Units(embedder.units.scaler.of_differences, embedder.units.time_scale)
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
        found.append(PathEmbedder(units, past, "linear").coefficients_of(deviations))
    return np.concatenate(found)
