"""The data sets of the PolyODE paper: two chaotic systems, and a product of two sines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.integrate import odeint
from sklearn.utils import Bunch, check_random_state

from skpolyode.datasets.simulation import Field, Simulation, Trajectories, rk4_step


def lorenz63(state: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Lorenz's three equations; `params` is (sigma, rho, beta)."""
    (x, y, z), (sigma, rho, beta) = state, params
    return np.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


def lorenz96(state: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Lorenz's ring of advected variables; `params` is (forcing,)."""
    ring = np.concatenate([state[-2:], state, state[:1]])
    ahead, behind, two_behind = ring[3:], ring[1:-2], ring[:-3]
    return (ahead - two_behind) * behind - state + params[0]


@cache
def _paper_path_lorenz63() -> np.ndarray:
    """One explicit Euler trajectory of 10001 points, standardised per state."""
    sigma, rho, beta, step = 10.0, 28.0, 2.667, 0.01
    path = [(0.0, 1.0, 1.05)]
    for _ in range(10_000):
        x, y, z = path[-1]
        dx, dy, dz = step * sigma * (y - x), step * (x * (rho - z) - y), step * (x * y - beta * z)
        path.append((x + dx, y + dy, z + dz))
    return _standardised(np.array(path), axis=0)


@cache
def _paper_path_lorenz96() -> np.ndarray:
    """One trajectory of 10000 points, standardised by one mean and one deviation."""
    start = np.full(5, 8.0)
    start[0] += 0.01
    forcing = np.array([8.0])
    path = odeint(lambda x, _: lorenz96(x, forcing), start, np.arange(10_000) * 0.01)
    return _standardised(path, axis=None)


def _standardised(path: np.ndarray, axis: int | None) -> np.ndarray:
    path = (path - path.mean(axis=axis)) / path.std(axis=axis)
    path.flags.writeable = False  # it is cached
    return path


@dataclass(frozen=True)
class _Attractor:
    """A chaotic system and how each protocol uses it.

    `mean` and `scale` are those of the invariant measure (1.2e7 states of a long run). They are
    constants, so that data sets made by separate calls share their units. The last state gives the
    label, and is never observed.
    """

    names: tuple[str, ...]
    field: Field
    params: tuple[float, ...]
    mean: np.ndarray
    scale: np.ndarray
    paper_path: Callable[[], np.ndarray]

    def make(self, random_state: int | np.random.RandomState | None, *arguments: Any) -> Bunch:
        """Build the data set of a protocol from the other arguments of `Simulation`."""
        rng = check_random_state(random_state)
        simulation = Simulation(rng, self.names, self.names[:-1], *arguments)
        n_series, rate = simulation.n_series, simulation.rate
        if simulation.protocol == "paper-code":
            # Windows of 500 points of one trajectory; every fifth point is on the grid.
            path, every = self.paper_path(), np.arange(0, 500, 5)
            # The absolute value folds the starts in [-1000, 0) back: double density below 1000.
            start = np.abs((10_000 * rng.random_sample(n_series) - 1000).astype(np.int64))
            times, values = np.linspace(1.0, 10.0, 500)[every], path[start[:, None] + every]
            return simulation.bunch(simulation.on_grid(times, values), values[:, 60, -1], 0.0)
        params = np.repeat(np.array(self.params)[:, None], n_series, axis=1)
        start = (self.mean + self.scale * rng.standard_normal((n_series, len(self.names)))).T
        for _ in range(1000):  # a burn-in of 20 time units leads to the attractor
            start = rk4_step(self.field, start, params, 0.02)
        paths = Trajectories.integrate(self.field, start, params, step=0.005, span=5.0)

        def evaluate(series: np.ndarray, times: np.ndarray) -> np.ndarray:
            # Five time units of the system are stretched over [0, 10].
            return (paths.at(series, times * 0.5) - self.mean) / self.scale

        label = evaluate(np.arange(n_series), np.full(n_series, 6.0))[:, -1]
        return simulation.bunch(simulation.continuous(evaluate, 100.0 * rate, 10.0), label, 0.0)


_LORENZ63 = _Attractor(
    names=("x", "y", "z"),
    field=lorenz63,
    params=(10.0, 28.0, 8.0 / 3.0),
    mean=np.array([0.0, 0.0, 23.55]),
    scale=np.array([7.925, 9.012, 8.621]),
    paper_path=_paper_path_lorenz63,
)
_LORENZ96 = _Attractor(
    names=("x0", "x1", "x2", "x3", "x4"),
    field=lorenz96,
    params=(8.0,),
    mean=np.full(5, 2.303),
    scale=np.full(5, 3.622),
    paper_path=_paper_path_lorenz96,
)


def make_lorenz63(
    n_series: int = 1000,
    *,
    rate: float = 0.3,
    protocol: str = "independent",
    noise: float = 0.0,
    per_channel: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    r"""Make irregularly observed trajectories of the Lorenz (1963) attractor.

    :math:`\dot x = \sigma (y - x),\ \dot y = x (\rho - z) - y,\ \dot z = x y - \beta z`
    with :math:`\sigma = 10, \rho = 28, \beta = 8/3`. Five time units of the system are stretched
    over [0, 10]. ``x`` and ``y`` are observed; the label is the sign of the unobserved
    ``z``.

    Parameters
    ----------
    n_series : int, default=1000
        Number of series.
    rate : float, default=0.3
        Density of the observations. ``"independent"``: a series has ``100 * rate`` observations
        on average (at least two). ``"paper-code"``: probability, in (0, 1], that a point of the
        grid of 100 times is observed.
    protocol : {"independent", "paper-code"}, default="independent"
        ``"independent"``: every series starts at a different point on the attractor (20 time units
        of burn-in from a random state), is observed by a Poisson process on [0, 10], and is
        labelled at time 6, as the paper's text says. ``"paper-code"``: the setting of the paper's
        experiments, overlapping windows of one explicit Euler trajectory with
        :math:`\beta = 2.667`, on 100 grid times from 1 to 9.928, thinned, with the last point
        always observed, labelled at grid point 60 (time 6.411). There a test window shares nearly
        all its samples with a training window: use it only to compare with the published numbers.
    noise : float, default=0.0
        Standard deviation of Gaussian noise added to the observations, in standardised units.
        Labels and truth have no noise.
    per_channel : bool, default=False
        Whether each channel is observed at different times, with the given `rate`.
    random_state : int, RandomState instance or None, default=None
        Pass an int for reproducible data.

    Returns
    -------
    Bunch
        ``panel`` (:class:`~skpolyode.panel.Panel` of 2 channels), ``y`` (int ndarray, the label),
        ``label_value`` (float ndarray, the label before the threshold), ``truth``
        (:class:`~skpolyode.datasets.Truth` with all 3 states), ``split`` (str ndarray, 50 %
        ``"train"``, 25 % ``"validation"``, 25 % ``"test"``) and ``protocol``.

    Raises
    ------
    ValueError
        If `n_series`, `rate`, `protocol` or `noise` is outside its range.

    Notes
    -----
    Values are standardised: with ``"independent"`` by the mean and deviation of the attractor's
    invariant measure (constants, so separate calls share their units), with ``"paper-code"`` by
    those of the one trajectory, per state. Both protocols put the label at 60 % of the
    duration.

    Examples
    --------
    >>> from skpolyode.datasets import make_lorenz63
    >>> data = make_lorenz63(20, rate=0.3, random_state=0)
    >>> data.panel.channel_names
    ('x', 'y')
    >>> data.truth.channel_names, data.truth.values.shape
    (('x', 'y', 'z'), (20, 200, 3))
    """
    return _LORENZ63.make(random_state, n_series, rate, protocol, noise, per_channel)


def make_lorenz96(
    n_series: int = 1000,
    *,
    rate: float = 0.3,
    protocol: str = "independent",
    noise: float = 0.0,
    per_channel: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    r"""Make irregularly observed trajectories of the Lorenz (1996) system with five variables.

    :math:`\dot x_k = (x_{k+1} - x_{k-2}) x_{k-1} - x_k + F` on a ring of 5 variables with
    :math:`F = 8`. Five time units of the system are stretched over [0, 10]. The first four
    variables are observed; the label is the sign of the fifth, which is never observed.

    Parameters
    ----------
    n_series : int, default=1000
        Number of series.
    rate : float, default=0.3
        Density of the observations. ``"independent"``: a series has ``100 * rate`` observations
        on average (at least two). ``"paper-code"``: probability, in (0, 1], that a point of the
        grid of 100 times is observed.
    protocol : {"independent", "paper-code"}, default="independent"
        ``"independent"``: every series starts at a different point on the attractor (20 time units
        of burn-in from a random state), is observed by a Poisson process on [0, 10], and is
        labelled at time 6, as the paper's text says. ``"paper-code"``: the setting of the paper's
        experiments, overlapping windows of one trajectory from (8.01, 8, 8, 8, 8), on 100
        grid times from 1 to 9.928, thinned, with the last point always observed, labelled at grid
        point 60 (time 6.411). There a test window shares nearly all its samples with a
        training window: use it only to compare with the published numbers.
    noise : float, default=0.0
        Standard deviation of Gaussian noise added to the observations, in standardised units.
        Labels and truth have no noise.
    per_channel : bool, default=False
        Whether each channel is observed at different times, with the given `rate`.
    random_state : int, RandomState instance or None, default=None
        Pass an int for reproducible data.

    Returns
    -------
    Bunch
        ``panel`` (:class:`~skpolyode.panel.Panel` of 4 channels), ``y`` (int ndarray, the label),
        ``label_value`` (float ndarray, the label before the threshold), ``truth``
        (:class:`~skpolyode.datasets.Truth` with all 5 states), ``split`` (str ndarray, 50 %
        ``"train"``, 25 % ``"validation"``, 25 % ``"test"``) and ``protocol``.

    Raises
    ------
    ValueError
        If `n_series`, `rate`, `protocol` or `noise` is outside its range.

    Notes
    -----
    Values are standardised by one mean and one deviation for all variables (the ring is
    symmetric): those of the invariant measure with ``"independent"`` (constants, so separate calls
    share their units), those of the one trajectory with ``"paper-code"``. Both protocols put
    the label at the same relative place, at 60 % of the duration.

    Examples
    --------
    >>> from skpolyode.datasets import make_lorenz96
    >>> data = make_lorenz96(20, per_channel=True, random_state=0)
    >>> data.panel.n_channels, data.truth.observed.tolist()
    (4, [True, True, True, True, False])
    """
    return _LORENZ96.make(random_state, n_series, rate, protocol, noise, per_channel)


def _signal(times: np.ndarray, phase: np.ndarray) -> np.ndarray:
    return np.sin(times + phase) * np.cos(3.0 * (times + phase))


def make_synthetic(
    n_series: int = 1000,
    *,
    rate: float = 0.7,
    protocol: str = "independent",
    noise: float = 0.0,
    per_channel: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    r"""Make irregularly observed realisations of a univariate signal with a random phase.

    The signal is :math:`x(t) = \sin(t + \varphi) \cos(3 (t + \varphi))` with
    :math:`\varphi \sim \mathcal{N}(0, (2\pi)^2)`; the label is whether it is above 0.5 near the
    middle of the series, long before the last observation.

    Parameters
    ----------
    n_series : int, default=1000
        Number of series.
    rate : float, default=0.7
        Density of the observations. ``"independent"``: a series has ``10 * rate`` observations on
        average (at least two). ``"paper-code"``: probability, in (0, 1], that a point of the grid
        is observed.
    protocol : {"independent", "paper-code"}, default="independent"
        ``"independent"``: a Poisson process on [0, 10] and the label at time 5, as the paper's
        text says. ``"paper-code"``: the setting of the paper's experiments, a grid of 10 times
        from 1.045 to 9.186, thinned, with the last point always observed, and the label at the
        sixth grid point (5.568), which is itself observed with probability `rate`. Use it only to
        compare with the published numbers.
    noise : float, default=0.0
        Standard deviation of Gaussian noise added to the observations, in the units of the
        values. Labels and truth stay free of noise.
    per_channel : bool, default=False
        Whether each channel is observed at different times. The signal has one channel, so this
        changes nothing here; it is accepted for symmetry with the other generators.
    random_state : int, RandomState instance or None, default=None
        Pass an int for reproducible data.

    Returns
    -------
    Bunch
        ``panel`` (:class:`~skpolyode.panel.Panel` of 1 channel), ``y`` (int ndarray, the label),
        ``label_value`` (float ndarray, before the threshold), ``truth``
        (:class:`~skpolyode.datasets.Truth`), ``split`` (str ndarray, 50 % ``"train"``, 25 %
        ``"validation"``, 25 % ``"test"``) and ``protocol``.

    Raises
    ------
    ValueError
        If `n_series`, `rate`, `protocol` or `noise` is outside its range.

    Examples
    --------
    >>> from skpolyode.datasets import make_synthetic
    >>> data = make_synthetic(20, random_state=0)
    >>> data.panel.n_series, data.truth.values.shape
    (20, (20, 200, 1))
    """
    rng = check_random_state(random_state)
    simulation = Simulation(rng, ("x",), ("x",), n_series, rate, protocol, noise, per_channel)
    phase, threshold = 2.0 * np.pi * rng.standard_normal(n_series), 0.5
    if protocol == "paper-code":
        times = np.linspace(1.0, 10.0, 200)[1:-1:20]
        values = _signal(times, phase[:, None])
        seen = simulation.on_grid(times, values[:, :, None])
        return simulation.bunch(seen, values[:, 5], threshold)

    def evaluate(series: np.ndarray, times: np.ndarray) -> np.ndarray:
        return _signal(times, phase[series])[:, None]

    seen = simulation.continuous(evaluate, 10.0 * rate, 10.0)
    return simulation.bunch(seen, _signal(np.full(n_series, 5.0), phase), threshold)
