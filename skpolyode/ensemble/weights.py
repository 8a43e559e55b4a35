"""Weights of an ensemble: convex at each lead, from a backtest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from skpolyode.ensemble.backtest import are_known, chunks, effective_count, knots_of, nearness

RUN, STRUCTURAL = "run", "structural"
"""Names of forecasts that are no members': the model's, and of few series structural ones."""


@dataclass(frozen=True)
class StackingSettings:
    """How strongly weights are shrunk, and where they do not apply.

    Chosen on two folds of 21 longitudinal sets, and on Lorenz63 with 20 and 200 series. With a
    prior of 3, 5 and 20 errors in the rest of the series are 1.005, 1.005 and 0.998 times as large
    (geometric means).

    That series which trained the model count beside the few that did not, with errors as
    :func:`without_optimism` enlarges them, makes errors in the rest of the series 0.88 times as
    large, and those of the next row 0.90 times (18 of these sets, four folds; Crime's next row 1.17
    times), and those of noisy sines and Lorenz63, 40 and 200 series, 0.85 to 0.99 times.

    With a `jump` of 1, 3 and a thousand in place of 2, the next row of aneurysm has 0.97, 1.05 and
    1.16 times the error, that of Blackmore 0.97, 1.03 and 1.08, and the eighth one of pbcseq 1.01,
    0.99 and 0.98.

    Few held-out series may hold none of the jumps that decide the squared error. With 60 in place
    of 20 `fewest_judges`, the rest of the series has 0.67 of the error on aneurysm, 0.98 on eICU
    and on noisy Lorenz63, 1.01 on wages and 1.00 on Lorenz63 (500 to 1 094 series); the next row
    0.95, 1.00, 1.00, 0.99 and 1.02. With `PolyODEForecaster` and 90 to 250 series errors are the
    same in the mean, and intervals of 90 % cover 0.87 to 0.93 in place of 0.85 to 0.94.

    Blood pressures of nafld that are measured twice within a few days differ by more than the
    deviation of all. With `fewest_near` and `settled` the next row has 0.92 of the error there,
    0.99 on noisy Lorenz63, 1.01 on aneurysm and 1.00 on eight other sets.
    """

    prior: float = 10.0  # forecasts that speak for what others are shrunk towards
    in_sample: float = 0.2  # share that errors in training count as, where there are no others
    margin: float = 1.0  # standard deviations beyond the training range, over which the model fades
    structural_prior: float = 50.0  # the same for structural forecasts, where there are any
    likeness: float = 0.5  # power of the number of forecasts of a series: their errors are alike
    outlier: float = 5.0  # usual errors; forecasts that all members miss by more count less
    ordinary: float = 0.9  # share of the forecasts that decide which errors are usual
    sum_weight: float = 1e4  # of the equation that weights sum to one, beside those of the errors
    jump: float = 2.0  # usual errors; what is beyond is no larger in series that are new
    trust: float = 2.0  # held-out series that speak for errors as large as those in training
    fewest_judges: int = 60  # held-out series; with fewer, all series judge simple forecasts
    fewest_near: int = 25  # forecasts with the shortest leads, that tell of the first knot
    settled: float = 0.1  # share of that lead, from where on its weights hold


SETTINGS = StackingSettings()
_TINY = 1e-9  # numerical guard: of a sum of weights, and of the diagonal of a matrix
_LEAST = 1e-8  # squared error that counts as none


class Backtest(NamedTuple):
    """M forecasts of known rows from rows before them, and what came."""

    names: tuple[str, ...]  # of the G forecasts; what is missing to one is the weight of the mean
    leads: np.ndarray  # float64 (M, D), inf of a channel that was not observed before
    signs: np.ndarray  # float64 (M, D, S): of how large errors will be
    members: np.ndarray  # float64 (M, D, G)
    actual: np.ndarray  # float64 (M, D), NaN where not observed
    series: np.ndarray  # int64 (M,)
    times: np.ndarray  # float64 (M,): that are forecast, in typical gaps
    is_new: np.ndarray  # bool (M,): whether the series has not trained the model
    origin: np.ndarray  # int64 (M,): which of the origins it is forecast from
    expected: np.ndarray  # float64 (M, D): size of the errors that structural ones expect; else 1

    def of(self, kept: np.ndarray) -> Backtest:
        """The forecasts that a mask (M,) keeps."""
        arrays = {k: x[kept] for k, x in self._asdict().items() if isinstance(x, np.ndarray)}
        return self._replace(**arrays)


def weights_between(
    weights: np.ndarray, unseen: np.ndarray, knots: np.ndarray, leads: np.ndarray
) -> np.ndarray:
    """Weights (n, D, G) at leads (n, D), from those (D, J, G) at knots (J,).

    Of a channel without observations, which has no finite lead, they are those (D, G) of what is
    `unseen`.
    """
    pairs = zip(leads.T, weights, strict=True)
    found = np.stack([nearness(lead, knots) @ own for lead, own in pairs], axis=1)
    return np.where(np.isinf(leads)[..., None], unseen, found)


def learn_weights(backtest: Backtest) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leads (J,), weights (D, J, G) there, and weights (D, G).

    The last are those of channels that have not been observed before, which have no lead. Without
    any forecasts, all weight is on the free run. Its errors on series that trained the model count
    as :func:`without_optimism` enlarges them.
    """
    counted, run = are_known(backtest.leads, backtest.actual), backtest.names.index(RUN)
    if not counted.any():
        n_channels, size = backtest.members.shape[1:]
        alone = np.tile(np.eye(size)[run], (n_channels, 1, 1))
        return np.ones(1), alone, alone[:, 0]
    leads, members = _knots(backtest, counted), backtest.members.copy()
    members[..., run] = without_optimism(members[..., run], backtest)
    backtest = backtest._replace(members=members)
    unseen = np.isinf(backtest.leads) & np.isfinite(backtest.actual)
    of_unseen = _weights_at(backtest, unseen, np.ones(1))[:, 0]
    return leads, _weights_at(backtest, counted, leads), of_unseen


def _knots(backtest: Backtest, counted: np.ndarray) -> np.ndarray:
    """Leads (J,), and before them a shorter one if some forecasts tell of it.

    Where values are noisy, a second one soon after the first is not closer to it.
    """
    knots = knots_of(backtest.leads, backtest.actual)
    shorter = np.sort(backtest.leads[counted])[: SETTINGS.fewest_near][-1:]
    return np.append(shorter[shorter < knots[0] / 2], knots) if len(knots) > 1 else knots


def _weights_at(backtest: Backtest, counted: np.ndarray, leads: np.ndarray) -> np.ndarray:
    """Weights (D, J, G) at leads, from the forecasts that a mask (M, D) counts.

    Weights of all channels together are learned first: those of all forecasts but the free run,
    shrunk towards structural ones or, without any, the best of them; then those of all members,
    shrunk towards the first. Those of a channel are shrunk towards them. The prior counts as much
    as a few forecasts that do not overlap and err as the best member does. Between neighbouring
    leads, weights are shrunk towards each other.

    Where no series is new, errors of training are not enlarged, and all count for less.
    """
    names, size = backtest.names, len(backtest.names)
    is_structural = STRUCTURAL in names
    penalty = _penalty(nearness(backtest.leads[counted], leads).sum(axis=0))
    penalty *= SETTINGS.structural_prior if is_structural else SETTINGS.prior
    parts = np.stack([_error_products(backtest, own, j, leads) for j, own in enumerate(counted.T)])
    # Errors of several channels may be correlated: all of them count as one channel does.
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
    own = [towards]
    if len(parts) > 1:
        own = [_convex_weights(part, penalty, towards) for part in parts]
    return np.stack(own)[..., :-1]


def without_optimism(forecasts: np.ndarray, backtest: Backtest) -> np.ndarray:
    """Forecasts (M, D) of series that trained the model, with errors as large as those of others.

    Errors of training are too small. They are multiplied by how much larger those of series that
    the model has not seen are usually, beside those in training of the same channel: the fewer of
    these there are, the closer to one. Jumps are foreseen in neither: of an error that is far above
    the usual, only a usual one is enlarged.
    """
    error, is_new = forecasts - backtest.actual, backtest.is_new
    usual = np.array([_median(np.abs(own)) for own in error[~is_new].T])
    usual[~(usual > 0)] = np.nan
    ratio = _median(np.abs(error[is_new]) / usual)
    if not ratio > 0:
        return forecasts
    n_new = len(np.unique(backtest.series[is_new]))
    power = n_new / (n_new + SETTINGS.trust)
    more = max(ratio ** (2 * power) - 1, 0.0)
    within = np.minimum(np.abs(error), SETTINGS.jump * np.nan_to_num(usual))
    error = np.copysign(np.sqrt(error**2 + more * within**2), error)
    return np.where(is_new[:, None], forecasts, backtest.actual + error)


def _median(values: np.ndarray) -> float:
    """Median of what is known; NaN of nothing."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else np.nan


def _penalty(near: np.ndarray) -> np.ndarray:
    """Matrix (J, J) of a penalty at each of J leads, and of differences between neighbours.

    `near` (J,) counts the forecasts near each lead. Where there are none, as between the leads of
    regular series, weights follow from those of the neighbours.
    """
    steps = np.eye(len(near))[1:] - np.eye(len(near))[:-1]
    return steps.T @ steps + np.diag(np.maximum(near / (near + 1.0), _TINY))


def _error_products(
    backtest: Backtest, rows: np.ndarray, channel: int, leads: np.ndarray
) -> np.ndarray:
    """Sums (J, G, J, G) of products of errors, weighted by how near forecasts are to J leads.

    The members are those of the backtest, and the mean in training. Errors are relative to those
    of the best member near the lead, and count as many times as there are forecasts that do not
    overlap.
    """
    lead, actual = backtest.leads[rows, channel], backtest.actual[rows, channel]
    members = np.column_stack([backtest.members[rows, channel], np.zeros(len(lead))])
    errors, near = members - actual[:, None], nearness(lead, leads)  # (m, G), (m, J)
    series, times = backtest.series[rows], backtest.times[rows]
    errors = _relative(errors, near)
    n_apart = [
        effective_count(series[own > 0], times[own > 0], when, power=SETTINGS.likeness)
        for own, when in zip(near.T, leads, strict=True)
    ]
    errors *= np.sqrt(near @ (n_apart / np.maximum(near.sum(axis=0), _TINY)))[:, None]
    size = near.shape[1] * errors.shape[1]
    products = np.zeros((size, size))
    for part in chunks(len(errors)):
        spread = (near[part, :, None] * errors[part, None]).reshape(-1, size)
        products += spread.T @ spread
    return products.reshape(*(near.shape[1], errors.shape[1]) * 2)


def _relative(errors: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Errors (m, G) as multiples of those of the best member near each of J leads.

    So that no faulty cell decides, a forecast counts less if all members miss it by far. Its errors
    are then smaller by one factor: each by one of its own, errors of opposite sign could cancel
    that do not, and a member that is exact would gain nothing by it.
    """
    difficulty = np.abs(errors).min(axis=1)
    usual = np.quantile(difficulty, SETTINGS.ordinary) if len(errors) else 0.0
    credible = np.minimum(max(usual, _LEAST) / np.maximum(difficulty, _TINY), 1.0) ** 2
    for _ in range(2):
        counts = near * credible[:, None]
        squares = counts.T @ errors**2 / np.maximum(counts.sum(axis=0), _TINY)[:, None]
        scale = near @ np.sqrt(np.maximum(squares.min(axis=1), _LEAST))
        credible = np.minimum(SETTINGS.outlier * scale / np.maximum(difficulty, _TINY), 1.0) ** 2
    return errors * np.sqrt(credible)[:, None] / scale[:, None]


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
