"""How much an answer changes when a part of a series is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier, is_regressor

from skpolyode.panel import Panel, as_panel, query_times
from skpolyode.panel.select import hide_cells, series_of_rows, take
from skpolyode.panel.units import read_duration

__all__ = ["observation_importance"]

_CHUNK_ROWS = 100_000  # of copies that are answered together: bounds memory
_METHODS = {
    "embedding": "transform",
    "probability": "predict_proba",
    "prediction": "predict",
    "forecast": "forecast",
}

Units = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""What is left out: a series, its first row and the row after the last, and a channel or -1."""


def observation_importance(
    estimator: Any,
    X: Any,
    *,
    what: str = "auto",
    by: Any = "observation",
    times: Any = None,
    relative_to: str | None = None,
) -> pd.DataFrame:
    """How much answers about series change when a part of them is left out.

    Each part is left out of a copy of its series, and all copies are answered in batches: a series
    of L observations costs as much as L series, in few passes. It needs no gradients and takes any
    estimator of this package, or one of scikit-learn that stands on them.

    Parameters
    ----------
    estimator : fitted estimator
        A transformer, classifier, regressor or forecaster that takes panels, or a pipeline.
    X : Panel, list of (times, values), list of DataFrames, or array
        The series.
    what : {"auto", "embedding", "probability", "prediction", "forecast"}, default="auto"
        The answer that is explained: of `transform`; the probability of the class that is most
        probable with all observations; of `predict`; or of `forecast` at `times`. "auto": the
        forecast with `times`, else the probability of a classifier, the prediction of a regressor,
        the embedding of others.
    by : {"observation", "channel"}, float, timedelta or str, default="observation"
        What is left out at a time: the value of a channel at a time; all values of a channel; or
        all values in a stretch of this length, in the units of `times` or a duration ("36h").
    times : array-like of shape (Q,), list of such or None, default=None
        Times of the forecast.
    relative_to : {"start", "end"} or None, default=None
        What `times` count from, as of `forecast`.

    Returns
    -------
    DataFrame
        A row for each part that was left out: `series`, its position in X; its `id`; the `channel`,
        None for stretches of all; `start` and `end`, the first and last time that was left out;
        `importance`, the size of the change: the Euclidean distance of embeddings, the root mean
        square of forecasts in standard deviations of their channels, else the absolute difference;
        and `effect`, by how much the answer is larger with the part than without it, where it is
        one number. Both are NaN where nothing of the series is left without the part, and where
        the answer is NaN.

    Raises
    ------
    TypeError
        If the estimator does not have the method.
    ValueError
        If a parameter or a series is not valid.

    See Also
    --------
    ImportanceDisplay : The same as a picture.
    permutation_importance : How much the score of a model depends on each channel.

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
    units = _units(panel, by)
    ask = _answers(estimator, panel, what, times, relative_to)
    whole = ask(panel, np.arange(panel.n_series))
    if what == "probability":
        best = whole.argmax(axis=1)
        whole = whole[np.arange(len(best)), best][:, None]
    effects = np.full((len(units[0]), whole.shape[1]), np.nan)
    chunk = np.cumsum(panel.lengths[units[0]]) // _CHUNK_ROWS
    for own in np.split(np.arange(len(chunk)), np.flatnonzero(np.diff(chunk)) + 1):
        if not len(own):  # no series has an observation
            break
        series = units[0][own]
        found = ask(_left_out(panel, *(column[own] for column in units)), series)
        if what == "probability":
            found = found[np.arange(len(own)), best[series]][:, None]
        effects[own] = whole[series] - found
    sizes = np.sqrt((effects**2).sum(axis=1))
    if what == "forecast":
        counts = np.diff(query_times(panel, times, relative_to)[1]) * panel.n_channels
        sizes = sizes / np.sqrt(np.maximum(counts, 1))[units[0]]
    one = whole.shape[1] == 1
    return _table(panel, units, sizes, effects[:, 0] if one else np.full(len(sizes), np.nan))


def _chosen(estimator: Any, what: str, times: Any) -> str:
    if what == "auto":
        kinds = (
            ("forecast", times is not None),
            ("probability", is_classifier(estimator)),
            ("prediction", is_regressor(estimator)),
        )
        what = next((name for name, holds in kinds if holds), "embedding")
        if what == "probability" and not hasattr(estimator, "predict_proba"):
            what = "prediction"
    if what not in _METHODS:
        raise ValueError(f"what must be 'auto' or one of {list(_METHODS)}, got {what!r}.")
    if what == "forecast" and times is None:
        raise ValueError("what='forecast' needs times: those of the forecast.")
    if not hasattr(estimator, _METHODS[what]):
        raise TypeError(
            f"what={what!r} needs an estimator with a method {_METHODS[what]}, which "
            f"{type(estimator).__name__} does not have."
        )
    return what


def _units(panel: Panel, by: Any) -> Units:
    observed, series = ~np.isnan(panel.values), series_of_rows(panel)
    if isinstance(by, str) and by == "observation":
        row, channel = np.nonzero(observed)
        return series[row], row, row + 1, channel
    if isinstance(by, str) and by == "channel":
        has = np.zeros((panel.n_series, panel.n_channels), dtype=bool)
        np.logical_or.at(has, series, observed)
        own, channel = np.nonzero(has)
        return own, panel.offsets[own], panel.offsets[own + 1], channel
    length = read_duration("by", by, panel.time_unit)
    place = np.floor(panel.elapsed / length).astype(np.int64)
    new = np.append(True, (np.diff(place) != 0) | (np.diff(series) != 0))
    start = np.flatnonzero(new)
    stop = np.append(start[1:], panel.n_observations)
    return series[start], start, stop, np.full(len(start), -1)


def _left_out(
    panel: Panel, series: np.ndarray, start: np.ndarray, stop: np.ndarray, channel: np.ndarray
) -> Panel:
    """Copies of series, each without a part."""
    first = panel.offsets[series]
    copies = take(panel, series, first, panel.offsets[series + 1])
    hidden, shift = np.zeros(copies.values.shape, dtype=bool), copies.offsets[:-1] - first
    for a, b, j in zip(start + shift, stop + shift, channel, strict=True):
        hidden[a:b, slice(None) if j < 0 else j] = True
    left = hide_cells(copies, hidden)
    return Panel.from_rows(replace(left.rows, keeps_empty=True), checked=False)


def _answers(
    estimator: Any, panel: Panel, what: str, times: Any, relative_to: str | None
) -> Callable[[Panel, np.ndarray], np.ndarray]:
    """What is asked of copies of series: answers (n, M)."""
    if what != "forecast":
        ask = getattr(estimator, _METHODS[what])
        if what == "prediction" and is_classifier(estimator):
            return lambda copies, series: _coded(estimator, ask(copies))
        return lambda copies, series: np.asarray(ask(copies), np.float64).reshape(len(copies), -1)
    flat, offsets = query_times(panel, times, relative_to)
    flat = panel.like(flat, np.zeros((len(flat), panel.n_channels)), offsets).user_times()
    asked = [flat[start:stop] for start, stop in pairwise(offsets)]
    transformer = getattr(estimator, "transformer_", estimator)
    shape = int(np.diff(offsets).max()), panel.n_channels
    return partial(_forecasts, estimator, asked, shape, transformer.scaler_.scale)


def _coded(estimator: Any, labels: np.ndarray) -> np.ndarray:
    """Indicators (n, K) of predicted classes: the distance of two is the root of 2."""
    return (np.asarray(labels)[:, None] == estimator.classes_).astype(np.float64)


def _forecasts(
    estimator: Any,
    asked: list[Any],
    shape: tuple[int, int],
    scale: np.ndarray,
    copies: Panel,
    series: np.ndarray,
) -> np.ndarray:
    """Forecasts (n, Q D) in standard deviations, zero behind the last time of a series."""
    found = estimator.forecast(copies, [asked[i] for i in series])
    values = np.zeros((len(series), *shape))
    values[np.arange(shape[0]) < found.lengths[:, None]] = found.values / scale
    return values.reshape(len(series), -1)


def _table(panel: Panel, units: Units, sizes: np.ndarray, effects: np.ndarray) -> pd.DataFrame:
    series, start, stop, channel = units
    times, names = pd.Index(panel.user_times()), np.append(panel.channel_names, None)
    return pd.DataFrame(
        {
            "series": series,
            "id": pd.Index(panel.ids, tupleize_cols=False)[series],
            "channel": names[channel],
            "start": times[start],
            "end": times[stop - 1],
            "importance": sizes,
            "effect": effects,
        }
    )
