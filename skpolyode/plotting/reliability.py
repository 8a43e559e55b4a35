"""Whether intervals keep what they promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from skpolyode.panel import Panel, as_panel
from skpolyode.panel.rows import default_channel_names
from skpolyode.panel.select import keep_rows, observed_part, series_of_rows
from skpolyode.plotting._axes import LINE, as_columns, styled
from skpolyode.plotting._selection import channel_positions, require

__all__ = ["ReliabilityDisplay"]

_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_KEPT = {"color": "0.6", "linewidth": 1.0, "linestyle": "--", "zorder": 1, "label": "kept"}


class ReliabilityDisplay:
    """The share of values within intervals, beside the share that they promise.

    One line a channel. Intervals keep their promise on the diagonal; below it they are too narrow,
    above it too wide. Use `from_estimator` or `from_predictions`; the constructor is for shares
    that you have already.

    Parameters
    ----------
    levels : array-like of shape (L,)
        What the intervals promise, between 0 and 1.
    coverage : array-like of shape (L, D)
        The share of the values of each channel that they hold; a vector is one channel.
    channel_names : sequence of str of shape (D,) or None, default=None
        Names of the channels. None: x0, x1, ...

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        Its axes.
    lines_ : list of Line2D
        The line of each channel.
    diagonal_ : Line2D
        What would be kept.

    See Also
    --------
    ForecastDisplay : The intervals themselves, of one series.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skpolyode.plotting import ReliabilityDisplay
    >>> display = ReliabilityDisplay([0.5, 0.9], [[0.52, 0.4], [0.91, 0.8]]).plot()
    >>> [line.get_label() for line in display.lines_]
    ['x0', 'x1']
    >>> plt.close(display.figure_)
    """

    def __init__(
        self, levels: Any, coverage: Any, *, channel_names: Sequence[str] | None = None
    ) -> None:
        self.levels = levels
        self.coverage = coverage
        self.channel_names = channel_names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        cutoff: float = 0.6,
        levels: Sequence[float] | None = None,
        channel: Any = None,
        ax: Any = None,
        line_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Forecast the ends of series, and draw how much of them the intervals hold.

        Parameters
        ----------
        estimator : estimator with a method `forecast_quantiles`
            The fitted forecaster.
        X : Panel, list of (times, values), list of DataFrames, or array
            Series that it has not seen.
        cutoff : float, default=0.6
            Share of the duration of each series that forecasts know.
        levels : sequence of float or None, default=None
            Probabilities of the intervals. None: 0.1, 0.2, ... 0.9 and 0.95.
        channel : str, int, sequence of those or None, default=None
            Channels to show, by name or position. None: all.
        ax : Axes or None, default=None
            Where to draw. None: a new figure.
        line_kw : dict or None, default=None
            Passed to ``Axes.plot`` for the lines.

        Returns
        -------
        ReliabilityDisplay

        Raises
        ------
        TypeError
            If the estimator has no quantiles.
        ValueError
            If a level, the cutoff or a channel is not valid, or nothing comes after the cutoff.
        """
        require(estimator, "forecast_quantiles", cls.__name__)
        if not 0 < cutoff < 1:
            raise ValueError(f"cutoff must lie between 0 and 1, got {cutoff!r}.")
        panel = observed_part(as_panel(X))
        chosen = channel_positions(channel, panel.channel_names)
        past, future = _cut(panel, cutoff)
        ends = _ends(_LEVELS if levels is None else levels)
        alpha = sorted({a for pair in ends.values() for a in pair})
        times = np.split(future.times, future.offsets[1:-1])
        found = estimator.forecast_quantiles(past, times, alpha)
        intervals = {
            level: (found[low].values[:, chosen], found[high].values[:, chosen])
            for level, (low, high) in ends.items()
        }
        names = [panel.channel_names[j] for j in chosen]
        actual = future.values[:, chosen]
        return cls.from_predictions(actual, intervals, channel_names=names, ax=ax, line_kw=line_kw)

    @classmethod
    def from_predictions(
        cls,
        values: Any,
        intervals: Mapping[float, tuple[Any, Any]],
        *,
        channel_names: Sequence[str] | None = None,
        ax: Any = None,
        line_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw how much of some values intervals hold.

        Parameters
        ----------
        values : array-like of shape (Q, D)
            What came, NaN where it is not known; a vector is one channel.
        intervals : mapping of float to tuple of (lower, upper)
            Ends of the interval of each level, of the shape of `values`.
        channel_names : sequence of str of shape (D,) or None, default=None
            Names of the channels. None: x0, x1, ...
        ax : Axes or None, default=None
            Where to draw. None: a new figure.
        line_kw : dict or None, default=None
            Passed to ``Axes.plot`` for the lines.

        Returns
        -------
        ReliabilityDisplay

        Raises
        ------
        ValueError
            If there is no interval, a level is not between 0 and 1, or shapes do not agree.

        Examples
        --------
        >>> import matplotlib.pyplot as plt
        >>> import numpy as np
        >>> from skpolyode.plotting import ReliabilityDisplay
        >>> values = np.linspace(0, 1, 101)
        >>> intervals = {level: (0 * values, 0 * values + level) for level in (0.25, 0.75)}
        >>> display = ReliabilityDisplay.from_predictions(values, intervals)
        >>> display.coverage.round(2).ravel().tolist()
        [0.26, 0.75]
        >>> plt.close(display.figure_)
        """
        _ends(intervals)
        actual = as_columns(values)
        known, shares = np.isfinite(actual), []
        for level in sorted(intervals):
            lower, upper = (as_columns(end) for end in intervals[level])
            if not lower.shape == upper.shape == actual.shape:
                raise ValueError(
                    f"values are of shape {actual.shape}, but the ends of the interval of level "
                    f"{level:g} of {lower.shape} and {upper.shape}."
                )
            inside = known & (lower <= actual) & (actual <= upper)
            with np.errstate(invalid="ignore"):  # a channel without any value has no share
                shares.append(inside.sum(axis=0) / known.sum(axis=0))
        display = cls(np.array(sorted(intervals)), np.array(shares), channel_names=channel_names)
        return display.plot(ax, line_kw=line_kw)

    def plot(self, ax: Any = None, *, line_kw: dict[str, Any] | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : Axes or None, default=None
            Where to draw. None: a new figure, with a legend.
        line_kw : dict or None, default=None
            Passed to ``Axes.plot`` for the lines.

        Returns
        -------
        self
        """
        coverage = as_columns(self.coverage)
        names = self.channel_names
        names = default_channel_names(coverage.shape[1]) if names is None else names
        own = ax
        if own is None:
            import matplotlib.pyplot as plt

            own = plt.subplots(figsize=(4.5, 4.5), layout="constrained")[1]
        (self.diagonal_,) = own.plot([0, 1], [0, 1], **_KEPT)
        self.lines_ = [
            own.plot(
                self.levels,
                share,
                **styled(LINE | {"color": f"C{j}", "marker": "o", "label": name}, line_kw),
            )[0]
            for j, (share, name) in enumerate(zip(coverage.T, names, strict=True))
        ]
        own.set(xlabel="promised", ylabel="within", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        if ax is None:
            own.legend(frameon=False)
        self.ax_, self.figure_ = own, own.figure
        return self


def _ends(levels: Any) -> dict[float, tuple[float, float]]:
    """Probabilities of the ends of the interval of each level."""
    wrong = [level for level in levels if not 0 < level < 1]
    if wrong or not len(levels):
        got = f"got {wrong[0]!r}" if wrong else "there is none"
        raise ValueError(f"levels must lie between 0 and 1, {got}.")
    return {level: ((1 - level) / 2, (1 + level) / 2) for level in levels}


def _cut(panel: Panel, cutoff: float) -> tuple[Panel, Panel]:
    """Rows of each series up to a share of its duration, and after it; series that have both."""
    first, last = panel.times[panel.offsets[:-1]], panel.times[panel.offsets[1:] - 1]
    series = series_of_rows(panel)
    later = panel.times > (first + cutoff * (last - first))[series]
    some = np.flatnonzero(np.bincount(series[later], minlength=panel.n_series))
    if not len(some):
        raise ValueError(
            f"no series has observations after {cutoff:g} of its duration: there is nothing to "
            "compare with; lower the cutoff, or give longer series."
        )
    return keep_rows(panel, ~later)[some], keep_rows(panel, later)[some]
