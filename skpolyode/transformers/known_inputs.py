"""Warnings of inputs that end before the forecast times."""

from __future__ import annotations

import warnings

import numpy as np

from skpolyode.errors import plain_repr
from skpolyode.panel import Panel, series_index
from skpolyode.panel.inputs import on_clock_of
from skpolyode.panel.select import observed_part, series_of_rows

# Rows of inputs are regular if no gap exceeds _REGULAR mean gaps. The next row is then due after
# _DUE mean gaps, which allows for months of 28 days.
_REGULAR, _DUE = 1.5, 0.9


def warn_of_unknown_inputs(
    panel: Panel, times: np.ndarray, offsets: np.ndarray, name: str = "inputs"
) -> None:
    """Warn, once per forecast, of series whose inputs end before the query times.

    That is, at or before the last observation, or later if their rows are regular. Irregular rows
    and impulses mean that nothing changes after them. The times of each series start at `offsets`
    (B + 1,). `name` is the parameter that takes inputs.
    """
    if panel.inputs is None:
        return
    inputs, end = on_clock_of(panel).panel, observed_part(panel).end
    last, latest = np.full((2, panel.n_series), -np.inf)
    np.maximum.at(last, series_of_rows(inputs), inputs.times)
    np.maximum.at(latest, series_index(offsets), times)
    steady = np.array(panel.inputs.kinds) != "impulse"
    due = _due(inputs, ~np.isnan(inputs.values[:, steady]).all(axis=1))
    is_short = (latest > end) & ((last <= end) | (latest >= due))
    if len(unknown := np.flatnonzero(is_short)):
        none = (last <= end)[unknown].any()
        what = "no input is known after the last observation" if none else "inputs end too early"
        remedy = ", or add a row of inputs after the last observation" if none else " up to the end"
        warnings.warn(
            f"of {len(unknown)} series, the first of which is {plain_repr(panel.ids[unknown[0]])}, "
            f"{what}: inputs keep their last values, and there are no further impulses. Give "
            f"{name}={remedy}.",
            stacklevel=3,
        )


def _due(inputs: Panel, known: np.ndarray) -> np.ndarray:
    """Times (B,) at which the next row of regular inputs is due; infinite for other inputs."""
    series, times = series_of_rows(inputs)[known], inputs.times[known]
    count = np.bincount(series, minlength=inputs.n_series)
    gap, last = np.zeros(len(count)), np.full(len(count), -np.inf)
    np.maximum.at(last, series, times)
    inside = np.flatnonzero(np.diff(series) == 0)
    np.maximum.at(gap, series[inside], np.diff(times)[inside])
    total = np.bincount(series[inside], np.diff(times)[inside], minlength=len(count))
    mean = total / np.maximum(count - 1, 1)
    return np.where((count > 2) & (gap <= _REGULAR * mean), last + _DUE * mean, np.inf)
