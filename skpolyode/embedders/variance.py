"""How far off the path between observations may be, and the memory of that."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from skpolyode.embedders.batching import series_chunks
from skpolyode.embedders.direct import PathEmbedder
from skpolyode.embedders.smoother import Look, PathQuery, ask, follow, leads, shares
from skpolyode.models.variance_head import Hidden, learn_variance
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.select import (
    Observed,
    first_series,
    keep_rows,
    last_seen_rows,
    observed_part,
    series_of_rows,
)
from skpolyode.units import Units

if TYPE_CHECKING:
    from skpolyode.embedders.model import ModelEmbedder

__all__ = ["path_std", "std_ahead", "std_coefficients", "with_variance"]

_ROWS = 20_000  # that the size of errors is learned from
_APART = 4  # rows from one that is hidden to the next
_ENOUGH = 6000  # hidden rows; where these are fewer, more are hidden another time
_LEAST = 1e-12  # share of an innovation that is not taken over
_FARTHEST = 1e9  # standard deviations that a forecast may miss by: squares are still numbers
_CHUNK_ROWS = 8_000  # whose standard deviations are remembered together
# Shares of a gap at which its standard deviation is taken: close to the ends, where it rises most.
_NODES = (1 - np.cos(np.pi * np.arange(12) / 12)) / 2


def with_variance(
    embedder: ModelEmbedder, panel: Panel, random_state: np.random.RandomState
) -> ModelEmbedder:
    """The same embedder, with the size of errors as learned from some of the series."""
    panel = first_series(panel, _ROWS)
    data = embedder.pack(panel, torch.float32)
    generator = torch.Generator().manual_seed(int(random_state.randint(2**31)))
    hidden = None
    if embedder.model.gain is not None:
        seen, packed = observed_part(panel), data.series.argsort(stable=True)
        n_parts = min(_APART, -(-_ENOUGH * _APART // max(len(packed), 1)))
        first = torch.randint(_APART, (seen.n_series,), generator=generator).numpy()
        parts = [_hide(embedder, seen, packed, (first + k) % _APART) for k in range(n_parts)]
        hidden = Hidden(*(torch.cat(columns) for columns in zip(*parts, strict=True)))
    return replace(embedder, scale=learn_variance(embedder.model, data, generator, hidden))


def _hide(embedder: ModelEmbedder, panel: Panel, packed: torch.Tensor, first: np.ndarray) -> Hidden:
    """What smoothed paths miss at some rows inside of series that they do not know.

    All rows of the panel hold an observation; `packed` (P,) says where they are when packed, and
    `first` (B,) which row of each series is the first one that is hidden.
    """
    series, rows = series_of_rows(panel), np.arange(panel.n_observations)
    hidden = (rows - panel.offsets[series] - first[series]) % _APART == 0
    hidden &= (rows > panel.offsets[series]) & (rows < panel.offsets[1:][series] - 1)
    at = panel.times[hidden], offsets_from(hidden)[panel.offsets]
    known, truth = keep_rows(panel, ~hidden), panel.values[hidden]
    asked, scaler = ask(known, *at), embedder.units.scaler
    z, way = _ways(embedder, asked, lambda state: state["z"].float())
    missed, left = (
        np.nan_to_num((truth - embedder.path_values(own, *at)) / scaler.scale)
        for own in (known, panel)
    )
    kept = ~np.isnan(truth) & (last_seen_rows(asked.seen)[asked.row] >= 0) & ~way.is_open
    columns = z, way.since, way.length, way.innovation, way.unsettled, missed, left, kept
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


def _ways(embedder: ModelEmbedder, asked: PathQuery, look: Look) -> tuple[np.ndarray, _Ways]:
    """What `look` makes (Q, ...) of the states before the times, and the ways from there."""
    seen, following = asked.seen, np.maximum(asked.following, 0)
    expected = follow(embedder, PathQuery(seen, np.empty(0), np.empty(0, dtype=np.int64)), look)
    assert expected.looked is not None
    missed = embedder.units.scaler.read(seen.values) - expected.mean
    missed = np.take_along_axis(missed, following, axis=0)
    since, until = leads(asked, embedder.units.time_scale)
    is_open = np.isinf(until)
    length = since + np.where(is_open, 0.0, until)
    innovation = np.clip(np.where(is_open, 0.0, missed), -_FARTHEST, _FARTHEST)
    unsettled = np.zeros((*since.shape, 2))
    if (share := shares(embedder, seen)) is not None:
        ends = np.maximum(last_seen_rows(seen)[asked.row], 0), following
        missing = _unsettled(seen, share)
        unsettled = np.stack([np.take_along_axis(missing, row, axis=0) for row in ends], axis=2)
    way = _Ways(since, length, innovation, unsettled, is_open)
    return expected.looked[asked.row], way


def _unsettled(panel: Panel, share: np.ndarray) -> np.ndarray:
    """How much of what smoothing tells of each row is missing, (P, D), if `share` is taken over.

    Each later observation k of a channel leaves ``(1 - share_k)**2`` of it: what
    `bridges` hands back is ``1 - share_k`` of what is known there.
    """
    kept = np.where(np.isnan(panel.values), 1.0, np.maximum(1.0 - share, _LEAST))
    sums = np.cumsum(2 * np.log(kept), axis=0)
    later = np.repeat(sums[panel.offsets[1:] - 1], panel.lengths, axis=0) - sums
    return np.exp(np.minimum(later, 0.0))


def path_std(
    embedder: ModelEmbedder, panel: Panel, times: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Standard deviations (Q, D) of the signal around `path_values`, in the user's units.

    Parameters
    ----------
    embedder : ModelEmbedder
        With a scale.
    panel : Panel
    times : float64 ndarray of shape (Q,)
        Of all series, one after the other.
    offsets : int64 ndarray of shape (B + 1,)
        Where the times of each series start.
    """
    head, (scaler, unit) = embedder.scale, embedder.units
    assert head is not None
    asked = ask(panel, times, offsets)
    with torch.no_grad():
        looked, way = _ways(embedder, asked, lambda state: head(state["z"].float()))
        # Before its first observation a series is as unknown as a forecast that far ahead.
        early = ((asked.times - times) / unit)[:, None]
        since = np.where(early > 0, early, way.since)
        columns = looked, since, way.length, way.innovation, way.unsettled
        terms, since, length, missed, unsettled = (
            torch.from_numpy(x).to(embedder.device) for x in columns
        )
        ahead = head.ahead(terms, since)
        inside = head.between(terms, since, length.clamp(min=1e-300), missed.to(terms), unsettled)
        ahead, inside = (x.clamp(min=0.0).sqrt().double().cpu().numpy() for x in (ahead, inside))
    scale = np.where(way.is_open | (early > 0), ahead, inside) * scaler.scale
    return scale if scaler.observed is None else np.where(scaler.observed, scale, scaler.scale)


def std_ahead(embedder: ModelEmbedder, z: torch.Tensor, leads: np.ndarray) -> np.ndarray:
    """Standard deviations (B, Q, D) ahead, in the user's units, from states `z` (B, D, 1 + N).

    `leads` (B, Q, D) are the times since the channels were observed, in units of the model; one
    that was not yet observed is a unit older than its series.
    """
    head, scaler = embedder.scale, embedder.units.scaler
    assert head is not None
    n_times = leads.shape[1]
    with torch.no_grad():
        terms = head(z.float()).repeat_interleave(n_times, dim=0)
        lead = torch.from_numpy(leads).flatten(0, 1).to(terms.device)
        std = head.ahead(terms, lead).clamp(min=0.0).sqrt().double().cpu().numpy()
    std = std.reshape(leads.shape) * scaler.scale
    return std if scaler.observed is None else np.where(scaler.observed, std, scaler.scale)


def std_coefficients(embedder: ModelEmbedder, panel: Panel) -> np.ndarray:
    """Coefficients (B, D, N) of how far off the remembered path may be, at the last observations.

    Those of the memory that remembers the path itself. It follows, on lines between some moments of
    each gap, the root of two squares: the standard deviation of the signal around the path, and by
    how much the coefficients of the path miss it. Before a series begins that is as at its start.
    """
    parts = [panel[part] for part in series_chunks(panel.lengths, _CHUNK_ROWS)]
    return np.concatenate([_std_coefficients(embedder, part) for part in parts])


def _std_coefficients(embedder: ModelEmbedder, panel: Panel) -> np.ndarray:
    seen, past = observed_part(panel), embedder.past
    assert past is not None
    gap = np.diff(seen.times, append=0.0)
    gap[seen.offsets[1:] - 1] = 0.0
    times = (seen.times[:, None] + gap[:, None] * _NODES).ravel()
    series = np.repeat(series_of_rows(seen), len(_NODES))
    kept = np.append(True, (times[1:] > times[:-1]) | (series[1:] > series[:-1]))
    times, series = times[kept], series[kept]
    offsets = offsets_from(np.bincount(series, minlength=seen.n_series))
    start, end = times[offsets[:-1]], times[offsets[1:] - 1]
    deviation = path_std(embedder, seen, times, offsets)
    inside = end[series] - times <= past.reach
    missed = embedder.path_values(seen, times, offsets)[inside]
    coefficients, own = embedder.coefficients(seen), offsets_from(inside)[offsets]
    missed -= past.read_past(coefficients, seen, times[inside], own)
    deviation[inside] = np.hypot(deviation[inside], missed)
    rows = Observed(times - start[series], deviation, offsets, start, end)
    units = Units(embedder.units.scaler.of_differences, embedder.units.time_scale)
    return PathEmbedder(units, past, "linear").coefficients_of(rows)
