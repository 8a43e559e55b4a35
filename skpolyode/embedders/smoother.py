"""The path between observations: all channels of series at any times.

Between two observations of a channel a model expects h0(s), and at the second one it is wrong by
x - h0. A ramp over the time between the two takes that back: the path passes through every
observation, as the one that a bridging memory holds, before any projection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from skpolyode.embedders.batching import map_slices
from skpolyode.embedders.windows import Parts, agree, cut
from skpolyode.models import Packed, Prediction, SequenceModel
from skpolyode.models.contract import State, join, select
from skpolyode.panel import Panel, series_index
from skpolyode.panel.select import last_seen_rows, observed_part, series_of_rows

if TYPE_CHECKING:
    from skpolyode.embedders.model import ModelEmbedder

__all__ = [
    "Expected",
    "Look",
    "PathQuery",
    "ask",
    "bridges",
    "extrapolated",
    "follow",
    "leads",
    "rows_until",
    "shares",
]

_PART_ROWS = 64  # at least, of a long series that is cut: rounds are few, and wide
_CHUNK_ROWS = 32_000  # run through together by one thread: each keeps a state
_CHUNK = 4096  # times that are answered together


@dataclass(frozen=True)
class PathQuery:
    """Q times of series, and the rows that they come after."""

    seen: Panel  # the series, without the rows that hold no observation
    times: np.ndarray  # float64 (Q,), not before the first row of their series
    row: np.ndarray  # int64 (Q,): the last row up to each time

    @cached_property
    def following(self) -> np.ndarray:
        """First row (Q, D) after each time that observes the channel; -1 if none."""
        return _next_seen_rows(self.seen)[self.row]

    def keep_observed(self, values: np.ndarray) -> np.ndarray:
        """Put, in place, the observations where there are any; else values (Q, D) stay."""
        own = self.seen.values[self.row]
        at_row = self.times == self.seen.times[self.row]
        observed = at_row[:, None] & ~np.isnan(own)
        values[observed] = own[observed]
        return values


def ask(panel: Panel, times: np.ndarray, offsets: np.ndarray) -> PathQuery:
    """Times of the series of a panel; those before the first observation count as its time."""
    seen = observed_part(panel)
    row = rows_until(seen.times, seen.offsets, times, offsets)
    row = np.maximum(row, seen.offsets[series_index(offsets)])
    return PathQuery(seen, np.maximum(times, seen.times[row]), row)


def rows_until(
    row_times: np.ndarray, row_offsets: np.ndarray, times: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Last row up to each time, in its series; where there is none, the row before the first."""
    row = np.empty(len(times), dtype=np.int64)
    for k in range(len(offsets) - 1):
        own, asked = slice(*row_offsets[k : k + 2]), slice(*offsets[k : k + 2])
        row[asked] = own.start + np.searchsorted(row_times[own], times[asked], side="right") - 1
    return row


class Expected(NamedTuple):
    """What a model expects, in standard deviations."""

    signal: np.ndarray  # float64 (Q, D), at the times asked for
    mean: np.ndarray  # float64 (P, D), just before each row
    log_scale: np.ndarray | None  # float64 (P, D), of the errors there, of a model that knows it
    looked: np.ndarray | None = None  # (P, ...): what was asked of the state after each row


def bridges(asked: PathQuery, rise: np.ndarray, share: np.ndarray | None = None) -> np.ndarray:
    """What leads paths to the next observations of their channels, (Q, D).

    `rise` (P, D) is by how much each observation exceeds what was expected, zero where there is
    none. Before the first observation of a channel all of its path is shifted. Of a filter, which
    takes over a `share` K (P, D) of each rise, the path is the smoothed one: what later
    observations tell reaches ``1 - K`` of the way back beyond each one before.
    """
    seen = asked.seen
    before, after = last_seen_rows(seen)[asked.row], asked.following
    at = np.maximum(after, 0)
    if share is not None:
        rise = rts_smoothed(seen, share * rise, 1.0 - share)
    rise = np.where(after < 0, 0.0, np.take_along_axis(rise, at, axis=0))
    start, end = seen.times[before], seen.times[after]
    ramp = (before >= 0) & (after >= 0)
    length = np.where(ramp, end - start, 1.0)
    passed = (asked.times[:, None] - start) / length
    if share is not None:
        passed = 1.0 - np.take_along_axis(share, at, axis=0) * (1.0 - passed)
    return rise * np.where(ramp, passed, 1.0)


def rts_smoothed(panel: Panel, rise: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """What all observations from a row on say of what was expected there, (P, D).

    Rauch, Tung and Striebel's recursion ``s_i = K_i e_i + G s_k`` from each observation k of a
    channel to the one before, with the steady ``G = 1 - K_k`` of a random walk.
    """
    result, observed = rise.copy(), ~np.isnan(panel.values)
    stop, lengths = panel.offsets[1:], panel.lengths
    later = np.zeros((panel.n_series, panel.n_channels))  # G s_k
    for back in range(1, int(lengths.max(initial=0)) + 1):
        own = np.flatnonzero(lengths >= back)
        row = stop[own] - back
        result[row] += np.where(observed[row], later[own], 0.0)
        later[own] = np.where(observed[row], kept[row] * result[row], later[own])
    return result


def shares(embedder: ModelEmbedder, panel: Panel) -> np.ndarray | None:
    """Share (P, D) of its innovation that a filter takes over at each row; else None."""
    if not embedder.filters:
        return None
    data = embedder.pack(panel)
    with torch.no_grad():
        share = embedder.exact.share(data, torch.arange(len(data), device=embedder.device))
    return share[data.series.argsort(stable=True)].cpu().numpy()


def leads(asked: PathQuery, unit: float) -> tuple[np.ndarray, np.ndarray]:
    """Times (Q, D) since the last observation of each channel, and to its next one.

    In units of `unit`. A channel that was not observed yet is a unit older than its series; where
    there is no next observation, it is infinitely far.
    """
    seen, row = asked.seen, asked.row
    before, after = last_seen_rows(seen)[row], asked.following
    times, series = asked.times[:, None], series_of_rows(seen)[row]
    start = seen.times[seen.offsets[:-1]][series][:, None] - unit
    since = times - np.where(before >= 0, seen.times[before], start)
    until = np.where(after >= 0, seen.times[after] - times, np.inf)
    return since / unit, until / unit


def extrapolated(embedder: ModelEmbedder, asked: PathQuery, signal: np.ndarray) -> np.ndarray:
    """Paths (Q, D), leaning on simple forecasts where no observation of the channel follows.

    That is continuous at the last observation, and at the end of a series it is the forecast.
    """
    if embedder.stacking is None:
        return signal
    seen, series = asked.seen, series_of_rows(asked.seen)[asked.row]
    elapsed = (asked.times - seen.times[seen.offsets[:-1]][series]) / embedder.units.time_scale
    is_open, records = asked.following < 0, embedder.records(seen)
    result, place = signal.copy(), np.flatnonzero(is_open.any(axis=1))
    for start in range(0, len(place), _CHUNK):
        some = place[start : start + _CHUNK]
        run = signal[some, None], records[series[some]], elapsed[some, None]
        result[some] = np.where(is_open[some], embedder.stacking.combine(*run)[:, 0], signal[some])
    return result


def _next_seen_rows(panel: Panel) -> np.ndarray:
    """For each row and channel the first row after it that observes the channel; -1 if none."""
    index = np.arange(panel.n_observations)[:, None]
    index = np.where(np.isnan(panel.values), panel.n_observations, index)
    following = np.full_like(index, panel.n_observations)
    following[:-1] = np.minimum.accumulate(index[::-1], axis=0)[::-1][1:]
    stop = panel.offsets[1:][series_of_rows(panel)]
    return np.where(following < stop[:, None], following, -1)


class _Answers(NamedTuple):
    expected: list[np.ndarray]  # signal, mean, and log_scale if there is one
    looked: np.ndarray | None
    entry: State  # of each part, after the last row before its own ones
    end: State  # after its last row


Look = Callable[[State], torch.Tensor]


def follow(embedder: ModelEmbedder, asked: PathQuery, look: Look | None = None) -> Expected:
    """Run a model through series, and see what it expects at rows and between them.

    What `look` makes of the states (n,) after rows, of shape (n, ...), is handed out as well.

    Long series are cut, and the parts run through together, each after a stretch that its first
    state depends on. Where one part ends and the next begins the states must agree, or the
    stretches were too short, and are doubled.
    """
    seen, recent = asked.seen, embedder.recent
    reach = math.inf if recent is None else recent.context
    unit, gap = embedder.units.time_scale, np.diff(seen.times, append=0.0)
    gap[seen.offsets[1:] - 1] = np.inf
    order = asked.row.argsort(kind="stable")
    row = asked.row[order]
    since = (asked.times[order] - seen.times[row]) / unit
    assert embedder.follower is not None  # made once, before there are threads
    while True:
        n_rows = max(_PART_ROWS, int(min(4 * reach / unit, seen.n_observations)))
        parts = cut(seen, reach, n_rows)
        work = partial(_follow_some, embedder, parts, gap / unit, row, since, look)
        answers = map_slices(work, parts.panel.lengths, _CHUNK_ROWS)
        entry, end = (join([getattr(a, name) for a in answers]) for name in ("entry", "end"))
        if agree(select(entry, parts.later), select(end, parts.later - 1)):
            break
        reach *= 2
    signal, *before = (np.concatenate(x) for x in zip(*(a.expected for a in answers), strict=True))
    result = np.empty_like(signal)
    result[order] = signal
    looked = None if look is None else np.concatenate([a.looked for a in answers])
    return Expected(result, before[0], before[1] if len(before) > 1 else None, looked)


def _follow_some(
    embedder: ModelEmbedder,
    parts: Parts,
    gap: np.ndarray,
    row: np.ndarray,
    since: np.ndarray,
    look: Look | None,
    chunk: slice,
) -> _Answers:
    """Expectations at the own rows of some parts, and at the times that come after them.

    `gap` (P,) is the time from each row to the next one; `row` (Q,) does not fall.
    """
    panel, own = parts.rows(chunk)
    first, stop = parts.own[[chunk.start, chunk.stop]]
    asked = slice(*np.searchsorted(row, [first, stop]))
    with torch.no_grad():
        data, model = embedder.pack(panel), embedder.follower
        state, before, packed = _run(model, data)
        columns = gap[first:stop], row[asked] - first, since[asked]
        columns = (torch.from_numpy(x).to(data.x.device) for x in columns)
        states = select(state, own)
        signal = _answer(model, states, data.elapsed[packed][own], *columns)
        looked = None if look is None else look(states).cpu().numpy()
    expected = [signal.cpu().numpy(), *(x[own].cpu().numpy() for x in before if x is not None)]
    n_before = np.maximum(parts.own[chunk] - parts.start[chunk], 1)
    entry = select(state, panel.offsets[:-1] + n_before - 1)
    return _Answers(expected, looked, entry, select(state, panel.offsets[1:] - 1))


def _run(model: SequenceModel, data: Packed) -> tuple[State, Prediction, torch.Tensor]:
    """State after each row, prediction before it, in the order of the input; its packed rows."""
    steps = [(step.rows, step.state, step.prediction) for step in model.run(data)]
    rows, states, before = zip(*steps, strict=True)
    packed = data.series.argsort(stable=True)
    order = torch.cat(rows).argsort()[packed]
    columns = (None if x[0] is None else torch.cat(x)[order] for x in zip(*before, strict=True))
    return select(join(list(states)), order), Prediction(*columns), packed


def _answer(
    model: SequenceModel,
    state: State,
    elapsed: torch.Tensor,
    gap: torch.Tensor,
    row: torch.Tensor,
    since: torch.Tensor,
) -> torch.Tensor:
    """What is expected (Q, D) `since` (Q,) after the states at some rows."""
    signal = model.predict(state).mean[row]
    later = (since > 0).nonzero()[:, 0]
    # Intervals of about the same length together: none is padded to a much longer one.
    later = later[gap[row[later]].argsort(stable=True)]
    for some in later.split(_CHUNK):
        rows, index = row[some].unique(return_inverse=True)
        found = model.between(select(state, rows), index, since[some], gap[rows], elapsed[rows])
        signal[some] = found.mean
    return signal
