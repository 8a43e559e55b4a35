"""Displays of a fitted model: its training, and the coverage of its intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skpolyode.errors import check_share, check_shares
from skpolyode.panel import as_panel
from skpolyode.panel.query import split_at
from skpolyode.panel.rows import default_channel_names
from skpolyode.panel.views import as_label
from skpolyode.plotting.channels import (
    STYLES,
    as_columns,
    channel_positions,
    positions_in_answers,
    quantile_intervals,
    require_method,
    styled,
)


@dataclass(eq=False, repr=False)
class TrainingDisplay:
    """Validation error, training loss and learning rate over the epochs of a training.

    The error of an epoch is that of the weights before it, so that the first one is that of the
    untrained model. A point marks the weights that were kept. Do not compare error and loss: the
    loss may look further ahead, and gives large errors less weight. If the error falls until the
    last epoch, raise `max_epochs`. If it rises while the loss falls, use more series or fewer
    coefficients. If it jumps in the first epochs, lower `learning_rate_init`.

    Use `from_estimator`, or the constructor for a stored `history_`.

    Parameters
    ----------
    history : list of dict
        For each epoch ``epoch``, ``validation_error`` and, if known, ``training_loss`` and
        ``learning_rate``; as in `history_` of a trained transformer.
    best_epoch : int or None, default=None
        Epochs after which the model had the weights that were kept. None marks nothing.
    stages : mapping of str to int or None, default=None
        First epoch of each part of the training, by the name of the part. None: one part.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    axes_ : ndarray of Axes of shape (1,) or (2,)
        The axes of the errors, and that of the learning rate if it is drawn.
    error_line_ : Line2D
        The validation errors.
    loss_line_ : Line2D
        The training losses.
    rate_line_ : Line2D or None
        The learning rates; None if they are not drawn.
    best_line_ : Line2D or None
        The point of the weights that were kept.
    stage_lines_ : list of Line2D
        The start of each part but the first one, on each of the axes.

    See Also
    --------
    skpolyode.fit_report.FitReport : What `fit` decided in each part.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from skpolyode.plotting import TrainingDisplay
    >>> errors, losses = [1.2, 0.7, 0.8], [1.0, 0.6, None]
    >>> history = [
    ...     {"epoch": k, "validation_error": error, "training_loss": loss}
    ...     for k, (error, loss) in enumerate(zip(errors, losses))
    ... ]
    >>> display = TrainingDisplay(history, best_epoch=1).plot()
    >>> display.best_line_.get_xydata().tolist()
    [[1.0, 0.7]]
    >>> plt.close(display.figure_)
    """

    history: Sequence[Mapping[str, Any]]
    _: KW_ONLY
    best_epoch: int | None = None
    stages: Mapping[str, int] | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, ax: Any = None, line_kw: dict[str, Any] | None = None
    ) -> Self:
        """Draw the training of a fitted estimator.

        Parameters
        ----------
        estimator : trained transformer or PastDecoder
            The fitted estimator, with a `history_`.
        ax : Axes, array-like of Axes of shape (1,) or (2,) or None, default=None
            Where to draw: one axes for the errors, a second one for the learning rate. None: a new
            figure.
        line_kw : dict or None, default=None
            Passed to ``Axes.plot`` for the validation errors.

        Returns
        -------
        TrainingDisplay

        Raises
        ------
        TypeError
            If the estimator was not trained in epochs.

        Examples
        --------
        >>> import matplotlib.pyplot as plt
        >>> from skpolyode import PolyODETransformer
        >>> from skpolyode.plotting import TrainingDisplay
        >>> series = [([0.0, 0.4, 1.5], [1.0, 2.0, 2.0]), ([0.0, 1.2, 2.0], [0.0, 3.0, 1.0])]
        >>> model = PolyODETransformer(n_coefficients=4, max_epochs=3, random_state=0).fit(series)
        >>> display = TrainingDisplay.from_estimator(model)
        >>> display.error_line_.get_xdata().tolist()
        [0.0, 1.0, 2.0, 3.0]
        >>> plt.close(display.figure_)
        """
        if hasattr(estimator, "max_epochs"):
            check_is_fitted(estimator)
        if not hasattr(estimator, "history_"):
            raise TypeError(
                f"{cls.__name__} needs an estimator that was trained in epochs, with a history_, "
                f"which {type(estimator).__name__} does not have; of a pipeline or a search pass "
                "the fitted step itself, of a forecaster its transformer_."
            )
        report = getattr(estimator, "fit_report_", None)
        stages = None if report is None else {}
        for decision in () if report is None else report.decisions:
            if "epochs" in decision.figures:
                stages[decision.stage] = 0
            elif epochs := decision.figures.get("after_epochs"):
                stages[decision.stage] = epochs
        best = getattr(estimator, "best_epoch_", None)
        display = cls(estimator.history_, best_epoch=best, stages=stages)
        return display.plot(ax, line_kw=line_kw)

    def plot(self, ax: Any = None, *, line_kw: dict[str, Any] | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : Axes, array-like of Axes of shape (1,) or (2,) or None, default=None
            Where to draw: one axes for the errors, a second one for the learning rate. None: a new
            figure, with a legend, and with the rate if the history has it.
        line_kw : dict or None, default=None
            Passed to ``Axes.plot`` for the validation errors.

        Returns
        -------
        self
        """
        columns = ["epoch", "validation_error", "training_loss", "learning_rate"]
        table = pd.DataFrame(list(self.history), columns=columns, dtype=np.float64)  # None is NaN
        epochs, errors, losses, rates = table.to_numpy().T
        is_new = ax is None
        if is_new:
            import matplotlib.pyplot as plt

            n_axes = 1 + np.isfinite(rates).any()
            size = (7.0, 2.0 + 1.5 * n_axes)  # inches
            options = {"sharex": True, "squeeze": False, "layout": "constrained"}
            ax = plt.subplots(n_axes, 1, figsize=size, **options)[1]
        self.axes_ = np.asarray(ax, dtype=object).ravel()
        first, *others = self.axes_
        style = STYLES["line"] | {"label": "validation error"}
        loss_style = {"color": "0.6", "linewidth": 1.5, "label": "training loss"}
        (self.loss_line_,) = first.plot(epochs, losses, **loss_style)
        (self.error_line_,) = first.plot(epochs, errors, **styled(style, line_kw))
        drawn = np.concatenate([errors, losses])
        if np.all(drawn[np.isfinite(drawn)] > 0):
            first.set_yscale("log")
        first.set_ylabel("error")
        self.best_line_ = self.rate_line_ = None
        if self.best_epoch is not None:  # the weights that were kept
            point = {"color": "black", "marker": "o", "linestyle": "none", "zorder": 4}
            error = errors[self.best_epoch]
            (self.best_line_,) = first.plot([self.best_epoch], [error], label="kept", **point)
        for axes in others:
            (self.rate_line_,) = axes.plot(epochs, rates, color="C2", linewidth=1.5)
            axes.set_ylabel("learning rate")
        self._mark_stages()
        self.axes_[-1].set_xlabel("epoch")
        if is_new:
            first.legend(frameon=False)
        self.figure_ = first.figure
        return self

    def _mark_stages(self) -> None:
        """Lines between the parts of the training, with the name of each at the top."""
        stages, self.stage_lines_ = self.stages or {}, []
        if len(stages) < 2:
            return
        first = min(stages.values())
        for name, start in stages.items():
            for axes in self.axes_ if start > first else ():
                self.stage_lines_.append(axes.axvline(start, color="0.6", linestyle="--", lw=1.0))
            top = self.axes_[0].get_xaxis_transform()
            style = {"va": "bottom", "ha": "left", "fontsize": "small"}
            self.axes_[0].text(start, 1.01, name, transform=top, **style)


_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(eq=False, repr=False)
class ReliabilityDisplay:
    """The share of values within intervals against the level of the intervals.

    There is one line for each channel. Intervals are calibrated on the diagonal, too narrow below
    it and too wide above it. Use `from_estimator` or `from_predictions`, or the constructor for
    shares that you have already.

    Parameters
    ----------
    levels : array-like of shape (L,)
        Nominal coverage of the intervals, between 0 and 1.
    coverage : array-like of shape (L, D)
        Share of the values of each channel within the intervals; a vector is one channel.
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
        The line of calibrated intervals.

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

    levels: Any
    coverage: Any
    _: KW_ONLY
    channel_names: Sequence[str] | None = None

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
        """Forecast the ends of series, and draw the share of their values within the intervals.

        Parameters
        ----------
        estimator : estimator with a method `forecast_quantiles`
            The fitted forecaster.
        X : Panel, list of (times, values), list of DataFrames, or array
            Series that it was not trained on.
        cutoff : float, default=0.6
            Share of the duration of each series that the forecasts may use.
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
        require_method(estimator, "forecast_quantiles", cls.__name__)
        check_share("cutoff", cutoff)
        panel = as_panel(X)
        chosen = channel_positions(channel, panel)
        past, future = split_at(panel.since_start(), float(cutoff))
        levels = _LEVELS if levels is None else levels
        check_shares("levels", list(levels))
        leads = future.times - np.repeat(past.end, future.lengths)
        leads = np.split(leads, future.offsets[1:-1])
        answered = positions_in_answers(estimator, panel, chosen)
        intervals = quantile_intervals(estimator, past, leads, levels, answered)
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
        """Draw the share of values within their intervals.

        Parameters
        ----------
        values : array-like of shape (Q, D)
            Actual values, NaN where not known; a vector is one channel.
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
        check_shares("levels", list(intervals))
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
        is_new = ax is None
        if is_new:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=(4.5, 4.5), layout="constrained")[1]
        style = {"color": "0.6", "linewidth": 1.0, "linestyle": "--", "zorder": 1}
        (self.diagonal_,) = ax.plot([0, 1], [0, 1], label="calibrated", **style)
        self.lines_ = []
        for j, (share, name) in enumerate(zip(coverage.T, names, strict=True)):
            style = STYLES["line"] | {"color": f"C{j}", "marker": "o", "label": as_label(name)}
            self.lines_ += ax.plot(self.levels, share, **styled(style, line_kw))
        ax.set(xlabel="level", ylabel="coverage", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        if is_new:
            ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
