"""Kalman filter for many structural models of one series at once, at irregular times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from skpolyode.structural.components import LEVEL, SLOPE, Components

_AT_ONCE = 64  # gaps per batch: their transitions take no longer to compute than one
_PRIOR = 0.5  # half the number of observations that the prior of the scale, 1, is worth


class Filtered(NamedTuple):
    """States and likelihoods of G models after each of n observations."""

    log_likelihood: np.ndarray  # float64 (n, G): of the observations so far except the first
    states: np.ndarray  # float64 (n, G, p): means
    errors: np.ndarray  # float64 (n, G): of one-step forecasts, over their expected size
    scale: np.ndarray  # float64 (n, G): estimated factor of all variances
    covariances: np.ndarray  # float64 (m, G, p, p): after the observations asked for
    phases: np.ndarray  # float64 (m, 3, G, B): means, variances and shares of phases, likewise


def kalman_filter(
    times: np.ndarray, values: np.ndarray, models: Components, asked: np.ndarray | None = None
) -> Filtered:
    """Filter a series with each model.

    The common scale of a model's variances is estimated recursively, so that errors have Student's
    t distribution (West and Harrison, "Bayesian forecasting and dynamic models", 1997, section
    4.5).

    Parameters
    ----------
    times : float64 ndarray of shape (n,)
        Ascending.
    values : float64 ndarray of shape (n, G)
        Values for each model; logarithms for models of these.
    models : Components
        G models with p states.
    asked : int64 ndarray of shape (m,) or None, default=None
        Ascending positions of observations after which covariances are kept. None: keep none.
    """
    variance = models.start()
    covariance = variance[:, :, None] * np.eye(variance.shape[1])
    mean = np.zeros_like(variance)
    seen = models.seen(times)
    kept = {} if asked is None else {row: place for place, row in enumerate(asked.tolist())}
    zeros, states = np.zeros((2, *values.shape)), np.empty((len(times), *mean.shape))
    covariances = np.empty((len(kept), *covariance.shape))
    phases = PhaseValues(models, times)
    phases_kept = np.empty((len(kept), 3, *phases.means.shape))
    found = Filtered(zeros[0], states, zeros[1], np.ones(values.shape), covariances, phases_kept)
    shape, squares, log_likelihood = _PRIOR, np.full(len(models), _PRIOR), np.zeros(len(models))
    moves = _moves(np.diff(times), models)
    for i, weights in enumerate(seen):
        if i:  # predict over the gap
            *move, faded, renewed = next(moves)
            mean = _over_gap(mean, covariance, *move)
            phases.move(faded, renewed)
        free, spread, left = phases.at(i)
        weights = weights * left
        error = values[i] - (weights * mean).sum(axis=1) - free
        known = np.matmul(covariance, weights[:, :, None])[:, :, 0]
        expected = (weights * known).sum(axis=1) + spread + models.noise
        if i:  # the first observation sets the level, and has no likelihood
            square = error**2 / expected
            log_likelihood += gammaln(shape + 0.5) - gammaln(shape)
            log_likelihood -= 0.5 * np.log(2 * np.pi * squares * expected)
            log_likelihood -= (shape + 0.5) * np.log1p(square / (2 * squares))
            shape, squares = shape + 0.5, squares + square / 2
            found.errors[i] = error / np.sqrt(expected)
        phases.learn(i, values[i], mean, covariance)
        gain = known / expected[:, None]
        mean = mean + gain * error[:, None]
        covariance = covariance - gain[:, :, None] * known[:, None, :]
        found.log_likelihood[i], found.states[i] = log_likelihood, mean
        found.scale[i] = squares / shape
        if i in kept:
            found.covariances[kept[i]] = covariance
            found.phases[kept[i]] = phases.means, phases.variances, phases.shares
    return found


def _over_gap(
    mean: np.ndarray,
    covariance: np.ndarray,
    rise: np.ndarray,
    left: np.ndarray,
    added: np.ndarray,
    both: np.ndarray,
) -> np.ndarray:
    """Means (G, p) after a gap, from the arrays of `_moves`; updates `covariance` in place."""
    slope, mean = mean[:, SLOPE], mean * left
    mean[:, LEVEL] += rise * slope
    covariance[:, LEVEL] += rise[:, None] * covariance[:, SLOPE]
    covariance[:, :, LEVEL] += rise[:, None] * covariance[:, :, SLOPE]
    covariance *= left[:, :, None] * left[:, None, :]
    np.einsum("gpp->gp", covariance)[...] += added  # a view of the diagonals
    covariance[:, LEVEL, SLOPE] += both
    covariance[:, SLOPE, LEVEL] += both
    return mean


def _moves(gaps: np.ndarray, models: Components) -> Iterator[tuple[np.ndarray, ...]]:
    """Transitions of G models with p states over each gap, six arrays per gap.

    The rise (G,) of the level for a slope of one, the shares (G, p) of the states that remain, the
    variances (G, p) added, and the covariances (G,) of level and slope added; then the shares (G,)
    of the phases that remain, and the variances (G,) added to them.
    """
    for start in range(0, len(gaps), _AT_ONCE):
        gap, which = np.unique(gaps[start : start + _AT_ONCE], return_inverse=True)
        columns = models.gain(gap), models.kept(gap), *models.added(gap), *models.phase_moves(gap)
        for place in which:
            yield tuple(column[place] for column in columns)


def predict(
    models: Components,
    states: np.ndarray,
    covariances: np.ndarray,
    phases: np.ndarray,
    place: np.ndarray,
    origins: np.ndarray,
    leads: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Means (Q, G) and variances (Q, G) of future observations; variances lack their scale.

    `states` (Q, G, p) are those at times `origins` (Q,). Forecasts are for times `leads` (Q,)
    later. `place` (Q,) indexes the covariances (m, G, p, p) and the phases (m, 3, G, B).
    """
    then = models.seen(origins + leads)
    seen = then * models.kept(leads)
    seen[:, :, SLOPE] = models.gain(leads)
    at = place[:, None], slice(None), np.arange(len(models)), models.phases(origins + leads)
    free, spread, share = np.moveaxis(phases[at], -1, 0)
    left, renewed = models.phase_moves(leads)
    seen *= 1.0 - (left * share)[:, :, None] * models.steady
    expected = np.einsum("qgp,qgp->qg", seen, states) + left * free
    known = np.empty_like(seen)
    for k in np.unique(place):  # no covariance is copied
        weights = seen[place == k].swapaxes(0, 1)
        known[place == k] = (weights @ covariances[k]).swapaxes(0, 1)
    added = models.added(leads)[0]
    # The slope is not observed: its covariance with the level does not matter.
    variance = (seen * known).sum(axis=-1) + (then**2 * added).sum(axis=-1) + models.noise
    variance += left**2 * spread + renewed
    return expected, variance


class PhaseValues:
    """Distribution of the values of all phases given the observations so far, for G models.

    A week has 168 hours; their covariances would take most of a filter's time. They are not needed:
    given a constant level and harmonics, phases are independent of each other. The expected value
    of a phase is a mean minus a share of the contribution of these states at its time, so that
    later updates of the states correct it. (Times within a phase count as equal. Phases are also
    taken as independent of states that change: assumed density filtering.)

    Parameters
    ----------
    models : Components
        G models; their longest season has B phases.
    times : float64 ndarray of shape (n,)
        Times of the observations.
    """

    def __init__(self, models: Components, times: np.ndarray) -> None:
        self._every, self._phases = np.arange(len(models)), models.phases(times)
        exists = np.arange(models.n_phases.max()) < models.n_phases[:, None]
        self.variances = exists * (models.season * models.free)[:, None]  # (G, B)
        self.means, self.shares = np.zeros((2, *self.variances.shape))
        self._exist = bool((models.free > 0).any())
        self._noise, self._steady = models.noise, models.steady
        self._moving = 1.0 - self._steady[:, :SLOPE]  # the slope is not observed
        waves = self._steady[:, SLOPE + 1 :] * models.harmonics / 2
        self._waves = waves.sum(axis=1) / np.where(models.free > 0, models.free, 1.0)

    def move(self, kept: np.ndarray, added: np.ndarray) -> None:
        """Propagate over a gap, by the shares kept (G,) and the variances added (G,)."""
        self.means *= kept[:, None]
        self.shares *= kept[:, None]
        # Harmonics change, too.
        added = added[:, None] * (1 + self._waves[:, None] * self.shares**2)
        self.variances = self.variances * kept[:, None] ** 2 + added

    def at(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means and variances (G,) at the phase of an observation, and weights (G, p) of states."""
        place = self._every, self._phases[row]
        left = 1.0 - self.shares[place][:, None] * self._steady
        return self.means[place], self.variances[place], left

    def learn(self, row: int, value: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
        """Update with an observation (G,), given the predicted means (G, p) of the states."""
        if not self._exist:
            return
        place = self._every, self._phases[row]
        moving = self._moving[:, :, None] * self._moving[:, None]
        blur = (moving * covariance[:, :SLOPE, :SLOPE]).sum(axis=(1, 2)) + self._noise
        gain = self.variances[place] / (self.variances[place] + blur)
        error = value - (self._moving * mean[:, :SLOPE]).sum(axis=1) - self.means[place]
        self.means[place] += gain * error
        self.shares[place] += gain * (1 - self.shares[place])
        self.variances[place] *= 1 - gain
