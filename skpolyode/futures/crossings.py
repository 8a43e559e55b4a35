"""When sampled futures cross a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class GridSettings:
    """The times at which paths are evaluated."""

    finest: float = 2.0  # points per typical gap
    most_even: int = 4000  # evenly spaced points, at most
    growth: int = 400  # later points over which the step grows e-fold
    nearest: tuple[float, ...] = (4.0**-4, 4.0**-3, 4.0**-2, 4.0**-1)  # steps: errors grow fast


SETTINGS = GridSettings()


def grid_leads(horizon: float, gap: float, reach: float) -> np.ndarray:
    """Times (Q,) since the last row at which paths are evaluated, up to the `horizon` or beyond.

    They begin a grid that is the same for all horizons: two points per typical gap up to a time
    `reach`, as far as errors are known, then ever fewer.
    """
    step = gap / SETTINGS.finest
    n_even = int(min(np.ceil(reach / step), SETTINGS.most_even))
    n_needed = int(min(horizon / step, n_even)) + 1
    even, growth = step * np.arange(n_needed + 1), SETTINGS.growth
    n_later = np.ceil(growth * np.log1p(max(horizon / step - n_even, 0.0) / growth)) + 1
    later = step * (n_even + growth * np.expm1(np.arange(1, n_later + 1) / growth))
    near = step * np.array(SETTINGS.nearest)
    grid = np.concatenate([even[:1], near, even[1 : n_even + 1], later])
    return grid[: np.searchsorted(grid, horizon) + 1]


def first_crossings(leads: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """When each of S paths of heights (Q, S) above a line first reaches it; inf if it does not.

    Paths are linear between the times `leads` (Q,).
    """
    beyond = heights >= 0
    first = beyond.argmax(axis=0)
    before, column = np.maximum(first - 1, 0), np.arange(heights.shape[1])
    below, above = heights[before, column], heights[first, column]
    rise = np.where(first > 0, above - below, 1.0)
    share = np.where(first > 0, -below / rise, 0.0)
    found = leads[before] + share * (leads[first] - leads[before])
    return np.where(beyond.any(axis=0), found, np.inf)


def standard_error(probability: np.ndarray, n_known: np.ndarray) -> np.ndarray:
    """Standard deviations (n,) of probabilities, estimated from `n_known` independent errors.

    They are those of a beta distribution, from a uniform prior (Laplace's rule).
    """
    a, b = n_known * probability + 1, n_known * (1 - probability) + 1
    return np.sqrt(a * b / (a + b + 1)) / (a + b)


class Window(NamedTuple):
    """Summary of the crossings of n series; times are since the last rows."""

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
