"""Simulated data sets: irregular observation of trajectories.

Many small systems are integrated at once, by Runge-Kutta steps of fixed length. States are stored
channel first, ``(n_states, n_series)``, so that a vector field can unpack its state by name (``x,
y, z = state``); data sets are ``(..., time, channel)`` again.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats
from sklearn.utils import Bunch

from skpolyode.panel import Panel

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


PROTOCOLS = ("independent", "paper-code")


@dataclass(frozen=True)
class Truth:
    """The noise-free trajectories behind a generated panel.

    Parameters
    ----------
    times : ndarray of shape (n_times,)
        Common grid of the trajectories, in the units of the panel's `times`.
    values : ndarray of shape (n_series, n_times, n_states)
        States on the grid, including those that are never observed, in the units of the panel's
        values.
    channel_names : tuple of str
        Names of the states.
    observed : bool ndarray of shape (n_states,)
        Mask of the states that are channels of the panel.
    heldout : bool ndarray of shape (n_series, n_times)
        Grid times at which no channel of the series was observed: score reconstructions there.
    at_observations : ndarray of shape (n_observations, n_states)
        States at the rows of the panel, without noise.

    Examples
    --------
    The values that a model should reconstruct, and where it has not seen them:

    >>> from skpolyode.datasets import make_lorenz63
    >>> truth = make_lorenz63(5, protocol="paper-code", random_state=0).truth
    >>> truth.values[:, :, truth.observed].shape
    (5, 100, 2)
    >>> truth.heldout.shape, bool(truth.heldout[:, -1].any())
    ((5, 100), False)
    """

    times: np.ndarray
    values: np.ndarray
    channel_names: tuple[str, ...]
    observed: np.ndarray
    heldout: np.ndarray
    at_observations: np.ndarray


Seen = tuple[tuple[np.ndarray, np.ndarray, np.ndarray], Truth]
"""Observed rows, as `Simulation.poisson_rows` returns them, and the truth."""


@dataclass(frozen=True)
class Simulation:
    """Arguments that all generators share, checked when built.

    Parameters
    ----------
    rng : RandomState
        Source of all random numbers.
    names : tuple of str
        Names of the states.
    observed : tuple of str
        Names of the states that are channels of the panel.
    n_series, rate, protocol, noise, per_channel
        Arguments of the user.
    """

    rng: np.random.RandomState
    names: tuple[str, ...]
    observed: tuple[str, ...]
    n_series: int
    rate: float
    protocol: str
    noise: float
    per_channel: bool

    def __post_init__(self) -> None:
        if not isinstance(self.n_series, numbers.Integral) or self.n_series < 1:
            raise ValueError(f"n_series must be an integer of at least 1, got {self.n_series!r}.")
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol must be one of {PROTOCOLS}, got {self.protocol!r}.")
        if not isinstance(self.rate, numbers.Real) or not 0 < self.rate < np.inf:
            raise ValueError(f"rate must be positive and finite, got {self.rate!r}.")
        if self.protocol == "paper-code" and self.rate > 1:
            raise ValueError(
                "with protocol='paper-code' the rate is the probability that a grid point is "
                f"observed and must be in (0, 1], got {self.rate!r}."
            )
        if not isinstance(self.noise, numbers.Real) or not 0 <= self.noise < np.inf:
            raise ValueError(f"noise must be finite and not negative, got {self.noise!r}.")

    @property
    def is_observed(self) -> np.ndarray:
        """Mask of the states that are channels of the panel, bool (n_states,)."""
        return np.array([name in self.observed for name in self.names])

    def on_grid(self, times: np.ndarray, values: np.ndarray) -> Seen:
        """Observe each grid point of the truth with probability `rate`, and always the last one.

        `times` are of shape (n_times,), `values` (n_series, n_times, n_states).
        """
        n_channels = len(self.observed)
        shape = self.n_series, len(times), n_channels if self.per_channel else 1
        keep = self.rng.random_sample(shape) < self.rate
        keep[:, -1] = True
        keep = np.broadcast_to(keep, (*shape[:2], n_channels))
        seen = keep.any(axis=2)  # (n_series, n_times)
        series, index = np.nonzero(seen)
        truth = Truth(times, values, self.names, self.is_observed, ~seen, values[series, index])
        return (series, times[index], keep[series, index]), truth

    def continuous(self, evaluate: Callable[..., np.ndarray], expected: float, span: float) -> Seen:
        """Observe by a Poisson process on ``[0, span]``, with the truth on a grid of 200 times.

        ``evaluate(series, times)`` returns the states, of shape (n_rows, n_states), of each series
        at each time; see `poisson_rows` for `expected`.
        """
        grid, n_series = np.linspace(0.0, span, 200), self.n_series
        values = evaluate(np.repeat(np.arange(n_series), len(grid)), np.tile(grid, n_series))
        values = values.reshape(n_series, len(grid), len(self.names))
        rows = self.poisson_rows(expected, span)
        heldout = np.ones((n_series, len(grid)), dtype=bool)
        at = evaluate(*rows[:2])
        return rows, Truth(grid, values, self.names, self.is_observed, heldout, at)

    def poisson_rows(self, expected: float, span: float) -> tuple[np.ndarray, ...]:
        """Homogeneous Poisson process on ``[0, span]`` with `expected` observations.

        Every process is conditioned on at least two observations. With `per_channel` each channel
        has its own process, so that almost surely every row observes exactly one channel.

        Returns
        -------
        series : int ndarray of shape (n_rows,)
            Index of the series of each row; rows are sorted by series and time.
        times : ndarray of shape (n_rows,)
            Time of the observation.
        mask : bool ndarray of shape (n_rows, n_channels)
            Which channels are observed.
        """
        n_channels = len(self.observed)
        n_processes = self.n_series * (n_channels if self.per_channel else 1)
        possible = np.arange(2, 20 + int(expected + 10.0 * np.sqrt(expected)))
        # Relative to the largest: all underflow if few observations are expected.
        logs = stats.poisson.logpmf(possible, expected)
        weights = np.exp(logs - logs.max())
        counts = self.rng.choice(possible, size=n_processes, p=weights / weights.sum())
        process = np.repeat(np.arange(n_processes), counts)
        times = self.rng.uniform(0.0, span, len(process))
        series, mask = process, np.ones((len(process), n_channels), dtype=bool)
        if self.per_channel:
            series, channel = np.divmod(process, n_channels)
            mask = channel[:, None] == np.arange(n_channels)
        order = np.lexsort((times, series))
        return series[order], times[order], mask[order]

    def bunch(
        self, seen: Seen, label: np.ndarray, threshold: float, relative_noise: bool = False
    ) -> Bunch:
        """Data set of what is observed and the labels (n_series,).

        The class is 1 above the threshold. `relative_noise` is in standard deviations of the
        channel.
        """
        # The order of these draws is part of the data sets.
        n_train, n_validation = self.n_series // 2, self.n_series // 4
        counts = [n_train, n_validation, self.n_series - n_train - n_validation]
        split = self.rng.permutation(np.repeat(["train", "validation", "test"], counts))
        (series, times, mask), truth = seen
        values = truth.at_observations[:, truth.observed]
        if self.noise:
            scale = truth.values.std(axis=(0, 1))[truth.observed] if relative_noise else 1.0
            values = values + self.noise * scale * self.rng.standard_normal(values.shape)
        offsets = np.searchsorted(series, np.arange(self.n_series + 1))
        names = [name for name in self.names if name in self.observed]
        panel = Panel(times, np.where(mask, values, np.nan), offsets, channel_names=names)
        y = (label > threshold).astype(np.int64)
        bunch = Bunch(panel=panel, y=y, label_value=label, truth=truth, split=split)
        bunch.protocol = self.protocol
        return bunch
