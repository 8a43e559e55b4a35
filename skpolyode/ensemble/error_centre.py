"""What forecasts usually miss by, from what is forecast.

Forecasts are means, and combined on straight lines: where values are skewed, as most laboratory
values are, those of low values are mostly too high. Sampled futures are around what is usual.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from skpolyode.ensemble.backtest import N_FOLDS, are_known, equal_bins, folds_of, nearness
from skpolyode.ensemble.error_scale import PRIOR
from skpolyode.saving.arrays import check_arrays
from skpolyode.saving.codec import saved

_ERRORS_A_LEAD = 400  # with about the same lead
_GAIN = 0.02  # share by which errors of other series must be smaller


@saved(usual="D")
@dataclass(frozen=True)
class ErrorCentre:
    """Median errors of forecasts, by lead and by what is forecast.

    Parameters
    ----------
    usual : tuple of tuple of (float, ndarray of shape (K,), ndarray of shape (K,))
        For each channel leads, in increasing order, with forecasts, rising, and their median
        errors; empty where nothing is usual.
    """

    usual: tuple[tuple[tuple[float, np.ndarray, np.ndarray], ...], ...] = ()

    def __post_init__(self) -> None:
        like = {"lead": "unsigned", "forecasts": "K sorted", "errors": "K"}
        for own in (own for bins in self.usual for own in bins):
            check_arrays("ErrorCentre", like, dict(zip(like, own, strict=True)))

    @classmethod
    def learn(
        cls, forecasts: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
    ) -> Self:
        """Learn from forecasts, their errors and leads (M, D), and series (M,); NaN is ignored.

        A few series speak for errors of zero.
        """
        usual = []
        for j, known in enumerate(are_known(leads, errors).T):
            rows, bins = np.flatnonzero(known), []
            for part in equal_bins(leads[rows, j], _ERRORS_A_LEAD) if len(rows) else ():
                own = rows[part]
                x, whose = np.stack([forecasts[own, j], errors[own, j]]), series[own]
                cells = equal_bins(x[0])
                middle, missed = np.transpose([np.median(x[:, cell], axis=1) for cell in cells])
                n_series = np.array([len(np.unique(whose[cell])) for cell in cells])
                missed = missed * n_series / (n_series + PRIOR)
                bins.append((float(np.median(leads[own, j])), middle, missed))
            usual.append(tuple(bins))
        return cls(tuple(usual))

    def at(self, channel: int, forecasts: np.ndarray, leads: np.ndarray) -> np.ndarray:
        """Median errors (Q,) of forecasts (Q,) of a channel; none at leads of zero or infinity.

        Before the first lead of the backtest they shrink on a line.
        """
        bins = self.usual[channel] if self.usual else ()
        if not bins:
            return np.zeros(len(forecasts))
        at = np.array([own[0] for own in bins])
        table = np.stack([np.interp(forecasts, *own[1:]) for own in bins], axis=1)
        usual = (nearness(leads, at) * table).sum(axis=1)
        return usual * np.where(np.isinf(leads), 0.0, np.minimum(leads / at[0], 1.0))


def centred(
    forecasts: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
) -> tuple[ErrorCentre, np.ndarray]:
    """What is usual of errors (M, D), and what is left without it, by other folds of series.

    Nothing is usual of channels whose errors are not smaller then, or of too few series.
    """
    folds, left, columns = folds_of(series, N_FOLDS), errors.copy(), (forecasts, errors, leads)
    for fold in range(N_FOLDS) if folds.max(initial=0) == N_FOLDS - 1 else ():
        out = folds == fold
        centre = ErrorCentre.learn(*(x[~out] for x in (*columns, series)))
        for j in range(errors.shape[1]):
            left[out, j] -= centre.at(j, forecasts[out, j], leads[out, j])
    sizes = np.where(are_known(leads, errors), np.abs([errors, left]), 0.0).sum(axis=1)
    is_better = sizes[1] < (1 - _GAIN) * sizes[0]
    every = zip(ErrorCentre.learn(*columns, series).usual, is_better, strict=True)
    centre = ErrorCentre(tuple(own if better else () for own, better in every))
    return centre, np.where(is_better, left, errors)
