"""Error paths: the errors of all forecasts from one origin, joint in time and across channels.

Half widths of intervals show how large errors are at each lead. They do not show how errors at two
leads, or of two channels, are correlated. The highest value of a stretch and the time of a crossing
depend on that. The paths of a backtest contain these correlations.

Paths are kept as *scores*. The absolute score is the quantile of an absolute normal variable at the
rank of the absolute error among those with about the same lead; it has the sign of the error. An
error of a given score is as large as the half width of the interval with that probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import erf, ndtri

from skpolyode.ensemble.error_scale import PRIOR
from skpolyode.panel import offsets_from
from skpolyode.saving.codec import saved


@dataclass(frozen=True)
class ErrorPathSettings:
    """How many paths are kept, and at how many times."""

    max_paths: int = 500
    max_knots: int = 64
    max_cells: int = 2**18  # of all paths: a megabyte in a file
    reached: float = 0.05  # share of the origins that forecast as far as the last knot
    fewest: int = 20  # lower bound of their number


SETTINGS = ErrorPathSettings()
_LEAST = 0.05  # floor of the variance of a mean of two scores


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
        return mixed / np.sqrt(np.maximum(variance, _LEAST))


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


def levels_of(scores: np.ndarray) -> np.ndarray:
    """Probabilities of the intervals whose half widths are the errors with these scores."""
    return erf(np.abs(scores) / np.sqrt(2))


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
