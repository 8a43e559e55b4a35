"""Base of fitted objects that turn panels into numbers, without scikit-learn."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch

from skpolyode.embedders.inputs import InputEncoder
from skpolyode.embedders.memory_readout import MemoryReadout
from skpolyode.panel import Panel
from skpolyode.panel.units import Units


class Embedder(ABC):
    """Features of checked panels, in the units that were learned.

    All rows of the panels hold an observation (`Panel.is_observed`): others are dropped on input.

    Estimators create one in `fit`; streams, displays and forecasters use it. Only a fit trains the
    model of an embedder, and only `to` moves it; everything else makes a new embedder.

    Attributes
    ----------
    units : Units
        Conversion between the user's units and the model's.
    past : MemoryReadout or None
        Converts coefficients to series; None without coefficients.
    inputs : InputEncoder or None
        Encodes inputs; None if the embedder uses none.

    Examples
    --------
    >>> from skpolyode import HiPPOTransformer, Panel
    >>> panel = Panel.from_series([([0.0, 0.4, 2.0], [1.0, 2.0, 0.0]), ([0.0, 2.0], [0.0, 1.0])])
    >>> embedder = HiPPOTransformer(n_coefficients=4, window=2.0).fit(panel).embedder_
    >>> embedder.features(panel).shape, embedder.coefficients(panel).shape
    ((2, 4), (2, 1, 4))
    """

    units: Units
    past: MemoryReadout | None
    inputs: InputEncoder | None = None
    device = torch.device("cpu")
    """Device of the computations."""

    @abstractmethod
    def features(self, panel: Panel) -> np.ndarray:
        """Features (B, F) of each series, at its last observation."""

    def coefficients(self, panel: Panel) -> np.ndarray:
        """Coefficients (B, D, N) of standardised channels, if the embedder has any."""
        raise NotImplementedError(f"{type(self).__name__} has no coefficients.")

    def path_values(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Values (Q, D) of the path through all observations, if the embedder follows one.

        Parameters
        ----------
        panel : Panel
            The series.
        times : float64 ndarray of shape (Q,)
            Times in any order; before the first observation of a series, its path is constant.
        offsets : int64 ndarray of shape (B + 1,)
            Where the times of each series start and those of the last one end.
        """
        raise NotImplementedError(f"{type(self).__name__} follows no path.")
