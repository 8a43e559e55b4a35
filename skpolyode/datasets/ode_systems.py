"""A small family of textbook systems of differential equations, as data.

To add a system: write its vector field and one entry of `SYSTEMS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.utils import Bunch, check_random_state

from skpolyode.datasets.simulation import Field, Simulation, Trajectories

Range = tuple[float, float]


@dataclass(frozen=True)
class OdeSystem:
    """An autonomous system and the ranges from which its instances are drawn uniformly.

    Parameters
    ----------
    field : callable
        The vector field, ``field(state, params)``, both channel first.
    params : mapping of str to (low, high)
        Ranges of the parameters, in the order in which the field unpacks them.
    initial : mapping of str to (low, high)
        Ranges of the states at time 0, in the order in which the field unpacks them.
    observed : tuple of str
        The states that are observed.
    label : str
        The parameter that gives the label: whether it is above the middle of its range.
    span : float
        Length of the series, in the system's time.
    step : float, default=0.01
        Integration step, in the system's time.
    total : float or None, default=None
        If given, the last state starts at `total` minus the others instead of in a range.
    """

    field: Field
    params: Mapping[str, Range]
    initial: Mapping[str, Range]
    observed: tuple[str, ...]
    label: str
    span: float
    step: float = 0.01
    total: float | None = None


def _lotka_volterra(state: np.ndarray, params: np.ndarray) -> np.ndarray:
    (prey, predator), (growth, predation, efficiency, death) = state, params
    growths = growth - predation * predator, efficiency * prey - death
    return np.stack([prey * growths[0], predator * growths[1]])


def _brusselator(state: np.ndarray, params: np.ndarray) -> np.ndarray:
    (x, y), (a, b) = state, params
    reaction = x**2 * y
    return np.stack([a + reaction - (b + 1.0) * x, b * x - reaction])


def _damped_pendulum(state: np.ndarray, params: np.ndarray) -> np.ndarray:
    (angle, velocity), (damping, frequency) = state, params
    return np.stack([velocity, -damping * velocity - frequency**2 * np.sin(angle)])


def _double_pendulum(state: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Two point masses on rods of length 1; the mass ratio is lower to upper."""
    (angle1, angle2, velocity1, velocity2), (ratio, gravity) = state, params
    sin, cos = np.sin(angle1 - angle2), np.cos(angle1 - angle2)
    # The mass matrix [[1 + ratio, ratio * cos], [cos, 1]] solved for both accelerations.
    force1 = -ratio * velocity2**2 * sin - (1.0 + ratio) * gravity * np.sin(angle1)
    force2 = velocity1**2 * sin - gravity * np.sin(angle2)
    determinant = 1.0 + ratio * sin**2
    acceleration1 = (force1 - ratio * cos * force2) / determinant
    acceleration2 = ((1.0 + ratio) * force2 - cos * force1) / determinant
    return np.stack([velocity1, velocity2, acceleration1, acceleration2])


def _sir(state: np.ndarray, params: np.ndarray) -> np.ndarray:
    (susceptible, infected, _), (contact, recovery) = state, params
    infections, recoveries = contact * susceptible * infected, recovery * infected
    return np.stack([-infections, infections - recoveries, recoveries])


def _van_der_pol(state: np.ndarray, params: np.ndarray) -> np.ndarray:
    (position, velocity), (damping,) = state, params
    return np.stack([velocity, damping * (1.0 - position**2) * velocity - position])


def _fitzhugh_nagumo(state: np.ndarray, params: np.ndarray) -> np.ndarray:
    (voltage, recovery), (current,) = state, params
    rise = voltage - voltage**3 / 3.0 - recovery + current
    return np.stack([rise, 0.08 * (voltage + 0.7 - 0.8 * recovery)])


SYSTEMS: Mapping[str, OdeSystem] = {
    "lotka_volterra": OdeSystem(
        field=_lotka_volterra,
        params={"growth": (0.8, 1.4)}
        | dict.fromkeys(("predation", "efficiency", "death"), (0.8, 1.2)),
        initial={"prey": (0.5, 2.0), "predator": (0.5, 2.0)},
        observed=("prey",),
        label="growth",
        span=20.0,
    ),
    "brusselator": OdeSystem(
        field=_brusselator,
        # With a = 1 the fixed point gives way to a limit cycle at b = 2, the middle of the range.
        params={"a": (1.0, 1.0), "b": (1.0, 3.0)},
        initial={"x": (0.5, 2.0), "y": (0.5, 3.0)},
        observed=("x",),
        label="b",
        span=20.0,
    ),
    "damped_pendulum": OdeSystem(
        field=_damped_pendulum,
        params={"damping": (0.05, 0.5), "frequency": (1.0, 2.0)},
        initial={"angle": (-2.0, 2.0), "velocity": (-1.0, 1.0)},
        observed=("angle",),
        label="damping",
        span=15.0,
    ),
    "double_pendulum": OdeSystem(
        field=_double_pendulum,
        params={"mass_ratio": (0.5, 1.5), "gravity": (9.81, 9.81)},
        # Released at rest within one radian: too little energy for an arm to flip over.
        initial=dict.fromkeys(("angle1", "angle2"), (-1.0, 1.0))
        | dict.fromkeys(("velocity1", "velocity2"), (0.0, 0.0)),
        observed=("angle1", "angle2"),
        label="mass_ratio",
        span=5.0,
        step=0.005,
    ),
    "sir": OdeSystem(
        field=_sir,
        params={"contact": (0.2, 0.8), "recovery": (0.05, 0.15)},
        initial={"susceptible": (0.7, 0.99), "infected": (0.001, 0.01), "recovered": (0.0, 0.0)},
        observed=("infected",),
        label="contact",
        span=100.0,
        step=0.1,
        total=1.0,
    ),
    "van_der_pol": OdeSystem(
        field=_van_der_pol,
        params={"damping": (0.5, 2.0)},
        initial={"position": (-2.0, 2.0), "velocity": (-2.0, 2.0)},
        observed=("position", "velocity"),
        label="damping",
        span=20.0,
    ),
    "fitzhugh_nagumo": OdeSystem(
        field=_fitzhugh_nagumo,
        # The whole range has a limit cycle: spikes that do not end.
        params={"current": (0.4, 1.0)},
        initial={"voltage": (-2.0, 2.0), "recovery": (-0.5, 1.5)},
        observed=("voltage", "recovery"),
        label="current",
        span=100.0,
        step=0.05,
    ),
}


def make_ode_system(
    name: str,
    n_series: int = 1000,
    *,
    rate: float = 0.3,
    noise: float = 0.0,
    per_channel: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Make irregularly observed solutions of a textbook system of differential equations.

    The parameters and the start of each series are drawn uniformly from the ranges of the system,
    and it is observed by a Poisson process. The label is a parameter of the system, which can only
    be inferred from the whole series.

    Parameters
    ----------
    name : {"lotka_volterra", "brusselator", "damped_pendulum", "double_pendulum", "sir", \
            "van_der_pol", "fitzhugh_nagumo"}
        The system. Observed, label and length of a series:

        - ``"lotka_volterra"``: the prey; its growth rate; 20 time units.
        - ``"brusselator"``: the first concentration; ``b``, above 2 an oscillator; 20 time units.
        - ``"damped_pendulum"``: the angle in radians; the damping; 15 seconds.
        - ``"double_pendulum"``: both angles in radians; the mass ratio; 5 seconds.
        - ``"sir"``: the infected share of the population; the contact rate; 100 days.
        - ``"van_der_pol"``: position and velocity; the damping; 20 time units.
        - ``"fitzhugh_nagumo"``: voltage and recovery of a nerve cell; the current; 100 time units.
    n_series : int, default=1000
        Number of series.
    rate : float, default=0.3
        Density of the observations: a series has ``100 * rate`` observations on average (at least
        two).
    noise : float, default=0.0
        Standard deviation of Gaussian noise added to the observations, as a fraction of the
        standard deviation of the channel. Labels and truth have no noise.
    per_channel : bool, default=False
        Whether each channel is observed at different times, with the given `rate`.
    random_state : int, RandomState instance or None, default=None
        Pass an int for reproducible data.

    Returns
    -------
    Bunch
        ``panel`` (:class:`~skpolyode.panel.Panel`; times and values in the units of the system,
        not standardised), ``y`` (int ndarray: 1 if the label parameter is above the middle of its
        range), ``label_value`` (float ndarray, the label parameter), ``truth``
        (:class:`~skpolyode.datasets.Truth` with all states), ``split`` (str ndarray, 50 %
        ``"train"``, 25 % ``"validation"``, 25 % ``"test"``), ``protocol`` (``"independent"``)
        and ``parameters`` (DataFrame, one row a series).

    Raises
    ------
    ValueError
        If `name` is not a known system or `n_series`, `rate` or `noise` is outside its range.

    See Also
    --------
    make_lorenz63, make_lorenz96 : Chaotic systems.

    Examples
    --------
    >>> from skpolyode.datasets import make_ode_system
    >>> data = make_ode_system("sir", 20, random_state=0)
    >>> data.panel.channel_names, data.truth.channel_names
    (('infected',), ('susceptible', 'infected', 'recovered'))
    """
    if name not in SYSTEMS:
        raise ValueError(f"name must be one of {tuple(SYSTEMS)}, got {name!r}.")
    system, rng = SYSTEMS[name], check_random_state(random_state)
    states, arguments = tuple(system.initial), (rate, "independent", noise, per_channel)
    simulation = Simulation(rng, states, system.observed, n_series, *arguments)
    drawn = []
    for ranges in (system.params, system.initial):
        low, high = np.array(list(ranges.values())).T[:, :, None]
        drawn.append(low + (high - low) * rng.random_sample((len(ranges), n_series)))
    params, initial = drawn
    if system.total is not None:
        initial[-1] = system.total - initial[:-1].sum(axis=0)
    parameters = pd.DataFrame(params.T, columns=list(system.params))
    paths = Trajectories.integrate(
        system.field, initial, params, step=system.step, span=system.span
    )
    label, threshold = parameters[system.label].to_numpy(), np.mean(system.params[system.label])
    seen = simulation.continuous(paths.at, 100.0 * rate, system.span)
    data = simulation.bunch(seen, label, float(threshold), relative_noise=True)
    data.parameters = parameters
    return data
