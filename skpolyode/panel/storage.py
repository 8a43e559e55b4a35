"""What a panel holds, and panels of the same series with other rows."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any, Self

import numpy as np
import pandas as pd

from skpolyode.errors import Faults
from skpolyode.panel.inputs import Inputs, fit_inputs
from skpolyode.panel.rows import Rows, are_offsets, series_index
from skpolyode.panel.timeaxis import Times


class PanelStorage:
    """Read-only flat storage of ragged series; `Panel` adds the ways to build one."""

    __slots__ = ("_checked", "_observed", "_rows")

    _rows: Rows
    _checked: bool
    _observed: bool | None  # None: `is_observed` has not been asked yet

    @classmethod
    def from_rows(cls, rows: Rows, checked: bool = True, observed: bool | None = None) -> Self:
        """Return a panel of rows whose labels are complete.

        Parameters
        ----------
        rows : Rows
            Everything that the panel holds. Arrays are not copied.
        checked : bool, default=True
            See `is_checked`.
        observed : bool or None, default=None
            See `is_observed`; None if that is not known.

        Returns
        -------
        Panel
            The series.

        Examples
        --------
        >>> from skpolyode.panel import Panel
        >>> panel = Panel.from_series([([0.0], [1.0])])
        >>> Panel.from_rows(panel.rows).equals(panel)
        True
        """
        panel = cls.__new__(cls)
        panel._store(rows, checked, observed)
        return panel

    def _store(self, rows: Rows, checked: bool = True, observed: bool | None = None) -> None:
        def read_only(array: np.ndarray | None) -> np.ndarray | None:
            if array is not None:
                array = array.view()
                array.flags.writeable = False
            return array

        counts, axis, ticks, per_unit = rows.times
        self._rows = replace(
            rows,
            times=Times(read_only(counts), axis, read_only(ticks), per_unit),
            values=read_only(rows.values),
            beside={name: read_only(column) for name, column in rows.beside.items()},
            offsets=read_only(rows.offsets),
            ids=read_only(rows.ids),
        )
        self._checked, self._observed = checked, observed

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy through `from_rows`, since arrays forget that they are read-only.

        What is computed on demand stays out: the hash of a panel would change with its first use.
        """
        return type(self).from_rows, (self._rows, self._checked)

    @property
    def rows(self) -> Rows:
        """Everything that the panel holds."""
        return self._rows

    @property
    def is_checked(self) -> bool:
        """Whether the rows have been checked; those of `like` have not."""
        return self._checked

    @property
    def is_observed(self) -> bool:
        """Whether every row holds an observation, and every series has such a row.

        It is computed once. Estimators drop empty rows and series where data come in, and compute
        with panels of which this is true.
        """
        if self._observed is None:
            counts = self._rows.n_observed
            self._observed = bool(((counts == self.lengths) & (counts > 0)).all())
        return self._observed

    @property
    def times(self) -> np.ndarray:
        """Times of all rows, float64 of shape (n_obs,)."""
        return self._rows.times.counts

    @property
    def elapsed(self) -> np.ndarray:
        """Times since the first row of the series, float64 of shape (n_obs,).

        For datetimes and large integers these are closer than differences of `times`, which are
        rounded as counts since 1970 (to 2e-7 s today).
        """
        return self._rows.elapsed

    @property
    def start(self) -> np.ndarray:
        """Times (n_series,) of the first rows; NaN of a series without any."""
        return self._times_of(self.offsets[:-1])

    @property
    def end(self) -> np.ndarray:
        """Times (n_series,) of the last rows; NaN of a series without any."""
        return self._times_of(self.offsets[1:] - 1)

    def _times_of(self, rows: np.ndarray) -> np.ndarray:
        found, filled = np.full(self.n_series, np.nan), self.lengths > 0
        found[filled] = self.times[rows[filled]]
        return found

    @property
    def values(self) -> np.ndarray:
        """Values of all rows, float64 of shape (n_obs, D), NaN where not observed."""
        return self._rows.values

    @property
    def errors(self) -> np.ndarray | None:
        """Standard deviations of the values, float64 of shape (n_obs, D), NaN where not known."""
        return self._rows.errors

    @property
    def inputs(self) -> Inputs | None:
        """Exogenous variables of the series, or None."""
        return self._rows.inputs

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
        """Whether the names were given; False if they are the default x0, x1, ..."""
        return self._rows.has_channel_names

    @property
    def static(self) -> pd.DataFrame | None:
        """A copy of the static rows, one a series, or None."""
        return None if self._rows.static is None else self._rows.static.copy()

    @property
    def time_unit(self) -> str | None:
        """Unit of the counts in `times` for datetimes, None for plain numbers."""
        return self._rows.times.axis.unit

    @property
    def tz(self) -> str | None:
        """Name of the time zone of datetimes."""
        return self._rows.times.axis.tz

    @property
    def is_datetime(self) -> bool:
        """Whether the times are datetimes."""
        return self._rows.times.axis.unit is not None

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
    def lengths(self) -> np.ndarray:
        """Rows of each series, int64 of shape (n_series,)."""
        return self._rows.lengths

    def __len__(self) -> int:
        """Return the number of series."""
        return self.n_series

    def since_start(self) -> Self:
        """Return a panel whose times are counted from the first row of each series.

        Counts since 1970 are rounded (to 2e-7 s today), but differences of datetimes and of large
        integers are exact, so estimators compute with this panel. `query_times` reads times for it,
        and `like` returns to the user's times.

        Returns
        -------
        Panel
            The same series, with `elapsed` as `times`; the panel itself if `times` are plain
            numbers, which are exact already.

        Examples
        --------
        >>> import pandas as pd
        >>> from skpolyode.panel import Panel
        >>> days = pd.date_range("2024-01-01", periods=2, freq="36h")
        >>> Panel.from_series([(days, [1.0, 2.0])], time_unit="D").since_start().times
        array([0. , 1.5])
        """
        rows, ticks = self._rows, self._rows.times.ticks
        if ticks is None or rows.origin is not None:
            return self
        first = np.minimum(self.offsets[:-1], max(len(ticks) - 1, 0))
        origin = ticks[first] if len(ticks) else np.zeros(len(first), dtype=np.int64)
        times = rows.times._replace(counts=rows.elapsed)
        rows = replace(rows, times=times, origin=origin)
        return self.from_rows(rows, self._checked, self._observed)

    def without_rows(self) -> Self:
        """Return a panel with the labels of the series and without rows.

        Returns
        -------
        Panel
            The labels, and the unit and zone of the times, for `like`. After `since_start` it also
            keeps the start of each series.

        Examples
        --------
        >>> from skpolyode.panel import Panel
        >>> Panel.from_series([([0.0], [1.0])], ids=["ann"]).without_rows()
        Panel(1 series, 1 channel, 0 observations)
        """
        rows = self._rows.at(slice(0, 0), np.zeros(self.n_series + 1, dtype=np.int64))
        return self.from_rows(rows, checked=False)

    def with_inputs(self, *inputs: Inputs | None) -> Self:
        """Return the same series with other inputs.

        Parameters
        ----------
        *inputs : Inputs, Panel or None
            Inputs of the series with the same id or, without ids, in the same position. Several
            become one, with the channels of all. None: without any.

        Returns
        -------
        Panel
            The series, with these inputs in place of their own.

        Raises
        ------
        ValueError
            If they are of other series, on another clock, or have channels of the same name.

        Examples
        --------
        >>> from skpolyode import Inputs, Panel
        >>> panel = Panel.from_series([([0.0, 1.0], [5.0, 6.0])])
        >>> doses = Panel.from_series([([0.5], [100.0])], channel_names=["dose"])
        >>> panel.with_inputs(Inputs(doses, kinds="impulse")).inputs.names
        ('dose',)
        """
        faults = Faults("inputs", self.ids, self.channel_names)
        fitted = [fit_inputs(own, self.ids, self._rows.times.axis, faults) for own in inputs]
        faults.raise_if_any()
        known = [own for own in fitted if own is not None]
        joint = reduce(Inputs.joined, known) if known else None
        return self.from_rows(replace(self._rows, inputs=joint), self.is_checked)

    def __repr__(self) -> str:
        """Describe the panel in one line."""
        counts = [f"{self.n_series:,} series".replace(",", " ")]
        for number, word in (self.n_channels, "channel"), (self.n_observations, "observation"):
            counts.append(f"{number:,} {word}{'s' * (number != 1)}".replace(",", " "))
        if self.n_observations:
            observed = 100 * np.mean(~np.isnan(self.values))
            times = self._rows.times
            if self.is_datetime:
                ends = int(np.argmin(times.order)), int(np.argmax(times.order))
                first, last = map(times.format, ends)
            else:
                first, last = (
                    times.axis.format(t, 6) for t in (self.times.min(), self.times.max())
                )
            counts += [f"{observed:.0f}% of cells observed", f"times {first} to {last}"]
        return f"{type(self).__name__}({', '.join(counts)})"

    def __eq__(self, other: object) -> bool:
        """Whether two panels are equal: see `equals`."""
        return self.equals(other) if isinstance(other, PanelStorage) else NotImplemented

    def __hash__(self) -> int:
        """Hash of what equal panels share: pandas hashes the cells of its columns."""
        return hash((len(self), self.n_channels, *self.times[:1].tolist(), len(self.times)))

    def equals(self, other: object) -> bool:
        """Tell whether two panels hold the same series, with the same labels.

        Parameters
        ----------
        other : Panel
            The panel to compare with. NaN equals NaN.

        Returns
        -------
        bool
            Whether all arrays, errors, ids, names, limits, static rows, inputs and units agree.
        """
        if not isinstance(other, PanelStorage):
            return False
        one, two = self.rows, other.rows
        pairs = [(one.times.counts, two.times.counts)]
        ticks = one.times.ticks, two.times.ticks
        # Micro- beside nanoseconds, or none: then the counts must do.
        if one.times.per_unit == two.times.per_unit and not any(t is None for t in ticks):
            pairs.append(ticks)
        names = ("offsets", "values", "static", "inputs")
        pairs += [(getattr(one, name), getattr(two, name)) for name in names]
        pairs += [(one.beside.get(k), two.beside.get(k)) for k in {*one.beside, *two.beside}]
        pairs.append(tuple(pd.Index(own.ids, tupleize_cols=False) for own in (one, two)))
        labels = [(own.times.axis, own.channel_names, own.limits) for own in (one, two)]
        alike = labels[0] == labels[1]
        return alike and all(_equal(*pair) for pair in pairs)

    def like(self, times: np.ndarray, values: np.ndarray, offsets: np.ndarray) -> Self:
        """Return a panel of the same series with other rows.

        Use it for results such as predictions and reconstructions. It keeps ids, channel names,
        static rows and the unit of the times; the new times may be in any order and values may all
        be NaN. Such rows are checked when the panel is handed to an estimator.

        Parameters
        ----------
        times : float64 ndarray of shape (n_obs,)
            Times, in the units of `times`.
        values : float64 ndarray of shape (n_obs, D)
            Values. Only those of this panel itself keep their errors and other columns.
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
        rows = self._rows
        if rows.origin is not None:
            full = rows.since_1970(times, rows.origin[series_index(offsets)])
        elif times is self.times:
            full = rows.times
        else:  # the ticks of other times are not known
            full = rows.times._replace(counts=times, ticks=None)
        beside = rows.beside if values is self.values else {}
        rows = replace(rows, times=full, values=values, beside=beside, offsets=offsets, origin=None)
        return self.from_rows(rows, checked=False)


def _equal(one: Any, two: Any) -> bool:
    """Whether two arrays, tables or other parts of panels are the same, or there are none."""
    if one is None or two is None:
        return one is two
    is_array = isinstance(one, np.ndarray)
    return np.array_equal(one, two, equal_nan=True) if is_array else one.equals(two)
