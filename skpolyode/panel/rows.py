"""The flat rows that a panel stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.panel.timeaxis import MICROSECONDS, TimeAxis, Times, to_ticks

_NEAR_TICK = 1e-3  # ticks that rounding may move a time between them


@dataclass(frozen=True)
class Rows:
    """Everything that a panel stores: rows of all series one after the other, and labels."""

    times: np.ndarray
    values: np.ndarray
    offsets: np.ndarray
    axis: TimeAxis
    ids: np.ndarray | None = None
    channel_names: tuple[str, ...] | None = None
    # Whether somebody gave the channels their names, or they are x0, x1, ... for want of any.
    has_channel_names: bool = False
    static: pd.DataFrame | None = None
    # Places in the input of the series that were kept; None: all of them.
    positions: np.ndarray | None = None
    n_broken: int = 0
    # Exact times, int64 (n_obs,) in ticks of 1 / per_unit; None where the float64 are all there is.
    ticks: np.ndarray | None = None
    per_unit: int = 1
    # Whether series without any observation are there on purpose.
    keeps_empty: bool = False
    # Of a panel seen from its start: the ticks (n_series,) from which `times` are counted.
    origin: np.ndarray | None = None

    @classmethod
    def of(cls, times: Times, values: np.ndarray, offsets: np.ndarray, **labels: Any) -> Rows:
        """Rows at times as the readers give them."""
        return cls(
            times.counts,
            values,
            offsets,
            times.axis,
            ticks=times.ticks,
            per_unit=times.per_unit,
            **labels,
        )

    def at(self, index: Any, offsets: np.ndarray) -> Rows:
        """These rows of mine, in this order, as the rows of series with these offsets."""
        return replace(
            self,
            times=self.times[index],
            values=self.values[index],
            offsets=offsets,
            ticks=None if self.ticks is None else self.ticks[index],
        )

    @property
    def order(self) -> np.ndarray:
        """Something that rises as the times do, however close they are."""
        return self.times if self.ticks is None else self.ticks

    @property
    def elapsed(self) -> np.ndarray:
        """Times since the first row of the series, float64 (n_obs,), of exact differences."""
        if len(self.times) == 0:
            return self.times
        first = np.minimum(self.offsets[:-1], len(self.times) - 1)  # of series without rows, any
        if self.ticks is None:
            with np.errstate(over="ignore"):  # which the checks tell
                return self.times - np.repeat(self.times[first], self.lengths)
        since = (self.ticks - np.repeat(self.ticks[first], self.lengths)) / self.per_unit
        return np.where(np.isnan(self.times), np.nan, since)

    def format_time(self, row: int) -> str:
        """Return the time of a row as text."""
        if self.ticks is None or self.axis.unit is None or np.isnan(self.times[row]):
            return self.axis.format(self.times[row])
        return str(self.axis.of_ticks(self.ticks[row : row + 1], self._per_us)[0])

    def since_start(self) -> Rows:
        """These rows with times counted from the first row of each series, where ticks tell it."""
        if self.ticks is None or self.origin is not None:
            return self
        first = np.minimum(self.offsets[:-1], max(len(self.ticks) - 1, 0))
        origin = self.ticks[first] if len(self.ticks) else np.zeros(len(first), dtype=np.int64)
        return replace(self, times=self.elapsed, origin=origin)

    def since_origin(self, times: Times, origin: np.ndarray) -> np.ndarray:
        """Count other times from the origins (...,) of some of these series, in their units."""
        if times.ticks is not None:
            factor = max(times.per_unit // self.per_unit, 1)
            whole, rest = np.divmod(times.ticks, factor)
            whole = whole * max(self.per_unit // times.per_unit, 1)
            rest = rest / factor
        elif self.axis.unit is not None:
            whole, rest = to_ticks(times.counts, self.axis.unit, self._per_us), 0.0
        else:
            ticks = times.counts * self.per_unit
            whole = np.floor(ticks)
            whole, rest = whole.astype(np.int64), ticks - whole
        return ((whole - origin) + rest) / self.per_unit

    def format_from(self, series: int, time: float) -> str:
        """Return a time as text that counts from the origin of a series, if it has one."""
        if self.origin is not None:
            own = self.since_1970(np.array([time]), self.origin[[series]])
            if own.ticks is not None and self.axis.unit is not None:
                return str(self.axis.of_ticks(own.ticks, self._per_us)[0])
            time = float(own.counts[0])
        return self.axis.format(time)

    def since_1970(self, times: np.ndarray, origin: np.ndarray) -> Times:
        """Turn times that count from their origins (n_obs,) into those of the user."""
        ticks = times * self.per_unit
        whole = np.rint(ticks)
        rounded = np.maximum(_NEAR_TICK, 4e-16 * np.abs(ticks))
        exact = np.isfinite(ticks) & (np.abs(ticks - whole) <= rounded)
        own = origin + np.where(exact, whole, 0.0).astype(np.int64)
        counts = np.where(exact, own / self.per_unit, origin / self.per_unit + times)
        return Times(counts, self.axis, own if exact.all() else None, self.per_unit)

    @property
    def user_times(self) -> np.ndarray | pd.DatetimeIndex:
        """Times in the user's type."""
        if self.ticks is None:
            return self.axis.to_user(self.times)
        if self.axis.unit is not None:
            return self.axis.of_ticks(self.ticks, self._per_us)
        # Timedeltas become plain numbers; whole numbers stay what they were.
        return self.ticks if self.per_unit == 1 else self.times

    @property
    def _per_us(self) -> int:
        return self.per_unit // MICROSECONDS[self.axis.unit]

    @property
    def n_input(self) -> int:
        """Series of the input, kept or not."""
        return len(self.offsets) - 1 + self.n_broken

    @property
    def lengths(self) -> np.ndarray:
        """Rows of each series."""
        return np.diff(self.offsets)

    def series_of(self, row: int) -> int:
        """Return the place, in the input, of the series that a row belongs to."""
        return self.position(int(np.searchsorted(self.offsets, row, side="right")) - 1)

    def position(self, index: int) -> int:
        """Return the place, in the input, of one of these series."""
        return index if self.positions is None else int(self.positions[index])


def offsets_from(lengths: np.ndarray | Sequence[int]) -> np.ndarray:
    """Where each series starts and the last one ends.

    Parameters
    ----------
    lengths : array-like of int or bool of shape (n_series,)
        Rows of each series. Of a mask of rows, the result at a panel's offsets is the offsets of
        the rows that the mask keeps.

    Returns
    -------
    int64 ndarray of shape (n_series + 1,)
        The `offsets` of a panel.

    See Also
    --------
    series_index : The series of each row.

    Examples
    --------
    >>> from skpolyode.panel import offsets_from
    >>> offsets_from([2, 0, 3])
    array([0, 2, 2, 5])
    """
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def series_index(offsets: np.ndarray) -> np.ndarray:
    """Position of the series that each row belongs to.

    Parameters
    ----------
    offsets : int ndarray of shape (n_series + 1,)
        Where each series starts and the last one ends.

    Returns
    -------
    int64 ndarray of shape (n_obs,)
        Positions, from 0.

    See Also
    --------
    offsets_from : Offsets from the lengths of the series.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.panel import series_index
    >>> series_index(np.array([0, 2, 2, 5]))
    array([0, 0, 2, 2, 2])
    """
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def are_offsets(offsets: np.ndarray, n_rows: int) -> bool:
    """Tell whether an array can say where the series of `n_rows` rows start."""
    if offsets.ndim != 1 or len(offsets) == 0 or offsets.dtype.kind not in "iu":
        return False
    rising = bool((offsets[1:] >= offsets[:-1]).all())
    return rising and offsets[0] == 0 and offsets[-1] == n_rows


def stable_order(codes: np.ndarray) -> np.ndarray:
    """Return the stable order of whole numbers >= 0.

    numpy sorts 16-bit integers by radix, which makes this 5 times faster than sorting the int64.
    """
    order = np.argsort((codes & 0xFFFF).astype(np.uint16), kind="stable")
    high = codes >> 16
    while high.any():
        order = order[np.argsort((high[order] & 0xFFFF).astype(np.uint16), kind="stable")]
        high = high >> 16
    return order


def require_series(n_series: int, name: str) -> None:
    """Refuse an input without any series."""
    if n_series == 0:
        raise ValueError(f"{name} has 0 sample(s) (series) while a minimum of 1 is required.")


def default_channel_names(n_channels: int) -> tuple[str, ...]:
    """Return the names of channels that were given none: x0, x1, ..."""
    return tuple(f"x{channel}" for channel in range(n_channels))
