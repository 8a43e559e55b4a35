"""Waves: periodic fits to single series, with a period that all channels of a series share.

If a series is nearly periodic and sampled sparsely, a few of its cycles fill a gap better than
learned dynamics. No single period is chosen: waves of all likely periods, with any number of
harmonics, are weighted by the Bayesian information criterion (G. L. Bretthorst, "Bayesian spectrum
analysis and parameter estimation", 1988).
"""

from __future__ import annotations

import numpy as np

from skpolyode.embedders.batching import CHUNK_TIMES
from skpolyode.embedders.paths import PathQuery
from skpolyode.panel.units import ChannelScaler

_HARMONICS = 4  # maximum number
_SPARE = 3  # least number of values of a channel minus coefficients of its wave
_FEWEST = 3 + _SPARE  # least number of values of a channel with a wave
_MOST_ROWS = 400  # rows per part: the cost rises with their square
_PER_TURN = 4  # frequencies to try per cycle over the series
_N_LIKELY, _N_CLOSE = 3, 17  # best of these to refine, and frequencies around each
_LEAST = 0.01  # floor of errors and residuals, in standard deviations
_RIDGE = 0.01  # penalty, for values of variance 1; of harmonic k times k squared


def waves_at(asked: PathQuery, scaler: ChannelScaler) -> tuple[np.ndarray, np.ndarray]:
    """Waves (Q, D) at the query times, and (P, D) at the rows; NaN for channels without one.

    A long series is cut into parts that overlap by half, each with a wave. At each time the waves
    of two parts are averaged, with weights that fall linearly from the middle of a part.
    """
    seen, x = asked.seen, scaler.transform(asked.seen.values)
    errors = np.ones(x.shape) if seen.errors is None else seen.errors / scaler.scale
    places = np.searchsorted(asked.row, seen.offsets)  # times of a series are contiguous
    found, at_rows = (np.full((len(t), x.shape[1]), np.nan) for t in (asked.times, seen.times))
    for k in range(seen.n_series):
        rows, place = slice(*seen.offsets[k : k + 2]), slice(*places[k : k + 2])
        t, enough = seen.times[rows], (~np.isnan(x[rows])).sum(axis=0) >= _FEWEST
        if not enough.any():
            continue
        at = np.concatenate([t, asked.times[place]])
        values, sure = x[rows, enough], errors[rows, enough]
        wave, starts = np.zeros((len(at), values.shape[1])), _starts(len(t))
        stops = np.minimum(starts + _MOST_ROWS, len(t))
        for share, first, stop in zip(np.eye(len(starts)), starts, stops, strict=True):
            part = slice(first, stop)
            weight = np.interp(at, (t[starts] + t[stops - 1]) / 2, share)
            near, zero = weight > 0, t[first]
            of_part = _wave(t[part] - zero, values[part], sure[part], at[near] - zero)
            wave[near] += weight[near, None] * of_part
        at_rows[rows, enough], found[place, enough] = np.split(wave, [len(t)])
    return found, at_rows


def _starts(n_rows: int) -> np.ndarray:
    """First rows of the parts of a series, evenly spaced."""
    beyond = max(n_rows - _MOST_ROWS, 0)
    return np.linspace(0, beyond, 1 + -(-beyond // (_MOST_ROWS // 2))).astype(np.int64)


def _wave(t: np.ndarray, x: np.ndarray, errors: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Waves (Q, D) at times `at` (Q,) of a series with rows (n, D).

    An unknown error counts as the standard deviation of the channel.
    """
    seen = ~np.isnan(x)
    counts = np.maximum(seen.sum(axis=0), 1)  # a part of a series may hold none
    mean = np.where(seen, x, 0.0).sum(axis=0) / counts
    scale = np.sqrt((np.where(seen, x - mean, 0.0) ** 2).sum(axis=0) / counts) + 1e-9  # rounding
    errors = np.where(np.isnan(errors), 1.0, errors / scale)
    weight = seen / np.maximum(errors, _LEAST) ** 2
    weight *= counts / np.maximum(weight.sum(axis=0), 1e-300)
    y, turns = np.nan_to_num((x - mean) / scale), np.arange(1, len(t) / 2, 1 / _PER_TURN)
    best = _fits(t, y, weight, turns / t[-1])[0].min(axis=1)
    likely = turns[np.argsort(best, kind="stable")[:_N_LIKELY], None]
    close = (likely + np.linspace(-1, 1, _N_CLOSE) / _PER_TURN).ravel() / t[-1]
    criteria, root, solution = _fits(t, y, weight, close)
    share = np.exp((criteria.min() - criteria) / 2)
    share = share[:, ::-1].cumsum(axis=1)[:, ::-1] / share.sum()  # of all models with a harmonic
    solution *= np.repeat(share, 2, axis=1)[:, None, 1:]
    coefficients = np.linalg.solve(root.swapaxes(2, 3), solution[..., None])[..., 0]
    chunks = np.split(at, range(CHUNK_TIMES, len(at), CHUNK_TIMES))
    parts = [np.einsum("fpq,fdp->qd", _harmonics(chunk, close), coefficients) for chunk in chunks]
    return mean + scale * np.concatenate(parts)


def _fits(t: np.ndarray, y: np.ndarray, w: np.ndarray, turns: np.ndarray) -> tuple[np.ndarray, ...]:
    """Criteria (F, K + 1) of 0 to K harmonics, and two arrays for their coefficients.

    Models with fewer harmonics are nested, so all follow from the Cholesky factor (F, D, P, P) of
    the normal equations, and the solution (F, D, P) of the triangular system with it. A channel
    with few values has fewer harmonics, independent of the others.
    """
    basis, counts = _harmonics(t, turns), (w > 0).sum(axis=0)
    most = np.clip((counts - 1 - _SPARE) // 2, 0, _HARMONICS)[:, None]
    counts = np.maximum(counts, 1)[:, None]
    gram = np.stack([(basis * weight) @ basis.swapaxes(1, 2) for weight in w.T], axis=1)
    order = np.arange(1, gram.shape[-1] + 1) // 2  # harmonics of the coefficients
    gram += np.diag(_RIDGE * np.maximum(order, 1) ** 2)
    root, product = np.linalg.cholesky(gram), (basis @ (w * y)).swapaxes(1, 2)
    solution = np.where(order <= most, np.linalg.solve(root, product[..., None])[..., 0], 0.0)
    left = (w * y**2).sum(axis=0)[:, None] - (solution**2).cumsum(axis=2)[..., ::2]
    n_coefficients = 1 + 2 * np.minimum(np.arange(_HARMONICS + 1), most)
    criteria = counts * np.log(np.maximum(left / counts, _LEAST**2))
    return (criteria + n_coefficients * np.log(counts)).sum(axis=1), root, solution


def _harmonics(t: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """Basis (F, 1 + 2 K, n): 1, cosine and sine, those of twice the frequency, and so on."""
    wave = np.exp(2j * np.pi * np.multiply.outer(turns, t))
    powers = np.cumprod(np.broadcast_to(wave, (_HARMONICS, *wave.shape)), axis=0)
    parts = [part for power in powers for part in (power.real, power.imag)]
    return np.stack([np.ones(wave.shape), *parts], axis=1)
