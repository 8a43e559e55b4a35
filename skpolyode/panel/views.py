"""A panel as lists, tables, arrays, summaries and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any, Self

import numpy as np
import pandas as pd

from skpolyode.panel.rows import series_index
from skpolyode.panel.selection import PanelSelection

NO_TABLE = (
    "a Panel is not a table of features, which this tool needs. Put a transformer of skpolyode "
    "before it in a pipeline, or give whole series as one column: np.asarray(panel)[:, None], or "
    "DataFrame({'series': np.asarray(panel)}) with further columns. Choose channels by "
    "panel.select_channels(names). For the importance of channels call "
    "skpolyode.inspection.observation_importance(model, panel, by='channel')."
)
_SHOWN = 5  # series in a notebook


class OneAxis(tuple):
    """The shape ``(n_series,)``; an error says what to do for whoever asks for a second axis."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if key == 1:
            raise TypeError(NO_TABLE)
        return super().__getitem__(key)


class PanelViews(PanelSelection):
    """What a panel can be turned into; `Panel` adds the ways to build one."""

    __slots__ = ()

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

    def to_long(self, *, id: str = "id", time: str = "time") -> pd.DataFrame:
        """Return one table with a row for each time, the inverse of `Panel.from_long`.

        Parameters
        ----------
        id : str, default="id"
            Name of the column of ids.
        time : str, default="time"
            Name of the column of times.

        Returns
        -------
        DataFrame
            Columns of ids, times (in the type in which they were given) and channels; of a panel
            with errors also ``<channel>_error`` for each channel.

        Raises
        ------
        ValueError
            If a channel has the name of one of the other columns.
        """
        beside = [] if self.errors is None else [f"{name}_error" for name in self.channel_names]
        taken = [name for name in (id, time, *beside) if name in self.channel_names]
        if taken:
            raise ValueError(
                f"a channel has the name {taken[0]!r} of a column; pass id= or time= with another."
            )
        head = {id: np.repeat(self.ids, self.lengths), time: self.user_times()}
        tables = [pd.DataFrame(head), pd.DataFrame(self.values, columns=list(self.channel_names))]
        if self.errors is not None:
            tables.append(pd.DataFrame(self.errors, columns=beside))
        return pd.concat(tables, axis=1)

    def to_frames(self) -> list[pd.DataFrame]:
        """Return one frame a series, the inverse of `Panel.from_frames`.

        Returns
        -------
        list of DataFrame
            Indexed by the times in the type in which they were given, with a column a channel.

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
            A column a channel, indexed by id and time in the type in which they were given. sktime
            itself reads times that are datetimes or whole numbers only.

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

    def with_limits(self, limits: Mapping[str, tuple[float | None, float | None]]) -> Self:
        """Return the same series with limits of channels, for a `fit` on them.

        Intervals and samples of the estimator end there, for all series but those that have left a
        limit themselves. Without this, zero is a limit of channels that were never past it.

        Parameters
        ----------
        limits : dict of str to (float or None, float or None)
            Least and largest value of channels, by name; None where there is none.
            ``{"change": (None, None)}`` lets intervals of a channel pass zero, too. Channels that
            are not named keep their limits.

        Returns
        -------
        Panel
            The series. Their values stay as they are.

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
        read = dict(self._rows.limits)
        for name, given in limits.items():
            if name not in self.channel_names:
                known = list(self.channel_names)
                raise ValueError(f"limits: there is no channel {name!r}; the panel has {known}.")
            try:
                low, high = given
                ends = (
                    -np.inf if low is None else float(low),
                    np.inf if high is None else float(high),
                )
            except (TypeError, ValueError):
                ends = np.nan, np.nan
            if not ends[0] < ends[1]:
                raise ValueError(
                    f"limits of channel {name!r} must be its least and its largest value, None "
                    f"where there is none, got {given!r}."
                )
            read[name] = ends
        return self.from_rows(replace(self._rows, limits=read), self._checked, self._observed)

    def describe(self) -> pd.DataFrame:
        """Summarise each channel, and the rows in which any channel is observed.

        Returns
        -------
        DataFrame
            One row per channel: the number of `series` that observe it, its number of observed
            `cells`, the `share` of the rows that these are, their median number per series
            (`per_series`), and `mean`, `std`, `min` and `max` of the values. `median_gap` and
            `longest_gap` between observations are in the units of `times`. The last row, "(any)",
            counts the rows in which any channel is observed: a series has data for about as many
            coefficients as it has such rows.

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
        names, seen = [*self.channel_names, "(any)"], ~np.isnan(self.values)
        blank = np.full(len(seen), np.nan)
        columns = [*zip(seen.T, self.values.T, strict=True), (seen.any(axis=1), blank)]
        return pd.DataFrame([self._summary(*column) for column in columns], index=names)

    def _summary(self, seen: np.ndarray, values: np.ndarray) -> dict[str, float]:
        """Of the rows (P,) that are seen, with their values."""
        owner, times, values = series_index(self.offsets)[seen], self.times[seen], values[seen]
        per_series = np.unique(owner, return_counts=True)[1]
        cells, gaps = pd.Series(values), pd.Series(np.diff(times)[np.diff(owner) == 0])
        return {
            "series": len(per_series),
            "cells": len(times),
            "share": float(seen.mean()) if len(seen) else np.nan,
            "per_series": float(np.median(per_series)) if len(per_series) else np.nan,
            "mean": cells.mean(),
            "std": cells.std(),
            "min": cells.min(),
            "max": cells.max(),
            "median_gap": gaps.median(),
            "longest_gap": gaps.max(),
        }

    def plot(self, ax: Any = None, *, max_series: int = 10) -> np.ndarray:
        """Draw the observations, with a line through those of each series and channel.

        Parameters
        ----------
        ax : Axes, array-like of Axes or None, default=None
            One axes a channel; None for a new figure of matplotlib, with the channels below one
            another.
        max_series : int, default=10
            Number of series to draw, from the first one on. Select others by ``panel[...]`` before.

        Returns
        -------
        object ndarray of shape (n_channels,)
            The axes.

        Raises
        ------
        ValueError
            If there is not one axes for each channel.

        Examples
        --------
        >>> import matplotlib.pyplot as plt
        >>> from skpolyode.panel import Panel
        >>> panel = Panel.from_series([([0, 1, 4], [[1.0, 5.0], [2.0, None], [6.0, None]])])
        >>> axes = panel.plot()
        >>> [len(own.lines) for own in axes]
        [1, 1]
        >>> plt.close(axes[0].figure)
        """
        axes = labelled_axes(ax, self.channel_names, "pass one axes for each", sharex=True)
        times = self.user_times()
        if isinstance(times, pd.DatetimeIndex):  # matplotlib would show them in UTC
            times = times.tz_localize(None).as_unit("us").to_pydatetime()
        for start, stop in zip(self.offsets[:-1][:max_series], self.offsets[1:], strict=False):
            when, rows = np.asarray(times[start:stop]), self.values[start:stop]
            for one, values in zip(axes, rows.T, strict=True):
                seen = ~np.isnan(values)
                one.plot(when[seen], values[seen], marker=".", linewidth=1.0)
        axes[-1].set_xlabel("time" if self.tz is None else f"time ({self.tz})")
        return axes

    @property
    def shape(self) -> tuple[int]:
        """``(n_series,)``: one axis, so that scikit-learn slices a panel like an array."""
        return OneAxis((self.n_series,))

    def __getattr__(self, name: str) -> Any:
        # scikit-learn's check of tables asks for it first; splitters and searches do not.
        if name == "dtype":
            raise TypeError(NO_TABLE)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> np.ndarray:
        """Return an array of objects: panels of one series each, which `as_panel` puts together.

        For what only knows arrays (`BaggingClassifier`, a column of a frame).
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

    def _repr_html_(self) -> str:
        """Show the first series in a notebook."""
        names = ", ".join(self.channel_names)
        heads = ("id", "rows", "first time", "last time", "observed")
        lines = [f"<p>{escape(repr(self))}<br>{escape(names)}</p><table><tr>"]
        lines += [f"<th>{head}</th>" for head in heads]
        times = self.user_times()
        for k in range(min(self.n_series, _SHOWN)):
            start, stop = self.offsets[k : k + 2]
            ends = (times[start], times[stop - 1]) if stop > start else ("", "")
            share = np.mean(~np.isnan(self.values[start:stop])) if stop > start else 0.0
            cells = (self.ids[k], stop - start, *ends, f"{100 * share:.0f} %")
            lines += ["</tr><tr>", *(f"<td>{escape(str(cell))}</td>" for cell in cells)]
        more = self.n_series - _SHOWN
        return "".join([*lines, "</tr></table>", f"<p>... {more} more</p>" if more > 0 else ""])


def labelled_axes(ax: Any, names: Sequence[str], remedy: str, **shared: Any) -> np.ndarray:
    """Axes (D,) of channels, labelled with their names; None makes a figure with one for each.

    There, one is below another; `shared` goes to ``matplotlib.pyplot.subplots``. The `remedy` is
    for those who pass another number of axes.
    """
    if ax is None:
        import matplotlib.pyplot as plt

        options = {"figsize": (7.0, 1.0 + 1.7 * len(names)), "layout": "constrained"}  # inches
        figure, grid = plt.subplots(len(names), 1, squeeze=False, **options, **shared)
        figure.align_ylabels(grid)
        ax = grid[:, 0]
    axes = np.asarray(ax, dtype=object).ravel()
    if len(axes) != len(names):
        raise ValueError(
            f"ax holds {len(axes)} axes, but there are {len(names)} channels "
            f"({', '.join(map(str, names))}): {remedy}."
        )
    for one, name in zip(axes, names, strict=True):
        one.set_ylabel(name)
    return axes
