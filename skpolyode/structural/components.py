"""Structural (state-space) models: level, slope, season and noise, and their Kalman filter.

Times are in typical gaps of the series, values in its typical steps.

The filter follows many models of one series at once, at irregular times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple, Self

import numpy as np
from scipy.special import betaincinv, gammaln
from scipy.stats import qmc

from skpolyode.ensemble.periods import harmonics_of
from skpolyode.saving.codec import saved

LEVEL, _REVERTING, SLOPE, _SEASON = range(4)  # indices in a state; the season fills the rest
_UNKNOWN = 1e6  # variance of a level before the first observation
_EVEN = 0.1  # share of the weight that is uniform over all points


_OF_MODELS = (
    *("is_log", "noise", "rate", "walk", "slope_rate", "slope_walk", "slope"),
    *("season_rate", "season_walk", "season", "period", "free"),
)


@saved(**dict.fromkeys(_OF_MODELS, "G"), turns="G K", shares="G K")
@dataclass(frozen=True, eq=False)
class Components:
    r"""G structural models of one channel, linear stochastic differential equations with noise.

    An observation is :math:`l + r + \sum_k (a_k \cos 2\pi k t/p + b_k \sin 2\pi k t/p) + f` and
    noise. The level moves by the slope, :math:`dl = s\,dt`, which is damped,
    :math:`ds = -\kappa s\,dt + \sigma_s\,dW`. The mean-reverting part
    :math:`dr = -\lambda r\,dt + \sigma_r\,dW` is a random walk for a rate of zero, and the season
    :math:`da = -\delta a\,dt + \sigma_a\,dW` (and b) fades and is renewed likewise (Harvey,
    "Forecasting, structural time series models and the Kalman filter", 1989, section 9.1). So is
    f, one value per phase for a season that is sharper than its harmonics. The last value, the
    mean, the drift and exponential smoothing are special cases.

    Parameters
    ----------
    is_log : bool ndarray of shape (G,)
        Whether the model is one of logarithms.
    noise : float64 ndarray of shape (G,)
        Variance of the observation noise.
    rate, walk, slope_rate, slope_walk, season_rate, season_walk : float64 ndarray of shape (G,)
        Rates of decay per typical gap, and variances that a gap adds, before decay.
    slope, season : float64 ndarray of shape (G,)
        Initial variances of the slope, and of the amplitudes before they are scaled by `shares`.
    turns, shares : float64 ndarray of shape (G, K)
        Harmonics of seasons: cycles per typical gap, and relative variances; 0 for harmonics that
        a model does not have.
    period, free : float64 ndarray of shape (G,)
        Length of the longest season, and relative variance of the value that each of its phases (a
        typical gap long) adds to the harmonics; 1 and 0 without such values.
    """

    is_log: np.ndarray
    noise: np.ndarray
    rate: np.ndarray
    walk: np.ndarray
    slope_rate: np.ndarray
    slope_walk: np.ndarray
    slope: np.ndarray
    season_rate: np.ndarray
    season_walk: np.ndarray
    season: np.ndarray
    turns: np.ndarray
    shares: np.ndarray
    period: np.ndarray
    free: np.ndarray

    def __len__(self) -> int:
        return len(self.noise)

    def of(self, which: np.ndarray) -> Self:
        """The models at the positions `which`."""
        return type(self)(*(getattr(self, f.name)[which] for f in fields(self)))

    def joined(self, other: Self) -> Self:
        """These models, followed by others."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return type(self)(*(np.concatenate(pair) for pair in pairs))

    @property
    def harmonics(self) -> np.ndarray:
        """Relative variances (G, 2 K) of the harmonics, two states each."""
        return np.repeat(self.shares, 2, axis=1)

    def start(self) -> np.ndarray:
        """Variances (G, p) of the states before the first observation."""
        reverting = np.where(self.rate > 0, self.walk / np.maximum(2 * self.rate, 1e-12), 0.0)
        level = np.full(len(self), _UNKNOWN)
        season = self.season[:, None] * self.harmonics
        return np.column_stack([level, reverting, self.slope, season])

    @property
    def steady(self) -> np.ndarray:
        """1 for constant states (G, p) in models with phases, which depend on them; else 0."""
        level, season = self.slope == 0, self.season_rate == 0
        first = np.column_stack([level, *np.zeros((2, len(self)))])
        return np.hstack([first, season[:, None] * (self.harmonics > 0)]) * (self.free > 0)[:, None]

    @property
    def n_phases(self) -> np.ndarray:
        """Numbers (G,) of phases of the longest season."""
        return np.rint(self.period).astype(np.int64)

    def phases(self, times: np.ndarray) -> np.ndarray:
        """Index (..., G) of the phase at times (...)."""
        turn = np.asarray(times)[..., None] / self.period % 1
        return np.rint(turn * self.n_phases).astype(np.int64) % self.n_phases

    def phase_moves(self, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shares (..., G) of phase values that remain after gaps (...), and variances added."""
        gap = np.asarray(gap)[..., None]
        added = self.free * _added(self.season_rate, self.season_walk, gap)
        return np.exp(-self.season_rate * gap), added

    def gain(self, gap: np.ndarray) -> np.ndarray:
        """Rise (..., G) of the level over gaps (...) for a slope of one."""
        gap = np.asarray(gap)[..., None]
        damped = -np.expm1(-self.slope_rate * gap) / np.maximum(self.slope_rate, 1e-12)
        return np.where(self.slope_rate > 0, damped, gap)

    def kept(self, gap: np.ndarray) -> np.ndarray:
        """Shares (..., G, p) of the states that remain after gaps (...)."""
        gap = np.asarray(gap)[..., None]
        season = np.exp(-self.season_rate * gap)[..., None]
        shares = [np.ones_like(self.rate * gap), np.exp(-self.rate * gap)]
        shares.append(np.exp(-self.slope_rate * gap))
        n_season = self.harmonics.shape[1]
        season = np.broadcast_to(season, (*season.shape[:-1], n_season))
        return np.concatenate([np.stack(shares, axis=-1), season], axis=-1)

    def added(self, gap: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Variances (..., G, p) that gaps (...) add to the states.

        Then the covariances (..., G) that they add to level and slope.
        """
        gap, rate = np.asarray(gap)[..., None], np.maximum(self.slope_rate, 1e-12)
        left = np.exp(-rate * gap)
        level = gap - 2 * (1 - left) / rate + (1 - left**2) / (2 * rate)
        both = np.where(self.slope_walk > 0, self.slope_walk * (1 - left) ** 2 / (2 * rate**2), 0.0)
        level = np.where(self.slope_walk > 0, self.slope_walk * level / rate**2, 0.0)
        season = _added(self.season_rate, self.season_walk, gap)[..., None] * self.harmonics
        reverting = _added(self.rate, self.walk, gap)
        slope = _added(self.slope_rate, self.slope_walk, gap)
        return np.concatenate([np.stack([level, reverting, slope], axis=-1), season], axis=-1), both

    def seen(self, times: np.ndarray) -> np.ndarray:
        """Weights (..., G, p) of the states in an observation at times (...)."""
        turns, which = np.unique(self.turns, axis=0, return_inverse=True)
        angle = 2 * np.pi * np.asarray(times)[..., None, None] * turns
        waves = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        waves = waves.reshape(*angle.shape[:-1], 2 * turns.shape[1])[..., which.ravel(), :]
        first = np.broadcast_to([1.0, 1.0, 0.0], (*waves.shape[:-1], _SEASON))
        return np.concatenate([first, waves], axis=-1)


def _added(rate: np.ndarray, walk: np.ndarray, gap: float | np.ndarray) -> np.ndarray:
    """Variance that a mean-reverting walk gains over a gap."""
    fading = walk * -np.expm1(-2 * rate * gap)
    return np.where(rate > 0, fading / np.maximum(2 * rate, 1e-12), walk * gap)


def sobol_points(n: int, seed: int) -> np.ndarray:
    """Points (n, 13) that fill the unit cube evenly; `n` is a power of two."""
    return qmc.Sobol(len(_COORDINATES), seed=seed).random(n)


def similar_points(
    points: np.ndarray, weights: np.ndarray, n_seasons: int, n: int, seed: int
) -> np.ndarray:
    """Further points (n, 13), distributed like given `points` (m, 13) with `weights` (m,).

    Each coordinate has the beta distribution with their mean and variance, the period their
    distribution over seasons. A tenth of the weight is uniform.
    """
    mean, square = ((1 - _EVEN) * weights @ points**power + _EVEN / (power + 1) for power in (1, 2))
    size = mean * (1 - mean) / (square - mean**2) - 1
    even, period = sobol_points(n, seed), _COORDINATES.index("period")
    found = np.minimum(betaincinv(mean * size, (1 - mean) * size, even), 1 - 1e-9)
    season = (points[:, period] * n_seasons).astype(np.int64)
    shares = (1 - _EVEN) * np.bincount(season, weights, n_seasons) + _EVEN / n_seasons
    season = np.searchsorted(shares.cumsum()[:-1], even[:, period], side="right")
    found[:, period] = (season + 0.5) / n_seasons
    return found


# The prior of structural models. Every point of the unit cube is a model; each coordinate decides
# one property, by thresholds or as a position in a range that is uniform in its logarithm.
_COORDINATES = (
    *("level", "walk", "reversion", "slope_kind", "slope", "damping", "period", "season"),
    *("season_kind", "season_walk", "log", "harmonics", "slope_walk"),
)
_THRESHOLDS = {
    "constant": 0.12,  # of "level": below it is constant
    "reverting": 0.6,  # of "level": from here on it is mean-reverting
    "exact": 0.9,  # of "walk": above it a random walk is observed without noise
    "no_slope": 0.4,  # of "slope_kind": below there is none
    "damped": 0.7,  # of "slope_kind": from here on it is damped
    "full_renewal": 0.5,  # of "slope_walk": below, a damped slope keeps its variance
    "fades": 0.25,  # of "season_kind": below the season fades
    "still": 0.3,  # of "season_walk": below a season that does not fade never changes
    "log": 0.5,  # of "log": below logarithms are modelled, if all values are positive
    "one_harmonic": 0.3,  # of "harmonics"
    "two_harmonics": 0.5,  # of "harmonics"; above there are all
    "free": 0.6,  # of "harmonics": above, each phase adds a separate value
}
_RANGES = {
    "walk": (10**-2.5, 10**1.5),  # variance per typical gap, relative to the noise
    "reverting_walk": (0.1, 100),  # stationary variance, relative to the noise
    "reversion": (1, 50),  # typical gaps
    "slope": (0.01, 10**0.5),  # standard deviation, in typical steps per gap
    "damping": (10**0.5, 100),  # typical gaps
    "slope_walk": (1e3, 1e-3),  # share of the variance that is renewed
    "season": (10**-0.5, 10),  # standard deviation of the amplitudes, in typical steps
    "fading": (1, 20),  # periods
    "season_walk": (10**-2.5, 0.5),  # relative change of the amplitudes in a period
    "free": (10**-6.25, 1),  # variance of the value of a phase, relative to the amplitudes
}


def draw_components(
    points: np.ndarray, seasons: Sequence[tuple[float, ...]], *, positive: bool
) -> Components:
    """Structural models at points (G, 13) of the unit cube; see the tables above.

    Variances are scaled so that the noise and the level's change in a typical gap add up to 1. Each
    model has one of the `seasons`, with all its periods, or none if there are none. Logarithms are
    modelled only of `positive` values.
    """
    u = dict(zip(_COORDINATES, points.T, strict=True))
    below = _THRESHOLDS

    def between(coordinate: str, name: str) -> np.ndarray:
        low, high = _RANGES[name]
        return low * (high / low) ** u[coordinate]

    constant, reverting = u["level"] < below["constant"], u["level"] >= below["reverting"]
    rate = np.where(reverting, 1 / between("reversion", "reversion"), 0.0)
    exact = ~constant & ~reverting & (u["walk"] > below["exact"])
    noise = np.where(exact, 1e-4, 1.0)
    walk = np.where(
        reverting, between("walk", "reverting_walk") * 2 * rate, between("walk", "walk")
    )
    walk = np.where(constant, 0.0, walk)
    total = noise + _added(rate, walk, 1.0)
    has_slope = u["slope_kind"] >= below["no_slope"]
    slope = np.where(has_slope, between("slope", "slope") ** 2, 0.0)
    is_damped = has_slope & (u["slope_kind"] >= below["damped"])
    slope_rate = np.where(is_damped, 1 / between("damping", "damping"), 0.0)
    renewed = u["slope_walk"] < below["full_renewal"]
    renewal = np.where(renewed, 1.0, between("slope_walk", "slope_walk"))
    slope_walk = 2 * slope_rate * slope * renewal
    is_log = (u["log"] < below["log"]) & positive
    level = noise / total, rate, walk / total
    slopes = slope_rate, slope_walk, slope
    return Components(is_log, *level, *slopes, *_draw_seasons(u, between, seasons))


def _draw_seasons(
    u: dict[str, np.ndarray],
    between: Callable[[str, str], np.ndarray],
    seasons: Sequence[tuple[float, ...]],
) -> tuple[np.ndarray, ...]:
    """Fields of `Components` that describe seasons, from `season_rate` on."""
    none = np.zeros(len(u["season"]))
    if not seasons:
        return none, none, none, *np.empty((2, len(none), 0)), none + 1.0, none
    below, which = _THRESHOLDS, (u["period"] * len(seasons)).astype(np.int64)
    limits = [u["harmonics"] < below[name] for name in ("one_harmonic", "two_harmonics")]
    turns, order = (table[which] for table in _waves(seasons))
    most = np.select(limits, [1, 2], turns.shape[1])[:, None]
    shares = np.where((order > 0) & (order <= most), 1 / np.maximum(order, 1), 0.0)
    period = np.array([max(periods) for periods in seasons])[which]
    season = between("season", "season") ** 2
    fades, still = u["season_kind"] < below["fades"], u["season_walk"] < below["still"]
    season_rate = np.where(fades, 1 / (period * between("season_walk", "fading")), 0.0)
    walked = np.where(still, 0.0, between("season_walk", "season_walk") ** 2 / period)
    season_walk = season * np.where(fades, 2 * season_rate, walked)
    # Harmonics of a short season can take any shape; a cycle that fades has no fixed phases.
    is_long = np.array([max(p) > 2 * max(harmonics_of(p)) + 2 for p in seasons])
    is_free = is_long[which] & ~fades & (u["harmonics"] > below["free"])
    free = np.where(is_free, between("harmonics", "free"), 0.0)
    return season_rate, season_walk, season, turns, shares, np.where(is_free, period, 1.0), free


def _waves(seasons: Sequence[tuple[float, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """Cycles per gap (C, K) of the harmonics of C seasons, and their orders (C, K) in a period.

    Rows of seasons with fewer harmonics are padded with 0.
    """
    size = max(sum(harmonics_of(periods)) for periods in seasons)
    turns, order = np.zeros((2, len(seasons), size))
    for row, periods in enumerate(seasons):
        numbers = np.concatenate([np.arange(1, n + 1) for n in harmonics_of(periods)])
        order[row, : len(numbers)] = numbers
        turns[row, : len(numbers)] = numbers / np.repeat(periods, harmonics_of(periods))
    return turns, order


_AT_ONCE = 64  # gaps per batch: their transitions take no longer to compute than one
_PRIOR = 0.5  # half the number of observations that the prior of the scale, 1, is worth


class Filtered(NamedTuple):
    """States and likelihoods of G models after each of n observations."""

    log_likelihood: np.ndarray  # float64 (n, G): of the observations so far except the first
    states: np.ndarray  # float64 (n, G, p): means
    errors: np.ndarray  # float64 (n, G): of one-step forecasts, over their expected size
    scale: np.ndarray  # float64 (n, G): estimated factor of all variances
    covariances: np.ndarray  # float64 (m, G, p, p): after the observations asked for
    phases: np.ndarray  # float64 (m, 3, G, B): means, variances and shares of phases, likewise


def kalman_filter(
    times: np.ndarray, values: np.ndarray, models: Components, asked: np.ndarray | None = None
) -> Filtered:
    """Filter a series with each model.

    The common scale of a model's variances is estimated recursively, so that errors have Student's
    t distribution (West and Harrison, "Bayesian forecasting and dynamic models", 1997, section
    4.5).

    Parameters
    ----------
    times : float64 ndarray of shape (n,)
        Ascending.
    values : float64 ndarray of shape (n, G)
        Values for each model; logarithms for models of these.
    models : Components
        G models with p states.
    asked : int64 ndarray of shape (m,) or None, default=None
        Ascending positions of observations after which covariances are kept. None: keep none.
    """
    variance = models.start()
    covariance = variance[:, :, None] * np.eye(variance.shape[1])
    mean = np.zeros_like(variance)
    seen = models.seen(times)
    kept = {} if asked is None else {row: place for place, row in enumerate(asked.tolist())}
    zeros, states = np.zeros((2, *values.shape)), np.empty((len(times), *mean.shape))
    covariances = np.empty((len(kept), *covariance.shape))
    phases = PhaseValues(models, times)
    phases_kept = np.empty((len(kept), 3, *phases.means.shape))
    found = Filtered(zeros[0], states, zeros[1], np.ones(values.shape), covariances, phases_kept)
    shape, squares, log_likelihood = _PRIOR, np.full(len(models), _PRIOR), np.zeros(len(models))
    moves = _moves(np.diff(times), models)
    for i, weights in enumerate(seen):
        if i:  # predict over the gap
            *move, faded, renewed = next(moves)
            mean = _over_gap(mean, covariance, move)
            phases.move(faded, renewed)
        free, spread, left = phases.at(i)
        weights = weights * left
        error = values[i] - (weights * mean).sum(axis=1) - free
        known = np.matmul(covariance, weights[:, :, None])[:, :, 0]
        expected = (weights * known).sum(axis=1) + spread + models.noise
        if i:  # the first observation sets the level, and has no likelihood
            square = error**2 / expected
            log_likelihood += gammaln(shape + 0.5) - gammaln(shape)
            log_likelihood -= 0.5 * np.log(2 * np.pi * squares * expected)
            log_likelihood -= (shape + 0.5) * np.log1p(square / (2 * squares))
            shape, squares = shape + 0.5, squares + square / 2
            found.errors[i] = error / np.sqrt(expected)
        phases.learn(i, values[i], mean, covariance)
        gain = known / expected[:, None]
        mean = mean + gain * error[:, None]
        covariance = covariance - gain[:, :, None] * known[:, None, :]
        found.log_likelihood[i], found.states[i] = log_likelihood, mean
        found.scale[i] = squares / shape
        if i in kept:
            found.covariances[kept[i]] = covariance
            found.phases[kept[i]] = phases.means, phases.variances, phases.shares
    return found


def _over_gap(mean: np.ndarray, covariance: np.ndarray, move: Sequence[np.ndarray]) -> np.ndarray:
    """Means (G, p) after a gap, by the first arrays of `_moves`; updates `covariance` in place."""
    rise, left, added, both = move
    slope, mean = mean[:, SLOPE], mean * left
    mean[:, LEVEL] += rise * slope
    covariance[:, LEVEL] += rise[:, None] * covariance[:, SLOPE]
    covariance[:, :, LEVEL] += rise[:, None] * covariance[:, :, SLOPE]
    covariance *= left[:, :, None] * left[:, None, :]
    np.einsum("gpp->gp", covariance)[...] += added  # a view of the diagonals
    covariance[:, LEVEL, SLOPE] += both
    covariance[:, SLOPE, LEVEL] += both
    return mean


def _moves(gaps: np.ndarray, models: Components) -> Iterator[tuple[np.ndarray, ...]]:
    """Transitions of G models with p states over each gap, six arrays per gap.

    The rise (G,) of the level for a slope of one, the shares (G, p) of the states that remain, the
    variances (G, p) added, and the covariances (G,) of level and slope added; then the shares (G,)
    of the phases that remain, and the variances (G,) added to them.
    """
    for start in range(0, len(gaps), _AT_ONCE):
        gap, which = np.unique(gaps[start : start + _AT_ONCE], return_inverse=True)
        columns = models.gain(gap), models.kept(gap), *models.added(gap), *models.phase_moves(gap)
        for place in which:
            yield tuple(column[place] for column in columns)


def predict(
    models: Components,
    states: np.ndarray,
    covariances: np.ndarray,
    phases: np.ndarray,
    place: np.ndarray,
    origins: np.ndarray,
    leads: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Means (Q, G) and variances (Q, G) of future observations; variances lack their scale.

    `states` (Q, G, p) are those at times `origins` (Q,). Forecasts are for times `leads` (Q,)
    later. `place` (Q,) indexes the covariances (m, G, p, p) and the phases (m, 3, G, B).
    """
    then = models.seen(origins + leads)
    seen = then * models.kept(leads)
    seen[:, :, SLOPE] = models.gain(leads)
    at = place[:, None], slice(None), np.arange(len(models)), models.phases(origins + leads)
    free, spread, share = np.moveaxis(phases[at], -1, 0)
    left, renewed = models.phase_moves(leads)
    seen *= 1.0 - (left * share)[:, :, None] * models.steady
    expected = np.einsum("qgp,qgp->qg", seen, states) + left * free
    known = np.empty_like(seen)
    for k in np.unique(place):  # no covariance is copied
        weights = seen[place == k].swapaxes(0, 1)
        known[place == k] = (weights @ covariances[k]).swapaxes(0, 1)
    added = models.added(leads)[0]
    # The slope is not observed: its covariance with the level does not matter.
    variance = (seen * known).sum(axis=-1) + (then**2 * added).sum(axis=-1) + models.noise
    variance += left**2 * spread + renewed
    return expected, variance


class PhaseValues:
    """Distribution of the values of all phases given the observations so far, for G models.

    A week has 168 hours; their covariances would take most of a filter's time. They are not needed:
    given a constant level and harmonics, phases are independent of each other. The expected value
    of a phase is a mean minus a share of the contribution of these states at its time, so that
    later updates of the states correct it. (Times within a phase count as equal. Phases are also
    taken as independent of states that change: assumed density filtering.)

    Parameters
    ----------
    models : Components
        G models; their longest season has B phases.
    times : float64 ndarray of shape (n,)
        Times of the observations.
    """

    def __init__(self, models: Components, times: np.ndarray) -> None:
        self._every, self._phases = np.arange(len(models)), models.phases(times)
        exists = np.arange(models.n_phases.max()) < models.n_phases[:, None]
        self.variances = exists * (models.season * models.free)[:, None]  # (G, B)
        self.means, self.shares = np.zeros((2, *self.variances.shape))
        self._exist = bool((models.free > 0).any())
        self._noise, self._steady = models.noise, models.steady
        self._moving = 1.0 - self._steady[:, :SLOPE]  # the slope is not observed
        waves = self._steady[:, SLOPE + 1 :] * models.harmonics / 2
        self._waves = waves.sum(axis=1) / np.where(models.free > 0, models.free, 1.0)

    def move(self, kept: np.ndarray, added: np.ndarray) -> None:
        """Propagate over a gap, by the shares kept (G,) and the variances added (G,)."""
        self.means *= kept[:, None]
        self.shares *= kept[:, None]
        # Harmonics change, too.
        added = added[:, None] * (1 + self._waves[:, None] * self.shares**2)
        self.variances = self.variances * kept[:, None] ** 2 + added

    def at(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means and variances (G,) at the phase of an observation, and weights (G, p) of states."""
        place = self._every, self._phases[row]
        left = 1.0 - self.shares[place][:, None] * self._steady
        return self.means[place], self.variances[place], left

    def learn(self, row: int, value: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
        """Update with an observation (G,), given the predicted means (G, p) of the states."""
        if not self._exist:
            return
        place = self._every, self._phases[row]
        moving = self._moving[:, :, None] * self._moving[:, None]
        blur = (moving * covariance[:, :SLOPE, :SLOPE]).sum(axis=(1, 2)) + self._noise
        gain = self.variances[place] / (self.variances[place] + blur)
        error = value - (self._moving * mean[:, :SLOPE]).sum(axis=1) - self.means[place]
        self.means[place] += gain * error
        self.shares[place] += gain * (1 - self.shares[place])
        self.variances[place] *= 1 - gain
