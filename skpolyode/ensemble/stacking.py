"""Stacking: convex combinations of a model's free run with simple forecasts.

A free run of learned dynamics is the best forecast where the dynamics are known. Where they are
not, or beyond the time that can be predicted, a simple forecast may be better. Backtests set the
weights, by channel and by lead. Values are in standard deviations from the mean of their channel,
leads in typical gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.base import Known, Lazy, Others, take_known
from skpolyode.ensemble.backtest import (
    FEWEST_FOLDS,
    FEWEST_TO_HOLD_OUT,
    PRIOR_COUNT,
    BacktestSettings,
    are_known,
    chunks,
    effective_count,
    enlarged,
    folds_of,
    knots_of,
    nearness,
    rolling_origins,
)
from skpolyode.ensemble.conformal import Calibration
from skpolyode.ensemble.member import N_FOLDS, NEGLIGIBLE, Records, RollingOrigins
from skpolyode.ensemble.members import BASE, MEMBERS, RECORDS, Members, members_of
from skpolyode.ensemble.paths import lazy_path_errors
from skpolyode.ensemble.periods import Seasons, alternatives, shared_seasons
from skpolyode.fit_report import Decision
from skpolyode.futures.spread import predictors_of, spread_at
from skpolyode.panel import Panel
from skpolyode.panel.select import take
from skpolyode.panel.units import ChannelScaler
from skpolyode.saving.codec import saved
from skpolyode.transformers.stages import FitState, StackForecasts

RUN, STRUCTURAL = "run", "structural"
"""Names of forecasts that are not of a member: the model's, and with few series structural ones."""


@dataclass(frozen=True)
class StackingSettings:
    """How strongly weights are shrunk, and where they do not apply.

    Chosen on two folds of 21 longitudinal sets, and on Lorenz63 with 20 and 200 series. With a
    `PRIOR_COUNT` of 3, 5 and 20, errors in the rest of the series are 1.005, 1.005 and 0.998 times
    as large (geometric means).

    Series that trained the model are judged beside the few that did not, with errors as
    :func:`enlarged` returns them. This makes errors in the rest of the series 0.88
    times as large, those of the next row 0.90 times (18 of these sets, four folds; Crime's next row
    1.17 times), and those of noisy sines and Lorenz63, 40 and 200 series, 0.85 to 0.99 times.

    Few held-out series may contain none of the jumps that dominate the squared error. With 60 in
    place of 20 `fewest_judges`, the rest of the series has 0.67 times the error on aneurysm, 0.98
    on eICU and on noisy Lorenz63, 1.01 on wages and 1.00 on Lorenz63 (500 to 1 094 series); the
    next row 0.95, 1.00, 1.00, 0.99 and 1.02. With `PolyODEForecaster` and 90 to 250 series the mean
    error is the same, and intervals of 90 % cover 0.87 to 0.93 in place of 0.85 to 0.94.

    Blood pressures of nafld that are measured twice within a few days differ by more than their
    overall standard deviation. With a first knot at the shortest leads (see `_knots`) and
    `settled` the next row has 0.92 times the error there, 0.99 on noisy Lorenz63, 1.01 on aneurysm
    and 1.00 on eight other sets.
    """

    in_sample: float = 0.2  # factor of squared training errors if no series is held out
    structural_prior: float = 50.0  # the same where there are structural forecasts
    likeness: float = 0.5  # power of the number of forecasts of a series: their errors are alike
    outlier: float = 5.0  # typical errors; forecasts that all members miss by more count less
    ordinary: float = 0.9  # quantile of the best member's errors that counts as typical
    sum_weight: float = 1e4  # of the equation that weights sum to one, relative to the errors
    trust: float = 2.0  # held-out series that a prior ratio of errors of 1 is worth
    fewest_judges: int = 60  # held-out series; with fewer, all series judge simple forecasts
    settled: float = 0.1  # share of that lead, from where on its weights apply


SETTINGS = StackingSettings()
_TINY = 1e-9  # numerical guard: of a sum of weights, of errors, and of the diagonal of a matrix


class Backtest(NamedTuple):
    """M forecasts of known rows from rows before them, and the values observed."""

    names: tuple[str, ...]  # of the G forecasts; weights sum to at most 1, the mean has the rest
    leads: np.ndarray  # float64 (M, D), inf for a channel that was not observed before
    predictors: np.ndarray  # float64 (M, D, S): predictors of the error size
    members: np.ndarray  # float64 (M, D, G)
    actual: np.ndarray  # float64 (M, D), NaN where not observed
    series: np.ndarray  # int64 (M,)
    times: np.ndarray  # float64 (M,): that are forecast, in typical gaps
    is_new: np.ndarray  # bool (M,): whether the value did not train the model
    origin: np.ndarray  # int64 (M,): position of its origin among the origins
    expected: np.ndarray  # float64 (M, D): expected size of structural forecasts' errors; else 1

    def of(self, kept: np.ndarray) -> Backtest:
        """Backtest of the forecasts that a mask (M,) keeps."""
        arrays = {k: x[kept] for k, x in self._asdict().items() if isinstance(x, np.ndarray)}
        return self._replace(**arrays)

    def enlarged(self, errors: np.ndarray) -> np.ndarray:
        """Errors (M, D), those of training as large as those of held-out series."""
        return enlarged(errors, self.is_new, self.series, SETTINGS.trust)


def learn_weights(backtest: Backtest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leads (J,), weights (D, J, G) there, and weights (D, G) for channels not yet observed.

    Without any forecasts, the free run has all weight. Its errors on series that trained the model
    are :func:`enlarged`.
    """
    counted, run = are_known(backtest.leads, backtest.actual), backtest.names.index(RUN)
    if not counted.any():
        n_channels, size = backtest.members.shape[1:]
        alone = np.tile(np.eye(size)[run], (n_channels, 1, 1))
        return np.ones(1), alone, alone[:, 0]
    leads, members = _knots(backtest, counted), backtest.members.copy()
    members[..., run] = backtest.actual + backtest.enlarged(members[..., run] - backtest.actual)
    backtest = backtest._replace(members=members)
    unseen = np.isinf(backtest.leads) & np.isfinite(backtest.actual)
    of_unseen = _weights_at(backtest, unseen, np.ones(1))[:, 0]
    return leads, _weights_at(backtest, counted, leads), of_unseen


def _knots(backtest: Backtest, counted: np.ndarray) -> np.ndarray:
    """Leads (J,) of weights, including a shorter one if there are enough forecasts near it.

    With noisy values, a second one soon after the first is no closer to it.
    """
    knots = knots_of(backtest.leads, backtest.actual)
    half = BacktestSettings.pairs_a_knot // 2
    shorter = np.sort(backtest.leads[counted])[:half][-1:]
    return np.append(shorter[shorter < knots[0] / 2], knots) if len(knots) > 1 else knots


def _weights_at(backtest: Backtest, counted: np.ndarray, leads: np.ndarray) -> np.ndarray:
    """Weights (D, J, G) at leads, from the forecasts that a mask (M, D) counts.

    Three sets of weights are learned, each shrunk towards the one before:

    1. for all channels together, of all forecasts but the free run, shrunk towards the structural
       one or else the best one;
    2. for all channels together, of all forecasts;
    3. for each channel.

    The prior is worth a few non-overlapping forecasts with the errors of the best member. Weights
    at neighbouring leads are shrunk towards each other: those at a lead without forecasts near it,
    as between the leads of regular series, follow from them. If no series is new, errors of
    training are not enlarged, and all of them count less.
    """
    names, size = backtest.names, len(backtest.names)
    is_structural = STRUCTURAL in names
    near = nearness(backtest.leads[counted], leads).sum(axis=0)
    steps = np.diff(np.eye(len(leads)), axis=0)
    penalty = steps.T @ steps + np.diag(np.maximum(near / (near + 1.0), _TINY))
    penalty *= SETTINGS.structural_prior if is_structural else PRIOR_COUNT
    parts = np.stack([_error_products(backtest, x, j, leads) for j, x in enumerate(counted.T)])
    # Errors of several channels may be correlated: together they count as much as one.
    pooled = parts.mean(axis=0)
    others = np.flatnonzero(np.arange(size + 1) != names.index(RUN))
    of_others = pooled[:, others][:, :, :, others]
    best = others[np.einsum("ngng->g", of_others).argmin()]
    first, towards = np.zeros((2, len(leads), size + 1))
    first[:, names.index(STRUCTURAL) if is_structural else best] = 1.0
    towards[:, others] = _convex_weights(of_others, penalty, first[:, others])
    if not backtest.is_new.any():
        parts, pooled = SETTINGS.in_sample * parts, SETTINGS.in_sample * pooled
    towards = _convex_weights(pooled, penalty, towards)
    channels = [towards]
    if len(parts) > 1:
        channels = [_convex_weights(part, penalty, towards) for part in parts]
    return np.stack(channels)[..., :-1]


def _error_products(
    backtest: Backtest, rows: np.ndarray, channel: int, leads: np.ndarray
) -> np.ndarray:
    """Sums (J, G + 1, J, G + 1) of products of errors, weighted by nearness to J leads.

    The forecasts are those of the backtest and the training mean. Errors are relative to those of
    the best one near the lead. Their total weight is the number of forecasts that do not overlap.
    """
    lead, actual = backtest.leads[rows, channel], backtest.actual[rows, channel]
    members = np.column_stack([backtest.members[rows, channel], np.zeros(len(lead))])
    errors, near = members - actual[:, None], nearness(lead, leads)  # (m, G), (m, J)
    series, times = backtest.series[rows], backtest.times[rows]
    errors = _relative(errors, near)
    n_independent = [
        effective_count(series[x > 0], times[x > 0], when, power=SETTINGS.likeness)
        for x, when in zip(near.T, leads, strict=True)
    ]
    errors *= np.sqrt(near @ (n_independent / np.maximum(near.sum(axis=0), _TINY)))[:, None]
    size = near.shape[1] * errors.shape[1]
    products = np.zeros((size, size))
    for part in chunks(len(errors)):
        spread = (near[part, :, None] * errors[part, None]).reshape(-1, size)
        products += spread.T @ spread
    return products.reshape(*(near.shape[1], errors.shape[1]) * 2)


def _relative(errors: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Errors (m, G) as multiples of those of the best member near each of J leads.

    A forecast that all members miss by far counts less, so that no faulty cell decides. All its
    errors shrink by one common factor. With separate factors, errors of opposite sign could cancel
    that do not, and an exact member would gain nothing.
    """
    difficulty = np.abs(errors).min(axis=1)
    typical = np.quantile(difficulty, SETTINGS.ordinary) if len(errors) else 0.0
    credible = np.minimum(max(typical, _TINY) / np.maximum(difficulty, _TINY), 1.0) ** 2
    for _ in range(2):
        counts = near * credible[:, None]
        squares = counts.T @ errors**2 / np.maximum(counts.sum(axis=0), _TINY)[:, None]
        scale = near @ np.sqrt(np.maximum(squares.min(axis=1), _TINY))
        credible = np.minimum(SETTINGS.outlier * scale / np.maximum(difficulty, _TINY), 1.0) ** 2
    return errors * np.sqrt(credible)[:, None] / scale[:, None]


def _convex_weights(products: np.ndarray, penalty: np.ndarray, towards: np.ndarray) -> np.ndarray:
    """Weights (N, G) with the least squared error, convex at each node.

    A `penalty` (N, N) for each member shrinks them `towards` given weights (N, G).
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


_SAMPLE = BacktestSettings(
    enough_series=10**9,
    max_origins=4000,
    max_targets=10,
    max_windows=3,
    window_share=0.25,  # a short series has more likely lost its beginning than just begun
)  # for learning the members


@saved(
    each="D",
    bounds="D",
    names="G",
    leads="J rising",
    weights="D J G unsigned",
    unseen="D G unsigned",
)
@dataclass(frozen=True, eq=False)
class StackedForecast(Members):
    """Convex combinations of a model's free run and other forecasts.

    Parameters
    ----------
    each, bounds
        As in `Members`.
    names : tuple of str
        Of the G forecasts: "run", members, and other forecasts that were combined in training.
    leads : float64 ndarray of shape (J,)
        Rising from 0.
    weights : float64 ndarray of shape (D, J, G)
        At these leads; smooth between, constant beyond. None is negative. They sum to at most 1;
        the training mean, 0, has the rest. Outside the training range, the mixed model takes over
        the weights of the mean, of the free run and of members that do not extrapolate: in full
        from one standard deviation on, less before. Outside the range that several training series
        reach, it does the same, but less the more weight the free run has.
    unseen : float64 ndarray of shape (D, G)
        Weights for channels that have not been observed yet.
    structural : StructuralModels or None, default=None
        Their forecasts need whole series. Where these are not kept, as in streams, those of the
        mixed model replace them.
    """

    names: tuple[str, ...]
    leads: np.ndarray
    weights: np.ndarray
    unseen: np.ndarray
    structural: Any = None

    @property
    def mean_weights(self) -> dict[str, float]:
        """Weight of each forecast, and of the mean in training, over all channels and leads."""
        weights = self.weights.mean(axis=(0, 1))
        members = dict(zip(self.names, map(float, weights), strict=True))
        return members | {"training mean": max(1.0 - sum(members.values()), 0.0)}

    def combine(
        self,
        given: Known,
        known: Known,
        series: np.ndarray,
        elapsed: np.ndarray,
        driven: np.ndarray,
    ) -> np.ndarray:
        """Forecasts (n, D) at times `elapsed` (n,) of `series` (n,), from the states `known`.

        The `given` forecasts are arrays (n, D) by name and always include "run", the free run of
        the model. `driven` (n, F) are responses to inputs at these times.
        """
        result, base = np.empty_like(given[RUN]), self.names.index(BASE)
        trusted = {name for name, member in self.each.items() if member.extrapolates} | {STRUCTURAL}
        inside = ~np.isin(self.names, list(trusted))
        for part in chunks(len(result)):
            states, when = take_known(known, series[part]), elapsed[part]
            query = take_known(given, part), states, when, driven[part]
            members, records = self.forecasts(self.names, *query), Records.of(states[RECORDS])
            leads = records.time_since(when[:, None])
            far, rare = (np.minimum(x, 1.0) for x in self.bounds.outside(records))
            weights = weights_between(self.weights, self.unseen, self.leads, leads)
            share = np.maximum(far, rare * (1 - weights[..., self.names.index(RUN)]))
            rest = 1 - weights.sum(axis=-1)  # weight of the training mean
            weights[..., base] += share * (rest + weights[..., inside].sum(axis=-1))
            weights[..., inside] *= 1 - share[..., None]
            result[part] = (weights * members).sum(axis=-1)
        return result

    def of_series(
        self, scaler: ChannelScaler, panel: Panel, rows: np.ndarray, times: np.ndarray
    ) -> Others:
        """Forecasts (Q, D), by name, of models that need whole series, not only states.

        They are of `times` (Q,), from the `rows` (Q,) of a panel and all before. Then the unit of
        the errors of combined forecasts, (Q, D) or 1.
        """
        if self.structural is None:
            return {}, 1.0
        means, expected = _of_structure(self.structural, scaler, panel, rows, times)
        return {STRUCTURAL: means}, expected


def weights_between(
    weights: np.ndarray, unseen: np.ndarray, knots: np.ndarray, leads: np.ndarray
) -> np.ndarray:
    """Weights (n, D, G) at leads (n, D), from those (D, J, G) at knots (J,).

    Channels not yet observed, with infinite leads, have the weights `unseen` (D, G).
    """
    pairs = zip(leads.T, weights, strict=True)
    found = np.stack([nearness(lead, knots) @ x for lead, x in pairs], axis=1)
    return np.where(np.isinf(leads)[..., None], unseen, found)


def learn_stacking(
    model: ModelEmbedder,
    trained: Panel,
    tested: Panel | None,
    rng: np.random.RandomState,
    *,
    new_from: np.ndarray | None = None,
    period: Sequence[float] | None = None,
    structural: Callable[[Panel], Any] | None = None,
) -> tuple[StackedForecast, Backtest]:
    """Learn the weights of a model and of the members from backtests.

    With few held-out series, members are learned from all series and judged on all of them, by
    folds; only the model is judged on held-out series. With a single series, members are learned
    from its first half and judged on the second.

    Parameters
    ----------
    model : ModelEmbedder
    trained : Panel
        Series that trained the model; each row holds an observation.
    tested : Panel or None
        Series that did not, or the same series with rows that did not. None: there are none.
    rng : RandomState
    new_from : int64 ndarray of shape (n_series,) or None, default=None
        First row of each tested series that did not train the model; None: its first.
    period : sequence of float or None, default=None
        Lengths of seasons, in the units of `times`: one of them or all together; empty for none.
        None: detect seasons, if there are any.
    structural : callable or None, default=None
        Learns structural models from a panel; those of other folds are judged and combined, too.

    Returns
    -------
    StackedForecast
        The members and their weights.
    Backtest
        The forecasts that the weights were learned from.
    """
    seasons = seasons_of(model, trained, period)
    asked, is_new, learned, by_folds = _judges(model, trained, tested, rng, new_from, seasons)
    run = np.empty((0, trained.n_channels))
    if n_origins := len(asked.origins):
        counts = np.bincount(asked.origin, minlength=n_origins)
        run = model.runs_from(asked.panel, asked.origins, asked.times, counts)
    given, expected = {RUN: run}, np.ones(run.shape)
    if structural is not None:
        by_structure = _of_structure_by_folds(structural, model.units.scaler, learned, asked)
        given[STRUCTURAL], expected = by_structure
    knots = np.empty(0)
    if new_from is None and learned.n_series > 1:
        knots = knots_of(asked.leads, asked.actual)
    whole, *folds = learn_members(model, learned, rng, seasons, knots)
    names = RUN, *MEMBERS, *(name for name in given if name != RUN)
    members = members_of(folds if by_folds else [whole], names, asked, given)
    known = whole.known_at(asked.cells, asked.origins)
    sizes = whole.expected_errors(known, asked.origin, asked.elapsed)
    spread = spread_at(asked.cells.values, asked.cells.offsets, asked.origins)
    predictors = predictors_of(spread[asked.origin], sizes)
    columns = names, asked.leads, predictors, members, asked.actual
    times = asked.times / model.units.time_scale
    backtest = Backtest(*columns, asked.series, times, is_new, asked.origin, expected)
    leads, weights, unseen = learn_weights(backtest)
    early = [_at_zero(weights[:, :1], names, _anchored(model, asked.panel[:10]))]
    # If the first knot is beyond a typical gap, its weights apply from one gap on. If it is much
    # shorter, they apply well before it.
    settled = 1.0 if leads[0] > 1.0 else SETTINGS.settled * leads[0]
    if not 0.5 <= leads[0] <= 1.0:
        early, leads = [*early, weights[:, :1]], np.concatenate([[settled], leads])
    leads, weights = np.concatenate([[0.0], leads]), np.concatenate([*early, weights], axis=1)
    if not by_folds and (tested is None or new_from is not None):
        whole, *_ = learn_members(model, trained if tested is None else tested, rng, seasons)
    weights_of = {"leads": leads, "weights": weights, "unseen": unseen}
    return StackedForecast(**vars(whole), names=names, **weights_of), backtest


def _of_structure(
    models: Any, scaler: ChannelScaler, panel: Panel, rows: np.ndarray, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Structural forecasts (Q, D) and their expected errors (Q, D), in the units of the model.

    Unknown expected errors are 1, as for the mean.
    """
    means, deviations = models.forecast_from(panel, rows, times, np.ones_like(rows))
    expected = np.maximum(deviations / scaler.scale, NEGLIGIBLE)
    return scaler.read(means), np.where(np.isnan(expected), 1.0, expected)


def _of_structure_by_folds(
    learn: Callable[[Panel], Any], scaler: ChannelScaler, learned: Panel, asked: RollingOrigins
) -> np.ndarray:
    """Structural forecasts and expected errors (2, M, D), by models of the other folds.

    With fewer than three series, by models of all of them.
    """
    n_folds = FEWEST_FOLDS if learned.n_series >= FEWEST_FOLDS else 1
    found, origins = np.empty((2, len(asked.rows), learned.n_channels)), asked.origins[asked.origin]
    for k in range(n_folds):
        others = np.arange(learned.n_series) % n_folds != k
        models = learn(learned[others] if n_folds > 1 else learned)
        own = asked.series % n_folds == k
        query = asked.panel, origins[own], asked.times[own]
        found[:, own] = _of_structure(models, scaler, *query)
    return found


def _judges(
    model: ModelEmbedder,
    trained: Panel,
    tested: Panel | None,
    rng: np.random.RandomState,
    new_from: np.ndarray | None,
    seasons: Seasons,
) -> tuple[RollingOrigins, np.ndarray, Panel, bool]:
    """Choose the forecasts that set the weights; see `learn_stacking`.

    Returns their origins, a mask (M,) of the rows that did not train the model, the series that
    members are learned from, and whether members are judged by folds of these series.
    """
    pool = trained if tested is None else tested
    if new_from is not None:
        by_folds = pool.n_series >= FEWEST_FOLDS
        earliest = pool.offsets[:-1] if by_folds else new_from
        asked = rolling_origins(model, pool, rng, earliest)
        return asked, asked.rows >= new_from[asked.series], pool if by_folds else trained, by_folds
    if tested is None and trained.n_series == 1:
        half = np.array([(trained.n_observations + 1) // 2])
        known, asked = np.zeros((2, 1), dtype=np.int64), rolling_origins(model, trained, rng, half)
        return asked, np.zeros(len(asked.rows), dtype=bool), take(trained, *known, half), False
    asked = rolling_origins(model, pool, rng, _whole_of_seasonal(pool, seasons))
    is_new = np.full(len(asked.rows), tested is not None)
    if tested is None or tested.n_series >= SETTINGS.fewest_judges:
        return asked, is_new, trained, tested is None
    others = rolling_origins(model, trained, rng, _whole_of_seasonal(trained, seasons))
    asked = others.followed_by(asked, model)
    is_new = np.arange(len(asked.rows)) >= len(others.rows)
    learned = Panel.concat([trained, tested], ids=np.arange(trained.n_series + tested.n_series))
    return asked, is_new, learned, True


def _anchored(model: ModelEmbedder, few: Panel) -> list[str]:
    """Names of the forecasts that are exact at a lead of zero, the surest first.

    The first rows of a few series show whether the free run is.
    """
    if model.filters:
        return [RUN]  # a filter is more accurate than one noisy observation
    others = [name for name, member in MEMBERS.items() if member.starts_at_last]
    start, every = few.offsets[:-1], np.arange(len(few))
    few = take(few, every, start, np.minimum(start + 10, few.offsets[1:]))
    last = few.offsets[1:] - 1
    run = model.runs_from(few, last, few.end, np.ones_like(last))
    off = np.nan_to_num(run - model.standardised(few).values[last])
    return [*others, RUN] if (np.abs(off) < NEGLIGIBLE).all() else others


def _at_zero(weights: np.ndarray, names: tuple[str, ...], anchored: list[str]) -> np.ndarray:
    """Weights (D, 1, G) at a lead of zero, where only anchored forecasts have weight."""
    start = np.where(np.isin(names, anchored), weights, 0.0)
    start[..., names.index(anchored[0])] += start.sum(axis=-1) <= NEGLIGIBLE
    return start / start.sum(axis=-1, keepdims=True)


def learn_members(
    model: ModelEmbedder,
    panel: Panel,
    rng: np.random.RandomState,
    seasons: Seasons,
    knots: Sequence[float] = (),
) -> list[Members]:
    """Learn members in the units of a model: from all series, then without each fold of them.

    `knots` (J,) are the leads of a regression; there is none without any.
    """
    sample = rolling_origins(model, panel, rng, _whole_of_seasonal(panel, seasons), _SAMPLE)
    return Members.learn(sample, seasons, np.array(knots, dtype=np.float64))


def seasons_of(model: ModelEmbedder, panel: Panel, period: Sequence[float] | None) -> Seasons:
    """Seasons that the mixed model chooses from; see `learn_stacking`."""
    if period is None:
        rows = model.standardised(panel)
        return [(), *shared_seasons(rows.times, rows.values, rows.offsets)]
    return alternatives([p / model.units.time_scale for p in period]) or [()]


def _whole_of_seasonal(panel: Panel, seasons: Seasons) -> np.ndarray | None:
    """First rows (B,) if there may be a season, as windows would lose its phase; else None."""
    return panel.offsets[:-1] if any(seasons) else None


def cross_fitted(backtest: Backtest, n_folds: int = N_FOLDS) -> np.ndarray:
    """Combined forecasts (M, D) of a backtest, each by weights learned from the other folds."""
    result = np.empty_like(backtest.actual)
    folds = folds_of(backtest.series, n_folds, backtest.times)
    for fold in np.unique(folds):
        out = folds == fold
        knots, weights, unseen = learn_weights(backtest.of(~out))
        part = backtest.of(out)
        at = weights_between(weights, unseen, knots, part.leads)
        result[out] = (at * part.members).sum(axis=-1)
    return result


def calibrate(backtest: Backtest, unit: float) -> Calibration:
    """Calibration of the combined forecasts; `unit` is the typical gap in the units of `times`.

    Each forecast is combined with weights learned from other folds.
    """
    forecasts = cross_fitted(backtest)
    wrong = backtest.enlarged(backtest.actual - forecasts)
    columns = backtest.leads * unit, wrong / backtest.expected
    about = backtest.series, backtest.times * unit, backtest.predictors, backtest.origin
    return Calibration.learn(*columns, *about, forecasts)


def stack_forecasts(state: FitState, stage: StackForecasts) -> None:
    """Give the embedder its weights and errors, which are learned when forecasts are asked for.

    Many series have no structural models.
    """
    model, trained, tested, new_from = state.embedder, state.trained, state.judging, None
    panel = state.panel
    learn = stage.structural if len(panel) < FEWEST_TO_HOLD_OUT else None
    if learn and tested is not None and len(trained) == len(panel):
        # Structural forecasts of the ends of series that judge need their beginnings.
        tested, new_from = panel, panel.offsets[:-1] + trained.lengths
    options = {"new_from": new_from, "period": stage.period, "structural": learn}
    judged = trained if tested is None else tested
    unit, n_series = model.units.time_scale, len(judged)
    seed = state.random_state.randint(2**31 - 1)  # after Ctrl-C it begins anew
    asked = model, trained, tested
    both = Lazy(lambda: learn_stacking(*asked, np.random.RandomState(seed), **options))
    stacking = Lazy(lambda: replace(both.learned[0], structural=learn and learn(panel)))
    errors = Lazy(lambda: calibrate(both.learned[1], unit))
    others = None if tested is None or new_from is not None else trained
    paths = lazy_path_errors(model, judged, others, new_from)
    state.embedder = replace(model, stacking=stacking, calibration=errors, path_errors=paths)
    state.report.decisions.append(Lazy(lambda: _decision(stacking, unit, n_series)))


def _decision(stacking: StackedForecast, unit: float, n_series: int) -> Decision:
    """Line of the report: the forecasts that have some weight, and lengths of seasons."""
    weights = {name: w for name, w in stacking.mean_weights.items() if w >= 0.005}
    outcome = f"forecasts combine {', '.join(weights)}"
    if periods := stacking.each[BASE].periods:
        lengths = [f"{period * unit:.4g}" for period in periods]
        outcome += f"; seasons of {' and '.join(lengths)}"
    return Decision("stacking", outcome, weights, n_series)
