"""Plot the past of a series, reconstructed from its embedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skpolyode.panel.select import observed_part
from skpolyode.plotting.channels import (
    STYLES,
    as_columns,
    channel_axes,
    columns_of,
    draw_columns,
    label_time,
    positions_in_answers,
    read_truth,
    require,
    select_series,
)


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
        require(estimator, "reconstruct", cls.__name__)
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
