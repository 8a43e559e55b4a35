"""The restricted likelihood of a mixed-effects model, and the observations that it uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from skpolyode.panel import series_index


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
    max_series: int = 200
    curve_prior: float = 3.0  # standard deviation of the population curve at its knots
    season_prior: float = 1.0  # the same for the first harmonic of a season; 1 / k for the k-th
    prior: float = 2.0  # standard deviation of the logarithms of standard deviations
    furthest: float = 4.0  # such deviations from typical values; covariances stay solvable
    least_gain: float = 0.02  # nats a value for each season, as all forecasts carry its states
    typical: tuple[float, ...] = (0.5, 0.3, 0.5, 0.3)  # level, slope over a span, serial, noise
    typical_memory: float = 8.0  # typical gaps, of the serial correlation
    longest_memory: float = 300.0  # typical gaps; a longer one is a random walk
    n_steps: int = 40  # of the optimiser, at most
    tolerance: float = 1e-5  # it stops if a step gains less than this share of the loss


SETTINGS = MixedSettings()


class Grouped(NamedTuple):
    """Observations of one channel of S series, padded to n rows."""

    times: np.ndarray  # (S, n)
    values: np.ndarray  # (S, n), 0 where padded
    known: np.ndarray  # bool (S, n)
    series: np.ndarray  # int64 (S,): which series these are


def grouped(
    times: np.ndarray, values: np.ndarray, offsets: np.ndarray, shortest: float = 0.0
) -> Grouped:
    """The last observations of a channel, of up to `max_series` evenly chosen series.

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
    most = int(np.clip(SETTINGS.max_work / len(back) ** 2, 4, SETTINGS.max_series))
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
        self._latest: tuple[np.ndarray, tuple[np.ndarray, ...]] | None = None

    def parts(self, theta: np.ndarray) -> tuple[np.ndarray, float, float, np.ndarray]:
        """Covariance (p, p) of the effects, memory, variance of the noise, Cholesky factor."""
        root = np.diag(np.exp(theta[[0, 2]]))
        root[1, 0] = theta[1]
        prior = np.diag(np.exp(2 * np.array([0, 0, *theta[3:-3][self.season], theta[-3]])))
        prior[:2, :2] = root @ root.T
        memory = min(float(np.exp(theta[-2])), SETTINGS.longest_memory)
        return prior, memory, float(np.exp(2 * theta[-1])), root

    def _solved(self, theta: np.ndarray) -> tuple[np.ndarray, ...]:
        """Terms of the likelihood and the curve, kept for repeated calls with one `theta`."""
        if self._latest is None or not np.array_equal(self._latest[0], theta):
            self._latest = theta.copy(), self._solve(theta)
        return self._latest[1]

    def _solve(self, theta: np.ndarray) -> tuple[np.ndarray, ...]:
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
        return self._solved(theta)[-1]

    def curves(self, theta: np.ndarray, n_folds: int) -> np.ndarray:
        """The same without each fold of series, (n_folds, K)."""
        vx, gram, curve = self._solved(theta)[-3:]
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
        decay, inverse, log_det, vx, gram, curve = self._solved(theta)
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
