"""Inspection of fitted models: the importance of observations, and the errors of channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from sklearn.base import is_classifier, is_regressor

from skpolyode.panel import Panel, as_panel, query_times
from skpolyode.panel.query import read_duration
from skpolyode.panel.select import hide_cells, series_chunks, series_of_rows, take
from skpolyode.panel.selection import align_to_fit
from skpolyode.plotting.channels import (
    STYLES,
    as_columns,
    channel_axes,
    columns_of,
    draw_columns,
    label_time,
    plottable,
    require_method,
    select_series,
)

_CHUNK_ROWS = 100_000  # rows of copies in one call: bounds memory
_METHODS = {
    "embedding": "transform",
    "probability": "predict_proba",
    "prediction": "predict",
    "forecast": "forecast",
}


class LeftOut(NamedTuple):
    """Parts to leave out of K copies of series."""

    series: np.ndarray  # int64 (K,): position of the series
    start: np.ndarray  # int64 (K,): first row
    stop: np.ndarray  # int64 (K,): row after the last
    channel: np.ndarray  # int64 (K,): position of the channel, or -1 for all


def observation_importance(
    estimator: Any,
    X: Any,
    *,
    what: str = "auto",
    by: Any = "observation",
    times: Any = None,
    relative_to: str | None = None,
) -> pd.DataFrame:
    """Change of the output of an estimator when a part of a series is left out.

    Each part is left out of a copy of its series, and the estimator gets all copies in batches: a
    series of L observations costs as much as L series. It needs no gradients, and works with any
    estimator of this package, or a scikit-learn pipeline with one.

    Parameters
    ----------
    estimator : fitted estimator
        A transformer, classifier, regressor or forecaster that takes panels, or a pipeline.
    X : Panel, list of (times, values), list of DataFrames, or array
        The series.
    what : {"auto", "embedding", "probability", "prediction", "forecast"}, default="auto"
        The output to explain: "embedding" of `transform`; "probability" of the class that is most
        probable with all observations; "prediction" of `predict`; or "forecast" at `times`. "auto":
        the forecast if `times` is given, else the probability of a classifier, the prediction of a
        regressor, or the embedding of other estimators.
    by : {"observation", "channel"}, float, timedelta or str, default="observation"
        What to leave out. "observation": the value of one channel at one time. "channel": all
        values of a channel. A number, in the units of `times`, or a duration such as "36h": all
        values in a period of this length.
    times : array-like of shape (Q,), list of such or None, default=None
        Times of the forecast, the same number for each series.
    relative_to : {"start", "end"} or None, default=None
        What `times` count from, as in `forecast`.

    Returns
    -------
    DataFrame
        A row for each part that was left out: `series`, its position in X; its `id`; the `channel`,
        None for periods; `start` and `end`, the first and last time that was left out;
        `importance`, the size of the change: the Euclidean distance of embeddings, the root mean
        square change of forecasts in standard deviations of their channels, else the absolute
        difference; and `effect`, the output with the part minus the output without it, if it is one
        number. Both are NaN if the part is the whole series, or if the output is NaN.

    Raises
    ------
    TypeError
        If the estimator does not have the method.
    ValueError
        If a parameter or a series is not valid.

    See Also
    --------
    ImportanceDisplay : Plots the importance.

    Examples
    --------
    >>> from skpolyode import HiPPOTransformer
    >>> from skpolyode.inspection import observation_importance
    >>> series = [([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 9.0])]
    >>> model = HiPPOTransformer(n_coefficients=4).fit(series)
    >>> table = observation_importance(model, series)
    >>> int(table["importance"].argmax()), bool(table["importance"][1] < 1e-12)  # on the line
    (3, True)
    """
    what = _chosen(estimator, what, times)
    panel = as_panel(X)
    parts, ask = _parts(panel, by), _answers(estimator, panel, what, times, relative_to)
    whole = ask(panel, np.arange(panel.n_series))
    best = whole.argmax(axis=1)[:, None]
    effects = []
    for rows in series_chunks(panel.lengths[parts.series], _CHUNK_ROWS):
        batch = LeftOut(*(column[rows] for column in parts))
        changes = whole[batch.series] - ask(_left_out(panel, batch), batch.series)
        if what == "probability":
            changes = np.take_along_axis(changes, best[batch.series], axis=1)
        effects.append(changes)
    change = np.concatenate(effects)
    size = np.linalg.norm(change, axis=1)
    if what == "forecast":
        size = size / np.sqrt(change.shape[1])
    times, names = pd.Index(panel.user_times()), np.append(panel.channel_names, None)
    return pd.DataFrame(
        {
            "series": parts.series,
            "id": pd.Index(panel.ids, tupleize_cols=False)[parts.series],
            "channel": names[parts.channel],
            "start": times[parts.start],
            "end": times[parts.stop - 1],
            "importance": size,
            "effect": change[:, 0] if change.shape[1] == 1 else np.nan,
        }
    )


def _chosen(estimator: Any, what: str, times: Any) -> str:
    if what == "auto" and times is not None:  # forecasters have no scikit-learn tags
        what = "forecast"
    elif what == "auto":
        what = "prediction" if is_regressor(estimator) else "embedding"
        what = "probability" if is_classifier(estimator) else what
    if what not in _METHODS:
        raise ValueError(f"what must be 'auto' or one of {list(_METHODS)}, got {what!r}.")
    if what == "forecast" and times is None:
        raise ValueError("what='forecast' needs times: those of the forecast.")
    require_method(estimator, _METHODS[what], f"what={what!r}")
    return what


def _parts(panel: Panel, by: Any) -> LeftOut:
    observed, series = ~np.isnan(panel.values), series_of_rows(panel)
    if not observed.any():
        raise ValueError("X has no observation: there is nothing to leave out.")
    if isinstance(by, str) and by == "observation":
        row, channel = np.nonzero(observed)
        return LeftOut(series[row], row, row + 1, channel)
    if isinstance(by, str) and by == "channel":
        has = np.zeros((panel.n_series, panel.n_channels), dtype=bool)
        np.logical_or.at(has, series, observed)
        series, channel = np.nonzero(has)
        return LeftOut(series, panel.offsets[series], panel.offsets[series + 1], channel)
    name = "by, if not 'observation' or 'channel',"
    place = np.floor(panel.elapsed / read_duration(name, by, panel.time_unit))
    start = np.flatnonzero(np.append(True, (np.diff(place) != 0) | (np.diff(series) != 0)))
    stop = np.append(start[1:], panel.n_observations)
    return LeftOut(series[start], start, stop, np.full(len(start), -1))


def _left_out(panel: Panel, parts: LeftOut) -> Panel:
    """Copies of series, each without a part."""
    first = panel.offsets[parts.series]
    copies = take(panel, parts.series, first, panel.offsets[parts.series + 1])
    hidden, shift = np.zeros(copies.values.shape, dtype=bool), copies.offsets[:-1] - first
    for move, (_, start, stop, channel) in zip(shift, zip(*parts, strict=True), strict=True):
        chosen = slice(None) if channel < 0 else channel
        hidden[start + move : stop + move, chosen] = True
    return hide_cells(copies, hidden, keeps_empty=True)


def _answers(
    estimator: Any, panel: Panel, what: str, times: Any, relative_to: str | None
) -> Callable[[Panel, np.ndarray], np.ndarray]:
    """Function that returns the outputs (n, M) for n copies of series."""
    ask, query, scale = getattr(estimator, _METHODS[what]), None, 1.0
    if what == "forecast":
        flat, offsets = query_times(panel, times, relative_to)
        if len(np.unique(np.diff(offsets))) > 1:
            raise ValueError(
                "times must have the same number for each series, and X must have no empty series."
            )
        rows = panel.like(flat, np.zeros((len(flat), panel.n_channels)), offsets)
        query = [t for t, _ in rows.to_series()]
        scale = getattr(estimator, "transformer_", estimator).scaler_.scale

    def answers(copies: Panel, series: np.ndarray) -> np.ndarray:
        found = ask(copies) if query is None else ask(copies, [query[i] for i in series]).values
        return (np.asarray(found, dtype=np.float64) / scale).reshape(len(series), -1)

    return answers


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


def channel_errors(transformer: Any, X: Any) -> pd.DataFrame:
    """One-step forecast errors of each channel, and those of the others with it hidden.

    A faulty channel also spoils the forecasts of the others, which depend on it: its errors need
    not be the largest. So each channel is hidden in turn. If the errors of the others then become
    much smaller, the channel misled the model.

    Parameters
    ----------
    transformer : fitted transformer with a method `residuals`
        It computes residuals once per channel, and once more.
    X : Panel, list of (times, values), list of DataFrames, or array
        The series; use many, so that medians over series are reliable.

    Returns
    -------
    DataFrame
        A row for each series and channel: `series`, its position in X; its `id`; the `channel`;
        `error`, the root mean square of its one-step errors; `usual`, the median of `error` over
        all series; `others`, the root mean square over all other channels; `others_without`, the
        same with this channel hidden; all in standard deviations of the channels. `repeats` is the
        share of readings that equal the previous one. NaN where there is nothing to compare.

    Raises
    ------
    TypeError
        If the transformer gives no residuals.

    See Also
    --------
    observation_importance : How much outputs change without a channel.

    Examples
    --------
    >>> from skpolyode import PolyODETransformer
    >>> from skpolyode.datasets import make_lorenz63
    >>> from skpolyode.inspection import channel_errors
    >>> panel = make_lorenz63(6, random_state=0).panel
    >>> model = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0).fit(panel)
    >>> table = channel_errors(model, panel)
    >>> len(table), table.columns[-3:].tolist()
    (12, ['others', 'others_without', 'repeats'])
    """
    require_method(transformer, "residuals", "channel_errors")
    panel = align_to_fit(as_panel(X), transformer)
    whole, columns = _squares(transformer, panel), []
    with np.errstate(invalid="ignore"):  # 0 / 0 where nothing is forecast
        error = np.sqrt(whole[0] / whole[1])
        for j in range(panel.n_channels):
            parts = (*whole, *_squares(transformer, panel, j))
            others, n, without, m = (np.delete(part, j, axis=1).sum(axis=1) for part in parts)
            columns.append((np.sqrt(others / n), np.sqrt(without / m)))
        # Shares (B, D) of readings that equal the previous one of the channel.
        series, values = series_of_rows(panel), pd.DataFrame(panel.values)
        before = values.groupby(series).ffill().groupby(series).shift()
        same, pairs = (values == before).to_numpy(), (values.notna() & before.notna()).to_numpy()
        repeats = _sums(panel, same) / _sums(panel, pairs)
    beside = np.array(columns).transpose(1, 2, 0)  # (2, B, D)
    return pd.DataFrame(
        {
            "series": np.repeat(np.arange(panel.n_series), panel.n_channels),
            "id": pd.Index(panel.ids, tupleize_cols=False).repeat(panel.n_channels),
            "channel": np.tile(panel.channel_names, panel.n_series),
            "error": error.ravel(),
            "usual": np.tile(pd.DataFrame(error).median(), panel.n_series),
            "others": beside[0].ravel(),
            "others_without": beside[1].ravel(),
            "repeats": repeats.ravel(),
        }
    )


def _squares(
    transformer: Any, panel: Panel, hidden: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Sums (B, D) of squared standardised errors, and their counts, with one channel hidden."""
    left = hide_cells(panel, np.arange(panel.n_channels) == hidden, keeps_empty=True)
    errors = transformer.residuals(left).values / transformer.scaler_.scale
    return _sums(panel, errors**2), _sums(panel, ~np.isnan(errors))


def _sums(panel: Panel, cells: np.ndarray) -> np.ndarray:
    """Sums (B, D) of cells over the rows of each series; NaN counts as zero."""
    sums = np.zeros((panel.n_series, panel.n_channels))
    np.add.at(sums, series_of_rows(panel), np.nan_to_num(cells))
    return sums
