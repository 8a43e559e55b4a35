"""What forecasts usually miss by, from what is forecast.

Forecasts are means, and combined on straight lines: where values are skewed, as most laboratory
values are, those of low values are mostly too high. Errors are then kept around what is usual.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from skpolyode.ensemble.backtest import N_FOLDS, are_known, equal_bins, folds_of
from skpolyode.ensemble.error_paths import between
from skpolyode.ensemble.error_scale import PRIOR
from skpolyode.saving.codec import saved

_ERRORS_A_LEAD = 400  # with about the same lead
_GAIN = 0.02  # share by which errors of other series must be smaller


@saved
@dataclass(frozen=True)
class _Usual:
    """Median errors (K,) at some forecasts (K,), rising, with about the same lead."""

    lead: float
    forecasts: np.ndarray
    errors: np.ndarray

    @classmethod
    def of(cls, lead: float, forecasts: np.ndarray, errors: np.ndarray, series: np.ndarray) -> Self:
        """From n of each; a few series speak for errors of zero."""
        cells = equal_bins(forecasts)
        n_series = np.array([len(np.unique(series[own])) for own in cells])
        middle, usual = (
            np.array([np.median(x[own]) for own in cells]) for x in (forecasts, errors)
        )
        return cls(lead, middle, usual * n_series / (n_series + PRIOR))


@saved
@dataclass(frozen=True)
class ErrorCentre:
    """Median errors of forecasts, by lead and by what is forecast.

    Parameters
    ----------
    usual : tuple of tuple of _Usual
        For each channel, in increasing order of the lead; empty where they are zero.
    """

    usual: tuple[tuple[_Usual, ...], ...]

    @classmethod
    def learn(
        cls, forecasts: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
    ) -> Self:
        """Learn from forecasts, their errors and leads (M, D), and series (M,); NaN is ignored."""
        usual = []
        for j, known in enumerate(are_known(leads, errors).T):
            rows, bins = np.flatnonzero(known), []
            for part in equal_bins(leads[rows, j], _ERRORS_A_LEAD):
                if len(part):
                    own = rows[part]
                    columns = forecasts[own, j], errors[own, j], series[own]
                    bins.append(_Usual.of(float(np.median(leads[own, j])), *columns))
            usual.append(tuple(bins))
        return cls(tuple(usual))

    def at(self, forecasts: np.ndarray, leads: np.ndarray) -> np.ndarray:
        """Median errors (Q, D) of forecasts (Q, D) at leads (Q, D); none of zero or infinite ones.

        Before the first lead of the backtest they shrink on a line.
        """
        found = np.zeros(forecasts.shape)
        for j, bins in enumerate(self.usual):
            if bins:
                lead, at = leads[:, j], [own.lead for own in bins]
                table = np.stack(
                    [np.interp(forecasts[:, j], own.forecasts, own.errors) for own in bins], axis=1
                )
                low, high, share = between(lead, at)
                before, after = (np.take_along_axis(table, k[:, None], 1) for k in (low, high))
                found[:, j] = ((1 - share) * before + share * after)[:, 0]
                found[:, j] *= np.where(np.isinf(lead), 0.0, np.minimum(lead / at[0], 1.0))
        return found


def centred(
    forecasts: np.ndarray, errors: np.ndarray, leads: np.ndarray, series: np.ndarray
) -> tuple[ErrorCentre | None, np.ndarray]:
    """What is usual of errors (M, D), and what is left without it, by other folds of series.

    Only of channels whose errors are smaller then; None of none, or of too few series.
    """
    folds, left = folds_of(series, N_FOLDS), errors.copy()
    if folds.max(initial=0) < N_FOLDS - 1:
        return None, errors
    for fold in range(N_FOLDS):
        out = folds == fold
        centre = ErrorCentre.learn(*(x[~out] for x in (forecasts, errors, leads, series)))
        left[out] -= centre.at(forecasts[out], leads[out])
    known = are_known(leads, errors)
    before, after = (np.where(known, np.abs(x), 0.0).sum(axis=0) for x in (errors, left))
    is_better = after < (1 - _GAIN) * before
    if not is_better.any():
        return None, errors
    usual = ErrorCentre.learn(forecasts, errors, leads, series).usual
    usual = tuple(own if better else () for own, better in zip(usual, is_better, strict=True))
    return ErrorCentre(usual), np.where(is_better, left, errors)
