"""Units that a model computes in."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from skpolyode.panel.outliers import CellLimits
from skpolyode.panel.panel import Panel
from skpolyode.saving.codec import saved

LARGEST = 1e304  # in the user's units: differences of such values are still finite
_N_WEIGHINGS = 4  # of cells by their errors and the spread of the channel, which converge
_FURTHEST = 1e100  # standard deviations from the mean: products and slopes are still finite


@saved(mean="D", scale="D positive", observed="D", limits="D")
class ChannelScaler(NamedTuple):
    """Mean and standard deviation of each channel.

    Channels are scaled, never single coefficients: the coefficients are orthonormal, and their
    Euclidean distance is the distance between histories only on their common scale.

    Parameters
    ----------
    mean : float64 ndarray of shape (D,)
        In the user's units.
    scale : float64 ndarray of shape (D,)
        Standard deviations; one of a channel that is constant.
    observed : bool ndarray of shape (D,) or None, default=None
        Which channels training saw at all; None if it saw all of them. The others have the mean
        0 and the scale 1, and their later values are not read.
    limits : CellLimits or None, default=None
        What cells may be; the model ignores others.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.panel.units import ChannelScaler
    >>> scaler = ChannelScaler.of(np.array([[1.0], [np.nan], [3.0]]))
    >>> scaler.transform(np.array([[4.0]])).tolist()
    [[2.0]]
    """

    mean: np.ndarray
    scale: np.ndarray
    observed: np.ndarray | None = None
    limits: CellLimits | None = None

    @classmethod
    def of(
        cls,
        values: np.ndarray,
        *,
        errors: np.ndarray | None = None,
        limits: CellLimits | None = None,
    ) -> ChannelScaler:
        """Scaler of values (P, D) with NaN; safe for any finite size of the values.

        With `errors` (P, D), NaN where not known, cells count by what they tell.
        """
        observed = ~np.isnan(values)
        size = np.where(observed, np.abs(values), 0.0).max(axis=0, initial=0.0)
        size = np.where(size > 0, size, 1.0)
        relative = np.where(observed, values / size, 0.0)
        mean, scale = _moments(relative, observed)
        if errors is not None:
            noise = np.nan_to_num(np.minimum(errors / size, _FURTHEST)) ** 2
            weights = observed.astype(np.float64)
            for _ in range(_N_WEIGHINGS):
                usual = (weights * noise).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-300)
                signal = np.maximum(scale**2 - usual, 1e-3 * scale**2)
                weights = observed / np.maximum(signal + noise, np.finfo(np.float64).tiny)
                weights = weights / np.maximum(weights.max(axis=0), 1e-300)
                mean, scale = _moments(relative, weights)
        # A constant channel has only rounding errors left; they must not be blown up.
        scale = np.where(scale > 1e-13, scale, 1.0)
        scale = np.maximum(scale * size, np.finfo(np.float64).tiny)
        known = observed.any(axis=0)
        return cls(mean * size, scale, None if known.all() else known, limits)

    @property
    def of_differences(self) -> ChannelScaler:
        """Scaler of differences and deviations, which have no mean to be taken off."""
        return self._replace(mean=np.zeros_like(self.mean))

    def is_too_far(self, values: np.ndarray) -> np.ndarray:
        """Whether values are too large to compute with, absolutely or beside those of `fit`."""
        reach = np.minimum(self.scale, 10 * LARGEST / _FURTHEST) * _FURTHEST
        lowest = np.maximum(self.mean - reach, -LARGEST)
        return (values < lowest) | (values > np.minimum(self.mean + reach, LARGEST))

    def known(self, values: np.ndarray) -> np.ndarray:
        """Values (P, D) with NaN in channels that training never saw."""
        return values if self.observed is None else np.where(self.observed, values, np.nan)

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Values in standard deviations from the mean."""
        return (values - self.mean) / self.scale

    def read(self, values: np.ndarray) -> np.ndarray:
        """Values as models see them: standardised, with NaN in channels that training never saw."""
        return self.transform(self.known(values))

    def at_mean(self, values: np.ndarray) -> np.ndarray:
        """Standardised values (..., D), at the mean in channels that training never saw."""
        return values if self.observed is None else values * self.observed

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Values in the user's units."""
        return values * self.scale + self.mean

    def inverse_std(self, std: np.ndarray) -> np.ndarray:
        """Standard deviations (..., D) in the user's units; one in channels never seen."""
        std = std * self.scale
        return std if self.observed is None else np.where(self.observed, std, self.scale)


def _moments(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and standard deviation (D,) of columns (P, D)."""
    total = weights.sum(axis=0)
    total = np.where(total > 0, total, 1.0)
    mean = (x * weights).sum(axis=0) / total
    return mean, np.sqrt(((x - mean) ** 2 * weights).sum(axis=0) / total)


class Standardised(NamedTuple):
    """Rows of series in the units of a model.

    Parameters
    ----------
    times : float64 ndarray of shape (P,)
        Since the first row of the series.
    values : float64 ndarray of shape (P, D)
        In standard deviations from the mean, NaN where not observed.
    offsets : int64 ndarray of shape (B + 1,)
        Where the rows of each series start.
    driven : float64 ndarray of shape (P, F)
        Responses to inputs at the rows; F = 0 if there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.panel.units import Standardised
    >>> times, values = np.array([0.0, 1.0]), np.array([[-1.0], [np.nan]])
    >>> rows = Standardised(times, values, np.array([0, 2]), np.empty((2, 0)))
    >>> int(np.isnan(rows.values).sum())
    1
    """

    times: np.ndarray
    values: np.ndarray
    offsets: np.ndarray
    driven: np.ndarray


@saved(scaler="D", time_scale="positive")
class Units(NamedTuple):
    """Between the user's units and those of a model.

    Parameters
    ----------
    scaler : ChannelScaler
        Values are in standard deviations of their channels.
    time_scale : float
        The model's unit of time, in the units of `times`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.panel.units import ChannelScaler, Units
    >>> Units(ChannelScaler(np.zeros(1), np.ones(1)), time_scale=60.0).time_scale
    60.0
    """

    scaler: ChannelScaler
    time_scale: float

    @classmethod
    def of(cls, panel: Panel, time_scale: float, limits: CellLimits | None = None) -> Self:
        """Units of the series of training; see `ChannelScaler.of`."""
        return cls(ChannelScaler.of(panel.values, errors=panel.errors, limits=limits), time_scale)
