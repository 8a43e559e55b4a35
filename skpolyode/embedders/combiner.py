"""What an embedder may carry to combine free runs of its model with other forecasts."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from skpolyode.panel.units import Standardised

Known = dict[str, np.ndarray]
"""What a combiner knows of n series: arrays (n, ...) by name. Nobody else looks inside."""


def take_known(known: Known, series: Any) -> Known:
    """What is known of some of the series, by an index or a mask."""
    return {name: part[series] for name, part in known.items()}


class Combiner(Protocol):
    """Combines forecasts of a model with those that it makes from what it knows of each series.

    Values are in standard deviations from the mean of their channel, times `elapsed` since the
    first observation of a series, in units of the model. `driven` (n, F) are responses to inputs,
    with F = 0 if there are none. Rows are as of `Standardised`, NaN where nothing was observed.
    What is known of a series follows from its rows alone, row by row in a stream as from all of
    them at once. Arrays keep their shapes and types, but for n.
    """

    reads_inputs: bool
    """Whether responses to inputs make a difference."""

    def start(self, n_series: int, n_channels: int) -> Known:
        """What is known of series that have not been observed."""

    def known_at(self, rows: Standardised, asked: np.ndarray) -> Known:
        """What is known of series up to some of their rows, positions (n,) that are included."""

    def updated(self, known: Known, rows: Standardised) -> Known:
        """What is known after one more row of each series."""

    def combine(
        self, given: Known, known: Known, elapsed: np.ndarray, driven: np.ndarray
    ) -> np.ndarray:
        """Forecasts (n, D) at times `elapsed` (n,), from what is known and from what is `given`.

        These are other forecasts (n, D) by name: "run", the free run of the model, always is one.
        """

    def expected_errors(self, known: Known, elapsed: np.ndarray) -> np.ndarray:
        """Expected size (n, D) of the errors of forecasts at times `elapsed` (n,)."""
