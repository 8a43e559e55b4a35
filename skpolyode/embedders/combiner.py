"""What an embedder may carry to combine free runs of its model with other forecasts."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np

from skpolyode.panel.units import Standardised


class Known(Protocol):
    """What a combiner knows of n series; nobody else looks inside."""

    def __getitem__(self, key: Any) -> Self:
        """The same of some series."""

    def pack(self) -> np.ndarray:
        """One array (n, D, K), for streams to hold."""


class Combiner(Protocol):
    """Combines forecasts of a model with those that it makes from what it knows of each series.

    Values are in standard deviations from the mean of their channel, times `elapsed` since the
    first observation of a series, in units of the model. `driven` (n, F) are responses to inputs,
    with F = 0 if there are none. What is known of a series follows from its rows alone, row by row
    in a stream as from all of them at once.
    """

    reads_inputs: bool
    """Whether responses to inputs make a difference."""

    def start(self, n_series: int, n_channels: int, n_driven: int) -> Known:
        """What is known of series that have not been observed."""

    def known_at(
        self, rows: Standardised, offsets: np.ndarray, asked: np.ndarray, driven: np.ndarray
    ) -> Known:
        """What is known up to some rows (n,), with responses at all rows."""

    def updated(
        self,
        known: Any,
        elapsed: np.ndarray,
        values: np.ndarray,
        mask: np.ndarray,
        driven: np.ndarray,
    ) -> Known:
        """What is known after one more observation of each series, values (n, D) where `mask`."""

    def unpack(self, packed: np.ndarray, n_driven: int) -> Known:
        """What `Known.pack` has packed."""

    def combine(
        self,
        run: np.ndarray,
        known: Any,
        elapsed: np.ndarray,
        driven: np.ndarray,
        structural: np.ndarray | None = None,
    ) -> np.ndarray:
        """Forecasts (n, D) at times `elapsed` (n,), from free runs (n, D) and what is known."""

    def expected_errors(self, known: Any, elapsed: np.ndarray) -> np.ndarray:
        """Expected size (n, D) of the errors of forecasts."""
