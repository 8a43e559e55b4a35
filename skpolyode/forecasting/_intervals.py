"""Prediction intervals from held-out forecast errors: split conformal, by lead time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.isotonic import isotonic_regression

__all__ = ["Intervals"]

_ERRORS_A_BIN = 100
_MAX_BINS = 40


@dataclass(frozen=True)
class _Bin:
    """Errors of forecasts with about the same lead."""

    lead: float
    errors: np.ndarray  # absolute, sorted

    def quantile(self, level: float) -> float:
        """Conformal quantile: the ceil((n + 1) level)-th smallest error, or the largest."""
        rank = int(np.ceil((len(self.errors) + 1) * level)) - 1
        return float(self.errors[min(max(rank, 0), len(self.errors) - 1)])


@dataclass(frozen=True)
class Intervals:
    """Half widths of prediction intervals, by channel and lead.

    The lead of a forecast is the time since its channel was last observed. Errors are those of
    forecasts of data that did not train the model, and are exchangeable with the errors to come,
    so that an interval at `level` covers that share of them, whatever their distribution. They
    are divided by a scale for each forecast before they come here (now: that of the channel);
    a learned uncertainty would be that scale.

    Parameters
    ----------
    bins : tuple of tuple of _Bin
        For each channel, in increasing order of the lead.
    """

    bins: tuple[tuple[_Bin, ...], ...]

    @classmethod
    def of(cls, leads: np.ndarray, errors: np.ndarray) -> Intervals:
        """Intervals from errors (M, D) of forecasts with `leads` (M, D); NaN errors are ignored.

        A channel without errors gets one scale as its only error: the forecast is then worth
        no more than the mean.
        """
        return cls(tuple(_bins(*pair) for pair in zip(leads.T, np.abs(errors).T, strict=True)))

    def half_widths(self, leads: np.ndarray, level: float) -> np.ndarray:
        """Half widths (Q, D) of the central intervals of probability `level` at leads (Q, D).

        They never fall with the lead (the quantiles of the bins are pooled where they do), and
        are held beyond the longest lead that was tried.
        """
        widths = np.empty(leads.shape)
        for j, bins in enumerate(self.bins):
            counts = [float(len(own.errors)) for own in bins]
            quantiles = isotonic_regression(
                [own.quantile(level) for own in bins], sample_weight=counts
            )
            widths[:, j] = np.interp(leads[:, j], [own.lead for own in bins], quantiles)
        return widths


def _bins(leads: np.ndarray, errors: np.ndarray) -> tuple[_Bin, ...]:
    known = np.isfinite(errors) & np.isfinite(leads)
    if not known.any():
        return (_Bin(0.0, np.ones(1)),)
    order = np.argsort(leads[known], kind="stable")
    leads, errors = leads[known][order], errors[known][order]
    n_bins = int(np.clip(len(errors) // _ERRORS_A_BIN, 1, _MAX_BINS))
    parts = np.array_split(np.arange(len(errors)), n_bins)
    return tuple(_Bin(float(np.median(leads[part])), np.sort(errors[part])) for part in parts)
