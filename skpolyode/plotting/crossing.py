"""Plot when a series will cross a line."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from skpolyode.futures.samples import channel_at
from skpolyode.panel import query_times
from skpolyode.panel.select import observed_part
from skpolyode.panel.selection import align_to_fit
from skpolyode.plotting.channels import (
    PATHS,
    STYLES,
    channel_axes,
    draw_columns,
    label_time,
    last_observation,
    one_series,
    prepended,
    require,
)

_LINE = {"color": "C3", "linewidth": 1.0, "linestyle": "--", "zorder": 3}
_WINDOW = {"color": "C3", "linewidth": 0, "alpha": 0.15, "zorder": 1}


@dataclass(eq=False, repr=False)
class CrossingDisplay:
    """Sampled futures of one channel of a series, a line, and the window of its crossing.

    Use `from_estimator`, or the constructor for existing arrays.

    Parameters
    ----------
    times : array-like of shape (Q,)
        Times of the samples: numbers or datetimes.
    samples : array-like of shape (n_samples, Q)
        Sampled futures, in the units of the channel.
    observed : tuple of (times, values)
        The observations before the forecast, two arrays of shape (L,).
    threshold : float
        The line.
    window : tuple of (earliest, median, latest)
        Interval and median of the time at which it is crossed.
    title : str or None, default=None
        Title, such as the probability of the crossing.
    channel_name : str, default="x0"
        Name of the channel.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    ax_ : Axes
        Its axes.
    paths_ : list of Line2D
        The samples.
    observed_line_, threshold_line_, median_line_ : Line2D
        The observations, the line, and the median time of its crossing.
    window_ : Polygon
        From the earliest to the latest time.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from skpolyode.plotting import CrossingDisplay
    >>> times = np.linspace(2, 4, 9)
    >>> samples = np.outer([0.8, 1.0, 1.2], times)
    >>> past = [0.0, 1.0, 2.0], [0.0, 1.1, 1.9]
    >>> options = {"observed": past, "threshold": 3.0, "window": (2.5, 3.0, 3.75)}
    >>> display = CrossingDisplay(times, samples, **options).plot()
    >>> len(display.paths_)
    3
    >>> plt.close(display.figure_)
    """

    times: Any
    samples: Any
    _: KW_ONLY
    observed: tuple[Any, Any]
    threshold: float
    window: tuple[Any, Any, Any]
    title: str | None = None
    channel_name: str = "x0"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        threshold: float,
        until: Any,
        relative_to: str | None = None,
        *,
        series: int = 0,
        channel: str | int = 0,
        direction: str = "above",
        coverage: float = 0.9,
        n_drawn: int = 50,
        grid_resolution: int = 200,
        ax: Any = None,
    ) -> Self:
        """Sample futures of a series and draw when they cross a line.

        Parameters
        ----------
        estimator : PolyODEForecaster or transformer
            Trained, with a method `crossing_times`.
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        threshold : float
            The line, in the units of the channel.
        until : scalar
            How far to look, as in `crossing_times`.
        relative_to : {"start", "end"} or None, default=None
            What `until` counts from.
        series : int, default=0
            Position of the series in `X`.
        channel : str or int, default=0
            The channel, by name or position.
        direction : {"above", "below"}, default="above"
            Side of the line that counts as crossed.
        coverage : float, default=0.9
            Probability of the window.
        n_drawn : int, default=50
            Number of samples that are drawn.
        grid_resolution : int, default=200
            Number of times at which they are drawn.
        ax : Axes or None, default=None
            Where to draw. None: a new figure.

        Returns
        -------
        CrossingDisplay

        Examples
        --------
        >>> import matplotlib.pyplot as plt
        >>> from skpolyode import PolyODETransformer
        >>> from skpolyode.datasets import make_lorenz63
        >>> from skpolyode.plotting import CrossingDisplay
        >>> panel = make_lorenz63(8, random_state=0).panel
        >>> model = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0).fit(panel)
        >>> display = CrossingDisplay.from_estimator(model, panel, 15.0, 1.0, "end", channel="y")
        >>> plt.close(display.figure_)
        """
        require(estimator, "crossing_times", cls.__name__)
        panel = observed_part(align_to_fit(one_series(X, series), estimator))
        j = channel_at(panel, channel)
        options = {"channel": j, "direction": direction, "coverage": coverage}
        table = estimator.crossing_times(panel, threshold, until, relative_to, **options)
        (row,) = table.itertuples()
        seen = ~np.isnan(panel.values[:, j])
        horizon = query_times(panel, until, relative_to)[0][0] - panel.times[-1]
        leads = np.linspace(0.0, horizon, grid_resolution)
        paths = estimator.sample_paths(panel, leads, "end", n_samples=n_drawn, random_state=0)
        return cls(
            paths.forecast.user_times(),
            paths[0][..., j],
            observed=(panel.user_times()[seen], panel.values[seen, j]),
            threshold=threshold,
            window=(row.earliest, row.median, row.latest),
            title=f"{row.status}, probability {row.probability:.2f}",
            channel_name=panel.channel_names[j],
        ).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : Axes or None, default=None
            Where to draw. None: a new figure.

        Returns
        -------
        self
        """
        (axes,) = channel_axes(ax, [self.channel_name], 1)
        (self.observed_line_,) = draw_columns([axes], self.observed, STYLES["observed"])
        start = last_observation(self.observed, 0)
        self.paths_ = [
            axes.plot(*prepended(start, self.times, path), **PATHS)[0]
            for path in np.asarray(self.samples)
        ]
        self.threshold_line_ = axes.axhline(self.threshold, **_LINE)
        earliest, median, latest = self.window
        self.window_ = axes.axvspan(earliest, latest, **_WINDOW)
        self.median_line_ = axes.axvline(median, **_LINE | {"linestyle": ":"})
        axes.set_title(self.title or "")
        label_time([axes], self.times)
        self.ax_, self.figure_ = axes, axes.figure
        return self
