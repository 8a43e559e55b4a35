"""Read the past of a series from its memory at the last observation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from skpolyode.embedders.batching import CHUNK_TIMES
from skpolyode.memory import Memory
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.query import name_query
from skpolyode.panel.select import observed_part
from skpolyode.panel.units import Units
from skpolyode.saving.codec import saved

_GRID_POINTS = 101  # over a whole window


@saved(window="positive inf", units="D")
@dataclass(frozen=True, eq=False)
class MemoryReadout:
    """Converts coefficients to series.

    Parameters
    ----------
    memory : Memory
        In float64, on the CPU, in the model's units.
    window : float
        Length of the remembered past, in the units of `times`; for a memory of the whole history,
        that of the longest training series.
    units : Units
        Units of the coefficients and of the memory.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import HiPPOTransformer, Panel
    >>> panel = Panel.from_series([([0.0, 0.4, 2.0], [1.0, 2.0, 0.0]), ([0.0, 2.0], [0.0, 1.0])])
    >>> embedder = HiPPOTransformer(n_coefficients=4, window=2.0).fit(panel).embedder_
    >>> past, coefficients = embedder.past, embedder.coefficients(panel)
    >>> signal = past.read(coefficients, np.array([[0.0], [0.0]]), np.array([2.0, 2.0]))
    >>> signal.shape, past.reach > 1.9
    ((2, 1, 1), True)
    """

    memory: Memory
    window: float
    units: Units

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients per channel."""
        return self.memory.n_coefficients

    @property
    def reach(self) -> float:
        """Largest age that can be read, in the units of `times`; may be infinite."""
        return self.memory.reach(self.window)

    @property
    def context(self) -> float:
        """Length of the past that a state depends on, in the units of `times`."""
        return self.memory.context * self.window

    @property
    def features(self) -> list[str]:
        """Names of the features of a series besides its coefficients."""
        return ["duration"] if self.memory.whole_history else []

    def with_duration(self, features: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Features (B, F), with the length of each history in windows appended if it is needed."""
        if not self.memory.whole_history:
            return features
        return np.column_stack([features, (end - start) / self.window])

    def check_ages(self, ages: np.ndarray, name: Callable[[int], str]) -> None:
        """Raise a ValueError that names the first age beyond the memory, if there is any."""
        late, early = ages < 0, ages > self.reach
        outside = late | early | ~np.isfinite(ages)
        if not outside.any():
            return
        first = int(np.flatnonzero(outside)[0])
        remedy = (
            "times after the last observation are for forecast"
            if late[first]
            else f"the memory reaches back window_={self.window:g}; fit with a longer window"
        )
        raise ValueError(
            f"{name(first)} relative to the last observation is outside "
            f"[-{self.window:g}, 0] ({int(outside.sum())} such times); {remedy}."
        )

    def ages_at(self, times: np.ndarray | None, shape: tuple[int, ...] | None) -> np.ndarray:
        """Ages (Q,) at relative times; None: those of an array of a `shape`, else of a grid."""
        if times is not None:
            ages = -times
        elif shape is None:
            ages = np.linspace(self.window, 0.0, _GRID_POINTS)
        else:
            ages = np.arange(shape[0] - 1, -1, -1, dtype=np.float64)
            if ages[0] > self.reach:
                raise ValueError(
                    f"the memory reaches back window_={self.window:g}, but the fitted series are "
                    f"{ages[0]:g} long: pass times within [-{self.window:g}, 0], or fit with "
                    f"window={ages[0]:g}."
                )
        self.check_ages(ages, lambda first: f"times: {-ages[first]:g}")
        return ages

    def own_times(self, panel: Panel) -> tuple[np.ndarray, np.ndarray]:
        """Times of the rows of a panel within the memory, and their offsets (B + 1,)."""
        ages = np.repeat(observed_part(panel).end, panel.lengths) - panel.times
        kept = (ages >= 0) & (ages <= self.reach)
        return panel.times[kept], offsets_from(kept)[panel.offsets]

    def read(self, coefficients: np.ndarray, ages: np.ndarray, durations: np.ndarray) -> np.ndarray:
        """Signal (B, Q, D) in the user's units.

        Parameters
        ----------
        coefficients : float64 ndarray of shape (B, D, N)
        ages : float64 ndarray of shape (B, Q)
            Time before that of the coefficients, in the units of `times`.
        durations : float64 ndarray of shape (B,)
            Lengths of the histories.
        """
        unit = self.units.time_scale
        signal = self.memory.reconstruct(
            torch.from_numpy(np.ascontiguousarray(coefficients)),
            torch.from_numpy(ages / unit),
            torch.from_numpy(durations / unit),
        )
        return self.units.scaler.inverse(signal.numpy())

    def read_features(self, features: np.ndarray, n_channels: int, ages: np.ndarray) -> np.ndarray:
        """Signal (B, Q, D) at ages (Q,), from features (B, F) that start with coefficients."""
        shape = len(features), n_channels, self.n_coefficients
        coefficients = features[:, : shape[1] * shape[2]].reshape(shape)
        durations = features[:, -1] * self.window  # used by a measure of the whole history
        return self.read(coefficients, np.tile(ages, (len(features), 1)), durations)

    def read_past(
        self,
        coefficients: np.ndarray,
        panel: Panel,
        times: np.ndarray,
        offsets: np.ndarray,
        ends: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Signal (Q, D) at times (Q,) of series, by offsets, from coefficients (B, D, N).

        `ends` (B,) are the first and last observations; None: those of the panel. Raises a
        ValueError that names the series if a time is beyond the memory.
        """
        series = series_index(offsets)
        start, end = (panel.start, panel.end) if ends is None else ends
        ages, durations = end[series] - times, (end - start)[series]
        self.check_ages(
            ages, lambda first: name_query(panel, series[first], times[first], -ages[first])
        )
        found = np.empty((len(times), coefficients.shape[1]))
        for first in range(0, len(times), CHUNK_TIMES):
            part = slice(first, first + CHUNK_TIMES)
            chunk = coefficients[series[part]], ages[part, None], durations[part]
            found[part] = self.read(*chunk)[:, 0]
        return found

    @property
    def of_differences(self) -> MemoryReadout:
        """Readout of coefficients of deviations, without the mean."""
        units = self.units._replace(scaler=self.units.scaler.of_differences)
        return replace(self, units=units)

    @property
    def forgets(self) -> bool:
        """Whether a state only depends on a bounded part of the past."""
        return math.isfinite(self.memory.context)
