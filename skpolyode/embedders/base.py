"""What fit leaves behind: an object that turns panels into numbers, without scikit-learn."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from skpolyode.embedders.past import Past
from skpolyode.embedders.units import Units
from skpolyode.panel import Panel
from skpolyode.panel.select import observed_rows

__all__ = ["Embedder"]


class Embedder(ABC):
    """Features of checked panels, in the units that were learned.

    Estimators hold one after fit; streams, displays and forecasters take it from there. An
    embedder is not changed once it is made.

    Attributes
    ----------
    units : Units
        Between the user's units and the model's.
    past : Past or None
        How coefficients are read back, of an embedder that has any.
    """

    units: Units
    past: Past | None

    @abstractmethod
    def coefficients(self, panel: Panel) -> np.ndarray:
        """Coefficients (B, D, N) of standardised channels, at each series' last observation."""

    def features(self, panel: Panel) -> np.ndarray:
        """Features (B, F) of each series: by default its coefficients."""
        assert self.past is not None
        coefficients, rows = self.coefficients(panel), observed_rows(panel)
        flat = coefficients.reshape(len(coefficients), -1)
        return self.past.with_duration(flat, rows.start, rows.end)
