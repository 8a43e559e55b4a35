"""Plot the coefficients of one series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from skpolyode.panel.select import drop_empty
from skpolyode.plotting.channels import channel_axes, positions_in_answers, select_series
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
