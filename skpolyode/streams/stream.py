"""Embeddings that follow series as observations come in, in constant memory.

A stream holds the state of the batch computation at the last observation of each series, and
updates it with the same functions. Series do not depend on each other, so groups of them are
updated side by side: each group runs through rounds of its new observations, at most one of a
series in each. States are written back when all groups are done, so that an error leaves the stream
as it was.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from sklearn.utils.metaestimators import available_if

from skpolyode.embedders import Embedder
from skpolyode.embedders.base import map_threads
from skpolyode.errors import Faults, plain_repr
from skpolyode.models.contract import State, select
from skpolyode.panel import Panel
from skpolyode.panel.query import edge, times_since
from skpolyode.panel.rows import offsets_from
from skpolyode.panel.select import (
    hide_cells,
    keep_rows,
    last_seen_rows,
    observed_part,
    observed_series,
)
from skpolyode.saving.codec import Encoder, place, register
from skpolyode.saving.objects import save
from skpolyode.streams.panels import (
    DrivenGap,
    add_inputs,
    at_times,
    begun_at,
    check_new,
    hidden_cells,
    joint,
    read_rows,
    read_series,
    without_past,
)
from skpolyode.streams.revisions import (
    BEYOND,
    WRONG,
    Kept,
    check_kept,
    gathered,
    late_rows,
    read_keep,
    rows_by_id,
)


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
        start, elapsed = np.zeros((2, n_series))
        last, seen_at = np.full(n_series, -np.inf), np.full((n_series, n_channels), np.nan)
        return cls(start, last, elapsed, seen_at, np.zeros(n_series, dtype=np.int64))

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


_GROUP = 2048  # series updated together: few enough for the cache, enough to keep a thread busy


class SeriesStream:
    """Base of streams: everything except the state of each series.

    Subclasses define that state, tensors with one row per series: `_blank` makes it, `_resume`
    computes it for known series, and `_take_in` updates it.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        register(cls, cls.__getstate__, cls._from_file, place=cls._place)

    def __init__(self, embedder: Embedder, panel: Panel, keep: Any = None) -> None:
        self._embedder = embedder
        is_known = embedder.inputs is None or panel.inputs is not None
        self._panel = panel if is_known else embedder.inputs.unknown(panel)
        self._clock = Clock.stopped(panel.n_series, panel.n_channels)
        self._bind()
        self._parts = self._blank()
        # The rows kept of each series, how far they go back, and the stream before them.
        self._kept, self._keep, self._before = {}, None, None
        if keep is not None:
            self._keep = read_keep(keep, panel.time_unit)
            self._before = type(self)(embedder, panel)

    @classmethod
    def after(cls, embedder: Embedder, panel: Panel, keep: Any = None) -> Self:
        """Stream that continues from the last observations of the series of a checked panel.

        With `keep`, a length of time or a number of rows, it keeps their latest rows.
        """
        keep = None if keep is None else read_keep(keep, panel.time_unit)
        stream, known = cls(embedder, panel.without_rows()), observed_series(panel)
        if known.all():
            panel = observed_part(panel)
            stream._clock = Clock.after(panel, embedder.units.time_scale)
            stream._parts = stream._resume(panel)
        elif known.any():  # the others start later
            begun, places = cls.after(embedder, panel[known]), np.flatnonzero(known)
            stream._clock.put(places, begun._clock)
            stream._put(stream._parts, places, begun._parts)
        stream._panel = without_past(stream._panel, stream._clock.last)
        if keep is None:
            return stream
        seen = observed_part(panel)
        late = late_rows(seen, keep)
        early = keep_rows(seen, ~late, keeps_empty=True)
        stream._before, stream._keep = cls.after(embedder, early), keep
        latest = keep_rows(seen, late)
        stream._kept = {s: Kept.of(latest, s) for s in np.flatnonzero(latest.lengths).tolist()}
        return stream

    def outline(self, series: Any = None) -> Panel:
        """Where each series starts and ends: rows at its first and last observations.

        Parameters
        ----------
        series : int, str, array-like of such or None, default=None
            Series, by position or by id; None means all.

        Returns
        -------
        Panel
            Ids and static covariates of the series, and two rows for each, one if it was observed
            once. Their values are the means of the channels, as a stream keeps no observations.

        Raises
        ------
        ValueError
            If one of them has not been observed.
        """
        chosen = self._started(series)
        clock = self._clock.take(chosen)
        times = np.column_stack([clock.start, clock.last])
        kept = np.column_stack([clock.count > 1, clock.count > 0])
        values = np.tile(self._embedder.units.scaler.mean, (int(kept.sum()), 1))
        return at_times(self._panel[chosen], times[kept], offsets_from(kept.sum(axis=1)), values)

    @abstractmethod
    def _bind(self) -> None:
        """Set attributes that follow from the embedder and are not saved."""

    @abstractmethod
    def _blank(self) -> State:
        """State of series before their first observation."""

    @abstractmethod
    def _resume(self, panel: Panel) -> State:
        """State of series after all rows of a panel, each of which holds an observation."""

    @abstractmethod
    def _take_in(self, parts: State, update: Update) -> State:
        """State of n series after one more observation of each."""

    @abstractmethod
    def _features(self, series: np.ndarray) -> np.ndarray:
        """Features (b, F) of the series at positions (b,), without the duration."""

    @abstractmethod
    def _coefficients(self, series: np.ndarray) -> np.ndarray:
        """Coefficients (b, D, N) of the series at positions (b,), at their last observations."""

    @property
    def n_series(self) -> int:
        """Number of series."""
        return self._panel.n_series

    @property
    def n_observations(self) -> np.ndarray:
        """Observations of each series so far, int64 of shape (n_series,)."""
        return self._clock.count.copy()

    @property
    def last_times(self) -> np.ndarray | pd.DatetimeIndex:
        """Time of the last observation of each series, NaN (NaT) before the first."""
        last = np.where(self._clock.count > 0, self._clock.last, np.nan)
        values = np.empty((self.n_series, self._panel.n_channels))
        return self._panel.like(last, values, np.arange(self.n_series + 1)).user_times()

    def __repr__(self) -> str:
        series = f"{self.n_series} series, {int(self._clock.count.sum())} observations"
        return f"{type(self).__name__}({series})"

    def update(
        self,
        times: Any = None,
        values: Any = None,
        series: Any = None,
        *,
        errors: Any = None,
        inputs: Any = None,
    ) -> Self:
        """Add new observations, of any of the series.

        Parameters
        ----------
        times : scalar, array-like of shape (n_rows,) or None, default=None
            Times of the observations, in the units and of the type that the transformer was fitted
            on; datetimes also as text such as "2026-01-02 05:00". Each must be later than all
            earlier times of its series. A scalar is the time of all rows.
        values : array-like of shape (n_rows, D) or (n_rows,), dict or None, default=None
            Values, NaN where a channel was not observed. One channel needs no axis. Rows without
            any value are left out. The columns of a DataFrame, the entries of a Series at a scalar
            time, and those of a dict are matched with the channels of `fit` by name; channels that
            a dict leaves out were not observed.
        series : int, str, array-like of such of shape (n_rows,) or None, default=None
            Series of each row, by position, or by id if ids are text. A series may have many rows,
            and rows of different series may be mixed. None: one row for each series, or all rows
            of the only one.
        errors : array-like of the shape of `values` or None, default=None
            Known standard deviations of the values, NaN where not known; see `Panel`.
        inputs : Inputs, Panel, list of (times, values) or None, default=None
            New inputs after the last observations, also after the new ones: one series of inputs
            for each series, or only for the ids that have any. They may be given without `times`
            and `values`. For inputs of the kind "linear", give the next point together with an
            observation: until it is known, the input keeps its value.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If times are out of order, repeated or not finite, or values infinite or too large to
            compute with, or shapes or names of channels do not fit. The error lists the first
            faults, and the stream is left as it was.
        TypeError
            If times are of another kind.
        """
        panel = self._panel
        if panel.is_datetime and panel.rows.origin is None and not self._clock.count.any():
            panel = begun_at(panel, times)
        if inputs is not None:
            panel = add_inputs(panel, self._embedder, inputs, self._clock.last)
        if inputs is not None and times is values is None:
            times = values = ()
        scaler = self._embedder.units.scaler
        rows = read_rows(panel, self._clock.last, scaler, times, values, series, errors)
        self._write(self._followed(rows, panel))
        self._panel = without_past(panel, self._clock.last)
        if self._before is not None:
            self._append(rows, panel, inputs)
        return self

    def insert(self, series: Any, time: Any, values: Any, *, errors: Any = None) -> Self:
        """Insert observations that arrive late, as if they had arrived in time.

        The stream must have been made with `keep`, and the times must be after the rows that it
        has forgotten. A row that exists at this time gets the further channels.

        Parameters
        ----------
        series : int, str or array-like of such of shape (n_rows,)
            Series of each row, by position, or by id if ids are text.
        time : scalar or array-like of shape (n_rows,)
            Times of the observations, as in `update`; those of a series in order.
        values : array-like of shape (n_rows, D) or (n_rows,), or dict
            Values, NaN where there is none, as in `update`. Values that are far from all others are
            taken as not observed, with a warning.
        errors : array-like of the shape of `values` or None, default=None
            Known standard deviations of the values.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a time is before what is kept, or a value is known already. The stream is left as it
            was.

        Examples
        --------
        >>> from skpolyode import HiPPOTransformer
        >>> series = [([0.0, 1.0, 3.0], [1.0, 2.0, 0.0])]
        >>> transformer = HiPPOTransformer(n_coefficients=4).fit(series)
        >>> stream = transformer.stream(keep=2.5).update([0.0, 3.0], [1.0, 0.0])
        >>> late = stream.insert(0, 1.0, 2.0)
        >>> bool(abs(late.embedding() - transformer.transform(series)).max() < 1e-12)
        True
        >>> stream.retract(0, 1.0).n_observations
        array([2])
        """
        if not self._clock.count.any():
            return self.update(time, values, series, errors=errors)
        return self._revise("insert", (time, values, series, errors))

    def correct(self, series: Any, time: Any, values: Any, *, errors: Any = None) -> Self:
        """Replace wrong observations, as if the right ones had arrived at first.

        Parameters
        ----------
        series : int, str or array-like of such of shape (n_rows,)
            Series of each row.
        time : scalar or array-like of shape (n_rows,)
            Times of the rows.
        values : array-like of shape (n_rows, D) or (n_rows,), or dict
            The right values; NaN, or left out of a dict, where they stay as they are. Where one is
            far from all others, a warning says so, and nothing counts as observed there.
        errors : array-like of the shape of `values` or None, default=None
            Standard deviations of these values. None: not known.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a time is before what is kept, or there is no such observation. The stream is left as
            it was.
        """
        return self._revise("correct", (time, values, series, errors))

    def retract(self, series: Any, time: Any, channels: Any = None) -> Self:
        """Remove observations; the state becomes what it would have been without them.

        Parameters
        ----------
        series : int, str or array-like of such of shape (n_rows,)
            Series of each row.
        time : scalar or array-like of shape (n_rows,)
            Times of the rows.
        channels : str, sequence of str or None, default=None
            Names of the channels whose values are removed. None: whole rows.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a time is before what is kept, or there is no such observation. The stream is left as
            it was.
        """
        whole, names = channels is None, self._panel.channel_names
        chosen = names if whole else [channels] if isinstance(channels, str) else channels
        if unknown := set(chosen) - set(names):
            raise ValueError(f"retract: there is no channel {min(unknown)!r}.")
        n_rows = len(np.atleast_1d(series if np.ndim(time) == 0 else time))
        mean = self._embedder.units.scaler.mean  # values that pass checks
        cells = np.tile(np.where(np.isin(names, chosen), mean, np.nan), (n_rows, 1))
        return self._revise("retract", (time, cells, series), whole)

    def _rows_of(self, series: int) -> Kept:
        """The rows kept of one series."""
        kept = self._kept.get(series)
        return Kept.of(self._before._panel, 0) if kept is None else kept  # a panel without rows

    def _append(self, rows: Panel, panel: Panel, inputs: Any) -> None:
        """Keep the rows and inputs of an update; rows that are now too old go into `_before`.

        The origin of its times is that of `panel`.
        """
        before, was = self._before, self._before._panel
        if was.inputs is None or was.rows.origin is None is not panel.rows.origin:
            before._panel = panel
        elif inputs is not None:
            before._panel = add_inputs(was, before._embedder, inputs, before._clock.last)
        new = {s: self._rows_of(s).joined(kept) for s, kept in rows_by_id(rows).items()}
        every = gathered(new, before._panel)
        late = late_rows(every, self._keep)
        self._kept |= rows_by_id(keep_rows(every, late))
        before._write(before._followed(keep_rows(every, ~late), before._panel))
        before._panel = without_past(before._panel, before._clock.last)

    def _revise(self, action: str, given: tuple[Any, ...], whole: bool = False) -> Self:
        """Insert, correct or retract cells, which are `given` as `read_rows` takes them."""
        before, panel, scaler = self._before, self._panel, self._embedder.units.scaler
        if before is None:
            raise ValueError(
                'this stream keeps no rows to revise: make it with stream(..., keep="6h"), the '
                "length of time, or a number of rows, that revisions may go back."
            )
        named = partial(Faults, action, panel.ids, panel.channel_names)
        forgotten, fault = np.full(self.n_series, -np.inf), WRONG[action]
        rows = read_rows(panel, forgotten, scaler._replace(limits=None), *given)
        which, faults, revised = np.array(rows.ids), named(), {}
        hidden = hidden_cells(rows.rows, scaler, named(positions=which)) | (action == "retract")
        rows, changed = hide_cells(rows, hidden), ~np.isnan(rows.values)
        for k, s in enumerate(which.tolist()):
            new, cells = Kept.of(rows, k), changed[rows.offsets[k] : rows.offsets[k + 1]]
            revised[s], wrong = self._rows_of(s).revised(new, cells, action, whole)
            beyond, last = new.times <= before._clock.last[s], before._clock.last[s]
            for row in np.flatnonzero(beyond | wrong.any(axis=1)):
                kind, what = BEYOND if beyond[row] else fault
                if not (beyond[row] or new.times[row] in self._rows_of(s).times):
                    what = "there is no row at that time"
                at, end = (panel.rows.format_from(s, moment) for moment in (new.times[row], last))
                names = ", ".join(np.array(panel.channel_names)[wrong[row]])
                line = what.format(end=end, channels=names)
                faults.add(kind, [f"{faults.series(s)}, time {at}: {line}"])
        faults.raise_if_any()
        rows = gathered(revised, panel)
        check_new(panel, scaler, rows, before._clock.last[rows.ids])
        followed = before._followed(rows, before._panel)
        self._kept |= revised
        self._clock.put(which, before._clock.take(which))
        self._put(self._parts, which, select(before._parts, torch.from_numpy(which)))
        self._write(followed)
        self._panel = without_past(before._panel, self._clock.last)
        return self

    def embedding(self, series: Any = None) -> np.ndarray:
        """Embed the series, as `transform` does for all of their rows so far.

        Parameters
        ----------
        series : int, str, array-like of such or None, default=None
            Series, by position or by id; None means all.

        Returns
        -------
        float64 ndarray of shape (n_series, n_features)

        Raises
        ------
        ValueError
            If one of them has not been observed.
        """
        chosen = self._started(series)
        clock = self._clock
        with torch.inference_mode():
            features = self._features(chosen)
        past = self._embedder.past
        if past is None:
            return features
        return past.with_duration(features, clock.start[chosen], clock.last[chosen])

    @available_if(lambda stream: stream._embedder.past is not None)
    def reconstruct(self, times: Any, series: Any = None, relative_to: str | None = None) -> Panel:
        """Reconstruct the past of the series from their memory at the last observation.

        Parameters
        ----------
        times : array-like of shape (Q,) or list of such
            Times within ``[last observation - window_, last observation]``, for all of the series
            or for each.
        series : int, str, array-like of such or None, default=None
            Series, by position or by id; None means all.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from: the first or the last observation of each series; they are then
            numbers, or timedeltas for series with datetimes. None: absolute times, like those of
            the series.

        Returns
        -------
        Panel
            All channels at these times, also where they were not observed.

        Raises
        ------
        ValueError
            If a time is outside the window, or a series has not been observed.
        """
        chosen, past = self._started(series), self._embedder.past
        clock = self._clock.take(chosen)
        panel, flat, offsets = self._asked(chosen, times, relative_to)
        with torch.inference_mode():
            coefficients = self._coefficients(chosen)
        values = past.read_past(coefficients, panel, flat, offsets, (clock.start, clock.last))
        return panel.like(flat, values, offsets)

    def _asked(
        self, chosen: np.ndarray, times: Any, relative_to: str | None
    ) -> tuple[Panel, np.ndarray, np.ndarray]:
        """Panel of the `chosen` series, their query times (Q,), and the offsets of these."""
        panel, clock = self._panel[chosen], self._clock.take(chosen)
        return panel, *times_since(panel, times, edge(relative_to, clock.start, clock.last))

    def _started(self, series: Any) -> np.ndarray:
        """Positions of the selected series; a ValueError if one has not been observed."""
        everything = np.arange(self.n_series)
        chosen = everything if series is None else read_series(series, self._panel.ids)
        if (unseen := self._clock.count[chosen] == 0).any():
            first = plain_repr(self._panel.ids[chosen[unseen][0]])
            raise ValueError(
                f"series {first} has not been observed yet ({int(unseen.sum())} such series): "
                "pass series=np.flatnonzero(stream.n_observations) for those that have."
            )
        return chosen

    def _followed(self, rows: Panel, panel: Panel) -> list[tuple[Panel, Clock, State]]:
        """Clock and parts of each group of series after new rows; nothing is written yet."""
        groups = [rows[k : k + _GROUP] for k in range(0, rows.n_series, _GROUP)]
        return map_threads(partial(self._follow, panel=panel), groups)

    def _write(self, followed: list[tuple[Panel, Clock, State]]) -> None:
        for rows, clock, parts in followed:
            self._clock.put(rows.ids, clock)
            self._put(self._parts, rows.ids, parts)

    @torch.inference_mode()
    def _follow(self, rows: Panel, panel: Panel) -> tuple[Panel, Clock, State]:
        """Clock and parts of one group after its new rows."""
        index = torch.tensor(rows.ids, device="cpu")
        clock, parts = self._clock.take(rows.ids), select(self._parts, index)
        scaler, unit = self._embedder.units
        values, lengths = scaler.read(rows.values), rows.lengths
        for k in range(lengths.max()):  # rounds, with one row of each series that has so many
            which = np.flatnonzero(lengths > k)
            now = rows.offsets[which] + k
            is_all, times, beside = len(which) == len(rows.ids), rows.times[now], {}
            before = clock if is_all else clock.take(which)
            if rows.errors is not None:
                beside["errors"] = rows.errors[now] / scaler.scale
            if self._embedder.inputs is not None:
                gap = panel[rows.ids[which]], before.last, before.elapsed, times
                beside["driven_gap"] = DrivenGap.of(self._embedder, *gap)
            moved, update = before.move(times, values[now], unit, **beside)
            if is_all:
                clock, parts = moved, self._take_in(parts, update)
                continue
            clock.put(which, moved)
            self._put(parts, which, self._take_in(select(parts, torch.from_numpy(which)), update))
        return rows, clock, parts

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the stream and its embedder in one file without any code.

        Parameters
        ----------
        path : str or PathLike
            Name of the safetensors file, which should end in ``.safetensors``; an existing file is
            replaced.

        Raises
        ------
        TypeError
            If a parameter or a label is of a type that files cannot hold.

        See Also
        --------
        skpolyode.load : Load the file.
        """
        save(self, path)

    def __getstate__(self) -> dict[str, Any]:
        """State to save and pickle, without tables of the memory."""
        history = None
        if self._before is not None:
            rows = gathered(self._kept, self._before._panel)
            before = self._before.__getstate__() | {"of": None}
            history = {"keep": self._keep, "rows": rows, "before": before}
        return {
            "of": self._embedder,
            "panel": self._panel,
            "clock": {name: column.copy() for name, column in self._clock._asdict().items()},
            "parts": {name: part.clone() for name, part in self._parts.items()},
            "history": history,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._embedder = state["of"]
        self._panel = state["panel"]
        self._clock = Clock(**state["clock"])
        self._parts = state["parts"]
        self._bind()
        self._kept, self._keep, self._before = {}, None, None
        if (history := state.get("history")) is not None:
            self._kept, self._keep = rows_by_id(history["rows"]), history["keep"]
            self._before = type(self).__new__(type(self))
            self._before.__setstate__(history["before"] | {"of": state["of"]})

    @classmethod
    def _from_file(cls, state: dict[str, Any]) -> Self:
        """Stream from the state in a file, from anyone: a ValueError if its parts do not fit."""
        panel, clock = state["panel"], Clock(**state["clock"])
        stopped = Clock.stopped(1, panel.n_channels)
        if kinds(clock._asdict()) != kinds(stopped._asdict(), panel.n_series):
            raise ValueError("a clock that is not of this stream")
        stream = cls.__new__(cls)
        stream.__setstate__(state)
        one = cls(stream._embedder, panel[[0]])
        if kinds(state["parts"]) != kinds(one._parts, panel.n_series):
            raise ValueError("parts that are not of this stream")
        if (history := state.get("history")) is not None:
            cls._from_file(history["before"] | {"of": state["of"]})
            check_kept(stream._kept, stream._keep, stream._before._panel)
        return stream

    def _place(self, device: str | None) -> Self:
        self._embedder = place(self._embedder, device)
        self._bind()
        where = self._embedder.device
        self._parts = {name: part.to(where) for name, part in self._parts.items()}
        if self._before is not None:
            self._before._embedder = self._embedder
            self._before._place(device)
        return self

    @staticmethod
    def _put(parts: State, series: np.ndarray, new: State) -> None:
        """Overwrite the state of the series at given positions."""
        index = torch.tensor(series, device="cpu")
        for name, part in new.items():
            parts[name].index_copy_(0, index.to(part.device), part)


def merge(a: SeriesStream, b: SeriesStream) -> SeriesStream:
    """Make one stream of two streams of different series: those of `a`, then those of `b`.

    Parameters
    ----------
    a, b : stream
        Streams of the same transformer with the same `keep`. They are not changed.

    Returns
    -------
    stream
        Its ids are those of both; for streams without ids, positions from 0.

    Raises
    ------
    ValueError
        If they are of different transformers, keep different lengths, their times are of different
        kinds, or a series is in both.

    Examples
    --------
    >>> from skpolyode import HiPPOTransformer
    >>> from skpolyode.streams import merge
    >>> transformer = HiPPOTransformer(n_coefficients=4).fit([([0.0, 1.0], [1.0, 2.0])])
    >>> stream = transformer.stream(2).update(0.0, [1.0, 2.0])
    >>> merge(stream, transformer.stream(1))
    HiPPOStream(3 series, 2 observations)
    """
    if type(a) is not type(b) or not _have_equal_files(a._embedder, b._embedder):
        raise ValueError("merge: the streams are of different transformers, or of different fits.")
    if a._keep != b._keep:
        raise ValueError("merge: the streams keep different lengths of the past: give both one.")
    return _merged(a, b)


def _have_equal_files(one: Any, two: Any) -> bool:
    """Whether the files of two objects would be equal."""
    if one is two:
        return True
    encoders = Encoder(), Encoder()
    same = encoders[0].encode(one, "of") == encoders[1].encode(two, "of")
    arrays = [{name: x.tobytes() for name, x in file.arrays.items()} for file in encoders]
    return same and arrays[0] == arrays[1]


def _merged(a: SeriesStream, b: SeriesStream) -> SeriesStream:
    clock = Clock(*map(np.concatenate, zip(a._clock, b._clock, strict=True)))._asdict()
    parts = {name: torch.cat([part, b._parts[name]]) for name, part in a._parts.items()}
    merged = type(a).__new__(type(a))
    state = {"of": a._embedder, "panel": joint(a._panel, b._panel), "clock": clock, "parts": parts}
    merged.__setstate__(state)
    if a._before is not None:
        merged._before, merged._keep = _merged(a._before, b._before), a._keep
        merged._kept = a._kept | {s + a.n_series: kept for s, kept in b._kept.items()}
    return merged
