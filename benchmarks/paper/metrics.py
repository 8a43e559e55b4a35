"""Errors in the past and in the future of the test series, of the simulated sets."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from benchmarks.protocol import PAPER_WINDOW, held_out_truth, past_errors
from skpolyode.panel.select import take
from skpolyode.transformers.neural import NeuralTransformer

AGES = range(1, 1 + int(PAPER_WINDOW))  # units of time before the end
CONDITION = 5.0  # time up to which series are known that are forecast
HORIZONS = (1, 2, 5)  # units of time after it


def past_metrics(reader: Any, data: Bunch, name: str) -> dict[str, float]:
    """MSE at times that were not observed, in units of the variance of the channel.

    The mean over the last window, the median of the means of all series, and such medians for each
    unit of time before the end.
    """
    test = np.asarray(data.split) == "test"
    panel, scale = data.panel[test], data.panel.values.std(axis=0)
    targets = held_out_truth(data, test)
    squares, series, ages = past_errors(reader, panel, targets, scale, PAPER_WINDOW)
    squares = squares.mean(axis=1)
    found = {f"{name}_mse": float(squares.mean()), f"{name}_median": _median(squares, series)}
    for end in AGES:
        inside = (ages > end - 1) & (ages <= end)
        found[f"{name}_median_{end}"] = _median(squares[inside], series[inside])
    return found


def _median(squares: np.ndarray, series: np.ndarray) -> float:
    """Median over the series of their mean; NaN without any."""
    counts = np.bincount(series)
    means = np.bincount(series, squares)[counts > 0] / counts[counts > 0]
    return float(np.median(means)) if len(means) else float("nan")


def horizon_metrics(model: Any, data: Bunch) -> dict[str, float]:
    """MSE of forecasts from `CONDITION` on, up to each of `HORIZONS`, at all times of the truth.

    In units of the variance of the channel, over the test series that have been observed by then.
    Of a neural model also those of its free run, without the simple forecasts beside it.
    """
    test = np.asarray(data.split) == "test"
    panel, truth = data.panel[test], data.truth
    early = np.append(0, (panel.times <= CONDITION).cumsum())
    n_known = np.diff(early[panel.offsets])
    asked = np.flatnonzero(n_known)
    start = panel.offsets[asked]
    known = take(panel, asked, start, start + n_known[asked])
    ahead = (truth.times > CONDITION) & (truth.times <= CONDITION + max(HORIZONS))
    values = truth.values[test][asked][:, ahead][:, :, truth.observed]
    since, scale = truth.times[ahead] - CONDITION, data.panel.values.std(axis=0)
    options = {"forecast": {}}
    if isinstance(model, NeuralTransformer):
        options["free_run"] = {"combine": False}
    errors = {}
    for name, option in options.items():
        found = model.forecast(known, truth.times[ahead], **option).values.reshape(values.shape)
        squares = ((found - values) / scale) ** 2
        for end in HORIZONS:
            errors[f"{name}_{end}_mse"] = float(squares[:, since <= end].mean())
    return errors
