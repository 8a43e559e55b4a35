"""Plot the forecast of a series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from skpolyode.errors import check_shares
from skpolyode.panel import Panel, query_times
from skpolyode.panel.query import read_cutoff
from skpolyode.panel.select import observed_part, split_rows
from skpolyode.plotting.channels import (
    PATHS,
    STYLES,
    as_columns,
    channel_axes,
    columns_of,
    draw_columns,
    label_time,
    last_observation,
    positions_in_answers,
    prepended,
    quantile_intervals,
    read_truth,
    require,
    select_series,
)

_BAND = {"color": "C0", "linewidth": 0, "zorder": 2}


@dataclass(eq=False, repr=False)
class ForecastDisplay:
    """The forecast of one series, with its intervals and observations.

    There is one axes for each channel; curve and intervals start at its last observation. Use
    `from_estimator`, or the constructor for existing arrays.

    Parameters
    ----------
    times : array-like of shape (Q,)
        Times of the forecast: numbers or datetimes.
    values : array-like of shape (Q, D)
        The forecast, in the units of the series.
    observed : tuple of (times, values)
        The observations that the forecast is based on: times of shape (L,), values of shape
        (L, D), NaN where not observed.
    intervals : dict of float to (lower, upper) or None, default=None
        For each coverage, such as 0.9, the ends of its interval, two arrays of shape (Q, D).
    paths : array-like of shape (S, Q, D) or None, default=None
        Sampled futures at the same times.
    future : tuple of (times, values) or None, default=None
        Observations after the cutoff, unknown to the forecast; as `observed`.
    truth : tuple of (times, values) or None, default=None
        The true course, where it is known: times of shape (T,), values of shape (T, D).
    channel_names : sequence of str of shape (D,) or None, default=None
        Names of the channels. None: x0, x1, ...

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of Axes of shape (D,)
        One axes for each channel.
    lines_ : list of Line2D
        The forecast of each channel.
    bands_ : dict of float to list of PolyCollection
        For each coverage, the interval of each channel.
    paths_ : list of list of Line2D
        The sampled futures of each channel.
    observed_lines_, future_lines_, truth_lines_ : list of Line2D
        The observations before and after the cutoff and the true course of each channel; empty
        where there are none.

    See Also
    --------
    ReconstructionDisplay : The past of the series.

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

    times: Any
    values: Any
    _: KW_ONLY
    observed: tuple[Any, Any]
    intervals: Mapping[float, tuple[Any, Any]] | None = None
    paths: Any = None
    future: tuple[Any, Any] | None = None
    truth: tuple[Any, Any] | None = None
    channel_names: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        times: Any = None,
        *,
        relative_to: str | None = None,
        cutoff: Any = None,
        coverage: float | Sequence[float] = 0.9,
        n_paths: int = 0,
        series: int = 0,
        channel: Any = None,
        truth: tuple[Any, Any] | None = None,
        grid_resolution: int = 200,
        ax: Any = None,
        **plot_kw: dict[str, Any] | None,
    ) -> Self:
        """Forecast a series and draw it.

        Parameters
        ----------
        estimator : PolyODEForecaster, or any object with a method ``forecast(panel, times)``
            A trained forecaster or transformer. Intervals are drawn if it has a method
            `forecast_quantiles`.
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,) or None, default=None
            Times to forecast, in the units and of the type of the series' times. They lie on a
            curve that is drawn through an even grid up to the last of them. None: up to the last
            observation after the cutoff or, if there is none, over a third of the known duration.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from: the first or the last known observation of the series; they are
            then durations. None: absolute times.
        cutoff : float, datetime or None, default=None
            Last time that the forecast may use; later observations are only drawn. A float strictly
            between 0 and 1 is a share of the duration of the series. None: the whole series is
            known.
        coverage : float or sequence of float, default=0.9
            Nominal probability of each interval; an empty sequence draws none.
        n_paths : int, default=0
            Number of sampled futures that are drawn.
        series : int, default=0
            Position of the series in `X`.
        channel : str, int, sequence of those or None, default=None
            Channels to show, by name or position. None: all.
        truth : tuple of (times, values) or None, default=None
            The true course of all channels of the series, where it is known: times of shape (T,),
            values of shape (T, D).
        grid_resolution : int, default=200
            Number of points of the even grid.
        ax : Axes, array-like of Axes of shape (D,) or None, default=None
            Where to draw, one axes for each channel that is shown. None: a new figure.
        **plot_kw : dict
            Keywords of the lines and bands: `line_kw`, `observed_kw`, `future_kw`, `truth_kw` and
            `band_kw` of :meth:`plot`.

        Returns
        -------
        ForecastDisplay

        Raises
        ------
        TypeError
            If the estimator cannot forecast.
        ValueError
            If the series or a channel is not known, or nothing is observed before the cutoff.

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
        panel, chosen, names = select_series(X, series, channel)
        answered = positions_in_answers(estimator, panel, chosen)
        past, future = _split(observed_part(panel.since_start()), cutoff)
        (start, end), query = past.times[[0, -1]], np.empty(0)
        if times is not None:
            query = query_times(past, times, relative_to)[0]
            last = query.max()
        elif len(future.times):
            last = future.times[-1]
        elif start < end:
            last = end + (end - start) / 3
        else:
            raise ValueError(
                "the series has one observation and so no duration: pass the times to forecast."
            )
        grid = np.linspace(0.0, last - end, grid_resolution + 1)[1:]
        ahead = np.union1d(grid, query - end), "end"  # absolute times could round to before the end
        levels, intervals = [float(level) for level in np.atleast_1d(coverage)], None
        if levels:
            check_shares("coverage", levels)
            if hasattr(estimator, "forecast_quantiles"):
                intervals = quantile_intervals(estimator, past, ahead[0], levels, answered)
        paths = None
        if n_paths:
            require(estimator, "sample_paths", cls.__name__)
            drawn = estimator.sample_paths(past, *ahead, n_samples=n_paths, random_state=0)
            paths = drawn[0][..., answered]
        display = cls(
            *columns_of(estimator.forecast(past, *ahead), answered),
            observed=columns_of(past, chosen),
            intervals=intervals,
            paths=paths,
            future=None if cutoff is None else columns_of(future, chosen),
            truth=read_truth(panel, truth, chosen),
            channel_names=names,
        )
        return display.plot(ax, **plot_kw)

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
            Where to draw, one axes for each channel. None: a new figure, with a legend.
        line_kw, observed_kw, future_kw, truth_kw : dict or None, default=None
            Passed to ``Axes.plot`` for the forecast, the observations before and after the cutoff,
            and the truth.
        band_kw : dict or None, default=None
            Passed to ``Axes.fill_between`` for the intervals.

        Returns
        -------
        self
        """
        n_channels = as_columns(self.values).shape[1]
        axes = channel_axes(ax, self.channel_names, n_channels, sharex=True)
        self.truth_lines_ = draw_columns(axes, self.truth, STYLES["truth"], truth_kw)
        self.observed_lines_ = draw_columns(axes, self.observed, STYLES["observed"], observed_kw)
        self.future_lines_ = draw_columns(axes, self.future, STYLES["future"], future_kw)
        starts = [last_observation(self.observed, j) for j in range(n_channels)]
        style, intervals = STYLES["line"] | {"label": "forecast"}, self.intervals or {}
        self.lines_ = [
            draw_columns([ax], prepended(start, self.times, column), style, line_kw)[0]
            for ax, start, column in zip(axes, starts, as_columns(self.values).T, strict=True)
        ]
        courses = [] if self.paths is None else np.asarray(self.paths)
        self.paths_ = [
            [one.plot(*prepended(start, self.times, path[:, j]), **PATHS)[0] for path in courses]
            for j, (one, start) in enumerate(zip(axes, starts, strict=True))
        ]
        self.bands_: dict[float, list[Any]] = {}
        # The widest first, with the palest colour.
        levels, alphas = sorted(intervals, reverse=True), np.linspace(0.2, 0.45, len(intervals))
        for level, alpha in zip(levels, alphas, strict=True):
            lower, upper = (as_columns(end).T for end in intervals[level])
            style = _BAND | {"alpha": alpha, "label": f"{100 * level:g} % interval"}
            self.bands_[level] = [
                channel_ax.fill_between(
                    *prepended(start, self.times, low, high), **style | (band_kw or {})
                )
                for channel_ax, start, low, high in zip(axes, starts, lower, upper, strict=True)
            ]
        label_time(axes, self.times, legend=ax is None)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


def _split(panel: Panel, cutoff: Any) -> tuple[Panel, Panel]:
    """Rows of the series up to the cutoff, and after it."""
    last = panel.end if cutoff is None else read_cutoff(panel, cutoff)
    past, future = split_rows(panel, last)
    if not past.n_observations:
        raise ValueError(
            f"cutoff={cutoff!r} is before the first observation of the series: there is nothing to "
            "forecast from; give a later one."
        )
    return past, future
