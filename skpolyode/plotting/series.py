"""Displays of one series: coefficients, past, forecast, crossing of a line, classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skpolyode.errors import check_shares
from skpolyode.futures.samples import channel_at
from skpolyode.panel import Panel, query_times
from skpolyode.panel.query import read_cutoff
from skpolyode.panel.select import drop_empty, observed_part, split_rows
from skpolyode.panel.selection import align_to_fit
from skpolyode.panel.views import as_label
from skpolyode.plotting.channels import (
    PATHS,
    STYLES,
    as_columns,
    channel_axes,
    columns_of,
    draw_columns,
    label_time,
    last_observation,
    one_series,
    plottable,
    positions_in_answers,
    prepended,
    quantile_intervals,
    read_truth,
    require_method,
    select_series,
)
from skpolyode.transformers.input import read_panel


@dataclass(eq=False, repr=False)
class CoefficientDisplay:
    """The polynomial coefficients of one series, with one axes for each channel.

    All channels share one scale: the coefficients are in standard deviations of their channel, and
    belong to orthonormal polynomials, so that the sum of their squares is the mean square of the
    remembered history. If the last ones are not small, `n_coefficients` is too low for the signal
    in the window.

    Use `from_estimator`, or the constructor for existing arrays.

    Parameters
    ----------
    coefficients : array-like of shape (D, N)
        The coefficients of each channel, from the lowest degree to the highest.
    channel_names : sequence of str of shape (D,) or None, default=None
        Names of the channels. None: x0, x1, ...

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of Axes of shape (D,)
        One axes for each channel.
    stems_ : list of StemContainer
        The stems of each channel.

    See Also
    --------
    ReconstructionDisplay : The history that the coefficients hold.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skpolyode import HiPPOTransformer
    >>> from skpolyode.plotting import CoefficientDisplay
    >>> series = [([0.0, 0.4, 1.5, 2.0], [1.0, 2.0, 2.0, 0.0]), ([0.0, 1.2, 2.0], [0.0, 3.0, 1.0])]
    >>> transformer = HiPPOTransformer(n_coefficients=8, window=2.0).fit(series)
    >>> display = CoefficientDisplay.from_estimator(transformer, series)
    >>> display.coefficients.shape
    (1, 8)
    >>> plt.close(display.figure_)
    """

    coefficients: Any
    _: KW_ONLY
    channel_names: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        series: int = 0,
        channel: Any = None,
        ax: Any = None,
        **stem_kw: Any,
    ) -> Self:
        """Embed a series and draw its coefficients.

        Parameters
        ----------
        estimator : transformer of coefficients
            The fitted transformer.
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        series : int, default=0
            Position of the series in `X`.
        channel : str, int, sequence of those or None, default=None
            Channels to show, by name or position. None: all.
        ax : Axes, array-like of Axes of shape (D,) or None, default=None
            Where to draw, one axes for each channel that is shown. None: a new figure.
        **stem_kw : dict
            Passed to ``Axes.stem``.

        Returns
        -------
        CoefficientDisplay

        Raises
        ------
        TypeError
            If the embedding of the estimator has no coefficients.
        ValueError
            If the series or a channel is not known.

        Examples
        --------
        >>> import matplotlib.pyplot as plt
        >>> import numpy as np
        >>> from skpolyode import LegendreFitTransformer
        >>> from skpolyode.plotting import CoefficientDisplay
        >>> times = np.linspace(0, 1, 20)
        >>> series = [(times, np.column_stack([times, np.sin(20 * times)]))]
        >>> transformer = LegendreFitTransformer(n_coefficients=12, window=1.0).fit(series)
        >>> display = CoefficientDisplay.from_estimator(transformer, series, channel="x0")
        >>> plt.close(display.figure_)
        """
        if not getattr(estimator, "has_coefficients", False):
            raise TypeError(
                f"{cls.__name__} needs a transformer that embeds in coefficients, got "
                f"{type(estimator).__name__}; of a pipeline or a search pass the fitted step "
                "itself, of a forecaster its transformer_."
            )
        panel, chosen, names = select_series(X, series, channel)
        known = drop_empty(read_panel(estimator, panel, reset=False))
        found = estimator.embedder_.coefficients(known)[0]
        coefficients = found[positions_in_answers(estimator, panel, chosen)]
        return cls(coefficients, channel_names=names).plot(ax, **stem_kw)

    def plot(self, ax: Any = None, **stem_kw: Any) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : Axes, array-like of Axes of shape (D,) or None, default=None
            Where to draw, one axes for each channel. None: a new figure.
        **stem_kw : dict
            Passed to ``Axes.stem``.

        Returns
        -------
        self
        """
        coefficients = np.atleast_2d(np.asarray(self.coefficients, dtype=np.float64))
        n_channels, n_coefficients = coefficients.shape
        axes = channel_axes(ax, self.channel_names, n_channels, sharex=True, sharey=True)
        style = {"linefmt": "C0-", "markerfmt": "C0.", "basefmt": "k-"} | stem_kw
        degrees = np.arange(n_coefficients)
        self.stems_ = []
        for channel_ax, c in zip(axes, coefficients, strict=True):
            self.stems_.append(channel_ax.stem(degrees, c, **style))
            channel_ax.set_xlabel("coefficient")
            channel_ax.xaxis.get_major_locator().set_params(integer=True)
            if ax is None:
                channel_ax.label_outer()
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


@dataclass(eq=False, repr=False)
class ReconstructionDisplay:
    """The past of one series, reconstructed from its embedding, with its observations.

    There is one axes for each channel. Use `from_estimator`, or the constructor for existing
    arrays.

    Parameters
    ----------
    times : array-like of shape (Q,)
        Times of the reconstruction: numbers or datetimes.
    values : array-like of shape (Q, D)
        The reconstruction, in the units of the series.
    observed : tuple of (times, values)
        The observations: times of shape (L,), values of shape (L, D), NaN where not observed.
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
        The reconstruction of each channel.
    observed_lines_ : list of Line2D
        The observations of each channel.
    truth_lines_ : list of Line2D
        The true course of each channel; empty if it is not known.

    See Also
    --------
    CoefficientDisplay : The coefficients of the reconstruction.
    ForecastDisplay : The future of the series.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skpolyode import HiPPOTransformer
    >>> from skpolyode.plotting import ReconstructionDisplay
    >>> series = [([0.0, 0.4, 1.5, 2.0], [1.0, 2.0, 2.0, 0.0]), ([0.0, 1.2, 2.0], [0.0, 3.0, 1.0])]
    >>> transformer = HiPPOTransformer(n_coefficients=8, window=2.0).fit(series)
    >>> display = ReconstructionDisplay.from_estimator(transformer, series, series=1)
    >>> display.axes_[0].get_ylabel(), display.values.shape
    ('x0', (200, 1))
    >>> plt.close(display.figure_)
    """

    times: Any
    values: Any
    _: KW_ONLY
    observed: tuple[Any, Any]
    truth: tuple[Any, Any] | None = None
    channel_names: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        times: Any = None,
        *,
        series: int = 0,
        channel: Any = None,
        truth: tuple[Any, Any] | None = None,
        grid_resolution: int = 200,
        ax: Any = None,
        **plot_kw: dict[str, Any] | None,
    ) -> Self:
        """Reconstruct the past of a series and draw it.

        Parameters
        ----------
        estimator : transformer with a method `reconstruct`
            The fitted transformer.
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,) or None, default=None
            Times to reconstruct, as for `reconstruct`. None: an even grid over the part of the
            series that the memory reaches.
        series : int, default=0
            Position of the series in `X`.
        channel : str, int, sequence of those or None, default=None
            Channels to show, by name or position. None: all.
        truth : tuple of (times, values) or None, default=None
            The true course of all channels of the series, where it is known: times of shape (T,),
            values of shape (T, D).
        grid_resolution : int, default=200
            Number of points of the even grid, used if `times` is None.
        ax : Axes, array-like of Axes of shape (D,) or None, default=None
            Where to draw, one axes for each channel that is shown. None: a new figure.
        **plot_kw : dict
            Keywords of the lines: `line_kw`, `observed_kw` and `truth_kw` of :meth:`plot`.

        Returns
        -------
        ReconstructionDisplay

        Raises
        ------
        TypeError
            If the estimator cannot reconstruct.
        ValueError
            If the series or a channel is not known, or a time is outside the memory's reach.

        Examples
        --------
        >>> import matplotlib.pyplot as plt
        >>> from skpolyode.datasets import make_lorenz63
        >>> from skpolyode.plotting import ReconstructionDisplay
        >>> from skpolyode.transformers import InterpolationTransformer
        >>> data = make_lorenz63(5, random_state=0)
        >>> truth = data.truth.times, data.truth.values[3][:, data.truth.observed]
        >>> transformer = InterpolationTransformer(kind="cubic", window=5.0).fit(data.panel)
        >>> display = ReconstructionDisplay.from_estimator(
        ...     transformer, data.panel, series=3, channel="x", truth=truth
        ... )
        >>> plt.close(display.figure_)
        """
        require_method(estimator, "reconstruct", cls.__name__)
        check_is_fitted(estimator)
        panel, chosen, names = select_series(X, series, channel)
        answered = positions_in_answers(estimator, panel, chosen)
        shown, relative_to = panel, None
        if times is None:  # relative to the end: absolute times could be rounded past it
            shown, relative_to = panel.since_start(), "end"
            start, end = observed_part(shown).times[[0, -1]]
            # Slightly inside, since rounding could move the end of the window outside.
            longest = estimator.embedder_.past.reach * (1 - 1e-9) - np.spacing(abs(end))
            times = np.linspace(-min(end - start, longest), 0.0, grid_resolution)
        display = cls(
            *columns_of(estimator.reconstruct(shown, times, relative_to), answered),
            observed=columns_of(panel, chosen),
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
        truth_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : Axes, array-like of Axes of shape (D,) or None, default=None
            Where to draw, one axes for each channel. None: a new figure, with a legend.
        line_kw, observed_kw, truth_kw : dict or None, default=None
            Passed to ``Axes.plot`` for the reconstruction, the observations and the truth.

        Returns
        -------
        self
        """
        n_channels = as_columns(self.values).shape[1]
        axes = channel_axes(ax, self.channel_names, n_channels, sharex=True)
        self.truth_lines_ = draw_columns(axes, self.truth, STYLES["truth"], truth_kw)
        style = STYLES["line"] | {"label": "reconstruction"}
        self.lines_ = draw_columns(axes, (self.times, self.values), style, line_kw)
        self.observed_lines_ = draw_columns(axes, self.observed, STYLES["observed"], observed_kw)
        label_time(axes, self.times, legend=ax is None)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


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
        require_method(estimator, "forecast", cls.__name__)
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
            require_method(estimator, "sample_paths", cls.__name__)
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
            style |= band_kw or {}
            self.bands_[level] = [
                channel_ax.fill_between(*prepended(start, self.times, low, high), **style)
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
        require_method(estimator, "crossing_times", cls.__name__)
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


@dataclass(eq=False, repr=False)
class RiskDisplay:
    """Probabilities of classes along a series.

    Use `from_estimator`, or the constructor for existing arrays.

    Parameters
    ----------
    times : array-like of shape (L,)
        Times of the observations: numbers or datetimes.
    probabilities : array-like of shape (L, K)
        Probabilities of the classes at each time, from the observations up to it.
    values : array-like of shape (L, D)
        The observations, NaN where there is none.
    classes : sequence of str
        Names of the K classes.
    channel_names : sequence of str
        Names of the D channels.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of Axes of shape (D + 1,)
        Its axes: the probabilities first, then the channels.
    probability_lines_ : list of Line2D
        One for each class; for two classes, one for the second.
    observed_lines_ : list of Line2D
        One for each channel.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skpolyode.plotting import RiskDisplay
    >>> names = {"classes": ["lives", "dies"], "channel_names": ["hr"]}
    >>> values, path = [[90.0], [120.0], [130.0]], [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]]
    >>> display = RiskDisplay([0.0, 1.0, 2.0], path, values=values, **names).plot()
    >>> display.probability_lines_[0].get_label()
    'dies'
    >>> plt.close(display.figure_)
    """

    times: Any
    probabilities: Any
    _: KW_ONLY
    values: Any
    classes: Sequence[str]
    channel_names: Sequence[str]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, series: int = 0, channel: Any = None, ax: Any = None
    ) -> Self:
        """Draw the probabilities of a classifier along one series.

        Parameters
        ----------
        estimator : PolyODEClassifier
            Fitted, with `n_cuts`.
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        series : int, default=0
            Position of the series in `X`.
        channel : str, int, sequence of such or None, default=None
            Channels to draw, by name or position. None: all, up to ten.
        ax : sequence of Axes or None, default=None
            One for the probabilities and one for each channel. None: a new figure.

        Returns
        -------
        RiskDisplay

        Examples
        --------
        >>> import matplotlib.pyplot as plt
        >>> import numpy as np
        >>> from skpolyode import HiPPOTransformer, PolyODEClassifier
        >>> from skpolyode.plotting import RiskDisplay
        >>> series = [(np.arange(6.0), slope * np.arange(6.0)) for slope in np.linspace(-1, 1, 20)]
        >>> model = PolyODEClassifier(HiPPOTransformer(), features="coefficients", n_cuts=3)
        >>> model = model.fit(series, np.repeat(["down", "up"], 10))
        >>> display = RiskDisplay.from_estimator(model, series, series=3)
        >>> plt.close(display.figure_)
        """
        require_method(estimator, "predict_proba_path", cls.__name__)
        panel, chosen, names = select_series(X, series, channel)
        path = estimator.predict_proba_path(panel := observed_part(panel))
        times, values = columns_of(panel, chosen)
        labels = {"classes": path.channel_names, "channel_names": names}
        return cls(times, path.values, values=values, **labels).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : sequence of Axes or None, default=None
            One for the probabilities and one for each channel. None: a new figure.

        Returns
        -------
        self
        """
        names = ["probability", *self.channel_names]
        axes = channel_axes(ax, names, len(names), sharex=True)
        first = 1 if len(self.classes) == 2 else 0
        named = list(zip(self.classes, np.asarray(self.probabilities).T, strict=True))[first:]
        self.probability_lines_ = [
            axes[0].step(plottable(self.times), p, where="post", label=as_label(name))[0]
            for name, p in named
        ]
        axes[0].set_ylim(-0.02, 1.02)
        axes[0].legend(frameon=False)
        observed = self.times, self.values
        self.observed_lines_ = draw_columns(axes[1:], observed, STYLES["observed"])
        label_time(axes[-1:], self.times)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self
