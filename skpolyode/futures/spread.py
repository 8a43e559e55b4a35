"""What the errors of forecasts depend on: statistics of channels so far, in constant memory."""

from __future__ import annotations

import numpy as np

from skpolyode.panel import series_index

_PREDICTORS = "deviation", "step", "level", "expected", "few"
LEVEL, EXPECTED, FEW = range(2, len(_PREDICTORS))
N_PREDICTORS = len(_PREDICTORS)
_STEEP = 2.0  # levels become logarithmic at half a standard deviation from the mean


def predictors_of(spread: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Predictors (n, D, 5) of the error size, from the `spread` (n, D, 6) of the channels so far.

    The first two are the volatility: the logarithm of the standard deviation, and of the mean
    absolute step. Both include one additional observation, a standard deviation away, as a prior
    for few observations. The third is the last value (the mean without any), on a scale that is
    logarithmic far from the mean: errors are often proportional to the level. The fourth is the
    logarithm of the errors `expected` (n, D), which fall as more of a season or trend is known. The
    last one is one over the root of the number of observations, which intervals soon after a first
    one need (benchmarks/NOTES.md, "Parts of the ensemble").
    """
    n, sums, squares, steps, _, last = np.moveaxis(spread, -1, 0)
    count, found = np.maximum(n, 1), np.empty((*expected.shape, N_PREDICTORS))
    found[..., 0] = np.log((np.maximum(squares - sums**2 / count, 0.0) + 1.0) / count) / 2
    found[..., 1] = np.log((steps + 1.0) / count)
    found[..., EXPECTED] = np.log(expected)
    found[..., LEVEL], found[..., FEW] = np.arcsinh(_STEEP * last), count**-0.5
    return found


def spread_at(values: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Statistics (n, D, 6) of channels up to `rows`, included; zero before a first value.

    They are the number of observations; the sum and the sum of squares of their differences from
    the first one, which keep the digits of values far from zero; the sum of absolute steps; the
    first value and the last.

    Parameters
    ----------
    values : float64 ndarray of shape (P, D)
        In standard deviations, NaN where not observed.
    offsets : int64 ndarray of shape (B + 1,)
        Where the rows of each series start.
    rows : int64 ndarray of shape (n,)
        Positions among the rows of all series.
    """
    found = np.zeros((len(rows), values.shape[1], 6))
    series = series_index(offsets)[rows]
    order = np.argsort(series, kind="stable")
    for asked in np.split(order, np.flatnonzero(np.diff(series[order])) + 1) if len(rows) else ():
        start = offsets[series[asked[0]]]
        x = values[start : rows[asked].max() + 1]
        seen = ~np.isnan(x)
        latest = np.maximum.accumulate(np.where(seen, np.arange(len(x))[:, None], -1), axis=0)
        first = np.take_along_axis(x, seen.argmax(axis=0)[None], axis=0)
        held = np.where(latest < 0, first, np.take_along_axis(x, latest, axis=0))
        away, steps = np.where(seen, x - first, 0.0), np.abs(np.diff(held, axis=0, prepend=first))
        sums = [seen, away, away**2, np.where(latest < 0, 0.0, steps)]
        after = [*(s.cumsum(axis=0) for s in sums), np.broadcast_to(first, x.shape), held]
        known = np.where(latest[..., None] < 0, 0.0, np.stack(after, axis=-1))
        found[asked] = known[rows[asked] - start]
    return found


def spread_after(spread: np.ndarray, values: np.ndarray) -> np.ndarray:
    """As `spread_at`, after one more row (n, D) of each series."""
    n, sums, squares, steps, first, last = np.moveaxis(spread, -1, 0)
    first, last = np.where(n == 0, values, first), np.where(n == 0, values, last)
    away = values - first
    sums = n + 1, sums + away, squares + away**2, steps + np.abs(values - last)
    after = np.stack([*sums, first, values], axis=-1)
    return np.where(np.isnan(values)[..., None], spread, after)
