"""Waves: harmonics of a period that each series has for itself.

Of a series that nearly repeats, a few turns tell more of a gap than dynamics do if rows are far
apart. All channels share the period. None is chosen: waves of all likely periods, with any number
of harmonics, are weighted by the Bayesian information criterion (G. L. Bretthorst, "Bayesian
spectrum analysis and parameter estimation", 1988).
"""

from __future__ import annotations

import numpy as np

from skpolyode.embedders.paths import PathQuery
from skpolyode.panel.units import ChannelScaler

_HARMONICS = 4  # at most
_FEWEST = 12  # values of a channel that has a wave: more than coefficients
_MOST_ROWS = 400  # of a series that is searched: its cost rises with their square
_PER_TURN = 4  # frequencies that are tried in each further turn over the series
_N_LIKELY, _N_CLOSE = 3, 17  # of these that are looked at closely, and frequencies around each
_LEAST = 0.01  # standard deviations, of errors and of what a wave leaves
_RIDGE = 0.01  # beside values of variance 1; of a harmonic times the square of its number


def own_waves(asked: PathQuery, scaler: ChannelScaler) -> tuple[np.ndarray, np.ndarray]:
    """Waves (Q, D) at the times, and (P, D) at the rows; NaN of channels without one."""
    seen, x = asked.seen, scaler.transform(asked.seen.values)
    errors = np.ones(x.shape) if seen.errors is None else seen.errors / scaler.scale
    places = np.searchsorted(asked.row, seen.offsets)  # times of a series are together
    found, at_rows = (np.full((len(t), x.shape[1]), np.nan) for t in (asked.times, seen.times))
    for k in range(seen.n_series):
        rows, place = slice(*seen.offsets[k : k + 2]), slice(*places[k : k + 2])
        t, enough = seen.times[rows], (~np.isnan(x[rows])).sum(axis=0) >= _FEWEST
        if enough.any() and len(t) <= _MOST_ROWS:
            at = np.concatenate([t, asked.times[place]]) - t[0]
            wave = _wave(t - t[0], x[rows, enough], errors[rows, enough], at)
            at_rows[rows, enough], found[place, enough] = np.split(wave, [len(t)])
    return found, at_rows


def _wave(t: np.ndarray, x: np.ndarray, errors: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Waves (Q, D) at some times of a series with rows (n, D).

    An error that is not known is taken for a standard deviation of the channel.
    """
    mean, scale = np.nanmean(x, axis=0), np.nanstd(x, axis=0) + 1e-9  # rounding
    errors = np.where(np.isnan(errors), 1.0, errors / scale)
    weight = ~np.isnan(x) / np.maximum(errors, _LEAST) ** 2
    weight *= (weight > 0).sum(axis=0) / weight.sum(axis=0)
    y, turns = np.nan_to_num((x - mean) / scale), np.arange(1, len(t) / 2, 1 / _PER_TURN)
    best = _fits(t, y, weight, turns / t[-1])[0].min(axis=1)
    likely = turns[np.argsort(best, kind="stable")[:_N_LIKELY], None]
    close = (likely + np.linspace(-1, 1, _N_CLOSE) / _PER_TURN).ravel() / t[-1]
    criteria, root, told = _fits(t, y, weight, close)
    share = np.exp((criteria.min() - criteria) / 2)
    share = share[:, ::-1].cumsum(axis=1)[:, ::-1] / share.sum()  # of all with a harmonic
    told *= np.repeat(share, 2, axis=1)[:, None, 1:]
    coefficients = np.linalg.solve(root.swapaxes(2, 3), told[..., None])[..., 0]
    return mean + scale * np.einsum("fpq,fdp->qd", _harmonics(at, close), coefficients)


def _fits(t: np.ndarray, y: np.ndarray, w: np.ndarray, turns: np.ndarray) -> tuple[np.ndarray, ...]:
    """Criteria (F, K + 1) of 0 to K harmonics, and what makes their coefficients.

    Those of fewer harmonics are nested: all follow from the Cholesky factor (F, D, P, P) of the
    normal equations and the solution (F, D, P) of its first half.
    """
    basis, counts = _harmonics(t, turns), (w > 0).sum(axis=0)[:, None]
    gram = np.stack([(basis * own) @ basis.swapaxes(1, 2) for own in w.T], axis=1)
    gram += np.diag(_RIDGE * np.maximum(np.arange(1, gram.shape[-1] + 1) // 2, 1) ** 2)
    root, product = np.linalg.cholesky(gram), (basis @ (w * y)).swapaxes(1, 2)
    told = np.linalg.solve(root, product[..., None])[..., 0]
    left = (w * y**2).sum(axis=0)[:, None] - (told**2).cumsum(axis=2)[..., ::2]
    n_coefficients = 1 + 2 * np.arange(_HARMONICS + 1)
    criteria = counts * np.log(np.maximum(left / counts, _LEAST**2))
    return (criteria + n_coefficients * np.log(counts)).sum(axis=1), root, told


def _harmonics(t: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """1, cosine and sine, those of twice the frequency, and so on: (F, 1 + 2 K, n)."""
    wave = np.exp(2j * np.pi * np.multiply.outer(turns, t))
    powers = np.cumprod(np.broadcast_to(wave, (_HARMONICS, *wave.shape)), axis=0)
    parts = [part for power in powers for part in (power.real, power.imag)]
    return np.stack([np.ones(wave.shape), *parts], axis=1)
