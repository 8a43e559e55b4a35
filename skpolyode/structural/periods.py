"""Detection of the periods that the season of a series may have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import lombscargle

from skpolyode.ensemble.decompose import LONGEST_PAST, MAX_HARMONICS

__all__ = ["PeriodSettings", "likely_periods"]


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
    grid = np.arange(lowest, 0.5 + 1e-9, step)[-8 * LONGEST_PAST :]
    power = lombscargle(times, x, 2 * np.pi * grid, normalize=True)
    around = np.pad(power, 1, constant_values=-1.0)
    peaks = np.flatnonzero((power >= around[:-2]) & (power >= around[2:]))
    return 1 / grid[peaks[np.argsort(-power[peaks], kind="stable")][: _SETTINGS.n_peaks]]


def _criterion(times: np.ndarray, x: np.ndarray, period: float) -> float:
    """Bayesian information criterion of a mean and the harmonics of a period."""
    k = np.arange(1, int(np.clip(period / 2 + 1e-6, 1, MAX_HARMONICS)) + 1)
    angle = 2 * np.pi * np.outer(times, k) / period
    basis = np.column_stack([np.ones(len(times)), np.cos(angle), np.sin(angle)])
    own, size, _ = np.linalg.svd(basis, full_matrices=False)
    own = own[:, size > 1e-6 * size[0]]
    left = np.square(x - own @ (own.T @ x)).sum() / max(np.square(x).sum(), 1e-300)
    return float(len(times) * np.log(left + 1e-9) + own.shape[1] * np.log(len(times)))
