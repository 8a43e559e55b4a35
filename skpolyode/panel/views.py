"""Summary, table and plot of a panel, and the error for tools that need a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.errors import plain_repr
from skpolyode.panel.rows import series_index

NO_TABLE = (
    "a Panel is not a table of features, which this tool needs. Put a transformer of skpolyode "
    "before it in a pipeline, or give whole series as one column: np.asarray(panel)[:, None], or "
    "DataFrame({'series': np.asarray(panel)}) with further columns. Choose channels by "
    "panel.select_channels(names). For the importance of channels call "
    "skpolyode.inspection.observation_importance(model, panel, by='channel')."
)


class OneAxis(tuple):
    """The shape ``(n_series,)``; access to a second axis raises an error with advice."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if key == 1:
            raise TypeError(NO_TABLE)
        return super().__getitem__(key)


_MINUTE = len("2026-01-01 00:00")  # ends in different minutes are shown in whole seconds
_FRACTION = re.compile(r"\.\d+")


def one_line(panel: Any) -> str:
    """Representation of a panel."""
    counts = [f"{panel.n_series:,} series".replace(",", " ")]
    for number, word in (panel.n_channels, "channel"), (panel.n_observations, "observation"):
        counts.append(f"{number:,} {word}{'s' * (number != 1)}".replace(",", " "))
    if panel.n_observations:
        observed = 100 * np.mean(~np.isnan(panel.values))
        times = panel.rows.times
        first, last = (times.format(int(k(times.order)), 6) for k in (np.argmin, np.argmax))
        if panel.is_datetime and first[:_MINUTE] != last[:_MINUTE]:
            first, last = (_FRACTION.sub("", text) for text in (first, last))
        counts += [f"{observed:.0f}% of cells observed", f"times {first} to {last}"]
    return f"{type(panel).__name__}({', '.join(counts)})"


def summarise(panel: Any) -> pd.DataFrame:
    """See `Panel.describe`."""
    names, seen = [*panel.channel_names, "(any)"], ~np.isnan(panel.values)
    blank = np.full(len(seen), np.nan)
    columns = [*zip(seen.T, panel.values.T, strict=True), (seen.any(axis=1), blank)]
    return pd.DataFrame([_summary(panel, *column) for column in columns], index=names)


def _summary(panel: Any, seen: np.ndarray, values: np.ndarray) -> dict[str, float]:
    """Summary of a channel: the mask (n_obs,) of its observations, and its values (n_obs,)."""
    owner, times, values = series_index(panel.offsets)[seen], panel.times[seen], values[seen]
    per_series = np.unique(owner, return_counts=True)[1]
    cells, gaps = pd.Series(values), pd.Series(np.diff(times)[np.diff(owner) == 0])
    return {
        "series": len(per_series),
        "cells": len(times),
        "share": float(seen.mean()) if len(seen) else np.nan,
        "per_series": float(np.median(per_series)) if len(per_series) else np.nan,
        **cells.agg(["mean", "std", "min", "max"]),
        "median_gap": gaps.median(),
        "longest_gap": gaps.max(),
    }


def draw(panel: Any, ax: Any, max_series: int) -> np.ndarray:
    """See `Panel.plot`."""
    axes = labelled_axes(ax, panel.channel_names, "pass one axes for each", sharex=True)
    times = panel.user_times()
    if isinstance(times, pd.DatetimeIndex):  # matplotlib would show them in UTC
        times = times.tz_localize(None).as_unit("us").to_pydatetime()
    shown = zip(panel.ids, panel.offsets[:-1][:max_series], panel.offsets[1:], strict=False)
    for name, start, stop in shown:
        when, rows = np.asarray(times[start:stop]), panel.values[start:stop]
        for one, values in zip(axes, rows.T, strict=True):
            seen = ~np.isnan(values)
            one.plot(when[seen], values[seen], marker=".", linewidth=1.0, label=as_label(name))
    if panel.n_series > 1:
        axes[0].legend(
            title="series", loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small"
        )
    axes[-1].set_xlabel("time" if panel.tz is None else f"time ({panel.tz})")
    return axes


def labelled_axes(ax: Any, names: Sequence[str], remedy: str, **shared: Any) -> np.ndarray:
    """Axes (D,) labelled with the names of channels; None makes a figure with one below another.

    `shared` is passed to ``matplotlib.pyplot.subplots``. `remedy` is advice in the error for a
    wrong number of axes.
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
        one.set_ylabel(as_label(name))
    return axes


def as_label(name: Any) -> str:
    r"""Text by which matplotlib shows a name as it is.

    "$" would begin a formula, and a line whose label begins with "_" has no place in a legend.

    Examples
    --------
    >>> from skpolyode.panel.views import as_label
    >>> as_label("_x"), as_label("US$")
    (' _x', 'US\\$')
    """
    text = str(name).replace("$", r"\$")
    return f" {text}" if text[:1] in ("", "_") else text


def long_table(panel: Any, id: str | Sequence[str], time: str, kind: str) -> Any:
    """One row for each time: `Panel.to_long`."""
    if kind not in ("pandas", "polars"):
        raise ValueError(f'kind must be "pandas" or "polars", got {plain_repr(kind)}.')
    beside = [] if panel.errors is None else [f"{name}_error" for name in panel.channel_names]
    ids = list(id) if isinstance(id, list | tuple) else [id]
    head = pd.DataFrame(panel.ids.tolist() if len(ids) > 1 else {0: panel.ids})
    if head.shape[1] != len(ids):
        raise ValueError(f"id={id!r} names no parts of ids such as {plain_repr(panel.ids[0])}.")
    taken = [name for name in (*ids, time, *beside) if name in panel.channel_names]
    if taken:
        raise ValueError(
            f"a channel has the name {taken[0]!r} of a column; pass id= or time= with another."
        )
    head = head.set_axis(ids, axis=1).loc[series_index(panel.offsets)].reset_index(drop=True)
    head[time] = panel.user_times()
    cells = panel.values if panel.errors is None else np.hstack([panel.values, panel.errors])
    table = pd.DataFrame(cells, columns=[*panel.channel_names, *beside])
    table = pd.concat([head, table], axis=1)
    return table if kind == "pandas" else import_module("polars").from_pandas(table)
