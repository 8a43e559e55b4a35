"""Errors of forecasts: conformal prediction intervals and error paths, from a backtest.

Half widths depend on the lead, the time since the channel was last observed, and on predictors of
the error size. Values are in standard deviations from the mean of their channel.

Half widths show how large errors are at each lead. They do not show how errors at two leads, or of
two channels, are correlated. The highest value of a stretch and the time of a crossing depend on
that. *Error paths*, the errors of all forecasts from one origin, joint in time and across channels,
contain these correlations. They are kept as *scores*. The absolute score is the quantile of an
absolute normal variable at the rank of the absolute error among those with about the same lead; it
has the sign of the error. An error of a given score is as large as the half width of the interval
with that probability.

Forecasts are means, combined linearly. Where values are skewed, as most laboratory values are,
forecasts of low values are mostly too high. Sampled futures are centred on the median error, by
lead and by the forecast itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy.special import erf, ndtri, stdtrit
from sklearn.isotonic import isotonic_regression

from skpolyode.ensemble.backtest import are_known, effective_count, equal_bins, folds_of, nearness
from skpolyode.ensemble.error_scale import ERRORS_A_LEAD, PRIOR, ErrorScale, cross_fitted_scales
from skpolyode.ensemble.member import N_FOLDS
from skpolyode.futures.continued import Ahead
from skpolyode.panel import offsets_from
from skpolyode.saving.codec import check_arrays, saved


@dataclass(frozen=True)
class ConformalSettings:
    """How errors are sorted by lead, and how many of their paths are kept."""

    errors_a_bin: int = 100  # with about the same lead; enough for a quantile of 99 %
    max_bins: int = 40  # of leads
    kept: int = 128  # quantiles stored of the errors in a bin
    gain: float = 0.02  # share by which the median must reduce absolute errors in held-out folds
    max_paths: int = 500
    max_knots: int = 64  # times of a path
    max_cells: int = 2**18  # of all paths: a megabyte in a file
    reached: float = 0.05  # share of the origins that forecast as far as the last knot
    fewest: int = 20  # of these origins; errors that paths are calibrated by
    least_variance: float = 0.05  # of a mean of two scores


SETTINGS = ConformalSettings()
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
        if n > SETTINGS.kept:
            errors = np.quantile(errors, np.linspace(0, 1, SETTINGS.kept))
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


@saved(usual="D")
@dataclass(frozen=True)
class ErrorCentre:
    """Median errors of forecasts, by lead and by forecast value.

    Parameters
    ----------
    usual : tuple of tuple of (float, ndarray of shape (K,), ndarray of shape (K,))
        For each channel, tuples in increasing order of the lead: the lead, forecasts (rising), and
        their median errors. Empty where the median error counts as zero.
    """

    usual: tuple[tuple[tuple[float, np.ndarray, np.ndarray], ...], ...] = ()

    def __post_init__(self) -> None:
        like = {"lead": "unsigned", "forecasts": "K sorted", "errors": "K"}
        for part in (part for bins in self.usual for part in bins):
            check_arrays("ErrorCentre", like, dict(zip(like, part, strict=True)))

    @classmethod
    def learn(
        cls, forecasts: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
    ) -> Self:
        """Learn from forecasts, their errors and leads (M, D), and series (M,); NaN is ignored.

        Medians are shrunk towards zero by a prior worth five series.
        """
        channels = []
        for j, known in enumerate(are_known(leads, errors).T):
            rows, bins = np.flatnonzero(known), []
            for part in equal_bins(leads[rows, j], ERRORS_A_LEAD) if len(rows) else ():
                in_bin = rows[part]
                x, whose = np.stack([forecasts[in_bin, j], errors[in_bin, j]]), series[in_bin]
                cells = equal_bins(x[0])
                middle, median = np.transpose([np.median(x[:, cell], axis=1) for cell in cells])
                n_series = np.array([len(np.unique(whose[cell])) for cell in cells])
                median = median * n_series / (n_series + PRIOR)
                bins.append((float(np.median(leads[in_bin, j])), middle, median))
            channels.append(tuple(bins))
        return cls(tuple(channels))

    def at(self, channel: int, forecasts: np.ndarray, leads: np.ndarray) -> np.ndarray:
        """Median errors (Q,) of forecasts (Q,) of a channel; 0 at leads of zero or infinity.

        Before the first lead of the backtest they shrink linearly.
        """
        bins = self.usual[channel] if self.usual else ()
        if not bins:
            return np.zeros(len(forecasts))
        at = np.array([part[0] for part in bins])
        table = np.stack([np.interp(forecasts, *part[1:]) for part in bins], axis=1)
        median = (nearness(leads, at) * table).sum(axis=1)
        return median * np.where(np.isinf(leads), 0.0, np.minimum(leads / at[0], 1.0))


def centred(
    forecasts: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
) -> tuple[ErrorCentre, np.ndarray]:
    """Median errors, and errors (M, D) minus the medians of the other folds of series.

    The median counts as zero in channels whose errors do not get smaller, or with too few series.
    """
    folds, left, columns = folds_of(series, N_FOLDS), errors.copy(), (forecasts, errors, leads)
    for fold in range(N_FOLDS) if folds.max(initial=0) == N_FOLDS - 1 else ():
        out = folds == fold
        centre = ErrorCentre.learn(*(x[~out] for x in (*columns, series)))
        for j in range(errors.shape[1]):
            left[out, j] -= centre.at(j, forecasts[out, j], leads[out, j])
    sizes = np.where(are_known(leads, errors), np.abs([errors, left]), 0.0).sum(axis=1)
    is_better = sizes[1] < (1 - SETTINGS.gain) * sizes[0]
    every = zip(ErrorCentre.learn(*columns, series).usual, is_better, strict=True)
    centre = ErrorCentre(tuple(bins if better else () for bins, better in every))
    return centre, np.where(is_better, left, errors)


@saved(since="J rising", scores="K J D")
@dataclass(frozen=True, eq=False)
class ErrorPaths:
    """Scores of K error paths at J times since their origins.

    Parameters
    ----------
    since : float64 ndarray of shape (J,)
        Rising; scores are interpolated between, and constant outside.
    scores : float32 ndarray of shape (K, J, D)
        At each time and of each channel, absolute values are those of a normal variable.
    """

    since: np.ndarray
    scores: np.ndarray

    @classmethod
    def learn(
        cls, scores: np.ndarray, since: np.ndarray, origin: np.ndarray, series: np.ndarray
    ) -> Self | None:
        """Learn from the scores (M, D) of forecasts, NaN where not known; None without any.

        Each is of one of the `series` (M,), made a time `since` (M,) its `origin` (M,); rows are
        sorted by origin.
        """
        if not np.isfinite(scores).any():
            return None
        kept = np.isfinite(since)  # from origins after the first observation
        scores, since, origin, series = (x[kept] for x in (scores, since, origin, series))
        counts = np.unique(origin, return_counts=True)[1]
        offsets = offsets_from(counts)
        reach = np.sort(np.maximum.reduceat(since, offsets[:-1]))
        enough = min(len(reach), max(SETTINGS.fewest, round(SETTINGS.reached * len(reach))))
        n_series = len(np.unique(series))
        mirrored = PRIOR / (PRIOR + n_series) / 2  # share of all paths, with the sign reversed
        chosen = _spread(len(counts), round(SETTINGS.max_paths * (1 - mirrored)))
        most = SETTINGS.max_cells // (len(chosen) * scores.shape[1])
        near = np.sort(since[since <= reach[-enough]])
        knots = np.quantile(near, np.linspace(0, 1, min(max(most, 4), SETTINGS.max_knots)))
        knots = np.unique(near[np.searchsorted(near, knots)])
        paths = np.full((len(chosen), len(knots), scores.shape[1]), np.nan)
        for path, k in zip(paths, chosen, strict=True):
            rows = slice(offsets[k], offsets[k + 1])
            for j, column in enumerate(scores[rows].T):
                seen = np.isfinite(column)
                if seen.any():
                    path[:, j] = np.interp(knots, since[rows][seen], column[seen], right=np.nan)
        _continue(paths, np.random.RandomState(0))  # the same backtest gives the same paths
        others = _spread(len(paths), round(len(paths) * mirrored / (1 - mirrored)))
        paths = np.concatenate([paths, -paths[others]])
        return cls(knots, scores_of(paths).astype(np.float32))

    def draw(self, n_samples: int, rng: np.random.RandomState) -> np.ndarray:
        """Positions (n_samples,) of paths; each is drawn once before any is drawn again."""
        n_rounds = -(-n_samples // len(self.scores))
        rounds = [rng.permutation(len(self.scores)) for _ in range(n_rounds)]
        return np.concatenate(rounds)[:n_samples]

    def at(self, since: np.ndarray, drawn: np.ndarray, channel: int) -> np.ndarray:
        """Scores (Q, S) of the drawn paths at times (Q,) since the origin.

        A weighted mean of two correlated scores has a smaller variance than either: it is rescaled.
        """
        before, after, share = between(since, self.since)
        scores = self.scores[..., channel].astype(np.float64)  # (K, J)
        size = np.sqrt((scores**2).mean(axis=0))
        products = (scores[:, :-1] * scores[:, 1:]).mean(axis=0) / (size[:-1] * size[1:])
        correlation = np.append(products, 1.0)[before, None]  # 1 with a single knot
        variance = (1 - share) ** 2 + share**2 + 2 * share * (1 - share) * correlation
        mixed = (1 - share) * scores[drawn][:, before].T + share * scores[drawn][:, after].T
        return mixed / np.sqrt(np.maximum(variance, SETTINGS.least_variance))


def _spread(n: int, most: int) -> np.ndarray:
    """Up to `most` positions among n, evenly spread."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)


def between(
    asked: np.ndarray, knots: np.ndarray | list[float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Knots (Q,) before and after `asked` (Q,), and the weight (Q, 1) of the latter.

    Outside the knots, the nearest one has all weight.
    """
    last = len(knots) - 1
    place = np.interp(asked, knots, np.arange(last + 1))
    before = np.minimum(place.astype(np.int64), max(last - 1, 0))
    return before, np.minimum(before + 1, last), (place - before)[:, None]


def scores_of(errors: np.ndarray) -> np.ndarray:
    """Scores (m, ...) of errors, ranked among the m with about the same lead."""
    ranks = np.abs(errors).argsort(axis=0, kind="stable").argsort(axis=0)
    return np.copysign(ndtri(0.5 + (ranks + 0.5) / (2 * len(errors))), errors)


def _continue(paths: np.ndarray, rng: np.random.RandomState) -> None:
    """Continue paths (K, J, D), NaN where not known, in place, by those that go further.

    Each takes the next score of the path that is nearest to it one knot before. A score missing at
    the first knot is drawn from the other paths. If none has one there, it is drawn from a normal
    distribution.
    """
    known = ~np.isnan(paths)
    for j in range(paths.shape[2]):
        start, seen = paths[:, 0, j], known[:, 0, j]
        missing = np.flatnonzero(~seen)
        pool = start[seen] if seen.any() else rng.standard_normal(len(start))
        start[missing] = rng.choice(pool, len(missing))
    for k in range(1, paths.shape[1]):
        before = paths[:, k - 1]
        for j in np.flatnonzero(~known[:, k].all(axis=0)):
            missing, donors = (np.flatnonzero(known[:, k, j] == x) for x in (False, True))
            if not len(donors):
                paths[missing, k, j] = before[missing, j]
                continue
            there = before[donors]
            distance = (there**2).sum(axis=1) - 2 * before[missing] @ there.T
            paths[missing, k, j] = paths[donors[distance.argmin(axis=1)], k, j]


@saved(errors="D", scale="D", paths="D", centre="D", around="D")
@dataclass(frozen=True)
class Calibration:
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
        predictors: np.ndarray | None = None,
        origin: np.ndarray | None = None,
        forecasts: np.ndarray | None = None,
    ) -> Self:
        """Learn from the errors of M forecasts, arrays (M, D); NaN is ignored.

        Errors are multiples of their expected size. Forecasts are of `series` (M,) at `times` (M,);
        None if each is of a different series. With `predictors` (M, D, S) of the error size, half
        widths depend on these. With the `origin` (M,) of each, errors are kept as paths, too. With
        `forecasts` (M, D), samples are centred on the median error. A channel without any errors
        gets a single one of 1, the expected size.
        """
        if series is None or times is None:
            series, times = np.arange(len(leads)), np.zeros(len(leads))
        if forecasts is not None:
            centre, missed = centred(forecasts, wrong, leads, series)
            about = series, times, predictors
            if not any(centre.usual):
                return cls.learn(leads, wrong, *about, origin)
            around = replace(cls.learn(leads, missed, *about, origin), centre=centre)
            found = replace(cls.learn(leads, wrong, *about), paths=around.paths)
            return replace(found, around=replace(around, paths=None))
        scale = None
        if predictors is not None:
            scales = cross_fitted_scales(predictors, wrong, leads, series)
            if scales is not None:
                scale = ErrorScale.learn(predictors, wrong, leads, series)
                wrong = wrong / scales
        errors, known, scores = [], are_known(leads, wrong), np.full(wrong.shape, np.nan)
        for j, rows in enumerate(known.T):
            rows, lead, bins = np.flatnonzero(rows), leads[:, j], []
            for part in equal_bins(lead[rows], SETTINGS.errors_a_bin, SETTINGS.max_bins):
                if len(part):
                    in_bin = rows[part]
                    middle = float(np.median(lead[in_bin]))
                    n_independent = effective_count(series[in_bin], times[in_bin], middle)
                    bins.append(_Errors.of(middle, wrong[in_bin, j], n_independent))
                    scores[in_bin, j] = scores_of(wrong[in_bin, j])
            errors.append(tuple(bins) or (_Errors.of(0.0, np.ones(1), np.inf),))
        if scale is not None:
            widths = cls(tuple(errors)).half_widths(leads, scale.widened_at)
            scale = scale.widened(wrong, widths, predictors, leads, series)
        paths = None
        if origin is not None:
            paths = ErrorPaths.learn(scores, leads.min(axis=1), origin, series)
        return cls(tuple(errors), scale, paths)

    def half_widths(
        self, leads: np.ndarray, level: float, predictors: np.ndarray | None = None
    ) -> np.ndarray:
        """Half widths (Q, D) of the central intervals of probability `level` at leads (Q, D).

        They are multiples of the expected error, and never fall with the lead: quantiles of
        neighbouring bins are pooled where they would. The scale is 1 without `predictors` (Q, D, S)
        of it. Before the first time of the error paths, half widths shrink towards zero.
        """
        widths = np.empty(leads.shape)
        for j, bins in enumerate(self.errors):
            rising = self._rising(j, level)
            widths[:, j] = np.interp(leads[:, j], [part.lead for part in bins], rising)
        widths *= self._growth(leads)
        if self.scale is None or predictors is None:
            return widths
        return widths * self.scale.at(predictors, leads)

    def _growth(self, leads: np.ndarray) -> np.ndarray | float:
        """Factor of errors at leads: that of a random walk up to the first time of the paths."""
        return 1.0 if self.paths is None else np.sqrt(np.minimum(leads / self.paths.since[0], 1.0))

    def quantile(self, ahead: Ahead, alpha: float) -> np.ndarray:
        """Quantile (Q, D) of future values, in standard deviations."""
        widths = self.half_widths(ahead.leads, abs(2 * alpha - 1), ahead.predictors)
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
        # Probabilities of the intervals whose half widths are the errors with these scores.
        levels, channels = erf(_SCORES / np.sqrt(2)), range(len(self.errors))
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
            size = size * around.scale.at(ahead.predictors, ahead.leads)[:, channel]
        centre = values + expected * around.centre.at(channel, values, leads)
        return centre[:, None] + size[:, None] * errors
