"""Conformal prediction intervals of forecasts, from the errors of a backtest.

Half widths depend on the lead, the time since the channel was last observed, and on predictors of
the error size (`signs`). Values are in standard deviations from the mean of their channel.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy.special import stdtrit
from sklearn.isotonic import isotonic_regression

from skpolyode.ensemble.backtest import are_known, effective_count, equal_bins
from skpolyode.ensemble.error_centre import ErrorCentre, centred
from skpolyode.ensemble.error_paths import ErrorPaths, between, levels_of, scores_of
from skpolyode.ensemble.error_scale import ErrorScale, FollowsSpread, cross_fitted_scales
from skpolyode.futures.continued import Ahead
from skpolyode.saving.codec import saved


@dataclass(frozen=True)
class ConformalSettings:
    """How errors are sorted by lead."""

    errors_a_bin: int = 100  # with about the same lead; enough for a quantile of 99 %
    max_bins: int = 40  # of leads
    kept: int = 128  # quantiles stored of the errors in a bin


_SETTINGS = ConformalSettings()
_SCORES = np.linspace(0.0, 3.5, 71)  # at which half widths are tabulated, to sample errors


@saved(
    lead="unsigned inf",
    errors="N sorted unsigned",
    n_errors="unsigned",
    n_independent="unsigned inf",
)
@dataclass(frozen=True)
class _Errors:
    """Absolute errors of one channel's forecasts with about the same lead."""

    lead: float
    errors: np.ndarray  # sorted; quantiles of them if there are many
    n_errors: int
    n_independent: float  # number of forecasts that do not overlap

    @classmethod
    def of(cls, lead: float, errors: np.ndarray, n_independent: float) -> Self:
        """From errors (n,) in any order."""
        errors, n = np.sort(np.abs(errors)), len(errors)
        if n > _SETTINGS.kept:
            errors = np.quantile(errors, np.linspace(0, 1, _SETTINGS.kept))
        return cls(lead, errors, n, n_independent)

    def quantile(self, level: float) -> float:
        """Conformal quantile: the ceil((n + 1) level)-th smallest error, or the largest.

        It is multiplied by the ratio of Student's t quantiles with `n_independent` and `n_errors`
        degrees of freedom, since few independent errors leave their scale uncertain.
        """
        n, last = self.n_errors, len(self.errors) - 1
        rank = min(max(np.ceil((n + 1) * level) - 1, 0), n - 1)
        quantile = float(np.interp(rank * last / max(n - 1, 1), np.arange(last + 1), self.errors))
        if self.n_independent >= n or level <= 0:
            return quantile
        few, all_of_them = stdtrit([self.n_independent, n], (1 + level) / 2)
        return quantile * float(few / all_of_them)


@saved(errors="D", scale="D", paths="D", centre="D", around="D")
@dataclass(frozen=True)
class Calibration(FollowsSpread):
    """Half widths of prediction intervals, by channel and lead.

    Intervals are split conformal. The errors are those of forecasts of data that did not train the
    model. If each came from a different series, they would be exchangeable with future errors, and
    an interval at `level` would cover that share of them, whatever their distribution. Forecasts of
    one series that overlap in time share their errors: the fewer forecasts do not overlap, the
    wider the interval. Beyond the longest lead of the backtest, widths are constant.

    Errors are divided by the expected scale of each series, and half widths are multiplied by it:
    locally adaptive conformal prediction (Lei et al., "Distribution-free predictive inference for
    regression", JASA 2018, section 5.2). The scale of a series is learned from other series.

    Parameters
    ----------
    errors : tuple of tuple of _Errors
        For each channel, in increasing order of the lead.
    scale : ErrorScale or None, default=None
        Expected scale of the errors of a series; None if it is 1, as with few series.
    paths : ErrorPaths or None, default=None
        Paths of the same errors; None if their origins are not known.
    centre : ErrorCentre, default=ErrorCentre()
        Median error that was subtracted from these errors; zero by default.
    around : Calibration or None, default=None
        Calibration of the errors minus their median, to draw samples; None if the median is zero.
        Samples improve by it; symmetric intervals of skewed values do not.
    """

    errors: tuple[tuple[_Errors, ...], ...]
    scale: ErrorScale | None = None
    paths: ErrorPaths | None = None
    centre: ErrorCentre = field(default_factory=ErrorCentre)
    around: Calibration | None = None

    @classmethod
    def learn(
        cls,
        leads: np.ndarray,
        wrong: np.ndarray,
        series: np.ndarray | None = None,
        times: np.ndarray | None = None,
        signs: np.ndarray | None = None,
        origin: np.ndarray | None = None,
        forecasts: np.ndarray | None = None,
    ) -> Self:
        """Learn from the errors of M forecasts, arrays (M, D); NaN is ignored.

        Errors are multiples of their expected size. Forecasts are of `series` (M,) at `times` (M,);
        None if each is of a different series. With `signs` (M, D, S), half widths depend on these
        predictors. With the `origin` (M,) of each, errors are kept as paths, too. With `forecasts`
        (M, D), samples are centred on the median error. A channel without any errors gets a single
        one of 1, the expected size.
        """
        if series is None or times is None:
            series, times = np.arange(len(leads)), np.zeros(len(leads))
        if forecasts is not None:
            centre, missed = centred(forecasts, wrong, leads, series)
            about = series, times, signs
            if not any(centre.usual):
                return cls.learn(leads, wrong, *about, origin)
            around = replace(cls.learn(leads, missed, *about, origin), centre=centre)
            found = replace(cls.learn(leads, wrong, *about), paths=around.paths)
            return replace(found, around=replace(around, paths=None))
        scale = None
        if signs is not None:
            scales = cross_fitted_scales(signs, wrong, leads, series)
            if scales is not None:
                scale = ErrorScale.learn(signs, wrong, leads, series)
                wrong = wrong / scales
        errors, known, scores = [], are_known(leads, wrong), np.full(wrong.shape, np.nan)
        for j, rows in enumerate(known.T):
            rows, lead, bins = np.flatnonzero(rows), leads[:, j], []
            for part in equal_bins(lead[rows], _SETTINGS.errors_a_bin, _SETTINGS.max_bins):
                if len(part):
                    in_bin = rows[part]
                    middle = float(np.median(lead[in_bin]))
                    n_independent = effective_count(series[in_bin], times[in_bin], middle)
                    bins.append(_Errors.of(middle, wrong[in_bin, j], n_independent))
                    scores[in_bin, j] = scores_of(wrong[in_bin, j])
            errors.append(tuple(bins) or (_Errors.of(0.0, np.ones(1), np.inf),))
        paths = None
        if origin is not None:
            paths = ErrorPaths.learn(scores, leads.min(axis=1), origin, series)
        return cls(tuple(errors), scale, paths)

    def half_widths(
        self, leads: np.ndarray, level: float, signs: np.ndarray | None = None
    ) -> np.ndarray:
        """Half widths (Q, D) of the central intervals of probability `level` at leads (Q, D).

        They are multiples of the expected error, and never fall with the lead: quantiles of
        neighbouring bins are pooled where they would. The scale is 1 without the predictors `signs`
        (Q, D, S). Before the first time of the error paths, half widths shrink towards zero.
        """
        widths = np.empty(leads.shape)
        for j, bins in enumerate(self.errors):
            rising = self._rising(j, level)
            widths[:, j] = np.interp(leads[:, j], [part.lead for part in bins], rising)
        widths *= self._growth(leads)
        if self.scale is None or signs is None:
            return widths
        return widths * self.scale.at(signs)

    def _growth(self, leads: np.ndarray) -> np.ndarray | float:
        """Factor of errors at leads: that of a random walk up to the first time of the paths."""
        return 1.0 if self.paths is None else np.sqrt(np.minimum(leads / self.paths.since[0], 1.0))

    def quantile(self, ahead: Ahead, alpha: float) -> np.ndarray:
        """Quantile (Q, D) of future values, in standard deviations."""
        widths = self.half_widths(ahead.leads, abs(2 * alpha - 1), ahead.signs)
        return ahead.values + np.sign(alpha - 0.5) * ahead.expected * widths

    def _rising(self, channel: int, level: float) -> np.ndarray:
        """Half widths (n_bins,) of one channel at the leads of its bins."""
        bins = self.errors[channel]
        rising = np.array([part.quantile(level) for part in bins])
        if any(a >= b for a, b in pairwise(rising)):
            counts = [float(part.n_errors) for part in bins]
            rising = isotonic_regression(rising, sample_weight=counts)
        return rising

    def draw(self, n_samples: int, rng: np.random.RandomState) -> np.ndarray | None:
        """Positions (n_samples,) of randomly drawn error paths; None without paths."""
        return None if self.paths is None else self.paths.draw(n_samples, rng)

    def known_between(self) -> tuple[float, float]:
        """First and last time of the error paths since their origin; (0, inf) without paths."""
        if self.paths is None:
            return 0.0, np.inf
        return float(self.paths.since[0]), float(self.paths.since[-1])

    def n_independent(self, leads: np.ndarray, channel: int) -> np.ndarray:
        """Number (n,) of non-overlapping errors of a channel at leads (n,); 0 without errors."""
        known = np.array([(part.lead, part.n_independent) for part in self.errors[channel]])
        return np.interp(leads, known[:, 0], np.where(np.isinf(known[:, 1]), 0.0, known[:, 1]))

    @cached_property
    def _table(self) -> list[np.ndarray]:
        """Half widths (n_bins, n_scores) of each channel, to look samples up in."""
        levels, channels = levels_of(_SCORES), range(len(self.errors))
        return [np.stack([self._rising(j, x) for x in levels], axis=1) for j in channels]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the cached table."""
        return {name: value for name, value in vars(self).items() if name != "_table"}

    def sample(self, ahead: Ahead, drawn: np.ndarray, channel: int) -> np.ndarray:
        """Values (Q, S) of one channel, in standard deviations, on S drawn error paths.

        Each interval contains the share of them that its level states. Before the first time of the
        backtest's forecasts, errors shrink as those of a random walk, to zero where a channel was
        observed.
        """
        leads, around = ahead.leads[:, channel], self.around or self
        scores = self.paths.at(ahead.leads.min(axis=1), drawn, channel)
        rising = around._table[channel]
        low, high, share = between(leads, [part.lead for part in around.errors[channel]])
        table = (1 - share) * rising[low] + share * rising[high]  # (Q, n_scores)
        place = np.minimum(np.abs(scores) / _SCORES[1], len(_SCORES) - 1.001)
        low = place.astype(np.int64)
        ends = [np.take_along_axis(table, low + k, axis=1) for k in (0, 1)]
        errors = np.copysign(ends[0] + (place - low) * (ends[1] - ends[0]), scores)
        values, expected = ahead.values[:, channel], ahead.expected[:, channel]
        size = expected * self._growth(leads)
        if around.scale is not None:
            size = size * around.scale.at(ahead.signs)[:, channel]
        centre = values + expected * around.centre.at(channel, values, leads)
        return centre[:, None] + size[:, None] * errors
