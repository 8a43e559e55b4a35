"""What forecasts of held-out data teach: how far off a forecast may be.

That depends on the lead, the time since the channel was last observed. All values are in standard
deviations from the mean of their channel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit
from sklearn.isotonic import isotonic_regression

from skpolyode.ensemble.error_scale import ErrorScale, cross_fitted_scales
from skpolyode.ensemble.stacking import effective_count
from skpolyode.saving.codec import saved

__all__ = ["Calibration"]

_PAIRS_A_BIN = 100
_MAX_BINS = 40


@saved
@dataclass(frozen=True)
class _Errors:
    """Errors of the forecasts of one channel with about the same lead: absolute and sorted."""

    lead: float
    errors: np.ndarray
    n_independent: float = np.inf  # of the errors; by default all of them

    def quantile(self, level: float) -> float:
        """Conformal quantile: the ceil((n + 1) level)-th smallest error, or the largest.

        It is widened as Student's interval is if its scale is known from the independent errors
        only, instead of from all of them.
        """
        n = len(self.errors)
        rank = int(np.ceil((n + 1) * level)) - 1
        quantile = float(self.errors[min(max(rank, 0), n - 1)])
        if self.n_independent >= n or level <= 0:
            return quantile
        few, all_of_them = stdtrit([self.n_independent, n], (1 + level) / 2)
        return quantile * float(few / all_of_them)


@saved
@dataclass(frozen=True)
class Calibration:
    """Half widths of prediction intervals, by channel and lead.

    Intervals are split conformal. The errors are those of forecasts of data that did not train the
    model. If each were of a series of its own, they would be exchangeable with the errors to come,
    and an interval at `level` would cover that share of them, whatever their distribution.
    Forecasts of one series that overlap in time share their errors: what counts are those that do
    not, and the fewer there are, the wider is the interval.

    Errors are divided by a scale that is expected of each series, and half widths are multiplied by
    it: locally adaptive conformal prediction (Lei et al., "Distribution-free predictive inference
    for regression", JASA 2018, section 5.2). A series' scale is learned from other series.

    They are held beyond the longest lead that was tried.

    Parameters
    ----------
    errors : tuple of tuple of _Errors
        For each channel, in increasing order of the lead.
    scale : ErrorScale or None, default=None
        Expected scale of the errors of a series; None if it is 1, as with few series.
    is_relative : bool, default=False
        Whether errors are in sizes that the forecasts' own models expect, as with few series.
    """

    errors: tuple[tuple[_Errors, ...], ...]
    scale: ErrorScale | None = None
    is_relative: bool = False

    @classmethod
    def of(
        cls,
        leads: np.ndarray,
        forecasts: np.ndarray,
        actual: np.ndarray,
        series: np.ndarray | None = None,
        times: np.ndarray | None = None,
        spreads: np.ndarray | None = None,
        sizes: np.ndarray | None = None,
    ) -> Calibration:
        """Learn from M forecasts, arrays (M, D); what is NaN in `actual` is ignored.

        They are of some `series` (M,) and for some `times` (M,); None if each is of another one.
        With `spreads` (M, D, 2) of the series half widths adapt to them, and with `sizes` (M, D) of
        the errors, which are expected, they are multiples of these. A channel without any errors
        gets one scale as its only one: the forecast is then worth no more than the mean.
        """
        if series is None or times is None:
            series, times = np.arange(len(leads)), np.zeros(len(leads))
        every, scale = np.abs(actual - forecasts), None
        if sizes is not None:
            every = every / sizes
        if spreads is not None:
            expected = cross_fitted_scales(spreads, every, leads, series)
            if expected is not None:
                scale = ErrorScale.learn(spreads, every, leads, series)
                every = every / expected
        errors = []
        for lead, wrong in zip(leads.T, every.T, strict=True):
            known = np.flatnonzero(np.isfinite(wrong) & np.isfinite(lead) & (lead > 0))
            known = known[np.argsort(lead[known], kind="stable")]
            n_bins = int(np.clip(len(known) // _PAIRS_A_BIN, 1, _MAX_BINS))
            parts = np.array_split(known, n_bins) if len(known) else []
            errors.append(_errors(parts, lead, wrong, series, times))
        return cls(tuple(errors), scale=scale, is_relative=sizes is not None)

    def half_widths(
        self, leads: np.ndarray, level: float, spreads: np.ndarray | None = None
    ) -> np.ndarray:
        """Half widths (Q, D) of the central intervals of probability `level` at leads (Q, D).

        They never fall with the lead: the quantiles of the bins are pooled where they do. They are
        those of a usual series, or of series with `spreads` (Q, D, 2).
        """
        widths = np.empty(leads.shape)
        for j, bins in enumerate(self.errors):
            counts = [float(len(own.errors)) for own in bins]
            quantiles = [own.quantile(level) for own in bins]
            rising = isotonic_regression(quantiles, sample_weight=counts)
            widths[:, j] = np.interp(leads[:, j], [own.lead for own in bins], rising)
        if self.scale is None or spreads is None:
            return widths
        return widths * self.scale.at(spreads)


def _errors(
    parts: list[np.ndarray],
    leads: np.ndarray,
    wrong: np.ndarray,
    series: np.ndarray,
    times: np.ndarray,
) -> tuple[_Errors, ...]:
    found = []
    for p in parts:
        lead = float(np.median(leads[p]))
        n_apart = effective_count(series[p], times[p], lead)
        found.append(_Errors(lead, np.sort(wrong[p]), n_apart))
    return tuple(found) or (_Errors(0.0, np.ones(1)),)
