"""Plot the importance of the observations of a series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from skpolyode.inspection.importance import observation_importance
from skpolyode.plotting.channels import (
    STYLES,
    as_columns,
    channel_axes,
    columns_of,
    draw_columns,
    label_time,
    plottable,
    select_series,
)


@dataclass(eq=False, repr=False)
class ImportanceDisplay:
    """The observations of one series, coloured by their importance for an output.

    There is one axes for each channel. Use `from_estimator`, or the constructor for existing
    arrays.

    Parameters
    ----------
    times : array-like of shape (L,)
        Times of the observations: numbers or datetimes.
    values : array-like of shape (L, D)
        Values, NaN where not observed.
    importance : array-like of shape (L, D)
        Importance of each value, as in `observation_importance`.
    channel_names : sequence of str of shape (D,) or None, default=None
        Names of the channels. None: x0, x1, ...

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of Axes of shape (D,)
        One axes for each channel.
    lines_ : list of Line2D
        A line through the observations of each channel.
    points_ : list of PathCollection
        The observations of each channel, on one scale of colours.
    colorbar_ : Colorbar
        Its colour bar.

    See Also
    --------
    observation_importance : The values that are drawn.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skpolyode import HiPPOTransformer
    >>> from skpolyode.inspection import ImportanceDisplay
    >>> series = [([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 9.0])]
    >>> model = HiPPOTransformer(n_coefficients=4).fit(series)
    >>> display = ImportanceDisplay.from_estimator(model, series)
    >>> int(display.importance.argmax())
    3
    >>> plt.close(display.figure_)
    """

    times: Any
    values: Any
    importance: Any
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
        what: str = "auto",
        times: Any = None,
        relative_to: str | None = None,
        ax: Any = None,
        **plot_kw: dict[str, Any] | None,
    ) -> Self:
        """Leave out each observation of a series and draw the change of the output.

        Parameters
        ----------
        estimator : fitted estimator
            As in `observation_importance`.
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        series : int, default=0
            Position of the series in `X`.
        channel : str, int, sequence of those or None, default=None
            Channels to show, by name or position. None: all.
        what : {"auto", "embedding", "probability", "prediction", "forecast"}, default="auto"
            The output to explain.
        times : array-like of shape (Q,) or None, default=None
            Times of the forecast.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from.
        ax : Axes, array-like of Axes of shape (D,) or None, default=None
            Where to draw, one axes for each channel that is shown. None: a new figure.
        **plot_kw : dict
            Keywords of :meth:`plot`: `line_kw` and `points_kw`.

        Returns
        -------
        ImportanceDisplay

        Examples
        --------
        >>> import matplotlib.pyplot as plt
        >>> from skpolyode import HiPPOTransformer
        >>> from skpolyode.inspection import ImportanceDisplay
        >>> series = [([0.0, 1.0, 2.0], [0.0, 5.0, 2.0])]
        >>> model = HiPPOTransformer(n_coefficients=4).fit(series)
        >>> plt.close(ImportanceDisplay.from_estimator(model, series).figure_)
        """
        panel, chosen, names = select_series(X, series, channel)
        asked = {"times": times, "relative_to": relative_to}
        table = observation_importance(estimator, panel, what=what, **asked)
        importance = np.full(panel.values.shape, np.nan)
        importance[~np.isnan(panel.values)] = table["importance"]  # both in row order
        display = cls(*columns_of(panel, chosen), importance[:, chosen], channel_names=names)
        return display.plot(ax, **plot_kw)

    def plot(
        self,
        ax: Any = None,
        *,
        line_kw: dict[str, Any] | None = None,
        points_kw: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : Axes, array-like of Axes of shape (D,) or None, default=None
            Where to draw, one axes for each channel. None: a new figure.
        line_kw : dict or None, default=None
            Passed to ``Axes.plot``.
        points_kw : dict or None, default=None
            Passed to ``Axes.scatter``.

        Returns
        -------
        self
        """
        values, sizes = as_columns(self.values), as_columns(self.importance)
        axes = channel_axes(ax, self.channel_names, values.shape[1], sharex=True)
        when, largest = plottable(self.times), np.nanmax(sizes, initial=0.0)
        style = STYLES["truth"] | {"linewidth": 1.0}
        self.lines_, self.points_ = [], []
        points = {"cmap": "viridis_r", "vmin": 0.0, "vmax": largest or 1.0, "zorder": 4}
        for one, x, size in zip(axes, values.T, sizes.T, strict=True):
            seen = ~np.isnan(x)
            self.lines_ += draw_columns([one], (when[seen], x[seen]), style, line_kw)
            drawn = one.scatter(when[seen], x[seen], c=size[seen], **points | (points_kw or {}))
            self.points_.append(drawn)
        label_time(axes, self.times)
        if ax is None:
            for one in axes:
                one.label_outer()
        self.axes_, self.figure_ = axes, axes[0].figure
        self.colorbar_ = self.figure_.colorbar(self.points_[0], ax=list(axes), label="importance")
        return self
