"""What forecasts of held-out data teach: how far to trust a forecast, and how far off it may be.

Both depend on the lead, the time since the channel was last observed. All values are in standard
deviations from the mean of their channel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit
from sklearn.isotonic import isotonic_regression

from skpolyode.saving.codec import saved

__all__ = ["Calibration"]

_PAIRS_A_BIN = 100
_MAX_BINS = 40
_PRIOR = 5.0  # observations of unit variance that speak for undamped forecasts


@saved
@dataclass(frozen=True)
class _Damping:
    """Factors of the forecasts of one channel at some leads; linear between them."""

    leads: np.ndarray
    factors: np.ndarray


@saved
@dataclass(frozen=True)
class _Errors:
    """Errors of the forecasts of one channel with about the same lead: absolute and sorted."""

    lead: float
    errors: np.ndarray
    n_independent: float = np.inf  # of the errors; as in older files, all of them

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
    """Damping of forecasts and half widths of prediction intervals, by channel and lead.

    **Damping.** The forecast with the least squared error tends to the mean as the lead grows and
    nothing can be known any more; a free run of the dynamics does not. A factor between 0 and 1,
    which never rises with the lead, takes it there.

    **Intervals** are split conformal. The errors are those of (damped) forecasts of data that did
    not train the model. If each were of a series of its own, they would be exchangeable with the
    errors to come, and an interval at `level` would cover that share of them, whatever their
    distribution. Forecasts of one series that overlap in time share their errors: what counts are
    those that do not, and the fewer there are, the wider is the interval. Errors are measured on
    the scale of the channel; a learned uncertainty would be a scale for each forecast in its
    place.

    Both are held beyond the longest lead that was tried.

    Parameters
    ----------
    damping : tuple of _Damping
        For each channel.
    errors : tuple of tuple of _Errors
        For each channel, in increasing order of the lead.
    """

    damping: tuple[_Damping, ...]
    errors: tuple[tuple[_Errors, ...], ...]

    @classmethod
    def of(
        cls,
        leads: np.ndarray,
        forecasts: np.ndarray,
        actual: np.ndarray,
        series: np.ndarray | None = None,
        times: np.ndarray | None = None,
    ) -> Calibration:
        """Learn from M forecasts, arrays (M, D); what is NaN in `actual` is ignored.

        They are of some `series` (M,) and for some `times` (M,); None if each is of another one.
        A channel without any gets one scale as its only error: the forecast is then worth no more
        than the mean.
        """
        if series is None or times is None:
            series, times = np.arange(len(leads)), np.zeros(len(leads))
        bins = []  # of each channel: positions of what is known, about equally many by lead
        for lead, values in zip(leads.T, actual.T, strict=True):
            known = np.flatnonzero(np.isfinite(values) & np.isfinite(lead))
            known = known[np.argsort(lead[known], kind="stable")]
            n_bins = int(np.clip(len(known) // _PAIRS_A_BIN, 1, _MAX_BINS))
            bins.append(np.array_split(known, n_bins) if len(known) else [])
        damping = tuple(
            _damping(parts, *columns)
            for parts, *columns in zip(bins, leads.T, forecasts.T, actual.T, strict=True)
        )
        wrong = np.abs(actual - cls(damping, ()).damped(leads, forecasts))
        errors = tuple(
            _errors(parts, *columns, series, times)
            for parts, *columns in zip(bins, leads.T, wrong.T, strict=True)
        )
        return cls(damping, errors)

    def damped(self, leads: np.ndarray, forecasts: np.ndarray) -> np.ndarray:
        """Forecasts (Q, D) with leads (Q, D), taken towards the mean."""
        columns = zip(leads.T, self.damping, strict=True)
        factors = [np.interp(lead, own.leads, own.factors) for lead, own in columns]
        return np.stack(factors, axis=1) * forecasts

    def half_widths(self, leads: np.ndarray, level: float) -> np.ndarray:
        """Half widths (Q, D) of the central intervals of probability `level` at leads (Q, D).

        They never fall with the lead: the quantiles of the bins are pooled where they do.
        """
        widths = np.empty(leads.shape)
        for j, bins in enumerate(self.errors):
            counts = [float(len(own.errors)) for own in bins]
            quantiles = [own.quantile(level) for own in bins]
            rising = isotonic_regression(quantiles, sample_weight=counts)
            widths[:, j] = np.interp(leads[:, j], [own.lead for own in bins], rising)
        return widths


def _damping(
    parts: list[np.ndarray], leads: np.ndarray, forecast: np.ndarray, actual: np.ndarray
) -> _Damping:
    # Least squares in each bin, with few observations speaking for the forecast as it is.
    power = np.array([forecast[p] @ forecast[p] + _PRIOR for p in parts])
    product = np.array([forecast[p] @ actual[p] + _PRIOR for p in parts])
    factors = np.clip(product / power, 0.0, 1.0)
    if len(parts):
        factors = isotonic_regression(factors, sample_weight=power, increasing=False)
    # Without a lead the forecast is the observation.
    return _Damping(np.array([0.0, *_leads(parts, leads)]), np.array([1.0, *factors]))


def _errors(
    parts: list[np.ndarray],
    leads: np.ndarray,
    wrong: np.ndarray,
    series: np.ndarray,
    times: np.ndarray,
) -> tuple[_Errors, ...]:
    found = []
    for lead, p in zip(_leads(parts, leads), parts, strict=True):
        # How many forecasts with this lead, of these series for these times, do not overlap.
        order = np.argsort(series[p], kind="stable")
        own, when = series[p][order], times[p][order]
        first = np.flatnonzero(np.diff(own, prepend=-1))
        latest, earliest = (f.reduceat(when, first) for f in (np.maximum, np.minimum))
        counts = np.diff(np.append(first, len(p)))
        n_apart = np.minimum(counts, 1 + np.floor((latest - earliest) / lead)).sum()
        found.append(_Errors(lead, np.sort(wrong[p]), float(n_apart)))
    return tuple(found) or (_Errors(0.0, np.ones(1)),)


def _leads(parts: list[np.ndarray], leads: np.ndarray) -> list[float]:
    return [float(np.median(leads[p])) for p in parts]
