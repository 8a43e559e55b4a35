"""Error paths: whole courses of the errors of forecasts, joint in time and across channels.

Half widths of intervals tell how large errors are at each lead. They do not tell how errors at two
leads, or of two channels, go together, and so not what the highest value of a stretch will be, or
when a line is crossed. A backtest knows: the errors of all forecasts from one origin are a path.

Paths are kept as *scores*: the size of an error has the rank among those with about the same lead
that the size of a normal variable has, and the score has the sign of the error. An error of a
given score is as large as the half width of the interval with that probability.
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
    fewest: int = 20  # the same, at least


SETTINGS = ErrorPathSettings()
_LEAST = 0.05  # of the square of a mean of two scores, of opposite sign


@saved(since="J rising", scores="K J D")
@dataclass(frozen=True, eq=False)
class ErrorPaths:
    """Scores of K error paths at J times since their origins.

    Parameters
    ----------
    since : float64 ndarray of shape (J,)
        Rising; scores are interpolated between, and held outside.
    scores : float32 ndarray of shape (K, J, D)
        At each time and of each channel, their sizes are those of a normal variable.
    """

    since: np.ndarray
    scores: np.ndarray

    @classmethod
    def learn(
        cls, scores: np.ndarray, since: np.ndarray, origin: np.ndarray, series: np.ndarray
    ) -> Self | None:
        """Learn from the scores (M, D) of forecasts, NaN where not known; None without any.

        They are made `since` (M,) an `origin` (M,), those of each one after the other, of some
        `series` (M,).
        """
        if not np.isfinite(scores).any():
            return None
        kept = np.isfinite(since)  # after a row that tells something
        scores, since, origin, series = (x[kept] for x in (scores, since, origin, series))
        counts = np.unique(origin, return_counts=True)[1]
        offsets = offsets_from(counts)
        reach = np.sort(np.maximum.reduceat(since, offsets[:-1]))
        enough = min(len(reach), max(SETTINGS.fewest, round(SETTINGS.reached * len(reach))))
        n_series = len(np.unique(series))
        mirrored = PRIOR / (PRIOR + n_series) / 2  # share of all paths, of the other sign
        chosen = _spread(len(counts), round(SETTINGS.max_paths * (1 - mirrored)))
        most = SETTINGS.max_cells // (len(chosen) * scores.shape[1])
        near = np.sort(since[since <= reach[-enough]])
        knots = np.quantile(near, np.linspace(0, 1, min(max(most, 4), SETTINGS.max_knots)))
        knots = np.unique(near[np.searchsorted(near, knots)])
        paths = np.full((len(chosen), len(knots), scores.shape[1]), np.nan)
        for path, k in zip(paths, chosen, strict=True):
            rows = slice(offsets[k], offsets[k + 1])
            for j, own in enumerate(scores[rows].T):
                seen = np.isfinite(own)
                if seen.any():
                    path[:, j] = np.interp(knots, since[rows][seen], own[seen], right=np.nan)
        _continue(paths, np.random.RandomState(0))  # of the same backtest, the same paths
        others = _spread(len(paths), round(len(paths) * mirrored / (1 - mirrored)))
        paths = np.concatenate([paths, -paths[others]])
        return cls(knots, scores_of(paths).astype(np.float32))

    def draw(self, n_samples: int, rng: np.random.RandomState) -> np.ndarray:
        """Which paths (n_samples,): none is drawn again before all others."""
        n_rounds = -(-n_samples // len(self.scores))
        rounds = [rng.permutation(len(self.scores)) for _ in range(n_rounds)]
        return np.concatenate(rounds)[:n_samples]

    def at(self, since: np.ndarray, drawn: np.ndarray, channel: int) -> np.ndarray:
        """Scores (Q, S) of the drawn paths at times (Q,) since the origin.

        A mean of two correlated scores is smaller than either: it is enlarged again.
        """
        before, after, share = between(since, self.since)
        own = self.scores[..., channel].astype(np.float64)  # (K, J)
        size = np.sqrt((own**2).mean(axis=0))
        products = (own[:, :-1] * own[:, 1:]).mean(axis=0) / (size[:-1] * size[1:])
        alike = np.append(products, 1.0)[before, None]  # of one knot alone, with itself
        left = (1 - share) ** 2 + share**2 + 2 * share * (1 - share) * alike
        mixed = (1 - share) * own[drawn][:, before].T + share * own[drawn][:, after].T
        return mixed / np.sqrt(np.maximum(left, _LEAST))


def _spread(n: int, most: int) -> np.ndarray:
    """Up to so many positions among n, evenly spread."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)


def between(
    asked: np.ndarray, knots: np.ndarray | list[float]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Knots (Q,) before and after what is asked (Q,), and the share (Q, 1) of the latter.

    Outside it is that of the nearest knot.
    """
    last = len(knots) - 1
    place = np.interp(asked, knots, np.arange(last + 1))
    before = np.minimum(place.astype(np.int64), max(last - 1, 0))
    return before, np.minimum(before + 1, last), (place - before)[:, None]


def levels_of(scores: np.ndarray) -> np.ndarray:
    """Probability of the interval that ends at errors of some scores."""
    return erf(np.abs(scores) / np.sqrt(2))


def scores_of(errors: np.ndarray) -> np.ndarray:
    """Scores (m, ...) of errors, each among the m with about the same lead."""
    ranks = np.abs(errors).argsort(axis=0, kind="stable").argsort(axis=0)
    return np.copysign(ndtri(0.5 + (ranks + 0.5) / (2 * len(errors))), errors)


def _continue(paths: np.ndarray, rng: np.random.RandomState) -> None:
    """Continue paths (K, J, D), NaN where not known, in place, by those that go further.

    Each by the one that is most like it just before. A channel that was not observed after the
    origin starts as in any other path; one that never was has errors of its own, held.
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
            missing, donors = (np.flatnonzero(known[:, k, j] == own) for own in (False, True))
            if not len(donors):
                paths[missing, k, j] = before[missing, j]
                continue
            there = before[donors]
            apart = (there**2).sum(axis=1) - 2 * before[missing] @ there.T
            paths[missing, k, j] = paths[donors[apart.argmin(axis=1)], k, j]
