"""Embedders that compute coefficients from the observations, without training."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import torch

from skpolyode.embedders.base import Embedder
from skpolyode.embedders.chunks import map_chunks
from skpolyode.embedders.past import Past
from skpolyode.embedders.paths import path_pieces, split_channels
from skpolyode.embedders.units import ChannelScaler, Units, choose_window
from skpolyode.memory import MEMORIES
from skpolyode.memory.pieces import remember
from skpolyode.panel import Panel
from skpolyode.panel.select import Observed, observed_rows
from skpolyode.saving.codec import saved

__all__ = ["DirectEmbedder", "PathEmbedder"]


class DirectEmbedder(Embedder):
    """Base of embedders that know nothing but units and a window."""

    past: Past

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


def new_past(measure: str, window: float | str, n_coefficients: int, rows: Observed) -> Past:
    """Units and memory of a direct embedder; its unit of time is the window."""
    length = choose_window(window, measure, rows, n_coefficients)
    units = Units(ChannelScaler.of(rows.values), length)
    return Past(MEMORIES[measure](n_coefficients, 1.0), length, units)


@saved
@dataclass(frozen=True, eq=False)
class PathEmbedder(DirectEmbedder):
    """Remembers a path through the observations; a channel without any is at its mean.

    Parameters
    ----------
    units : Units
        The unit of time is the window.
    past : Past
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
    past: Past
    path: str

    def coefficients_of(self, rows: Observed) -> np.ndarray:
        """Coefficients (B, D, N) of some series."""
        scaler, unit = self.units
        elapsed = (rows.end - rows.start) / unit
        values, times = scaler.transform(scaler.known(rows.values)), rows.times / unit
        result = np.zeros((len(elapsed), values.shape[1], self.past.n_coefficients))
        for group in split_channels(times, values, rows.series):
            first, pieces = path_pieces(self.path, group, elapsed)
            beyond_first = remember(self.past.memory, pieces, torch.from_numpy(elapsed)).numpy()
            result[:, group.channels] = beyond_first
            result[:, group.channels, 0] += first
        return result
