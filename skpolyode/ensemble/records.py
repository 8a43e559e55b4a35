"""What simple forecasts know of a channel: a summary of its past that takes constant memory.

A stream keeps the same summary row by row as a whole series gives at once: the number of
observations, their mean, means that forget, the first and the last one, and the range.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from skpolyode.panel import series_index

SPANS = 2.0 ** np.arange(6)
"""Typical gaps after which an observation counts 1/e in each of the means that forget."""

NEGLIGIBLE = 1e-6  # standard deviations of a channel; smaller differences count as none

_N_SCALARS = 8  # fields of a record that hold one number


@dataclass(frozen=True, eq=False)
class Records:
    """What simple forecasts know of channels, arrays (...) and (..., S).

    Times are in typical gaps since the start of the series, values in standard deviations from
    the mean of the channel. Before the first observation, all is zero.
    """

    n_values: np.ndarray  # (...): number of observations
    mean: np.ndarray  # (...)
    first_time: np.ndarray  # (...)
    first_value: np.ndarray  # (...)
    last_time: np.ndarray  # (...)
    last: np.ndarray  # (...)
    lowest: np.ndarray  # (...)
    highest: np.ndarray  # (...)
    means: np.ndarray  # (..., 6): with weights that fall exponentially, over each of `SPANS`
    totals: np.ndarray  # (..., 6): sums of these weights, of which the last observation has 1
    effects: np.ndarray  # (..., S): what a mixed model knows, empty without one
    driven: np.ndarray  # (..., F): responses to inputs at the last one, empty without inputs

    @classmethod
    def blank(cls, *shape: int, n_driven: int = 0) -> Self:
        """Records of channels that have not been observed."""
        kept, driven = np.zeros((2, *shape, len(SPANS))), np.zeros((*shape, n_driven))
        return cls(*np.zeros((_N_SCALARS, *shape)), *kept, np.zeros((*shape, 0)), driven)

    @classmethod
    def unpack(cls, packed: np.ndarray, n_driven: int = 0) -> Self:
        """Records from one array of all their columns; see `pack`."""
        ends = [*_N_SCALARS + len(SPANS) * np.arange(3), packed.shape[-1] - n_driven]
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

    def time_since(self, elapsed: np.ndarray) -> np.ndarray:
        """Time (...) from the last observation to `elapsed` (...), infinite without one."""
        return np.where(self.n_values > 0, elapsed - self.last_time, np.inf)

    def updated(
        self, elapsed: np.ndarray, values: np.ndarray, mask: np.ndarray, driven: np.ndarray
    ) -> Records:
        """Records (n, D) after one more observation of each series, at times `elapsed` (n,).

        `values` (n, D) count where `mask` (n, D) says that they are observed; `driven` (n, F) are
        responses to inputs, with F = 0 if there are none. What a mixed model knows is not changed.
        """
        x, t = np.where(mask, values, 0.0), np.broadcast_to(elapsed[:, None], mask.shape)
        n, is_first = self.n_values + 1, self.n_values == 0
        ranges = (np.minimum, self.lowest), (np.maximum, self.highest)
        reach = [np.where(is_first, x, f(known, x)) for f, known in ranges]
        first = np.where(is_first, t, self.first_time), np.where(is_first, x, self.first_value)
        scalars = n, self.mean + (x - self.mean) / n, *first, t, x, *reach
        totals = 1.0 + self.totals * _share_left(t - self.last_time)
        means = self.means + (x[..., None] - self.means) / totals
        masks = [mask] * _N_SCALARS + [mask[..., None]] * 3
        new = *scalars, means, totals, driven[:, None]
        before = *self.columns[:-2], self.driven
        *moved, driven = map(np.where, masks, new, before)
        return Records(*moved, self.effects, driven)


def _share_left(gaps: np.ndarray) -> np.ndarray:
    """What is left (..., 6) of the weight of an observation after gaps (...)."""
    return np.exp(-gaps[..., None] / SPANS)


def records_at(
    times: np.ndarray, values: np.ndarray, offsets: np.ndarray, rows: np.ndarray, driven: np.ndarray
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
    series = series_index(offsets)
    start = offsets[series[rows]]
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
        bounds, last = np.stack([first, stop], axis=1).ravel(), stop - 1
        sums = np.add.reduceat(np.append(x, 0.0), bounds)[::2]
        reach = [f.reduceat(np.append(x, x[-1]), bounds)[::2] for f in (np.minimum, np.maximum)]
        means, totals = (own[last] for own in _means_that_forget(t, x, series[observed]))
        ends = t[first], x[first], t[last], x[last]
        columns = stop - first, sums / (stop - first), *ends, *reach, means, totals
        for column, own in zip(records.columns[:-2], columns, strict=True):
            column[known, j] = own
        records.driven[known, j] = driven[observed[last]]
    return records


def _means_that_forget(
    times: np.ndarray, values: np.ndarray, series: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and sums of weights (P, 6) up to each of P observations, series after series.

    Sums over the last 1, 2, 4, ... observations, each of two sums of half the length.
    """
    totals = np.ones((len(times), len(SPANS)))
    sums, step = values[:, None] * totals, 1
    later = np.flatnonzero(series[step:] == series[:-step]) + step
    while len(later):
        kept = _share_left(times[later] - times[later - step])
        for own in (sums, totals):
            own[later] += kept * own[later - step]
        step *= 2
        later = np.flatnonzero(series[step:] == series[:-step]) + step
    return sums / totals, totals
