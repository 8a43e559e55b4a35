"""Mixed-effects forecasts: each series has its own level and slope, partially pooled.

This is the linear mixed model of longitudinal data with serial correlation (Laird and Ware,
"Random-effects models for longitudinal data", Biometrics 1982; Diggle, "An approach to the analysis
of repeated measurements", Biometrics 1988). For one channel of a series,

    y(t) = f(t) + b0 + b1 t + s(t) + u(t) + e

with a population curve f, a random level and slope (b0, b1), random harmonics s of each season, an
Ornstein-Uhlenbeck process u, and white noise e. Forecasts are the best linear unbiased predictions.
Values are in standard deviations from the mean of their channel, times in typical gaps since the
start of the series.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import torch
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize

from skpolyode.ensemble.member import Asked, Lesson, Member
from skpolyode.ensemble.periods import MAX_HARMONICS, Seasons, harmonics_of
from skpolyode.panel import series_index
from skpolyode.panel.units import Standardised
from skpolyode.saving.codec import saved


@dataclass(frozen=True)
class MixedSettings:
    """Limits of the estimation, and weak priors that regularise it with few data."""

    n_knots: tuple[int, ...] = (2, 4, 8)  # of the population curve; the likelihood decides
    looks_ahead: tuple[float, ...] = (0.1, 0.2, 0.3)  # shares of its span, to see if slopes last
    n_looks: int = 33  # times from which its slopes are compared with the later rise
    max_rows: int = 48  # last observations of a series that the variances are estimated from
    most_rows: int = 192  # the same for few series, and for seasons
    seasons_to_see: float = 2.5  # periods that these observations should span
    max_work: float = 1e5  # of one evaluation: series times rows squared
    # Of the k-th shared harmonic of a season it is 1 / k.
    curve_prior: float = 3.0  # standard deviation of the population curve at its knots
    prior: float = 2.0  # standard deviation of the logarithms of standard deviations
    furthest: float = 4.0  # such deviations from typical values; covariances stay solvable
    least_gain: float = 0.02  # nats a value for each season, as all forecasts carry its states
    typical: tuple[float, ...] = (0.5, 0.3, 0.5, 0.3)  # level, slope over a span, serial, noise
    typical_memory: float = 8.0  # typical gaps, of the serial correlation
    longest_memory: float = 300.0  # typical gaps; a longer one is a random walk
    n_steps: int = 40  # of the optimiser, at most
    tolerance: float = 1e-5  # it stops if a step gains less than this share of the loss


SETTINGS = MixedSettings()


@saved(
    knots="K rising",
    span="positive",
    theta="D M",
    curve="D K+H",
    prior="D P P",
    memory="D inf",
    noise="D unsigned",
)
@dataclass(frozen=True, eq=False)
class MixedEffects(Member):
    """A linear mixed model of each channel, with serial correlation.

    Parameters
    ----------
    knots : float64 ndarray of shape (K,)
        Knots of the population curve, rising; it is a natural cubic spline.
    span : float
        The unit of time of the random slope.
    periods : tuple of float
        Lengths of the seasons.
    n_harmonics : tuple of int
        Number of harmonics of each season that all series share.
    theta : float64 ndarray of shape (D, m)
        Parameters of the variances, as in `RestrictedLikelihood`.
    curve : float64 ndarray of shape (D, K + 2 H)
        Population curve at its knots, and coefficients of the shared harmonics.
    prior : float64 ndarray of shape (D, p, p)
        Covariance between series of level, slope and harmonics, then of the serial part.
    memory : float64 ndarray of shape (D,)
        Time after which the serial correlation has fallen to 1/e.
    noise : float64 ndarray of shape (D,)
        Variance of the noise.
    """

    knots: np.ndarray
    span: float
    periods: tuple[float, ...]
    n_harmonics: tuple[int, ...]
    theta: np.ndarray
    curve: np.ndarray
    prior: np.ndarray
    memory: np.ndarray
    noise: np.ndarray

    @classmethod
    def learn(cls, lesson: Lesson) -> list[Self]:
        """Learn variances from all series, and population curves from all and without each fold."""
        rows, n_folds = lesson.sample.whole_series, lesson.sample.n_folds
        whole = cls.estimate(rows, lesson.seasons)
        return [whole, *(whole.without_folds(rows, n_folds) if n_folds > 1 else [whole])]

    @classmethod
    def estimate(cls, rows: Standardised, seasons: Seasons) -> Self:
        """Estimate all variances of each channel by restricted maximum likelihood (REML).

        The likelihood selects the knots under the first seasons, then the seasons.
        """
        times, values, offsets, _ = rows
        shortest = SETTINGS.seasons_to_see * max(max(one, default=0.0) for one in seasons)
        channels = [grouped(times, x, offsets, shortest) for x in values.T]
        n_cells = sum(data.known.sum() for data in channels)
        span = float(np.median(times[offsets[1:] - 1])) if len(times) else 0.0

        all_knots = (_knots(times, n) for n in SETTINGS.n_knots)
        curves = [*{len(knots): knots for knots in all_knots}.values()]
        models: list[Self] = []
        losses: list[float] = []
        for periods in seasons:
            for knots in curves:
                like = models[int(np.argmin(losses))] if models else None
                models.append(cls._blank(knots, periods, span or 1.0, len(channels)))
                loss = sum(models[-1]._estimate(j, data, like) for j, data in enumerate(channels))
                losses.append(loss + SETTINGS.least_gain * n_cells * len(periods))
            curves = [models[int(np.argmin(losses))].knots]
        return models[int(np.argmin(losses))]

    def without_folds(self, rows: Standardised, n_folds: int) -> list[Self]:
        """Models with the same variances, and population curves learned without each fold.

        Series k is in fold k modulo `n_folds`.
        """
        curves = np.empty((n_folds, *self.curve.shape))
        for j, x in enumerate(rows.values.T):
            fit = self._likelihood(grouped(rows.times, x, rows.offsets))
            curves[:, j] = fit.curves(self.theta[j], n_folds)
        return [replace(self, curve=curve) for curve in curves]

    @classmethod
    def _blank(
        cls, knots: np.ndarray, periods: tuple[float, ...], span: float, n_channels: int
    ) -> Self:
        """A model before estimation: values are noise of variance 1."""
        n_harmonics = harmonics_of(periods)
        curve = np.zeros((n_channels, len(knots) + 2 * sum(n_harmonics)))
        theta, ones = np.zeros((n_channels, 6 + len(periods))), np.ones((2, n_channels))
        p = 3 + 2 * sum(_random_harmonics(n_harmonics))
        prior = np.zeros((n_channels, p, p))
        return cls(knots, span, periods, n_harmonics, theta, curve, prior, *ones)

    def _likelihood(self, data: Grouped) -> RestrictedLikelihood:
        effects = self.random(data.times)[..., :-1]
        turns = [k for n in self.n_harmonics for k in range(1, n + 1)]
        waves = 1 / np.repeat(turns, 2)
        spread = np.concatenate([np.full(len(self.knots), SETTINGS.curve_prior), waves])
        design = self.fixed(data.times), effects, _random_harmonics(self.n_harmonics)
        return RestrictedLikelihood(data, *design, spread)

    def _estimate(self, channel: int, data: Grouped, like: MixedEffects | None) -> float:
        """Write the estimates of one channel; return its negative log likelihood.

        The search starts from the parameters of the model `like`, if there is one.
        """
        if not data.known.any():
            return 0.0
        fit = self._likelihood(data)
        start = fit.typical if like is None else like.theta[channel]
        if new := len(fit.typical) - len(start):  # seasons
            start = np.concatenate([start[:-3], fit.typical[-3 - new : -3], start[-3:]])
        options = {"maxiter": SETTINGS.n_steps, "ftol": SETTINGS.tolerance}
        reach = SETTINGS.furthest * SETTINGS.prior
        search = {"method": "L-BFGS-B", "bounds": [(x - reach, x + reach) for x in fit.typical]}
        found = minimize(fit.loss, start, jac=True, **search, options=options)
        self.theta[channel], self.curve[channel] = found.x, fit.curve(found.x)
        self.prior[channel], self.memory[channel], self.noise[channel] = fit.parts(found.x)[:3]
        return float(found.fun)

    def fixed(
        self, times: np.ndarray, trend: np.ndarray | None = None, lasting: np.ndarray | float = 1.0
    ) -> np.ndarray:
        """Population functions (..., K + 2 H) at `times`: a natural cubic spline, and harmonics.

        With `trend` (...) the spline is evaluated at these times instead. Beyond the outer knots it
        is a straight line, whose slope is damped by the factor `lasting` (...).
        """
        seasons = self._harmonics(times, self.n_harmonics)
        times = times if trend is None else trend
        inside = np.clip(times, self.knots[0], self.knots[-1])
        values, slopes = (np.moveaxis(f(inside), -1, 0) for f in self._spline)
        columns = values + lasting * (times - inside) * slopes
        return np.stack([*columns, *seasons], axis=-1)

    @cached_property
    def _spline(self) -> tuple[Callable[[np.ndarray], np.ndarray], ...]:
        """Cubic basis splines that are 1 at one knot and 0 at the others, and their slopes."""
        spline = CubicSpline(self.knots, np.eye(len(self.knots)), bc_type="natural")
        return spline, spline.derivative()

    @cached_property
    def _lasting(self) -> np.ndarray:
        """Factors (D,) by which the slopes of the population curves are damped beyond the knots.

        Each is the regression coefficient of the later rise on the slope, between the knots: 1 for
        a straight line, less for swings that a few series happen to share.
        """
        (first, last), curve = self.knots[[0, -1]], self.curve[:, : len(self.knots)].T
        reach = (last - first) * np.array(SETTINGS.looks_ahead)[:, None]
        start = first + np.linspace(0, 1, SETTINGS.n_looks) * (last - first - reach)
        (value, slope), later = (f(start) @ curve for f in self._spline), start + reach
        rise = (self._spline[0](later) @ curve - value) / reach[..., None]
        product, square = (rise * slope).sum(axis=(0, 1)), (slope**2).sum(axis=(0, 1))
        share = np.divide(product, square, out=np.ones_like(product), where=square > 0)
        return np.clip(share, 0.0, 1.0)

    def random(self, times: np.ndarray, trend: np.ndarray | None = None) -> np.ndarray:
        """Design (..., p) of the random effects at `times`: level, slope, harmonics, serial part.

        With `trend` (...) the slope is evaluated at these times instead.
        """
        one, rise = np.ones_like(times), (times if trend is None else trend) / self.span
        seasons = self._harmonics(times, _random_harmonics(self.n_harmonics))
        return np.stack([one, rise, *seasons, one], axis=-1)

    def _harmonics(self, times: np.ndarray, n_harmonics: tuple[int, ...]) -> list[np.ndarray]:
        seasons = zip(self.periods, n_harmonics, strict=True)
        turns = [times / period * k for period, n in seasons for k in range(1, n + 1)]
        return [wave(2 * np.pi * turn) for turn in turns for wave in (np.cos, np.sin)]

    def start(self, *shape: int) -> np.ndarray:
        """State (..., D, S) of channels (..., D) before their first observation.

        It holds the last time, the means and the covariances.
        """
        p = self.prior.shape[-1]
        known = np.zeros((*shape, 1 + p + p * p))
        known[..., 1 + p :] = self.prior.reshape(len(self.prior), -1)
        return known

    def updated(self, known: np.ndarray, rows: Standardised) -> np.ndarray:
        """State (n, D, S) after one more row of each series (Kalman filter)."""
        known, (row, channel) = known.copy(), np.nonzero(~np.isnan(rows.values))
        times = rows.times[row]
        state, seen = (known[row, channel], times, channel), self.random(times)
        mean, covariance = self._means_at(*state), self._covariances_at(*state)
        part = np.einsum("npq,nq->np", covariance, seen)
        expected = np.einsum("np,np->n", part, seen) + self.noise[channel]
        residual = rows.values[row, channel] - self._population(times, channel)
        error = residual - np.einsum("np,np->n", mean, seen)
        gain = part / expected[:, None]
        mean += gain * error[:, None]
        covariance -= gain[:, :, None] * part[:, None, :]
        covariance = covariance.reshape(-1, covariance.shape[1] ** 2)
        known[row, channel] = np.concatenate([times[:, None], mean, covariance], axis=1)
        return known

    def _means_at(
        self, known: np.ndarray, times: np.ndarray, channel: np.ndarray | int
    ) -> np.ndarray:
        """Means (n, p) at later `times`, from states `known` (n, S).

        The serial part decays towards zero.
        """
        mean = known[:, 1 : 1 + self.prior.shape[-1]].copy()
        mean[:, -1] *= self._kept(known, times, channel)
        return mean

    def _covariances_at(
        self, known: np.ndarray, times: np.ndarray, channel: np.ndarray | int
    ) -> np.ndarray:
        """Covariances (n, p, p) at later `times`, from states `known` (n, S)."""
        p, kept = self.prior.shape[-1], self._kept(known, times, channel)
        covariance = known[:, 1 + p :].reshape(-1, p, p).copy()
        covariance[:, -1] *= kept[:, None]
        covariance[:, :, -1] *= kept[:, None]
        covariance[:, -1, -1] += (1 - kept**2) * self.prior[channel, -1, -1]
        return covariance

    def _kept(self, known: np.ndarray, times: np.ndarray, channel: np.ndarray | int) -> np.ndarray:
        """Autocorrelation (n,) of the serial part until later `times`."""
        return np.exp(-np.maximum(times - known[:, 0], 0.0) / self.memory[channel])

    def _population(
        self, times: np.ndarray, channel: np.ndarray | int, trend: np.ndarray | None = None
    ) -> np.ndarray:
        functions = self.fixed(times, trend, self._lasting[channel])
        return (functions * self.curve[channel]).sum(axis=-1)

    def forecast(self, known: np.ndarray, asked: Asked) -> np.ndarray:
        """Means (n, D); trends of observed channels end after the longest lead of training.

        Before the first observation of a channel these are the means of all series. Seasons go on.
        """
        flat, when, trend, channel = self._each(known, asked)
        mean, seen = self._means_at(flat, when, channel), self.random(when, trend)
        value = self._population(when, channel, trend) + np.einsum("np,np->n", mean, seen)
        return value.reshape(known.shape[:2])

    def errors(self, known: np.ndarray, asked: Asked) -> np.ndarray:
        """Standard deviations (n, D) of future values."""
        flat, when, trend, channel = self._each(known, asked)
        seen, covariance = self.random(when, trend), self._covariances_at(flat, when, channel)
        spread = np.einsum("np,npq,nq->n", seen, covariance, seen) + self.noise[channel]
        return np.sqrt(np.maximum(spread, 0.0)).reshape(known.shape[:2])

    @staticmethod
    def _each(known: np.ndarray, asked: Asked) -> tuple[np.ndarray, ...]:
        """Flatten series and channels: states (n D, S), times, times of trends, channels (n D,)."""
        n, n_channels = known.shape[:2]
        flat, when = known.reshape(n * n_channels, -1), np.repeat(asked.elapsed, n_channels)
        lasting = np.where(asked.records.n_values > 0, asked.longest, np.inf).ravel()
        trend = np.minimum(when, flat[:, 0] + lasting)
        return flat, when, trend, np.tile(np.arange(n_channels), n)


def _random_harmonics(n_harmonics: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of harmonics that differ between series, limited as their states take memory."""
    return tuple(min(n, MAX_HARMONICS) for n in n_harmonics)


def _knots(times: np.ndarray, most: int) -> np.ndarray:
    """At least two and up to `most` knots of the population curve, at quantiles of the times."""
    knots = np.unique(np.quantile(times, np.linspace(0, 1, most))) if len(times) else times
    return knots if len(knots) > 1 else np.array([0.0, 1.0])


class Grouped(NamedTuple):
    """Observations of one channel of S series, padded to n rows."""

    times: np.ndarray  # (S, n)
    values: np.ndarray  # (S, n), 0 where padded
    known: np.ndarray  # bool (S, n)
    series: np.ndarray  # int64 (S,): which series these are


def grouped(
    times: np.ndarray, values: np.ndarray, offsets: np.ndarray, shortest: float = 0.0
) -> Grouped:
    """The last observations of a channel, of evenly chosen series if there are many.

    They span at least `shortest` rows, if a series is that long. If there are very many, the older
    ones are thinned at random, as a regular thinning would hide periods.
    """
    observed = ~np.isnan(values)
    series = series_index(offsets)[observed]
    counts = np.bincount(series, minlength=len(offsets) - 1)
    ends = np.cumsum(counts)
    chosen = np.flatnonzero(counts)
    longest = np.sqrt(SETTINGS.max_work / max(len(chosen), 1))
    longest = max(np.clip(longest, SETTINGS.max_rows, SETTINGS.most_rows), shortest)
    n = int(np.clip(counts.max(initial=0), 1, np.ceil(longest)))
    back = np.arange(n, 0, -1)
    if n > SETTINGS.most_rows:
        half = SETTINGS.most_rows // 2
        older = np.random.default_rng(0).choice(n - half, half, replace=False)
        back = np.concatenate([back[np.sort(older)], back[-half:]])
    most = int(max(SETTINGS.max_work / len(back) ** 2, 4))
    if len(chosen) > most:
        chosen = chosen[np.linspace(0, len(chosen) - 1, most).round().astype(np.int64)]
    place = ends[chosen, None] - back
    known = place >= (ends - counts)[chosen, None]
    place = np.where(known, place, 0)
    t, x = times[observed], values[observed]
    return Grouped(np.where(known, t[place], 0.0), np.where(known, x[place], 0.0), known, chosen)


class RestrictedLikelihood:
    """The restricted likelihood of one channel, in the logarithms of its standard deviations.

    The parameters are a Cholesky factor of the covariance of level and slope (logarithms of its
    diagonal), then logarithms of the standard deviations of the harmonics of each season, of the
    serial part, of its memory, and of the noise.

    Parameters
    ----------
    data : Grouped
    fixed : float64 ndarray of shape (S, n, K)
        Population functions at the times of the data.
    random : float64 ndarray of shape (S, n, p - 1)
        Design of the random level, slope and harmonics.
    n_harmonics : tuple of int
        Number of random harmonics of each season.
    spread : float64 ndarray of shape (K,)
        Prior standard deviations of the coefficients of the population functions.
    """

    def __init__(
        self,
        data: Grouped,
        fixed: np.ndarray,
        random: np.ndarray,
        n_harmonics: tuple[int, ...],
        spread: np.ndarray,
    ) -> None:
        self.data, self.spread = data, spread
        self.season = np.repeat(np.arange(len(n_harmonics)), 2 * np.array(n_harmonics, dtype=int))
        known = data.known[..., None]
        self.x, self.z = np.where(known, fixed, 0.0), np.where(known, random, 0.0)
        self.lag = np.abs(data.times[:, :, None] - data.times[:, None])
        both = data.known[:, :, None] & data.known[:, None]
        self.known_lag = np.where(both, self.lag, np.inf)
        # The order of the products in `loss`, which takes longer to find than to follow.
        like = self.z, self.lag, self.z
        self._order = np.einsum_path("snp,snm,smq->pq", *like, optimize=True)[0]
        level, slope, serial, noise = np.log(SETTINGS.typical)
        seasons, memory = [level] * len(n_harmonics), np.log(SETTINGS.typical_memory)
        self.typical = np.array([level, 0.0, slope, *seasons, serial, memory, noise])

    def parts(self, theta: np.ndarray) -> tuple[np.ndarray, float, float, np.ndarray]:
        """Covariance (p, p) of the effects, memory, variance of the noise, Cholesky factor."""
        root = np.diag(np.exp(theta[[0, 2]]))
        root[1, 0] = theta[1]
        prior = np.diag(np.exp(2 * np.array([0, 0, *theta[3:-3][self.season], theta[-3]])))
        prior[:2, :2] = root @ root.T
        memory = min(float(np.exp(theta[-2])), SETTINGS.longest_memory)
        return prior, memory, float(np.exp(2 * theta[-1])), root

    def _solve(self, theta: np.ndarray) -> tuple[np.ndarray, ...]:
        """Terms of the likelihood, and the curve."""
        prior, memory, noise, _ = self.parts(theta)
        decay = np.exp(self.known_lag / -memory)
        v = self.z @ prior[:-1, :-1] @ self.z.swapaxes(1, 2)
        v += prior[-1, -1] * decay
        place = np.arange(v.shape[1])
        v[:, place, place] += np.where(self.data.known, noise, 1.0)
        factor, failed = torch.linalg.cholesky_ex(torch.from_numpy(v))
        if failed.any():  # by rounding
            inverse, log_det = np.linalg.inv(v), np.linalg.slogdet(v)[1].sum()
        else:  # three times as fast
            inverse = torch.cholesky_inverse(factor).numpy()
            log_det = 2 * factor.diagonal(dim1=1, dim2=2).log().sum().item()
        vx = inverse @ self.x
        gram = np.einsum("snk,snl->kl", self.x, vx)
        gram += np.diag(1 / self.spread**2)
        curve = np.linalg.solve(gram, np.einsum("snk,sn->k", vx, self.data.values))
        return decay, inverse, log_det, vx, gram, curve

    def curve(self, theta: np.ndarray) -> np.ndarray:
        """Coefficients (K,) of the population functions, by generalised least squares."""
        return self._solve(theta)[-1]

    def curves(self, theta: np.ndarray, n_folds: int) -> np.ndarray:
        """The same without each fold of series, (n_folds, K)."""
        vx, gram, curve = self._solve(theta)[-3:]
        found = np.empty((n_folds, len(curve)))
        for k in range(n_folds):
            out = self.data.series % n_folds == k
            less = np.einsum("snk,snl->kl", self.x[out], vx[out])
            total = gram @ curve - np.einsum("snk,sn->k", vx[out], self.data.values[out])
            found[k] = np.linalg.solve(gram - less, total)
        return found

    def loss(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Negative restricted log likelihood with the prior, and its gradient."""
        prior, memory, noise, root = self.parts(theta)
        decay, inverse, log_det, vx, gram, curve = self._solve(theta)
        residual = self.data.values - self.x @ curve
        a = np.einsum("snm,sm->sn", inverse, residual)
        value = log_det + (a * residual).sum() + np.linalg.slogdet(gram)[1]
        value += ((curve / self.spread) ** 2).sum()
        value += 2 * np.log(self.spread).sum()  # normalisation of the prior
        # Half the derivative of all three in the covariances V of each series. These are the
        # largest arrays of a fit's stacking, so as few as possible are allocated.
        slope = a[:, :, None] * a[:, None]
        np.subtract(inverse, slope, out=slope)
        slope -= vx @ np.linalg.inv(gram) @ vx.swapaxes(1, 2)
        of_effects = np.einsum("snp,snm,smq->pq", self.z, slope, self.z, optimize=self._order)
        of_root = 2 * of_effects[:2, :2] @ root
        gradient = [of_root[0, 0] * root[0, 0], of_root[1, 0], of_root[1, 1] * root[1, 1]]
        of_waves = 2 * np.diagonal(prior)[2:-1] * np.diagonal(of_effects)[2:]
        gradient.extend(np.bincount(self.season, of_waves, len(self.typical) - 6))
        serial = prior[-1, -1] * slope
        serial *= decay
        gradient.append(2 * serial.sum())
        serial *= self.lag
        gradient.append(serial.sum() / memory * (memory < SETTINGS.longest_memory))
        diagonal = np.diagonal(slope, axis1=1, axis2=2)
        gradient.append(2 * noise * diagonal[self.data.known].sum())
        away = (theta - self.typical) / SETTINGS.prior
        return 0.5 * value + 0.5 * away @ away, 0.5 * np.array(gradient) + away / SETTINGS.prior
