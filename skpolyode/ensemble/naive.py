"""Naive forecasts of a channel, from a summary of its past that takes constant memory.

A stream keeps the same summary row by row as a whole series gives at once: the number of
observations, their mean, the first one, and the last few.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from skpolyode.panel import series_index

NAIVE = ("last", "moving_average", "mean", "local_drift", "drift")
"""Forecasts without a model: the last value, the mean of the last four, the mean of all, and the
last value continued along the line from an observation shortly before it (local drift) or from the
first observation (drift)."""

NEGLIGIBLE = 1e-6  # standard deviations of a channel; smaller differences count as none

_N_RECENT = 4  # last observations that a record keeps
_N_SCALARS = 6  # fields of a record that hold one number
_SHORTEST_DRIFT = 0.5  # typical gaps; over shorter times, noise would pass for a drift


@dataclass(frozen=True, eq=False)
class Records:
    """What simple forecasts know of channels, arrays (...) and (..., 4).

    Times are in typical gaps since the start of the series, values in standard deviations from
    the mean of the channel. Before the fifth observation, the first one fills the places of those
    that are missing; before the first observation, all is zero.
    """

    n_values: np.ndarray  # (...): number of observations
    mean: np.ndarray  # (...)
    first_time: np.ndarray  # (...)
    first_value: np.ndarray  # (...)
    lowest: np.ndarray  # (...)
    highest: np.ndarray  # (...)
    times: np.ndarray  # (..., 4): of the last observations
    values: np.ndarray  # (..., 4)
    effects: np.ndarray  # (..., S): what a mixed model knows, empty without one
    driven: np.ndarray  # (..., F): responses to inputs at the last one, empty without inputs

    @classmethod
    def blank(cls, *shape: int, n_driven: int = 0) -> Self:
        """Records of channels that have not been observed."""
        recent, driven = np.zeros((2, *shape, _N_RECENT)), np.zeros((*shape, n_driven))
        return cls(*np.zeros((_N_SCALARS, *shape)), *recent, np.zeros((*shape, 0)), driven)

    @classmethod
    def unpack(cls, packed: np.ndarray, n_driven: int = 0) -> Self:
        """Records from one array of all their columns; see `pack`."""
        ends = [*_N_SCALARS + _N_RECENT * np.arange(3), packed.shape[-1] - n_driven]
        scalars, *others = np.split(packed, ends, axis=-1)
        return cls(*np.moveaxis(scalars, -1, 0), *others)

    @property
    def columns(self) -> list[np.ndarray]:
        """All arrays, in the order of the fields."""
        return [getattr(self, field.name) for field in fields(self)]

    def pack(self) -> np.ndarray:
        """One array of all columns, side by side along a last axis."""
        columns = self.columns
        scalars = np.stack(columns[:_N_SCALARS], axis=-1)
        return np.concatenate([scalars, *columns[_N_SCALARS:]], axis=-1)

    def __getitem__(self, key: object) -> Records:
        """Records at an index or mask of the leading axes."""
        return Records(*(column[key] for column in self.columns))

    @property
    def last(self) -> np.ndarray:
        """Last observations (...), 0 without any."""
        return self.values[..., -1]

    def time_since(self, elapsed: np.ndarray) -> np.ndarray:
        """Time (...) from the last observation to `elapsed` (...), infinite without one."""
        return np.where(self.n_values > 0, elapsed - self.times[..., -1], np.inf)

    def slopes(self) -> np.ndarray:
        """Slopes (..., 2) from the third and fourth last observation to the last, 0 without."""
        age, rise = self.times[..., -1:] - self.times, self.values[..., -1:] - self.values
        return (rise / np.maximum(age, _SHORTEST_DRIFT))[..., 1::-1]

    def updated(
        self,
        elapsed: np.ndarray,
        values: np.ndarray,
        mask: np.ndarray,
        driven: np.ndarray,
    ) -> Records:
        """Records (n, D) after one more observation of each series, at times `elapsed` (n,).

        `values` (n, D) count where `mask` (n, D) says that they are observed; `driven` (n, F) are
        responses to inputs, with F = 0 if there are none. What a mixed model knows is not changed.
        """
        x, t = np.where(mask, values, 0.0), np.broadcast_to(elapsed[:, None], mask.shape)
        n, is_first = self.n_values + 1, self.n_values == 0

        def moved_on(kept: np.ndarray, latest: np.ndarray) -> np.ndarray:
            later = np.concatenate([kept[..., 1:], latest[..., None]], axis=-1)
            return np.where(is_first[..., None], latest[..., None], later)

        mean = self.mean + (x - self.mean) / n
        first = np.where(is_first, t, self.first_time), np.where(is_first, x, self.first_value)
        ranges = (np.minimum, self.lowest), (np.maximum, self.highest)
        reach = [np.where(is_first, x, f(known, x)) for f, known in ranges]
        new = n, mean, *first, *reach, moved_on(self.times, t), moved_on(self.values, x)
        masks = [mask] * _N_SCALARS + [mask[..., None]] * 2
        moved = map(np.where, masks, new, self.columns[:-2])
        driven = np.where(mask[..., None], driven[:, None], self.driven)
        return Records(*moved, self.effects, driven)


def records_at(
    times: np.ndarray,
    values: np.ndarray,
    offsets: np.ndarray,
    rows: np.ndarray,
    driven: np.ndarray,
) -> Records:
    """Records (n, D) of series up to some of their rows, which are included.

    Parameters
    ----------
    times : float64 ndarray of shape (P,)
        Since the first observation of the series, in typical gaps.
    values : float64 ndarray of shape (P, D)
        In standard deviations, NaN where not observed.
    offsets : int64 ndarray of shape (B + 1,)
        Where the rows of each series start.
    rows : int64 ndarray of shape (n,)
        Positions among the rows of all series.
    driven : float64 ndarray of shape (P, F)
        Responses to inputs; F = 0 if there are none.
    """
    records = Records.blank(len(rows), values.shape[1], n_driven=driven.shape[1])
    start = offsets[series_index(offsets)[rows]]
    for j, channel in enumerate(values.T):
        observed = np.flatnonzero(~np.isnan(channel))
        first = np.searchsorted(observed, start)
        stop = np.searchsorted(observed, rows, side="right")
        known = np.flatnonzero(stop > first)
        if not len(known):
            continue
        first, stop, x, t = first[known], stop[known], channel[observed], times[observed]
        # Each sum takes its own values only: differences of cumulative sums would lose the digits
        # of a series that follows one of much larger values.
        bounds = np.stack([first, stop], axis=1).ravel()
        sums = np.add.reduceat(np.append(x, 0.0), bounds)[::2]
        reach = [f.reduceat(np.append(x, x[-1]), bounds)[::2] for f in (np.minimum, np.maximum)]
        kept = np.maximum(stop[:, None] - np.arange(_N_RECENT, 0, -1), first[:, None])
        columns = stop - first, sums / (stop - first), t[first], x[first], *reach, t[kept], x[kept]
        for column, own in zip(records.columns[:-2], columns, strict=True):
            column[known, j] = own
        records.driven[known, j] = driven[observed[stop - 1]]
    return records


def naive_forecasts(records: Records, leads: np.ndarray) -> np.ndarray:
    """Forecasts (..., 5) from records (...), in the order of :data:`NAIVE`.

    `leads` (...) are the finite times since the channels were last observed. The forecast of a
    channel without observations is 0, its mean in training.
    """
    times, values, last = records.times, records.values, records.last
    n_recent = np.clip(records.n_values, 1, _N_RECENT)[..., None]
    recent = values * (np.arange(_N_RECENT, 0, -1) <= n_recent)
    average = recent.sum(axis=-1) / n_recent[..., 0]
    # The local drift is from the latest observation that is not too close to the last one, or
    # else from the earliest.
    age = times[..., -1:] - times
    is_apart = age >= _SHORTEST_DRIFT
    base = _N_RECENT - 1 - np.argmax(is_apart[..., ::-1], axis=-1)
    base = np.where(is_apart.any(axis=-1), base, 0)[..., None]
    rise = last - np.take_along_axis(values, base, axis=-1)[..., 0]
    duration = np.take_along_axis(age, base, axis=-1)[..., 0]
    local = last + leads * rise / np.maximum(duration, _SHORTEST_DRIFT)
    duration = times[..., -1] - records.first_time
    rise = last - records.first_value
    drift = last + leads * rise / np.maximum(duration, _SHORTEST_DRIFT)
    return np.stack(np.broadcast_arrays(last, average, records.mean, local, drift), axis=-1)
