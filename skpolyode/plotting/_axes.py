"""One axes for each channel, and what all displays draw on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from skpolyode.panel.rows import default_channel_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = [
    "LINE",
    "OBSERVED",
    "TRUTH",
    "as_columns",
    "channel_axes",
    "draw_columns",
    "label_time",
    "plottable",
    "show_legend",
    "styled",
]

# Told apart without colours too: broad and pale, thin and dark, and points. The truth is broad
# enough to be seen behind a line that follows it.
TRUTH = {"color": "0.8", "linewidth": 4.0, "zorder": 1, "label": "truth"}
LINE = {"color": "C0", "linewidth": 1.5, "zorder": 3}
OBSERVED = {
    "color": "black",
    "marker": "o",
    "markersize": 4,
    "linestyle": "none",
    "zorder": 4,
    "label": "observed",
}


def styled(style: dict[str, Any], own: dict[str, Any] | None) -> dict[str, Any]:
    """Style of lines with the user's own keywords, which may be abbreviated ("c", "lw")."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return style | normalize_kwargs(own, Line2D)


def as_columns(values: Any) -> np.ndarray:
    """Values (L, D) as floats; a vector is one channel."""
    values = np.asarray(values, dtype=np.float64)
    return values[:, None] if values.ndim == 1 else values


def plottable(times: Any) -> np.ndarray:
    """Times as matplotlib should get them: it would show a DatetimeIndex in UTC."""
    if isinstance(times, pd.DatetimeIndex):
        return times.as_unit("us").to_pydatetime()
    return np.asarray(times)


def channel_axes(
    ax: Any, channel_names: Sequence[str] | None, n_channels: int, **shared: Any
) -> np.ndarray:
    """Axes (D,) of the channels, labelled with their names: those given, or a new figure's.

    Parameters
    ----------
    ax : Axes, array-like of Axes or None
        One axes a channel; None for a new figure, with the channels below one another.
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
    if ax is None:
        import matplotlib.pyplot as plt

        size = (7.0, 1.0 + 1.7 * n_channels)
        figure, grid = plt.subplots(
            n_channels, 1, figsize=size, layout="constrained", squeeze=False, **shared
        )
        figure.align_ylabels(grid)
        axes = grid[:, 0]
    else:
        axes = np.asarray(ax, dtype=object).ravel()
    if len(axes) != len(names):
        raise ValueError(
            f"ax holds {len(axes)} axes, but there are {len(names)} channels "
            f"({', '.join(map(str, names))}): pass one axes for each, or choose one with channel=."
        )
    for own, name in zip(axes, names, strict=True):
        own.set_ylabel(name)
    return axes


def draw_columns(
    axes: Sequence[Axes], columns: tuple[Any, Any] | None, style: dict[str, Any]
) -> list[Line2D]:
    """Draw each column of a pair (times, values) on the axes of its channel; nothing of None."""
    if columns is None:
        return []
    times, values = plottable(columns[0]), as_columns(columns[1])
    return [ax.plot(times, own, **style)[0] for ax, own in zip(axes, values.T, strict=True)]


def label_time(axes: Sequence[Axes], times: Any) -> None:
    """Name the time axis; dates are written short, in the time zone of `times`."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    zone = getattr(times, "tz", None)
    for ax in axes:
        ax.set_xlabel("time" if zone is None else f"time ({zone})")
        locator = ax.xaxis.get_major_locator()
        if isinstance(locator, AutoDateLocator):
            ax.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=zone))


def show_legend(axes: Sequence[Axes]) -> None:
    """Put one legend above a figure of channels, where it hides nothing."""
    for ax in axes:
        ax.label_outer()
    handles, labels = axes[0].get_legend_handles_labels()
    axes[0].figure.legend(
        handles, labels, loc="outside upper center", ncols=min(len(labels), 5), frameon=False
    )
