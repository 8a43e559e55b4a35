"""Predictive variance: of the path between observations, ahead, and a memory of it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from skpolyode.embedders.batching import CHUNK_ROWS
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
from skpolyode.embedders.trained_model import TrainedModel
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.select import at_times, first_series, series_chunks, series_of_rows
from skpolyode.panel.units import Units
from skpolyode.training.variance import Hidden, learn_variance

_Embedder = TypeVar("_Embedder", bound=TrainedModel)


_N_HIDDEN = 6000  # rows; where one pass hides fewer, others are hidden in a further one
_N_NODES = 12  # times in each gap at which a memory takes the standard deviation, as a line
# Standard deviations that an innovation is cut off at: the square of its square is a number.
_FARTHEST = np.sqrt(np.sqrt(np.finfo(np.float32).max))


def with_variance(
    embedder: _Embedder, panel: Panel, random_state: np.random.RandomState
) -> _Embedder:
    """The same embedder, with the size of errors as learned from some of the series."""
    panel = first_series(panel)
    data = embedder.pack(panel, torch.float32)
    generator = torch.Generator().manual_seed(int(random_state.randint(2**31)))
    hidden = None
    if embedder.filters:
        packed, share = data.observations, _N_HIDDEN * HIDDEN_SPACING
        n_passes = min(HIDDEN_SPACING, -(-share // max(len(packed), 1)))
        first = torch.randint(HIDDEN_SPACING, (panel.n_series,), generator=generator).numpy()
        path = path_values(embedder, panel, panel.times, panel.offsets)
        passes = [_hide(embedder, panel, path, packed, first + k) for k in range(n_passes)]
        hidden = Hidden(*(torch.cat(columns) for columns in zip(*passes, strict=True)))
    return replace(embedder, scale=learn_variance(embedder.model, data, generator, hidden))


def _hide(
    embedder: TrainedModel, panel: Panel, path: np.ndarray, packed: torch.Tensor, first: np.ndarray
) -> Hidden:
    """What smoothed paths miss at some rows inside of series that they do not know.

    All rows of the panel hold an observation; `path` (P, D) knows all of them, `packed` (P,) says
    where they are when packed, and `first` (B,) which row of each series is hidden first, modulo
    the spacing.
    """
    hidden, known, *at, truth = hide_rows(panel, first)
    asked, scaler = PathQuery.of(known, *at), embedder.units.scaler
    filtered = shares(embedder, known)
    expected = follow(embedder, known, asked, lambda state: state["z"])
    way, z = _ways(embedder, asked, expected, filtered), expected.looked
    expected = expected._replace(looked=z[:, embedder.follower.signals])
    paths = path_of(embedder, asked, expected, filtered), path[hidden]
    missed, residual = (np.nan_to_num((truth - own) / scaler.scale) for own in paths)
    kept = ~np.isnan(truth) & (asked.before >= 0) & ~way.is_open
    told = way.told
    if panel.errors is not None and not np.isnan(told).all():
        told[..., -1] = (panel.errors[hidden] / scaler.scale) ** 2
    columns = z[asked.row].astype(np.float32), *way[:4], missed, residual, kept, told
    z, since, length, *others = (torch.from_numpy(x).to(embedder.device) for x in columns)
    others = [x.float() if x.is_floating_point() else x for x in others]
    return Hidden(packed[torch.from_numpy(hidden)], z, since, length, *others)


class _Ways(NamedTuple):
    """From the observations before Q times to those behind."""

    since: np.ndarray  # float64 (Q, D): from the one before, in units of the model
    length: np.ndarray  # float64 (Q, D): from there to the one behind
    innovation: np.ndarray  # float64 (Q, D): by how much that one exceeds its forecast
    unsettled: np.ndarray  # float64 (Q, D, 2): as of `VarianceHead.between`
    is_open: np.ndarray  # bool (Q, D): whether there is none behind; `length` is `since` then
    told: np.ndarray  # float64 (Q, D, 5): as of `Hidden`, but for the last


def _ways(
    embedder: TrainedModel, asked: PathQuery, expected: Expected, filtered: Shares | None
) -> _Ways:
    """The ways from the observations before the times, of series of which this was expected."""
    seen, following = asked.seen, np.maximum(asked.following, 0)
    missed = embedder.units.scaler.read(seen.values) - expected.mean
    missed = np.take_along_axis(missed, following, axis=0)
    since, until = asked.leads(embedder.units.time_scale)
    is_open = np.isinf(until)
    length = since + np.where(is_open, 0.0, until)
    innovation = np.clip(np.where(is_open, 0.0, missed), -_FARTHEST, _FARTHEST)
    unsettled, told = np.zeros((*since.shape, 2)), np.full((*since.shape, 5), np.nan)
    if filtered is not None:
        # What smoothing tells of a row reaches it through all later observations of a channel, each
        # of which carries a share back: the square of the product is what is missing.
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
            for k, (x, row) in enumerate(columns):
                told[..., k] = np.where(known, np.take_along_axis(x, row, axis=0), np.nan)
    return _Ways(since, length, innovation, unsettled, is_open, told)


def path_std(
    embedder: TrainedModel, panel: Panel, times: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Standard deviations (Q, D) of the signal around `path_values`, in the user's units.

    Parameters
    ----------
    embedder : TrainedModel
        With a scale.
    panel : Panel
    times : float64 ndarray of shape (Q,)
        Of all series, one after the other.
    offsets : int64 ndarray of shape (B + 1,)
        Where the times of each series start.
    """
    head, (scaler, unit) = embedder.scale, embedder.units
    asked = PathQuery.of(panel, times, offsets)
    with torch.no_grad():
        expected = follow(embedder, panel, look=lambda state: head(state["z"].float()))
        way = _ways(embedder, asked, expected, shares(embedder, panel))
        # Before its first observation a series is as unknown as a forecast that far ahead.
        early = ((asked.times - times) / unit)[:, None]
        since = np.where(early > 0, early, way.since)
        columns = expected.looked[asked.row], since, *way[1:4], way.told
        terms, since, length, missed, unsettled, told = (
            torch.from_numpy(x).to(embedder.device) for x in columns
        )
        ahead = head.ahead(terms, since, told[..., 0].to(terms.dtype))
        length = length.clamp(min=torch.finfo(length.dtype).tiny)
        inside = head.between(terms, since, length, missed.to(terms), unsettled, told)
    ahead, inside = roots(ahead), roots(inside)
    return scaler.inverse_std(np.where(way.is_open | (early > 0), ahead, inside))


def roots(variance: torch.Tensor) -> np.ndarray:
    """Standard deviations; rounding leaves no variance below zero."""
    return variance.clamp(min=0.0).sqrt().double().cpu().numpy()


def std_coefficients(embedder: TrainedModel, panel: Panel) -> np.ndarray:
    """Coefficients (B, D, N) of how far off the remembered path may be, at the last observations.

    Those of the memory that remembers the path itself. It follows, on lines between some moments of
    each gap, the root of two squares: the standard deviation of the signal around the path, and by
    how much the coefficients of the path miss it. Before a series begins that is as at its start.
    """
    past, n_nodes, found = embedder.past, _N_NODES, []
    units = Units(embedder.units.scaler.of_differences, embedder.units.time_scale)
    # Close to the ends of a gap, where the standard deviation rises most.
    nodes = (1 - np.cos(np.pi * np.arange(n_nodes) / n_nodes)) / 2
    # A chunk has as many times as nodes in the gaps behind its rows.
    for part in series_chunks(panel.lengths, CHUNK_ROWS // n_nodes):
        own = panel[part]
        gap = np.diff(own.times, append=0.0)
        gap[own.offsets[1:] - 1] = 0.0
        times = (own.times[:, None] + gap[:, None] * nodes).ravel()
        series = np.repeat(series_of_rows(own), n_nodes)
        kept = np.append(True, (times[1:] > times[:-1]) | (series[1:] > series[:-1]))
        times, series = times[kept], series[kept]
        offsets = offsets_from(np.bincount(series, minlength=own.n_series))
        deviation = path_std(embedder, own, times, offsets)
        inside = own.end[series] - times <= past.reach
        missed = path_values(embedder, own, times, offsets)[inside]
        coefficients = embedder.coefficients_of(embedder.states(own))
        missed -= past.read_past(coefficients, own, times[inside], offsets_from(inside)[offsets])
        deviation[inside] = np.hypot(deviation[inside], missed)
        deviations = at_times(own, times, offsets, deviation)
        found.append(PathEmbedder(units, past, "linear").coefficients_of(deviations))
    return np.concatenate(found)
