"""Weights of an ensemble: convex at each lead, from a backtest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from skpolyode.ensemble.backtest import (
    BacktestSettings,
    are_known,
    chunks,
    effective_count,
    knots_of,
    nearness,
)

RUN, STRUCTURAL = "run", "structural"
"""Names of forecasts that are not of a member: the model's, and with few series structural ones."""


@dataclass(frozen=True)
class StackingSettings:
    """How strongly weights are shrunk, and where they do not apply.

    Chosen on two folds of 21 longitudinal sets, and on Lorenz63 with 20 and 200 series. With a
    prior of 3, 5 and 20, errors in the rest of the series are 1.005, 1.005 and 0.998 times as large
    (geometric means).

    Series that trained the model are judged beside the few that did not, with errors as
    :func:`inflate_training_errors` enlarges them. This makes errors in the rest of the series 0.88
    times as large, those of the next row 0.90 times (18 of these sets, four folds; Crime's next row
    1.17 times), and those of noisy sines and Lorenz63, 40 and 200 series, 0.85 to 0.99 times.

    With a `jump` of 1, 3 and a thousand in place of 2, the next row of aneurysm has 0.97, 1.05 and
    1.16 times the error, that of Blackmore 0.97, 1.03 and 1.08, and the eighth one of pbcseq 1.01,
    0.99 and 0.98.

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

    prior: float = 10.0  # forecasts that the prior weights are worth
    in_sample: float = 0.2  # factor of squared training errors if no series is held out
    structural_prior: float = 50.0  # the same for structural forecasts, where there are any
    likeness: float = 0.5  # power of the number of forecasts of a series: their errors are alike
    outlier: float = 5.0  # typical errors; forecasts that all members miss by more count less
    ordinary: float = 0.9  # quantile of the best member's errors that counts as typical
    sum_weight: float = 1e4  # of the equation that weights sum to one, relative to the errors
    jump: float = 2.0  # typical errors; the excess is not enlarged
    trust: float = 2.0  # held-out series that a prior ratio of errors of 1 is worth
    fewest_judges: int = 60  # held-out series; with fewer, all series judge simple forecasts
    settled: float = 0.1  # share of that lead, from where on its weights apply


SETTINGS = StackingSettings()
_TINY = 1e-9  # numerical guard: of a sum of weights, of errors, and of the diagonal of a matrix


class Backtest(NamedTuple):
    """M forecasts of known rows from rows before them, and the values observed."""

    names: tuple[str, ...]  # of the G forecasts; weights sum to at most 1, the mean has the rest
    leads: np.ndarray  # float64 (M, D), inf for a channel that was not observed before
    signs: np.ndarray  # float64 (M, D, S): predictors of the error size
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


def learn_weights(backtest: Backtest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leads (J,), weights (D, J, G) there, and weights (D, G) for channels not yet observed.

    Without any forecasts, the free run has all weight. Its errors on series that trained the model
    are enlarged by :func:`inflate_training_errors`.
    """
    counted, run = are_known(backtest.leads, backtest.actual), backtest.names.index(RUN)
    if not counted.any():
        n_channels, size = backtest.members.shape[1:]
        alone = np.tile(np.eye(size)[run], (n_channels, 1, 1))
        return np.ones(1), alone, alone[:, 0]
    leads, members = _knots(backtest, counted), backtest.members.copy()
    members[..., run] = inflate_training_errors(members[..., run], backtest)
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
    at neighbouring leads are shrunk towards each other. If no series is new, errors of training are
    not enlarged, and all of them count less.
    """
    names, size = backtest.names, len(backtest.names)
    is_structural = STRUCTURAL in names
    penalty = _penalty(nearness(backtest.leads[counted], leads).sum(axis=0))
    penalty *= SETTINGS.structural_prior if is_structural else SETTINGS.prior
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


def inflate_training_errors(forecasts: np.ndarray, backtest: Backtest) -> np.ndarray:
    """Forecasts (M, D), with errors of training as large as those of held-out series.

    Errors on series that trained the model are too small. They are multiplied by the median ratio
    of held-out errors to the median error in training of the channel, shrunk towards 1 if few
    series are held out. Training does not help to foresee jumps, so at most `jump` median errors
    of each error are enlarged.
    """
    error, is_new = forecasts - backtest.actual, backtest.is_new
    typical = np.array([_median(np.abs(column)) for column in error[~is_new].T])
    typical[~(typical > 0)] = np.nan
    ratio = _median(np.abs(error[is_new]) / typical)
    if not ratio > 0:
        return forecasts
    n_new = len(np.unique(backtest.series[is_new]))
    power = n_new / (n_new + SETTINGS.trust)
    more = max(ratio ** (2 * power) - 1, 0.0)
    within = np.minimum(np.abs(error), SETTINGS.jump * np.nan_to_num(typical))
    error = np.copysign(np.sqrt(error**2 + more * within**2), error)
    return np.where(is_new[:, None], forecasts, backtest.actual + error)


def _median(values: np.ndarray) -> float:
    """Median of the finite values; NaN without any."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else np.nan


def _penalty(near: np.ndarray) -> np.ndarray:
    """Penalty matrix (J, J): of weights at each of J leads, and of differences between neighbours.

    `near` (J,) counts the forecasts near each lead. Where there are none, as between the leads of
    regular series, weights follow from those at the neighbouring leads.
    """
    steps = np.eye(len(near))[1:] - np.eye(len(near))[:-1]
    return steps.T @ steps + np.diag(np.maximum(near / (near + 1.0), _TINY))


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
