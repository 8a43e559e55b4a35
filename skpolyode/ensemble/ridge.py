"""Ridge regression of each channel on what is known of the past of all channels.

The regression corrects the last value of a channel or the forecast of the mixed model, by the last
values of all channels and by means of their past that forget. It is *direct*: each lead has its own
coefficients. Values are in standard deviations from the mean of their channel, leads in typical
gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from skpolyode.ensemble.backtest import N_FOLDS, Sample, are_known, folds_of, nearness
from skpolyode.ensemble.records import NEGLIGIBLE, Records
from skpolyode.saving.codec import saved

_LAST, _MIXED = range(2)  # simple forecasts, of which the better one is corrected
_OF_OTHERS = [0, 4]  # features of other channels: their last values, and their means over 4 gaps


@dataclass(frozen=True)
class RidgeSettings:
    """Features of the regression, and strengths that cross-validation chooses from.

    With a dose in 70 or in 290 gaps and a linear response, most forecasts across a dose err 1.2 to
    8 times as much with a `clip_driven` of 5 as with one of 20, and no less with one of 1000.
    """

    max_channels: int = 48  # with more, features come from the channel itself only
    max_channels_in_products: int = 6  # with more, there are no products of features
    clip: float = 5.0  # standard deviations; features further out count as being there
    clip_driven: float = 20.0  # the same of responses to inputs, as impulses may be rare
    strengths: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, 1000.0)  # forecasts that speak for 0


_SETTINGS = RidgeSettings()


@saved
@dataclass(frozen=True, eq=False)
class DirectRidge:
    """Linear corrections of the better simple forecast of each channel, at some leads.

    Parameters
    ----------
    leads : float64 ndarray of shape (J,)
        Rising; corrections are linear between them, and held beyond.
    centre, scale : float64 ndarray of shape (D, F)
        Mean and standard deviation of the features.
    bases : int64 ndarray of shape (D, J)
        Which simple forecast is corrected: the last value (0), or that of the mixed model (1).
    coefficients : float64 ndarray of shape (D, J, F + 1)
        Of the standardised features, and a constant.
    with_products : bool
        Whether the features include products of last values and latest changes.
    strength : float
        Of the penalty, in forecasts that speak for 0.
    """

    leads: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    bases: np.ndarray
    coefficients: np.ndarray
    with_products: bool
    strength: float

    @classmethod
    def learn(cls, leads: np.ndarray, sample: Sample, mixed: np.ndarray) -> Self | None:
        """Fit ridge regressions at leads (J,), with the strength that cross-validation chooses.

        Folds are made of series; `mixed` (M, D) are forecasts of the mixed model. With few
        channels, cross-validation also decides whether the features include products. None where
        no regression is better than the last value.
        """
        best, least = None, 1.0
        few = sample.actual.shape[1] <= _SETTINGS.max_channels_in_products
        for with_products in (False, True) if few else (False,):
            options = with_products, _SETTINGS.strengths
            found = cls._cross_validated(leads, sample, mixed, N_FOLDS, *options)
            if found is not None and found[1] < least:
                best, least = found
        return best

    def relearned(self, sample: Sample, mixed: np.ndarray) -> Self | None:
        """The same features and strength, with coefficients from another sample."""
        options = self.with_products, (self.strength,)
        found = self._cross_validated(self.leads, sample, mixed, 1, *options)
        return None if found is None else found[0]

    @classmethod
    def _cross_validated(
        cls,
        leads: np.ndarray,
        sample: Sample,
        mixed: np.ndarray,
        n_folds: int,
        with_products: bool,
        strengths: tuple[float, ...],
    ) -> tuple[Self, float] | None:
        """The regression of the best strength, and its error relative to the last value.

        That is the mean, over channels and leads, of the share of the squared error that is left.
        """
        own_leads = sample.leads
        known = are_known(own_leads, sample.actual)
        if not known.any():
            return None
        folds, wrong, wrong_of_last = folds_of(sample.series, n_folds), [], []
        parts = sample.records, sample.elapsed, mixed, with_products, leads[-1], sample.driven
        features, parts = _Features.of(*parts), []
        for j in range(known.shape[1]):
            rows = known[:, j]
            x, simple = features.of_channel(j, rows)
            n = max(len(x), 1)
            centre = x.sum(axis=0) / n
            scale = np.sqrt(((x - centre) ** 2).sum(axis=0) / n)
            scale = np.where(scale > NEGLIGIBLE, scale, np.inf)  # constant features have no say
            errors = sample.actual[rows, j, None] - simple
            x = _standardised(x, centre, scale, features.n_driven)
            near, fold = nearness(own_leads[rows, j], leads), folds[rows]
            sums = [_Sums.of(x, errors, near * (fold == k)[:, None]) for k in range(n_folds)]
            total = _Sums(*(np.sum(column, axis=0) for column in zip(*sums, strict=True)))
            parts.append((centre, scale, *total.solve(strengths)))
            wrong_of_last.append(total.squares[:, _LAST])
            wrong.append(0.0)
            for k, own in enumerate(sums):
                out = fold == k
                bases, found = _Sums(*map(np.subtract, total, own)).solve(strengths)
                left = errors[out][:, bases] - np.einsum("nf,sjf->snj", x[out], found)
                left = (near[out] * left).sum(axis=-1)
                wrong[-1] = wrong[-1] + left**2 @ near[out]
        # Squared errors (D, S, J) of each strength, beside those (D, 1, J) of the last value.
        wrong, base = np.stack(wrong), np.stack(wrong_of_last)[:, None]
        if not base.any():
            return None
        left = np.divide(wrong, base, out=np.zeros_like(wrong), where=base > 0).mean(axis=(0, 2))
        best = int(left.argmin())
        centre, scale, bases, found = (np.stack(part) for part in zip(*parts, strict=True))
        own = cls(leads, centre, scale, bases, found[:, best], with_products, strengths[best])
        return own, float(left[best] / np.mean(base > 0))

    def at(
        self, records: Records, elapsed: np.ndarray, mixed: np.ndarray, driven: np.ndarray
    ) -> np.ndarray:
        """Forecasts (n, D) from records and mixed forecasts (n, D), for times `elapsed` (n,).

        `driven` (n, F) are the responses to inputs at these times, F = 0 if training had none.
        0 of a channel that has not been observed. Leads stop at the longest one of training.
        """
        parts = records, elapsed, mixed, self.with_products, self.leads[-1], driven
        features = _Features.of(*parts)
        since = records.time_since(elapsed[:, None])
        found = np.zeros(since.shape)
        for j, coefficients in enumerate(self.coefficients):
            rows = np.isfinite(since[:, j])
            x, simple = features.of_channel(j, rows)
            x = _standardised(x, self.centre[j], self.scale[j], features.n_driven)
            near = nearness(since[rows, j], self.leads)
            found[rows, j] = (near * (simple[:, self.bases[j]] + x @ coefficients.T)).sum(axis=1)
        return found


class _Sums(NamedTuple):
    """Sums that decide ridge regressions at J leads of the errors of simple forecasts."""

    grams: np.ndarray  # (J, F + 1, F + 1): of the features
    products: np.ndarray  # (J, F + 1, 2): of features and errors
    squares: np.ndarray  # (J, 2): of errors

    @classmethod
    def of(cls, x: np.ndarray, errors: np.ndarray, weights: np.ndarray) -> Self:
        """Of features (n, F + 1) and errors (n, 2), with weights (n, J)."""
        sums = []
        for weight in weights.T:
            rows = weight > 0
            weighted, own = x[rows] * weight[rows, None], errors[rows]
            sums.append((weighted.T @ x[rows], weighted.T @ own, weight[rows] @ own**2))
        return cls(*(np.stack(column) for column in zip(*sums, strict=True)))

    def solve(self, strengths: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The better simple forecast (J,), and coefficients (S, J, F + 1) of its error."""
        bases = self.squares.argmin(axis=1)
        product = np.take_along_axis(self.products, bases[:, None, None], axis=2)
        identity = np.eye(self.grams.shape[-1])
        found = [np.linalg.solve(self.grams + s * identity, product) for s in strengths]
        return bases, np.stack(found)[..., 0]


class _Features(NamedTuple):
    """Features of n forecasts."""

    simple: np.ndarray  # (n, D, 2): last values, and forecasts of the mixed model
    since: np.ndarray  # (n, D): leads
    n_values: np.ndarray  # (n, D), 1 at least
    elapsed: np.ndarray  # (n,)
    levels: np.ndarray  # (n, D, 8): last values, and from there to means, of all and over spans
    shared: np.ndarray  # (n, S): of all channels
    before: np.ndarray  # (n, D, F): responses to inputs when the channels were last observed
    driven: np.ndarray  # (n, F): at the times that are forecast

    @classmethod
    def of(
        cls,
        records: Records,
        elapsed: np.ndarray,
        mixed: np.ndarray,
        with_products: bool,
        longest: float,
        driven: np.ndarray,
    ) -> Self:
        since = records.time_since(elapsed[:, None])
        latest = records.last_time.max(axis=1, initial=0.0)
        elapsed = np.minimum(elapsed, latest + longest)  # all is held from there on
        # On a path past the end of one channel, others may be observed later still.
        since = np.where(np.isinf(since), 0.0, np.clip(since, 0.0, longest))
        simple = np.stack([records.last, mixed], axis=-1)
        last = records.last[..., None]
        means = np.concatenate([records.mean[..., None], records.means], axis=-1)
        levels = np.concatenate([last, means - last], axis=-1)
        shared, n = [], len(last)
        if last.shape[1] <= _SETTINGS.max_channels:
            shared.append(levels[..., _OF_OTHERS].reshape(n, -1))
        if with_products:
            factors = levels[..., [0, 2]].reshape(n, -1)
            factors = np.clip(factors, -_SETTINGS.clip, _SETTINGS.clip)
            one, other = np.triu_indices(factors.shape[1])
            shared.append(factors[:, one] * factors[:, other])
        shared = np.hstack([np.empty((n, 0)), *shared])
        own = simple, since, np.maximum(records.n_values, 1), np.maximum(elapsed, 0.0)
        return cls(*own, levels, shared, records.driven, driven)

    def of_channel(self, channel: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Features (m, F) of a channel, and its simple forecasts (m, 2), at `rows` (n,)."""
        simple, levels = self.simple[rows, channel], self.levels[rows, channel]
        n_values = self.n_values[rows, channel]
        own = [levels, levels[:, :2] * np.log(n_values)[:, None], 1 / n_values]
        own += [np.log1p(self.since[rows, channel]), np.log1p(self.elapsed[rows])]
        before = self.before[rows, channel]
        own += [simple[:, _MIXED] - simple[:, _LAST], self.shared[rows]]
        return np.column_stack([*own, before, self.driven[rows] - before]), simple

    @property
    def n_driven(self) -> int:
        """How many features of a channel, the last ones, tell of inputs."""
        return 2 * self.driven.shape[1]


def _standardised(
    x: np.ndarray, centre: np.ndarray, scale: np.ndarray, n_driven: int
) -> np.ndarray:
    """Features (n, F) in standard deviations, of which the last ones tell of inputs; a constant."""
    limits = np.full(x.shape[1], _SETTINGS.clip)
    limits[len(limits) - n_driven :] = _SETTINGS.clip_driven
    x = np.clip((x - centre) / scale, -limits, limits)
    return np.column_stack([x, np.ones(len(x))])
