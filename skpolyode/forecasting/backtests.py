"""Forecasts of known rows from the rows before them, in the units of a model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skpolyode.ensemble.backtest import backtest_from, rolling_origins
from skpolyode.ensemble.decompose import Decomposition
from skpolyode.ensemble.error_scale import spreads_at
from skpolyode.ensemble.ridge import Sample
from skpolyode.ensemble.stacking import Backtest
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.select import series_of_rows
from skpolyode.structural.averaging import StructuralForecasts, StructuralModels
from skpolyode.transformers.neural import NeuralTransformer

__all__ = ["Drawn", "drawn", "in_units", "spreads_of", "tried", "tried_simply"]

_LEAST = 1e-6  # error that is expected, in standard deviations of the channel


class Drawn(NamedTuple):
    """O origins and the M + O rows that are asked from them, the first of each its own."""

    panel: Panel
    origins: np.ndarray  # (O,)
    rows: np.ndarray  # (M + O,)
    counts: np.ndarray  # (O,)
    past: Panel  # what is left of the rows up to each origin
    last: np.ndarray  # (O,): rows of the origins there
    base: np.ndarray  # (M + O, D): what was taken out
    scale: np.ndarray  # (M + O, D)


def drawn(
    embedder: NeuralTransformer,
    adjustment: Decomposition,
    panel: Panel,
    rng: np.random.RandomState,
    earliest: np.ndarray | None,
) -> Drawn:
    """Draw origins; see `rolling_origins`."""
    origins, rows, counts = rolling_origins(embedder.embedder_, panel, rng, earliest)
    if adjustment.is_none or not len(origins):
        nothing = np.zeros((len(rows), panel.n_channels))
        return Drawn(panel, origins, rows, counts, panel, origins, nothing, nothing + 1.0)
    adjusted = adjustment.remove(panel, origins)
    back = adjusted.of(np.repeat(np.arange(len(origins)), counts))
    base, last = adjustment.base(back, panel.times[rows]), adjusted.panel.offsets[1:] - 1
    return Drawn(panel, origins, rows, counts, adjusted.panel, last, base, back.scale)


def tried(
    embedder: NeuralTransformer, asked: Drawn, sample: Sample | None = None
) -> tuple[Backtest, np.ndarray]:
    """Trials, each of what is left of the rows up to its origin, and spreads (M, D, 2) there.

    Regressions learn from the `sample`.
    """
    own, panel, rows = embedder.embedder_, asked.panel, asked.rows
    actual = own.units.scaler.read((panel.values[rows] - asked.base) / asked.scale)
    targets = asked.counts, panel.times[rows], actual, series_of_rows(panel)[rows]
    spreads = spreads_of(embedder, asked.past, asked.last)
    spreads = np.repeat(spreads, np.maximum(asked.counts - 1, 0), axis=0)
    return backtest_from(own, asked.past, asked.last, *targets, sample), spreads


def tried_simply(
    embedder: NeuralTransformer, structure: StructuralModels, asked: Drawn
) -> tuple[np.ndarray, np.ndarray]:
    """Forecasts (M, D) of the same by the structure of the series, and their expected errors."""
    own = asked.origins, asked.panel.times[asked.rows], asked.counts
    found = in_units(embedder, structure.forecast_from(asked.panel, *own), asked.base, asked.scale)
    first = offsets_from(asked.counts)[:-1]
    simple, expected = (np.delete(column, first, axis=0) for column in found)
    return simple, expected


def in_units(
    embedder: NeuralTransformer, found: StructuralForecasts, shift: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Forecasts (Q, D) by structure and their expected errors, as the model counts.

    Errors are in standard deviations of the channel where nothing is expected.
    """
    simple = embedder.embedder_.units.scaler.read((found.means - shift) / scale)
    expected = found.deviations / scale / embedder.scaler_.scale
    return simple, np.where(np.isnan(expected), 1.0, np.maximum(expected, _LEAST))


def spreads_of(embedder: NeuralTransformer, panel: Panel, rows: np.ndarray) -> np.ndarray:
    """Spreads (n, D, 2) of series up to some rows."""
    return spreads_at(embedder.embedder_.standardised(panel).values, panel.offsets, rows)
