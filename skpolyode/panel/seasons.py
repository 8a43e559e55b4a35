"""Whether a channel has a season, told from its values alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skpolyode.panel.periods import MAX_HARMONICS, shared_seasons
from skpolyode.panel.rows import offsets_from


@dataclass(frozen=True)
class SeasonSettings:
    """What a season is compared with: values that wander, smoothly or not, with noise."""

    n_series: int = 4  # that are looked at, the longest ones
    fewest_rows: int = 20  # of one of these
    most_rows: int = 300  # the last ones
    n_drawn: int = 120  # of these, to compare
    n_cycles: int = 3  # that a series must show: two are made by a step and a line
    burst: float = 0.25  # mean gaps: where most are shorter, rows come in bursts
    shortest: float = 2.2  # longer gaps, of a season and of its harmonics
    rows_each: int = 12  # rows that a harmonic needs
    n_parts: int = 4  # a period that is found may be a multiple of the season, up to this
    n_memories: int = 4  # lengths of time over which values wander, from a gap to some spans
    spans: float = 4.0  # the longest of these
    noise: tuple[float, ...] = (1e-6, 0.03, 0.15, 0.5, 1.0)  # shares of the variance


_SETTINGS = SeasonSettings()


def find_season(times: np.ndarray, values: np.ndarray, offsets: np.ndarray) -> float:
    """Period of a channel in the units of `times`, NaN if there is none.

    The likeliest periods of the longest series are compared with a line around which values wander:
    a Gaussian process, rough or smooth, with or without noise. A season has to be likelier by more
    than what its harmonics and the search for it are expected to gain (Bayesian information
    criterion). Each series has a phase of its own.

    Parameters
    ----------
    times : float64 ndarray of shape (P,)
        Rising in each series.
    values : float64 ndarray of shape (P,)
        Without NaN.
    offsets : int64 ndarray of shape (B + 1,)
        Where the rows of each series start.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.panel.seasons import find_season
    >>> t = np.arange(48.0)
    >>> find_season(t, np.sin(2 * np.pi * t / 12), np.array([0, 48]))
    12.0
    """
    series = []
    for i in np.argsort(-np.diff(offsets), kind="stable")[: _SETTINGS.n_series]:
        part = slice(*offsets[i : i + 2])
        t, x = times[part][-_SETTINGS.most_rows :], values[part][-_SETTINGS.most_rows :]
        if len(x) >= _SETTINGS.fewest_rows and x.min() < x.max():
            x = x / np.abs(x).max()  # values of any size are brought near 1
            x = x - x.mean()
            series.append((t - t[0], x / np.abs(x).max()))
    if not series:
        return np.nan
    gap = _longer_gap(np.concatenate([np.diff(t) for t, _ in series]))
    if np.isnan(gap):
        return np.nan
    series = [(t / gap, x) for t, x in series]
    t, x = (np.concatenate(column) for column in zip(*series, strict=True))
    seasons = shared_seasons(t, x[:, None], offsets_from([len(own) for own, _ in series]))
    found = sorted({period for own in seasons for period in own})
    if not found:
        return np.nan
    periods = np.unique(np.outer(found, 1 / np.arange(1, _SETTINGS.n_parts + 1)))
    gains = sum(_gains(*own, periods) for own in series)
    best = np.argmax(gains)
    return float(periods[best] * gap) if gains[best] > 0 else np.nan


def _longer_gap(gaps: np.ndarray) -> float:
    """Gap that a quarter of `gaps` exceed, or their mean; NaN of bursts that are far apart.

    What is read in pairs is read as often as the pairs, and a burst is one reading: shorter periods
    would look like a slow change. Nor would there be an end of them to search.
    """
    long, mean = np.quantile(gaps, 0.75), gaps.mean()
    return float(max(long, mean)) if long >= _SETTINGS.burst * mean else np.nan


def _gains(times: np.ndarray, values: np.ndarray, periods: np.ndarray) -> np.ndarray:
    """By how much seasons make values (n,) likelier, in nats, less what they cost."""
    # As many rows as take little time, at random: every other one would hide periods.
    n_kept = min(len(times), _SETTINGS.n_drawn)
    kept = np.sort(np.random.default_rng(0).choice(len(times), n_kept, replace=False))
    times, values = times[kept], values[kept]
    whiten, volume = _wandering(times)
    span, result = times[-1] - times[0], np.zeros(len(periods))
    line = np.column_stack([np.ones(len(times)), times / span])
    for k, period in enumerate(periods):
        room = period / _SETTINGS.shortest, len(times) / _SETTINGS.rows_each, MAX_HARMONICS
        if min(room) < 1 or span < _SETTINGS.n_cycles * period:
            continue
        harmonics = np.arange(1, int(min(room)) + 1)
        angle = 2 * np.pi * np.outer(times, harmonics) / period
        waves = np.stack([np.cos(angle), np.sin(angle)], axis=2).reshape(len(times), -1)
        found = _likelihoods(whiten @ np.column_stack([line, waves, values]), volume)[2::2]
        # Two parameters a harmonic; the rest is for the search, and makes false alarms rare.
        cost = (harmonics + 3) * np.log(len(times))
        result[k] = (found[1:] - cost).max() - found[0]
    return result


def _wandering(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What makes noise (G, n, n) of values that wander, and the logarithms (G,) of its volume."""
    apart, noise = np.abs(times[:, None] - times), np.array(_SETTINGS.noise)[:, None, None]
    longest = _SETTINGS.spans * (times[-1] - times[0])
    far = [apart / memory for memory in np.geomspace(1.0, longest, _SETTINGS.n_memories)]
    # Rough (Ornstein and Uhlenbeck) and smooth ones (Matern, 3/2).
    kernels = np.stack([np.exp(-d) * shape for d in far for shape in (1.0, 1 + d)])[:, None]
    covariance = (1 - noise) * kernels + noise * np.eye(len(times))
    root = np.linalg.cholesky(covariance.reshape(-1, *apart.shape))
    volume = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return np.linalg.inv(root), volume


def _likelihoods(terms: np.ndarray, volume: np.ndarray) -> np.ndarray:
    """Largest log-likelihoods (k,) of the last of terms (G, n, k), given none, one, ... others."""
    n = terms.shape[1]
    last = np.linalg.qr(terms, mode="r")[:, ::-1, -1]
    left = np.cumsum(np.square(last), axis=1)[:, ::-1]  # squares that others do not explain
    left = np.maximum(left, 1e-9 * left[:, :1])
    return (-n / 2 * np.log(left / n) - volume[:, None]).max(axis=0)
