"""Ridge regression of each channel on the past of all channels.

The regression corrects the last value of a channel or the forecast of the mixed model. Its features
are the last values of all channels and exponential means of their past. If there are few channels,
cross-validation may add products, and the latest changes of the channel itself (the oldest value of
a moving average is the next to leave it). The regression is *direct*: each lead has its own
coefficients. Values are in standard deviations from the mean of their channel, leads in typical
gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from skpolyode.ensemble.backtest import are_known, nearness
from skpolyode.ensemble.member import NEGLIGIBLE, Asked, Lesson, Member
from skpolyode.panel import series_index
from skpolyode.panel.select import last_seen_rows
from skpolyode.panel.units import Standardised
from skpolyode.saving.codec import saved

_LAST, _MIXED = range(2)  # simple forecasts; the better one is corrected
_OF_OTHERS = [0, 4]  # features of other channels: their last values, and their means over 4 gaps


@dataclass(frozen=True)
class RidgeSettings:
    """Features of the regression, and penalties that cross-validation chooses from.

    With a dose every 70 or 290 gaps and a linear response, most forecasts across a dose have 1.2 to
    8 times the error with a `clip_driven` of 5 as with one of 20; 1000 is no better than 20.
    """

    max_channels: int = 48  # with more, features come from the channel itself only
    few_channels: int = 6  # with more, there are no products of features, and no single changes
    n_changes: int = 20  # latest ones of a channel, each from one observation to the next
    clip: float = 5.0  # standard deviations at which features are clipped
    clip_driven: float = 20.0  # the same for responses to inputs, as impulses may be rare
    strengths: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, 1000.0)  # forecasts the prior is worth


_SETTINGS = RidgeSettings()


@saved(
    leads="J rising",
    centre="D F",
    scale="D F positive inf",
    bases="D J unsigned",
    coefficients="D J F+1",
    strength="unsigned",
    n_driven="unsigned",
)
@dataclass(frozen=True, eq=False)
class DirectRidge(Member):
    """Linear corrections of the better simple forecast of each channel, by lead.

    Parameters
    ----------
    leads : float64 ndarray of shape (J,)
        Rising; corrections are smooth between them, and constant beyond.
    centre, scale : float64 ndarray of shape (D, F)
        Mean and standard deviation of the features.
    bases : int64 ndarray of shape (D, J)
        The simple forecast that is corrected: the last value (0), or that of the mixed model (1).
    coefficients : float64 ndarray of shape (D, J, F + 1)
        Of the standardised features, and a constant.
    with_products : bool
        Whether the features include products of last values and of their differences from means.
    with_changes : bool
        Whether they include the latest changes of the channel.
    strength : float
        Penalty, as the number of forecasts that a prior of zero coefficients is worth.
    n_driven : int
        Number of responses to inputs; the state of a channel holds those at its last observation.
    """

    leads: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    bases: np.ndarray
    coefficients: np.ndarray
    with_products: bool
    with_changes: bool
    strength: float
    n_driven: int

    reads_inputs = True
    extrapolates = False

    @classmethod
    def learn(cls, lesson: Lesson) -> list[Self]:
        """Fit ridge regressions at the knots: to all series, then without each fold of them.

        Cross-validation over these folds chooses the strength and, with few channels, whether the
        features include products and changes. The criterion is the squared error relative to that
        of the last value, a mean over channels and leads. The list is empty if no regression beats
        the last value.
        """
        sample, leads = lesson.sample, lesson.knots
        sample_leads = sample.leads
        known = are_known(sample_leads, sample.actual)
        if not (len(leads) and known.any()):
            return []
        few, n_driven = known.shape[1] <= _SETTINGS.few_channels, sample.driven.shape[1]
        latest = cls.known_at(sample.cells, sample.origins)[sample.origin]
        asked = Asked(sample.elapsed, sample.driven, sample.records, leads[-1], lesson.base)
        features, of_last, channels = _Features.of(asked, latest, few, few), [], []
        for j, rows in enumerate(known.T):
            x, simple = features.of_channel(j, rows)
            n = max(len(x), 1)
            centre = x.sum(axis=0) / n
            scale = np.sqrt(((x - centre) ** 2).sum(axis=0) / n)
            scale = np.where(scale > NEGLIGIBLE, scale, np.inf)  # ignores constant features
            x = _standardised(x, centre, scale, n_driven)
            data = x, sample.actual[rows, j, None] - simple, nearness(sample_leads[rows, j], leads)
            folds = [np.flatnonzero(sample.fold[rows] == k) for k in range(sample.n_folds)]
            sums = [_Sums.of(*(column[fold] for column in data)) for fold in folds]
            of_last.append(sum(part.squares[:, _LAST] for part in sums))
            choices = features.choices(len(centre))
            channels.append([_Folded.of(centre, scale, sums, kept) for kept in choices])
        loss, base = np.array([[fit.loss for fit in fits] for fits in channels]), np.stack(of_last)
        loss = loss.swapaxes(0, 1)  # (choices, D, S, J)
        share = np.divide(loss, base[:, None], out=np.zeros_like(loss), where=base[:, None] > 0)
        share = share.mean(axis=(1, 3))
        if not share.min() < np.mean(base > 0):
            return []
        choice, best = np.unravel_index(share.argmin(), share.shape)
        best_of = zip(*(fits[choice] for fits in channels), strict=True)
        centre, scale, bases, found, _ = map(np.stack, best_of)
        rest = choice in (1, 3), choice in (2, 3), _SETTINGS.strengths[best], n_driven
        folds = range(bases.shape[1])
        return [cls(leads, centre, scale, bases[:, k], found[:, k, best], *rest) for k in folds]

    def start(self, n_series: int, n_channels: int) -> np.ndarray:
        """State (n, D, F + K): responses of 0, and NaN for values."""
        nothing = np.full((n_series, n_channels, _n_recent(n_channels)), np.nan)
        return np.concatenate([np.zeros((n_series, n_channels, self.n_driven)), nothing], axis=-1)

    @staticmethod
    def known_at(rows: Standardised, asked: np.ndarray) -> np.ndarray:
        """State (n, D, F + K): responses when channels were last observed, and K last values.

        The first value is repeated for missing older ones.
        """
        seen, channels = last_seen_rows(rows.values, rows.offsets), np.arange(rows.values.shape[1])
        first, latest = rows.offsets[series_index(rows.offsets)[asked], None], seen[asked]
        recent = [np.empty((*latest.shape, 0))]
        unseen = (latest < 0)[..., None]
        driven = np.where(unseen, 0.0, rows.driven[latest])
        for _ in range(_n_recent(len(channels))):
            recent.append(np.where(unseen, np.nan, rows.values[latest, channels][..., None]))
            before = np.where(latest > first, seen[np.maximum(latest - 1, 0), channels], -1)
            latest = np.where(before < 0, latest, before)
        return np.concatenate([driven, *recent], axis=-1)

    def updated(self, known: np.ndarray, rows: Standardised) -> np.ndarray:
        """State (n, D, F + K) after one more row, new where a channel is observed."""
        value, driven = rows.values[..., None], rows.driven[:, None]
        driven = np.broadcast_to(driven, (*rows.values.shape, driven.shape[-1]))
        older = known[..., self.n_driven : -1]
        new = [driven, value, np.where(np.isnan(older), value, older)]
        new = np.concatenate(new, axis=-1)[..., : known.shape[-1]]  # with many channels, no values
        return np.where(np.isnan(value), known, new)

    def forecast(self, known: np.ndarray, asked: Asked) -> np.ndarray:
        """Forecasts (n, D); longer leads count as the longest one of the regression."""
        asked = asked._replace(longest=self.leads[-1])
        features = _Features.of(asked, known, self.with_products, self.with_changes)
        since = asked.records.time_since(asked.elapsed[:, None])
        found = np.full(since.shape, np.nan)
        for j, coefficients in enumerate(self.coefficients):
            rows = np.isfinite(since[:, j])
            x, simple = features.of_channel(j, rows)
            x = _standardised(x, self.centre[j], self.scale[j], self.n_driven)
            near = nearness(since[rows, j], self.leads)
            found[rows, j] = (near * (simple[:, self.bases[j]] + x @ coefficients.T)).sum(axis=1)
        return found


class _Sums(NamedTuple):
    """Sums for ridge regressions of the errors of simple forecasts on F features, at J leads."""

    grams: np.ndarray  # (J, F + 1, F + 1): of the features
    products: np.ndarray  # (J, F + 1, 2): of features and errors
    squares: np.ndarray  # (J, 2): of errors

    @classmethod
    def of(cls, x: np.ndarray, errors: np.ndarray, weights: np.ndarray) -> Self:
        """Sums over features (n, F + 1) and errors (n, 2), with weights (n, J)."""
        sums = []
        for weight in weights.T:
            rows = weight > 0
            weighted, error = x[rows] * weight[rows, None], errors[rows]
            sums.append((weighted.T @ x[rows], weighted.T @ error, weight[rows] @ error**2))
        return cls(*(np.stack(column) for column in zip(*sums, strict=True)))

    def solve(self) -> tuple[np.ndarray, np.ndarray]:
        """Index of the better simple forecast (J,), and coefficients (S, J, F + 1) of its error."""
        bases = self.squares.argmin(axis=1)
        product = np.take_along_axis(self.products, bases[:, None, None], axis=2)
        identity = np.eye(self.grams.shape[-1])
        found = [np.linalg.solve(self.grams + s * identity, product) for s in _SETTINGS.strengths]
        return bases, np.stack(found)[..., 0]

    def loss(self, bases: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Squared errors (S, J) of simple forecasts `bases` (J,), corrected by `coefficients`."""
        leads = np.arange(len(bases))
        change = np.einsum("sjf,jfg->sjg", coefficients, self.grams, optimize=True)
        change -= 2 * self.products[leads, :, bases]
        return self.squares[leads, bases] + (change * coefficients).sum(axis=-1)


class _Folded(NamedTuple):
    """Ridge regressions of one channel with S strengths: on all K folds, then without each."""

    centre: np.ndarray  # (F,): of the features
    scale: np.ndarray  # (F,)
    bases: np.ndarray  # (K + 1, J)
    coefficients: np.ndarray  # (K + 1, S, J, F + 1)
    loss: np.ndarray  # (S, J): cross-validated squared errors, summed over folds

    @classmethod
    def of(cls, centre: np.ndarray, scale: np.ndarray, sums: list[_Sums], kept: np.ndarray) -> Self:
        """Fit to the sums of each fold, with the features at positions `kept` and a constant."""
        chosen = np.append(kept, len(centre))
        folds = [
            _Sums(fold.grams[:, chosen[:, None], chosen], fold.products[:, chosen], fold.squares)
            for fold in sums
        ]
        total = _Sums(*map(sum, zip(*folds, strict=True)))
        fits = [total.solve(), *(_Sums(*map(np.subtract, total, x)).solve() for x in folds)]
        loss = sum(fold.loss(*fit) for fold, fit in zip(folds, fits[1:], strict=True))
        return cls(centre[kept], scale[kept], *map(np.stack, zip(*fits, strict=True)), loss)


class _Features(NamedTuple):
    """Features of n forecasts."""

    simple: np.ndarray  # (n, D, 2): last values, and forecasts of the mixed model
    since: np.ndarray  # (n, D): leads
    n_values: np.ndarray  # (n, D), at least 1
    elapsed: np.ndarray  # (n,)
    levels: np.ndarray  # (n, D, 8): last values, and differences of mean and exponential means
    changes: np.ndarray  # (n, D, K - 1): between last values, the latest first; few channels only
    shared: np.ndarray  # (n, S): of all channels
    before: np.ndarray  # (n, D, F): responses to inputs when the channels were last observed
    driven: np.ndarray  # (n, F): responses at the forecast times
    n_products: int  # number of products, the last ones of the shared features

    @classmethod
    def of(cls, asked: Asked, known: np.ndarray, with_products: bool, with_changes: bool) -> Self:
        elapsed, driven, records, longest, base = asked
        before, recent = np.split(known, [driven.shape[1]], axis=-1)
        since = records.time_since(elapsed[:, None])
        latest = records.last_time.max(axis=1, initial=0.0)
        elapsed = np.minimum(elapsed, latest + longest)  # features are constant from there on
        # On a path past the end of one channel, others may be observed still later.
        since = np.where(np.isinf(since), 0.0, np.clip(since, 0.0, longest))
        simple = np.stack([records.last, base], axis=-1)
        last = records.last[..., None]
        means = np.concatenate([records.mean[..., None], records.means], axis=-1)
        levels = np.concatenate([last, means - last], axis=-1)
        shared, n, n_products = [], len(last), 0
        if last.shape[1] <= _SETTINGS.max_channels:
            shared.append(levels[..., _OF_OTHERS].reshape(n, -1))
        if with_products:
            factors = levels[..., [0, 2]].reshape(n, -1)
            factors = np.clip(factors, -_SETTINGS.clip, _SETTINGS.clip)
            one, other = np.triu_indices(factors.shape[1])
            n_products = len(one)
            shared.append(factors[:, one] * factors[:, other])
        shared = np.hstack([np.empty((n, 0)), *shared])
        first = simple, since, np.maximum(records.n_values, 1), np.maximum(elapsed, 0.0)
        changes = -np.diff(recent if with_changes else recent[..., :1], axis=-1)
        return cls(*first, levels, changes, shared, before, driven, n_products)

    def of_channel(self, channel: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Features (m, F) of a channel, and its simple forecasts (m, 2), at `rows` (n,)."""
        simple, levels = self.simple[rows, channel], self.levels[rows, channel]
        n_values = self.n_values[rows, channel]
        # Slopes depend on the number of values: if they are few, the series may have begun earlier.
        known = np.log(n_values)[:, None]
        x = [levels, levels * known, simple[:, [_MIXED]] * known, known, known**2, 1 / n_values]
        x += [np.log1p(self.since[rows, channel]), np.log1p(self.elapsed[rows])]
        before = self.before[rows, channel]
        x += [simple[:, _MIXED] - simple[:, _LAST], self.shared[rows]]
        x += [self.changes[rows, channel]]
        return np.column_stack([*x, before, self.driven[rows] - before]), simple

    def choices(self, n_features: int) -> list[np.ndarray]:
        """Positions of the features in each candidate set.

        With few channels there are four: without products and changes, with products, with changes,
        and with both.
        """
        every, stop = np.arange(n_features), n_features - 2 * self.driven.shape[1]
        middle = stop - self.changes.shape[-1]
        start = middle - self.n_products
        left_out = slice(start, stop), slice(middle, stop), slice(start, middle), slice(0)
        return [np.delete(every, out) for out in left_out] if self.n_products else [every]


def _n_recent(n_channels: int) -> int:
    """Number K of last values kept for each channel."""
    return 1 + _SETTINGS.n_changes if n_channels <= _SETTINGS.few_channels else 0


def _standardised(
    x: np.ndarray, centre: np.ndarray, scale: np.ndarray, n_driven: int
) -> np.ndarray:
    """Features (n, F) standardised and clipped, and a constant.

    The last ones, two for each of `n_driven` responses to inputs, are clipped less.
    """
    limits = np.full(x.shape[1], _SETTINGS.clip)
    limits[len(limits) - 2 * n_driven :] = _SETTINGS.clip_driven
    x = np.clip((x - centre) / scale, -limits, limits)
    return np.column_stack([x, np.ones(len(x))])
