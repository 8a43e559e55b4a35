"""Detection of the periods that the season of a series may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skpolyode.errors import ParameterError
from skpolyode.panel.durations import read_duration

MAX_HARMONICS = 6  # of a season
LONGEST_PAST = 1000  # rows that a search looks back on; of longer series the last ones
FEWEST_VALUES = 12  # to search for a season

Seasons = list[tuple[float, ...]]
"""Periods that series may have together: alternatives."""


@dataclass(frozen=True)
class PeriodSettings:
    """Which peaks of a periodogram are candidates.

    The resolution of a period p is p^2 / span: periods closer than that are hard to tell apart.
    """

    n_peaks: int = 3  # of each periodogram
    n_multiples: int = 4  # that are tried: a peak may be a harmonic, and what is found a multiple
    n_seasons: int = 2  # that the series must show, at least
    separation: float = 0.25  # resolutions between two candidates, at least
    rounding: float = 0.6  # resolutions within which a period is rounded to whole rows
    fewest_rows: int = 20  # of a series that is searched
    max_searched: int = 4  # series and channels of a panel that are searched
    least_share: float = 0.3  # of the variance that a season that series share must explain


_SETTINGS = PeriodSettings()


def read_period(period: Any, time_unit: str | None) -> tuple[float, ...] | None:
    """Lengths of seasons in the units of `times`.

    Parameters
    ----------
    period : float, timedelta, str, sequence of such, "auto" or None
        As `read_duration` reads each. None: there is no season.
    time_unit : str or None
        `Panel.time_unit`.

    Returns
    -------
    tuple of float or None
        None for "auto": the series are searched for seasons.

    Raises
    ------
    ValueError
        If there is something else.

    Examples
    --------
    >>> from skpolyode.ensemble.periods import read_period
    >>> read_period(["1D", 12], "h"), read_period("auto", None), read_period(None, None)
    ((24.0, 12.0), None, ())
    """
    if period is None:
        return ()
    if isinstance(period, str) and period == "auto":
        return None
    lengths = period if isinstance(period, list | tuple | np.ndarray) else [period]
    if not len(lengths):
        raise ParameterError(
            'period must be a positive length of time, some of them, None or "auto"; got none.'
        )
    return tuple(read_duration("period", length, time_unit) for length in lengths)


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
        if all(abs(period - other) > _SETTINGS.separation * period**2 / span for other in chosen):
            chosen.append(period)
    return chosen[:most]


def harmonics_of(periods: Sequence[float]) -> tuple[int, ...]:
    """Numbers of the harmonics of seasons that are there together.

    A longer one has twice as many, as a weekend is sharp; none is shorter than two typical gaps.
    """
    most = [MAX_HARMONICS * (1 + (period > min(periods))) for period in periods]
    return tuple(int(np.clip(p / 2 + 1e-6, 1, n)) for p, n in zip(periods, most, strict=True))


def alternatives(periods: Sequence[float]) -> Seasons:
    """Seasons that series may have: one of the periods, or all together."""
    each = [(period,) for period in periods]
    return [*each, tuple(periods)] if len(each) > 1 else each


def shared_seasons(times: np.ndarray, values: np.ndarray, offsets: np.ndarray) -> Seasons:
    """Seasons that most of the longest series may have, from rows (P,) and (P, D).

    Lines are removed first. What the likeliest period leaves is searched again, so that a day does
    not hide the week. There are up to two periods; without a second season they are alternatives,
    first the one that all series have.
    """
    searched = []
    for i in np.argsort(-np.diff(offsets), kind="stable")[: _SETTINGS.max_searched]:
        rows = slice(offsets[i], offsets[i + 1])
        for x in values[rows].T[: _SETTINGS.max_searched]:
            seen = ~np.isnan(x)
            if seen.sum() >= _SETTINGS.fewest_rows:
                t, x = times[rows][seen][-LONGEST_PAST:], x[seen][-LONGEST_PAST:]
                searched.append((t, without_line(t, x)))
    found = _alike(searched)
    others = _alike([(t, _residual(t, x, found[0])[0]) for t, x in searched]) if found else []
    parts = range(1, _SETTINGS.n_multiples + 1)  # what is found may be a multiple
    pairs = [_in_whole(searched, found[0] / k, other) for other in others[:1] for k in parts]
    return alternatives(likeliest(pairs, searched)) if pairs else [(p,) for p in found]


def without_line(times: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Values (n,) minus the line through them; nothing of rounding is left."""
    residual = x - np.polynomial.Polynomial.fit(times, x, 1)(times)
    return np.where(np.abs(residual) > 1e-12 * np.abs(x).max(), residual, 0.0)


def likeliest(
    seasons: Sequence[tuple[float, ...]], series: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[float, ...]:
    """Those seasons that explain series best, times and values (n,) without a line."""
    return min(seasons, key=lambda own: sum(_criterion(*one, *own) for one in series))


def _alike(searched: list[tuple[np.ndarray, np.ndarray]]) -> list[float]:
    """Up to two of the likeliest periods of some series, first the one that all have."""
    some = searched[: _SETTINGS.max_searched]
    found = [period for own in some for period in likely_periods(own[0], [own[1]], 1)]
    shares = {p: np.mean([_share(*own, p) for own in searched]) for p in found}
    kept = [period for period in shares if shares[period] >= _SETTINGS.least_share]
    return sorted(kept, key=shares.__getitem__, reverse=True)[:2]


def _in_whole(
    searched: list[tuple[np.ndarray, np.ndarray]], one: float, other: float
) -> tuple[float, float]:
    """Two periods, the longer one rounded to a multiple of the other if that is about the same."""
    short, long = sorted((one, other))
    whole, span = round(long / short) * short, max(t[-1] - t[0] for t, _ in searched)
    return short, whole if abs(whole - long) <= _SETTINGS.rounding * long**2 / span else long


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
    power = lomb_scargle(times, x, grid)
    around = np.pad(power, 1, constant_values=-1.0)
    peaks = np.flatnonzero((power >= around[:-2]) & (power >= around[2:]))
    return 1 / grid[peaks[np.argsort(-power[peaks], kind="stable")][: _SETTINGS.n_peaks]]


def lomb_scargle(times: np.ndarray, x: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Shares (F,) of the squares of `x` (n,) that one wave of each frequency explains.

    As of Lomb (1976) and Scargle (1982), by sines and cosines that are turned until they are
    orthogonal at these times. Importing SciPy's takes as long as thousands of frequencies.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.ensemble.periods import lomb_scargle
    >>> times = np.array([0.0, 1.0, 2.5, 4.0, 7.0])
    >>> lomb_scargle(times, np.sin(2 * np.pi * 0.3 * times), np.array([0.2, 0.3])).round(3)
    array([0.181, 1.   ])
    """
    waves = np.exp(2j * np.pi * np.outer(frequencies, times))
    squares = np.einsum("fn,fn->f", waves, waves)
    own = waves @ x * np.exp(-0.5j * np.angle(squares))
    long, short = len(times) + np.abs(squares), len(times) - np.abs(squares)
    found = own.real**2 / long + own.imag**2 / np.maximum(short, np.finfo(np.float64).eps)
    return 2 * found / (x @ x)


def _criterion(times: np.ndarray, x: np.ndarray, *periods: float) -> float:
    """Bayesian information criterion of a mean and the harmonics of periods."""
    _, size, share = _residual(times, x, *periods)
    return float(len(times) * np.log(share + 1e-9) + size * np.log(len(times)))


def _share(times: np.ndarray, x: np.ndarray, period: float) -> float:
    """Share of the variance that a mean and the harmonics of a period explain, adjusted."""
    _, size, share = _residual(times, x, period)
    return 1 - share * len(x) / max(len(x) - size, 1)


def _residual(times: np.ndarray, x: np.ndarray, *periods: float) -> tuple[np.ndarray, int, float]:
    """What a mean and harmonics of periods leave of `x` (n,), their number, and the share left."""
    own = zip(periods, harmonics_of(periods), strict=True)
    angle = 2 * np.pi * np.outer(times, [k / p for p, n in own for k in range(1, n + 1)])
    basis = np.column_stack([np.ones(len(times)), np.cos(angle), np.sin(angle)])
    own, size, _ = np.linalg.svd(basis, full_matrices=False)
    own = own[:, size > 1e-6 * size[0]]
    residual = x - own @ (own.T @ x)
    return residual, own.shape[1], float(residual @ residual / max(x @ x, 1e-300))
