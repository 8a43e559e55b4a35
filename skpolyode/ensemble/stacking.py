"""Stacking: convex combinations of a model's free run with simple forecasts.

A free run of learned dynamics is the best forecast where the dynamics are known. Where they are
not, or where nothing can be predicted any more, a simple forecast may be better. Backtests decide
the weights, by channel, by lead, and by how much of a series is known. Values are in standard
deviations from the mean of their channel, leads in typical gaps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import nnls

from skpolyode.ensemble.backtest import (
    CHUNK,
    FEWEST_TO_HOLD_OUT,
    N_FOLDS,
    BacktestSettings,
    Forecasts,
    RollingOrigins,
    Sample,
    are_known,
    effective_count,
    folds_of,
    knots_of,
    nearness,
    rolling_origins,
)
from skpolyode.ensemble.bounds import Bounds
from skpolyode.ensemble.conformal import volatility_at
from skpolyode.ensemble.decompose import Decomposition, Residuals
from skpolyode.ensemble.mixed import MixedEffects
from skpolyode.ensemble.naive import NAIVE, NEGLIGIBLE, Records, naive_forecasts, records_at
from skpolyode.ensemble.periods import shared_periods
from skpolyode.ensemble.ridge import DirectRidge
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.units import Standardised
from skpolyode.saving.codec import saved

__all__ = [
    "MEMBERS",
    "Backtest",
    "SimpleForecasts",
    "StackedForecast",
    "StackingSettings",
    "as_if_new",
    "cross_fitted",
    "learn_stacking",
]

MEMBERS = ("run", *NAIVE, "mixed", "ridge", "structural")
"""Members of the ensemble, in the order of their weights. Few series have structural forecasts,
others do not. What is missing to a sum of one is the weight of the mean in training, 0."""

_ANCHORED = ("run", "last", "local_drift", "drift")  # right at a lead of zero, if the run is
_RUN, _MIXED, _STRUCTURAL = map(MEMBERS.index, ("run", "mixed", "structural"))


@dataclass(frozen=True)
class StackingSettings:
    """How strongly weights are shrunk, and where they do not apply."""

    prior: float = 10.0  # forecasts that speak for the weights that others are shrunk towards
    in_sample: float = 0.2  # share that errors in training count as, where there are no others
    margin: float = 1.0  # standard deviations beyond the training range, over which the model fades
    structural_prior: float = 50.0  # the same for structural forecasts, where there are any
    likeness: float = 0.5  # power of the number of forecasts of a series: their errors are alike
    clip: float = 1e4  # largest error, in multiples of those of the best member
    outlier: float = 5.0  # usual errors; forecasts that all members miss by more count less
    ordinary: float = 0.9  # share of the series that decide which errors are usual
    sum_weight: float = 1e4  # of the equation that weights sum to one, beside those of the errors
    n_known: int = 3  # knots of the number of observations before
    apart: float = 2.0  # ratio between these knots, at least
    trust: float = 2.0  # held-out series that speak for errors as large as those in training
    fewest_folds: int = 3  # series that are judged by the others
    fewest_judges: int = 20  # held-out series; with fewer, all series judge simple forecasts


SETTINGS = StackingSettings()
_RIDGE_SAMPLE = BacktestSettings(max_origins=6000, max_targets=10)
_TINY = 1e-9  # numerical guard: of a sum of weights, and of the diagonal of a matrix
_LEAST = 1e-14  # squared error that counts as none


@saved
@dataclass(frozen=True, eq=False)
class SimpleForecasts:
    """Forecasts without a model of the dynamics, and the bounds of all forecasts.

    Parameters
    ----------
    mixed : MixedEffects
    ridge : DirectRidge or None
    bounds : Bounds
    """

    mixed: MixedEffects
    ridge: DirectRidge | None
    bounds: Bounds

    @classmethod
    def learn(
        cls,
        rows: Standardised,
        offsets: np.ndarray,
        sample: Sample,
        periods: list[float],
        knots: np.ndarray,
    ) -> Self:
        """Learn from the rows of series, and from a sample of forecasts of them.

        `periods` are candidates for a season, `knots` the leads of the regression; without any
        there is none.
        """
        mixed, ridge = MixedEffects.learn(*rows, offsets, periods), None
        if len(knots):
            ridge = DirectRidge.learn(knots, sample, sample.mixed(mixed))
        changes = sample.actual - sample.records.last
        return cls(mixed, ridge, Bounds.learn(rows.values, sample.leads, changes))

    def without(
        self, series: np.ndarray, rows: Standardised, offsets: np.ndarray, sample: Sample
    ) -> Self:
        """The same, learned without some series (n,), but for variances and the ridge's strength.

        The other arguments are those of `learn`.
        """
        kept = ~np.isin(np.arange(len(offsets) - 1), series)
        chosen = kept[series_index(offsets)]
        rows = Standardised(rows.times[chosen], rows.values[chosen])
        sample = sample.of_rows(~np.isin(sample.series, series))
        mixed = self.mixed.relearned(*rows, offsets_from(np.diff(offsets)[kept]))
        ridge = self.ridge and self.ridge.relearned(sample, sample.mixed(mixed))
        return replace(self, mixed=mixed, ridge=ridge)

    def records(self, rows: Standardised, offsets: np.ndarray, asked: np.ndarray) -> Records:
        """Records (n, D) of series up to some rows (n,), with what the mixed model knows."""
        effects = self.mixed.known_at(*rows, offsets, asked)
        return replace(records_at(*rows, offsets, asked), effects=effects)

    def blank(self, n_series: int, n_channels: int) -> Records:
        """Records of series that have not been observed."""
        blank = Records.blank(n_series, n_channels)
        return replace(blank, effects=self.mixed.start(n_series, n_channels))

    def updated(
        self, records: Records, elapsed: np.ndarray, values: np.ndarray, mask: np.ndarray
    ) -> Records:
        """Records (n, D) after one more observation of each series; see `Records.updated`."""
        effects, (row, channel) = records.effects.copy(), np.nonzero(mask)
        known = effects[row, channel], elapsed[row], values[row, channel], channel
        effects[row, channel] = self.mixed.updated(*known)
        return replace(records.updated(elapsed, values, mask), effects=effects)

    def members(
        self,
        run: np.ndarray,
        records: Records,
        elapsed: np.ndarray,
        structural: np.ndarray | None = None,
    ) -> np.ndarray:
        """Members (n, D, G) of the ensemble, from free runs and records (n, D), within bounds.

        `elapsed` (n,) are the times that are forecast. A free run that is no finite number is
        replaced by the last value. The mixed model takes the place of a drift where there is one
        observation only, and of all naive forecasts where there is none, and that of a structural
        forecast that is not known.
        """
        leads, n_values = records.time_since(elapsed[:, None]), records.n_values
        naive = naive_forecasts(records, np.where(np.isinf(leads), 0.0, leads))
        run = np.where(np.isfinite(run), run, naive[..., 0])
        mixed = ridge = self.mixed.forecasts(records.effects, elapsed)[0]
        if self.ridge is not None:
            ridge = np.where(n_values < 1, mixed, self.ridge.at(records, elapsed, mixed))
        needed = np.where(np.isin(NAIVE, ["local_drift", "drift"]), 2, 1)
        naive = np.where(n_values[..., None] < needed, mixed[..., None], naive)
        columns = [run[..., None], naive, mixed[..., None], ridge[..., None]]
        if structural is not None:
            columns.append(np.where(np.isfinite(structural), structural, mixed)[..., None])
        members, longest = np.concatenate(columns, axis=-1), self.bounds.leads[-1]
        return self.bounds.clip(members, records, np.minimum(leads, longest))

    def rescaled(self, ratio: float) -> Self:
        """The same for a unit of time that is shorter by `ratio`."""
        ridge = None if self.ridge is None else self.ridge.rescaled(ratio)
        return type(self)(self.mixed.rescaled(ratio), ridge, self.bounds.rescaled(ratio))


class Backtest(NamedTuple):
    """M forecasts of known rows from rows before them, and what came."""

    leads: np.ndarray  # float64 (M, D), inf of a channel that was not observed before
    n_values: np.ndarray  # (M, D): observations of the channel before
    volatility: np.ndarray  # float64 (M, D, 2): of the series before
    members: np.ndarray  # float64 (M, D, G)
    actual: np.ndarray  # float64 (M, D), NaN where not observed
    series: np.ndarray  # int64 (M,)
    times: np.ndarray  # float64 (M,): that are forecast, in typical gaps
    is_new: np.ndarray  # bool (M,): whether the series has not trained the model

    def of(self, kept: np.ndarray) -> Backtest:
        """The forecasts that a mask (M,) keeps."""
        return Backtest(*(column[kept] for column in self))


@saved
@dataclass(frozen=True, eq=False)
class StackedForecast:
    """Convex combinations of a model's free run and simple forecasts.

    Parameters
    ----------
    simple : SimpleForecasts
        The members that are not the model's, and the bounds of all.
    leads : float64 ndarray of shape (J,)
        Rising from 0.
    known : float64 ndarray of shape (K,)
        Numbers of observations, rising.
    weights : float64 ndarray of shape (D, J, K, G)
        Of the members at these leads and numbers; smooth between, held beyond. None is negative.
        What is missing to a sum of one is the weight of the mean in training, 0. The further a
        series is outside the range of training, by up to one standard deviation, the more the
        weights of the free run, of the regression and of the mean move to the mixed model: the
        model has not seen such values.
    """

    simple: SimpleForecasts
    leads: np.ndarray
    known: np.ndarray
    weights: np.ndarray

    def at(self, channel: int, leads: np.ndarray, n_values: np.ndarray) -> np.ndarray:
        """Weights (n, G) of the members for one channel, at leads (n,)."""
        near = nearness(leads, self.leads), _near_known(n_values, self.known)
        return np.einsum("nj,nk,jkg->ng", *near, self.weights[channel], optimize=True)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the G members."""
        return MEMBERS[: self.weights.shape[-1]]

    @property
    def mean_weights(self) -> dict[str, float]:
        """Weight of each member, and of the mean in training, over all channels and leads."""
        weights = self.weights.mean(axis=(0, 1, 2))
        members = dict(zip(self.names, map(float, weights), strict=True))
        return members | {"training mean": max(1.0 - sum(members.values()), 0.0)}

    def combine(
        self,
        run: np.ndarray,
        records: Records,
        elapsed: np.ndarray,
        structural: np.ndarray | None = None,
    ) -> np.ndarray:
        """Forecasts (n, D) from free runs (n, D) and the records (n, D) of their series.

        `elapsed` (n,) are the times that are forecast, in the units of the records.
        """
        if "structural" in self.names and structural is None:
            structural = np.full(run.shape, np.nan)
        result = np.empty_like(run)
        for start in range(0, len(run), CHUNK):
            part = slice(start, start + CHUNK)
            own = None if structural is None else structural[part]
            members = self.simple.members(run[part], records[part], elapsed[part], own)
            result[part] = self._combined(members, records[part], elapsed[part])
        return result

    def _combined(self, members: np.ndarray, records: Records, elapsed: np.ndarray) -> np.ndarray:
        leads, far = records.time_since(elapsed[:, None]), self.simple.bounds.outside(records)
        leads, far = np.minimum(leads, self.leads[-1]), np.where(records.n_values > 0, far, 0.0)
        share, learned = np.clip(far / SETTINGS.margin, 0.0, 1.0), np.isin(self.names, _LEARNED)
        result = np.empty(leads.shape)
        for j in range(leads.shape[1]):
            weights = self.at(j, leads[:, j], records.n_values[:, j])
            rest = 1 - weights.sum(axis=1)  # of the mean in training
            moved = share[:, j] * (rest + weights[:, learned].sum(axis=1))
            weights[:, learned] *= 1 - share[:, j, None]
            weights[:, _MIXED] += moved
            result[:, j] = (weights * members[:, j]).sum(axis=-1)
        return result

    def rescaled(self, ratio: float, simple: SimpleForecasts) -> Self:
        """The same for a unit of time that is shorter by `ratio`, with other simple forecasts."""
        return replace(self, leads=self.leads * ratio, simple=simple)


_LEARNED = ("run", "ridge")  # members that know nothing about values outside the training range


def _near_known(n_values: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Weights (..., K) of knots around numbers of observations (...), on a logarithmic scale."""
    return nearness(np.log(np.maximum(n_values, 1.0)), np.log(knots))


def learn_stacking(
    model: Forecasts,
    trained: Panel,
    tested: Panel | None,
    rng: np.random.RandomState,
    *,
    new_from: np.ndarray | None = None,
    decomposition: Decomposition | None = None,
    structural: Callable[[RollingOrigins, Residuals], np.ndarray] | None = None,
) -> tuple[StackedForecast, Backtest]:
    """Learn the weights of a model and of simple forecasts from backtests.

    With few held-out series, simple forecasts are learned from all series and judged on all of
    them, by folds; only the model is judged on those that it has not seen.

    Parameters
    ----------
    model : Forecasts
    trained : Panel
        Series that trained the model; without rows that hold no observation.
    tested : Panel or None
        Series that did not, or the same series with rows that did not. None: there are none.
    rng : RandomState
    new_from : int64 ndarray of shape (n_series,) or None, default=None
        First row of each tested series that did not train the model; None: its first.
    decomposition : Decomposition or None, default=None
        What was removed from `trained`, and is from `tested`.
    structural : callable or None, default=None
        Gives structural forecasts (M + O, D) of rolling origins, in the units of the model.
    """
    removes = decomposition is not None and not decomposition.is_none
    pool = trained if tested is None else tested
    has_folds = new_from is None or pool.n_series >= SETTINGS.fewest_folds
    by_folds = has_folds and not removes
    by_folds = by_folds and (tested is None or pool.n_series < SETTINGS.fewest_judges)
    asked = rolling_origins(model, pool, rng, None if by_folds else new_from)
    is_new = np.full(len(asked.rows), tested is not None)
    if new_from is not None:
        is_new = asked.rows >= new_from[asked.series]
    elif by_folds and tested is not None:
        others = rolling_origins(model, trained, rng)
        asked = others.followed_by(asked)
        is_new = np.concatenate([np.zeros(len(others.rows), dtype=bool), is_new])
    past = Residuals.unchanged(asked.panel, asked.origins)
    if removes:
        past = decomposition.remove(asked.panel, asked.origins)
    run, every, ahead = (
        np.empty((0, trained.n_channels)),
        Sample.of(model, asked, past),
        asked.is_ahead,
    )
    if len(asked.origins):
        run = model.runs_from(past.panel, past.last, asked.times, asked.counts)
    own = [run, None if structural is None else structural(asked, past)]
    own = [x if x is None else x[ahead] for x in own]
    sample, start = every.of_rows(ahead), (run - every.actual)[~ahead]
    learned, knots = asked.panel if by_folds else trained, np.empty(0)
    if new_from is None and not removes and learned.n_series >= FEWEST_TO_HOLD_OUT:
        knots = knots_of(sample.leads, sample.actual)
    learning = _learning_from(model, learned, rng)
    simple = SimpleForecasts.learn(*learning, knots)
    if by_folds:
        members = _members_by_folds(simple, learning, sample, *own)
    else:
        members = _members(simple, sample, np.arange(len(sample.series)), *own)
    volatility = volatility_at(sample.rows.values, sample.offsets, sample.origins)[sample.origin]
    columns = sample.leads, sample.records.n_values, volatility, members, sample.actual
    times = asked.times[ahead] / model.units.time_scale
    backtest = Backtest(*columns, sample.series, times, is_new[ahead])
    leads, known, weights = _stacked(backtest)
    early = [_at_zero(weights[:, :1], _anchored(model, start))]
    if leads[0] > 1.0:  # after a typical gap the last value says no more than it does then
        early, leads = [*early, weights[:, :1]], np.concatenate([[1.0], leads])
    leads, weights = np.concatenate([[0.0], leads]), np.concatenate([*early, weights], axis=1)
    return StackedForecast(simple, leads, known, weights), backtest


def _anchored(model: Forecasts, start: np.ndarray) -> tuple[str, ...]:
    """Members that are right at a lead of zero, where the free run errs by `start` (O, D)."""
    if model.filters:
        return _ANCHORED[:1]  # a filter knows better than one noisy observation
    is_right = (np.abs(start[~np.isnan(start)]) < NEGLIGIBLE).all()
    return _ANCHORED if is_right else _ANCHORED[1:]


def _at_zero(weights: np.ndarray, anchored: tuple[str, ...]) -> np.ndarray:
    """Weights (D, 1, K, G) at a lead of zero, where only anchored members are right."""
    start = np.where(np.isin(MEMBERS[: weights.shape[-1]], anchored), weights, 0.0)
    surest = "last" if "last" in anchored else "run"
    start[..., MEMBERS.index(surest)] += start.sum(axis=-1) <= NEGLIGIBLE
    return start / start.sum(axis=-1, keepdims=True)


def learn_simple(model: Forecasts, panel: Panel, rng: np.random.RandomState) -> SimpleForecasts:
    """Simple forecasts in the units of a model, without a regression, from series of a panel."""
    return SimpleForecasts.learn(*_learning_from(model, panel, rng), np.empty(0))


def _learning_from(
    model: Forecasts, panel: Panel, rng: np.random.RandomState
) -> tuple[Standardised, np.ndarray, Sample, list[float]]:
    """What simple forecasts are learned from; see `SimpleForecasts.learn`."""
    asked, rows = (
        rolling_origins(model, panel, rng, settings=_RIDGE_SAMPLE),
        model.standardised(panel),
    )
    past = Residuals.unchanged(asked.panel, asked.origins)
    sample = Sample.of(model, asked, past).of_rows(asked.is_ahead)
    return rows, panel.offsets, sample, shared_periods(*rows, panel.offsets)


def _members_by_folds(
    simple: SimpleForecasts,
    learning: tuple[Standardised, np.ndarray, Sample, list[float]],
    sample: Sample,
    run: np.ndarray,
    structural: np.ndarray | None,
) -> np.ndarray:
    """Members (M, D, G) of a sample, those of each series learned from other series."""
    members = np.empty((*run.shape, len(MEMBERS) - (structural is None)))
    folds = folds_of(sample.series, N_FOLDS)
    for fold in np.unique(folds):
        own, rows = simple, np.flatnonzero(folds == fold)
        if len(rows) < len(folds):
            own = simple.without(np.unique(sample.series[rows]), *learning[:3])
        members[rows] = _members(own, sample, rows, run, structural)
    return members


def _members(
    simple: SimpleForecasts,
    sample: Sample,
    rows: np.ndarray,
    run: np.ndarray,
    structural: np.ndarray | None,
) -> np.ndarray:
    """Members (n, D, G) at some rows (n,) of a sample."""
    known, found = simple.records(sample.rows, sample.offsets, sample.origins), []
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK]
        own = None if structural is None else structural[part]
        records = known[sample.origin[part]]
        found.append(simple.members(run[part], records, sample.elapsed[part], own))
    return np.concatenate(found)


def cross_fitted(backtest: Backtest, n_folds: int = N_FOLDS) -> np.ndarray:
    """Combined forecasts (M, D) of a backtest, each by weights learned from the other folds."""
    result = np.empty_like(backtest.actual)
    folds = folds_of(backtest.series, n_folds, backtest.times)
    for fold in np.unique(folds):
        out = folds == fold
        leads, known, weights = _stacked(backtest.of(~out))
        own = backtest.of(out)
        for j, channel in enumerate(weights):
            near = nearness(own.leads[:, j], leads), _near_known(own.n_values[:, j], known)
            at = np.einsum("nj,nk,jkg->ng", *near, channel, optimize=True)
            result[out, j] = (at * own.members[:, j]).sum(axis=-1)
    return result


def as_if_new(forecasts: np.ndarray, backtest: Backtest) -> np.ndarray:
    """Forecasts (M, D) of series that trained the model, with errors as large as those of others.

    Errors of training are too small. They are multiplied by how much larger those of series that
    the model has not seen are usually: the fewer of these there are, the closer to one.
    """
    error, is_new = forecasts - backtest.actual, backtest.is_new
    sizes = [np.abs(error[rows]) for rows in (is_new, ~is_new)]
    usual = [np.median(x[np.isfinite(x)]) if np.isfinite(x).any() else 0.0 for x in sizes]
    if min(usual) <= 0:
        return forecasts
    n_new = len(np.unique(backtest.series[is_new]))
    power = n_new / (n_new + SETTINGS.trust)
    larger = max((usual[0] / usual[1]) ** power, 1.0)
    return np.where(is_new[:, None], forecasts, backtest.actual + larger * error)


def _stacked(backtest: Backtest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leads (J,), numbers of observations (K,), and weights (D, J, K, G) there.

    Weights of all channels together are learned first: those of simple forecasts from all series,
    shrunk towards the best of them; then those of all members from series that did not train the
    model, shrunk towards the first. Those of a channel are shrunk towards them. The prior counts
    as much as a few forecasts that do not overlap and err as the best member does. Between
    neighbouring leads and numbers of observations, weights are shrunk towards each other. Without
    any forecasts, all weight is on the free run.
    """
    n_channels, size = backtest.members.shape[1:]
    leads, known = knots_of(backtest.leads, backtest.actual), _known_knots(backtest)
    if not len(leads):
        return np.ones(1), known, np.tile(np.eye(size)[0], (n_channels, 1, 1, 1))
    shape = len(leads), len(known)
    strength = SETTINGS.structural_prior if size > _STRUCTURAL else SETTINGS.prior
    is_known = are_known(backtest.leads, backtest.actual)

    def products(rows: np.ndarray) -> np.ndarray:
        columns = enumerate((is_known & rows[:, None]).T)
        return np.stack([_error_products(backtest, own, j, leads, known) for j, own in columns])

    parts = products(np.ones(len(is_known), dtype=bool))
    # Errors of several channels may be correlated: all of them count as one channel does.
    pooled, penalty = parts.mean(axis=0), strength * _roughness(shape)
    simple = np.flatnonzero(np.arange(size + 1) != _RUN)
    of_simple = pooled[:, simple][:, :, :, simple]
    best = np.zeros((shape[0] * shape[1], len(simple)))
    best[:, _STRUCTURAL - 1 if size > _STRUCTURAL else np.einsum("ngng->g", of_simple).argmin()] = 1
    towards = np.zeros((len(best), size + 1))
    towards[:, simple] = _convex_weights(of_simple, penalty, best)
    if backtest.is_new.any():
        parts = parts if backtest.is_new.all() else products(backtest.is_new)
    else:
        parts = SETTINGS.in_sample * parts
    pooled = parts.mean(axis=0)
    towards = _convex_weights(pooled, penalty, towards)
    own = [towards] * n_channels
    if n_channels > 1:
        own = [_convex_weights(part, penalty, towards) for part in parts]
    return leads, known, np.stack(own)[..., :-1].reshape(n_channels, *shape, size)


def _known_knots(backtest: Backtest) -> np.ndarray:
    """Numbers of observations (K,) that weights are learned at, evenly on a logarithmic scale."""
    counts = backtest.n_values[are_known(backtest.leads, backtest.actual)]
    if not len(counts):
        return np.ones(1)
    first, last = np.maximum(np.quantile(counts, [0.0, 0.9]), 1.0)
    n_knots = 1 + int(np.log(last / first) / np.log(SETTINGS.apart))
    return np.geomspace(first, last, min(n_knots, SETTINGS.n_known))


def _roughness(shape: tuple[int, int]) -> np.ndarray:
    """Matrix (N, N) of a penalty of each of N nodes, and of differences between neighbours."""
    steps = [np.eye(n)[1:] - np.eye(n)[:-1] for n in shape]
    along = np.kron(steps[0].T @ steps[0], np.eye(shape[1]))
    across = np.kron(np.eye(shape[0]), steps[1].T @ steps[1])
    return along + across + np.eye(len(along))


def _error_products(
    backtest: Backtest, rows: np.ndarray, channel: int, leads: np.ndarray, known: np.ndarray
) -> np.ndarray:
    """Sums (N, G, N, G) of products of errors, weighted by how near forecasts are to N nodes.

    The members are those of the backtest, and the mean in training. Errors are relative to those
    of the best member near the node, and count as many times as there are forecasts that do not
    overlap. Forecasts that all members miss by far count less, so that no faulty cell decides.
    """
    lead, count, actual = (
        x[rows, channel] for x in (backtest.leads, backtest.n_values, backtest.actual)
    )
    members = np.column_stack([backtest.members[rows, channel], np.zeros(len(lead))])
    errors = members - actual[:, None]
    at_lead = nearness(lead, leads)
    near = at_lead[:, :, None] * _near_known(count, known)[:, None]
    near = near.reshape(len(lead), len(leads) * len(known))  # (m, N)
    total = np.maximum(near.sum(axis=0), _TINY)
    difficulty = np.abs(errors).min(axis=1)
    credible = _credible_at_first(backtest.series[rows], difficulty)
    for _ in range(2):
        least = _usual_squares(at_lead, near, credible, errors**2)
        scale = near @ np.sqrt(least)
        credible = np.minimum(SETTINGS.outlier * scale / np.maximum(difficulty, _TINY), 1.0) ** 2
    series, times = backtest.series[rows], backtest.times[rows]
    apart = [
        effective_count(series[own > 0], times[own > 0], when, power=SETTINGS.likeness)
        for own, when in zip(near.T, np.repeat(leads, len(known)), strict=True)
    ]
    weight = credible * (near @ (apart / total))
    errors = np.clip(errors / scale[:, None], -SETTINGS.clip, SETTINGS.clip)
    errors *= np.sqrt(weight)[:, None]
    size = near.shape[1] * errors.shape[1]
    products = np.zeros((size, size))
    for start in range(0, len(errors), CHUNK):
        part = slice(start, start + CHUNK)
        spread = (near[part, :, None] * errors[part, None]).reshape(-1, size)
        products += spread.T @ spread
    return products.reshape(*(near.shape[1], errors.shape[1]) * 2)


def _credible_at_first(series: np.ndarray, difficulty: np.ndarray) -> np.ndarray:
    """Shares (m,) that forecasts count as: none of a series sums to more than in most series."""
    whose, counts = np.unique(series, return_inverse=True, return_counts=True)[1:]
    size = np.bincount(whose, difficulty**2) / counts
    usual = np.quantile(size, SETTINGS.ordinary) if len(size) else 0.0
    if usual <= _LEAST:
        return np.ones(len(series))
    return np.minimum(usual / np.maximum(size, _LEAST), 1.0)[whose]


def _usual_squares(
    at_lead: np.ndarray, near: np.ndarray, credible: np.ndarray, squares: np.ndarray
) -> np.ndarray:
    """Squared error (N,) of the best member near each node, from those of m forecasts (m, G).

    The best member is that of each of J leads. At nodes with few forecasts its error is shrunk, on
    a logarithmic scale, to that at the lead: the least of many errors may be small by chance.
    """
    at_lead, near = at_lead * credible[:, None], near * credible[:, None]
    of_lead = at_lead.T @ squares / np.maximum(at_lead.sum(axis=0), _TINY)[:, None]
    best, n_leads = of_lead.argmin(axis=1), at_lead.shape[1]
    lowest = np.repeat(of_lead[np.arange(n_leads), best], near.shape[1] // n_leads)
    count = near.sum(axis=0)
    own = (near * squares[:, np.repeat(best, near.shape[1] // n_leads)]).sum(axis=0)
    own = np.where(count > 0, own / np.maximum(count, _TINY), lowest)
    logs = count * np.log(own + _LEAST) + SETTINGS.prior * np.log(lowest + _LEAST)
    return np.exp(logs / (count + SETTINGS.prior))


def _convex_weights(products: np.ndarray, penalty: np.ndarray, towards: np.ndarray) -> np.ndarray:
    """Weights (N, G) of the least squared error, convex at each node.

    A `penalty` (N, N) of each member shrinks them `towards` others (N, G).
    """
    n_nodes, size = towards.shape
    ridge = np.kron(penalty, np.eye(size)) + _TINY * np.eye(towards.size)
    root = np.linalg.cholesky(products.reshape(towards.size, -1) + ridge)
    target = np.linalg.solve(root, ridge @ towards.ravel())
    sums = np.kron(np.eye(n_nodes), np.ones(size))
    heavy = SETTINGS.sum_weight * np.sqrt(np.abs(np.diagonal(root)).max())
    rows = np.vstack([root.T, heavy * sums])
    found, _ = nnls(rows, np.append(target, np.full(n_nodes, heavy)))
    found = found.reshape(towards.shape)
    return found / found.sum(axis=1, keepdims=True)
