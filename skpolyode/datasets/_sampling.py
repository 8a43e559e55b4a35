"""When a series is observed: a Poisson process in continuous time, or thinning of a grid."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats


class Sampled(NamedTuple):
    """Observation rows of all series, sorted by series and time.

    Parameters
    ----------
    series : int ndarray of shape (n_rows,)
        Index of the series.
    times : ndarray of shape (n_rows,)
        Time of the observation.
    mask : bool ndarray of shape (n_rows, n_channels)
        Which channels are observed.
    """

    series: np.ndarray
    times: np.ndarray
    mask: np.ndarray

    def offsets(self, n_series: int) -> np.ndarray:
        """Row offsets of the series, shape (n_series + 1,)."""
        return np.searchsorted(self.series, np.arange(n_series + 1))


def poisson_rows(
    rng: np.random.RandomState,
    *,
    n_series: int,
    n_channels: int,
    expected: float,
    span: float,
    per_channel: bool,
) -> Sampled:
    """Homogeneous Poisson process on ``[0, span]`` with `expected` observations.

    Every process is conditioned on at least two observations. With `per_channel` each channel has
    its own process, so that almost surely every row observes exactly one channel.
    """
    n_processes = n_series * (n_channels if per_channel else 1)
    possible = np.arange(2, 20 + int(expected + 10.0 * np.sqrt(expected)))
    # Relative to the largest, because all of them underflow when few observations are expected.
    logs = stats.poisson.logpmf(possible, expected)
    weights = np.exp(logs - logs.max())
    counts = rng.choice(possible, size=n_processes, p=weights / weights.sum())
    process = np.repeat(np.arange(n_processes), counts)
    times = rng.uniform(0.0, span, len(process))
    if per_channel:
        series, channel = np.divmod(process, n_channels)
        mask = channel[:, None] == np.arange(n_channels)
    else:
        series, mask = process, np.ones((len(process), n_channels), dtype=bool)
    order = np.lexsort((times, series))
    return Sampled(series[order], times[order], mask[order])


def thinned_grid(
    rng: np.random.RandomState,
    *,
    n_series: int,
    n_times: int,
    n_channels: int,
    probability: float,
    per_channel: bool,
) -> np.ndarray:
    """Bernoulli thinning of a grid whose last point is always kept.

    Returns
    -------
    bool ndarray of shape (n_series, n_times, n_channels)
        The observed cells.
    """
    n_masks = n_channels if per_channel else 1
    keep = rng.random_sample((n_series, n_times, n_masks)) < probability
    keep[:, -1] = True
    return np.broadcast_to(keep, (n_series, n_times, n_channels))
