"""The container of ragged, irregular, partly observed series."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import attrgetter
from typing import Any, NamedTuple, Self, Unpack, overload

import numpy as np
import pandas as pd

from skpolyode.errors import Faults, plain_repr
from skpolyode.panel.checks import Empty, PanelOptions, build_rows
from skpolyode.panel.doubts import DOUBTS, ROW_NUMBERS
from skpolyode.panel.inputs import Inputs, fit_inputs
from skpolyode.panel.readers.lists import (
    rows_from_array,
    rows_from_flat,
    rows_from_frames,
    rows_from_series,
    with_errors,
)
from skpolyode.panel.readers.long import rows_from_long, rows_from_nothing, rows_from_sktime
from skpolyode.panel.rows import Duplicates, Rows, are_offsets, series_index
from skpolyode.panel.selection import channel_order, concat_rows, refuse_reordered
from skpolyode.panel.views import NO_TABLE, OneAxis, draw, long_table, one_line, summarise


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


def stored(path: str, meaning: str) -> Any:
    """Property that reads an attribute, or one of an attribute, where it is stored."""
    return property(attrgetter(path), doc=meaning)


class Panel:
    """Ragged container of irregular, partly observed time series.

    The rows of all series lie one after the other in flat arrays. A panel cannot be changed;
    indexing gives a new one. Every estimator of this package and scikit-learn's splitters accept
    it. It is checked once, when it is built.

    Parameters
    ----------
    times : array-like of shape (n_obs,)
        Times of all rows: numbers, datetimes or timedeltas, strictly increasing inside a series.
    values : array-like of shape (n_obs, D) or (n_obs,)
        Values of all rows, NaN where a channel was not observed.
    offsets : array-like of int of shape (n_series + 1,)
        Series i consists of the rows ``offsets[i]`` to ``offsets[i + 1] - 1``.
    ids : sequence of shape (n_series,) or None, default=None
        Unique labels of the series; error messages name them. None: 0, 1, ...
    channel_names : sequence of str of shape (D,) or None, default=None
        Unique names of the channels. None: the columns of the input, or x0, x1, ...
    static : DataFrame or array-like of shape (n_series, n_static) or None, default=None
        Static covariates, such as the age of a patient. A frame is aligned by its index, which
        holds the ids; without `ids` its rows, like those of an array, are taken in their order.
    errors : array-like of shape (n_obs, D) or (n_obs,) or None, default=None
        Known standard deviations of the measurement errors, in the units of the values, such as
        those of an instrument or an assay. NaN where not known, 0 for an exact value.
        PolyODETransformer, LegendreFitTransformer and SummaryStatsTransformer use them; others
        ignore them and warn. Merged rows get the error of their mean or sum, or of the value that
        is kept.
    inputs : Inputs, Panel or None, default=None
        Exogenous variables, at separate times: :class:`Inputs`, or a panel whose channels are all
        of the kind "hold". PolyODETransformer, ODERNNTransformer and GRUODEBayesTransformer use
        them; others ignore them and warn.
    time_unit : {"D", "h", "min", "s", "ms", "us"} or None, default=None
        Unit of `times` where the input has datetimes or timedeltas; None then means "s". Choose a
        unit that suits the series, since learned time scales are expressed in it. Datetimes
        become counts since 1970-01-01 UTC; numbers with a unit are taken to be such counts.
        Timedeltas become plain numbers of that unit. None with numbers: times are plain numbers.
    sort : bool, default=False
        Whether to sort the rows of each series by time. False: unsorted rows raise an error.
    duplicates : {"error", "mean", "sum", "first", "last"}, default="error"
        What to do with rows of equal time in a series: raise an error, or merge them channel by
        channel, ignoring NaN. Average readings; sum amounts such as doses. Times that differ only
        by rounding, such as ``3 * 0.1`` and ``0.3``, are equal.
    empty : {"error", "keep"}, default="error"
        What to do with series without any observation: raise an error, or keep them, so that one of
        them does not stop a batch. Estimators skip them in `fit` and return NaN for them later.
        Classifiers return the class shares of `fit` for them, regressors the mean target.
    missing : sequence of float, default=()
        Numbers that mean "not observed", such as [-999], in every channel: they become NaN, and
        their errors with them.

    Attributes
    ----------
    times : float64 ndarray of shape (n_obs,)
        Times, in the units of `times` as given, or counts of `time_unit` since 1970-01-01 UTC.
    values : float64 ndarray of shape (n_obs, D)
        Values, NaN where not observed.
    errors : float64 ndarray of shape (n_obs, D) or None
        Standard deviations of the values, NaN where not known; None if all are unknown.
    offsets : int64 ndarray of shape (n_series + 1,)
        Where each series starts and the last one ends.
    ids : ndarray of shape (n_series,)
        Labels of the series.
    channel_names : tuple of str
        Names of the channels.
    has_channel_names : bool
        Whether the names come from `channel_names` or from the columns of the input; estimators
        then match channels by name. False: the names are x0, x1, ..., and channels are matched by
        position.
    static : DataFrame or None
        One row a series, indexed by the ids.
    inputs : Inputs or None
        Exogenous variables of the series.
    time_unit : str or None
        Unit of datetimes, None for plain numbers.
    tz : str or None
        Name of the time zone in which datetimes are returned.

    Raises
    ------
    ValueError
        If anything is wrong with the input: one error that lists the first ten faults.
    TypeError
        If the input is of a type that cannot hold series.

    See Also
    --------
    as_panel : The conversion that every estimator applies to its input.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> panel = Panel.from_series(
    ...     [([0.0, 0.7, 3.0], [1.0, 2.0, 4.0]), ([0.5, 2.0], [3.0, 1.0])], ids=["a", "b"]
    ... )
    >>> panel
    Panel(2 series, 1 channel, 5 observations, 100% of cells observed, times 0 to 3)
    >>> panel[1].times
    array([0.5, 2. ])
    >>> panel[[1]].ids
    array(['b'], dtype=object)
    """

    __slots__ = ("_checked", "_observed", "_rows")

    _rows: Rows
    _checked: bool
    _observed: bool | None  # None: `is_observed` has not been asked yet

    def __init__(
        self,
        times: object,
        values: object,
        offsets: object,
        *,
        ids: object = None,
        channel_names: Sequence[str] | None = None,
        static: object = None,
        errors: object = None,
        inputs: object = None,
        time_unit: str | None = None,
        sort: bool = False,
        duplicates: Duplicates = "error",
        empty: Empty = "error",
        missing: Sequence[float] = (),
    ) -> None:
        reader = partial(rows_from_flat, errors=errors)
        labels = {"ids": ids, "channel_names": channel_names, "static": static, "inputs": inputs}
        how = {"time_unit": time_unit, "sort": sort, "duplicates": duplicates, "empty": empty}
        how["missing"] = missing
        rows = build_rows("Panel", reader, (times, values, offsets), "Panel", **labels, **how)
        self._rows, self._checked, self._observed = self.from_rows(rows).rows, True, None

    @classmethod
    def from_series(
        cls,
        series: Iterable[object],
        *,
        errors: Sequence[object] | None = None,
        **options: Unpack[PanelOptions],
    ) -> Self:
        """Build a panel from pairs of times and values.

        Parameters
        ----------
        series : iterable of (times, values)
            One tuple a series: times of shape (L,), values of shape (L,) or (L, D). A generator
            may fill the same arrays again and again.
        errors : sequence or dict of array-like or None, default=None
            Standard deviations of the values, one array a series, of the shape of its values; see
            `Panel`. If the series are in a dict, so may errors be, with the same keys.
        **options : dict
            `ids`, `channel_names`, `static`, `inputs`, `time_unit`, `sort`, `duplicates`,
            `empty` and `missing` of `Panel`.

        Returns
        -------
        Panel
            The series.

        Examples
        --------
        >>> from skpolyode.panel import Panel
        >>> Panel.from_series([([0, 2, 3], [[1.0, 5.0], [2.0, None], [3.0, 6.0]])])
        Panel(1 series, 2 channels, 3 observations, 83% of cells observed, times 0 to 3)
        """
        reader = with_errors(rows_from_series, errors)
        return cls.from_rows(build_rows("series", reader, series, "Panel.from_series", **options))

    @classmethod
    def from_frames(
        cls,
        frames: Iterable[pd.DataFrame | pd.Series],
        *,
        errors: Sequence[object] | None = None,
        **options: Unpack[PanelOptions],
    ) -> Self:
        """Build a panel from DataFrames or Series that are indexed by time.

        Parameters
        ----------
        frames : iterable of DataFrame or Series, or dict of such
            One a series; the keys of a dict are the ids. The index holds the times: numbers,
            datetimes (with or without a time zone), periods (their start counts) or timedeltas. The
            columns are the channels.
        errors : sequence or dict of DataFrame, Series or array-like, or None, default=None
            Standard deviations of the values, one table a series; see `Panel`. The columns of a
            DataFrame are matched with those of its frame by name, and its index must be the same;
            arrays have the rows and columns in the order of the frame. If the frames are in a dict,
            so may errors be, with the same keys.
        **options : dict
            `ids`, `channel_names`, `static`, `inputs`, `time_unit`, `sort`, `duplicates`,
            `empty` and `missing` of `Panel`.

        Returns
        -------
        Panel
            The series.

        Examples
        --------
        >>> import pandas as pd
        >>> from skpolyode.panel import Panel
        >>> days = pd.DatetimeIndex(["2024-01-01", "2024-01-02 12:00"])
        >>> panel = Panel.from_frames([pd.DataFrame({"hr": [61, 64]}, index=days)], time_unit="D")
        >>> panel.channel_names, panel.times
        (('hr',), array([19723. , 19724.5]))
        """
        reader = with_errors(rows_from_frames, errors)
        return cls.from_rows(build_rows("frames", reader, frames, "Panel.from_frames", **options))

    @classmethod
    def from_array(
        cls,
        array: object,
        times: object = None,
        *,
        errors: object = None,
        **options: Unpack[PanelOptions],
    ) -> Self:
        """Build a panel from a 2-D or 3-D array.

        Parameters
        ----------
        array : array-like of shape (n_series, n_times) or (n_series, n_times, D)
            In a 2-D array or frame each row is a univariate series, without padding. In a 3-D
            array, times at the end of a series at which all channels are NaN are padding.
        times : array-like of shape (n_times,) or (n_series, n_times) or None, default=None
            Times of all series, or of each; None: 0, 1, ..., n_times - 1. With times for each
            series, padding is where the time is NaN and all values are.
        errors : array-like of the shape of `array` or None, default=None
            Standard deviations of the values; see `Panel`.
        **options : dict
            `ids`, `channel_names`, `static`, `inputs`, `time_unit`, `sort`, `duplicates`,
            `empty` and `missing` of `Panel`.

        Returns
        -------
        Panel
            The series.

        Examples
        --------
        >>> import numpy as np
        >>> from skpolyode.panel import Panel
        >>> Panel.from_array(np.zeros((3, 5, 2)))
        Panel(3 series, 2 channels, 15 observations, 100% of cells observed, times 0 to 4)
        """
        reader = partial(rows_from_array, times=times, errors=errors)
        return cls.from_rows(build_rows("array", reader, array, "Panel.from_array", **options))

    @classmethod
    def from_long(
        cls,
        df: Any,
        *,
        id: str | Sequence[str],
        time: str,
        values: str | Sequence[str] | None = None,
        channel: str | None = None,
        value: str | None = None,
        error: str | Mapping[str, str] | None = None,
        static: object = None,
        inputs: Any = None,
        kinds: Any = "hold",
        **options: Unpack[PanelOptions],
    ) -> Self:
        """Build a panel from one table with a column of ids and a column of times.

        Each row holds either all channels at one time (`values`), or one observation (`channel` and
        `value`). Rows of single observations may be in any order.

        Parameters
        ----------
        df : pandas or polars DataFrame, or pyarrow Table
            The table. Rows of a series need not be neighbours; series are kept in the order in
            which they first occur.
        id : str or sequence of str
            Column, or level of the index, that identifies the series. The ids of several columns
            are tuples.
        time : str
            Column, or level of the index, of times: numbers, datetimes or timedeltas.
        values : str or sequence of str or None, default=None
            Columns of the channels. None: all columns without another use; names that exports give
            to row numbers are then refused, and columns like row numbers or labels get a warning.
        channel : str or None, default=None
            Column with the name of the channel, in a table of one observation a row. The channels
            are put in the order of their names, whatever the order of the rows.
        value : str or None, default=None
            Column with the value, in a table of one observation a row.
        error : str, mapping of str to str or None, default=None
            Column with the standard deviations of the values, in a table of one observation a row
            or of one channel; else a mapping from channels to their columns. See `errors` of
            `Panel`.
        static : sequence of str, DataFrame, array-like or None, default=None
            Columns that are constant in each series, or a table as in `Panel`.
        inputs : DataFrame, Inputs, Panel or None, default=None
            Exogenous variables: another table with the columns `id` and `time`, in which all other
            columns are inputs, or as in `Panel`. The option `duplicates` is not for its rows: give
            ``Inputs(Panel.from_long(table, ..., duplicates="sum"), "impulse")`` to add up doses.
        kinds : str, sequence of str or mapping of str to str, default="hold"
            Kinds of the inputs of a table; see `Inputs`.
        **options : dict
            `ids`, `channel_names`, `time_unit`, `sort`, `duplicates`, `empty` and `missing` of
            `Panel`.

        Returns
        -------
        Panel
            The series, with `ids` taken from the table.

        Examples
        --------
        >>> import pandas as pd
        >>> from skpolyode.panel import Panel
        >>> table = pd.DataFrame(
        ...     {"who": ["a", "a", "b"], "t": [0.0, 1.0, 0.5], "hr": [61, 64, 70], "sex": [1, 1, 0]}
        ... )
        >>> panel = Panel.from_long(table, id="who", time="t", static=["sex"])
        >>> panel.channel_names, panel.static["sex"].tolist()
        (('hr',), [1, 0])
        """
        columns = {"values": values, "channel": channel, "value": value, "error": error}
        columns["static"] = static
        reader = partial(rows_from_long, id=id, time=time)
        if inputs is not None and not isinstance(inputs, Inputs | Panel):
            shared = {k: options[k] for k in ("time_unit", "sort") if k in options}
            read = reader if len(inputs) else partial(rows_from_nothing, id=id, time=time)
            maker = "inputs=Inputs(Panel.from_long(table, ...), kinds)"
            given = kinds.values() if isinstance(kinds, Mapping) else kinds
            shared["doubts"] = [ROW_NUMBERS] if "impulse" in given else DOUBTS  # equal doses
            rows = build_rows("inputs", read, inputs, maker, empty="keep", **shared)
            inputs = Inputs(cls.from_rows(rows), kinds)
        how = {k: options[k] for k in ("duplicates", "missing") if k in options}
        reader = partial(reader, **columns, **how)
        options["doubts"] = DOUBTS if values is None else ()
        rows = build_rows("df", reader, df, "Panel.from_long", inputs=inputs, **options)
        return cls.from_rows(rows)

    @classmethod
    def from_sktime(cls, X: object, **options: Unpack[PanelOptions]) -> Self:
        """Build a panel from one of sktime's containers of series.

        Parameters
        ----------
        X : DataFrame, list of DataFrame or ndarray
            sktime's "nested_univ", "pd-multiindex", "df-list" or "numpy3D" (series, channel,
            time); the channels of a nested frame may have different times.
        **options : dict
            `ids`, `channel_names`, `static`, `inputs`, `time_unit`, `sort`, `duplicates`,
            `empty` and `missing` of `Panel`.

        Returns
        -------
        Panel
            The series.

        Examples
        --------
        >>> import pandas as pd
        >>> from skpolyode.panel import Panel
        >>> index = pd.MultiIndex.from_tuples([(0, 0), (0, 1), (1, 0)])
        >>> Panel.from_sktime(pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=index))
        Panel(2 series, 1 channel, 3 observations, 100% of cells observed, times 0 to 1)
        """
        how = {k: options[k] for k in ("duplicates", "missing") if k in options}
        reader = partial(rows_from_sktime, **how)
        return cls.from_rows(build_rows("X", reader, X, "Panel.from_sktime", **options))

    @classmethod
    def concat(cls, panels: Iterable[Panel], *, ids: object = None) -> Self:
        """Concatenate the series of panels with the same channels.

        Parameters
        ----------
        panels : iterable of Panel
            At least one. Channels are brought into the order of the first panel by their names; all
            panels must have the same static columns, time unit and time zone. Limits of channels
            (`with_limits`) are those of all panels.
        ids : sequence of shape (n_series,) or None, default=None
            Unique labels of all series. None: those of the panels.

        Returns
        -------
        Panel
            All series, in the order of the panels.

        Raises
        ------
        ValueError
            If channels, their limits, static columns or clocks of the panels differ, or there is
            none.

        Examples
        --------
        >>> from skpolyode.panel import Panel
        >>> ann = Panel.from_series([([0.0, 1.0], [61.0, 64.0])], ids=["ann"])
        >>> bob = Panel.from_series([([0.5], [70.0])], ids=["bob"])
        >>> Panel.concat([ann, bob]).ids.tolist()
        ['ann', 'bob']
        """
        return cls.from_rows(*concat_rows(list(panels), ids))

    @classmethod
    def from_rows(cls, rows: Rows, checked: bool = True, observed: bool | None = None) -> Self:
        """Return a panel of complete rows.

        Parameters
        ----------
        rows : Rows
            Everything that the panel holds. Arrays are not copied.
        checked : bool, default=True
            See `is_checked`.
        observed : bool or None, default=None
            See `is_observed`; None if unknown.

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

        def read_only(array: np.ndarray | None) -> np.ndarray | None:
            if array is not None:
                array = array.view()
                array.flags.writeable = False
            return array

        panel = cls.__new__(cls)
        counts, ticks = read_only(rows.times.counts), read_only(rows.times.ticks)
        panel._rows = replace(
            rows,
            times=rows.times._replace(counts=counts, ticks=ticks),
            values=read_only(rows.values),
            beside={name: read_only(column) for name, column in rows.beside.items()},
            offsets=read_only(rows.offsets),
            ids=read_only(rows.ids),
        )
        panel._checked, panel._observed = checked, observed
        return panel

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle and copy through `from_rows`, since pickled arrays are not read-only.

        Cached values are left out: otherwise the hash of a panel would change with its first use.
        """
        return type(self).from_rows, (self._rows, self._checked)

    rows: Rows = stored("_rows", "Everything that the panel holds.")
    is_checked: bool = stored("_checked", "Whether the rows were checked, unlike those of `like`.")
    times: np.ndarray = stored("_rows.times.counts", "Times of all rows, float64 (n_obs,).")
    elapsed: np.ndarray = stored(
        "_rows.elapsed",
        "Times since the first row of the series, float64 (n_obs,): for datetimes and large "
        "integers closer than differences of `times`, which are rounded as counts since 1970 (to "
        "2e-7 s today).",
    )
    values: np.ndarray = stored("_rows.values", "Values, float64 (n_obs, D), NaN: not observed.")
    errors: np.ndarray | None = stored(
        "_rows.errors", "Standard deviations of the values, float64 (n_obs, D), NaN: unknown."
    )
    inputs: Inputs | None = stored("_rows.inputs", "Exogenous variables of the series, or None.")
    offsets: np.ndarray = stored(
        "_rows.offsets", "First row of each series and the end of the last, int64 (n_series + 1,)."
    )
    lengths: np.ndarray = stored("_rows.lengths", "Rows of each series, int64 (n_series,).")
    ids: np.ndarray = stored("_rows.ids", "Labels of the series, of shape (n_series,).")
    channel_names: tuple[str, ...] = stored("_rows.channel_names", "Names of the channels.")
    has_channel_names: bool = stored(
        "_rows.has_channel_names", "Whether the names were given, not the default x0, x1."
    )
    time_unit: str | None = stored(
        "_rows.times.unit", "Unit of the counts in `times` for datetimes; None for numbers."
    )
    tz: str | None = stored("_rows.times.tz", "Name of the time zone of datetimes, or None.")

    @property
    def is_observed(self) -> bool:
        """Whether every row holds an observation, and every series has such a row.

        It is computed once. Estimators drop empty rows and series of their input, and compute with
        panels for which this is true.
        """
        if self._observed is None:
            counts = self._rows.n_observed
            self._observed = bool(((counts == self.lengths) & (counts > 0)).all())
        return self._observed

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
    def static(self) -> pd.DataFrame | None:
        """A copy of the static rows, one a series, or None."""
        return None if self._rows.static is None else self._rows.static.copy()

    @property
    def is_datetime(self) -> bool:
        """Whether the times are datetimes."""
        return self._rows.times.unit is not None

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
            Views if the selected series are consecutive, else copies.
        """
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]
        if isinstance(key, numbers.Integral) and not isinstance(key, bool):
            index = int(key)
            if not -self.n_series <= index < self.n_series:
                raise IndexError(f"series {index} of a panel of {self.n_series} series")
            start, stop = self.offsets[index % self.n_series :][:2]
            return Series(self.times[start:stop], self.values[start:stop])
        if not isinstance(key, slice):
            refuse_reordered(key, self, "mask")
            keys = np.asarray(key)
            if keys.size == 0 and keys.dtype.kind == "f":  # the empty list
                keys = keys.astype(np.int64)
            if keys.ndim != 1 or keys.dtype.kind not in "biu":
                raise IndexError(
                    "a panel is indexed by positions (an integer, a slice, integers or a mask), "
                    f"got {key!r}; to select by id use panel.select_ids([...])."
                )
            key = keys
        positions, rows = np.arange(self.n_series)[key], self._rows
        start, stop = rows.offsets[positions], rows.offsets[positions + 1]
        selected = rows.of_series(positions, start, stop)
        return self.from_rows(selected, self._checked, self._observed or None)

    def select_ids(self, ids: Any) -> Self:
        """Return a panel of the series with these ids, in this order.

        Parameters
        ----------
        ids : label or sequence of labels
            Ids of series, each of them known; repetitions are allowed.

        Returns
        -------
        Panel
            The series.

        Raises
        ------
        KeyError
            If there is no series with one of the ids.
        ValueError
            If an id belongs to several series.

        Examples
        --------
        >>> from skpolyode.panel import Panel
        >>> panel = Panel.from_series([([0.0], [1.0]), ([2.0], [3.0])], ids=["ann", "bob"])
        >>> panel.select_ids("bob").times
        array([2.])
        """
        index = pd.Index(self.ids, tupleize_cols=False)
        is_label = isinstance(ids, str | bytes) or not isinstance(ids, Iterable)
        chosen = [ids] if is_label or (isinstance(ids, tuple) and ids in index) else list(ids)
        if not index.is_unique:
            repeated = plain_repr(index[index.duplicated()][0])
            raise ValueError(f"id {repeated} belongs to several series; select by position.")
        positions = index.get_indexer(pd.Index(chosen, tupleize_cols=False))
        if (positions < 0).any():
            unknown = plain_repr(chosen[int(np.argmin(positions))])
            raise KeyError(f"there is no series with the id {unknown}; panel.ids lists all.")
        return self[positions]

    def select_channels(self, names: str | Sequence[str]) -> Self:
        """Return a panel of the named channels, in this order.

        Parameters
        ----------
        names : str or sequence of str of shape (D_chosen,)
            Names of channels, each at most once.

        Returns
        -------
        Panel
            The same series and times. An estimator raises an error for a series without any
            observation in these channels.

        Raises
        ------
        ValueError
            If a name is not known or occurs twice, or if there is none.

        Examples
        --------
        >>> from skpolyode.panel import Panel
        >>> panel = Panel.from_series([([0.0], [[61.0, 120.0]])], channel_names=["hr", "bp"])
        >>> panel.select_channels(["bp", "hr"]).values
        array([[120.,  61.]])
        """
        known = list(self.channel_names)
        chosen = [names] if isinstance(names, str) else list(map(str, names))
        if not chosen:
            raise ValueError(f"choose at least one channel, of {known}.")
        for name in chosen:
            if name not in known:
                raise ValueError(f"there is no channel {name!r}; the panel has {known}.")
            if chosen.count(name) > 1:
                raise ValueError(f"channel {name!r} is chosen more than once.")
        if chosen == known:
            return self
        columns = [known.index(name) for name in chosen]
        rows = self._rows.with_cells(lambda cells: np.ascontiguousarray(cells[:, columns]))
        # The user has named them.
        rows = replace(rows, channel_names=tuple(chosen), has_channel_names=True)
        return self.from_rows(rows, self._checked and len(chosen) == len(known))

    def align_channels(
        self, names: Sequence[str], *, named: bool, owner: str, name: str = "X"
    ) -> Self:
        """Return a panel with its channels in the order that `owner` was fitted on.

        Parameters
        ----------
        names : sequence of str
            Names of the channels that `owner` was fitted on.
        named : bool
            Whether these names were given (`has_channel_names`) or are defaults.
        owner : str
            Name of the fitted estimator in messages.
        name : str, default="X"
            Name of this panel in error messages.

        Returns
        -------
        Panel
            Channels by name where both sides have names, else by position.

        Raises
        ------
        ValueError
            If the names or the number of channels differ.

        Examples
        --------
        >>> from skpolyode.panel import Panel
        >>> panel = Panel.from_series([([0.0], [[61.0, 120.0]])], channel_names=["hr", "bp"])
        >>> panel.align_channels(["bp", "hr"], named=True, owner="HiPPOTransformer").values
        array([[120.,  61.]])
        """
        found, known = self.channel_names, self.has_channel_names
        order = channel_order(found, names, known=known, named=named, owner=owner, name=name)
        return self.select_channels([found[k] for k in order])

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
            The series, with these inputs instead of their previous ones.

        Raises
        ------
        ValueError
            If they belong to other series, are on another clock, or share channel names.

        Examples
        --------
        >>> from skpolyode import Inputs, Panel
        >>> panel = Panel.from_series([([0.0, 1.0], [5.0, 6.0])])
        >>> doses = Panel.from_series([([0.5], [100.0])], channel_names=["dose"])
        >>> panel.with_inputs(Inputs(doses, kinds="impulse")).inputs.names
        ('dose',)
        """
        faults = Faults("inputs", self.ids, self.channel_names)
        ids, times = self.ids, self._rows.times
        fitted = [fit_inputs(given, ids, times, faults) for given in inputs if given is not None]
        faults.raise_if_any()
        joint = reduce(Inputs.joined, fitted) if fitted else None
        return self.from_rows(replace(self._rows, inputs=joint), self.is_checked)

    def with_limits(self, limits: Mapping[str, tuple[float | None, float | None]]) -> Self:
        """Return the same series with limits of channels, for a `fit` on them.

        The estimator clips paths, forecasts, intervals and samples there, except for series whose
        values exceed a limit. By default, zero is a limit of channels that never crossed it.

        Parameters
        ----------
        limits : dict of str to (float or None, float or None)
            Least and largest value of channels, by name; None where there is none.
            ``{"change": (None, None)}`` lets a channel pass zero. Channels that are not named keep
            their limits.

        Returns
        -------
        Panel
            The series, with unchanged values.

        Raises
        ------
        ValueError
            If there is no such channel, or the least value is not below the largest one.

        Examples
        --------
        >>> from skpolyode import Panel
        >>> panel = Panel.from_series([([0.0, 1.0], [97.0, 99.0])], channel_names=["spo2"])
        >>> panel.with_limits({"spo2": (0, 100)}).rows.limits
        {'spo2': (0.0, 100.0)}
        """
        joint, known = dict(self._rows.limits), list(self.channel_names)
        for name, given in limits.items():
            if name not in known:
                raise ValueError(f"limits: there is no channel {name!r}; the panel has {known}.")
            try:
                pairs = zip(given, (-np.inf, np.inf), strict=True)
                low, high = (float(end if x is None else x) for x, end in pairs)
            except (TypeError, ValueError):
                low = high = np.nan
            if not low < high:
                raise ValueError(
                    f"limits of channel {name!r} must be its least and its largest value, None "
                    f"where there is none, got {plain_repr(given)}."
                )
            joint[name] = low, high
        return self.from_rows(replace(self._rows, limits=joint), self._checked, self._observed)

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
            Values. Errors and other columns are only kept if this is `values` of the panel.
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
        is_same = times is self.times and rows.origin is None
        full = rows.times if is_same else rows.on_users_clock(times, series_index(offsets))
        beside = rows.beside if values is self.values else {}
        rows = replace(rows, times=full, values=values, beside=beside, offsets=offsets, origin=None)
        return self.from_rows(rows, checked=False)

    def user_times(self) -> np.ndarray | pd.DatetimeIndex:
        """Return the times of all rows in the type in which they were given.

        Returns
        -------
        DatetimeIndex or float64 ndarray of shape (n_obs,)
            Datetimes in the panel's time zone, exact, or the numbers (int64 where they are too
            large for float64).
        """
        return self._rows.times.to_user()

    def to_series(self) -> list[tuple[np.ndarray | pd.DatetimeIndex, np.ndarray]]:
        """Return a list of (times, values), the inverse of `Panel.from_series`.

        Returns
        -------
        list of (times, values)
            Times in the type in which they were given, values of shape (L, D).
        """
        times = self.user_times()
        bounds = zip(self.offsets[:-1], self.offsets[1:], strict=True)
        return [(times[start:stop], self.values[start:stop]) for start, stop in bounds]

    def to_long(
        self, *, id: str | Sequence[str] = "id", time: str = "time", kind: str = "pandas"
    ) -> Any:
        """Return one table with a row for each time, the inverse of `Panel.from_long`.

        To read errors back, name their columns: ``error={"hr": "hr_error"}``.

        Parameters
        ----------
        id : str or sequence of str, default="id"
            Name of the column of ids, or those of one column for each part of ids that are tuples.
        time : str, default="time"
            Name of the column of times.
        kind : {"pandas", "polars"}, default="pandas"
            Kind of the table; polars needs pyarrow, too.

        Returns
        -------
        DataFrame of pandas or polars
            Columns of ids, times (in the type in which they were given) and channels; for a panel
            with errors also ``<channel>_error`` for each channel.

        Raises
        ------
        ValueError
            If a channel has the name of one of the other columns, or the kind is not known.
        """
        return long_table(self, id, time, kind)

    def to_frames(self) -> list[pd.DataFrame]:
        """Return one frame a series, the inverse of `Panel.from_frames`.

        Returns
        -------
        list of DataFrame
            Indexed by the times in the type in which they were given, with a column per channel.

        Examples
        --------
        >>> from skpolyode.panel import Panel
        >>> panel = Panel.from_series([([0.0, 0.5], [61.0, 64.0])], channel_names=["hr"])
        >>> panel.to_frames()[0]["hr"].to_dict()
        {0.0: 61.0, 0.5: 64.0}
        """
        names = list(self.channel_names)
        return [pd.DataFrame(v, index=pd.Index(t), columns=names) for t, v in self.to_series()]

    def to_sktime(self) -> pd.DataFrame:
        """Return the table that sktime calls "pd-multiindex", the inverse of `Panel.from_sktime`.

        Returns
        -------
        DataFrame
            A column per channel, indexed by id and time in the type in which they were given.
            sktime only reads times that are datetimes or whole numbers.

        Examples
        --------
        >>> from skpolyode.panel import Panel
        >>> panel = Panel.from_series([([0, 2], [61.0, 64.0])], ids=["ann"], channel_names=["hr"])
        >>> panel.to_sktime()["hr"].to_dict()
        {('ann', 0): 61.0, ('ann', 2): 64.0}
        """
        times = pd.Index(self.user_times())
        if times.dtype.kind == "f" and (times == np.floor(times)).all():  # sktime reads no floats
            times = times.astype(np.int64)
        ids = pd.Index(self.ids, tupleize_cols=False).repeat(self.lengths)
        index = pd.MultiIndex.from_arrays([ids, times], names=["id", "time"])
        return pd.DataFrame(self.values, index=index, columns=list(self.channel_names))

    def describe(self) -> pd.DataFrame:
        """Summarise each channel, and the rows in which any channel is observed.

        Returns
        -------
        DataFrame
            One row per channel: the number of `series` that observe it, its number of observed
            `cells`, their `share` of the rows, their median number per series (`per_series`), and
            `mean`, `std`, `min` and `max` of the values. `median_gap` and `longest_gap` between
            observations are in the units of `times`. The last row, "(any)", counts the rows in
            which any channel is observed: a series has data for about as many coefficients as it
            has such rows.

        Notes
        -----
        The table has no noise level: without a model, noise looks like a signal that moves between
        two observations. A fit with ``observations="noisy"`` estimates it (`noise_`,
        `fit_report_`). The report of a fit that learns to forecast also names the seasons found.

        Examples
        --------
        >>> from skpolyode.panel import Panel
        >>> panel = Panel.from_series([([0, 1, 4], [[1.0, 5.0], [2.0, None], [6.0, None]])])
        >>> panel.describe()[["cells", "mean", "longest_gap"]].T.to_dict("list")
        {'x0': [3.0, 3.0, 3.0], 'x1': [1.0, 5.0, nan], '(any)': [3.0, nan, 3.0]}
        """
        return summarise(self)

    def plot(self, ax: Any = None, *, max_series: int = 10) -> np.ndarray:
        """Draw the observations, with a line through those of each series and channel.

        Parameters
        ----------
        ax : Axes, array-like of Axes or None, default=None
            One axes per channel; None for a new matplotlib figure, with the channels below one
            another.
        max_series : int, default=10
            Number of series to draw, from the first one on. Select others with ``panel[...]``.

        Returns
        -------
        object ndarray of shape (n_channels,)
            The axes.

        Raises
        ------
        ValueError
            If the number of axes is not that of channels.

        Examples
        --------
        >>> import matplotlib.pyplot as plt
        >>> from skpolyode.panel import Panel
        >>> panel = Panel.from_series([([0, 1, 4], [[1.0, 5.0], [2.0, None], [6.0, None]])])
        >>> axes = panel.plot()
        >>> [len(axis.lines) for axis in axes]
        [1, 1]
        >>> plt.close(axes[0].figure)
        """
        return draw(self, ax, max_series)

    @property
    def shape(self) -> tuple[int]:
        """``(n_series,)``: one axis, so that scikit-learn slices a panel like an array."""
        return OneAxis((self.n_series,))

    def __getattr__(self, name: str) -> Any:
        # scikit-learn's validation of tables reads it; splitters and searches do not.
        if name == "dtype":
            raise TypeError(NO_TABLE)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        """Return an array of objects: panels of one series each, which `as_panel` concatenates.

        For code that needs arrays (`BaggingClassifier`, a column of a frame).
        """
        if dtype is not None and np.dtype(dtype) != object:
            raise TypeError(
                f"a panel is no array of {np.dtype(dtype)}: its series have different times; "
                "`transform` of an estimator or `Resampler` makes arrays of equal rows."
            )
        array = np.empty(self.n_series, dtype=object)
        for index in range(self.n_series):
            array[index] = self[[index]]
        return array

    def __repr__(self) -> str:
        """Describe the panel in one line."""
        return one_line(self)

    def __eq__(self, other: object) -> bool:
        """Whether two panels are equal: see `equals`."""
        return self.equals(other) if isinstance(other, Panel) else NotImplemented

    def __hash__(self) -> int:
        """Hash that equal panels share: pandas hashes the cells of its columns."""
        return hash((len(self), self.n_channels, *self.times[:1].tolist(), len(self.times)))

    def equals(self, other: object) -> bool:
        """Return whether two panels hold the same series, with the same labels.

        Parameters
        ----------
        other : Panel
            The panel to compare with. NaN equals NaN.

        Returns
        -------
        bool
            Whether all arrays, errors, ids, names, limits, static rows, inputs and units agree.
        """
        return isinstance(other, Panel) and self._rows.equals(other.rows)
