"""What the generated data sets share: settings, truth, and how both become a panel."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.utils import Bunch

from skpolyode.datasets._sampling import Sampled, poisson_rows, thinned_grid
from skpolyode.panel import Panel

PROTOCOLS = ("independent", "paper-code")
N_TRUTH_TIMES = 200
"""Size of the dense grid of the independent protocol."""


@dataclass(frozen=True)
class Truth:
    """The noise-free trajectories behind a generated panel.

    Parameters
    ----------
    times : ndarray of shape (n_times,)
        Common grid of the trajectories, in the units of the panel's `times`.
    values : ndarray of shape (n_series, n_times, n_states)
        States on the grid, those that are never observed included, in the units of the panel's
        values.
    channel_names : tuple of str
        Names of the states.
    observed : bool ndarray of shape (n_states,)
        Which states are channels of the panel.
    heldout : bool ndarray of shape (n_series, n_times)
        Grid times at which no channel of the series was observed: score reconstructions there.
    at_observations : ndarray of shape (n_observations, n_states)
        States at the rows of the panel, before noise.

    Examples
    --------
    What a model should reconstruct, and where it has not seen it:

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


@dataclass(frozen=True)
class Settings:
    """Arguments that every generator takes, checked when built."""

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


@dataclass(frozen=True)
class States:
    """Names of the states of a system and which of them are observed."""

    names: tuple[str, ...]
    observed: tuple[str, ...]

    def mask(self) -> np.ndarray:
        """Boolean mask over the states."""
        return np.array([name in self.observed for name in self.names])


@dataclass(frozen=True)
class Label:
    """Value of a label per series and the threshold that makes it a class."""

    value: np.ndarray
    threshold: float


def grid_bunch(
    rng: np.random.RandomState,
    settings: Settings,
    states: States,
    times: np.ndarray,
    values: np.ndarray,
    label: Label,
) -> Bunch:
    """Build a data set observed at a random part of the grid of the truth."""
    observed = states.mask()
    keep = thinned_grid(
        rng,
        n_series=settings.n_series,
        n_times=len(times),
        n_channels=int(observed.sum()),
        probability=settings.rate,
        per_channel=settings.per_channel,
    )
    seen = keep.any(axis=2)
    series, index = np.nonzero(seen)
    rows = Sampled(series, times[index], keep[series, index])
    truth = Truth(times, values, states.names, observed, ~seen, values[series, index])
    return _bunch(rng, settings, rows, truth, label)


def continuous_bunch(
    rng: np.random.RandomState,
    settings: Settings,
    states: States,
    evaluate: Callable[[np.ndarray, np.ndarray], np.ndarray],
    label: Label,
    *,
    expected: float,
    span: float,
    noise_scale: Callable[[np.ndarray], np.ndarray] = lambda values: np.ones(values.shape[-1]),
) -> Bunch:
    """Build a data set observed by a Poisson process on ``[0, span]``.

    ``evaluate(series, times)`` gives the states, shape (n_rows, n_states), of each series at each
    time.
    """
    n_series, observed = settings.n_series, states.mask()
    grid = np.linspace(0.0, span, N_TRUTH_TIMES)
    values = evaluate(np.repeat(np.arange(n_series), len(grid)), np.tile(grid, n_series))
    values = values.reshape(n_series, len(grid), len(states.names))
    rows = poisson_rows(
        rng,
        n_series=n_series,
        n_channels=int(observed.sum()),
        expected=expected,
        span=span,
        per_channel=settings.per_channel,
    )
    heldout = np.ones((n_series, len(grid)), dtype=bool)
    truth = Truth(grid, values, states.names, observed, heldout, evaluate(rows.series, rows.times))
    return _bunch(rng, settings, rows, truth, label, noise_scale(values)[observed])


def _bunch(
    rng: np.random.RandomState,
    settings: Settings,
    rows: Sampled,
    truth: Truth,
    label: Label,
    noise_scale: np.ndarray | float = 1.0,
) -> Bunch:
    split = _split(rng, settings.n_series)
    values = truth.at_observations[:, truth.observed]
    if settings.noise:
        values = values + settings.noise * noise_scale * rng.standard_normal(values.shape)
    names = [n for n, seen in zip(truth.channel_names, truth.observed, strict=True) if seen]
    panel = Panel(
        rows.times,
        np.where(rows.mask, values, np.nan),
        rows.offsets(settings.n_series),
        channel_names=names,
    )
    return Bunch(
        panel=panel,
        y=(label.value > label.threshold).astype(np.int64),
        label_value=label.value,
        truth=truth,
        split=split,
        protocol=settings.protocol,
    )


def _split(rng: np.random.RandomState, n_series: int) -> np.ndarray:
    """Random names of the parts of the data: 50 % train, 25 % validation, 25 % test."""
    n_train, n_validation = n_series // 2, n_series // 4
    counts = [n_train, n_validation, n_series - n_train - n_validation]
    return rng.permutation(np.repeat(["train", "validation", "test"], counts))
