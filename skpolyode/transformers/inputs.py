"""Inputs of the series that a fitted transformer is asked about."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from skpolyode.errors import plain_repr
from skpolyode.panel import Panel, series_index
from skpolyode.panel.inputs import on_clock_of
from skpolyode.panel.select import observed_rows, series_of_rows

__all__ = ["refuse_unused", "warn_of_unknown_inputs"]


def refuse_unused(estimator: Any, panel: Panel) -> None:
    """Raise a ValueError for inputs that the fit of a transformer, which uses them, did not have.

    Models themselves refuse series without those that it had.
    """
    if panel.inputs is None or not getattr(estimator, "uses_inputs", False):
        return
    if getattr(estimator.embedder_, "inputs", None) is None:
        raise ValueError(
            f"X has the inputs {list(panel.inputs.names)}, but {type(estimator).__name__} was "
            "fitted without any: fit it with them, or leave them out."
        )


def warn_of_unknown_inputs(panel: Panel, times: np.ndarray, offsets: np.ndarray) -> None:
    """Tell, once a forecast, of series without an input after their end that are asked beyond it.

    The times of each series start at `offsets` (B + 1,).
    """
    if panel.inputs is None:
        return
    own, end = on_clock_of(panel).panel, observed_rows(panel).end
    last, asked = np.full((2, panel.n_series), -np.inf)
    np.maximum.at(last, series_of_rows(own), own.times)
    np.maximum.at(asked, series_index(offsets), times)
    if len(unknown := np.flatnonzero((asked > end) & (last <= end))):
        first = plain_repr(panel.ids[unknown[0]])
        warnings.warn(
            f"of {len(unknown)} series, the first of which is {first}, no input is known after the "
            "last observation: what holds goes on, a line stays where it ended, and there is no "
            "further impulse. Give inputs=, or a row of inputs after the end that says so.",
            stacklevel=3,
        )
