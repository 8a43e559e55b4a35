"""The scale of errors that is learned from the predictors of their size."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import GammaRegressor

from skpolyode.ensemble.backtest import BacktestSettings, are_known, equal_bins, folds_of, nearness
from skpolyode.ensemble.member import N_FOLDS, NEGLIGIBLE
from skpolyode.futures.spread import EXPECTED, FEW
from skpolyode.saving.codec import saved

PRIOR = 5.0  # series that the prior is worth: errors have one scale, and either sign
_RISING = slice(EXPECTED, None)  # the scale never falls as these predictors rise
_TRUSTED = 2.0  # weight of the expected size, relative to the other predictors
_FEWER = (np.array([1, 2, 3, 5]) + 0.5) ** -0.5  # bounds of groups by the number of observations
ERRORS_A_LEAD = BacktestSettings.pairs_a_knot * BacktestSettings.max_knots  # in a bin of leads


@saved(slopes="D S", centre="D S", lowest="D S", highest="D S", leads="J rising", few="5 J")
@dataclass(frozen=True, eq=False)
class ErrorScale:
    """Scale of forecast errors, from predictors of the error size.

    Parameters
    ----------
    slopes : float64 ndarray of shape (D, S)
        Change of the logarithm of the scale per unit of each predictor.
    centre : float64 ndarray of shape (D, S)
        Predictors at which the scale is 1.
    lowest, highest : float64 ndarray of shape (D, S)
        Range of the predictors in the backtest; beyond, the scale is constant.
    leads : float64 ndarray of shape (J,)
    few : float64 ndarray of shape (5, J)
        Logarithms of further factors there, after more than 5 observations, at most 5, 3, 2 and 1.
    """

    widened_at: ClassVar[float] = 0.9  # level of the half widths that are compared with errors
    slopes: np.ndarray
    centre: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    leads: np.ndarray
    few: np.ndarray

    @classmethod
    def learn(
        cls, predictors: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
    ) -> Self:
        """Learn from errors (M, D) and their `predictors` (M, D, S); NaN is ignored.

        For each channel, a Gamma regression with a logarithmic link explains the absolute errors,
        relative to their mean in a bin of `leads` (M, D). The forecasts of one of the `series` (M,)
        together weigh as much as one, since their errors are alike. A prior shrinks slopes towards
        zero.
        """
        slopes, centre, lowest, highest = np.zeros((4, *predictors.shape[1:]))
        every = are_known(leads, errors)
        for j, known in enumerate(every.T):
            if not known.any():
                continue
            x = predictors[known, j]
            lowest[j], highest[j] = x.min(axis=0), x.max(axis=0)
            which, counts = np.unique(series[known], return_inverse=True, return_counts=True)[1:]
            weights = 1 / counts[which]
            centre[j] = weights @ x / weights.sum()
            width = np.sqrt(weights @ (x - centre[j]) ** 2 / weights.sum())
            width = np.where(width > NEGLIGIBLE, width, np.inf)  # a constant has a slope of zero
            width[_RISING] /= _TRUSTED
            relative, sizes = np.ones(len(x)), np.abs(errors[known, j])
            for part in equal_bins(leads[known, j]):
                mean = sizes[part].mean()
                if mean > 0:  # the Gamma likelihood takes no zeros
                    least = np.finfo(np.float64).eps
                    relative[part] = np.maximum(sizes[part] / mean, least)
            model = GammaRegressor(alpha=PRIOR / weights.sum(), solver="newton-cholesky")
            with warnings.catch_warnings():  # of the line search, close to the optimum
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit((x - centre[j]) / width, relative, weights)
            slopes[j] = model.coef_ / width
            slopes[j, _RISING] = np.maximum(slopes[j, _RISING], 0.0)
        return cls(slopes, centre, lowest, highest, np.ones(1), np.zeros((5, 1)))

    def widened(self, errors: np.ndarray, widths: np.ndarray, *about: np.ndarray) -> Self:
        """Widen half widths (M, D) that errors (M, D) after few observations pass too often.

        After few observations of a wave, the next one is as uncertain as one far ahead. Slopes
        change intervals at all leads by one factor. Here factors depend on the lead. All channels
        share them, since a channel has few such errors. They are at least 1, do not rise with the
        number of observations, and are shrunk as slopes are. The predictors, leads and series that
        they are `about` are those of `learn`.
        """
        predictors, leads, series = about
        group, n_series = (predictors[..., FEW, None] > _FEWER).sum(axis=-1), len(np.unique(series))
        few = are_known(leads, errors) & (group > 0)
        if not few.any():
            return self
        group, leads, widths = group[few], leads[few], widths[few] + NEGLIGIBLE
        sizes, bins = np.abs(errors[few]) / widths, equal_bins(leads, ERRORS_A_LEAD)
        factors = [np.ones(len(bins))]
        for k in range(1, len(_FEWER) + 1):
            ratios = [np.append(sizes[own][group[own] == k], 1.0) for own in bins]
            wide = [np.quantile(own, self.widened_at) for own in ratios]
            factors.append(np.maximum(factors[-1], wide))
        few = np.log(factors) * n_series / (n_series + PRIOR)
        return replace(self, leads=np.array([np.median(leads[own]) for own in bins]), few=few)

    def at(self, predictors: np.ndarray, leads: np.ndarray) -> np.ndarray:
        """Scales (..., D), from `predictors` (..., D, S) and `leads` (..., D)."""
        inside = np.clip(predictors, self.lowest, self.highest)
        few = self.few[(predictors[..., FEW, None] > _FEWER).sum(axis=-1)]
        few = (nearness(leads, self.leads) * few).sum(axis=-1)
        return np.exp((self.slopes * (inside - self.centre)).sum(axis=-1) + few)


def cross_fitted_scales(
    predictors: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
) -> np.ndarray | None:
    """Scales (M, D), each learned from the other folds of series; None with too few series."""
    folds = folds_of(series, N_FOLDS)
    if folds.max(initial=0) < N_FOLDS - 1:
        return None
    scales = np.empty(errors.shape)
    for fold in range(N_FOLDS):
        out = folds == fold
        known = predictors[~out], errors[~out], leads[~out], series[~out]
        scales[out] = ErrorScale.learn(*known).at(predictors[out], leads[out])
    return scales
