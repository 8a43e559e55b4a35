"""What a series may be made of: a level, a slope, a season, and noise, each by a few numbers.

Times are in typical gaps of the series, values in typical steps of it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from scipy.stats import qmc

from skpolyode.saving.codec import saved

__all__ = ["LEVEL", "PULLED", "SEASON", "SLOPE", "Components", "drawn", "near", "points"]

LEVEL, PULLED, SLOPE, SEASON = range(4)  # places in a state; the season goes on to its end
_MOST_HARMONICS = 6
_UNKNOWN = 1e6  # variance of a level before the first observation
_N_COORDINATES = 13
_PERIOD = 6  # the coordinate that says which period
_WIDTH = 0.12  # of the jumps to points nearby


@saved
@dataclass(frozen=True, eq=False)
class Components:
    r"""G structural models of one channel, linear stochastic differential equations with noise.

    An observation is :math:`l + r + \sum_k (a_k \cos 2\pi k t/p + b_k \sin 2\pi k t/p)` and noise.
    The level moves by the slope, :math:`dl = s\,dt`, which is damped,
    :math:`ds = -\kappa s\,dt + \sigma_s\,dW`; what is pulled back,
    :math:`dr = -\lambda r\,dt + \sigma_r\,dW`, is a random walk for a rate of zero, and the season
    :math:`da = -\delta a\,dt + \sigma_a\,dW` (and b) fades and is renewed likewise (Harvey,
    "Forecasting, structural time series models and the Kalman filter", 1989, section 9.1). The last
    value, the mean, the drift and exponential smoothing are among them.

    Parameters
    ----------
    is_log : bool ndarray of shape (G,)
        Whether the logarithm is what they model.
    noise : float64 ndarray of shape (G,)
        Variance of an observation.
    rate, walk, slope_rate, slope_walk, season_rate, season_walk : float64 ndarray of shape (G,)
        Rates, per typical gap, and variances that are added in one, without the fading.
    slope, season : float64 ndarray of shape (G,)
        Variances of the first slope and of the first amplitudes, those of harmonic k over k.
    period, n_harmonics : float64 ndarray of shape (G,)
        Of the season; no harmonics if there is none.
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
    period: np.ndarray
    n_harmonics: np.ndarray

    def __len__(self) -> int:
        return len(self.noise)

    def of(self, which: np.ndarray) -> Self:
        """Some of them."""
        return type(self)(*(getattr(self, f.name)[which] for f in fields(self)))

    def joined(self, other: Self) -> Self:
        """All of both."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return type(self)(*(np.concatenate(pair) for pair in pairs))

    @property
    def harmonics(self) -> np.ndarray:
        """What variances of the season are multiplied by in each of its states, (G, 2 K)."""
        k = np.arange(1, int(self.n_harmonics.max(initial=0)) + 1)
        return np.repeat((k <= self.n_harmonics[:, None]) / k, 2, axis=1)

    def start(self) -> np.ndarray:
        """Variances (G, p) of the states before the first observation."""
        pulled = np.where(self.rate > 0, self.walk / np.maximum(2 * self.rate, 1e-12), 0.0)
        level = np.full(len(self), _UNKNOWN)
        season = self.season[:, None] * self.harmonics
        return np.column_stack([level, pulled, self.slope, season])

    def gain(self, gap: np.ndarray) -> np.ndarray:
        """What a slope has added to the level after gaps (...), (..., G)."""
        gap = np.asarray(gap)[..., None]
        damped = -np.expm1(-self.slope_rate * gap) / np.maximum(self.slope_rate, 1e-12)
        return np.where(self.slope_rate > 0, damped, gap)

    def kept(self, gap: np.ndarray) -> np.ndarray:
        """Shares (..., G, p) of the states that are left after gaps (...)."""
        gap = np.asarray(gap)[..., None]
        season = np.exp(-self.season_rate * gap)[..., None]
        own = [np.ones_like(self.rate * gap), np.exp(-self.rate * gap)]
        own.append(np.exp(-self.slope_rate * gap))
        n_season = self.harmonics.shape[1]
        season = np.broadcast_to(season, (*season.shape[:-1], n_season))
        return np.concatenate([np.stack(own, axis=-1), season], axis=-1)

    def added(self, gap: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Variances (..., G, p) that gaps (...) add to the states, and covariances (..., G).

        The latter are of level and slope.
        """
        gap, rate = np.asarray(gap)[..., None], np.maximum(self.slope_rate, 1e-12)
        left = np.exp(-rate * gap)
        level = gap - 2 * (1 - left) / rate + (1 - left**2) / (2 * rate)
        both = np.where(self.slope_walk > 0, self.slope_walk * (1 - left) ** 2 / (2 * rate**2), 0.0)
        level = np.where(self.slope_walk > 0, self.slope_walk * level / rate**2, 0.0)
        season = _added(self.season_rate, self.season_walk, gap)[..., None] * self.harmonics
        pulled = _added(self.rate, self.walk, gap)
        slope = _added(self.slope_rate, self.slope_walk, gap)
        return np.concatenate([np.stack([level, pulled, slope], axis=-1), season], axis=-1), both

    def seen(self, times: np.ndarray) -> np.ndarray:
        """What of the states (..., G, p) is observed at times (...)."""
        n_harmonics = self.harmonics.shape[1] // 2
        own, which = np.unique(self.period, return_inverse=True)
        angle = 2 * np.pi * np.asarray(times)[..., None] / own
        angle = angle[..., None] * np.arange(1, n_harmonics + 1)
        waves = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        waves = waves.reshape(*angle.shape[:-1], 2 * n_harmonics)[..., which, :]
        first = np.broadcast_to([1.0, 1.0, 0.0], (*waves.shape[:-1], SEASON))
        return np.concatenate([first, waves], axis=-1)


def _added(rate: np.ndarray, walk: np.ndarray, gap: float | np.ndarray) -> np.ndarray:
    """Variance that a fading walk gains in a gap, from none."""
    fading = walk * -np.expm1(-2 * rate * gap)
    return np.where(rate > 0, fading / np.maximum(2 * rate, 1e-12), walk * gap)


def points(n: int, seed: int) -> np.ndarray:
    """Points (n, 13) that fill the unit cube evenly; `n` is a power of two."""
    return qmc.Sobol(_N_COORDINATES, seed=seed).random(n)


def near(chosen: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Points near some points (n, 13), of the same period."""
    moved = np.abs(chosen + _WIDTH * rng.standard_normal(chosen.shape))  # back from both walls
    moved = np.clip(1 - np.abs(1 - moved), 0, 1 - 1e-9)
    moved[:, _PERIOD] = chosen[:, _PERIOD]
    return moved


def drawn(at: np.ndarray, periods: tuple[float, ...], *, trend: bool, positive: bool) -> Components:
    """Components from points (G, 13) of the unit cube, drawn from what is usual for series.

    Variances are in units of those that one typical gap and the noise add together. Without
    periods there is no season, without `trend` no slope; logarithms are taken of what is positive.
    """
    u = at.T
    none = np.zeros(len(at))
    constant, pulled = u[0] < 0.12, u[0] >= 0.6
    rate = np.where(pulled, 1 / _between(u[2], 1, 50), 0.0)
    noise = np.where(~constant & ~pulled & (u[1] > 0.9), 1e-4, 1.0)
    walk = np.where(pulled, _between(u[1], 0.1, 100) * 2 * rate, _between(u[1], 10**-2.5, 10**1.5))
    walk = np.where(constant, 0.0, walk)
    total = noise + _added(rate, walk, 1.0)
    has_slope = trend & (u[3] >= 0.4)
    slope = np.where(has_slope, _between(u[4], 0.01, 10**0.5) ** 2, 0.0)
    slope_rate = np.where(has_slope & (u[3] >= 0.7), 1 / _between(u[5], 10**0.5, 100), 0.0)
    slope_walk = 2 * slope_rate * slope * np.where(u[12] < 0.5, 1.0, _between(u[12], 1e3, 1e-3))
    season = n_harmonics = season_rate = season_walk = none
    period = none + 1.0
    if periods:
        period = np.array(periods)[(u[_PERIOD] * len(periods)).astype(np.int64)]
        season = _between(u[7], 10**-0.5, 10) ** 2
        fades, still = u[8] < 0.25, u[9] < 0.3
        season_rate = np.where(fades, 1 / (period * _between(u[9], 1, 20)), 0.0)
        walked = np.where(still, 0.0, _between(u[9], 10**-2.5, 0.5) ** 2 / period)
        season_walk = season * np.where(fades, 2 * season_rate, walked)
        most = np.where(u[11] < 0.3, 1, np.where(u[11] < 0.5, 2, _MOST_HARMONICS))
        n_harmonics = np.clip(np.floor(period / 2 + 1e-6), 1, most).astype(np.float64)
    is_log = (u[10] < 0.5) & positive
    level = noise / total, rate, walk / total
    slopes = slope_rate, slope_walk, slope
    seasons = season_rate, season_walk, season, period, n_harmonics
    return Components(is_log, *level, *slopes, *seasons)


def _between(u: np.ndarray, low: float, high: float) -> np.ndarray:
    """From [0, 1) to numbers whose logarithms are spread evenly."""
    return low * (high / low) ** u
