"""Plot the probabilities of classes along a series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from skpolyode.panel.select import observed_part
from skpolyode.plotting.channels import (
    STYLES,
    channel_axes,
    channel_positions,
    draw_columns,
    label_time,
    one_series,
    plottable,
    require,
)


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
        require(estimator, "predict_proba_path", cls.__name__)
        panel = observed_part(one_series(X, series))
        path = estimator.predict_proba_path(panel)
        chosen = channel_positions(channel, panel)
        return cls(
            panel.user_times(),
            path.values,
            values=panel.values[:, chosen],
            classes=path.channel_names,
            channel_names=[panel.channel_names[j] for j in chosen],
        ).plot(ax)

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
            axes[0].step(plottable(self.times), p, where="post", label=name)[0] for name, p in named
        ]
        axes[0].set_ylim(-0.02, 1.02)
        axes[0].legend(frameon=False)
        observed = self.times, self.values
        self.observed_lines_ = draw_columns(axes[1:], observed, STYLES["observed"])
        label_time(axes[-1:], self.times)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self
