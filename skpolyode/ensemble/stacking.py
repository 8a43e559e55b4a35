"""Stacking: convex combinations of a model's free run with simple forecasts.

A free run of learned dynamics is the best forecast where the dynamics are known. Where they are
not, or beyond the time that can be predicted, a simple forecast may be better. Backtests set the
weights, by channel and by lead. Values are in standard deviations from the mean of their channel,
leads in typical gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.base import Known, Late, take_known
from skpolyode.ensemble.backtest import (
    FEWEST_FOLDS,
    N_FOLDS,
    BacktestSettings,
    RollingOrigins,
    chunks,
    folds_of,
    knots_of,
    nearness,
    rolling_origins,
)
from skpolyode.ensemble.conformal import Calibration
from skpolyode.ensemble.error_scale import FollowsSpread, signs_of_errors
from skpolyode.ensemble.member import NEGLIGIBLE, Records, Sample
from skpolyode.ensemble.members import BASE, MEMBERS, RECORDS, Members, members_of
from skpolyode.ensemble.paths import late_paths
from skpolyode.ensemble.periods import Seasons, alternatives, shared_seasons
from skpolyode.ensemble.weights import (
    RUN,
    SETTINGS,
    STRUCTURAL,
    Backtest,
    inflate_training_errors,
    learn_weights,
)
from skpolyode.fit_report import Decision
from skpolyode.panel import Panel
from skpolyode.panel.select import take
from skpolyode.saving.codec import register_as, saved
from skpolyode.transformers.stages import FitState

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
    """

    names: tuple[str, ...]
    leads: np.ndarray
    weights: np.ndarray
    unseen: np.ndarray

    def at(self, leads: np.ndarray) -> np.ndarray:
        """Weights (n, D, G) at leads (n, D), infinite if unseen."""
        return weights_between(self.weights, self.unseen, self.leads, leads)

    @property
    def mean_weights(self) -> dict[str, float]:
        """Weight of each forecast, and of the mean in training, over all channels and leads."""
        weights = self.weights.mean(axis=(0, 1))
        members = dict(zip(self.names, map(float, weights), strict=True))
        return members | {"training mean": max(1.0 - sum(members.values()), 0.0)}

    def combine(
        self, given: Known, known: Known, elapsed: np.ndarray, driven: np.ndarray
    ) -> np.ndarray:
        """Forecasts (n, D), from `given` ones and from the states `known` of the series.

        See :class:`~skpolyode.embedders.base.Combiner`.
        """
        result, base = np.empty_like(given[RUN]), self.names.index(BASE)
        trusted = {name for name, member in self.each.items() if member.extrapolates} | {STRUCTURAL}
        inside = ~np.isin(self.names, list(trusted))
        for part in chunks(len(result)):
            states, when = take_known(known, part), elapsed[part]
            query = take_known(given, part), states, when, driven[part]
            members, records = self.forecasts(self.names, *query), Records.of(states[RECORDS])
            leads = records.time_since(when[:, None])
            far, rare = (np.minimum(x, 1.0) for x in self.bounds.outside(records))
            weights = self.at(leads)
            share = np.maximum(far, rare * (1 - weights[..., self.names.index(RUN)]))
            rest = 1 - weights.sum(axis=-1)  # weight of the training mean
            weights[..., base] += share * (rest + weights[..., inside].sum(axis=-1))
            weights[..., inside] *= 1 - share[..., None]
            result[part] = (weights * members).sum(axis=-1)
        return result


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
    structural: Callable[[Panel, RollingOrigins], tuple[np.ndarray, np.ndarray]] | None = None,
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
        Called with a panel to learn from and rolling origins. Returns structural forecasts
        (M + O, D) and the expected size of their errors, in the units of the model.

    Returns
    -------
    StackedForecast
        The members and their weights.
    Backtest
        The forecasts that the weights were learned from.
    """
    seasons = seasons_of(model, trained, period)
    asked, is_new, learned, by_folds = _judges(model, trained, tested, rng, new_from, seasons)
    every, ahead = Sample.of(model, asked), asked.is_ahead
    run = np.empty((0, trained.n_channels))
    if len(asked.origins):
        run = model.runs_from(asked.panel, asked.origins, asked.times, asked.counts)
    given, expected = {RUN: run[ahead]}, np.ones((int(ahead.sum()), trained.n_channels))
    if structural is not None:
        given[STRUCTURAL], expected = (x[ahead] for x in structural(learned, asked))
    sample, start = every.of_rows(ahead), (run - every.actual)[~ahead]
    knots = np.empty(0)
    if new_from is None and learned.n_series > 1:
        knots = knots_of(sample.leads, sample.actual)
    whole, *folds = Members.learn(_learning_sample(model, learned, rng, seasons), seasons, knots)
    names = RUN, *MEMBERS, *(name for name in given if name != RUN)
    members = members_of(folds if by_folds else [whole], names, sample, given)
    known, sizes = whole.known_at(sample.rows, sample.origins), np.empty(sample.actual.shape)
    for part in chunks(len(sizes)):
        states = take_known(known, sample.origin[part])
        sizes[part] = whole.expected_errors(states, sample.elapsed[part])
    rows = sample.rows.values, sample.rows.offsets, sample.origins[sample.origin]
    columns = names, sample.leads, signs_of_errors(*rows, sizes), members, sample.actual
    times = asked.times[ahead] / model.units.time_scale
    backtest = Backtest(*columns, sample.series, times, is_new[ahead], sample.origin, expected)
    leads, weights, unseen = learn_weights(backtest)
    early = [_at_zero(weights[:, :1], names, _anchored(model, start))]
    # If the first knot is beyond a typical gap, its weights apply from one gap on. If it is much
    # shorter, they apply well before it.
    settled = 1.0 if leads[0] > 1.0 else SETTINGS.settled * leads[0]
    if not 0.5 <= leads[0] <= 1.0:
        early, leads = [*early, weights[:, :1]], np.concatenate([[settled], leads])
    leads, weights = np.concatenate([[0.0], leads]), np.concatenate([*early, weights], axis=1)
    if not by_folds and (tested is None or new_from is not None):
        whole = learn_members(model, trained if tested is None else tested, rng, seasons)
    weights_of = {"leads": leads, "weights": weights, "unseen": unseen}
    return StackedForecast(**vars(whole), names=names, **weights_of), backtest


def _judges(
    model: ModelEmbedder,
    trained: Panel,
    tested: Panel | None,
    rng: np.random.RandomState,
    new_from: np.ndarray | None,
    seasons: Seasons,
) -> tuple[RollingOrigins, np.ndarray, Panel, bool]:
    """Choose the forecasts that set the weights; see `learn_stacking`.

    Returns their origins, a mask (M + O,) of the rows that did not train the model, the series that
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
    asked = others.followed_by(asked)
    is_new = np.arange(len(asked.rows)) >= len(others.rows)
    learned = Panel.concat([trained, tested], ids=np.arange(trained.n_series + tested.n_series))
    return asked, is_new, learned, True


def _anchored(model: ModelEmbedder, start: np.ndarray) -> list[str]:
    """Names of the forecasts that are exact at a lead of zero, the surest first.

    `start` (O, D) are the errors of the free run there.
    """
    if model.filters:
        return [RUN]  # a filter is more accurate than one noisy observation
    others = [name for name, member in MEMBERS.items() if member.starts_at_last]
    is_right = (np.abs(start[~np.isnan(start)]) < NEGLIGIBLE).all()
    return [*others, RUN] if is_right else others


def _at_zero(weights: np.ndarray, names: tuple[str, ...], anchored: list[str]) -> np.ndarray:
    """Weights (D, 1, G) at a lead of zero, where only anchored forecasts have weight."""
    start = np.where(np.isin(names, anchored), weights, 0.0)
    start[..., names.index(anchored[0])] += start.sum(axis=-1) <= NEGLIGIBLE
    return start / start.sum(axis=-1, keepdims=True)


def learn_members(
    model: ModelEmbedder, panel: Panel, rng: np.random.RandomState, seasons: Seasons
) -> Members:
    """Learn members in the units of a model, without a regression; see `learn_stacking`."""
    sample = _learning_sample(model, panel, rng, seasons)
    return Members.learn(sample, seasons, np.empty(0))[0]


def seasons_of(model: ModelEmbedder, panel: Panel, period: Sequence[float] | None) -> Seasons:
    """Seasons that the mixed model chooses from; see `learn_stacking`."""
    if period is None:
        rows = model.standardised(panel)
        return [(), *shared_seasons(rows.times, rows.values, rows.offsets)]
    return alternatives([p / model.units.time_scale for p in period]) or [()]


def _learning_sample(
    model: ModelEmbedder, panel: Panel, rng: np.random.RandomState, seasons: Seasons
) -> Sample:
    """Sample of forecasts that members are learned from."""
    asked = rolling_origins(model, panel, rng, _whole_of_seasonal(panel, seasons), _SAMPLE)
    return Sample.of(model, asked).of_rows(asked.is_ahead)


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
    wrong = backtest.actual - inflate_training_errors(forecasts, backtest)
    columns = backtest.leads * unit, wrong / backtest.expected
    about = backtest.series, backtest.times * unit, backtest.signs, backtest.origin
    return Calibration.learn(*columns, *about, forecasts)


class LateCalibration(FollowsSpread, Late):
    """A calibration that is learned late; signs of errors are known without it."""


register_as(LateCalibration, lambda late: late.learned)


def stack_forecasts(state: FitState) -> None:
    """Give the embedder its weights and errors, which are learned when forecasts are asked for."""
    model, parts = state.embedder, (state.trained, state.judging)
    judged = state.trained if state.judging is None else state.judging
    unit, n_series = model.units.time_scale, len(judged)
    rng = np.random.RandomState(state.random_state.randint(2**31 - 1))
    both = Late(lambda: learn_stacking(model, *parts, rng))
    stacking = Late(lambda: both.learned[0])
    errors = LateCalibration(lambda: calibrate(both.learned[1], unit))
    paths = late_paths(model, judged, state.random_state)
    state.embedder = replace(model, stacking=stacking, calibration=errors, path_calibration=paths)
    state.report.decisions.append(Late(lambda: _decision(stacking, unit, n_series)))


def _decision(stacking: StackedForecast, unit: float, n_series: int) -> Decision:
    """Line of the report: the forecasts that have some weight, and lengths of seasons."""
    weights = {name: w for name, w in stacking.mean_weights.items() if w >= 0.005}
    outcome = f"forecasts combine {', '.join(weights)}"
    if periods := stacking.each[BASE].periods:
        lengths = [f"{period * unit:.4g}" for period in periods]
        outcome += f"; seasons of {' and '.join(lengths)}"
    return Decision("stacking", outcome, weights, n_series)
