"""Units of a panel: standard deviations of its values, and gaps between its rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skpolyode import Panel


class Units(NamedTuple):
    """Moments (D,) of the training part."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, panel: Panel) -> Units:
        scale = np.nanstd(panel.values, axis=0)
        return cls(np.nanmean(panel.values, axis=0), np.where(scale > 0, scale, 1.0))

    def standardised(self, panel: Panel) -> Panel:
        return panel.like(panel.times, (panel.values - self.mean) / self.scale, panel.offsets)


def gaps(panel: Panel) -> np.ndarray:
    """Times between the rows of a series, of all series."""
    inner = np.ones(panel.n_observations, dtype=bool)
    inner[panel.offsets[:-1]] = False
    return np.diff(panel.times, prepend=0.0)[inner]
