"""Bounds of forecasts: what training and the own past of a series justify."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from skpolyode.ensemble.backtest import BacktestSettings, are_known
from skpolyode.ensemble.records import Records
from skpolyode.saving.codec import saved


@dataclass(frozen=True)
class BoundsSettings:
    """How far a forecast may go from what was seen."""

    share: float = 0.99  # of the changes in training that are within reach
    room: float = 1.5  # multiples of their largest; changes to come may be larger


_SETTINGS = BoundsSettings()


@saved
@dataclass(frozen=True, eq=False)
class Bounds:
    """The range that forecasts stay in, in standard deviations from the mean of a channel.

    A forecast stays within the range of training or the own range of its series, whichever is
    wider, or else as close to the last value as changes over such a lead in training. What rose
    steadily from the first observation to the last, not in a jump, may go on for as long as it did.

    Parameters
    ----------
    lowest, highest : float64 ndarray of shape (D,)
        Range of each channel in training.
    leads : float64 ndarray of shape (J,)
        Rising from 0.
    reach : float64 ndarray of shape (D, J)
        Largest change over these leads; linear between them and held beyond.
    """

    lowest: np.ndarray
    highest: np.ndarray
    leads: np.ndarray
    reach: np.ndarray

    @classmethod
    def learn(cls, values: np.ndarray, leads: np.ndarray, changes: np.ndarray) -> Self:
        """Learn from values (P, D), and `changes` (M, D) over `leads` (M, D); NaN is ignored."""
        lowest = np.fmin.reduce(values, axis=0, initial=np.inf)
        highest = np.fmax.reduce(values, axis=0, initial=-np.inf)
        seen = lowest <= highest
        known = are_known(leads, changes)
        knots = np.zeros(1)
        if known.any():
            ends = np.geomspace(*np.quantile(leads[known], [0.0, 1.0]), BacktestSettings.max_knots)
            knots = np.concatenate([knots, np.unique(ends)])
        reach = np.zeros((values.shape[1], len(knots)))
        for j, own in enumerate(known.T):
            lead, size = leads[own, j], np.abs(changes[own, j])
            for k, (start, end) in enumerate(pairwise(knots), 1):
                some = size[(lead > start) & (lead <= end)]
                if len(some):
                    reach[j, k] = _SETTINGS.room * np.quantile(some, _SETTINGS.share)
        rising = np.maximum.accumulate(reach, axis=1)
        return cls(np.where(seen, lowest, 0.0), np.where(seen, highest, 0.0), knots, rising)

    def clip(self, forecasts: np.ndarray, records: Records, leads: np.ndarray) -> np.ndarray:
        """Forecasts (n, D, ...) within bounds, from records (n, D), at `leads` (n, D)."""
        columns = zip(leads.T, self.reach, strict=True)
        reach = np.stack([np.interp(lead, self.leads, own) for lead, own in columns], axis=1)
        seen, last = records.n_values > 0, records.last
        rise = _SETTINGS.room * _steady_rise(records, leads)
        lowest = np.minimum(np.minimum(records.lowest, last - reach), self.lowest)
        highest = np.maximum(np.maximum(records.highest, last + reach), self.highest)
        lowest, highest = np.minimum(lowest, last + rise), np.maximum(highest, last + rise)
        lowest = np.where(seen, lowest, self.lowest)
        highest = np.where(seen, highest, self.highest)
        shape = (*lowest.shape, *[1] * (forecasts.ndim - 2))
        return np.clip(forecasts, lowest.reshape(shape), highest.reshape(shape))

    def outside(self, records: Records) -> np.ndarray:
        """By how much last values (n, D) lie outside the range of training; 0 inside."""
        last = records.last
        return np.maximum(np.maximum(self.lowest - last, last - self.highest), 0.0)


def _steady_rise(records: Records, leads: np.ndarray) -> np.ndarray:
    """By how much steady changes so far (n, D) would go on over `leads`, for as long as they did.

    The mean of a line is half way between its ends; that of a jump is as far from there as can be.
    """
    n, first, last = records.n_values, records.first_value, records.last
    rise, bend = last - first, np.abs(2 * records.mean - first - last)
    steady = np.maximum(np.abs(rise) - bend * n / np.maximum(n - 2, 1), 0.0)
    share = np.zeros_like(leads)
    np.divide(leads, -records.time_since(records.first_time), out=share, where=n > 2)
    return np.minimum(share, 1.0) * np.sign(rise) * steady
