"""The median error of forecasts, by lead and by the forecast itself.

Forecasts are means, combined linearly. Where values are skewed, as most laboratory values are,
forecasts of low values are mostly too high. Sampled futures are centred on the median error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from skpolyode.ensemble.backtest import N_FOLDS, are_known, equal_bins, folds_of, nearness
from skpolyode.ensemble.error_scale import PRIOR
from skpolyode.saving.codec import check_arrays, saved

_ERRORS_A_LEAD = 400  # errors in a bin of leads
_GAIN = 0.02  # share by which absolute errors in held-out folds must fall


@saved(usual="D")
@dataclass(frozen=True)
class ErrorCentre:
    """Median errors of forecasts, by lead and by forecast value.

    Parameters
    ----------
    usual : tuple of tuple of (float, ndarray of shape (K,), ndarray of shape (K,))
        For each channel, tuples in increasing order of the lead: the lead, forecasts (rising), and
        their median errors. Empty where the median error counts as zero.
    """

    usual: tuple[tuple[tuple[float, np.ndarray, np.ndarray], ...], ...] = ()

    def __post_init__(self) -> None:
        like = {"lead": "unsigned", "forecasts": "K sorted", "errors": "K"}
        for part in (part for bins in self.usual for part in bins):
            check_arrays("ErrorCentre", like, dict(zip(like, part, strict=True)))

    @classmethod
    def learn(
        cls, forecasts: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
    ) -> Self:
        """Learn from forecasts, their errors and leads (M, D), and series (M,); NaN is ignored.

        Medians are shrunk towards zero by a prior worth five series.
        """
        channels = []
        for j, known in enumerate(are_known(leads, errors).T):
            rows, bins = np.flatnonzero(known), []
            for part in equal_bins(leads[rows, j], _ERRORS_A_LEAD) if len(rows) else ():
                in_bin = rows[part]
                x, whose = np.stack([forecasts[in_bin, j], errors[in_bin, j]]), series[in_bin]
                cells = equal_bins(x[0])
                middle, median = np.transpose([np.median(x[:, cell], axis=1) for cell in cells])
                n_series = np.array([len(np.unique(whose[cell])) for cell in cells])
                median = median * n_series / (n_series + PRIOR)
                bins.append((float(np.median(leads[in_bin, j])), middle, median))
            channels.append(tuple(bins))
        return cls(tuple(channels))

    def at(self, channel: int, forecasts: np.ndarray, leads: np.ndarray) -> np.ndarray:
        """Median errors (Q,) of forecasts (Q,) of a channel; 0 at leads of zero or infinity.

        Before the first lead of the backtest they shrink linearly.
        """
        bins = self.usual[channel] if self.usual else ()
        if not bins:
            return np.zeros(len(forecasts))
        at = np.array([part[0] for part in bins])
        table = np.stack([np.interp(forecasts, *part[1:]) for part in bins], axis=1)
        median = (nearness(leads, at) * table).sum(axis=1)
        return median * np.where(np.isinf(leads), 0.0, np.minimum(leads / at[0], 1.0))


def centred(
    forecasts: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
) -> tuple[ErrorCentre, np.ndarray]:
    """Median errors, and errors (M, D) minus the medians of the other folds of series.

    The median counts as zero in channels whose errors do not get smaller, or with too few series.
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
    centre = ErrorCentre(tuple(bins if better else () for bins, better in every))
    return centre, np.where(is_better, left, errors)
