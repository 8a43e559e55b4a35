"""When sampled futures cross a line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

FINEST = 2.0  # points of a grid in each typical gap
MOST = 400  # points of a grid


def grid_leads(horizon: np.ndarray, gap: float) -> list[np.ndarray]:
    """Times since the last row at which paths are looked at, of series with some horizons (n,).

    They are even from zero on, and finer than typical gaps. The step is doubled until there are
    few enough to the furthest horizon; each series ends at its own.
    """
    step = gap / FINEST
    step *= 2.0 ** max(0, np.ceil(np.log2(horizon.max() / (step * MOST))))
    even = step * np.arange(np.ceil(horizon.max() / step))
    return [np.append(even[even < end], end) for end in horizon]


def first_crossings(leads: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """When each of S paths of heights (Q, S) above a line first reaches it; inf if it does not.

    Paths are straight between their points at the times (Q,).
    """
    beyond = heights >= 0
    first = beyond.argmax(axis=0)
    before, column = np.maximum(first - 1, 0), np.arange(heights.shape[1])
    below, above = heights[before, column], heights[first, column]
    rise = np.where(first > 0, above - below, 1.0)
    share = np.where(first > 0, -below / rise, 0.0)
    found = leads[before] + share * (leads[first] - leads[before])
    return np.where(beyond.any(axis=0), found, np.inf)


class Window(NamedTuple):
    """What is known of the crossings of n series; times since the last rows."""

    probability: np.ndarray  # (n,): of a crossing up to the horizon
    earliest: np.ndarray  # (n,): all three infinite where they lie beyond the horizon
    median: np.ndarray
    latest: np.ndarray

    @classmethod
    def of(cls, crossings: np.ndarray, coverage: float) -> Window:
        """From the crossings (n, S) of samples, infinite where there is none."""
        levels = [(1 - coverage) / 2, 0.5, (1 + coverage) / 2]
        return cls(
            np.isfinite(crossings).mean(axis=1),
            *np.quantile(crossings, levels, axis=1, method="inverted_cdf"),
        )
