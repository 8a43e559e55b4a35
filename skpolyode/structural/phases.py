"""What each phase of a season adds to its harmonics, such as the step at midnight to a week."""

from __future__ import annotations

import numpy as np

from skpolyode.structural.components import Components


class PhaseValues:
    """Values of all phases, as G models expect them after the observations so far.

    A week has 168 hours, whose covariances would take most of a filter's time. They are left out:
    each phase is known apart from the others and from the states (assumed density filtering).

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
        self.means = np.zeros_like(self.variances)

    def move(self, kept: np.ndarray, added: np.ndarray) -> None:
        """Let them fade and change over a gap, by shares and variances (G,)."""
        self.means *= kept[:, None]
        self.variances = self.variances * kept[:, None] ** 2 + added[:, None]

    def at(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances (G,) at the phase of an observation."""
        place = self._every, self._phases[row]
        return self.means[place], self.variances[place]

    def learn(self, row: int, error: np.ndarray, expected: np.ndarray) -> None:
        """Read an observation: its error, and the variance (G,) that was expected of it."""
        place = self._every, self._phases[row]
        gain = self.variances[place] / expected
        self.means[place] += gain * error
        self.variances[place] *= 1 - gain
