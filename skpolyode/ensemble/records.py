"""Records that all members share: a summary of a channel's past, in constant memory.

Updated row by row in a stream, the summary is the same as for a whole series at once. It holds the
number of observations, their mean, exponential means, the first and last values, and the range.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skpolyode.panel import series_index
from skpolyode.panel.units import Standardised

SPANS = 2.0 ** np.arange(6)
"""Typical gaps after which the weight of an observation in each exponential mean falls to 1/e."""

NEGLIGIBLE = 1e-6  # standard deviations of a channel; smaller differences count as none

_N_SCALARS = 8  # fields of a record that hold one number


class Records(NamedTuple):
    """Summaries of channels, arrays (...) and (..., 6); stored as one array (..., K).

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
    means: np.ndarray  # (..., 6): exponential means, over each of `SPANS`
    totals: np.ndarray  # (..., 6): sums of their weights; the last observation has weight 1

    @classmethod
    def of(cls, cells: np.ndarray) -> Records:
        """Records from one array (..., K) of all their columns."""
        ends = _N_SCALARS + len(SPANS) * np.arange(2)
        scalars, means, totals = np.split(cells, ends, axis=-1)
        return cls(*np.moveaxis(scalars, -1, 0), means, totals)

    def packed(self) -> np.ndarray:
        """One array (..., K) of all columns."""
        scalars = np.stack(self[:_N_SCALARS], axis=-1)
        return np.concatenate([scalars, self.means, self.totals], axis=-1)

    def time_since(self, elapsed: np.ndarray) -> np.ndarray:
        """Time (...) from the last observation to `elapsed` (...), infinite without one."""
        return np.where(self.n_values > 0, elapsed - self.last_time, np.inf)

    @staticmethod
    def start(*shape: int) -> np.ndarray:
        """Packed records (..., K) of channels (...) that have not been observed."""
        return np.zeros((*shape, _N_SCALARS + 2 * len(SPANS)))

    @classmethod
    def known_at(cls, rows: Standardised, asked: np.ndarray) -> np.ndarray:
        """Packed records (n, D, K) of series up to rows `asked` (n,), which are included."""
        times, values, offsets, _ = rows
        found = cls.start(len(asked), values.shape[1])
        series = series_index(offsets)
        start = offsets[series[asked]]
        for j, channel in enumerate(values.T):
            observed = np.flatnonzero(~np.isnan(channel))
            first = np.searchsorted(observed, start)
            stop = np.searchsorted(observed, asked, side="right")
            known = np.flatnonzero(stop > first)
            if not len(known):
                continue
            first, stop, x, t = first[known], stop[known], channel[observed], times[observed]
            # Each sum is over one series only: differences of cumulative sums would lose the
            # digits of a series that follows one of much larger values.
            bounds, last = np.stack([first, stop], axis=1).ravel(), stop - 1
            sums = np.add.reduceat(np.append(x, 0.0), bounds)[::2]
            reach = [f.reduceat(np.append(x, x[-1]), bounds)[::2] for f in (np.minimum, np.maximum)]
            means, totals = (cells[last] for cells in _exponential_means(t, x, series[observed]))
            ends = t[first], x[first], t[last], x[last]
            records = cls(stop - first, sums / (stop - first), *ends, *reach, means, totals)
            found[known, j] = records.packed()
        return found

    @classmethod
    def updated(cls, cells: np.ndarray, rows: Standardised) -> np.ndarray:
        """Packed records (n, D, K) after one more row of each series."""
        mask = ~np.isnan(rows.values)
        old, t = cls.of(cells), np.broadcast_to(rows.times[:, None], mask.shape)
        x, n, is_first = np.where(mask, rows.values, 0.0), old.n_values + 1, old.n_values == 0
        ranges = (np.minimum, old.lowest), (np.maximum, old.highest)
        reach = [np.where(is_first, x, f(known, x)) for f, known in ranges]
        first = np.where(is_first, t, old.first_time), np.where(is_first, x, old.first_value)
        totals = 1.0 + old.totals * _share_kept(t - old.last_time)
        means = old.means + (x[..., None] - old.means) / totals
        new = cls(n, old.mean + (x - old.mean) / n, *first, t, x, *reach, means, totals)
        return np.where(mask[..., None], new.packed(), cells)


def _share_kept(gaps: np.ndarray) -> np.ndarray:
    """Factors (..., 6) of the weight of an observation after gaps (...)."""
    return np.exp(-gaps[..., None] / SPANS)


def _exponential_means(
    times: np.ndarray, values: np.ndarray, series: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Exponential means and sums of weights (P, 6) up to each of P observations.

    Sums over the last 1, 2, 4, ... observations are each made of two sums of half the length.
    """
    totals = np.ones((len(times), len(SPANS)))
    sums, step = values[:, None] * totals, 1
    later = np.flatnonzero(series[step:] == series[:-step]) + step
    while len(later):
        kept = _share_kept(times[later] - times[later - step])
        for array in (sums, totals):
            array[later] += kept * array[later - step]
        step *= 2
        later = np.flatnonzero(series[step:] == series[:-step]) + step
    return sums / totals, totals
