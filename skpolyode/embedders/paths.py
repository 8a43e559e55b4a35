"""Paths of series: their query times, and interpolating paths.

An interpolating path has the first value before a channel's first observation and the last value
after its last one: nothing is extrapolated. All series are handled at once; their observations are
one after the other in flat arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import torch
from scipy.linalg import solve_banded

from skpolyode.cubic import hermite_derivatives
from skpolyode.memory.base import Pieces
from skpolyode.panel import Panel, series_index
from skpolyode.panel.select import last_seen_rows, series_of_rows

_EXACT = 1e-5  # error of an exact value, relative to the largest of its series


@dataclass(frozen=True)
class PathQuery:
    """Q times of series, each with the last row up to it."""

    seen: Panel  # the series; all rows hold an observation
    times: np.ndarray  # float64 (Q,), not before the first row of their series
    row: np.ndarray  # int64 (Q,): the last row up to each time
    early: np.ndarray | float = 0.0  # float64 (Q,): how long before the first row it was asked for

    @classmethod
    def of(cls, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> Self:
        """Query of a panel; times before the first observation are replaced by its time."""
        row = rows_until(panel.times, panel.offsets, times, offsets)
        row = np.maximum(row, panel.offsets[series_index(offsets)])
        begun = np.maximum(times, panel.times[row])
        return cls(panel, begun, row, begun - times)

    @property
    def series(self) -> np.ndarray:
        """Position (Q,) of the series of each time."""
        return series_of_rows(self.seen)[self.row]

    @cached_property
    def before(self) -> np.ndarray:
        """Last row (Q, D) up to each time that observes the channel; -1 if none."""
        return last_seen_rows(self.seen.values, self.seen.offsets)[self.row]

    @cached_property
    def following(self) -> np.ndarray:
        """First row (Q, D) after each time that observes the channel; -1 if none."""
        seen, n_rows = self.seen, self.seen.n_observations
        index = np.where(np.isnan(seen.values), n_rows, np.arange(n_rows)[:, None])
        following = np.full_like(index, n_rows)
        following[:-1] = np.minimum.accumulate(index[::-1], axis=0)[::-1][1:]
        stop = seen.offsets[1:][series_of_rows(seen)]
        return np.where(following < stop[:, None], following, -1)[self.row]

    def leads(self, unit: float) -> tuple[np.ndarray, np.ndarray]:
        """Times (Q, D) since the last observation of each channel, and to its next one.

        In units of `unit`. Before its first observation a channel counts as observed one unit
        before its series; without a next observation the time to it is infinite.
        """
        seen, times = self.seen, self.times[:, None]
        start = seen.start[self.series][:, None] - unit
        since = times - np.where(self.before >= 0, seen.times[self.before], start)
        until = np.where(self.following >= 0, seen.times[self.following] - times, np.inf)
        return since / unit, until / unit

    @property
    def observed(self) -> np.ndarray:
        """Mask (Q, D) of the channels that are observed at each time."""
        at_row = self.times == self.seen.times[self.row]
        return at_row[:, None] & ~np.isnan(self.seen.values[self.row])

    def keep_observed(self, values: np.ndarray) -> np.ndarray:
        """Values (Q, D), or the observations at the same times."""
        return np.where(self.observed, self.seen.values[self.row], values)


def rows_until(
    row_times: np.ndarray, row_offsets: np.ndarray, times: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Last row of the series up to each time, or the row before its first one."""
    row = np.empty(len(times), dtype=np.int64)
    for k in range(len(offsets) - 1):
        rows, asked = slice(*row_offsets[k : k + 2]), slice(*offsets[k : k + 2])
        row[asked] = rows.start + np.searchsorted(row_times[rows], times[asked], side="right") - 1
    return row


class ChannelRows(NamedTuple):
    """Observations of D channels that share one mask: all are observed in each row."""

    channels: np.ndarray  # int64 (D,): positions of the channels
    series: np.ndarray  # int64 (P,): position of the series of each row
    times: np.ndarray  # float64 (P,)
    values: np.ndarray  # float64 (P, D), no NaN
    errors: np.ndarray | None = None  # float64 (P, D), NaN where not known

    def kept(self, mask: np.ndarray) -> ChannelRows:
        """The rows of a mask."""
        columns = (x if x is None else x[mask] for x in self[1:])
        return ChannelRows(self.channels, *columns)

    @property
    def precisions(self) -> np.ndarray | None:
        """Inverse variances (P, D), the largest of each series 1; None without errors.

        An unknown error is replaced by the mean known error of its series. An exact value gets an
        error of 1e-5 times the largest one, the least that rounding allows.
        """
        if self.errors is None:
            return None
        _, first, place = np.unique(self.series, return_index=True, return_inverse=True)
        known = ~np.isnan(self.errors)
        count = np.add.reduceat(known.astype(np.float64), first)
        total = np.add.reduceat(np.where(known, self.errors, 0.0), first)
        mean = np.where(total > 0, total / np.maximum(count, 1), 1.0)
        errors = np.where(known, self.errors, mean[place])
        errors = np.maximum(errors, _EXACT * np.maximum.reduceat(errors, first)[place])
        errors = np.where(errors > 0, errors, 1.0)
        return (np.minimum.reduceat(errors, first)[place] / errors) ** 2


def split_channels(
    times: np.ndarray, values: np.ndarray, series: np.ndarray, errors: np.ndarray | None = None
) -> Iterator[ChannelRows]:
    """Groups of channels that are observed at the same rows; most data need one group."""
    mask = ~np.isnan(values)
    left = np.arange(values.shape[1])
    while len(left):
        observed = mask[:, left[0]]
        same = (mask[:, left] == observed[:, None]).all(axis=0)
        if observed.any():
            channels = left[same]
            columns = (None if x is None else x[observed][:, channels] for x in (values, errors))
            yield ChannelRows(channels, series[observed], times[observed], *columns)
        left = left[~same]


class Gaps(NamedTuple):
    """The gaps before and after each row of :class:`ChannelRows`."""

    first: np.ndarray  # bool (P, 1): the row is the first of its series
    last: np.ndarray  # bool (P, 1)
    before: np.ndarray  # float64 (P, 1): gap to the previous row, one at the first
    after: np.ndarray  # float64 (P, 1): gap to the next row, one at the last
    rise_before: np.ndarray  # float64 (P, D): slope of the chord over that gap, zero at the first
    rise_after: np.ndarray  # float64 (P, D): zero at the last


def _centred_slopes(gaps: Gaps) -> np.ndarray:
    """Slope of the parabola through each row and its neighbours; at the ends that of the chord."""
    weighted = gaps.after * gaps.rise_before + gaps.before * gaps.rise_after
    inner = weighted / (gaps.before + gaps.after)
    return np.where(gaps.first, gaps.rise_after, np.where(gaps.last, gaps.rise_before, inner))


def _pchip_slopes(gaps: Gaps) -> np.ndarray:
    """Slopes of Fritsch and Butland: monotone where the data are.

    Between the ends a weighted harmonic mean of the chords, or zero if their signs differ; at the
    ends the slope of the parabola through three rows, limited to keep the shape.
    """
    d0, d1, h0, h1 = gaps.rise_before, gaps.rise_after, gaps.before, gaps.after
    monotone = d0 * d1 > 0
    safe0, safe1 = np.where(monotone, d0, 1.0), np.where(monotone, d1, 1.0)
    w0, w1 = h0 + 2 * h1, 2 * h0 + h1
    inner = np.where(monotone, (w0 + w1) / (w0 / safe0 + w1 / safe1), 0.0)

    starts = _pchip_end(h1, np.roll(h1, -1, 0), d1, np.roll(d1, -1, 0), np.roll(gaps.last, -1, 0))
    ends = _pchip_end(h0, np.roll(h0, 1, 0), d0, np.roll(d0, 1, 0), np.roll(gaps.first, 1, 0))
    alone = gaps.first & gaps.last
    slopes = np.where(gaps.first, starts, np.where(gaps.last, ends, inner))
    return np.where(alone, 0.0, slopes)


def _pchip_end(
    near: np.ndarray, far: np.ndarray, d_near: np.ndarray, d_far: np.ndarray, single: np.ndarray
) -> np.ndarray:
    """Slope at an end of a series, from its two nearest chords, or from one where `single`."""
    slope = ((2 * near + far) * d_near - near * d_far) / (near + far)
    slope = np.where(slope * d_near <= 0, 0.0, slope)
    steep = (d_near * d_far < 0) & (np.abs(slope) > 3 * np.abs(d_near))
    return np.where(single, d_near, np.where(steep, 3 * d_near, slope))


def _natural_slopes(gaps: Gaps) -> np.ndarray:
    """Slopes of the natural cubic spline: one tridiagonal system for all series together."""
    h0, h1 = gaps.before, gaps.after
    inner = ~(gaps.first | gaps.last)
    share = np.where(inner, h1 / (h0 + h1), 0.0)  # of the previous slope
    lower = np.where(inner, share, np.where(gaps.last & ~gaps.first, 1.0, 0.0))
    upper = np.where(inner, 1 - share, np.where(gaps.first & ~gaps.last, 1.0, 0.0))
    right = share * gaps.rise_before + (1 - share) * gaps.rise_after
    right = np.where(inner, right, gaps.rise_before + gaps.rise_after)
    bands = np.zeros((3, len(h0)))
    bands[0, 1:], bands[1], bands[2, :-1] = upper[:-1, 0], 2.0, lower[1:, 0]
    return solve_banded((1, 1), bands, 3 * right, overwrite_ab=True, check_finite=False)


SLOPES: dict[str, Callable[[Gaps], np.ndarray]] = {
    # Slope of the chord before each row; at the first row the chord after it.
    "hermite": lambda gaps: np.where(gaps.first, gaps.rise_after, gaps.rise_before),
    "centred": _centred_slopes,
    "pchip": _pchip_slopes,
    "cubic": _natural_slopes,
}
"""Functions for the slopes (P, D) at the observations, by the name of a cubic path."""

KINDS = ("constant", "linear", *SLOPES)
"""Paths through the observations; "centred" is the Hermite path that is not causal."""


def path_pieces(kind: str, rows: ChannelRows, end: np.ndarray) -> tuple[np.ndarray, Pieces]:
    """Path of each channel as its first value (B, D) and the pieces of the difference from it.

    Parameters
    ----------
    kind : str
        One of :data:`KINDS`.
    rows : ChannelRows
        Observations; for series without any, the first value is zero.
    end : float64 ndarray of shape (B,)
        End time of the path of each series, not before its last row.
    """
    change = rows.series[1:] != rows.series[:-1]
    is_first, is_last = np.append(True, change)[:, None], np.append(change, True)[:, None]
    after = np.where(is_last, 1.0, np.diff(rows.times, append=0.0)[:, None])
    rise_after = np.where(is_last, 0.0, np.diff(rows.values, axis=0, append=0.0) / after)
    before = np.where(is_first, 1.0, np.roll(after, 1, axis=0))
    rise_before = np.where(is_first, 0.0, np.roll(rise_after, 1, axis=0))
    first = np.zeros((len(end), rows.values.shape[1]))
    first[rows.series[is_first[:, 0]]] = rows.values[is_first[:, 0]]
    here = rows.values - first[rows.series]
    there = np.where(is_last, here, np.roll(here, -1, axis=0))
    # Value and derivatives at the start and at the end of the piece after each row.
    if kind == "constant":
        start, stop = [here], [here]
    elif kind == "linear":
        start, stop = [here, rise_after], [there, rise_after]
    else:
        slopes = SLOPES[kind](Gaps(is_first, is_last, before, after, rise_before, rise_after))
        m0 = np.where(is_last, 0.0, slopes)  # after the last row the path is held
        m1 = np.where(is_last, 0.0, np.roll(slopes, -1, axis=0))
        curve0, curve1, jerk = hermite_derivatives(rise_after, m0, m1, after)
        start, stop = [here, m0, curve0, jerk], [there, m1, curve1, jerk]
    age = end[rows.series] - rows.times
    columns = rows.series, age, np.stack(start, axis=2), np.stack(stop, axis=2)
    return first, Pieces(*map(torch.from_numpy, columns))
