"""Embedders that compute coefficients from the observations, without training."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import torch

from skpolyode.embedders.base import Embedder
from skpolyode.embedders.batching import map_chunks, map_slices
from skpolyode.embedders.memory_readout import MemoryReadout
from skpolyode.embedders.paths import path_pieces, split_channels
from skpolyode.embedders.smoother import ask, rows_until
from skpolyode.memory import MEMORIES
from skpolyode.memory.pieces import remember
from skpolyode.panel import Panel, series_index
from skpolyode.panel.select import Observed, observed_rows
from skpolyode.saving.codec import saved
from skpolyode.units import ChannelScaler, Units, choose_window

__all__ = ["DirectEmbedder", "PathEmbedder"]


class DirectEmbedder(Embedder):
    """Base of embedders that know nothing but units and a window."""

    past: MemoryReadout

    @abstractmethod
    def coefficients_of(self, rows: Observed) -> np.ndarray:
        """Coefficients (B, D, N) of some series."""

    def coefficients(self, panel: Panel) -> np.ndarray:
        """Coefficients (B, D, N) of standardised channels, at each series' last observation."""
        chunks = map_chunks(lambda part: self.coefficients_of(observed_rows(part)), panel)
        return np.concatenate(chunks)

    def features(self, panel: Panel) -> np.ndarray:
        """The same, one row (F,) a series."""
        coefficients, rows = self.coefficients(panel), observed_rows(panel)
        flat = coefficients.reshape(len(coefficients), -1)
        return self.past.with_duration(flat, rows.start, rows.end)


def new_readout(
    measure: str, window: float | str, n_coefficients: int, rows: Observed
) -> MemoryReadout:
    """Units and memory of a direct embedder; its unit of time is the window."""
    # A measure of the whole history has no window; the longest one is the unit of durations.
    length = choose_window("auto" if MEMORIES[measure].whole_history else window, rows)
    units = Units(ChannelScaler.of(rows.values), length)
    return MemoryReadout(MEMORIES[measure](n_coefficients, 1.0), length, units)


@saved
@dataclass(frozen=True, eq=False)
class PathEmbedder(DirectEmbedder):
    """Remembers a path through the observations; a channel without any is at its mean.

    Parameters
    ----------
    units : Units
        The unit of time is the window.
    past : MemoryReadout
        The memory, and how it is read.
    path : str
        Name of the path, one of :data:`skpolyode.embedders.paths.KINDS`.

    Examples
    --------
    >>> from skpolyode import HiPPOTransformer, Panel
    >>> panel = Panel.from_series([([0.0, 0.4, 2.0], [1.0, 2.0, 0.0]), ([0.0, 2.0], [0.0, 1.0])])
    >>> embedder = HiPPOTransformer(n_coefficients=4, window=2.0).fit(panel).embedder_
    >>> embedder.path, embedder.coefficients(panel).shape
    ('linear', (2, 1, 4))
    """

    units: Units
    past: MemoryReadout
    path: str

    def coefficients_of(self, rows: Observed) -> np.ndarray:
        """Coefficients (B, D, N) of some series."""
        scaler, unit = self.units
        elapsed = (rows.end - rows.start) / unit
        values, times = scaler.read(rows.values), rows.times / unit
        result = np.zeros((len(elapsed), values.shape[1], self.past.n_coefficients))
        for group in split_channels(times, values, rows.series):
            first, pieces = path_pieces(self.path, group, elapsed)
            beyond_first = remember(self.past.memory, pieces, torch.from_numpy(elapsed)).numpy()
            result[:, group.channels] = beyond_first
            result[:, group.channels, 0] += first
        return result

    def path_values(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Values (Q, D) of the interpolating path at any times; beyond its ends it is held."""

        def some_values(part: slice) -> np.ndarray:
            own = offsets[part.start : part.stop + 1]
            return self._path_values(panel[part], times[own[0] : own[-1]], own - own[0])

        return np.concatenate(map_slices(some_values, panel.lengths))

    def _path_values(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        asked, rows, (scaler, unit) = ask(panel, times, offsets), observed_rows(panel), self.units
        series = series_index(offsets)
        since = (asked.times - rows.start[series]) / unit
        elapsed = (rows.end - rows.start) / unit
        values = scaler.read(rows.values)
        result = np.zeros((len(since), values.shape[1]))
        for group in split_channels(rows.times / unit, values, rows.series):
            first, pieces = path_pieces(self.path, group, elapsed)
            group_offsets = np.searchsorted(group.series, np.arange(len(elapsed) + 1))
            row = rows_until(group.times, group_offsets, since, offsets)
            after = row >= group_offsets[series]  # the channel was observed up to then
            is_last = (row + 1 == group_offsets[1:][series])[after]  # held, however far ahead
            signal, row = first[series], row[after]
            u = np.where(is_last, 0.0, since[after] - group.times[row])[:, None]
            derivatives = pieces.start.numpy()[row]
            for q in range(derivatives.shape[2]):
                signal[after] += derivatives[..., q] * u**q / math.factorial(q)
            result[:, group.channels] = signal
        return asked.keep_observed(scaler.inverse(result))
