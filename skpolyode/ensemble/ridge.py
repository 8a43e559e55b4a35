"""A regression on simple forecasts of all channels: what a line can know without dynamics.

What comes of a channel is what its simple forecasts say, each with a weight, and a little of what
is known of the other channels: a storm goes on as it moved lately, but bends by where it is. Such
weights are learned at some leads, from series that the model was trained on, since there are many
of them and little to be learned. All values are in standard deviations from the mean of their
channel, and leads in typical gaps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from skpolyode.ensemble.naive import (
    NAIVE,
    last_values,
    observation_counts,
    simple_forecasts,
    slopes,
    time_since,
)
from skpolyode.saving.codec import saved

__all__ = ["DirectRidge", "Sample", "are_known", "nearness"]

_LAST, _RECENT, _MEAN, _MOTION, _DRIFT = (
    NAIVE.index(name) for name in ("last", "recent", "mean", "motion", "drift")
)
_MOST_CHANNELS = 48  # that each other one may depend on
_MOST_IN_PRODUCTS = 6
_FURTHEST = 5.0  # standard deviations that what is known counts from its mean
_STRENGTHS = (10.0, 100.0, 1000.0)  # forecasts that speak for the best simple one
_CHUNK = 20_000  # forecasts at a time


class Sample(NamedTuple):
    """What is known before M forecasts, and what came."""

    records: np.ndarray  # float64 (M, D, 12)
    elapsed: np.ndarray  # float64 (M,): for when, in the time of the records
    actual: np.ndarray  # float64 (M, D), NaN where not observed


@saved
@dataclass(frozen=True, eq=False)
class DirectRidge:
    """Linear corrections of the best simple forecast of each channel, at some leads.

    Parameters
    ----------
    leads : float64 ndarray of shape (J,)
        Rising; forecasts are linear between them, and those of the nearest one beyond.
    centre, scale : float64 ndarray of shape (D, F)
        Mean and standard deviation of what is known.
    bases : int64 ndarray of shape (D, J)
        Which of the simple forecasts is the best.
    coefficients : float64 ndarray of shape (D, J, F + 1)
        Of what is known, and a constant, in what is added.
    with_products : bool
        Whether products of last values and motions are among what is known.
    """

    leads: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    bases: np.ndarray
    coefficients: np.ndarray
    with_products: bool

    @classmethod
    def learn(cls, leads: np.ndarray, sample: Sample, tested: Sample) -> Self | None:
        """Ridge regressions at some leads (J,), as strong as other forecasts ask for.

        Each forecast tells of both leads that its own lies between. With few channels what is known
        may have products; that and the strength of the ridge are those of the least squared error
        in what is tested. None where nothing is better than the last value.
        """
        since = _since(tested)
        known = are_known(since, tested.actual)
        if not known.any() or not len(sample.actual):
            return None
        near = nearness(np.where(known, since, 0.0), leads)

        def errors(of: np.ndarray) -> np.ndarray:
            """Sums of squares (D, J)."""
            squares = np.where(known, (of - tested.actual) ** 2, 0.0)
            return np.einsum("mdj,md->dj", near, squares)

        base = errors(last_values(tested.records))
        best, least = None, float(np.mean(base > 0))
        few = sample.actual.shape[1] <= _MOST_IN_PRODUCTS
        for with_products in (False, True) if few else (False,):
            for own in cls._of_strengths(leads, sample, with_products):
                wrong = errors(own.at(tested.records, tested.elapsed))
                left = np.divide(wrong, base, out=np.zeros_like(base), where=base > 0).mean()
                if left < least:
                    best, least = own, float(left)
        return best

    @classmethod
    def _of_strengths(cls, leads: np.ndarray, sample: Sample, with_products: bool) -> list[Self]:
        """One for each strength of the ridge."""
        since, parts = _since(sample), []
        known = are_known(since, sample.actual)
        what = _Known.of(sample.records, sample.elapsed, with_products, leads[-1])
        for j in range(sample.actual.shape[1]):
            some = known[:, j]
            x, simple = what.of_channel(j, some)
            n = max(len(x), 1)
            centre = x.sum(axis=0) / n
            scale = np.sqrt(((x - centre) ** 2).sum(axis=0) / n)
            scale = np.where(scale > 1e-6, scale, np.inf)  # of what does not differ
            x = _standardised(x, centre, scale)
            near = nearness(since[some, j], leads)
            wrong = sample.actual[some, j, None] - simple
            bases = (near.T @ wrong**2).argmin(axis=1)
            parts.append((centre, scale, bases, _ridges(x, wrong[:, bases], near)))
        centre, scale, bases, found = (np.stack(part) for part in zip(*parts, strict=True))
        return [
            cls(leads, centre, scale, bases, own, with_products) for own in found.swapaxes(0, 1)
        ]

    def at_times(self, records: np.ndarray, elapsed: np.ndarray) -> np.ndarray:
        """Forecasts (n, Q, D) of n series, for when `elapsed` (n, Q) says."""
        series, place = np.divmod(np.arange(elapsed.size), elapsed.shape[1])
        found = np.empty((elapsed.size, records.shape[1]))
        for start in range(0, elapsed.size, _CHUNK):
            some = slice(start, start + _CHUNK)
            found[some] = self.at(records[series[some]], elapsed[series[some], place[some]])
        return found.reshape(*elapsed.shape, -1)

    def at(self, records: np.ndarray, elapsed: np.ndarray) -> np.ndarray:
        """Forecasts (n, D) from records (n, D, 12), for when `elapsed` (n,) says.

        0 of a channel that has not been observed. No motion goes on beyond the longest lead.
        """
        what = _Known.of(records, elapsed, self.with_products, self.leads[-1])
        since, found = time_since(records, elapsed[:, None]), np.zeros(records.shape[:2])
        for j, own in enumerate(self.coefficients):
            some = np.isfinite(since[:, j])
            x, simple = what.of_channel(j, some)
            x = _standardised(x, self.centre[j], self.scale[j])
            near = nearness(since[some, j], self.leads)
            found[some, j] = (near * (simple[:, self.bases[j]] + x @ own.T)).sum(axis=1)
        return found

    def rescaled(self, ratio: float) -> Self:
        """The same for a model whose unit of time is shorter by `ratio`."""
        return replace(self, leads=self.leads * ratio)


class _Known(NamedTuple):
    """What is known before n forecasts."""

    simple: np.ndarray  # (n, D, 5)
    since: np.ndarray  # (n, D)
    counts: np.ndarray  # (n, D)
    elapsed: np.ndarray  # (n,)
    motions: np.ndarray  # (n, D, 2): over more than one gap
    shared: np.ndarray  # (n, S): of all channels

    @classmethod
    def of(
        cls, records: np.ndarray, elapsed: np.ndarray, with_products: bool, furthest: float
    ) -> Self:
        since = time_since(records, elapsed[:, None])
        # On a path that a channel has left behind, others may be observed later still.
        since = np.where(np.isinf(since), 0.0, np.clip(since, 0.0, furthest))
        simple = simple_forecasts(records, since)
        last = simple[..., _LAST]
        shared = [last, simple[..., _MOTION] - last, simple[..., _MEAN] - last]
        if last.shape[1] > _MOST_CHANNELS:
            shared = []
        if with_products:
            factors = np.clip(np.hstack(shared[:2]), -_FURTHEST, _FURTHEST)
            one, other = np.triu_indices(factors.shape[1])
            shared.append(factors[:, one] * factors[:, other])
        counts = observation_counts(records)
        shared = np.hstack([np.empty((len(last), 0)), *shared])
        motions = since[..., None] * slopes(records)
        return cls(simple, since, counts, np.maximum(elapsed, 0.0), motions, shared)

    def of_channel(self, channel: int, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is known (m, F) of a channel, and simple forecasts (m, 5), of `some` (n,)."""
        simple = self.simple[some, channel]
        last, count = simple[:, _LAST], np.maximum(self.counts[some, channel], 1)
        level, lead = simple[:, _MEAN] - last, self.since[some, channel]
        own = [last, level, level / count, 1 / count, np.log1p(lead), np.log1p(self.elapsed[some])]
        own += [simple[:, place] - last for place in (_RECENT, _MOTION, _DRIFT)]
        own += [*self.motions[some, channel].T]
        return np.column_stack([*own, self.shared[some]]), simple


def are_known(leads: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Which forecasts tell something: ahead of an observation, and of what then came."""
    return np.isfinite(leads) & np.isfinite(actual) & (leads > 0)


def nearness(leads: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """How much each of some leads (...) is of each knot (..., J); linear between two of them."""
    place = np.interp(leads, knots, np.arange(len(knots)))
    return np.maximum(1 - np.abs(place[..., None] - np.arange(len(knots))), 0.0)


def _since(sample: Sample) -> np.ndarray:
    return time_since(sample.records, sample.elapsed[:, None])


def _standardised(x: np.ndarray, centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """What is known (n, F), and a constant."""
    x = np.clip((x - centre) / scale, -_FURTHEST, _FURTHEST)
    return np.column_stack([x, np.ones(len(x))])


def _ridges(x: np.ndarray, y: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Coefficients (K, J, F + 1) of y (n,) in x (n, F + 1), with weights (n, J)."""
    found = np.zeros((len(_STRENGTHS), near.shape[1], x.shape[1]))
    for j, weight in enumerate(near.T):
        some = weight > 0
        own = x[some]
        weighted = own * weight[some, None]
        square, product = weighted.T @ own, weighted.T @ y[some, j]
        for k, strength in enumerate(_STRENGTHS):
            found[k, j] = np.linalg.solve(square + strength * np.eye(len(square)), product)
    return found
