"""Series for the tests of transformers."""

from __future__ import annotations

from functools import partial

import numpy as np

from skpolyode import PolyODETransformer

Pairs = list[tuple[np.ndarray, np.ndarray]]


def small(**parameters: object) -> PolyODETransformer:
    """A transformer that is fitted in a moment."""
    chosen = {"n_coefficients": 6, "hidden_layer_sizes": (8,), "max_epochs": 2, "random_state": 0}
    return PolyODETransformer(**(chosen | parameters))


def oscillators(
    n_series: int = 12,
    seed: int = 0,
    length: float = 4.0,
    rate: float = 2.0,
    longest: float = 3.0,
) -> Pairs:
    """Damped oscillators with two channels, the second sometimes missing.

    No series is much longer than the others, `longest` times at most: a fit takes as long as the
    longest one.
    """
    rng, fewest = np.random.default_rng(seed), int(length * rate / 2)
    series = []
    for _ in range(n_series):
        n_times = rng.integers(max(4, fewest), max(5, int(longest * fewest)))
        times = np.sort(rng.uniform(0, length, n_times))
        values = wave(times, rng.uniform(0, 2 * np.pi))
        values[rng.random(len(times)) < 0.2, 1] = np.nan
        series.append((times, values))
    return series


short_oscillators = partial(oscillators, longest=2.25)


def wave(times: np.ndarray, phase: float) -> np.ndarray:
    decay = np.exp(-0.1 * times)
    angle = 2 * times + phase
    return decay[:, None] * np.stack([np.sin(angle), np.cos(angle)], axis=-1)
