"""From what a user hands to an estimator to checked, standardised rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from skpolyode.errors import Faults
from skpolyode.panel import Panel, as_panel, is_ragged
from skpolyode.panel.checks import TOO_LARGE, note_cells
from skpolyode.panel.rows import default_channel_names
from skpolyode.panel.select import Observed, observed_rows
from skpolyode.saving.codec import saved

__all__ = ["ChannelScaler", "Observed", "observed_rows", "read_panel"]

_LARGEST = 1e304  # in the user's units: differences of such values are still numbers
_FURTHEST = 1e100  # from the mean, in standard deviations: so are products and slopes


def read_panel(estimator: BaseEstimator, X: Any, *, reset: bool) -> Panel:
    """Convert and check the input of `fit` (reset) or of any later method.

    Two-dimensional input goes through scikit-learn's own validation, so that feature names and
    error messages are the usual ones; then `n_features_in_` counts time points. For every other
    format it counts channels.
    """
    shape = None
    if is_ragged(X):
        panel = as_panel(X)
    elif getattr(X, "ndim", 2) == 3:
        panel, shape = as_panel(X), X.shape
    else:
        array = validate_data(
            estimator, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        panel, shape = Panel.from_array(array), array.shape
    if reset:
        _check_sizes(panel, np.abs(panel.values) > _LARGEST)
        _remember(estimator, panel, shape)
    else:
        _compare(estimator, panel)
        _check_sizes(panel, estimator.scaler_.is_too_far(panel.values))
    return panel


def _check_sizes(panel: Panel, wrong: np.ndarray) -> None:
    """Raise one error for all values that are too large."""
    faults = Faults("X", panel.ids, panel.channel_names)
    note_cells(TOO_LARGE, wrong, "{:g} is too large", panel.rows, faults)
    faults.raise_if_any()


def _remember(estimator: BaseEstimator, panel: Panel, shape: tuple[int, ...] | None) -> None:
    estimator.array_shape_ = None if shape is None else tuple(shape[1:])
    estimator.n_channels_in_ = panel.n_channels
    estimator.channel_names_ = panel.channel_names
    estimator.time_unit_ = panel.time_unit
    if shape is None or len(shape) == 3:
        estimator.n_features_in_ = panel.n_channels
        estimator.__dict__.pop("feature_names_in_", None)  # of an earlier fit on a 2-D frame


def _compare(estimator: BaseEstimator, panel: Panel) -> None:
    name = type(estimator).__name__
    if panel.n_channels != estimator.n_channels_in_:
        raise ValueError(
            f"X has {panel.n_channels} channels ({', '.join(panel.channel_names)}), but {name} was "
            f"fitted on {estimator.n_channels_in_} ({', '.join(estimator.channel_names_)}): X has "
            f"{panel.n_channels} features, but {name} is expecting {estimator.n_channels_in_} "
            "features as input. Give every series the channels of fit, NaN where not observed."
        )
    default = default_channel_names(panel.n_channels)
    if default not in (panel.channel_names, estimator.channel_names_) and (
        panel.channel_names != estimator.channel_names_
    ):
        raise ValueError(
            f"X has the channels {list(panel.channel_names)}, but {name} was fitted on "
            f"{list(estimator.channel_names_)}: give the same channels in the same order."
        )
    if panel.time_unit != estimator.time_unit_:
        raise ValueError(
            f"the times of X are in {_unit(panel.time_unit)}, but {name} was fitted on times in "
            f"{_unit(estimator.time_unit_)}: convert them (Panel's time_unit) before."
        )


def _unit(unit: str | None) -> str:
    return "plain numbers" if unit is None else f"datetimes counted in {unit!r}"


@saved
class ChannelScaler(NamedTuple):
    """Mean and standard deviation of each channel.

    Channels are scaled, never single coefficients: the coefficients are orthonormal, and their
    Euclidean distance is the distance between histories only on their common scale.
    """

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> ChannelScaler:
        """Scaler of values (P, D) with NaN; safe for any finite size of the values."""
        observed = ~np.isnan(values)
        count = np.maximum(observed.sum(axis=0), 1)
        size = np.where(observed, np.abs(values), 0.0).max(axis=0, initial=0.0)
        size = np.where(size > 0, size, 1.0)
        relative = np.where(observed, values / size, 0.0)
        mean = relative.sum(axis=0) / count
        deviation = np.where(observed, relative - mean, 0.0)
        scale = np.sqrt((deviation**2).sum(axis=0) / count)
        # A constant channel has only rounding errors left; they must not be blown up.
        scale = np.where(scale > 1e-13, scale, 1.0)
        return cls(mean * size, np.maximum(scale * size, np.finfo(np.float64).tiny))

    def is_too_far(self, values: np.ndarray) -> np.ndarray:
        """Whether values are too large, in themselves or beside those of `fit`, to compute with."""
        reach = np.minimum(self.scale, 10 * _LARGEST / _FURTHEST) * _FURTHEST
        lowest = np.maximum(self.mean - reach, -_LARGEST)
        return (values < lowest) | (values > np.minimum(self.mean + reach, _LARGEST))

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Values in standard deviations from the mean."""
        return (values - self.mean) / self.scale

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Values in the user's units."""
        return values * self.scale + self.mean
