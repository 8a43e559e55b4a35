"""The series and the channels of an input that a display shows."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.errors import plain_repr
from skpolyode.panel import Panel, as_panel, query_times
from skpolyode.plotting._axes import as_columns

__all__ = ["Columns", "channel_positions", "columns_of", "one_series", "read_truth", "require"]

Columns = tuple[np.ndarray | pd.DatetimeIndex, np.ndarray]
"""Times (L,) in the user's type and values (L, D)."""


def require(estimator: Any, method: str, display: str) -> None:
    """Raise a TypeError if an estimator cannot do what a display shows."""
    if not hasattr(estimator, method):
        raise TypeError(
            f"{display} needs an estimator with a method {method}, which "
            f"{type(estimator).__name__} does not have; of a pipeline or a search pass the fitted "
            "step itself."
        )


def one_series(X: Any, series: int) -> Panel:
    """Panel of the one series at a position of the input.

    Raises
    ------
    ValueError
        If there is no such position.
    """
    panel = as_panel(X)
    known = isinstance(series, Integral) and not isinstance(series, bool)
    if not known or not -panel.n_series <= series < panel.n_series:
        raise ValueError(
            f"series must be a position from 0 to {panel.n_series - 1} in X, got "
            f"{plain_repr(series)}; to choose by id pass panel.select_ids([id])."
        )
    return panel[[int(series)]]


def channel_positions(channel: Any, names: Sequence[str]) -> list[int]:
    """Positions of the chosen channels; None chooses all.

    Raises
    ------
    ValueError
        If a channel is not known.
    """
    if channel is None:
        return list(range(len(names)))
    chosen = [channel] if isinstance(channel, str | Integral) else list(channel)
    positions = []
    for item in chosen:
        if item in names:
            positions.append(list(names).index(item))
        elif isinstance(item, Integral) and 0 <= item < len(names):
            positions.append(int(item))
        else:
            raise ValueError(
                f"channel {plain_repr(item)} is not in X; give one or some of {list(names)}, or "
                f"positions from 0 to {len(names) - 1}."
            )
    return positions


def columns_of(panel: Panel, channels: Sequence[int]) -> Columns:
    """Times in the user's type and values of some channels of a panel of one series."""
    return panel.user_times(), panel.values[:, list(channels)]


def read_truth(panel: Panel, truth: Any) -> Panel | None:
    """Known values of the series besides its observations, as a panel like its own.

    Raises
    ------
    ValueError
        If it is not a pair of times (T,) and values (T, D) with the channels of the panel.
    """
    if truth is None:
        return None
    if not isinstance(truth, tuple) or len(truth) != 2:
        raise ValueError(f"truth must be a pair (times, values), got {type(truth).__name__}.")
    flat, offsets = query_times(panel, truth[0])
    values = as_columns(truth[1])
    if values.shape != (len(flat), panel.n_channels):
        raise ValueError(
            f"truth must have values of shape {(len(flat), panel.n_channels)}, one row a time and "
            f"one column a channel of X ({', '.join(panel.channel_names)}), got {values.shape}."
        )
    return panel.like(flat, values, offsets)
