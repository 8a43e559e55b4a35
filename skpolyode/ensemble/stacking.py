"""Stacking: convex combinations of a model's free run with naive forecasts and a ridge regression.

A free run of learned dynamics is the best forecast where the dynamics are known. Where they are
not, or where nothing can be predicted any more, a naive forecast may be better. A backtest on data
that did not train the model decides the weights, by channel and lead. Values are in standard
deviations from the mean of their channel, leads in typical gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.optimize import nnls

from skpolyode.ensemble.backtest import (
    N_FOLDS,
    Backtest,
    Forecasts,
    Sample,
    are_known,
    effective_count,
    folds_of,
    knots_of,
    members_of,
    nearness,
    rolling_origins,
    run_backtest,
    sample_records,
)
from skpolyode.ensemble.decompose import Residuals
from skpolyode.ensemble.naive import NAIVE, NEGLIGIBLE, Records
from skpolyode.ensemble.ridge import DirectRidge
from skpolyode.panel import Panel
from skpolyode.saving.codec import saved

__all__ = [
    "StackedForecast",
    "StackingSettings",
    "Weights",
    "cross_fitted",
    "learn_stacking",
    "with_ridge",
]

_MEMBERS = ("run", *NAIVE, "ridge")  # the last one is missing where there is none
_RUN, _LAST, _RIDGE = map(_MEMBERS.index, ("run", "last", "ridge"))


@dataclass(frozen=True)
class StackingSettings:
    """How strongly weights are shrunk, and where they do not apply."""

    prior: float = 10.0  # forecasts that speak for the weights that others are shrunk towards
    margin: float = 1.0  # standard deviations beyond the training range, over which the model fades
    clip: float = 1e4  # largest error, in multiples of those of the best member
    sum_weight: float = 1e4  # of the equation that weights sum to one, beside those of the errors


SETTINGS = StackingSettings()
_TINY = 1e-9  # numerical guard: of a sum of weights, and of the diagonal of a matrix


@saved
@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of the members for one channel: linear between leads, held beyond.

    Parameters
    ----------
    leads : float64 ndarray of shape (J,)
        Rising from 0.
    weights : float64 ndarray of shape (J, G)
        Of the free run, the five naive forecasts, and the ridge regression if there is one; none
        is negative. What is missing to a sum of one is the weight of the mean in training, 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.ensemble.stacking import Weights
    >>> half = np.array([0.5, 0.0, 0.0, 0.0, 0.0, 0.0])
    >>> damped = Weights(np.array([0.0, 8.0]), np.stack([2 * half, half]))
    >>> damped.at(np.array([4.0, 99.0]))[:, 0].tolist()
    [0.75, 0.5]
    """

    leads: np.ndarray
    weights: np.ndarray

    def at(self, leads: np.ndarray) -> np.ndarray:
        """Weights (..., G) at leads (...)."""
        return np.stack([np.interp(leads, self.leads, own) for own in self.weights.T], axis=-1)


@saved
@dataclass(frozen=True, eq=False)
class StackedForecast:
    """Convex combinations of a model's free run, naive forecasts and a ridge regression.

    Parameters
    ----------
    channels : tuple of Weights
        Of each channel.
    lowest, highest : float64 ndarray of shape (D,)
        Range of each channel in training. The further a series is outside, by up to one standard
        deviation, the more the weights of the free run, of the regression and of the mean move to
        the last value: the model has not seen such values.
    ridge : DirectRidge or None, default=None
        The seventh member.
    """

    channels: tuple[Weights, ...]
    lowest: np.ndarray
    highest: np.ndarray
    ridge: DirectRidge | None = None

    @classmethod
    def learn(
        cls,
        backtest: Backtest,
        lowest: np.ndarray,
        highest: np.ndarray,
        ridge: DirectRidge | None = None,
    ) -> Self:
        """Weights of the least squared error in a backtest, shrunk.

        Weights of all channels together are learned first. At the shortest leads they are shrunk
        towards the best single member, at each longer lead towards those at the lead before.
        Those of a channel are shrunk towards them. The prior counts as much as a few forecasts
        that do not overlap and err as the best member does. Without any forecasts, all weight is
        on the free run.
        """
        return cls(_stacked(backtest), lowest, highest, ridge)

    def rescaled(self, ratio: float, lowest: np.ndarray, highest: np.ndarray) -> Self:
        """The same for a model whose unit of time is shorter by `ratio`, and of another range."""
        channels = tuple(Weights(own.leads * ratio, own.weights) for own in self.channels)
        return type(self)(channels, lowest, highest, self.ridge and self.ridge.rescaled(ratio))

    @property
    def mean_weights(self) -> dict[str, float]:
        """Weight of each member, and of the mean in training, over all channels and leads."""
        weights = np.mean([own.weights.mean(axis=0) for own in self.channels], axis=0)
        names = _MEMBERS[: len(weights)]
        members = dict(zip(names, map(float, weights), strict=True))
        return members | {"training mean": max(1.0 - sum(members.values()), 0.0)}

    def combine(self, run: np.ndarray, records: Records, elapsed: np.ndarray) -> np.ndarray:
        """Forecasts (n, Q, D) from free runs (n, Q, D) and the records (n, D) of their series.

        `elapsed` (n, Q) are the times that are forecast, in the units of the records.
        """
        result = np.empty_like(run)
        ridge = None if self.ridge is None else self.ridge.at_times(records, elapsed)
        for j, own in enumerate(self.channels):
            record = records[np.s_[:, None, j]]
            leads = np.minimum(record.time_since(elapsed), own.leads[-1])
            regressed = None if ridge is None else ridge[..., j]
            members = members_of(run[..., j], record, leads, regressed)
            weights = self._kept_inside(own.at(leads), record.last, j)
            result[..., j] = (weights * members).sum(axis=-1)
        return result

    def _kept_inside(self, weights: np.ndarray, last: np.ndarray, channel: int) -> np.ndarray:
        """Weights (n, Q, G) where the last values (n, 1) may be outside the range of training."""
        outside = np.maximum(self.lowest[channel] - last, last - self.highest[channel])
        share = np.clip(outside / SETTINGS.margin, 0.0, 1.0)
        if not share.any():
            return weights
        moved = weights.copy()
        moved[..., [_RUN] if self.ridge is None else [_RUN, _RIDGE]] *= 1 - share[..., None]
        rest = (1 - weights.sum(axis=-1)) * (1 - share)  # of the mean in training
        moved[..., _LAST] += 1 - rest - moved.sum(axis=-1)
        return moved


def learn_stacking(
    model: Forecasts, trained: Panel, tested: Panel | None, rng: np.random.RandomState
) -> StackedForecast:
    """Learn the weights of a model and naive forecasts from a backtest on held-out series.

    Without held-out series, those of training take their place, and there is no regression.
    """
    sample = None if tested is None else sample_records(model, trained, rng)
    asked = rolling_origins(model, trained if tested is None else tested, rng)
    backtest = run_backtest(model, asked, Residuals.unchanged(asked.panel, asked.origins))
    backtest, ridge = with_ridge(backtest, sample)
    return StackedForecast.learn(backtest, *model.range_of(trained), ridge)


def with_ridge(backtest: Backtest, sample: Sample | None) -> tuple[Backtest, DirectRidge | None]:
    """Add to a backtest the forecasts of a ridge regression that learns from a sample.

    The series of the sample must be others than those of the backtest, which judges the ridge.
    """
    knots = knots_of(backtest.leads, backtest.actual)
    if sample is None or not len(knots):
        return backtest, None
    ridge = DirectRidge.learn(knots, sample)
    if ridge is None:
        return backtest, None
    records, elapsed, *_ = backtest.sample
    run, regressed = backtest.members[..., _RUN], ridge.at(records, elapsed)
    members = members_of(run, records, backtest.leads, regressed)
    return backtest._replace(members=members), ridge


def cross_fitted(backtest: Backtest, n_folds: int = N_FOLDS) -> np.ndarray:
    """Combined forecasts (M, D) of a backtest, each by weights learned from the other folds."""
    result = np.empty_like(backtest.actual)
    folds = folds_of(backtest.series, n_folds, backtest.times)
    for fold in np.unique(folds):
        out = folds == fold
        weights, own = _stacked(backtest.of(~out)), backtest.of(out)
        for j, channel in enumerate(weights):
            result[out, j] = (channel.at(own.leads[:, j]) * own.members[:, j]).sum(axis=-1)
    return result


def _stacked(backtest: Backtest) -> tuple[Weights, ...]:
    """Weights of each channel."""
    n_channels, knots = backtest.leads.shape[1], knots_of(backtest.leads, backtest.actual)
    if not len(knots):
        run_only = np.eye(backtest.members.shape[-1])[:1]
        return (Weights(np.zeros(1), run_only),) * n_channels
    known = are_known(backtest.leads, backtest.actual)
    parts = [_error_products(backtest, known[:, j], j, knots) for j in range(n_channels)]
    # Errors of several channels may be correlated: all of them count as one channel does.
    pooled = np.mean(parts, axis=0)
    n_knots, size = pooled.shape[:2]
    best, steps = np.zeros((n_knots, size)), np.eye(n_knots) - np.eye(n_knots, k=-1)
    best[:, np.diagonal(pooled[0, :, 0]).argmin()] = 1.0
    by_lead = _convex_weights(pooled, np.kron(steps.T @ steps, np.eye(size)), best)
    own = [_convex_weights(part, np.eye(by_lead.size), by_lead)[:, :-1] for part in parts]
    return tuple(_from_zero(knots, weights, backtest.anchored) for weights in own)


def _error_products(
    backtest: Backtest, known: np.ndarray, channel: int, knots: np.ndarray
) -> np.ndarray:
    """Sums (J, G, J, G) of products of errors, weighted by how near leads are to J knots.

    The members are those of the backtest, and the mean in training. Errors are relative to those
    of the best member at about the same lead, and count as many times as there are forecasts that
    do not overlap.
    """
    leads, actual = backtest.leads[known, channel], backtest.actual[known, channel]
    members = np.column_stack([backtest.members[known, channel], np.zeros(len(leads))])
    errors = members - actual[:, None]
    # Weights are linear between knots: each forecast counts at both knots around its lead.
    near, n_knots = nearness(leads, knots), len(knots)  # (m, J)
    least = np.array([(own @ errors**2 / max(own.sum(), _TINY)).min() for own in near.T])
    series, times = backtest.series[known], backtest.times[known]
    apart = [
        effective_count(series[own > 0], times[own > 0], lead)
        for own, lead in zip(near.T, knots, strict=True)
    ]
    scale = near @ np.sqrt(np.where(least > 0, least, 1.0))
    counts = np.maximum(near.sum(axis=0), _TINY)
    weight = near @ np.where(least > 0, apart / counts, 0.0)
    errors = np.clip(errors / scale[:, None], -SETTINGS.clip, SETTINGS.clip)
    errors *= np.sqrt(weight)[:, None]
    products = np.zeros((n_knots, errors.shape[1], n_knots, errors.shape[1]))
    for j in range(n_knots):
        for i in range(max(j - 1, 0), min(j + 2, n_knots)):
            both = near[:, j] * near[:, i]
            products[j, :, i] = (errors * both[:, None]).T @ errors
    return products


def _convex_weights(products: np.ndarray, ridge: np.ndarray, towards: np.ndarray) -> np.ndarray:
    """Weights (J, G) of the least squared error, convex at each lead.

    A penalty `ridge` (J G, J G) shrinks them `towards` others (J, G).
    """
    n_knots, size = towards.shape
    ridge = SETTINGS.prior * ridge + _TINY * np.eye(towards.size)
    root = np.linalg.cholesky(products.reshape(towards.size, -1) + ridge)
    target = np.linalg.solve(root, ridge @ towards.ravel())
    sums = np.kron(np.eye(n_knots), np.ones(size))
    heavy = SETTINGS.sum_weight * np.sqrt(np.abs(np.diagonal(root)).max())
    rows = np.vstack([root.T, heavy * sums])
    found, _ = nnls(rows, np.append(target, np.full(n_knots, heavy)))
    found = found.reshape(towards.shape)
    return found / found.sum(axis=1, keepdims=True)


def _from_zero(knots: np.ndarray, weights: np.ndarray, anchored: tuple[str, ...]) -> Weights:
    """Weights (J, G) at knots, and at a lead of zero, where only anchored members are right."""
    start = np.where(np.isin(_MEMBERS[: weights.shape[1]], anchored), weights[0], 0.0)
    if start.sum() > NEGLIGIBLE:
        start /= start.sum()
    else:
        start[_MEMBERS.index(anchored[0])] = 1.0
    return Weights(np.concatenate([[0.0], knots]), np.vstack([start, weights]))
