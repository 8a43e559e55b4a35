"""Weights of an ensemble: convex at each lead and number of observations, from a backtest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from skpolyode.ensemble.backtest import are_known, chunks, effective_count, knots_of, nearness
from skpolyode.ensemble.naive import NAIVE

MEMBERS = ("run", *NAIVE, "mixed", "ridge", "structural")
"""Members of the ensemble, in the order of their weights. Few series have structural forecasts,
others do not. What is missing to a sum of one is the weight of the mean in training, 0."""

_RUN, _STRUCTURAL = map(MEMBERS.index, ("run", "structural"))


@dataclass(frozen=True)
class StackingSettings:
    """How strongly weights are shrunk, and where they do not apply.

    Chosen on two folds of 21 longitudinal sets, and on Lorenz63 with 20 and 200 series. With a
    prior of 3, 5 and 20 errors in the rest of the series are 1.005, 1.005 and 0.998 times as large
    (geometric means). Before series of training counted, they were 1.06 times as large with a clip
    of 30, and those of Lorenz63 2 to 4 % larger with five knots of the number of observations, or
    with none.

    That series which trained the model count beside the few that did not, with errors as
    :func:`as_if_new` enlarges them, makes errors in the rest of the series 0.88 times as large, and
    those of the next row 0.90 times (18 of these sets, four folds; Crime's next row 1.17 times),
    and those of noisy sines and Lorenz63, 40 and 200 series, 0.85 to 0.99 times.

    Few held-out series may hold none of the jumps that decide the squared error. With 60 in place
    of 20 `fewest_judges`, the rest of the series has 0.67 of the error on aneurysm, 0.98 on eICU
    and on noisy Lorenz63, 1.01 on wages and 1.00 on Lorenz63 (500 to 1 094 series); the next row
    0.95, 1.00, 1.00, 0.99 and 1.02. With `PolyODEForecaster` and 90 to 250 series errors are the
    same in the mean, and intervals of 90 % cover 0.87 to 0.93 in place of 0.85 to 0.94.
    """

    prior: float = 10.0  # forecasts that speak for what others are shrunk towards
    in_sample: float = 0.2  # share that errors in training count as, where there are no others
    margin: float = 1.0  # standard deviations beyond the training range, over which the model fades
    structural_prior: float = 50.0  # the same for structural forecasts, where there are any
    likeness: float = 0.5  # power of the number of forecasts of a series: their errors are alike
    clip: float = 100.0  # largest error, in multiples of those of the best member
    outlier: float = 5.0  # usual errors; forecasts that all members miss by more count less
    ordinary: float = 0.9  # share of the series that decide which errors are usual
    sum_weight: float = 1e4  # of the equation that weights sum to one, beside those of the errors
    n_known: int = 3  # knots of the number of observations before
    apart: float = 2.0  # ratio between these knots, at least
    trust: float = 2.0  # held-out series that speak for errors as large as those in training
    fewest_folds: int = 3  # series that are judged by the others
    fewest_judges: int = 60  # held-out series; with fewer, all series judge simple forecasts


SETTINGS = StackingSettings()
_TINY = 1e-9  # numerical guard: of a sum of weights, and of the diagonal of a matrix
_LEAST = 1e-14  # squared error that counts as none


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


def weights_between(
    weights: np.ndarray,
    unseen: np.ndarray,
    knots: tuple[np.ndarray, np.ndarray],
    leads: np.ndarray,
    n_values: np.ndarray,
) -> np.ndarray:
    """Weights (n, G) at leads and numbers of observations (n,), from those (J, K, G) at knots.

    Where there are no observations yet, they are those (G,) of what is `unseen`.
    """
    near = nearness(leads, knots[0]), _near_counts(n_values, knots[1])
    found = np.einsum("nj,nk,jkg->ng", *near, weights, optimize=True)
    return np.where(n_values[:, None] < 1, unseen, found)


def _near_counts(n_values: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Weights (..., K) of knots around numbers of observations (...), on a logarithmic scale."""
    return nearness(np.log(np.maximum(n_values, 1.0)), np.log(knots))


def learn_weights(backtest: Backtest) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Leads (J,), numbers of observations (K,), weights (D, J, K, G) there, and weights (D, G).

    The last are those of channels that have not been observed before, which have no lead. Without
    any forecasts, all weight is on the free run. Its errors on series that trained the model count
    as :func:`as_if_new` enlarges them.
    """
    counted = are_known(backtest.leads, backtest.actual)
    if not counted.any():
        n_channels, size = backtest.members.shape[1:]
        run = np.tile(np.eye(size)[_RUN], (n_channels, 1, 1, 1))
        return np.ones(1), np.ones(1), run, run[:, 0, 0]
    leads = knots_of(backtest.leads, backtest.actual)
    # Knots of the number of observations, evenly on a logarithmic scale.
    first, last = np.maximum(np.quantile(backtest.n_values[counted], [0.0, 0.9]), 1.0)
    n_knots = 1 + int(np.log(last / first) / np.log(SETTINGS.apart))
    counts = np.geomspace(first, last, min(n_knots, SETTINGS.n_known))
    members = backtest.members.copy()
    members[..., _RUN] = as_if_new(members[..., _RUN], backtest)
    backtest = backtest._replace(members=members)
    weights = _weights_at(backtest, counted, leads, counts)
    unseen = np.isinf(backtest.leads) & np.isfinite(backtest.actual)
    return leads, counts, weights, _weights_at(backtest, unseen, np.ones(1), np.ones(1))[:, 0, 0]


def _weights_at(
    backtest: Backtest, counted: np.ndarray, leads: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Weights (D, J, K, G) at knots, from the forecasts that a mask (M, D) counts.

    Weights of all channels together are learned first: those of all forecasts but the free run,
    shrunk towards structural ones or, without any, the best of them; then those of all members,
    shrunk towards the first. Those of a channel are shrunk towards them. The prior counts as much
    as a few forecasts that do not overlap and err as the best member does. Between neighbouring
    leads and numbers of observations, weights are shrunk towards each other.

    Where no series is new, errors of training are not enlarged, and all count for less.
    """
    n_channels, size = backtest.members.shape[1:]
    shape = len(leads), len(counts)
    is_structural = size > _STRUCTURAL
    near_counts = _near_counts(backtest.n_values[counted], counts)
    penalty = _penalty(nearness(backtest.leads[counted], leads).T @ near_counts)
    penalty *= SETTINGS.structural_prior if is_structural else SETTINGS.prior
    columns = enumerate(counted.T)
    parts = np.stack([_error_products(backtest, own, j, leads, counts) for j, own in columns])
    # Errors of several channels may be correlated: all of them count as one channel does.
    pooled = parts.mean(axis=0)
    others = np.flatnonzero(np.arange(size + 1) != _RUN)
    of_others = pooled[:, others][:, :, :, others]
    best = others[np.einsum("ngng->g", of_others).argmin()]
    first, towards = np.zeros((2, shape[0] * shape[1], size + 1))
    first[:, _STRUCTURAL if is_structural else best] = 1.0
    towards[:, others] = _convex_weights(of_others, penalty, first[:, others])
    if not backtest.is_new.any():
        parts, pooled = SETTINGS.in_sample * parts, SETTINGS.in_sample * pooled
    towards = _convex_weights(pooled, penalty, towards)
    own = [towards] * n_channels
    if n_channels > 1:
        own = [_convex_weights(part, penalty, towards) for part in parts]
    return np.stack(own)[..., :-1].reshape(n_channels, *shape, size)


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


def _penalty(near: np.ndarray) -> np.ndarray:
    """Matrix (N, N) of a penalty of each of N nodes, and of differences between neighbours.

    `near` (J, K) counts the forecasts near each node. Where there are none, as between the leads of
    regular series, weights follow from those of the neighbours.
    """
    steps = [np.eye(n)[1:] - np.eye(n)[:-1] for n in near.shape]
    along = np.kron(steps[0].T @ steps[0], np.eye(near.shape[1]))
    across = np.kron(np.eye(near.shape[0]), steps[1].T @ steps[1])
    seen = near.ravel() / (near.ravel() + 1.0)
    return along + across + np.diag(np.maximum(seen, _TINY))


def _error_products(
    backtest: Backtest, rows: np.ndarray, channel: int, leads: np.ndarray, counts: np.ndarray
) -> np.ndarray:
    """Sums (N, G, N, G) of products of errors, weighted by how near forecasts are to N nodes.

    The members are those of the backtest, and the mean in training. Errors are relative to those
    of the best member near the node, and count as many times as there are forecasts that do not
    overlap. Forecasts that all members miss by far count less, so that no faulty cell decides.
    """
    lead, n_values, actual = (
        x[rows, channel] for x in (backtest.leads, backtest.n_values, backtest.actual)
    )
    members = np.column_stack([backtest.members[rows, channel], np.zeros(len(lead))])
    errors = members - actual[:, None]
    at_lead = nearness(lead, leads)
    near = at_lead[:, :, None] * _near_counts(n_values, counts)[:, None]
    near = near.reshape(len(lead), len(leads) * len(counts))  # (m, N)
    total = np.maximum(near.sum(axis=0), _TINY)
    difficulty = np.abs(errors).min(axis=1)
    credible = _credible_at_first(backtest.series[rows], difficulty)
    for _ in range(2):
        least = _usual_squares(at_lead, near, credible, errors**2)
        scale = near @ np.sqrt(least)
        credible = np.minimum(SETTINGS.outlier * scale / np.maximum(difficulty, _TINY), 1.0) ** 2
    series, times = backtest.series[rows], backtest.times[rows]
    n_apart = [
        effective_count(series[own > 0], times[own > 0], when, power=SETTINGS.likeness)
        for own, when in zip(near.T, np.repeat(leads, len(counts)), strict=True)
    ]
    weight = credible * (near @ (n_apart / total))
    errors = np.clip(errors / scale[:, None], -SETTINGS.clip, SETTINGS.clip)
    errors *= np.sqrt(weight)[:, None]
    size = near.shape[1] * errors.shape[1]
    products = np.zeros((size, size))
    for part in chunks(len(errors)):
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
