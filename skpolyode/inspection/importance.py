"""Change of an output when a part of a series is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import is_classifier, is_regressor

from skpolyode.panel import Panel, as_panel, query_times
from skpolyode.panel.durations import read_duration
from skpolyode.panel.select import hide_cells, series_of_rows, take
from skpolyode.plotting.channels import require

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
    effects, chunk = [], np.cumsum(panel.lengths[parts.series]) // _CHUNK_ROWS
    for rows in np.split(np.arange(len(chunk)), np.flatnonzero(np.diff(chunk)) + 1):
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
    require(estimator, _METHODS[what], f"what={what!r}")
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
    rows = hide_cells(copies, hidden).rows
    return Panel.from_rows(replace(rows, keeps_empty=True), checked=False)


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
