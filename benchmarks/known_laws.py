"""Six processes whose law is known: what is known of series, what comes, and how far it is off.

Each series has 40 known rows and 20 more. The oracle knows the law of its series, with its sizes
and phases: its errors are those that nobody can foresee.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from skpolyode import Panel

N_KNOWN, N_AHEAD = 40, 20


class Course(NamedTuple):
    """A series of 60 rows, and the standard deviations (20,) of the oracle's errors."""

    times: np.ndarray
    values: np.ndarray
    deviations: np.ndarray


def uneven(rng: np.random.Generator) -> np.ndarray:
    """Times that are one unit apart in the mean."""
    return np.cumsum(0.1 + 0.9 * rng.exponential(size=N_KNOWN + N_AHEAD))


def ahead(times: np.ndarray) -> np.ndarray:
    return times[N_KNOWN:] - times[N_KNOWN - 1]


def seasonal(rng: np.random.Generator) -> Course:
    """A season of period 12 whose size, phase and level differ, with noise of 0.3."""
    t, size, phase = uneven(rng), rng.lognormal(0, 0.3), rng.uniform(0, 2 * np.pi)
    x = rng.standard_normal() + size * np.sin(2 * np.pi * t / 12 + phase)
    return Course(t, x + 0.3 * rng.standard_normal(len(t)), np.full(N_AHEAD, 0.3))


def damped(rng: np.random.Generator) -> Course:
    """Swings that die away, with noise of 0.1."""
    t, size, phase = uneven(rng), 2 * rng.lognormal(0, 0.5), rng.uniform(0, 2 * np.pi)
    x = size * np.exp(-0.05 * t) * np.cos(0.8 * rng.lognormal(0, 0.03) * t + phase)
    return Course(t, x + 0.1 * rng.standard_normal(len(t)), np.full(N_AHEAD, 0.1))


def sizes(rng: np.random.Generator) -> Course:
    """Sines of period 9 of very different sizes, with noise of a fifth of their size."""
    t, size, phase = uneven(rng), rng.lognormal(0, 0.7), rng.uniform(0, 2 * np.pi)
    x = size * (np.sin(2 * np.pi * t / 9 + phase) + 0.2 * rng.standard_normal(len(t)))
    return Course(t, x, np.full(N_AHEAD, 0.2 * size))


def ornstein_uhlenbeck(rng: np.random.Generator) -> Course:
    """Of standard deviation 1, that forgets with a rate of 0.15."""
    t = uneven(rng)
    x = rng.standard_normal(len(t))
    for i, kept in enumerate(np.exp(-0.15 * np.diff(t))):
        x[i + 1] = kept * x[i] + np.sqrt(1 - kept**2) * x[i + 1]
    return Course(t, x, np.sqrt(1 - np.exp(-0.3 * ahead(t))))


def walk(rng: np.random.Generator) -> Course:
    """With a drift of 0.2."""
    t = uneven(rng)
    gaps = np.diff(t, prepend=t[0])
    steps = 0.2 * gaps + np.sqrt(gaps) * rng.standard_normal(len(t))
    return Course(t, rng.standard_normal() + steps.cumsum(), np.sqrt(ahead(t)))


def autoregression(rng: np.random.Generator) -> Course:
    """An AR(2) at even times that swings irregularly."""
    n, spare = N_KNOWN + N_AHEAD, 100
    x, response = rng.standard_normal(n + spare), np.zeros(N_AHEAD)
    response[0] = 1.0
    for own in (x, response):
        for i in range(1, len(own)):
            own[i] += 1.6 * own[i - 1] - (0.8 * own[i - 2] if i > 1 else 0.0)
    return Course(np.arange(n) * 1.0, x[spare:], np.sqrt((response**2).cumsum()))


PROCESSES: dict[str, Callable[[np.random.Generator], Course]] = {
    "seasonal": seasonal,
    "damped oscillation": damped,
    "noisy sine of differing sizes": sizes,
    "Ornstein-Uhlenbeck": ornstein_uhlenbeck,
    "walk with drift": walk,
    "AR(2)": autoregression,
}


def draw(name: str, n_series: int, rng: np.random.Generator) -> tuple[Panel, Panel, np.ndarray]:
    """What is known, what comes, and the oracle's deviations (n_series * 20,)."""
    courses = [PROCESSES[name](rng) for _ in range(n_series)]
    known, future = (
        Panel.from_series([(own.times[rows], own.values[rows]) for own in courses])
        for rows in (slice(N_KNOWN), slice(N_KNOWN, None))
    )
    return known, future, np.concatenate([own.deviations for own in courses])
