"""Whether inputs are known as far ahead as a forecast is asked."""

from __future__ import annotations

import warnings

import numpy as np

from skpolyode.errors import plain_repr
from skpolyode.panel import Panel, series_index
from skpolyode.panel.inputs import on_clock_of
from skpolyode.panel.select import observed_part, series_of_rows

# Rows of inputs follow each other regularly if no gap is so many times their mean: then a further
# row is due a mean gap after the last one, months of 28 days included.
_REGULAR, _DUE = 1.5, 0.9


def warn_of_unknown_inputs(
    panel: Panel, times: np.ndarray, offsets: np.ndarray, name: str = "inputs"
) -> None:
    """Warn, once a forecast, of series whose inputs end before the times that are asked.

    They end at the last observation or before, or later although their rows are regular: rows of
    changes and of impulses say that nothing happens after them. The times of each series start at
    `offsets` (B + 1,). Inputs are given as the parameter `name`.
    """
    if panel.inputs is None:
        return
    own, end = on_clock_of(panel).panel, observed_part(panel).end
    last, asked = np.full((2, panel.n_series), -np.inf)
    np.maximum.at(last, series_of_rows(own), own.times)
    np.maximum.at(asked, series_index(offsets), times)
    steady = np.array(panel.inputs.kinds) != "impulse"
    due = _due(own, ~np.isnan(own.values[:, steady]).all(axis=1))
    is_short = (asked > end) & ((last <= end) | (asked >= due))
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
    """When the next row (B,) of regular inputs is due; infinite of others."""
    series, times = series_of_rows(inputs)[known], inputs.times[known]
    count = np.bincount(series, minlength=inputs.n_series)
    gap, last = np.zeros(len(count)), np.full(len(count), -np.inf)
    np.maximum.at(last, series, times)
    inside = np.flatnonzero(np.diff(series) == 0)
    np.maximum.at(gap, series[inside], np.diff(times)[inside])
    total = np.bincount(series[inside], np.diff(times)[inside], minlength=len(count))
    mean = total / np.maximum(count - 1, 1)
    return np.where((count > 2) & (gap <= _REGULAR * mean), last + _DUE * mean, np.inf)
