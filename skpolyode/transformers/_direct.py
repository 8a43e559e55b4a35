"""Transformers that compute coefficients from the observations, without training."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import torch

from skpolyode.memory import MEMORIES, Memory
from skpolyode.memory.pieces import remember
from skpolyode.panel import Panel
from skpolyode.transformers._auto import choose_window
from skpolyode.transformers._chunks import map_chunks
from skpolyode.transformers._input import ChannelScaler, Observed, observed_rows
from skpolyode.transformers._paths import path_pieces, split_channels
from skpolyode.transformers.base import CoefficientTransformer

__all__ = ["DirectTransformer", "PathTransformer"]


class DirectTransformer(CoefficientTransformer):
    """Base of transformers whose only fitted state is the scale of channels and the window.

    Subclasses have the parameters `n_coefficients` and `window`, and embed in `_embed`.
    """

    @abstractmethod
    def _embed(self, rows: Observed) -> np.ndarray:
        """Coefficients (B, D, N) of the standardised channels of some series."""

    def _fit(self, panel: Panel) -> None:
        rows = observed_rows(panel)
        self.scaler_ = ChannelScaler.of(rows.values)
        self.window_ = choose_window(self.window, self.measure, rows, self.n_coefficients)
        self.time_scale_ = self.window_

    def _memory(self) -> Memory:
        return MEMORIES[self.measure](self.n_coefficients, 1.0)

    def _transform(self, panel: Panel) -> np.ndarray:
        coefficients, rows = self._coefficients(panel), observed_rows(panel)
        features = coefficients.reshape(len(coefficients), -1)
        return self._with_duration(features, rows.start, rows.end)

    def _coefficients(self, panel: Panel) -> np.ndarray:
        chunks = map_chunks(lambda part: self._embed(observed_rows(part)), panel)
        return np.concatenate(chunks)


class PathTransformer(DirectTransformer):
    """Base of transformers that remember a path through the observations.

    A channel without any observation is at its mean.
    """

    @abstractmethod
    def _path(self) -> str:
        """Name of the path, one of :data:`skpolyode.transformers._paths.KINDS`."""

    def _embed(self, rows: Observed) -> np.ndarray:
        elapsed = (rows.end - rows.start) / self.time_scale_
        values, times = self.scaler_.transform(rows.values), rows.times / self.time_scale_
        memory = self._memory()
        result = np.zeros((len(elapsed), values.shape[1], self.n_coefficients))
        for group in split_channels(times, values, rows.series):
            first, pieces = path_pieces(self._path(), group, elapsed)
            beyond_first = remember(memory, pieces, torch.from_numpy(elapsed)).numpy()
            result[:, group.channels] = beyond_first
            result[:, group.channels, 0] += first
        return result
