"""What a panel holds: attributes, indexing, and other rows or labels."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self, overload

import numpy as np
import pandas as pd

from skpolyode.panel.rows import Rows, are_offsets, offsets_from, series_index


class Series(NamedTuple):
    """One series of a panel: read-only views of its times and values.

    Parameters
    ----------
    times : ndarray of shape (L,)
        Times, in the units of the panel's `times`.
    values : ndarray of shape (L, D)
        Values, NaN where a channel was not observed.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> times, values = Panel.from_series([([0.0, 1.5], [3.0, 4.0])])[0]
    >>> times
    array([0. , 1.5])
    """

    times: np.ndarray
    values: np.ndarray


class PanelStorage:
    """Read-only flat storage of ragged series; `Panel` adds the ways to build one."""

    __slots__ = ("_checked", "_rows")

    _rows: Rows
    _checked: bool

    @classmethod
    def _of(cls, rows: Rows, checked: bool = True) -> Self:
        """Return a panel of rows whose labels are complete."""
        panel = cls.__new__(cls)
        panel._store(rows, checked)
        return panel

    def _store(self, rows: Rows, checked: bool = True) -> None:
        names = ("times", "values", "offsets", "ids", "ticks")
        arrays = {name: getattr(rows, name) for name in names}
        frozen = {name: array.view() for name, array in arrays.items() if array is not None}
        for view in frozen.values():
            view.flags.writeable = False
        self._rows = replace(rows, **frozen)
        self._checked = checked

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy through `_of`, since arrays forget that they are read-only."""
        return type(self)._of, (self._rows, self._checked)

    @property
    def rows(self) -> Rows:
        """Everything that the panel holds."""
        return self._rows

    @property
    def is_checked(self) -> bool:
        """Whether the rows are known to be without faults; those of `like` are not."""
        return self._checked

    @property
    def times(self) -> np.ndarray:
        """Times of all rows, float64 of shape (n_obs,)."""
        return self._rows.times

    @property
    def elapsed(self) -> np.ndarray:
        """Times since the first row of the series, float64 of shape (n_obs,).

        For datetimes and large integers these are closer than differences of `times`, which are
        rounded as counts since 1970 (to 2e-7 s today).
        """
        return self._rows.elapsed

    @property
    def values(self) -> np.ndarray:
        """Values of all rows, float64 of shape (n_obs, D), NaN where not observed."""
        return self._rows.values

    @property
    def offsets(self) -> np.ndarray:
        """First row of each series and the end of the last, int64 of shape (n_series + 1,)."""
        return self._rows.offsets

    @property
    def ids(self) -> np.ndarray:
        """Labels of the series, of shape (n_series,)."""
        return self._rows.ids

    @property
    def channel_names(self) -> tuple[str, ...]:
        """Names of the channels."""
        return self._rows.channel_names

    @property
    def has_channel_names(self) -> bool:
        """Whether these names were given, and not made up for want of any."""
        return self._rows.has_channel_names

    @property
    def static(self) -> pd.DataFrame | None:
        """A copy of the static rows, one a series, or None."""
        return None if self._rows.static is None else self._rows.static.copy()

    @property
    def time_unit(self) -> str | None:
        """Unit of the counts in `times` for datetimes, None for plain numbers."""
        return self._rows.axis.unit

    @property
    def tz(self) -> str | None:
        """Name of the time zone of datetimes."""
        return self._rows.axis.tz

    @property
    def is_datetime(self) -> bool:
        """Whether the times are datetimes."""
        return self._rows.axis.unit is not None

    @property
    def n_series(self) -> int:
        """Number of series."""
        return len(self.offsets) - 1

    @property
    def n_channels(self) -> int:
        """Number of channels, D."""
        return self.values.shape[1]

    @property
    def n_observations(self) -> int:
        """Number of rows of all series."""
        return len(self.times)

    @property
    def shape(self) -> tuple[int]:
        """``(n_series,)``: one axis, so that scikit-learn slices a panel like an array."""
        return (self.n_series,)

    @property
    def lengths(self) -> np.ndarray:
        """Rows of each series, int64 of shape (n_series,)."""
        return self._rows.lengths

    def __len__(self) -> int:
        """Return the number of series."""
        return self.n_series

    def __iter__(self) -> Iterator[Series]:
        """Yield the series one by one."""
        return (self[index] for index in range(self.n_series))

    @overload
    def __getitem__(self, key: int | np.integer) -> Series: ...

    @overload
    def __getitem__(self, key: slice | Sequence[int] | np.ndarray | tuple) -> Self: ...

    def __getitem__(self, key: object) -> Series | Self:
        """Return one series for an integer, a panel for anything else that selects from an axis.

        Parameters
        ----------
        key : int, slice, array-like of int or bool, or one of these followed by an Ellipsis
            Positions, never ids.

        Returns
        -------
        Series or Panel
            Views where the selection is one stretch, copies otherwise.
        """
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]
        if isinstance(key, numbers.Integral) and not isinstance(key, bool):
            index = int(key)
            if not -self.n_series <= index < self.n_series:
                raise IndexError(f"series {index} of a panel of {self.n_series} series")
            start, stop = self.offsets[index % self.n_series :][:2]
            return Series(self.times[start:stop], self.values[start:stop])
        positions, rows = _positions(key, self.n_series), self._rows
        lengths = rows.lengths[positions]
        offsets = offsets_from(lengths)
        if len(positions) and (np.diff(positions) == 1).all():
            picked: Any = slice(rows.offsets[positions[0]], rows.offsets[positions[-1] + 1])
        else:
            # Row k of the result is row k + shift of its series' old place.
            shift = rows.offsets[positions] - offsets[:-1]
            picked = np.arange(offsets[-1]) + np.repeat(shift, lengths)
        static = None if rows.static is None else rows.static.iloc[positions]
        origin = None if rows.origin is None else rows.origin[positions]
        selected = replace(
            rows.at(picked, offsets), ids=rows.ids[positions], static=static, origin=origin
        )
        return type(self)._of(selected, self._checked)

    def __repr__(self) -> str:
        """Describe the panel in one line."""
        counts = [
            _count(self.n_series, "series", "series"),
            _count(self.n_channels, "channel", "channels"),
            _count(self.n_observations, "observation", "observations"),
        ]
        if self.n_observations:
            observed = 100 * np.mean(~np.isnan(self.values))
            axis = self._rows.axis
            first, last = axis.format(self.times.min(), 6), axis.format(self.times.max(), 6)
            if self._rows.ticks is not None and self.is_datetime:
                ends = np.argmin(self._rows.ticks), np.argmax(self._rows.ticks)
                first, last = map(self._rows.format_time, map(int, ends))
            counts += [f"{observed:.0f}% of cells observed", f"times {first} to {last}"]
        return f"{type(self).__name__}({', '.join(counts)})"

    def equals(self, other: object) -> bool:
        """Tell whether two panels hold the same series, with the same labels.

        Parameters
        ----------
        other : Panel
            The panel to compare with. NaN equals NaN.

        Returns
        -------
        bool
            Whether all arrays, ids, names, static rows and the unit of time agree.
        """
        if not isinstance(other, PanelStorage):
            return False
        one, two = self.rows, other.rows
        if (one.axis, one.channel_names) != (two.axis, two.channel_names):
            return False
        if (one.static is None) != (two.static is None):
            return False
        # Micro- beside nanoseconds, or none: then the counts must do.
        has_ticks = one.ticks is not None and two.ticks is not None and one.per_unit == two.per_unit
        return (
            np.array_equal(one.offsets, two.offsets)
            and np.array_equal(one.times, two.times, equal_nan=True)
            and (not has_ticks or np.array_equal(one.ticks, two.ticks))
            and np.array_equal(one.values, two.values, equal_nan=True)
            and pd.Index(one.ids, tupleize_cols=False).equals(
                pd.Index(two.ids, tupleize_cols=False)
            )
            and (one.static is None or one.static.equals(two.static))
        )

    def like(self, times: np.ndarray, values: np.ndarray, offsets: np.ndarray) -> Self:
        """Return a panel of the same series with other rows.

        Made for answers (predictions, reconstructions): ids, channel names, static rows and the
        meaning of times are kept, while times may stand in any order and values may all be NaN.
        Such rows are checked when the panel is handed to an estimator.

        Parameters
        ----------
        times : float64 ndarray of shape (n_obs,)
            Times, in the units of `times`.
        values : float64 ndarray of shape (n_obs, D)
            Values.
        offsets : int ndarray of shape (n_series + 1,)
            Where each series starts and the last one ends.

        Returns
        -------
        Panel
            The new rows with the labels of this panel. Arrays are not copied.

        Raises
        ------
        ValueError
            If the shapes do not fit together or do not fit this panel.
        """
        times, values = np.asarray(times, np.float64), np.asarray(values, np.float64)
        offsets = np.asarray(offsets, np.int64)
        expected = ((len(times),), (len(times), self.n_channels), (self.n_series + 1,))
        found = (times.shape, values.shape, offsets.shape)
        if found != expected or not are_offsets(offsets, len(times)):
            raise ValueError(
                f"times, values and offsets must have the shapes {expected}, and offsets rise from "
                f"0 to {len(times)}; got the shapes {found}."
            )
        rows = replace(self._rows, times=times, values=values, offsets=offsets)
        if times is not self.times:
            rows = replace(rows, ticks=None)  # of other times nobody knows them
        if self._rows.origin is not None:
            own = self._rows.since_1970(times, self._rows.origin[series_index(offsets)])
            rows = replace(rows, times=own.counts, ticks=own.ticks, origin=None)
        return type(self)._of(rows, checked=False)


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number:,} {singular if number == 1 else plural}".replace(",", " ")


def _positions(key: object, n_series: int) -> np.ndarray:
    if isinstance(key, slice):
        return np.arange(n_series)[key]
    keys = np.asarray(key)
    if keys.size == 0 and keys.dtype.kind == "f":  # the empty list
        keys = keys.astype(np.int64)
    if keys.ndim != 1 or keys.dtype.kind not in "biu":
        raise IndexError(
            "a panel is indexed by positions (an integer, a slice, integers or a mask), got "
            f"{key!r}; to select by id use panel.select_ids([...])."
        )
    return np.arange(n_series)[keys]
