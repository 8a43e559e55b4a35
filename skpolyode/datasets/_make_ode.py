"""One generator for all systems of the registry."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.utils import Bunch, check_random_state

from skpolyode.datasets._benchmark import Label, Settings, continuous_bunch
from skpolyode.datasets._integration import Trajectories
from skpolyode.datasets._ode_systems import SYSTEMS


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

    Every series has parameters and a start of its own, drawn uniformly from the ranges of the
    system, and is observed by a Poisson process. The label is a parameter of the system, which
    only the course of the series shows.

    Parameters
    ----------
    name : {"lotka_volterra", "brusselator", "damped_pendulum", "double_pendulum", "sir", \
            "van_der_pol", "fitzhugh_nagumo"}
        The system. Observed, label and length of a series:

        - ``"lotka_volterra"``: the prey; its growth rate; 20 time units.
        - ``"brusselator"``: the first concentration; ``b``, above 2 an oscillator; 20 time units.
        - ``"damped_pendulum"``: the angle in radians; the damping; 15 seconds.
        - ``"double_pendulum"``: both angles in radians; the mass ratio; 5 seconds.
        - ``"sir"``: the infected part of the population; the contact rate; 100 days.
        - ``"van_der_pol"``: position and velocity; the damping; 20 time units.
        - ``"fitzhugh_nagumo"``: voltage and recovery of a nerve cell; the current; 100 time units.
    n_series : int, default=1000
        Number of series.
    rate : float, default=0.3
        Density of the observations: a series has ``100 * rate`` on average, at least two.
    noise : float, default=0.0
        Standard deviation of Gaussian noise added to the observations, as a part of the standard
        deviation of the channel. Labels and truth stay free of noise.
    per_channel : bool, default=False
        Whether every channel is observed at times of its own, each at the given `rate`.
    random_state : int, RandomState instance or None, default=None
        Pass an int for reproducible data.

    Returns
    -------
    Bunch
        ``panel`` (:class:`~skpolyode.panel.Panel`; times and values in the units of the system,
        not standardised), ``y`` (int ndarray: is the label parameter above the middle of its
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
    system = SYSTEMS[name]
    settings = Settings(n_series, rate, "independent", noise, per_channel)
    rng = check_random_state(random_state)
    params = system.draw_params(rng, n_series)
    initial = system.draw_initial(rng, n_series)
    paths = Trajectories.integrate(
        system.field, initial, params, step=system.step, span=system.span
    )
    parameters = pd.DataFrame(params.T, columns=list(system.params))
    label = Label(parameters[system.label].to_numpy(), float(np.mean(system.params[system.label])))
    data = continuous_bunch(
        rng,
        settings,
        system.states,
        paths.at,
        label,
        expected=100.0 * rate,
        span=system.span,
        noise_scale=lambda values: values.std(axis=(0, 1)),
    )
    data.parameters = parameters
    return data
