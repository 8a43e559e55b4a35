"""How wild a series has been so far, and what that says about the errors of its forecasts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import GammaRegressor

from skpolyode.ensemble.stacking import folds_of
from skpolyode.panel import series_index
from skpolyode.saving.codec import saved

__all__ = ["ErrorScale", "cross_fitted_scales", "spreads_at"]

_FOLDS = 5
_PRIOR = 5.0  # series that speak for one scale of all
_USUAL = 1.0  # standard deviation of one more observation and one more step of each series
_LEAST = 1e-9  # relative error: the likelihood of a Gamma distribution takes no zeros
_MOST = 1e3  # the same: more makes no difference


def spreads_at(values: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Logarithms (n, D, 2) of the spread and of the mean step of each channel up to some rows.

    They are those of the observations of the series up to that row, and of one more, which is worth
    a standard deviation: nothing is known of a channel that has been observed once.

    Parameters
    ----------
    values : float64 ndarray of shape (P, D)
        In standard deviations, NaN where not observed.
    offsets : int64 ndarray of shape (B + 1,)
        Where the rows of each series start.
    rows : int64 ndarray of shape (n,)
        They count over all series.
    """
    found = np.zeros((len(rows), values.shape[1], 2))
    series = series_index(offsets)[rows]
    order = np.argsort(series, kind="stable")
    for asked in np.split(order, np.flatnonzero(np.diff(series[order])) + 1) if len(rows) else ():
        first = offsets[series[asked[0]]]
        found[asked] = _spreads(values[first : rows[asked].max() + 1])[rows[asked] - first]
    return found


def _spreads(x: np.ndarray) -> np.ndarray:
    """Those after each row of one series, (n, D, 2), from its values (n, D)."""
    seen = ~np.isnan(x)
    latest = np.maximum.accumulate(np.where(seen, np.arange(len(x))[:, None], -1), axis=0)
    # From the first observation on, which keeps their digits.
    x = x - np.take_along_axis(x, seen.argmax(axis=0)[None], axis=0)
    x = np.where(latest < 0, 0.0, np.take_along_axis(x, np.maximum(latest, 0), axis=0))
    count = np.maximum(seen.cumsum(axis=0), 1)
    sums, squares = (np.where(seen, y, 0.0).cumsum(axis=0) for y in (x, x**2))
    variance = (np.maximum(squares - sums**2 / count, 0.0) + _USUAL**2) / count
    step = (np.abs(np.diff(x, axis=0, prepend=x[:1])).cumsum(axis=0) + _USUAL) / count
    return np.stack([np.log(variance) / 2, np.log(step)], axis=-1)


@saved
@dataclass(frozen=True, eq=False)
class ErrorScale:
    """Scale of the errors of forecasts, by the spreads of their series up to the origin.

    Parameters
    ----------
    slopes : float64 ndarray of shape (D, 2)
        Of the logarithm of the scale, in the spreads.
    centre : float64 ndarray of shape (D, 2)
        Spreads at which the scale is 1.
    lowest, highest : float64 ndarray of shape (D, 2)
        Range of the spreads that it was learned from; beyond, it is held.
    """

    slopes: np.ndarray
    centre: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray

    @classmethod
    def learn(
        cls, spreads: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
    ) -> Self:
        """From errors (M, D), whose `spreads` are (M, D, 2); what is NaN is ignored.

        For each channel a Gamma regression, on a logarithmic scale, of the absolute errors over
        their mean at about the same of their `leads` (M, D). All forecasts of one of the `series`
        (M,) weigh as much as one, since it is wild or quiet as a whole, and as many as ``_PRIOR``
        series speak for slopes of zero.
        """
        slopes, centre, lowest, highest = np.zeros((4, *spreads.shape[1:]))
        for j in range(errors.shape[1]):
            known = np.isfinite(errors[:, j]) & np.isfinite(leads[:, j]) & (leads[:, j] > 0)
            if not known.any():
                continue
            own = spreads[known, j]
            lowest[j], highest[j] = own.min(axis=0), own.max(axis=0)
            which, counts = np.unique(series[known], return_inverse=True, return_counts=True)[1:]
            weights = 1 / counts[which]
            centre[j] = weights @ own / weights.sum()
            width = np.sqrt(weights @ (own - centre[j]) ** 2 / weights.sum())
            width = np.where(width > 1e-6, width, np.inf)  # of what does not differ
            relative = _relative(np.abs(errors[known, j]), leads[known, j])
            slopes[j] = _slopes((own - centre[j]) / width, relative, weights) / width
        return cls(slopes, centre, lowest, highest)

    def at(self, spreads: np.ndarray) -> np.ndarray:
        """Scales (..., D), from spreads (..., D, 2)."""
        inside = np.clip(spreads, self.lowest, self.highest)
        return np.exp((self.slopes * (inside - self.centre)).sum(axis=-1))


def cross_fitted_scales(
    spreads: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
) -> np.ndarray | None:
    """Scales (M, D) that the series of each forecast had no part in; None of too few series."""
    folds = folds_of(series, _FOLDS)
    if not folds:
        return None
    scales = np.empty(errors.shape)
    for out in folds:
        known = spreads[~out], errors[~out], leads[~out], series[~out]
        scales[out] = ErrorScale.learn(*known).at(spreads[out])
    return scales


def _slopes(x: np.ndarray, relative: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Slopes of the logarithm of the mean of relative errors (m,) in x (m, 2)."""
    model = GammaRegressor(alpha=_PRIOR / weights.sum(), solver="newton-cholesky")
    with warnings.catch_warnings():  # of its line search, where nothing is left to gain
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(x, relative, weights).coef_


def _relative(errors: np.ndarray, leads: np.ndarray) -> np.ndarray:
    """Errors over their mean at about the same lead."""
    relative = np.ones(len(errors))
    n_parts = int(np.clip(len(errors) // 50, 1, 8))
    for part in np.array_split(np.argsort(leads, kind="stable"), n_parts):
        mean = errors[part].mean()
        if mean > 0:
            relative[part] = np.clip(errors[part] / mean, _LEAST, _MOST)
    return relative
