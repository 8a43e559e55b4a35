"""Which periods the season of a series may have."""

from __future__ import annotations

import numpy as np
from scipy.signal import lombscargle

__all__ = ["likely_periods"]

_PEAKS = 3  # of each periodogram
_MULTIPLES = 4  # of the period of a peak, which may be a harmonic
_SEASONS = 2  # that a series has to show at least
_APART = 0.25  # of what a series of this length can tell apart
_NEAR = 0.6  # the same: what is this near to whole rows is taken for them
_MOST_HARMONICS = 6
_MOST_FREQUENCIES = 8000


def likely_periods(times: np.ndarray, versions: list[np.ndarray], most: int) -> list[float]:
    """Periods, the likeliest first, in typical gaps as `times` (n,).

    They are peaks of Lomb and Scargle's periodograms, which need no grid, of some versions (n,) of
    the series (such as itself, and the errors of forecasts), and multiples of them. They take turns
    in the order of the Bayesian information criterion of harmonics in each version.
    """
    span, whole = times[-1] - times[0], _whole(times)
    found = set()
    for x in versions:
        for peak in _peaks(times, x):
            for multiple in peak * np.arange(1, _MULTIPLES + 1):
                rows = max(round(multiple / whole), 1) * whole if whole else 0.0
                is_near = abs(rows - multiple) <= _NEAR * multiple**2 / span
                period = rows if is_near else multiple
                if 2 - 1e-9 <= period <= span / _SEASONS * (1 + 1e-9):
                    found.add(float(period))
    candidates = sorted(found)
    criteria = [[_criterion(times, x, period) for period in candidates] for x in versions]
    chosen: list[float] = []
    for place in np.argsort(criteria, axis=1, kind="stable").T.ravel():
        period = candidates[place]
        if all(abs(period - other) > _APART * period**2 / span for other in chosen):
            chosen.append(period)
    return chosen[:most]


def _whole(times: np.ndarray) -> float:
    """What gaps are multiples of, nearly; 0 of irregular times."""
    gaps = np.diff(times)
    if np.std(gaps) < 0.1 * np.mean(gaps):  # such as months
        return float(np.mean(gaps))
    return float(np.allclose(gaps, np.round(gaps), atol=1e-6))


def _peaks(times: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Periods of the highest peaks."""
    span = times[-1] - times[0]
    lowest, step = _SEASONS / span, 1 / (8 * span)
    if lowest >= 0.5 or not x.any():
        return np.empty(0)
    grid = np.arange(lowest, 0.5 + 1e-9, step)[-_MOST_FREQUENCIES:]
    power = lombscargle(times, x, 2 * np.pi * grid, normalize=True)
    around = np.pad(power, 1, constant_values=-1.0)
    peaks = np.flatnonzero((power >= around[:-2]) & (power >= around[2:]))
    return 1 / grid[peaks[np.argsort(-power[peaks], kind="stable")][:_PEAKS]]


def _criterion(times: np.ndarray, x: np.ndarray, period: float) -> float:
    """Bayesian information criterion of a mean and the harmonics of a period."""
    k = np.arange(1, int(np.clip(period / 2 + 1e-6, 1, _MOST_HARMONICS)) + 1)
    angle = 2 * np.pi * np.outer(times, k) / period
    basis = np.column_stack([np.ones(len(times)), np.cos(angle), np.sin(angle)])
    own, size, _ = np.linalg.svd(basis, full_matrices=False)
    own = own[:, size > 1e-6 * size[0]]
    left = np.square(x - own @ (own.T @ x)).sum() / max(np.square(x).sum(), 1e-300)
    return float(len(times) * np.log(left + 1e-9) + own.shape[1] * np.log(len(times)))
