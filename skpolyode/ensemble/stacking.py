"""How far a forecast leans on the model, and how far on simple rivals, by channel and lead.

A free run of learned dynamics is the best forecast where the dynamics are known, and may be worse
than the last value where they are not, or where nothing can be known any more. Forecasts of data
that did not train the model tell. All values are in standard deviations from the mean of their
channel, and leads, the times since the channel was last observed, in typical gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import nnls

from skpolyode.ensemble.naive import NAIVE, last_values, simple_forecasts, time_since
from skpolyode.ensemble.ridge import DirectRidge, are_known, nearness
from skpolyode.saving.codec import saved

__all__ = [
    "ANCHORED",
    "Backtest",
    "StackedForecast",
    "Weights",
    "cross_fitted",
    "effective_count",
    "folds_of",
    "knots_of",
    "members_of",
]

_MEMBERS = ("run", *NAIVE, "regression")  # the last one is missing where there is none
_RUN, _LAST = map(_MEMBERS.index, ("run", "last"))
_LEARNED = [_RUN, _MEMBERS.index("regression")]
ANCHORED = ("run", "last", "motion", "drift")
"""What starts from the last observation, if the free run does."""

_MAX_KNOTS = 8
_PAIRS_A_KNOT = 50
_FIRST_KNOT = 0.02  # share of the leads that are shorter
_PRIOR = 10.0  # forecasts that speak for weights to be those of a larger group, as Gaussians
_MARGIN = 1.0  # standard deviations outside of the range of training, where the model is silent
_HOPELESS = 1e4  # times the error of the best: more makes no difference
_HEAVY = 1e4  # of the equation that weights sum to one, in least squares


class Backtest(NamedTuple):
    """M forecasts of known rows from rows before them, and what came."""

    leads: np.ndarray  # float64 (M, D), inf of a channel that was not observed before
    members: np.ndarray  # float64 (M, D, G): the free run, five rivals, and maybe a regression
    actual: np.ndarray  # float64 (M, D), NaN where not observed
    series: np.ndarray  # int64 (M,): of which series
    times: np.ndarray  # float64 (M,): for when, in typical gaps
    starters: tuple[str, ...]  # members that start where forecasts are to
    regression: DirectRidge | None = None

    def of(self, kept: np.ndarray) -> Backtest:
        """Some of them, by a mask (M,)."""
        return Backtest(*(column[kept] for column in self[:-2]), *self[-2:])


@saved
@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of the forecasts of one channel at some leads; linear between them, held beyond.

    Parameters
    ----------
    leads : float64 ndarray of shape (J,)
        Rising from 0.
    weights : float64 ndarray of shape (J, G)
        Of the free run and of each of the five rivals, and of the regression if there is one; none
        of them negative. What is missing to a sum of one is the weight of the mean in training, 0.

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
        """Weights (..., G) at some leads (...)."""
        columns = [np.interp(leads, self.leads, own) for own in self.weights.T]
        return np.stack(columns, axis=-1)


@saved
@dataclass(frozen=True, eq=False)
class StackedForecast:
    """Convex combinations of a model's free run with simple rivals.

    Parameters
    ----------
    channels : tuple of Weights
        Of each channel.
    lowest, highest : float64 ndarray of shape (D,)
        Range of each channel in training. The further a series has left it, by up to one standard
        deviation, the more of the weights of the free run, of the regression and of the mean in
        training go to the last value: the model has never seen what is out there.
    regression : DirectRidge or None, default=None
        As one of the rivals.
    """

    channels: tuple[Weights, ...]
    lowest: np.ndarray
    highest: np.ndarray
    regression: DirectRidge | None = None

    @classmethod
    def learn(cls, backtest: Backtest, lowest: np.ndarray, highest: np.ndarray) -> Self:
        """Weights of the least squared error in backtest, at each lead in those of the best member.

        Those of all channels together are learned first: at the shortest leads they are drawn to
        the best single forecast, and at each longer one to those at the one before. Those of a
        channel are drawn to them. The more forecasts there are that do not overlap, the less: each
        has the weight of one observation with the error of the best, ``_PRIOR`` of which speak for
        what is drawn to. Without any trials the free run is trusted.
        """
        return cls(_stacked(backtest), lowest, highest, backtest.regression)

    def rescaled(self, ratio: float, lowest: np.ndarray, highest: np.ndarray) -> Self:
        """The same for a model whose unit of time is shorter by `ratio`, of another range."""
        channels = tuple(Weights(own.leads * ratio, own.weights) for own in self.channels)
        regression = self.regression and self.regression.rescaled(ratio)
        return type(self)(channels, lowest, highest, regression)

    @property
    def mean_weights(self) -> dict[str, float]:
        """Weight of each member, and of the mean in training, over all channels and leads."""
        weights = np.mean([own.weights.mean(axis=0) for own in self.channels], axis=0)
        names = _MEMBERS[: len(weights)]
        members = dict(zip(names, map(float, weights), strict=True))
        return members | {"training mean": max(1.0 - sum(members.values()), 0.0)}

    def combine(self, run: np.ndarray, records: np.ndarray, elapsed: np.ndarray) -> np.ndarray:
        """Forecasts (n, Q, D), from free runs (n, Q, D) and the records (n, D, 12) of their series.

        `elapsed` (n, Q) is for when, in the time of the records.
        """
        result, regressed = np.empty_like(run), None
        if self.regression is not None:
            regressed = self.regression.at_times(records, elapsed)
        for j, own in enumerate(self.channels):
            record = records[:, None, j]
            leads = np.minimum(time_since(record, elapsed), own.leads[-1])
            known = None if regressed is None else regressed[..., j]
            members = members_of(run[..., j], record, leads, known)
            weights = self._kept_inside(own.at(leads), last_values(record), j)
            result[..., j] = (weights * members).sum(axis=-1)
        return result

    def _kept_inside(self, weights: np.ndarray, last: np.ndarray, channel: int) -> np.ndarray:
        """Weights (n, Q, G) where the last values (n, 1) may be outside the range of training."""
        outside = np.maximum(self.lowest[channel] - last, last - self.highest[channel])
        share = np.clip(outside / _MARGIN, 0.0, 1.0)
        if not share.any():
            return weights
        moved = weights.copy()
        learned = _LEARNED[: 1 if self.regression is None else 2]
        moved[..., learned] *= 1 - share[..., None]
        rest = (1 - weights.sum(axis=-1)) * (1 - share)  # of the mean in training
        moved[..., _LAST] += 1 - rest - moved.sum(axis=-1)
        return moved


def cross_fitted(backtest: Backtest, n_folds: int) -> np.ndarray:
    """Combined forecasts (M, D) of backtest, each by weights that its series had no part in.

    With fewer series than folds the weights are those of all backtest.
    """
    folds = folds_of(backtest.series, n_folds)
    if not folds:
        return _applied(_stacked(backtest), backtest)
    result = np.empty_like(backtest.actual)
    for out in folds:
        result[out] = _applied(_stacked(backtest.of(~out)), backtest.of(out))
    return result


def folds_of(series: np.ndarray, n_folds: int) -> list[np.ndarray]:
    """Masks (M,) of what is left out in turn: all of some of the `series` (M,). None of too few."""
    which = np.unique(series, return_inverse=True)[1]
    if not len(which) or which.max() + 1 < n_folds:
        return []
    return [which % n_folds == fold for fold in range(n_folds)]


def _applied(channels: tuple[Weights, ...], backtest: Backtest) -> np.ndarray:
    columns = zip(channels, backtest.leads.T, backtest.members.swapaxes(0, 1), strict=True)
    return np.stack([(own.at(lead) * m).sum(axis=-1) for own, lead, m in columns], axis=1)


def members_of(
    run: np.ndarray, records: np.ndarray, leads: np.ndarray, regressed: np.ndarray | None = None
) -> np.ndarray:
    """Free runs (...) and the rivals, (..., 6), at finite leads (...); a regression as the seventh.

    A run that is no number any more is taken to be the last value. The run stands for motions where
    there is one observation only, and for all rivals where there is none.
    """
    simple = simple_forecasts(records, leads)
    run = np.where(np.isfinite(run), run, simple[..., 0])
    needed = np.where(np.isin(NAIVE, ["motion", "drift"]), 2, 1)
    simple = np.where(records[..., :1] < needed, run[..., None], simple)
    members = [run[..., None], simple]
    if regressed is not None:
        regressed = np.where(records[..., 0] < 1, run, regressed)
        members.append(regressed[..., None])
    return np.concatenate(members, axis=-1)


def effective_count(series: np.ndarray, times: np.ndarray, lead: float) -> float:
    """How many forecasts with a lead, of some series for some times (M,), do not overlap."""
    order = np.argsort(series, kind="stable")
    own, when = series[order], times[order]
    first = np.flatnonzero(np.diff(own, prepend=-1))
    latest, earliest = (f.reduceat(when, first) for f in (np.maximum, np.minimum))
    counts = np.diff(np.append(first, len(own)))
    return float(np.minimum(counts, 1 + np.floor((latest - earliest) / lead)).sum())


def _stacked(backtest: Backtest) -> tuple[Weights, ...]:
    """Weights of each channel, from what is the best of all down to what is best of its own."""
    n_channels = backtest.leads.shape[1]
    known = are_known(backtest.leads, backtest.actual)
    if not known.any():
        trust = np.eye(backtest.members.shape[-1])[:1]
        return (Weights(np.zeros(1), trust),) * n_channels
    knots = knots_of(backtest.leads, backtest.actual)
    parts = [_Errors.of(backtest, known[:, j], j, knots) for j in range(n_channels)]
    pooled = _Errors.joined(parts)
    by_lead = pooled.smooth_weights()
    return tuple(
        _from_last(knots, part.weights_near(by_lead)[:, :-1], backtest.starters) for part in parts
    )


def knots_of(leads: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Leads (J,) that weights are learned at: evenly spread on a logarithmic scale.

    They are those of forecasts with some leads (M, D) and of what came (M, D); none without any.
    """
    leads = leads[are_known(leads, actual)]
    if not len(leads):
        return leads
    first, last = np.quantile(leads, _FIRST_KNOT), leads.max()
    n_knots = int(np.clip(len(leads) // _PAIRS_A_KNOT, 1, _MAX_KNOTS))
    return np.unique(np.geomspace(first, last, n_knots)) if n_knots > 1 else np.array([last])


class _Errors(NamedTuple):
    """Errors of the members and of the mean in training, about J leads.

    They are divided by those of the best member at about the same lead, and count as many times as
    there are forecasts that do not overlap.
    """

    squares: np.ndarray  # float64 (J, G, J, G): sums of products of errors times nearness
    best: int  # the member with the least error at the shortest leads

    @classmethod
    def of(cls, backtest: Backtest, known: np.ndarray, channel: int, knots: np.ndarray) -> Self:
        leads, actual = backtest.leads[known, channel], backtest.actual[known, channel]
        members = np.column_stack([backtest.members[known, channel], np.zeros(len(leads))])
        errors = members - actual[:, None]
        # Weights are linear between knots: each forecast tells of both that it lies between.
        near, n_knots = nearness(leads, knots), len(knots)
        least = np.array([_mean(errors**2, own).min() for own in near.T])
        series, times = backtest.series[known], backtest.times[known]
        apart = [
            effective_count(series[own > 0], times[own > 0], lead)
            for own, lead in zip(near.T, knots, strict=True)
        ]
        known = least > 0
        scale = near @ np.sqrt(np.where(known, least, 1.0))
        weight = near @ np.where(known, apart / np.maximum(near.sum(axis=0), 1e-9), 0.0)
        errors = np.clip(errors / scale[:, None], -_HOPELESS, _HOPELESS)
        errors *= np.sqrt(weight)[:, None]
        n_members = errors.shape[1]
        squares = np.zeros((n_knots, n_members, n_knots, n_members))
        for j in range(n_knots):
            for i in range(max(j - 1, 0), min(j + 2, n_knots)):
                both = near[:, j] * near[:, i]
                squares[j, :, i] = (errors * both[:, None]).T @ errors
        first = np.diagonal(squares[0, :, 0])
        return cls(squares, int(first.argmin()))

    @classmethod
    def joined(cls, parts: list[Self]) -> Self:
        """Mean errors of several channels, which may well err together."""
        squares = np.mean([p.squares for p in parts], axis=0)
        return cls(squares, int(np.diagonal(squares[0, :, 0]).argmin()))

    def smooth_weights(self) -> np.ndarray:
        """Weights (J, G), drawn to those at the next shorter lead, the first to the best member."""
        n_knots, size = self.squares.shape[:2]
        steps = np.eye(n_knots) - np.eye(n_knots, k=-1)
        ridge = np.kron(steps.T @ steps, np.eye(size))
        known = np.zeros((n_knots, size))
        known[:, self.best] = 1.0
        return self._convex(ridge, known)

    def weights_near(self, known: np.ndarray) -> np.ndarray:
        """Weights (J, G), drawn to others (J, G)."""
        return self._convex(np.eye(known.size), known)

    def _convex(self, ridge: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Weights w of the least squared error plus the ridge, convex at each lead."""
        n_knots, size = known.shape
        ridge = _PRIOR * ridge + 1e-9 * np.eye(known.size)
        root = np.linalg.cholesky(self.squares.reshape(known.size, -1) + ridge)
        target = np.linalg.solve(root, ridge @ known.ravel())
        sums = np.kron(np.eye(n_knots), np.ones(size))
        heavy = _HEAVY * np.sqrt(np.abs(np.diagonal(root)).max())
        rows = np.vstack([root.T, heavy * sums])
        found, _ = nnls(rows, np.append(target, np.full(n_knots, heavy)))
        found = found.reshape(known.shape)
        return found / found.sum(axis=1, keepdims=True)


def _mean(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted mean over the rows; zero of nothing."""
    return weights @ values / max(weights.sum(), 1e-9)


def _from_last(knots: np.ndarray, weights: np.ndarray, starters: tuple[str, ...]) -> Weights:
    """Weights (J, G), and those at no lead, where the starters agree."""
    start = np.where(np.isin(_MEMBERS[: weights.shape[1]], starters), weights[0], 0.0)
    total = start.sum()
    if total > 1e-6:
        start /= total
    else:
        start[_MEMBERS.index(starters[0])] = 1.0
    return Weights(np.concatenate([[0.0], knots]), np.vstack([start, weights]))
