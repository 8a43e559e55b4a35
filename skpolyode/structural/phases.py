"""What each phase of a season adds to its harmonics, such as the step at midnight to a week."""

from __future__ import annotations

import numpy as np

from skpolyode.structural.components import SLOPE, Components


class PhaseValues:
    """Values of all phases, as G models expect them after the observations so far.

    A week has 168 hours, whose covariances would take most of a filter's time. They are not needed:
    given a level and harmonics that stay, phases are independent of each other. Each is expected to
    be a mean less a share of what these add at its time, so that what is learned of them later
    corrects it. (Times within a phase are taken as one. Of states that do not stay, phases are
    independent, too: assumed density filtering.)

    Parameters
    ----------
    models : Components
        G models, the longest season of which has B phases.
    times : float64 ndarray of shape (n,)
        Of the observations to come.
    """

    def __init__(self, models: Components, times: np.ndarray) -> None:
        self._every, self._phases = np.arange(len(models)), models.phases(times)
        exists = np.arange(models.n_phases.max()) < models.n_phases[:, None]
        self.variances = exists * (models.season * models.free)[:, None]  # (G, B)
        self.means, self.shares = np.zeros((2, *self.variances.shape))
        self._exist = bool((models.free > 0).any())
        self._noise, self._steady = models.noise, models.steady
        self._moving = 1.0 - self._steady[:, :SLOPE]  # an observation has no part of the slope
        waves = self._steady[:, SLOPE + 1 :] * models.harmonics / 2
        self._waves = waves.sum(axis=1) / np.where(models.free > 0, models.free, 1.0)

    def move(self, kept: np.ndarray, added: np.ndarray) -> None:
        """Let them fade and change over a gap, by shares and variances (G,)."""
        self.means *= kept[:, None]
        self.shares *= kept[:, None]
        added = added[:, None] * (
            1 + self._waves[:, None] * self.shares**2
        )  # harmonics change, too
        self.variances = self.variances * kept[:, None] ** 2 + added

    def at(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means and variances (G,) at the phase of an observation, and weights (G, p) of states."""
        place = self._every, self._phases[row]
        left = 1.0 - self.shares[place][:, None] * self._steady
        return self.means[place], self.variances[place], left

    def learn(self, row: int, value: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
        """Read an observation (G,), by the states (G, p) that were expected."""
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
