"""Coefficients of the past that are decoded from other features."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from skpolyode.embedders.base import Embedder
from skpolyode.embedders.memory_readout import MemoryReadout
from skpolyode.panel import Panel
from skpolyode.saving.codec import saved
from skpolyode.units import Units

__all__ = ["DecodedEmbedder"]


@saved
@dataclass(frozen=True, eq=False)
class DecodedEmbedder(Embedder):
    """Coefficients that a decoder makes of the features of another embedder.

    Parameters
    ----------
    source : Embedder
        Whose features are decoded.
    center : float64 ndarray of shape (F,)
        What is subtracted from them first.
    spread : float64 ndarray of shape (F,)
        What they are divided by then.
    decoder : nn.Module
        From features (n, F) to coefficients (n, D, N), in float32 as it was trained.
    past : MemoryReadout
        How coefficients are read back.

    Examples
    --------
    >>> from skpolyode import Panel, PastDecoder, SummaryStatsTransformer
    >>> panel = Panel.from_series([([0.0, 0.4, 2.0], [1.0, 2.0, 0.0]), ([0.0, 2.0], [0.0, 1.0])])
    >>> decoder = PastDecoder(SummaryStatsTransformer(), n_coefficients=4, max_epochs=1)
    >>> embedder = decoder.fit(panel).embedder_
    >>> embedder.features(panel).shape, embedder.coefficients(panel).shape
    ((2, 4), (2, 1, 4))
    """

    source: Embedder
    center: np.ndarray
    spread: np.ndarray
    decoder: nn.Module
    past: MemoryReadout

    @property
    def units(self) -> Units:
        """Those of the other embedder."""
        return self.source.units

    @cached_property
    def exact(self) -> nn.Module:
        """The decoder in float64."""
        return copy.deepcopy(self.decoder).double().cpu()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what follows from the rest."""
        return {name: value for name, value in self.__dict__.items() if name != "exact"}

    def coefficients(self, panel: Panel) -> np.ndarray:
        """Coefficients (B, D, N) of standardised channels, at each series' last observation."""
        features = (self.source.features(panel) - self.center) / self.spread
        with torch.no_grad():
            coefficients = self.exact(torch.from_numpy(features)).numpy()
        observed = self.units.scaler.observed
        return coefficients if observed is None else coefficients * observed[:, None]

    def features(self, panel: Panel) -> np.ndarray:
        """The same, one row (D N,) a series."""
        return self.coefficients(panel).reshape(panel.n_series, -1)
