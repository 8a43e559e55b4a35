"""Detection of the periods that the season of a series may have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import lombscargle

MAX_HARMONICS = 6  # of a season
LONGEST_PAST = 1000  # rows that a search looks back on; of longer series the last ones
FEWEST_VALUES = 12  # to search for a season


@dataclass(frozen=True)
class PeriodSettings:
    """Which peaks of a periodogram are candidates.

    The resolution of a period p is p^2 / span: periods closer than that are hard to tell apart.
    """

    n_peaks: int = 3  # of each periodogram
    n_multiples: int = 4  # of the period of a peak, since a peak may be a harmonic
    n_seasons: int = 2  # that the series must show, at least
    apart: float = 0.25  # resolutions between two candidates, at least
    rounding: float = 0.6  # resolutions within which a period is rounded to whole rows
    fewest_rows: int = 20  # of a series that is searched
    max_searched: int = 4  # series and channels of a panel that are searched
    least_share: float = 0.3  # of the variance that a season that series share must explain


_SETTINGS = PeriodSettings()


def likely_periods(times: np.ndarray, versions: list[np.ndarray], most: int) -> list[float]:
    """Up to `most` periods, the likeliest first, in typical gaps as `times` (n,).

    Candidates are the peaks of the Lomb-Scargle periodograms of some versions (n,) of the series
    (such as itself, and the errors of one-step forecasts), and multiples of their periods. The
    versions take turns, each in the order of the Bayesian information criterion of harmonics.
    """
    span, row = times[-1] - times[0], _row_length(times)
    found = set()
    for x in versions:
        for peak in _peaks(times, x):
            for multiple in peak * np.arange(1, _SETTINGS.n_multiples + 1):
                rows = max(round(multiple / row), 1) * row if row else 0.0
                is_near = abs(rows - multiple) <= _SETTINGS.rounding * multiple**2 / span
                period = rows if is_near else multiple
                if 2 - 1e-9 <= period <= span / _SETTINGS.n_seasons * (1 + 1e-9):
                    found.add(float(period))
    candidates = sorted(found)
    criteria = [[_criterion(times, x, period) for period in candidates] for x in versions]
    chosen: list[float] = []
    for place in np.argsort(criteria, axis=1, kind="stable").T.ravel():
        period = candidates[place]
        if all(abs(period - other) > _SETTINGS.apart * period**2 / span for other in chosen):
            chosen.append(period)
    return chosen[:most]


def shared_periods(times: np.ndarray, values: np.ndarray, offsets: np.ndarray) -> list[float]:
    """Up to two periods that most of the longest series show, from rows (P,) and (P, D).

    Lines are removed first. The period that the others have as well is the first.
    """
    searched = []
    for i in np.argsort(-np.diff(offsets), kind="stable")[: _SETTINGS.max_searched]:
        rows = slice(offsets[i], offsets[i + 1])
        for x in values[rows].T[: _SETTINGS.max_searched]:
            seen = ~np.isnan(x)
            if seen.sum() >= _SETTINGS.fewest_rows:
                t, x = times[rows][seen][-LONGEST_PAST:], x[seen][-LONGEST_PAST:]
                searched.append((t, x - np.polynomial.Polynomial.fit(t, x, 1)(t)))
    found = [
        p for own in searched[: _SETTINGS.max_searched] for p in likely_periods(own[0], [own[1]], 1)
    ]
    shares = [np.mean([_share(*own, p) for own in searched]) for p in found]
    kept = [found[k] for k in np.argsort(shares)[::-1] if shares[k] >= _SETTINGS.least_share]
    return list(dict.fromkeys(kept))[:2]


def _row_length(times: np.ndarray) -> float:
    """Length that all gaps are nearly multiples of; 0 of irregular times."""
    gaps = np.diff(times)
    if np.std(gaps) < 0.1 * np.mean(gaps):  # months are nearly even
        return float(np.mean(gaps))
    return float(np.allclose(gaps, np.round(gaps), atol=1e-6))


def _peaks(times: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Periods of the highest peaks."""
    span = times[-1] - times[0]
    lowest, step = _SETTINGS.n_seasons / span, 1 / (8 * span)
    if lowest >= 0.5 or not x.any():
        return np.empty(0)
    n_grid = int(np.ceil((0.5 + 1e-9 - lowest) / step))
    grid = lowest + step * np.arange(max(n_grid - 8 * LONGEST_PAST, 0), n_grid)
    power = lombscargle(times, x, 2 * np.pi * grid, normalize=True)
    around = np.pad(power, 1, constant_values=-1.0)
    peaks = np.flatnonzero((power >= around[:-2]) & (power >= around[2:]))
    return 1 / grid[peaks[np.argsort(-power[peaks], kind="stable")][: _SETTINGS.n_peaks]]


def _criterion(times: np.ndarray, x: np.ndarray, period: float) -> float:
    """Bayesian information criterion of a mean and the harmonics of a period."""
    left, size = _unexplained(times, x, period)
    return float(len(times) * np.log(left + 1e-9) + size * np.log(len(times)))


def _share(times: np.ndarray, x: np.ndarray, period: float) -> float:
    """Share of the variance that a mean and the harmonics of a period explain, adjusted."""
    left, size = _unexplained(times, x, period)
    return 1 - left * len(x) / max(len(x) - size, 1)


def _unexplained(times: np.ndarray, x: np.ndarray, period: float) -> tuple[float, int]:
    """Share of the squares that a mean and the harmonics of a period leave, and their number."""
    k = np.arange(1, int(np.clip(period / 2 + 1e-6, 1, MAX_HARMONICS)) + 1)
    angle = 2 * np.pi * np.outer(times, k) / period
    basis = np.column_stack([np.ones(len(times)), np.cos(angle), np.sin(angle)])
    own, size, _ = np.linalg.svd(basis, full_matrices=False)
    own = own[:, size > 1e-6 * size[0]]
    left = np.square(x - own @ (own.T @ x)).sum() / max(np.square(x).sum(), 1e-300)
    return float(left), own.shape[1]
