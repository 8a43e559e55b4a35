"""Units of models, and conversion from and to those of users."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from skpolyode.panel.outliers import CellLimits
from skpolyode.panel.panel import Panel
from skpolyode.saving.codec import saved

LARGEST = 1e304  # in the user's units: differences of such values are still finite
_N_WEIGHINGS = 4  # iterations of weights of cells, from their errors and the channel's spread
_FURTHEST = 1e100  # standard deviations from the mean: products and slopes are still finite


@saved(mean="D", scale="D positive", observed="D", limits="D")
class ChannelScaler(NamedTuple):
    """Mean and standard deviation of each channel.

    Channels are scaled, not single coefficients: these are orthonormal, so that their Euclidean
    distance is the distance between histories, as long as they have a common scale.

    Parameters
    ----------
    mean : float64 ndarray of shape (D,)
        In the user's units.
    scale : float64 ndarray of shape (D,)
        Standard deviations; 1 for constant channels.
    observed : bool ndarray of shape (D,) or None, default=None
        Mask of the channels observed in training; None if all were. The others have the mean 0 and
        the scale 1, and their later values are ignored.
    limits : CellLimits or None, default=None
        Limits of cells; the model ignores cells beyond them.

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

        With `errors` (P, D), NaN where not known, cells are weighted by their inverse variances.
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
                mean_noise = (weights * noise).sum(axis=0) / np.maximum(weights.sum(axis=0), 1e-300)
                signal = np.maximum(scale**2 - mean_noise, 1e-3 * scale**2)
                weights = observed / np.maximum(signal + noise, np.finfo(np.float64).tiny)
                weights = weights / np.maximum(weights.max(axis=0), 1e-300)
                mean, scale = _moments(relative, weights)
        # The variation of a constant channel is rounding; do not amplify it.
        scale = np.where(scale > 1e-13, scale, 1.0)
        scale = np.maximum(scale * size, np.finfo(np.float64).tiny)
        known = observed.any(axis=0)
        return cls(mean * size, scale, None if known.all() else known, limits)

    @property
    def of_differences(self) -> ChannelScaler:
        """Scaler of differences and deviations: the same scale with mean 0."""
        return self._replace(mean=np.zeros_like(self.mean))

    def is_too_far(self, values: np.ndarray) -> np.ndarray:
        """Mask of values too large to compute with, absolutely or relative to those of `fit`."""
        reach = np.minimum(self.scale, 10 * LARGEST / _FURTHEST) * _FURTHEST
        lowest = np.maximum(self.mean - reach, -LARGEST)
        return (values < lowest) | (values > np.minimum(self.mean + reach, LARGEST))

    def known(self, values: np.ndarray) -> np.ndarray:
        """Values (P, D), NaN in channels never observed in training."""
        return values if self.observed is None else np.where(self.observed, values, np.nan)

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Values in standard deviations from the mean."""
        return (values - self.mean) / self.scale

    def read(self, values: np.ndarray) -> np.ndarray:
        """Standardised values for models, NaN in channels never observed in training."""
        return self.transform(self.known(values))

    def at_mean(self, values: np.ndarray) -> np.ndarray:
        """Standardised values (..., D), 0 in channels never observed in training."""
        return values if self.observed is None else values * self.observed

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Values in the user's units."""
        return values * self.scale + self.mean

    def inverse_std(self, std: np.ndarray) -> np.ndarray:
        """Standard deviations (..., D) in the user's units; 1 in channels never observed."""
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
        Times since the first row of the series.
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
    """Conversion between the user's units and those of a model.

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
        """Units from training series; see `ChannelScaler.of`."""
        return cls(ChannelScaler.of(panel.values, errors=panel.errors, limits=limits), time_scale)
