"""A quick look at the observations of series."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skpolyode.panel.storage import PanelStorage


def plot_series(panel: PanelStorage, ax: Any, max_series: int) -> np.ndarray:
    """Draw the first series on axes of yours, one a channel, or on those of a new figure."""
    n_channels = panel.n_channels
    if ax is None:
        import matplotlib.pyplot as plt

        size = (7.0, 1.0 + 1.7 * n_channels)
        options = {"sharex": True, "squeeze": False, "layout": "constrained"}
        ax = plt.subplots(n_channels, 1, figsize=size, **options)[1]
    axes = np.asarray(ax, dtype=object).ravel()
    if len(axes) != n_channels:
        raise ValueError(
            f"ax holds {len(axes)} axes, but there are {n_channels} channels "
            f"({', '.join(panel.channel_names)}): pass one axes for each."
        )
    times = panel.user_times()
    if isinstance(times, pd.DatetimeIndex):  # matplotlib would show them in UTC
        times = times.tz_localize(None).as_unit("us").to_pydatetime()
    for start, stop in list(zip(panel.offsets[:-1], panel.offsets[1:], strict=True))[:max_series]:
        when, rows = np.asarray(times[start:stop]), panel.values[start:stop]
        for own, values in zip(axes, rows.T, strict=True):
            seen = ~np.isnan(values)
            own.plot(when[seen], values[seen], marker=".", linewidth=1.0)
    for own, name in zip(axes, panel.channel_names, strict=True):
        own.set_ylabel(name)
    axes[-1].set_xlabel("time" if panel.tz is None else f"time ({panel.tz})")
    return axes
