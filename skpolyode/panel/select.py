"""Parts of the rows of a panel: those with an observation, windows, and recent rows.

Rows and series without any observation are dropped once, on input; later code relies on
`Panel.is_observed`. Results for empty series are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise, starmap
from typing import Any, NamedTuple

import numpy as np

from skpolyode.panel.checks import build_rows
from skpolyode.panel.panel import Panel
from skpolyode.panel.readers.lists import rows_from_flat
from skpolyode.panel.rows import inside_series, offsets_from, series_index

ENOUGH_ROWS = 20_000  # enough to learn the size of errors


def observed_series(panel: Panel) -> np.ndarray:
    """Return a mask (n_series,) of the series with an observation."""
    if not panel.rows.keeps_empty or panel.is_observed:
        return np.ones(panel.n_series, dtype=bool)
    return panel.rows.n_observed > 0


def observed_part(panel: Panel) -> Panel:
    """Drop rows without an observation; returns the panel itself if there are none."""
    if panel.is_observed:
        return panel
    rows = panel.rows.keep(panel.rows.observed)
    observed = bool((rows.lengths > 0).all())  # otherwise a series is left without any row
    return panel.from_rows(rows, checked=panel.is_checked and observed, observed=observed)


def drop_empty(panel: Panel, name: str = "X") -> Panel:
    """Drop series and rows without any observation; a ValueError if nothing is left."""
    observed = observed_series(panel)
    if not observed.any():
        raise ValueError(f"{name} has no observation in any series: there is nothing to learn.")
    return observed_part(panel if observed.all() else panel[observed])


def fill_rows(
    panel: Panel, compute: Callable[[Panel], np.ndarray], width: Callable[[], int]
) -> np.ndarray:
    """Compute a row (n_series, width) for each series, filled with NaN for empty series.

    `compute` gets a panel without empty rows and series.
    """
    observed = observed_series(panel)
    if observed.all():
        return compute(observed_part(panel))
    rows = np.full((panel.n_series, width()), np.nan)
    if observed.any():
        rows[observed] = compute(observed_part(panel[observed]))
    return rows


def fill_values(
    panel: Panel,
    times: np.ndarray,
    offsets: np.ndarray,
    compute: Callable[[Panel, np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Compute values (n_queries, D) at times (n_queries,), filled with NaN for empty series.

    The times of each series start at `offsets` (n_series + 1,). `compute` gets a panel without
    empty rows and series, and the times and offsets of its series.
    """
    has_answer, query = Query(panel, times, offsets).answered()
    if len(query.panel) == len(panel):
        return compute(*query)
    values = np.full((len(times), panel.n_channels), np.nan)
    if len(query.panel):
        values[has_answer] = compute(*query)
    return values


class Query(NamedTuple):
    """Q times at which something is asked of the series of a panel."""

    panel: Panel
    times: np.ndarray  # float64 (Q,), of all series one after the other
    offsets: np.ndarray  # int64 (n_series + 1,): where the times of each series start

    def answered(self) -> tuple[np.ndarray, Query]:
        """Mask (Q,) of times of series with an observation, and the query of these alone.

        Its panel has no empty rows.
        """
        counts, observed = np.diff(self.offsets), observed_series(self.panel)
        asked = np.repeat(observed, counts)
        if observed.all():
            return asked, self._replace(panel=observed_part(self.panel))
        panel = observed_part(self.panel[observed])
        return asked, Query(panel, self.times[asked], offsets_from(counts[observed]))


def blank_panel(n_series: int, fitted: Any, static: Any) -> Panel:
    """Panel without rows, with the channels, unit and time zone that an estimator was fitted on."""
    names, named = fitted.channel_names_, fitted.has_channel_names_
    nothing = np.empty(0), np.empty((0, len(names))), np.zeros(n_series + 1, dtype=np.int64)
    labels = {"channel_names": names, "static": static, "time_unit": fitted.time_unit_}
    blank = build_rows("stream", rows_from_flat, nothing, empty="keep", **labels)
    times = blank.times._replace(tz=fitted.tz_)
    blank = replace(blank, times=times, keeps_empty=False, has_channel_names=named)
    return Panel.from_rows(blank, checked=False)


def typical_gap(panel: Panel) -> float:
    """Mean gap, with gaps capped at four times the third quartile.

    It is the model's unit of time. The mean bounds the number of integration steps by the number
    of observations; the cap keeps a few enormous gaps from setting the scale.

    Parameters
    ----------
    panel : Panel
        Training series without empty rows.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.panel.select import typical_gap
    >>> times = [0.0, 1.0, 3.0, 6.0]
    >>> typical_gap(Panel.from_series([(times, times)]))
    2.0
    """
    gaps = np.diff(panel.elapsed)[inside_series(panel.offsets, len(panel.times))]
    if not len(gaps):
        return 1.0
    return float(np.minimum(gaps, 4 * np.quantile(gaps, 0.75)).mean())


def first_series(panel: Panel, n_rows: int = ENOUGH_ROWS) -> Panel:
    """First series that together have at least `n_rows` rows; all if they have fewer."""
    return panel[: int(np.searchsorted(np.cumsum(panel.lengths), n_rows)) + 1]


def hide_cells(panel: Panel, hidden: np.ndarray, **others: Any) -> Panel:
    """Panel in which the cells (n_obs, D) of a mask are not observed; `others` are of `Rows`."""
    rows = panel.rows.with_cells(lambda cells: np.where(hidden, np.nan, cells))
    return panel.from_rows(replace(rows, **others), checked=False)


def keep_rows(panel: Panel, kept: np.ndarray, **others: Any) -> Panel:
    """Panel of the rows that a mask (n_obs,) keeps; a series may be left without any.

    `others` are fields of `Rows`.
    """
    return panel.from_rows(replace(panel.rows.keep(kept), **others), checked=False)


def split_rows(panel: Panel, last: np.ndarray) -> tuple[Panel, Panel]:
    """Rows up to the `last` time (n_series,) of each series, and those after it."""
    known = panel.times <= np.repeat(last, panel.lengths)
    return keep_rows(panel, known), keep_rows(panel, ~known)


def series_of_rows(panel: Panel) -> np.ndarray:
    """Position of the series that each row belongs to, int64 of shape (n_obs,)."""
    return series_index(panel.offsets)


def take(panel: Panel, series: np.ndarray, start: np.ndarray, stop: np.ndarray) -> Panel:
    """Panel whose series k is the rows ``start[k]`` to ``stop[k] - 1`` of series ``series[k]``.

    Rows are indices among all rows of the panel. A series may be taken many times.
    """
    is_observed = panel.is_observed and bool((stop > start).all())  # then so is every part
    rows = panel.rows.of_series(series, start, stop)
    return panel.from_rows(rows, panel.is_checked and is_observed, is_observed or None)


def cut_windows(panel: Panel, length: int, overlap: int) -> Panel:
    """Cut series much longer than `length` rows into windows that overlap.

    Training runs through all series at once, row by row. Cutting makes its cost depend on the
    number of rows, not on the longest series, and gives one long series several starts.
    """
    return take(panel, *window_bounds(panel.offsets, length, overlap))


def window_bounds(
    offsets: np.ndarray, length: int, overlap: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Series, first row and row after the last one of each window of :func:`cut_windows`.

    Windows overlap by at least `overlap` rows and are spread evenly; series of less than one and a
    half windows stay whole.
    """
    n_rows = np.diff(offsets)
    is_long = n_rows >= 1.5 * length
    n_windows = np.where(is_long, -(-(n_rows - overlap) // (length - overlap)), 1)
    size = np.where(is_long, length, n_rows)
    series = np.repeat(np.arange(len(n_rows)), n_windows)
    place = np.arange(len(series)) - np.repeat(np.cumsum(n_windows) - n_windows, n_windows)
    step = (n_rows - size) / np.maximum(n_windows - 1, 1)
    start = offsets[:-1][series] + (place * step[series]).round().astype(np.int64)
    return series, start, start + size[series]


def last_seen_rows(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Rows (n_obs, D): the last row of the series, up to each, that observes a channel, or -1."""
    index = np.where(np.isnan(values), -1, np.arange(len(values))[:, None])
    latest = np.maximum.accumulate(index, axis=0)
    first = offsets[series_index(offsets)][:, None]
    return np.where(latest >= first, latest, -1)


def time_since_seen(panel: Panel, rows: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Times (Q, D) from the last observation of each channel, up to `rows` (Q,), to `times` (Q,).

    Infinite where a channel was not observed, or a row is -1.
    """
    seen = np.where(rows[:, None] < 0, -1, last_seen_rows(panel.values, panel.offsets)[rows])
    return np.where(seen < 0, np.inf, times[:, None] - panel.times[seen])


def series_chunks(lengths: np.ndarray, n_rows: int) -> Iterator[slice]:
    """Slices of consecutive series, of these lengths, with about `n_rows` rows each."""
    chunk = (np.cumsum(lengths) - 1) // n_rows
    bounds = np.flatnonzero(np.diff(chunk, prepend=-1, append=-1))
    return starmap(slice, pairwise(bounds.tolist()))


def context_starts(panel: Panel, rows: np.ndarray, reach: float) -> np.ndarray:
    """First row that affects the state at each of `rows`.

    It is the first within `reach` of the earliest of the channels' last observations: from there
    the dynamics continue with the memory at that time. If a channel was never observed, its state
    was never reset, and the first row of the series counts.
    """
    starts = np.empty(panel.n_observations, dtype=np.int64)
    for first, end in zip(panel.offsets[:-1], panel.offsets[1:], strict=True):
        times = panel.times[first:end]
        starts[first:end] = first + np.searchsorted(times, times - reach)
    seen = last_seen_rows(panel.values, panel.offsets)[rows].min(axis=1)
    first = panel.offsets[series_of_rows(panel)[rows]]
    return np.where(seen < 0, first, starts[seen])


def recent_part(panel: Panel, reach: float, n_rows: np.ndarray | int = 0) -> Panel:
    """Rows that affect the state at the end of each series; see `context_starts`.

    They are at least `n_rows`, if the series has as many: after a gap longer than the reach, a
    larger reach alone may add none. The panel has no empty rows.
    """
    last = panel.offsets[1:] - 1
    if (panel.end - panel.start <= 2 * reach).all():
        return panel
    starts = np.minimum(context_starts(panel, last, reach), last + 1 - n_rows)
    starts = np.maximum(starts, panel.offsets[:-1])
    return take(panel, np.arange(panel.n_series), starts, last + 1)
