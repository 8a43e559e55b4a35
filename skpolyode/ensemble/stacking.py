"""Stacking: convex combinations of a model's free run with simple forecasts.

A free run of learned dynamics is the best forecast where the dynamics are known. Where they are
not, or where nothing can be predicted any more, a simple forecast may be better. Backtests decide
the weights, by channel and by lead. Values are in standard deviations from the mean of their
channel, leads in typical gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from skpolyode.ensemble.backtest import (
    FEWEST_FOLDS,
    N_FOLDS,
    Forecasts,
    RollingOrigins,
    Sample,
    chunks,
    folds_of,
    knots_of,
    rolling_origins,
)
from skpolyode.ensemble.conformal import Calibration
from skpolyode.ensemble.error_scale import signs_of_errors
from skpolyode.ensemble.records import NEGLIGIBLE, Records
from skpolyode.ensemble.simple import (
    SimpleForecasts,
    learning_sample,
    members_of,
    seasons_of,
    whole_of_seasonal,
)
from skpolyode.ensemble.weights import (
    MEMBERS,
    SETTINGS,
    Backtest,
    as_if_new,
    learn_weights,
    weights_between,
)
from skpolyode.panel import Panel
from skpolyode.panel.select import take
from skpolyode.panel.units import Standardised
from skpolyode.saving.codec import saved

_ANCHORED = ("run", "last")  # right at a lead of zero, if the run is
_MIXED = MEMBERS.index("mixed")
_LEARNED = ("run", "ridge")  # members that know nothing about values outside the training range


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
    weights : float64 ndarray of shape (D, J, G)
        Of the members at these leads; smooth between, held beyond. None is negative. What is
        missing to a sum of one is the weight of the mean in training, 0. The further a series is
        outside the range of training, by up to one standard deviation, the more the weights of the
        free run, of the regression and of the mean move to the mixed model: the model has not seen
        such values.
    unseen : float64 ndarray of shape (D, G)
        Weights of the members for channels that have not been observed yet.
    """

    simple: SimpleForecasts
    leads: np.ndarray
    weights: np.ndarray
    unseen: np.ndarray

    def at(self, channel: int, leads: np.ndarray) -> np.ndarray:
        """Weights (n, G) of the members for one channel, at leads (n,), infinite if unseen."""
        return weights_between(self.weights[channel], self.unseen[channel], self.leads, leads)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the G members."""
        return MEMBERS[: self.weights.shape[-1]]

    @property
    def mean_weights(self) -> dict[str, float]:
        """Weight of each member, and of the mean in training, over all channels and leads."""
        weights = self.weights.mean(axis=(0, 1))
        members = dict(zip(self.names, map(float, weights), strict=True))
        return members | {"training mean": max(1.0 - sum(members.values()), 0.0)}

    def combine(
        self,
        run: np.ndarray,
        known: Records,
        elapsed: np.ndarray,
        driven: np.ndarray,
        structural: np.ndarray | None = None,
    ) -> np.ndarray:
        """Forecasts (n, D) from free runs (n, D) and the records (n, D) known of their series.

        `elapsed` (n,) are the times that are forecast, in the units of the records, and `driven`
        (n, F) the responses to inputs then. Without `structural` forecasts (n, D, S), those of an
        ensemble that has them are taken as not known.
        """
        if structural is None:
            structural = np.full((*run.shape, len(self.names) - len(MEMBERS) + 1), np.nan)
        result, learned = np.empty_like(run), np.isin(self.names, _LEARNED)
        for part in chunks(len(run)):
            records, when = known[part], elapsed[part]
            members = self.simple.members(run[part], records, when, driven[part], structural[part])
            leads = records.time_since(when[:, None])
            far = np.where(records.n_values > 0, self.simple.bounds.outside(records), 0.0)
            share = np.clip(far / SETTINGS.margin, 0.0, 1.0)
            for j in range(leads.shape[1]):
                weights = self.at(j, leads[:, j])
                rest = 1 - weights.sum(axis=1)  # of the mean in training
                moved = share[:, j] * (rest + weights[:, learned].sum(axis=1))
                weights[:, learned] *= 1 - share[:, j, None]
                weights[:, _MIXED] += moved
                result[part, j] = (weights * members[:, j]).sum(axis=-1)
        return result

    def expected_errors(self, known: Records, elapsed: np.ndarray) -> np.ndarray:
        """Size (n, D) of the errors that simple forecasts expect at times `elapsed` (n,)."""
        return self.simple.expected_errors(known, elapsed)

    @property
    def reads_inputs(self) -> bool:
        """Whether there is a regression, which reads responses to inputs."""
        return self.simple.ridge is not None

    def start(self, n_series: int, n_channels: int, n_driven: int) -> Records:
        """Records (n, D) of series that have not been observed."""
        return self.simple.blank(n_series, n_channels, n_driven)

    def known_at(
        self, rows: Standardised, offsets: np.ndarray, asked: np.ndarray, driven: np.ndarray
    ) -> Records:
        """Records (n, D) of series up to some rows (n,); see `SimpleForecasts.records`."""
        return self.simple.records(rows, offsets, asked, driven)

    def updated(
        self,
        known: Records,
        elapsed: np.ndarray,
        values: np.ndarray,
        mask: np.ndarray,
        driven: np.ndarray,
    ) -> Records:
        """Records (n, D) after one more observation of each series; see `Records.updated`."""
        return self.simple.updated(known, elapsed, values, mask, driven)

    def unpack(self, packed: np.ndarray, n_driven: int) -> Records:
        """Records that `pack` has packed."""
        return Records.unpack(packed, n_driven)

    def rescaled(self, ratio: float, simple: SimpleForecasts) -> Self:
        """The same for a unit of time that is shorter by `ratio`, with other simple forecasts."""
        return replace(self, leads=self.leads * ratio, simple=simple)


def learn_stacking(
    model: Forecasts,
    trained: Panel,
    tested: Panel | None,
    rng: np.random.RandomState,
    *,
    new_from: np.ndarray | None = None,
    period: Sequence[float] | None = None,
    structural: Callable[[RollingOrigins], tuple[np.ndarray, np.ndarray]] | None = None,
) -> tuple[StackedForecast, Backtest]:
    """Learn the weights of a model and of simple forecasts from backtests.

    With few held-out series, simple forecasts are learned from all series and judged on all of
    them, by folds; only the model is judged on those that it has not seen. Simple forecasts of a
    single series are judged on its second half, by what was learned from the first one.

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
    period : sequence of float or None, default=None
        Of seasons, in the units of `times`: one of them, or all together; empty if there is none.
        None searches for some, and decides whether there are any.
    structural : callable or None, default=None
        Gives structural forecasts (M + O, D, 1) of rolling origins, in the units of the model, and
        the size (M + O, D) of the errors that they expect.
    """
    seasons = seasons_of(model, trained, period)
    asked, is_new, learned, by_folds = _judges(model, trained, tested, rng, new_from, seasons)
    every, ahead = Sample.of(model, asked), asked.is_ahead
    run = np.empty((0, trained.n_channels))
    if len(asked.origins):
        run = model.runs_from(asked.panel, asked.origins, asked.times, asked.counts)
    extra, expected = np.empty((*run.shape, 0)), np.ones(run.shape)
    if structural is not None:
        extra, expected = structural(asked)
    own = run[ahead], extra[ahead]
    sample, start = every.of_rows(ahead), (run - every.actual)[~ahead]
    knots = np.empty(0)
    if new_from is None and learned.n_series > 1:
        knots = knots_of(sample.leads, sample.actual)
    source = learning_sample(model, learned, rng, seasons)
    simple, *folds = SimpleForecasts.learn(source, seasons, knots)
    members = members_of(folds if by_folds else [simple], sample, *own)
    known = simple.records(sample.rows, sample.offsets, sample.origins, sample.responses)
    sizes = np.empty(sample.actual.shape)
    for part in chunks(len(sizes)):
        which, when = sample.origin[part], sample.elapsed[part]
        sizes[part] = simple.expected_errors(known[which], when)
    rows = sample.rows.values, sample.offsets, sample.origins[sample.origin]
    columns = sample.leads, signs_of_errors(*rows, sizes), members, sample.actual
    times = asked.times[ahead] / model.units.time_scale
    about = sample.series, times, is_new[ahead], sample.origin, expected[ahead]
    backtest = Backtest(*columns, *about)
    leads, weights, unseen = learn_weights(backtest)
    early = [_at_zero(weights[:, :1], _anchored(model, start))]
    if leads[0] > 1.0:  # after a typical gap the last value says no more than it does then
        early, leads = [*early, weights[:, :1]], np.concatenate([[1.0], leads])
    leads, weights = np.concatenate([[0.0], leads]), np.concatenate([*early, weights], axis=1)
    if tested is None and not by_folds:
        simple = learn_simple(model, trained, rng, period)
    return StackedForecast(simple, leads, weights, unseen), backtest


def _judges(
    model: Forecasts,
    trained: Panel,
    tested: Panel | None,
    rng: np.random.RandomState,
    new_from: np.ndarray | None,
    seasons: list[tuple[float, ...]],
) -> tuple[RollingOrigins, np.ndarray, Panel, bool]:
    """Origins whose forecasts are judged, and whether the model has not seen (M + O,) what came.

    Then the series that simple forecasts are learned from, and whether they are judged by folds of
    these; see `learn_stacking`.
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
    asked = rolling_origins(model, pool, rng, whole_of_seasonal(pool, seasons))
    is_new = np.full(len(asked.rows), tested is not None)
    if tested is None or tested.n_series >= SETTINGS.fewest_judges:
        return asked, is_new, trained, tested is None
    others = rolling_origins(model, trained, rng, whole_of_seasonal(trained, seasons))
    asked = others.followed_by(asked)
    is_new = np.arange(len(asked.rows)) >= len(others.rows)
    learned = Panel.concat([trained, tested], ids=np.arange(trained.n_series + tested.n_series))
    return asked, is_new, learned, True


def _anchored(model: Forecasts, start: np.ndarray) -> tuple[str, ...]:
    """Members that are right at a lead of zero, where the free run errs by `start` (O, D)."""
    if model.filters:
        return _ANCHORED[:1]  # a filter knows better than one noisy observation
    is_right = (np.abs(start[~np.isnan(start)]) < NEGLIGIBLE).all()
    return _ANCHORED if is_right else _ANCHORED[1:]


def _at_zero(weights: np.ndarray, anchored: tuple[str, ...]) -> np.ndarray:
    """Weights (D, 1, G) at a lead of zero, where only anchored members are right."""
    start = np.where(np.isin(MEMBERS[: weights.shape[-1]], anchored), weights, 0.0)
    surest = "last" if "last" in anchored else "run"
    start[..., MEMBERS.index(surest)] += start.sum(axis=-1) <= NEGLIGIBLE
    return start / start.sum(axis=-1, keepdims=True)


def learn_simple(
    model: Forecasts,
    panel: Panel,
    rng: np.random.RandomState,
    period: Sequence[float] | None = None,
) -> SimpleForecasts:
    """Simple forecasts in the units of a model, without a regression; see `learn_stacking`."""
    seasons = seasons_of(model, panel, period)
    sample = learning_sample(model, panel, rng, seasons)
    return SimpleForecasts.learn(sample, seasons, np.empty(0))[0]


def cross_fitted(backtest: Backtest, n_folds: int = N_FOLDS) -> np.ndarray:
    """Combined forecasts (M, D) of a backtest, each by weights learned from the other folds."""
    result = np.empty_like(backtest.actual)
    folds = folds_of(backtest.series, n_folds, backtest.times)
    for fold in np.unique(folds):
        out = folds == fold
        knots, weights, unseen = learn_weights(backtest.of(~out))
        own = backtest.of(out)
        for j, channel in enumerate(zip(weights, unseen, strict=True)):
            at = weights_between(*channel, knots, own.leads[:, j])
            result[out, j] = (at * own.members[:, j]).sum(axis=-1)
    return result


def calibrate(backtest: Backtest, unit: float) -> Calibration:
    """How far off combined forecasts are, with times in units of which `unit` are a typical gap.

    Weights that judge a forecast are learned from other folds.
    """
    wrong = backtest.actual - as_if_new(cross_fitted(backtest), backtest)
    columns = backtest.leads * unit, wrong / backtest.expected
    about = backtest.series, backtest.times * unit, backtest.signs, backtest.origin
    return Calibration.learn(*columns, *about)
