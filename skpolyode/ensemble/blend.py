"""How far forecasts of few series lean on the learned dynamics, and not on their structure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from skpolyode.ensemble.stacking import effective_count
from skpolyode.saving.codec import saved

__all__ = ["Blend"]

_MAX_KNOTS = 6
_PAIRS_A_KNOT = 50
_PRIOR = 10.0  # forecasts, with the error of the better one, that speak for the structure
_ERRORS = 3.0  # standard errors by which the dynamics have to be better in one series
_GAIN = 0.1  # share of the squared error by which they have to be


@saved
@dataclass(frozen=True, eq=False)
class Blend:
    """Share of the learned dynamics in forecasts, by channel and lead; the rest is the structure's.

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
        run: np.ndarray,
        simple: np.ndarray,
        actual: np.ndarray,
        series: np.ndarray,
        times: np.ndarray,
    ) -> Self:
        """Shares that would have been best in M forecasts, arrays (M, D), shrunk towards none.

        Where the dynamics are not better for sure there is no share: these forecasts are few, and
        the dynamics have been fitted to them a little. Errors count as many times as there are
        forecasts, of some `series` (M,) for some `times` (M,), that do not overlap; those of one
        series are alike all the same, so that three standard errors are asked of one, one of nine.
        """
        known = np.isfinite(leads) & np.isfinite(actual) & np.isfinite(simple) & (leads > 0)
        if not known.any():
            return cls.none(leads.shape[1])
        n_knots = int(np.clip(known.sum() // _PAIRS_A_KNOT, 1, _MAX_KNOTS))
        limits = np.quantile(leads[known], np.linspace(0, 1, n_knots + 1))
        knots, shares = np.empty(n_knots), np.zeros((n_knots, leads.shape[1]))
        for k, (low, high) in enumerate(pairwise(limits)):
            near = known & (leads >= low) & (leads <= high)
            knots[k] = np.median(leads[near])
            for j, own in enumerate(near.T):
                if own.any():
                    apart = effective_count(series[own], times[own], knots[k])
                    errors = (part[own, j] - actual[own, j] for part in (run, simple))
                    n_series = len(np.unique(series[own]))
                    shares[k, j] = _share(*errors, apart, n_series)
        knots, first = np.unique(knots, return_index=True)
        return cls(knots, shares[first])

    def blend(self, leads: np.ndarray, run: np.ndarray, simple: np.ndarray) -> np.ndarray:
        """Forecasts (Q, D) at leads (Q, D); those of the dynamics where there is no structure."""
        columns = zip(leads.T, self.shares.T, strict=True)
        shares = np.stack([np.interp(lead, self.leads, own) for lead, own in columns], axis=1)
        blended = np.where(shares == 0, simple, simple + shares * (run - simple))
        return np.where(np.isfinite(simple), blended, run)


def _share(run: np.ndarray, simple: np.ndarray, apart: float, n_series: int) -> float:
    """Share of the forecasts with errors `run` (m,) beside those with errors `simple` (m,)."""
    gain = simple**2 - run**2
    if not np.isfinite(gain).all():
        return 0.0
    chance = _ERRORS * gain.std() / np.sqrt(apart * n_series)
    if gain.mean() <= max(chance, _GAIN * np.mean(simple**2)):
        return 0.0
    least, difference = min(np.mean(run**2), np.mean(simple**2)), simple - run
    share = apart * np.mean(simple * difference)
    share /= apart * np.mean(difference**2) + _PRIOR * least + 1e-300
    return float(np.clip(share, 0.0, 1.0))
