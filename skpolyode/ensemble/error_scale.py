"""What tells how large errors will be, and the scale of errors that is learned from it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import GammaRegressor

from skpolyode.ensemble.backtest import N_FOLDS, are_known, equal_bins, folds_of
from skpolyode.ensemble.records import NEGLIGIBLE
from skpolyode.panel import series_index
from skpolyode.saving.codec import saved

PRIOR = 5.0  # series that speak for what all errors share: one scale, and either sign
EXPECTED, LEVEL, N_SIGNS = 2, 3, 4  # of the signs of errors, the first two tell of volatility
_STEEP = 2.0  # half a standard deviation from the mean is where levels become logarithmic
_TRUSTED = 2.0  # times as strongly as others, the sign that is an expected size is believed
_LARGEST = 1e3  # error beside the mean error at its lead


def signs_of_errors(
    values: np.ndarray, offsets: np.ndarray, rows: np.ndarray, expected: np.ndarray
) -> np.ndarray:
    """What the size of n errors depends on, (n, D, 4), of forecasts from some rows (n,).

    These are the volatility of the series up to there; the logarithm of the errors `expected`
    (n, D): with a season or a trend, these fall as more of the series is known; and the last value,
    or the mean without any, on a scale that is logarithmic far from the mean: what is twice as high
    often errs twice as much.
    """
    return signs_of(spread_at(values, offsets, rows), expected)


def signs_of(spread: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Signs (n, D, 4) of errors, from the spread (n, D, 6) of the channels so far.

    Volatility is the logarithm of the standard deviation, and of the mean absolute step, of the
    series' observations and one more that is a standard deviation away: little is known from a
    single observation.
    """
    n, sums, squares, steps, _, last = np.moveaxis(spread, -1, 0)
    count, found = np.maximum(n, 1), np.empty((*expected.shape, N_SIGNS))
    found[..., 0] = np.log((np.maximum(squares - sums**2 / count, 0.0) + 1.0) / count) / 2
    found[..., 1] = np.log((steps + 1.0) / count)
    found[..., EXPECTED] = np.log(expected)
    found[..., LEVEL] = np.arcsinh(_STEEP * last)
    return found


def spread_at(values: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """How channels have spread up to some rows, included, (n, D, 6); zero before a first value.

    That is the number of its observations; the sum and the sum of squares of their differences from
    the first one, which keep the digits of values far from zero; the sum of their absolute steps;
    the first one and the last.

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
        after = [*(own.cumsum(axis=0) for own in sums), np.broadcast_to(first, x.shape), held]
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


class FollowsSpread:
    """Mixin of what is known of errors: signs of them follow from the spread of channels so far."""

    known_at = staticmethod(spread_at)
    updated = staticmethod(spread_after)
    signs = staticmethod(signs_of)


@saved(slopes="D S", centre="D S", lowest="D S", highest="D S")
@dataclass(frozen=True, eq=False)
class ErrorScale:
    """Scale of the errors of forecasts, from what tells of it: their signs.

    Parameters
    ----------
    slopes : float64 ndarray of shape (D, S)
        Of the logarithm of the scale, in the signs.
    centre : float64 ndarray of shape (D, S)
        Signs at which the scale is 1.
    lowest, highest : float64 ndarray of shape (D, S)
        Range of the signs in the backtest; beyond, the scale is held.
    """

    slopes: np.ndarray
    centre: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray

    @classmethod
    def learn(
        cls, signs: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
    ) -> Self:
        """Learn from errors (M, D), and the signs (M, D, S) of them; NaN is ignored.

        For each channel, a Gamma regression with a logarithmic link explains the absolute errors,
        relative to their mean at about the same of their `leads` (M, D). All forecasts of one of
        the `series` (M,) together weigh as much as one, since their errors are alike. The prior
        speaks for slopes of zero.
        """
        slopes, centre, lowest, highest = np.zeros((4, *signs.shape[1:]))
        every = are_known(leads, errors)
        for j, known in enumerate(every.T):
            if not known.any():
                continue
            own = signs[known, j]
            lowest[j], highest[j] = own.min(axis=0), own.max(axis=0)
            which, counts = np.unique(series[known], return_inverse=True, return_counts=True)[1:]
            weights = 1 / counts[which]
            centre[j] = weights @ own / weights.sum()
            width = np.sqrt(weights @ (own - centre[j]) ** 2 / weights.sum())
            width = np.where(width > NEGLIGIBLE, width, np.inf)  # where all series are alike
            width[EXPECTED:LEVEL] /= _TRUSTED
            relative, sizes = np.ones(len(own)), np.abs(errors[known, j])
            for part in equal_bins(leads[known, j]):
                mean = sizes[part].mean()
                if mean > 0:  # the Gamma likelihood takes no zeros
                    least = np.finfo(np.float64).eps
                    relative[part] = np.clip(sizes[part] / mean, least, _LARGEST)
            model = GammaRegressor(alpha=PRIOR / weights.sum(), solver="newton-cholesky")
            with warnings.catch_warnings():  # of the line search, close to the optimum
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit((own - centre[j]) / width, relative, weights)
            slopes[j] = model.coef_ / width
            # What is expected large is not small.
            slopes[j, EXPECTED:LEVEL] = np.maximum(slopes[j, EXPECTED:LEVEL], 0.0)
        return cls(slopes, centre, lowest, highest)

    def at(self, signs: np.ndarray) -> np.ndarray:
        """Scales (..., D), from signs (..., D, S)."""
        inside = np.clip(signs, self.lowest, self.highest)
        return np.exp((self.slopes * (inside - self.centre)).sum(axis=-1))


def cross_fitted_scales(
    signs: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
) -> np.ndarray | None:
    """Scales (M, D), each learned from the other folds of series; None of too few series."""
    folds = folds_of(series, N_FOLDS)
    if folds.max(initial=0) < N_FOLDS - 1:
        return None
    scales = np.empty(errors.shape)
    for fold in range(N_FOLDS):
        out = folds == fold
        known = signs[~out], errors[~out], leads[~out], series[~out]
        scales[out] = ErrorScale.learn(*known).at(signs[out])
    return scales
