"""The container of ragged, irregular, partly observed series."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self, Unpack

import pandas as pd

from skpolyode.panel.cell_errors import with_errors
from skpolyode.panel.checks import Empty, PanelOptions, build_rows
from skpolyode.panel.inputs import Inputs
from skpolyode.panel.readers.arrays import rows_from_array, rows_from_flat
from skpolyode.panel.readers.lists import rows_from_frames, rows_from_series
from skpolyode.panel.readers.long import rows_from_long, rows_from_nothing
from skpolyode.panel.readers.sktime import rows_from_sktime
from skpolyode.panel.rows import Duplicates
from skpolyode.panel.selection import concat_rows
from skpolyode.panel.views import PanelViews


class Panel(PanelViews):
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
        Static covariates: what is known of each series besides its observations. A frame is
        aligned by its index, which holds the ids; without `ids` its rows, like those of an array,
        are taken in their order.
    errors : array-like of shape (n_obs, D) or (n_obs,) or None, default=None
        Known standard deviations of the measurement errors, in the units of the values, such as
        those of an instrument or an assay. NaN where not known, 0 for an exact value.
        PolyODETransformer, LegendreFitTransformer and SummaryStatsTransformer use them; others
        ignore them and warn. Merged rows get the error of their mean or sum, or of the value that
        is kept.
    inputs : Inputs, Panel or None, default=None
        Exogenous variables, at times of their own: :class:`Inputs`, or a panel whose channels are
        all of the kind "hold". PolyODETransformer, ODERNNTransformer and GRUODEBayesTransformer use
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
        channel, ignoring NaN. Readings have a mean, amounts such as doses a sum.
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
        Standard deviations of the values, NaN where not known; None if none is.
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
        Name of the time zone in which datetimes are given back.

    Raises
    ------
    ValueError
        If anything is wrong with the input: one error that lists the first ten faults.
    TypeError
        If the input is of a kind that cannot be series.

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

    __slots__ = ()

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
        reader = with_errors(rows_from_flat, errors)
        labels = {"ids": ids, "channel_names": channel_names, "static": static, "inputs": inputs}
        how = {"time_unit": time_unit, "sort": sort, "duplicates": duplicates, "empty": empty}
        how["missing"] = missing
        self._store(build_rows("Panel", reader, (times, values, offsets), "Panel", **labels, **how))

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
            One tuple a series: times of shape (L,), values of shape (L,) or (L, D).
        errors : sequence of array-like or None, default=None
            Standard deviations of the values, one array a series, of the shape of its values; see
            `Panel`.
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
        reader = with_errors(rows_from_series, errors, by_series=True)
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
        frames : iterable of DataFrame or Series
            One a series. The index holds the times: numbers, datetimes (with or without a time
            zone), periods (their start counts) or timedeltas; the columns are the channels.
        errors : sequence of DataFrame, Series or array-like, or None, default=None
            Standard deviations of the values, one table a series; see `Panel`. The columns of a
            DataFrame are matched with those of its frame by name, and its index must be the same;
            arrays have the rows and columns in the order of the frame.
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
        reader = with_errors(rows_from_frames, errors, by_series=True)
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
        id: str,
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
        id : str
            Column, or level of the index, that tells the series apart.
        time : str
            Column, or level of the index, of times: numbers, datetimes or timedeltas.
        values : str or sequence of str or None, default=None
            Columns of the channels. None: all columns without another use.
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
            every = partial(reader, **dict.fromkeys(columns))
            own = every if len(inputs) else partial(rows_from_nothing, (id, time))
            maker = "inputs=Inputs(Panel.from_long(table, ...), kinds)"
            rows = build_rows("inputs", own, inputs, maker, empty="keep", **shared)
            inputs = Inputs(cls.from_rows(rows), kinds)
        how = {k: options[k] for k in ("duplicates", "missing") if k in options}
        reader = partial(reader, **columns, **how)
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
        """Put panels of the same channels one behind the other.

        Parameters
        ----------
        panels : iterable of Panel
            At least one. Channels are brought into the order of the first panel by their names; all
            panels must have the same static columns, time unit and time zone.
        ids : sequence of shape (n_series,) or None, default=None
            Unique labels of all series. None: those of the panels.

        Returns
        -------
        Panel
            All series, in the order of the panels.

        Raises
        ------
        ValueError
            If the panels do not fit together, or there is none.

        Examples
        --------
        >>> from skpolyode.panel import Panel
        >>> ann = Panel.from_series([([0.0, 1.0], [61.0, 64.0])], ids=["ann"])
        >>> bob = Panel.from_series([([0.5], [70.0])], ids=["bob"])
        >>> Panel.concat([ann, bob]).ids.tolist()
        ['ann', 'bob']
        """
        return cls.from_rows(*concat_rows(list(panels), ids))
