"""What futures are sampled from: forecasts, and what is known of their errors."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np


class Ahead(NamedTuple):
    """Forecasts at Q times after the last rows of series, and how far off they may be."""

    values: np.ndarray  # float64 (Q, D), in standard deviations from the mean
    since: np.ndarray  # float64 (Q,): time since the last row
    leads: np.ndarray  # float64 (Q, D): time since the channel was last observed, inf if never
    volatility: np.ndarray  # float64 (Q, D, 2): of the series before
    expected: np.ndarray  # float64 (Q, D): expected size of the errors, where it is known; else 1
    is_known: np.ndarray  # bool (Q, D): the value is an exact observation


class KnownErrors(Protocol):
    """How far off forecasts are; an embedder carries it, and does not look inside."""

    def volatility(self, values: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """What errors depend on, (n, D, 2), of series up to some rows (n,), included."""

    def draw(self, n_samples: int, rng: np.random.RandomState) -> np.ndarray | None:
        """Which courses of errors (n_samples,) are taken; None if none are known."""

    def sample(self, ahead: Ahead, drawn: np.ndarray, channel: int) -> np.ndarray:
        """Values (Q, n_samples) of a channel on the drawn courses, in standard deviations."""
