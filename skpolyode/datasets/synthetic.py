"""The univariate data set of the PolyODE paper: a product of two sines with a random phase."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch, check_random_state

from skpolyode.datasets.simulation import Simulation


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
        return simulation.on_grid(times, values[:, :, None], values[:, 5], threshold)

    def evaluate(series: np.ndarray, times: np.ndarray) -> np.ndarray:
        return _signal(times, phase[series])[:, None]

    label = _signal(np.full(n_series, 5.0), phase)
    return simulation.continuous(evaluate, label, threshold, expected=10.0 * rate, span=10.0)
