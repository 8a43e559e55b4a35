"""What futures are sampled from: forecasts, and what is known of their errors."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np


class Ahead(NamedTuple):
    """Forecasts at Q times after the last rows of series, and how far off they may be."""

    values: np.ndarray  # float64 (Q, D), in standard deviations from the mean
    leads: np.ndarray  # float64 (Q, D): time since the channel was last observed, inf if never
    signs: np.ndarray  # float64 (Q, D, S): of how large errors will be
    expected: np.ndarray  # float64 (Q, D): unit of the errors; 0 of what is known


class KnownErrors(Protocol):
    """How far off forecasts are; an embedder carries it, and does not look inside."""

    def signs(
        self, values: np.ndarray, offsets: np.ndarray, rows: np.ndarray, expected: np.ndarray
    ) -> np.ndarray:
        """What errors (n, D) depend on, (n, D, S), after rows (n,); some size is `expected`."""

    def draw(self, n_samples: int, rng: np.random.RandomState) -> np.ndarray | None:
        """Which courses of errors (n_samples,) are taken; None if none are known."""

    def sample(self, ahead: Ahead, drawn: np.ndarray, channel: int) -> np.ndarray:
        """Values (Q, n_samples) of a channel on the drawn courses, in standard deviations."""
