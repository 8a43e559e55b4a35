"""Fixed-step Runge-Kutta integration of many small systems at once.

States are stored channel first, ``(n_states, n_series)``, so that a vector field can unpack its
state by name (``x, y, z = state``); data sets are ``(..., time, channel)`` again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# ``field(state, params)``: (n_states, n), (n_params, n) -> derivative, (n_states, n).
Field = Callable[[np.ndarray, np.ndarray], np.ndarray]


def rk4_step(
    field: Field, state: np.ndarray, params: np.ndarray, step: float | np.ndarray
) -> np.ndarray:
    """Advance every column of `state` by `step` (a number, or one for each column)."""
    k1 = field(state, params)
    k2 = field(state + 0.5 * step * k1, params)
    k3 = field(state + 0.5 * step * k2, params)
    k4 = field(state + step * k3, params)
    return state + step / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


@dataclass(frozen=True)
class Trajectories:
    """Solutions of one autonomous system from many initial states.

    Parameters
    ----------
    field : callable
        The vector field.
    params : ndarray of shape (n_params, n_series)
        Parameters of each series.
    path : ndarray of shape (n_steps + 1, n_states, n_series)
        States at the times ``0, step, 2 * step, ...``.
    step : float
        Integration step, in the system's time.
    """

    field: Field
    params: np.ndarray
    path: np.ndarray
    step: float

    @classmethod
    def integrate(
        cls, field: Field, initial: np.ndarray, params: np.ndarray, *, step: float, span: float
    ) -> Trajectories:
        """Integrate over ``[0, span]`` with steps of `step`."""
        n_steps = round(span / step)
        path = np.empty((n_steps + 1, *initial.shape))
        path[0] = initial
        for k in range(n_steps):
            path[k + 1] = rk4_step(field, path[k], params, step)
        return cls(field, params, path, step)

    def at(self, series: np.ndarray, times: np.ndarray) -> np.ndarray:
        """States of the given series at the given times.

        One partial Runge-Kutta step leads from the stored state before each time to the time
        itself: unlike interpolation, this has the accuracy of the integration.

        Parameters
        ----------
        series : int ndarray of shape (n_rows,)
            Index of the series of each row.
        times : ndarray of shape (n_rows,)
            Time of each row, in the system's time.

        Returns
        -------
        ndarray of shape (n_rows, n_states)
            The states.
        """
        index = np.clip((times / self.step).astype(np.int64), 0, len(self.path) - 1)
        start = self.path[index, :, series].T
        rest = times - index * self.step
        return rk4_step(self.field, start, self.params[:, series], rest).T
