"""Blends for few series: how much of the learned dynamics to add to structural models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from skpolyode.ensemble.backtest import N_FOLDS, are_known, effective_count, equal_bins, folds_of
from skpolyode.ensemble.stacking import SETTINGS as STACKING
from skpolyode.saving.codec import saved

__all__ = ["Blend", "BlendSettings", "cross_fitted_blend"]


@dataclass(frozen=True)
class BlendSettings:
    """By how much the dynamics have to be better than structural models to have any share."""

    standard_errors: float = 3.0  # that the gain must exceed, of one series
    gain: float = 0.1  # share of the squared error that must be gained


_SETTINGS = BlendSettings()


@saved
@dataclass(frozen=True, eq=False)
class Blend:
    """Share of the learned dynamics in forecasts, by channel and lead; structural models the rest.

    Parameters
    ----------
    leads : float64 ndarray of shape (J,)
        Rising; shares are linear between them and held beyond.
    shares : float64 ndarray of shape (J, D)
        From 0 to 1.
    """

    leads: np.ndarray
    shares: np.ndarray

    @classmethod
    def none(cls, n_channels: int) -> Self:
        """No share anywhere."""
        return cls(np.zeros(1), np.zeros((1, n_channels)))

    @classmethod
    def learn(
        cls,
        leads: np.ndarray,
        dynamics: np.ndarray,
        structural: np.ndarray,
        actual: np.ndarray,
        series: np.ndarray,
        times: np.ndarray,
    ) -> Self:
        """Shares of the least squared error in M forecasts, arrays (M, D), shrunk towards none.

        Where the dynamics are not significantly better, their share is none: these forecasts are
        few, and the dynamics may have fitted noise. Errors count as many times as there are
        forecasts, of some `series` (M,) for some `times` (M,), that do not overlap. As errors of
        one series are alike, three standard errors are asked of one series, one of nine.
        """
        known = are_known(leads, actual) & np.isfinite(structural)
        if not known.any():
            return cls.none(leads.shape[1])
        row, channel = np.nonzero(known)
        bins = equal_bins(leads[known])
        knots, shares = np.empty(len(bins)), np.zeros((len(bins), leads.shape[1]))
        for k, members in enumerate(bins):
            knots[k] = np.median(leads[known][members])
            for j in np.unique(channel[members]):
                own = row[members[channel[members] == j]]
                apart = effective_count(series[own], times[own], knots[k])
                errors = (part[own, j] - actual[own, j] for part in (dynamics, structural))
                shares[k, j] = _share(*errors, apart, len(np.unique(series[own])))
        knots, first = np.unique(knots, return_index=True)
        return cls(knots, shares[first])

    def combine(
        self, leads: np.ndarray, dynamics: np.ndarray, structural: np.ndarray
    ) -> np.ndarray:
        """Forecasts (Q, D) at leads (Q, D); those of the dynamics where there are no others."""
        columns = zip(leads.T, self.shares.T, strict=True)
        shares = np.stack([np.interp(lead, self.leads, own) for lead, own in columns], axis=1)
        blended = np.where(shares == 0, structural, structural + shares * (dynamics - structural))
        return np.where(np.isfinite(structural), blended, dynamics)


def cross_fitted_blend(*columns: np.ndarray) -> np.ndarray:
    """Blended forecasts (M, D), each by shares that were learned from the other folds.

    The `columns` are the arguments of `Blend.learn`.
    """
    *_, actual, series, times = columns
    result, folds = np.empty_like(actual), folds_of(series, N_FOLDS, times)
    for fold in np.unique(folds):
        out = folds == fold
        blend = Blend.learn(*(column[~out] for column in columns))
        result[out] = blend.combine(*(column[out] for column in columns[:3]))
    return result


def _share(dynamics: np.ndarray, structural: np.ndarray, apart: float, n_series: int) -> float:
    """Share of the dynamics from errors (m,) of both, `apart` of which do not overlap."""
    gain = structural**2 - dynamics**2
    if not np.isfinite(gain).all():
        return 0.0
    chance = _SETTINGS.standard_errors * gain.std() / np.sqrt(apart * n_series)
    if gain.mean() <= max(chance, _SETTINGS.gain * np.mean(structural**2)):
        return 0.0
    least = min(np.mean(dynamics**2), np.mean(structural**2))
    difference = structural - dynamics
    share = apart * np.mean(structural * difference)
    share /= apart * np.mean(difference**2) + STACKING.prior * least + 1e-300
    return float(np.clip(share, 0.0, 1.0))
