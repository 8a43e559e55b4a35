"""Simple forecasts of a channel, from a short record of what it was so far.

A record is kept in constant memory, so that a stream has the same one as a whole series: the count
of the channel's observations, their mean, the first one, and the last few.
"""

from __future__ import annotations

import numpy as np

from skpolyode.panel import series_index

__all__ = [
    "NAIVE",
    "blank_records",
    "last_values",
    "observation_counts",
    "records_at",
    "simple_forecasts",
    "slopes",
    "take_in",
    "time_since",
]

NAIVE = ("last", "recent", "mean", "motion", "drift")
"""What can be known without a model: the last value, the mean of the last four and of all values,
and the last value moved on as it moved lately, and from the first one on."""

_KEPT = 4  # last observations
_COUNT, _MEAN, _FIRST_TIME, _FIRST = range(4)
_TIMES, _VALUES = slice(4, 4 + _KEPT), slice(4 + _KEPT, 4 + 2 * _KEPT)
_SHORTEST = 0.5  # typical gaps that a motion is measured over, or noise is taken for it


def blank_records(n_series: int, n_channels: int) -> np.ndarray:
    """Records (B, D, 12) of channels that have not been observed."""
    return np.zeros((n_series, n_channels, _VALUES.stop))


def records_at(
    times: np.ndarray, values: np.ndarray, offsets: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Records (n, D, 12) after some rows, of the rows of their series up to them.

    Parameters
    ----------
    times : float64 ndarray of shape (P,)
        Since the first observation of the series, in typical gaps.
    values : float64 ndarray of shape (P, D)
        In standard deviations, NaN where not observed.
    offsets : int64 ndarray of shape (B + 1,)
        Where the rows of each series start.
    rows : int64 ndarray of shape (n,)
        They count over all series.
    """
    found = blank_records(len(rows), values.shape[1])
    start = offsets[series_index(offsets)[rows]]
    for record, own in zip(found.swapaxes(0, 1), values.T, strict=True):
        seen = np.flatnonzero(~np.isnan(own))
        first = np.searchsorted(seen, start)
        stop = np.searchsorted(seen, rows, side="right")
        some = np.flatnonzero(stop > first)
        if not len(some):
            continue
        first, stop, x, t = first[some], stop[some], own[seen], times[seen]
        # Each sum is of its own values: one series cannot take the digits of another.
        bounds = np.stack([first, stop], axis=1).ravel()
        sums = np.add.reduceat(np.append(x, 0.0), bounds)[::2]
        kept = np.maximum(stop[:, None] - np.arange(_KEPT, 0, -1), first[:, None])
        columns = stop - first, sums / (stop - first), t[first], x[first]
        record[some] = np.hstack([np.stack(columns, axis=1), t[kept], x[kept]])
    return found


def take_in(
    records: np.ndarray, elapsed: np.ndarray, values: np.ndarray, mask: np.ndarray
) -> np.ndarray:
    """Records (n, D, 12) after one more observation of each series, at times `elapsed` (n,).

    `values` (n, D) are anything where `mask` (n, D) does not say that they are observed.
    """
    count = records[..., _COUNT]
    x, t = np.where(mask, values, 0.0), np.broadcast_to(elapsed[:, None], mask.shape)
    moved = records.copy()
    moved[..., _COUNT] = count + 1
    moved[..., _MEAN] += (x - records[..., _MEAN]) / (count + 1)
    for part, new in ((_TIMES, t), (_VALUES, x)):
        moved[..., part.start : part.stop - 1] = records[..., part.start + 1 : part.stop]
        moved[..., part.stop - 1] = new
    first = count == 0  # stands for those that are missing
    moved[..., _FIRST_TIME] = np.where(first, t, moved[..., _FIRST_TIME])
    moved[..., _FIRST] = np.where(first, x, moved[..., _FIRST])
    for part, new in ((_TIMES, t), (_VALUES, x)):
        moved[..., part] = np.where(first[..., None], new[..., None], moved[..., part])
    return np.where(mask[..., None], moved, records)


def time_since(records: np.ndarray, elapsed: np.ndarray) -> np.ndarray:
    """Time (...) from the last observations in records (..., 12) to `elapsed` (...).

    It is infinite of a channel that has not been observed.
    """
    return np.where(records[..., _COUNT] > 0, elapsed - records[..., _TIMES.stop - 1], np.inf)


def last_values(records: np.ndarray) -> np.ndarray:
    """Last observations (...) in records (..., 12), 0 without any."""
    return records[..., _VALUES.stop - 1]


def observation_counts(records: np.ndarray) -> np.ndarray:
    """How many observations (...) records (..., 12) are of."""
    return records[..., _COUNT]


def simple_forecasts(records: np.ndarray, leads: np.ndarray) -> np.ndarray:
    """Forecasts (..., 5) of records (..., 12), in the order of :data:`NAIVE`.

    `leads` (...) are the times since the channels were last observed, finite ones. A channel that
    has not been observed is expected at its mean in training, which is 0.
    """
    count, mean = records[..., _COUNT], records[..., _MEAN]
    times, values = records[..., _TIMES], records[..., _VALUES]
    age, last = times[..., -1:] - times, values[..., -1]
    n_kept = np.clip(count, 1, _KEPT)[..., None]
    recent = (values * (np.arange(_KEPT, 0, -1) <= n_kept)).sum(axis=-1) / n_kept[..., 0]
    # From the latest one that is not too close to the last, or the earliest there is.
    base = _KEPT - 1 - np.argmax(age[..., ::-1] >= _SHORTEST, axis=-1)
    base = np.where((age >= _SHORTEST).any(axis=-1), base, 0)[..., None]
    rise = last - np.take_along_axis(values, base, axis=-1)[..., 0]
    over = np.take_along_axis(age, base, axis=-1)[..., 0]
    motion = last + leads * rise / np.maximum(over, _SHORTEST)
    over = times[..., -1] - records[..., _FIRST_TIME]
    drift = last + leads * (last - records[..., _FIRST]) / np.maximum(over, _SHORTEST)
    return np.stack(np.broadcast_arrays(last, recent, mean, motion, drift), axis=-1)


def slopes(records: np.ndarray) -> np.ndarray:
    """Slopes (..., 2) from the third and fourth last observation to the last, 0 without them."""
    times, values = records[..., _TIMES], records[..., _VALUES]
    age, rise = times[..., -1:] - times, values[..., -1:] - values
    return (rise / np.maximum(age, _SHORTEST))[..., 1::-1]
