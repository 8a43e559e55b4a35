"""Detection of the periods of seasons in series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skpolyode.errors import ParameterError
from skpolyode.panel.query import read_duration

MAX_HARMONICS = 6  # of a season
LONGEST_PAST = 1000  # last rows of a series that are searched

Seasons = list[tuple[float, ...]]
"""Alternative sets of periods; those of one set occur together."""


@dataclass(frozen=True)
class PeriodSettings:
    """Which peaks of a periodogram are candidates.

    The resolution of a period p is p^2 / span: periods closer than that are hard to distinguish.
    """

    n_peaks: int = 3  # of each periodogram
    n_multiples: int = 4  # that are tried, as a peak may be a harmonic or a multiple
    n_seasons: int = 2  # least number of periods that a series must span
    separation: float = 0.25  # least distance of two candidates, in resolutions
    rounding: float = 0.6  # resolutions within which a period is rounded to whole rows
    fewest_rows: int = 20  # of a series that is searched
    max_searched: int = 4  # series and channels of a panel that are searched
    least_share: float = 0.3  # of the variance that a shared season must explain


_SETTINGS = PeriodSettings()


def read_period(period: Any, time_unit: str | None) -> tuple[float, ...] | None:
    """Lengths of seasons in the units of `times`.

    Parameters
    ----------
    period : float, timedelta, str, sequence of such, "auto" or None
        Each is read by `read_duration`. None: there is no season.
    time_unit : str or None
        `Panel.time_unit`.

    Returns
    -------
    tuple of float or None
        None for "auto": the series are searched for seasons.

    Raises
    ------
    ValueError
        If `period` is anything else.

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
            'period must be a positive length of time, a list of them, None or "auto"; got none.'
        )
    return tuple(read_duration("period", length, time_unit) for length in lengths)


def likely_periods(times: np.ndarray, versions: list[np.ndarray], most: int) -> list[float]:
    """Up to `most` periods, the likeliest first, in the units of `times` (n,): typical gaps.

    Candidates are the periods at the peaks of Lomb-Scargle periodograms, and multiples of them. The
    `versions` (n,) of the series (such as itself, and the errors of one-step forecasts) take turns,
    each in the order of the Bayesian information criterion of harmonics.
    """
    span, gaps = times[-1] - times[0], np.diff(times)
    # Length of which all gaps are nearly multiples, 0 for irregular times; months are nearly even.
    row = float(np.allclose(gaps, np.round(gaps), atol=1e-6))
    if np.std(gaps) < 0.1 * np.mean(gaps):
        row = float(np.mean(gaps))
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
    """Numbers of harmonics of seasons that occur together.

    Longer ones have twice as many, as a weekend is sharp. No harmonic is shorter than two typical
    gaps.
    """
    most = [MAX_HARMONICS * (1 + (period > min(periods))) for period in periods]
    return tuple(int(np.clip(p / 2 + 1e-6, 1, n)) for p, n in zip(periods, most, strict=True))


def alternatives(periods: Sequence[float]) -> Seasons:
    """Alternative seasons: each of the periods, or all together."""
    each = [(period,) for period in periods]
    return [*each, tuple(periods)] if len(each) > 1 else each


def shared_seasons(times: np.ndarray, values: np.ndarray, offsets: np.ndarray) -> Seasons:
    """Candidate seasons of the longest series, from rows of `times` (P,) and `values` (P, D).

    Straight lines are removed first. Residuals of the likeliest period are searched again, so that
    a day does not hide the week. There are up to two periods. Without a second season they are
    alternatives, first the one with the largest mean share of the variance.
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
    parts = range(1, _SETTINGS.n_multiples + 1)  # the period found may be a multiple
    pairs = [_in_whole(searched, found[0] / k, other) for other in others[:1] for k in parts]
    return alternatives(likeliest(pairs, searched)) if pairs else [(p,) for p in found]


def without_line(times: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Values (n,) minus their regression line; residuals as small as rounding errors are zero."""
    residual = x - np.polynomial.Polynomial.fit(times, x, 1)(times)
    return np.where(np.abs(residual) > 1e-12 * np.abs(x).max(), residual, 0.0)


def likeliest(
    seasons: Sequence[tuple[float, ...]], series: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[float, ...]:
    """The seasons that best explain the series: times (n,) and values (n,) without a line."""
    return min(seasons, key=lambda periods: sum(_criterion(*one, *periods) for one in series))


def _alike(searched: list[tuple[np.ndarray, np.ndarray]]) -> list[float]:
    """Up to two likely periods, first the one with the largest mean share of the variance."""
    first = searched[: _SETTINGS.max_searched]
    found = [period for t, x in first for period in likely_periods(t, [x], 1)]
    shares = {p: np.mean([_share(t, x, p) for t, x in searched]) for p in found}
    kept = [period for period in shares if shares[period] >= _SETTINGS.least_share]
    return sorted(kept, key=shares.__getitem__, reverse=True)[:2]


def _in_whole(
    searched: list[tuple[np.ndarray, np.ndarray]], one: float, other: float
) -> tuple[float, float]:
    """The shorter and the longer period; the longer is rounded to a multiple if it is close."""
    short, long = sorted((one, other))
    whole, span = round(long / short) * short, max(t[-1] - t[0] for t, _ in searched)
    return short, whole if abs(whole - long) <= _SETTINGS.rounding * long**2 / span else long


def _peaks(times: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Periods at the highest peaks of the periodogram."""
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

    By Lomb (1976) and Scargle (1982): the phase makes sines and cosines orthogonal at these times.
    Importing SciPy's function takes as long as thousands of frequencies.

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
    turned = waves @ x * np.exp(-0.5j * np.angle(squares))
    long, short = len(times) + np.abs(squares), len(times) - np.abs(squares)
    found = turned.real**2 / long + turned.imag**2 / np.maximum(short, np.finfo(np.float64).eps)
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
    """Residual (n,) of `x` (n,) after mean and harmonics, their rank, and the share of x² left."""
    pairs = zip(periods, harmonics_of(periods), strict=True)
    angle = 2 * np.pi * np.outer(times, [k / p for p, n in pairs for k in range(1, n + 1)])
    basis = np.column_stack([np.ones(len(times)), np.cos(angle), np.sin(angle)])
    basis, size, _ = np.linalg.svd(basis, full_matrices=False)
    basis = basis[:, size > 1e-6 * size[0]]
    residual = x - basis @ (basis.T @ x)
    return residual, basis.shape[1], float(residual @ residual / max(x @ x, 1e-300))
