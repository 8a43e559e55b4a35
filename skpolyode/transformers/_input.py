"""From what a user hands to an estimator to checked, standardised rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from skpolyode.embedders.units import LARGEST
from skpolyode.errors import Faults
from skpolyode.panel import Panel, as_panel, is_ragged
from skpolyode.panel.checks import TOO_LARGE, note_cells
from skpolyode.panel.rows import default_channel_names

__all__ = ["read_panel"]


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
        _check_sizes(panel, np.abs(panel.values) > LARGEST)
        _remember(estimator, panel, shape)
    else:
        _compare(estimator, panel)
        _check_sizes(panel, estimator.embedder_.units.scaler.is_too_far(panel.values))
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
