"""Conformal prediction intervals: how far off forecasts may be, from the errors of a backtest.

Half widths depend on the lead, the time since the channel was last observed, and on the volatility
of the series before. Values are in standard deviations from the mean of their channel.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
from scipy.special import stdtrit
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import isotonic_regression
from sklearn.linear_model import GammaRegressor

from skpolyode.ensemble.backtest import N_FOLDS, are_known, effective_count, equal_bins, folds_of
from skpolyode.ensemble.error_paths import ErrorPaths, between, levels_of, scores_of
from skpolyode.ensemble.records import NEGLIGIBLE
from skpolyode.futures.errors import Ahead
from skpolyode.panel import series_index
from skpolyode.saving.codec import saved


@dataclass(frozen=True)
class ConformalSettings:
    """How errors are sorted by lead, and how widths adapt to a series."""

    errors_a_bin: int = 100  # with about the same lead; at most 1 % of them lie beyond 99 %
    max_bins: int = 40  # of leads
    prior: float = 5.0  # series that speak for one scale of all errors
    clip: float = 1e3  # largest error beside the mean error at its lead


_SETTINGS = ConformalSettings()
_SCORES = np.linspace(0.0, 3.5, 71)  # at which half widths are tabled, to sample errors


@saved
@dataclass(frozen=True)
class _Errors:
    """Absolute errors of the forecasts of one channel with about the same lead, sorted."""

    lead: float
    errors: np.ndarray
    n_independent: float  # how many of the forecasts do not overlap

    def quantile(self, level: float) -> float:
        """Conformal quantile: the ceil((n + 1) level)-th smallest error, or the largest.

        It is widened by the ratio of Student's quantiles for the number of independent errors and
        for all errors: the fewer are independent, the less is known of their scale.
        """
        n = len(self.errors)
        rank = int(np.ceil((n + 1) * level)) - 1
        quantile = float(self.errors[min(max(rank, 0), n - 1)])
        if self.n_independent >= n or level <= 0:
            return quantile
        few, all_of_them = stdtrit([self.n_independent, n], (1 + level) / 2)
        return quantile * float(few / all_of_them)


@saved
@dataclass(frozen=True)
class Calibration:
    """Half widths of prediction intervals, by channel and lead.

    Intervals are split conformal. The errors are those of forecasts of data that did not train the
    model. If each were from a different series, they would be exchangeable with the errors to
    come, and an interval at `level` would cover that share of them, whatever their distribution.
    Forecasts of one series that overlap in time share their errors: the fewer forecasts do not
    overlap, the wider is the interval. Beyond the longest lead of the backtest, widths are held.

    Errors are divided by the scale that is expected of each series, and half widths are multiplied
    by it: locally adaptive conformal prediction (Lei et al., "Distribution-free predictive
    inference for regression", JASA 2018, section 5.2). The scale of a series is learned from other
    series.

    Parameters
    ----------
    errors : tuple of tuple of _Errors
        For each channel, in increasing order of the lead.
    scale : ErrorScale or None, default=None
        Expected scale of the errors of a series; None if it is 1, as with few series.
    is_relative : bool, default=False
        Whether errors are in multiples of those that the forecasts' models expect.
    paths : ErrorPaths or None, default=None
        Whole courses of the same errors; None if they are not of forecasts from some origins.
    """

    errors: tuple[tuple[_Errors, ...], ...]
    scale: ErrorScale | None = None
    is_relative: bool = False
    paths: ErrorPaths | None = None

    @classmethod
    def learn(
        cls,
        leads: np.ndarray,
        forecasts: np.ndarray,
        actual: np.ndarray,
        series: np.ndarray | None = None,
        times: np.ndarray | None = None,
        volatility: np.ndarray | None = None,
        expected: np.ndarray | None = None,
        origin: np.ndarray | None = None,
    ) -> Self:
        """Learn from M forecasts, arrays (M, D); what is NaN in `actual` is ignored.

        They are of some `series` (M,) for some `times` (M,); None if each is of a different one.
        With the `volatility` (M, D, 2) of the series, half widths adapt to it. With the `expected`
        (M, D) size of the errors, they are multiples of it. With the `origin` (M,) of each, errors
        are kept as paths, too. A channel without any errors gets a single one of 1: its forecast is
        then worth no more than the mean.
        """
        if series is None or times is None:
            series, times = np.arange(len(leads)), np.zeros(len(leads))
        wrong, scale = actual - forecasts, None
        if expected is not None:
            wrong = wrong / expected
        if volatility is not None:
            scales = cross_fitted_scales(volatility, wrong, leads, series)
            if scales is not None:
                scale = ErrorScale.learn(volatility, wrong, leads, series)
                wrong = wrong / scales
        errors, known, scores = [], are_known(leads, wrong), np.full(wrong.shape, np.nan)
        for j, rows in enumerate(known.T):
            rows, lead, bins = np.flatnonzero(rows), leads[:, j], []
            for part in equal_bins(lead[rows], _SETTINGS.errors_a_bin, _SETTINGS.max_bins):
                if len(part):
                    own = rows[part]
                    middle = float(np.median(lead[own]))
                    n_independent = effective_count(series[own], times[own], middle)
                    bins.append(_Errors(middle, np.sort(np.abs(wrong[own, j])), n_independent))
                    scores[own, j] = scores_of(wrong[own, j])
            errors.append(tuple(bins) or (_Errors(0.0, np.ones(1), np.inf),))
        paths = None
        if origin is not None:
            paths = ErrorPaths.learn(scores, leads.min(axis=1), origin, series)
        return cls(tuple(errors), scale, expected is not None, paths)

    def half_widths(
        self, leads: np.ndarray, level: float, volatility: np.ndarray | None = None
    ) -> np.ndarray:
        """Half widths (Q, D) of the central intervals of probability `level` at leads (Q, D).

        They never fall with the lead: the quantiles of the bins are pooled where they do. They are
        those of a usual series, or of series of a `volatility` (Q, D, 2).
        """
        widths = np.empty(leads.shape)
        for j, bins in enumerate(self.errors):
            rising = self._rising(j, level)
            widths[:, j] = np.interp(leads[:, j], [own.lead for own in bins], rising)
        if self.scale is None or volatility is None:
            return widths
        return widths * self.scale.at(volatility)

    def _rising(self, channel: int, level: float) -> np.ndarray:
        """Half widths (n_bins,) of one channel at the leads of its errors."""
        bins = self.errors[channel]
        rising = np.array([own.quantile(level) for own in bins])
        if any(a >= b for a, b in pairwise(rising)):
            counts = [float(len(own.errors)) for own in bins]
            rising = isotonic_regression(rising, sample_weight=counts)
        return rising

    def volatility(self, values: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Volatility (n, D, 2) of each channel up to some rows, which are included."""
        return volatility_at(values, offsets, rows)

    def draw(self, n_samples: int, rng: np.random.RandomState) -> np.ndarray | None:
        """Which error paths (n_samples,) are taken; None if none are known."""
        return None if self.paths is None else self.paths.draw(n_samples, rng)

    def sample(self, ahead: Ahead, drawn: np.ndarray, channel: int) -> np.ndarray:
        """Values (Q, S) of one channel, in standard deviations, on S drawn error paths.

        As many are inside each interval as its level says. Before the first time that the backtest
        forecast at, errors shrink as those of a random walk do, to none where a channel was
        observed.
        """
        leads, since = ahead.leads[:, channel], ahead.since
        scores = self.paths.at(since, drawn, channel)
        rising = np.stack([self._rising(channel, level) for level in levels_of(_SCORES)], axis=1)
        low, high, share = between(leads, [own.lead for own in self.errors[channel]])
        table = (1 - share) * rising[low] + share * rising[high]  # (Q, n_scores)
        place = np.minimum(np.abs(scores) / _SCORES[1], len(_SCORES) - 1.001)
        low = place.astype(np.int64)
        own = [np.take_along_axis(table, low + k, axis=1) for k in (0, 1)]
        errors = np.copysign(own[0] + (place - low) * (own[1] - own[0]), scores)
        size = np.sqrt(np.minimum(leads / self.paths.since[0], 1.0))
        if self.is_relative:
            size = size * ahead.expected[:, channel]
        if self.scale is not None:
            size = size * self.scale.at(ahead.volatility)[:, channel]
        size = np.where(ahead.is_known[:, channel], 0.0, size)
        return ahead.values[:, channel, None] + size[:, None] * errors


def volatility_at(values: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Volatility (n, D, 2) of each channel up to some rows, which are included.

    It is the logarithm of the standard deviation, and of the mean absolute step, of the series'
    observations and one more that is a standard deviation away: little is known from a single
    observation.

    Parameters
    ----------
    values : float64 ndarray of shape (P, D)
        In standard deviations, NaN where not observed.
    offsets : int64 ndarray of shape (B + 1,)
        Where the rows of each series start.
    rows : int64 ndarray of shape (n,)
        Positions among the rows of all series.
    """
    found = np.zeros((len(rows), values.shape[1], 2))
    series = series_index(offsets)[rows]
    order = np.argsort(series, kind="stable")
    for asked in np.split(order, np.flatnonzero(np.diff(series[order])) + 1) if len(rows) else ():
        first = offsets[series[asked[0]]]
        x = values[first : rows[asked].max() + 1]
        seen = ~np.isnan(x)
        latest = np.maximum.accumulate(np.where(seen, np.arange(len(x))[:, None], -1), axis=0)
        # Differences from the first observation keep the digits of values far from zero.
        x = x - np.take_along_axis(x, seen.argmax(axis=0)[None], axis=0)
        x = np.where(latest < 0, 0.0, np.take_along_axis(x, np.maximum(latest, 0), axis=0))
        count = np.maximum(seen.cumsum(axis=0), 1)
        sums = np.where(seen, x, 0.0).cumsum(axis=0)
        squares = np.where(seen, x**2, 0.0).cumsum(axis=0)
        variance = (np.maximum(squares - sums**2 / count, 0.0) + 1.0) / count
        step = (np.abs(np.diff(x, axis=0, prepend=x[:1])).cumsum(axis=0) + 1.0) / count
        after = np.stack([np.log(variance) / 2, np.log(step)], axis=-1)  # each row of the series
        found[asked] = after[rows[asked] - first]
    return found


@saved
@dataclass(frozen=True, eq=False)
class ErrorScale:
    """Scale of the errors of forecasts, from the volatility of their series up to the origin.

    Parameters
    ----------
    slopes : float64 ndarray of shape (D, 2)
        Of the logarithm of the scale, in the volatility.
    centre : float64 ndarray of shape (D, 2)
        Volatility at which the scale is 1.
    lowest, highest : float64 ndarray of shape (D, 2)
        Range of the volatility in the backtest; beyond, the scale is held.
    """

    slopes: np.ndarray
    centre: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray

    @classmethod
    def learn(
        cls, volatility: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
    ) -> Self:
        """Learn from errors (M, D), and the volatility (M, D, 2) before them; NaN is ignored.

        For each channel, a Gamma regression with a logarithmic link explains the absolute errors,
        relative to their mean at about the same of their `leads` (M, D). All forecasts of one of
        the `series` (M,) together weigh as much as one, since their errors are alike. The prior
        speaks for slopes of zero.
        """
        slopes, centre, lowest, highest = np.zeros((4, *volatility.shape[1:]))
        every = are_known(leads, errors)
        for j, known in enumerate(every.T):
            if not known.any():
                continue
            own = volatility[known, j]
            lowest[j], highest[j] = own.min(axis=0), own.max(axis=0)
            which, counts = np.unique(series[known], return_inverse=True, return_counts=True)[1:]
            weights = 1 / counts[which]
            centre[j] = weights @ own / weights.sum()
            width = np.sqrt(weights @ (own - centre[j]) ** 2 / weights.sum())
            width = np.where(width > NEGLIGIBLE, width, np.inf)  # where all series are alike
            relative, sizes = np.ones(len(own)), np.abs(errors[known, j])
            for part in equal_bins(leads[known, j]):
                mean = sizes[part].mean()
                if mean > 0:  # the Gamma likelihood takes no zeros
                    least = np.finfo(np.float64).eps
                    relative[part] = np.clip(sizes[part] / mean, least, _SETTINGS.clip)
            model = GammaRegressor(alpha=_SETTINGS.prior / weights.sum(), solver="newton-cholesky")
            with warnings.catch_warnings():  # of the line search, close to the optimum
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit((own - centre[j]) / width, relative, weights)
            slopes[j] = model.coef_ / width
        return cls(slopes, centre, lowest, highest)

    def at(self, volatility: np.ndarray) -> np.ndarray:
        """Scales (..., D), from the volatility (..., D, 2)."""
        inside = np.clip(volatility, self.lowest, self.highest)
        return np.exp((self.slopes * (inside - self.centre)).sum(axis=-1))


def cross_fitted_scales(
    volatility: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
) -> np.ndarray | None:
    """Scales (M, D), each learned from the other folds of series; None of too few series."""
    folds = folds_of(series, N_FOLDS)
    if folds.max(initial=0) < N_FOLDS - 1:
        return None
    scales = np.empty(errors.shape)
    for fold in range(N_FOLDS):
        out = folds == fold
        known = volatility[~out], errors[~out], leads[~out], series[~out]
        scales[out] = ErrorScale.learn(*known).at(volatility[out])
    return scales
