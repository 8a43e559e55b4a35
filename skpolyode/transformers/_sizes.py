"""How large a new model is to be."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Sizes"]


class Sizes(NamedTuple):
    """What the size of a new model depends on."""

    n_channels: int
    n_static: int  # features of static covariates
    duration: float  # of the longest series, in the model's unit of time
    unit: float = 1.0  # of the model's time, in the units of `times`

    def of_state(self, hidden_size: int | str) -> int:
        """Length of a state; "auto" is that of PolyODE's coefficients, but bounds the cost."""
        if hidden_size != "auto":
            return int(hidden_size)
        return min(32 * self.n_channels, max(256, 2 * self.n_channels))

    def window(self, window: float | str) -> float:
        """Length of a remembered past in the model's unit of time, "auto" of the longest series."""
        return (self.duration or 1.0) if window == "auto" else float(window) / self.unit
