"""Bounds of forecasts, from the training series and the past of the series itself."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from skpolyode.ensemble.backtest import BacktestSettings, are_known
from skpolyode.ensemble.records import Records
from skpolyode.panel.units import Standardised
from skpolyode.saving.codec import saved


@dataclass(frozen=True)
class BoundsSettings:
    """How far a forecast may leave the observed range, and where members keep their weights.

    The one most extreme series says little about others in its range. With `shared` of 3 in place
    of 1, squared errors of the rest of the series and of next rows are 0.70 and 0.82 times as large
    on epil, 0.99 and 1.00 on Produc and Cigar, 1.00 and 1.00 on pbcseq (three of five folds), and
    unchanged on noisy and exact waves, 20 and 50 series. If weights moved regardless of how much
    the free run has, they would be 0.67 and 0.81 times as large on epil, 1.00 and 1.04 on pbcseq,
    0.95 and 1.01 on Produc, and 1.01 to 1.14 times on waves.
    """

    share: float = 0.99  # quantile of the changes in training
    room: float = 1.5  # multiple of that quantile, as future changes may be larger
    shared: int = 3  # series that reach the ends of the common range
    more_series: int = 10  # with fewer, one series is enough; with fewer than twice as many, two


_SETTINGS = BoundsSettings()


@saved(
    lowest="D inf",
    highest="D inf",
    common_lowest="D inf",
    common_highest="D inf",
    leads="J rising",
    reach="D J unsigned inf",
)
@dataclass(frozen=True, eq=False)
class Bounds:
    """The range of forecasts, in standard deviations from the mean of a channel.

    A forecast stays within the union of three ranges: that of training, that of its series so far,
    and the last value plus or minus the largest change over such a lead in training. A steady trend
    from the first observation to the last, not a jump, may go on for as long as it did, at up to
    1.5 times its rate.

    Parameters
    ----------
    lowest, highest : float64 ndarray of shape (D,)
        Range of each channel in training.
    common_lowest, common_highest : float64 ndarray of shape (D,)
        The part of that range that several series reach.
    leads : float64 ndarray of shape (J,)
        Rising from 0.
    reach : float64 ndarray of shape (D, J)
        Largest change over these leads; linear between them and constant beyond.
    """

    lowest: np.ndarray
    highest: np.ndarray
    common_lowest: np.ndarray
    common_highest: np.ndarray
    leads: np.ndarray
    reach: np.ndarray

    @classmethod
    def learn(cls, rows: Standardised, leads: np.ndarray, changes: np.ndarray) -> Self:
        """Learn from series, and `changes` (M, D) over `leads` (M, D); NaN is ignored."""
        known = are_known(leads, changes)
        knots = np.zeros(1)
        if known.any():
            ends = np.geomspace(*np.quantile(leads[known], [0.0, 1.0]), BacktestSettings.max_knots)
            knots = np.concatenate([knots, np.unique(ends)])
        reach = np.zeros((rows.values.shape[1], len(knots)))
        for j, rows_known in enumerate(known.T):
            lead, size = leads[rows_known, j], np.abs(changes[rows_known, j])
            for k, (start, end) in enumerate(pairwise(knots), 1):
                in_bin = size[(lead > start) & (lead <= end)]
                if len(in_bin):
                    reach[j, k] = _SETTINGS.room * np.quantile(in_bin, _SETTINGS.share)
        rising = np.maximum.accumulate(reach, axis=1)
        (lowest, common_lowest), (highest, common_highest) = -_highest(rows, -1.0), _highest(rows)
        return cls(lowest, highest, common_lowest, common_highest, knots, rising)

    def clip(self, forecasts: np.ndarray, records: Records, leads: np.ndarray) -> np.ndarray:
        """Clip forecasts (n, D, ...) to the bounds, from records (n, D), at `leads` (n, D)."""
        columns = zip(leads.T, self.reach, strict=True)
        reach = np.stack([np.interp(lead, self.leads, most) for lead, most in columns], axis=1)
        seen, last = records.n_values > 0, records.last
        rise = _SETTINGS.room * _steady_rise(records, leads)
        lowest = np.minimum(np.minimum(records.lowest, last - reach), self.lowest)
        highest = np.maximum(np.maximum(records.highest, last + reach), self.highest)
        lowest, highest = np.minimum(lowest, last + rise), np.maximum(highest, last + rise)
        lowest = np.where(seen, lowest, self.lowest)
        highest = np.where(seen, highest, self.highest)
        shape = (*lowest.shape, *[1] * (forecasts.ndim - 2))
        return np.clip(forecasts, lowest.reshape(shape), highest.reshape(shape))

    def outside(self, records: Records) -> tuple[np.ndarray, np.ndarray]:
        """Distances (n, D) of last values beyond the training range and the common range."""
        last, seen = records.last, records.n_values > 0
        ranges = (self.lowest, self.highest), (self.common_lowest, self.common_highest)
        far, rare = (np.maximum(np.maximum(low - last, last - high), 0.0) for low, high in ranges)
        return np.where(seen, far, 0.0), np.where(seen, rare, 0.0)


def _highest(rows: Standardised, sign: float = 1.0) -> np.ndarray:
    """Largest values, and the largest that several series reach, (2, D); 0 without any.

    "Several" is a smaller number with few series. A `sign` of -1 negates the values.
    """
    starts = rows.offsets[:-1][np.diff(rows.offsets) > 0]
    if not len(starts):
        return np.zeros((2, rows.values.shape[1]))
    top = np.fmax.reduceat(sign * rows.values, starts, axis=0)
    top = np.sort(np.where(np.isnan(top), -np.inf, top), axis=0)[::-1]
    n_series = np.isfinite(top).sum(axis=0)
    place = np.minimum(n_series // _SETTINGS.more_series, _SETTINGS.shared - 1)
    found = np.take_along_axis(top, np.stack([np.zeros_like(place), place]), axis=0)
    return np.where(n_series > 0, found, 0.0)


def _steady_rise(records: Records, leads: np.ndarray) -> np.ndarray:
    """Steady change so far (n, D), extrapolated over `leads` for at most as long as it lasted.

    The mean of a line is half way between its ends; that of a jump is as far away as it can be.
    """
    n, first, last = records.n_values, records.first_value, records.last
    rise, bend = last - first, np.abs(2 * records.mean - first - last)
    steady = np.maximum(np.abs(rise) - bend * n / np.maximum(n - 2, 1), 0.0)
    share = np.zeros_like(leads)
    np.divide(leads, -records.time_since(records.first_time), out=share, where=n > 2)
    return np.minimum(share, 1.0) * np.sign(rise) * steady
