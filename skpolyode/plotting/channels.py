"""Selection of the series and channels of a display, and drawing on the axes of each channel."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.errors import plain_repr
from skpolyode.futures.samples import channel_at
from skpolyode.panel import Panel, as_panel, query_times
from skpolyode.panel.rows import default_channel_names
from skpolyode.panel.selection import align_to_fit
from skpolyode.panel.views import labelled_axes

# Times (L,) in the user's type and values (L, D).
Columns = tuple[np.ndarray | pd.DatetimeIndex, np.ndarray]

# Distinct without colours: broad and pale, thin and dark, and points. The truth is broad enough to
# be visible behind a line that follows it.
_POINTS = {"color": "black", "marker": "o", "markersize": 4, "linestyle": "none", "zorder": 4}
PATHS = {"color": "C0", "linewidth": 0.5, "alpha": 0.3, "zorder": 2}
STYLES = {
    "truth": {"color": "0.8", "linewidth": 4.0, "zorder": 1, "label": "truth"},
    "line": {"color": "C0", "linewidth": 1.5, "zorder": 3},
    "observed": _POINTS | {"label": "observed"},
    "future": _POINTS | {"markerfacecolor": "white", "label": "to come"},
}


def require_method(estimator: Any, method: str, what: str) -> None:
    """Raise a TypeError if an estimator lacks the method that `what` needs."""
    if not hasattr(estimator, method):
        raise TypeError(
            f"{what} needs an estimator with a method {method}, which "
            f"{type(estimator).__name__} does not have; of a pipeline or a search pass the fitted "
            "step itself."
        )


def one_series(X: Any, series: int) -> Panel:
    """Panel of the series at a position of the input.

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


def channel_positions(channel: Any, panel: Panel) -> list[int]:
    """Positions of the chosen channels; None chooses all.

    Raises
    ------
    ValueError
        If a channel is not known, or none is chosen.
    """
    if channel is None:
        return list(range(panel.n_channels))
    items = [channel] if isinstance(channel, str | Integral) else channel
    if not (positions := [channel_at(panel, item) for item in items]):
        names = list(panel.channel_names)
        raise ValueError(f"channel chooses none: pass one or several of {names}, or None for all.")
    return positions


def select_series(X: Any, series: int, channel: Any) -> tuple[Panel, list[int], list[str]]:
    """Panel of one series, and the positions and names of its chosen channels."""
    panel = one_series(X, series)
    chosen = channel_positions(channel, panel)
    return panel, chosen, [panel.channel_names[j] for j in chosen]


def positions_in_answers(estimator: Any, panel: Panel, channels: Sequence[int]) -> list[int]:
    """Positions of channels of a panel in the results of an estimator, in the order of fit."""
    order = list(align_to_fit(panel, estimator).channel_names)
    return [order.index(panel.channel_names[j]) for j in channels]


def columns_of(panel: Panel, channels: Sequence[int]) -> Columns:
    """Times in the user's type and values of the chosen channels of a panel of one series."""
    return panel.user_times(), panel.values[:, list(channels)]


def read_truth(panel: Panel, truth: Any, channels: Sequence[int]) -> Columns | None:
    """Columns of the true course of a series, in the channels that are shown.

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
    return columns_of(panel.like(flat, values, offsets), channels)


def quantile_intervals(
    estimator: Any, past: Panel, leads: Any, levels: Collection[float], channels: Sequence[int]
) -> dict[float, tuple[np.ndarray, np.ndarray]]:
    """Ends (Q, D) of the forecast interval of each level, `leads` after the last observation."""
    ends = {level: ((1 - level) / 2, (1 + level) / 2) for level in levels}
    alpha = sorted({a for pair in ends.values() for a in pair})
    quantiles = estimator.forecast_quantiles(past, leads, alpha, "end")
    values = {a: panel.values[:, list(channels)] for a, panel in quantiles.items()}
    return {level: (values[low], values[high]) for level, (low, high) in ends.items()}


def as_columns(values: Any) -> np.ndarray:
    """Values (L, D) as floats; a vector is one channel."""
    values = np.asarray(values, dtype=np.float64)
    return values[:, None] if values.ndim == 1 else values


def plottable(times: Any) -> np.ndarray:
    """Times for matplotlib, which would show a DatetimeIndex in UTC."""
    if isinstance(times, pd.DatetimeIndex):
        return times.as_unit("us").to_pydatetime()
    return np.asarray(times)


def styled(style: dict[str, Any], keywords: dict[str, Any] | None) -> dict[str, Any]:
    """Style of lines with the user's keywords, which may be abbreviated ("c", "lw")."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return style | normalize_kwargs(keywords, Line2D)


def channel_axes(
    ax: Any, channel_names: Sequence[str] | None, n_channels: int, **shared: Any
) -> np.ndarray:
    """Axes (D,) of the channels, labelled with their names.

    Parameters
    ----------
    ax : Axes, array-like of Axes or None
        One axes for each channel; None for a new figure, with the channels below one another.
    channel_names : sequence of str or None
        Names of the channels; None: x0, x1, ...
    n_channels : int
        Number of channels D.
    **shared : dict
        Passed to ``matplotlib.pyplot.subplots`` for a new figure.

    Raises
    ------
    ValueError
        If there are not D axes or not D names.
    """
    names = default_channel_names(n_channels) if channel_names is None else channel_names
    if len(names) != n_channels:
        raise ValueError(
            f"channel_names must have one name for each of the {n_channels} channels, got "
            f"{list(names)}."
        )
    remedy = "pass one axes for each, or choose one with channel="
    return labelled_axes(ax, names, remedy, **shared)


def draw_columns(
    axes: Sequence[Any],
    columns: tuple[Any, Any] | None,
    style: dict[str, Any],
    keywords: dict[str, Any] | None = None,
) -> list[Any]:
    """Draw a pair (times, values), each column on the axes of its channel; None draws nothing."""
    if columns is None:
        return []
    times, values = plottable(columns[0]), as_columns(columns[1])
    style = styled(style, keywords)
    return [ax.plot(times, column, **style)[0] for ax, column in zip(axes, values.T, strict=True)]


def last_observation(observed: tuple[Any, Any], channel: int) -> tuple[np.ndarray, np.ndarray]:
    """Time and value of the last observation of a channel: arrays of length one, or empty."""
    times, values = plottable(observed[0]), as_columns(observed[1])[:, channel]
    last = np.flatnonzero(~np.isnan(values))[-1:]
    return times[last], values[last]


def prepended(
    start: tuple[np.ndarray, np.ndarray], times: Any, *columns: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Times and columns to draw, with a first point put before them."""
    time, value = start
    return np.append(time, plottable(times)), *(np.append(value, column) for column in columns)


def label_time(axes: Sequence[Any], times: Any, *, legend: bool = False) -> None:
    """Label the time axis; dates are abbreviated, in the time zone of `times`.

    One `legend` for all channels is put above the figure, so that it covers nothing.
    """
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    zone = getattr(times, "tz", None)
    for ax in axes:
        ax.set_xlabel("time" if zone is None else f"time ({zone})")
        locator = ax.xaxis.get_major_locator()
        if isinstance(locator, AutoDateLocator):
            ax.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))
        if legend:
            ax.label_outer()
    if legend:
        handles, labels = axes[0].get_legend_handles_labels()
        style = {"loc": "outside upper center", "ncols": min(len(labels), 5), "frameon": False}
        axes[0].figure.legend(handles, labels, **style)
