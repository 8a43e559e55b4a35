"""What a model expects of the future."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skpolyode.panel import Panel, query_times
from skpolyode.panel.select import keep_rows
from skpolyode.plotting._axes import (
    LINE,
    OBSERVED,
    TRUTH,
    as_columns,
    channel_axes,
    draw_columns,
    label_time,
    plottable,
    show_legend,
    styled,
)
from skpolyode.plotting._selection import (
    channel_positions,
    columns_of,
    one_series,
    read_truth,
    require,
)

if TYPE_CHECKING:
    from matplotlib.collections import PolyCollection

__all__ = ["ForecastDisplay"]

_FUTURE = OBSERVED | {"markerfacecolor": "white", "label": "to come"}
_BAND = {"color": "C0", "linewidth": 0, "zorder": 2}
_SHADES = 0.2, 0.45  # of the widest and of the narrowest of several intervals
_SHARE_AHEAD = 1 / 3  # of the known duration, when no times are given and nothing is to come


class ForecastDisplay:
    """The forecast of one series, with its intervals, beside what was observed.

    One axes a channel. Use `from_estimator`; the constructor is for arrays that you have already.

    Parameters
    ----------
    times : array-like of shape (Q,)
        Times of the forecast: numbers or datetimes.
    values : array-like of shape (Q, D)
        The forecast, in the units of the series.
    observed : tuple of (times, values)
        The observations it was made from: times of shape (L,), values of shape (L, D), NaN where
        not observed.
    intervals : dict of float to (lower, upper) or None, default=None
        For each coverage (0.9) the ends of its interval, two arrays of shape (Q, D).
    future : tuple of (times, values) or None, default=None
        Observations that the forecast did not know, where there are any; as `observed`.
    truth : tuple of (times, values) or None, default=None
        The true course, where it is known: times of shape (T,), values of shape (T, D).
    channel_names : sequence of str of shape (D,) or None, default=None
        Names of the channels. None: x0, x1, ...

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of Axes of shape (D,)
        One axes a channel.
    lines_ : list of Line2D
        The forecast of each channel.
    bands_ : dict of float to list of PolyCollection
        For each coverage the interval of each channel.
    observed_lines_, future_lines_, truth_lines_ : list of Line2D
        The observations before and after the cutoff and the true course of each channel; empty
        where not given.

    See Also
    --------
    ReconstructionDisplay : The other direction.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from skpolyode.plotting import ForecastDisplay
    >>> ahead = np.linspace(1.0, 2.0, 20)
    >>> display = ForecastDisplay(
    ...     ahead,
    ...     np.sin(ahead),
    ...     observed=([0.0, 0.4, 1.0], [0.0, 0.39, 0.84]),
    ...     intervals={0.9: (np.sin(ahead) - 0.1, np.sin(ahead) + 0.1)},
    ... ).plot()
    >>> list(display.bands_)
    [0.9]
    >>> plt.close(display.figure_)
    """

    def __init__(
        self,
        times: Any,
        values: Any,
        *,
        observed: tuple[Any, Any],
        intervals: Mapping[float, tuple[Any, Any]] | None = None,
        future: tuple[Any, Any] | None = None,
        truth: tuple[Any, Any] | None = None,
        channel_names: Sequence[str] | None = None,
    ) -> None:
        self.times = times
        self.values = values
        self.observed = observed
        self.intervals = intervals
        self.future = future
        self.truth = truth
        self.channel_names = channel_names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        times: Any = None,
        *,
        cutoff: Any = None,
        coverage: float | Sequence[float] = 0.9,
        series: int = 0,
        channel: Any = None,
        truth: tuple[Any, Any] | None = None,
        grid_resolution: int = 200,
        ax: Any = None,
        line_kw: dict[str, Any] | None = None,
        observed_kw: dict[str, Any] | None = None,
        future_kw: dict[str, Any] | None = None,
        truth_kw: dict[str, Any] | None = None,
        band_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Forecast a series and draw it.

        Parameters
        ----------
        estimator : PolyODEForecaster, or any object with a method ``forecast(panel, times)``
            A trained forecaster or transformer. Intervals are drawn if it has a method
            `forecast_quantiles`, which transformers have not.
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,) or None, default=None
            Times to forecast, in the units and of the type of the series' times. None: an even
            grid from the last known observation to the last one to come, or, with nothing to
            come, over a third of the known duration.
        cutoff : float, datetime or None, default=None
            Last time that the forecast may know; later observations are drawn as those to come.
            A float strictly between 0 and 1 is a share of the duration of the series. None: the
            whole series is known.
        coverage : float or sequence of float, default=0.9
            Nominal probability of each interval; an empty sequence draws none.
        series : int, default=0
            Position of the series in `X`.
        channel : str, int, sequence of those or None, default=None
            Channels to show, by name or position. None: all.
        truth : tuple of (times, values) or None, default=None
            The true course of all channels of the series, where it is known: times of shape (T,),
            values of shape (T, D).
        grid_resolution : int, default=200
            Points of that grid.
        ax : Axes, array-like of Axes of shape (D,) or None, default=None
            Where to draw, one axes a shown channel. None: a new figure.
        line_kw, observed_kw, future_kw, truth_kw : dict or None, default=None
            Passed to ``Axes.plot`` for the forecast, the observations known and to come, and the
            truth.
        band_kw : dict or None, default=None
            Passed to ``Axes.fill_between`` for the intervals.

        Returns
        -------
        ForecastDisplay

        Raises
        ------
        TypeError
            If the estimator cannot forecast.
        ValueError
            If the series or a channel is not known, or the cutoff leaves nothing to go on from.

        Examples
        --------
        >>> import matplotlib.pyplot as plt
        >>> from skpolyode import PolyODETransformer
        >>> from skpolyode.datasets import make_lorenz63
        >>> from skpolyode.plotting import ForecastDisplay
        >>> panel = make_lorenz63(8, random_state=0).panel
        >>> model = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0).fit(panel)
        >>> display = ForecastDisplay.from_estimator(model, panel, cutoff=0.7, channel="y")
        >>> plt.close(display.figure_)
        """
        require(estimator, "forecast", cls.__name__)
        panel = one_series(X, series)
        chosen = channel_positions(channel, panel.channel_names)
        known = read_truth(panel, truth)
        past, future = _split(panel, cutoff)
        if times is None:
            start, end = past.times[[0, -1]]
            last = future.times[-1] if len(future.times) else end + _SHARE_AHEAD * (end - start)
            if last <= end:
                raise ValueError(
                    "the series has one observation and so no duration: pass the times to forecast."
                )
            times = np.linspace(end, last, grid_resolution + 1)[1:]
        levels = [float(level) for level in np.atleast_1d(coverage)]
        answer = estimator.forecast(past, times)
        display = cls(
            *columns_of(answer, chosen),
            observed=columns_of(past, chosen),
            intervals=_intervals(estimator, past, times, levels, chosen),
            future=None if cutoff is None else columns_of(future, chosen),
            truth=None if known is None else columns_of(known, chosen),
            channel_names=[panel.channel_names[j] for j in chosen],
        )
        return display.plot(
            ax,
            line_kw=line_kw,
            observed_kw=observed_kw,
            future_kw=future_kw,
            truth_kw=truth_kw,
            band_kw=band_kw,
        )

    def plot(
        self,
        ax: Any = None,
        *,
        line_kw: dict[str, Any] | None = None,
        observed_kw: dict[str, Any] | None = None,
        future_kw: dict[str, Any] | None = None,
        truth_kw: dict[str, Any] | None = None,
        band_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : Axes, array-like of Axes of shape (D,) or None, default=None
            Where to draw, one axes a channel. None: a new figure, with a legend.
        line_kw, observed_kw, future_kw, truth_kw : dict or None, default=None
            Passed to ``Axes.plot`` for the forecast, the observations known and to come, and the
            truth.
        band_kw : dict or None, default=None
            Passed to ``Axes.fill_between`` for the intervals.

        Returns
        -------
        self
        """
        n_channels = as_columns(self.values).shape[1]
        axes = channel_axes(ax, self.channel_names, n_channels, sharex=True)
        self.truth_lines_ = draw_columns(axes, self.truth, styled(TRUTH, truth_kw))
        self.observed_lines_ = draw_columns(axes, self.observed, styled(OBSERVED, observed_kw))
        self.future_lines_ = draw_columns(axes, self.future, styled(_FUTURE, future_kw))
        style = styled(LINE | {"label": "forecast"}, line_kw)
        self.lines_ = draw_columns(axes, (self.times, self.values), style)
        intervals, times = self.intervals or {}, plottable(self.times)
        self.bands_: dict[float, list[PolyCollection]] = {}
        for level, alpha in zip(  # the widest first and in the palest shade
            sorted(intervals, reverse=True), np.linspace(*_SHADES, len(intervals)), strict=True
        ):
            lower, upper = (as_columns(end).T for end in intervals[level])
            shade = {"alpha": alpha, "label": f"{100 * level:g} % interval"}
            self.bands_[level] = [
                own.fill_between(times, low, high, **_BAND | shade | (band_kw or {}))
                for own, low, high in zip(axes, lower, upper, strict=True)
            ]
        label_time(axes, self.times)
        if ax is None:
            show_legend(axes)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


def _split(panel: Panel, cutoff: Any) -> tuple[Panel, Panel]:
    """Observed rows of the one series up to the cutoff, and after it."""
    seen = ~np.isnan(panel.values).all(axis=1)
    times = panel.times[seen]
    if cutoff is None:
        last = times[-1]
    elif isinstance(cutoff, float) and 0 < cutoff < 1:
        last = times[0] + cutoff * (times[-1] - times[0])
    else:
        last = query_times(panel, cutoff)[0][0]
    known = seen & (panel.times <= last)
    if not known.any():
        raise ValueError(
            f"cutoff={cutoff!r} is before the first observation of the series: there is nothing to "
            "go on from; give a later one."
        )
    return keep_rows(panel, known), keep_rows(panel, seen & ~known)


def _intervals(
    estimator: Any, past: Panel, times: Any, levels: Sequence[float], channels: Sequence[int]
) -> dict[float, tuple[np.ndarray, np.ndarray]]:
    """Ends of the interval of each level, as far as the estimator has any."""
    wrong = [level for level in levels if not 0 < level < 1]
    if wrong:
        raise ValueError(f"coverage must lie between 0 and 1, got {wrong[0]!r}.")
    if not levels or not hasattr(estimator, "forecast_quantiles"):
        return {}
    ends = {level: ((1 - level) / 2, (1 + level) / 2) for level in levels}
    alpha = sorted({a for pair in ends.values() for a in pair})
    quantiles = estimator.forecast_quantiles(past, times, alpha)
    values = {a: own.values[:, list(channels)] for a, own in quantiles.items()}
    return {level: (values[low], values[high]) for level, (low, high) in ends.items()}
