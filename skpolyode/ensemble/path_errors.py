r"""Size and correlation of the errors of a path between observations.

In a gap of a channel, `since` after one observation and `until` before the next, an error has the
size s,

    s**2 = noise**2 + floor**2 + 1 / (1 / grown**2 + 1 / most**2),
    grown = a d**p l**q v**t exp(r n),   d = 1 / (1 / since + 1 / until),   l = since + until,

with n = 1 if a row in the gap lacks the channel, which moves paths otherwise, else 0. The next
observation missed its forecast by v times as much as is usual for the series.

For a Brownian bridge, ``p = 1/2`` and ``q = 0`` are exact, for lines through a smooth signal
``p = q = 1``. Before its first observation `since` is infinite, l is `until`, and ``grown`` has one
more factor. A channel without any observation has errors of the size `most`. `noise` is that of the
observations of a filter. `floor` is what the path is off at observations: of a filter, Kalman's
posterior deviation there, on lines between; hidden observations cannot show it beside their noise.

Errors at two times in one gap have the correlation ``c exp(-k |w - w'| / 2)`` with
``w = log(since / until)``. For a Brownian bridge, ``k = c = 1`` is exact. The remaining ``1 - c``
is noise of single observations, which averages out over a window, except that noise of an
observation shifts the path on both sides of it. Otherwise, gaps are independent. For a filter, w is
the time, and there is one gap.

All are fitted to errors at hidden observations: runs of one to four rows, runs of single channels,
and beginnings of channels. Before the first row of a series its path is constant, and so are paths
that forecast nothing after the last observation of a channel. Errors there have a law of the same
form each, fitted to series that are cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from skpolyode.embedders.paths import PathQuery
from skpolyode.panel import series_index
from skpolyode.saving.codec import saved


@dataclass(frozen=True)
class PathErrorSettings:
    """Limits of the estimates.

    `benchmarks/NOTES.md`, "Errors between observations", has what chose the predictors.
    """

    fewest: int = 20  # hidden values needed to learn anything
    prior: float = 5.0  # errors that the prior of the size is worth
    floor_prior: float = 0.05  # strength of that of the floor, relative to the others
    trust: float = 5.0  # held-out series that a prior ratio of errors of 1 is worth
    least_missed: float = 0.3  # innovation, in usual ones, that is added in squares
    nearest: float = 0.05  # least distance to an observation, as a share of the gap, for slopes
    lags: tuple[int, ...] = (1, 2, 3)  # between hidden rows, for correlations


SETTINGS = PathErrorSettings()
LEAST, _FARTHEST = 1e-9, 1e6  # distances, in units of the model
_STEEP = 30.0  # largest logarithm of a size
_EXPONENTS = np.array([0.7, 0.3, 0.0, 0.0, 0.0])  # prior means
# Of a, most and floor, and of the exponents.
_BOUNDS = np.array([(-30, 30), (-5, 2), (-12, 1), (0, 3), (-1, 3), (0, 3), (-3, 3), (-3, 3)])
_RATES = np.geomspace(0.03, 10, 41)


class Gaps(NamedTuple):
    """Where Q times lie in the gaps of D channels."""

    distance: np.ndarray  # (Q, D): d, in the user's time; infinite if a channel has no observation
    predictors: np.ndarray  # (Q, D, 5): logarithms of d, l and v, n, whether it is a beginning
    place: np.ndarray  # (Q, D): w
    bend: np.ndarray  # (Q, D): change of log(d) over one unit of w
    following: np.ndarray  # (Q, D): row that ends the gap, -1 if none
    # (Q, D): -1 before the first row of the series, 1 after the last observation of the channel,
    # else 0.
    side: np.ndarray

    @classmethod
    def of(
        cls, asked: PathQuery, unit: float, missed: np.ndarray | None = None, nearest: float = 0.0
    ) -> Self:
        """Gaps at query times, at least the share `nearest` of a gap away from its ends.

        Observations (P, D) `missed` their forecasts by multiples of what is usual; None: by nothing
        else.
        """
        before, following = asked.before, asked.following
        since, until = asked.leads(unit)
        early = np.broadcast_to(asked.early, asked.times.shape)[:, None]
        is_first = (early > 0) & asked.observed
        following = np.where(is_first, asked.row[:, None], following)
        until = np.where(is_first, 0.0, until) + early / unit
        is_early = (before < 0) | (early > 0)
        side = np.where(early > 0, -1, ~is_early & (following < 0))
        length = np.where(is_early, until, since + until)
        since = np.where(is_early, np.inf, since)
        least = nearest * np.where(np.isinf(length), 1.0, length)
        since, until = np.maximum(since, least), np.maximum(until, least)
        with np.errstate(divide="ignore"):
            distance = 1 / (1 / since + 1 / until)
        logs = (np.log(np.clip(x, LEAST, _FARTHEST)) for x in (distance, length))
        lacks = ~is_early & (following > before + 1)
        if missed is None:
            missed = np.ones(asked.seen.values.shape)
        missed = np.take_along_axis(missed, np.maximum(following, 0), axis=0)
        missed = np.where((following < 0) | np.isnan(missed), 1.0, missed)
        logs = (*logs, np.log(np.hypot(missed, SETTINGS.least_missed)))
        ends = (np.log(np.clip(x, LEAST, _FARTHEST)) for x in (since, until))
        with np.errstate(divide="ignore", invalid="ignore"):
            bend = np.nan_to_num(distance * (1 / since - 1 / until))
        predictors = np.stack([*logs, lacks, before < 0], axis=-1)
        return cls(unit * distance, predictors, np.subtract(*ends), bend, following, side)


@saved(near="D", most="D", floor="D", exponents="5")
@dataclass(frozen=True, eq=False)
class SizeLaw:
    """Size of errors between observations, in standard deviations; see the module.

    Parameters
    ----------
    near, most, floor : float64 ndarrays of shape (D,)
        Logarithms of a and of the other sizes of each channel.
    exponents : float64 ndarray of shape (5,)
        p, q, t, r, and the logarithm of the factor of beginnings.
    """

    near: np.ndarray
    most: np.ndarray
    floor: np.ndarray
    exponents: np.ndarray

    @classmethod
    def learn(cls, wrong: np.ndarray, predictors: np.ndarray, extra: np.ndarray) -> Self:
        """Fit to errors (M, D) by the likelihood of Laplace's distribution; NaN is ignored.

        `predictors` (M, D, 5) are those of `Gaps`; `extra` (2, M, D) are variances of noise, and
        factors of the squared floor. A prior worth a few errors holds the channels together.
        """
        known, n = np.isfinite(wrong), wrong.shape[1]
        channel, error, x = np.nonzero(known)[1], np.abs(wrong[known]), predictors[known]
        (noise, floors), usual = extra[:, known], np.log(error.mean() + LEAST)
        parts, weight = [n, 2 * n, 3 * n], SETTINGS.prior / len(error)
        centre = np.concatenate([np.repeat([usual, 0.0, usual - 3], n), _EXPONENTS])
        strength = weight * np.repeat(
            [1.0, 1.0, SETTINGS.floor_prior, 1.0], [n, n, n, len(_EXPONENTS)]
        )

        def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
            near, most, floor, exponents = np.split(theta, parts)
            growth = _growth(near[channel] + x @ exponents, x)
            limit, left = np.exp(-2 * most[channel]), floors * np.exp(2 * floor[channel])
            grown = 1 / (growth + limit)
            size = np.sqrt(noise + grown + left) + LEAST
            slope = (1 - error / size) / size**2 / len(error)
            slopes = slope * grown**2 * growth, slope * grown**2 * limit, slope * left
            off = theta - np.concatenate([np.full(n, near.mean()), centre[n:]])
            gradient = [*(np.bincount(channel, own, n) for own in slopes), slopes[0] @ x]
            total = np.mean(np.log(size) + error / size) + strength @ off**2
            return float(total), np.concatenate(gradient) + 2 * strength * off

        bounds = np.repeat(_BOUNDS, [n, n, n, 1, 1, 1, 1, 1], axis=0)
        found = minimize(loss, centre, jac=True, method="L-BFGS-B", bounds=bounds)
        return cls(*np.split(found.x, parts))

    def squares(self, predictors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Squares (Q, D) of what errors have grown to, and (D,) of the floor.

        Then by how much the logarithm of the root of the former (Q, D) changes with that of d.
        """
        growth = _growth(self.near + predictors @ self.exponents, predictors)
        grown = 1 / (growth + np.exp(-2 * self.most))
        return grown, np.exp(2 * self.floor), self.exponents[0] * grown * growth

    def sizes(self, predictors: np.ndarray, noise: np.ndarray, at_rows: np.ndarray) -> np.ndarray:
        """Sizes (Q, D), from variances of `noise` and factors of the squared floor."""
        grown, floor, _ = self.squares(predictors)
        return np.sqrt(noise + grown + at_rows * floor)


def _growth(logs: np.ndarray, predictors: np.ndarray) -> np.ndarray:
    """Inverse squares of sizes with these logarithms; 0 of channels without any observation."""
    inverse = np.exp(-2 * np.clip(logs, -_STEEP, _STEEP))
    return np.where(predictors[..., 0] < np.log(_FARTHEST), inverse, 0.0)


class Course(NamedTuple):
    """Errors at Q times and how they change along the gaps of D channels; all (Q, D)."""

    std: np.ndarray
    place: np.ndarray  # w
    rate: np.ndarray  # of w, per unit of the user's time
    gap: np.ndarray  # row that ends the gap
    bend: np.ndarray | float = 0.0  # change of log(std) over one unit of w
    grown: np.ndarray | float = 1.0  # share of std that is 0 at observations


@saved(rate="unsigned", shared="unsigned")
@dataclass(frozen=True)
class Correlation:
    """Correlation of errors in one gap; k and c of the module."""

    rate: float = 1.0
    shared: float = 1.0

    @classmethod
    def learn(cls, scores: np.ndarray, course: Course, series: np.ndarray) -> Self:
        """By least squares, from standardised errors (Q, D) of series (Q,); NaN is ignored."""
        pairs = []
        for lag in SETTINGS.lags:
            products = scores[lag:] * scores[:-lag]
            same = np.isfinite(products) & (course.gap[lag:] == course.gap[:-lag])
            same &= (series[lag:] == series[:-lag])[:, None]
            distance = np.abs(course.place[lag:] - course.place[:-lag])[same]
            pairs.append((distance, products[same]))
        distance, products = (np.concatenate(x) for x in zip(*pairs, strict=True))
        if len(distance) < SETTINGS.fewest:
            return cls()
        shapes = np.exp(np.multiply.outer(-_RATES / 2, distance))
        shared = np.clip(shapes @ products / (shapes**2).sum(axis=1), 0.05, 1.0)
        best = np.square(products - shared[:, None] * shapes).sum(axis=1).argmin()
        return cls(float(_RATES[best]), float(shared[best]))

    def of_integrals(self, course: Course, weights: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Standard deviations (B, D) of integrals of errors."""
        size, series = course.std * weights[:, None], series_index(offsets)
        # Noise of an observation shifts an exact path alike on both sides of it.
        noise, after = np.sqrt(1 - self.shared) * size, expit(course.place)
        variance = np.zeros((len(offsets) - 1, size.shape[1]))
        for j, gap in enumerate(course.gap.T):
            anew = np.append(True, (gap[1:] != gap[:-1]) | (series[1:] != series[:-1]))[: len(gap)]
            kept = np.exp(-self.rate / 2 * np.abs(np.diff(course.place[:, j], prepend=0.0))) * ~anew
            before = 0.0
            for i, std in enumerate(size[:, j].tolist()):
                before *= kept[i]
                variance[series[i], j] += self.shared * std * (std + 2 * before)
                before += std
            gaps, owner = np.cumsum(anew) - 1, series[anew]
            left = np.bincount(gaps, noise[:, j] * (1 - after[:, j]))
            right = np.bincount(gaps, noise[:, j] * after[:, j])
            joint = np.where(owner[1:] == owner[:-1], 2 * right[:-1] * left[1:], 0.0)
            np.add.at(variance[:, j], owner[1:], joint)
        return np.sqrt(variance)

    def of_slopes(self, course: Course) -> np.ndarray:
        """Standard deviations (Q, D) of errors of slopes, per unit of the user's time.

        The error is ``s g(w)``, where increments of g over one unit of w have the variance k.
        """
        size = course.std * course.grown * course.rate
        return np.sqrt(self.shared * (self.rate + course.bend**2)) * size
