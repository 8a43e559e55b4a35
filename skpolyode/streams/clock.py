"""Observation times of the series of a stream, as far as updates need them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skpolyode.panel import Panel
from skpolyode.panel.select import last_seen_rows
from skpolyode.streams.inputs import DrivenGap


class Update(NamedTuple):
    """One observation of each of n series, in the units of the model."""

    values: np.ndarray  # float64 (n, D), NaN where not observed
    mask: np.ndarray  # bool (n, D): what is observed
    seen: np.ndarray  # bool (n, D): whether the channel was observed before
    gap: np.ndarray  # float64 (n,): since the last observation; zero at the first
    channel_gap: np.ndarray  # float64 (n, D): since the last one of the channel; one if none
    elapsed: np.ndarray  # float64 (n,): since the first observation
    errors: np.ndarray | None = None  # float64 (n, D): of the values, NaN where not known
    driven_gap: DrivenGap | None = None  # the gap with its inputs, if the stream has any


class Clock(NamedTuple):
    """Observation times of B series. Elapsed times are since the start, in units of the model."""

    start: np.ndarray  # float64 (B,): first observation, in the units of `times`
    last: np.ndarray  # float64 (B,): last observation, -inf before the first
    elapsed: np.ndarray  # float64 (B,): from the first to the last
    seen_at: np.ndarray  # float64 (B, D): elapsed time of each channel's last value, or NaN
    count: np.ndarray  # int64 (B,): observations so far

    @classmethod
    def stopped(cls, n_series: int, n_channels: int) -> Clock:
        """Clock of series that have not been observed."""
        return cls(
            np.zeros(n_series),
            np.full(n_series, -np.inf),
            np.zeros(n_series),
            np.full((n_series, n_channels), np.nan),
            np.zeros(n_series, dtype=np.int64),
        )

    @classmethod
    def after(cls, panel: Panel, unit: float) -> Clock:
        """Clock of series after all of their rows; see :meth:`move` for `unit`."""
        latest = last_seen_rows(panel.values, panel.offsets)[panel.offsets[1:] - 1]
        seen_at = np.where(latest < 0, np.nan, panel.elapsed[latest] / unit)
        start, end = panel.start, panel.end
        return cls(start, end, (end - start) / unit, seen_at, panel.lengths)

    def take(self, series: Any) -> Clock:
        """Copy of the clock of the series at given positions."""
        return Clock(*(column[series] for column in self))

    def put(self, series: Any, new: Clock) -> None:
        """Overwrite the clock of the series at given positions."""
        for column, values in zip(self, new, strict=True):
            column[series] = values

    def move(
        self, times: np.ndarray, values: np.ndarray, unit: float, **beside: Any
    ) -> tuple[Clock, Update]:
        """Clock after one more observation of each series, and the resulting update.

        Parameters
        ----------
        times : float64 ndarray of shape (B,)
            Later than `last`.
        values : float64 ndarray of shape (B, D)
            NaN where not observed.
        unit : float
            The model's unit of time, in units of `times`.
        **beside : dict
            Further fields of the update: `errors` and `driven_gap`.
        """
        start = np.where(self.count == 0, times, self.start)
        elapsed = (times - start) / unit
        mask, seen = ~np.isnan(values), ~np.isnan(self.seen_at)
        channel_gap = np.where(seen, elapsed[:, None] - self.seen_at, 1.0)
        seen_at = np.where(mask, elapsed[:, None], self.seen_at)
        gaps = elapsed - self.elapsed, channel_gap, elapsed
        update = Update(values, mask, seen, *gaps, **beside)
        return Clock(start, times, elapsed, seen_at, self.count + 1), update


def kinds(columns: dict[str, Any], n_series: int | None = None) -> dict[str, tuple[Any, ...]]:
    """Shape and type of each array or tensor, with `n_series` rows if that is given."""
    return {
        name: (n_series or len(column), *column.shape[1:], column.dtype)
        for name, column in columns.items()
    }
