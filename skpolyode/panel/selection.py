"""Panels of some of the series, or of some of the channels, and panels one behind the other."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self, TypeVar, overload

import numpy as np
import pandas as pd

from skpolyode.errors import Faults, plain_repr
from skpolyode.panel.checks import first_misplaced, fit_ids, read_ids
from skpolyode.panel.columns import join_beside
from skpolyode.panel.inputs import join_inputs
from skpolyode.panel.rows import Rows, offsets_from
from skpolyode.panel.storage import PanelStorage
from skpolyode.panel.timeaxis import Times

_P = TypeVar("_P", bound="PanelSelection")


def refuse_reordered(values: object, panel: PanelStorage, name: str) -> None:
    """Refuse entries whose pandas index holds ids of the series at other positions.

    Entries belong to series by position. An index without ids means nothing, as in scikit-learn,
    and so do ids that were not given. The text "7" is the id 7, and the other way round.
    """
    if not isinstance(values, pd.Series | pd.DataFrame) or len(values) != panel.n_series:
        return
    index, ids = list(values.index), list(pd.Index(panel.ids, tupleize_cols=False))
    if not panel.rows.has_ids or (first := first_misplaced(index, ids)) is None:
        return
    kind = "str" if isinstance(ids[first], str) else "int"
    named = name if index[first] in ids else f"{name}.set_axis({name}.index.astype({kind}))"
    raise ValueError(
        f"the index of {name} holds the ids of the series in another order: {index[first]!r} is at "
        f"position {first}, where X has {ids[first]!r}. Pass {named}.loc[panel.ids], or "
        f"{name}.to_numpy() if its entries are in the order of X."
    )


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


class PanelSelection(PanelStorage):
    """What can be chosen from a panel; `Panel` adds the ways to build one."""

    __slots__ = ()

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
        lengths = rows.lengths[positions]
        offsets = offsets_from(lengths)
        if len(positions) and (np.diff(positions) == 1).all():
            picked: Any = slice(rows.offsets[positions[0]], rows.offsets[positions[-1] + 1])
        else:
            # Row k of the result is row k + shift of its series' old place.
            shift = rows.offsets[positions] - offsets[:-1]
            picked = np.arange(offsets[-1]) + np.repeat(shift, lengths)
        selected = rows.of_series(positions, picked, offsets)
        return self.from_rows(selected, self._checked, self._observed or None)

    def select_ids(self, ids: Any) -> Self:
        """Return a panel of some of the series, in the order in which their ids are given.

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
        """Return a panel of some of the channels, in the order in which they are named.

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
        # Whoever orders them knows them by name.
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
            Whether these names were given (`has_channel_names`) or made up.
        owner : str
            The fitted estimator, in messages.
        name : str, default="X"
            Name of this panel in error messages.

        Returns
        -------
        Panel
            Channels by name where both sides have names, else by position.

        Raises
        ------
        ValueError
            If there are other names, or another number of channels.

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


def align_to_fit(panel: _P, estimator: Any, name: str = "X") -> _P:
    """Panel with the channels that an estimator was fitted on, in the order of its answers.

    An object that does not tell its channels takes them by position.
    """
    if not hasattr(estimator, "channel_names_"):
        return panel
    names, named = estimator.channel_names_, estimator.has_channel_names_
    return panel.align_channels(names, named=named, owner=type(estimator).__name__, name=name)


def channel_order(
    found: Sequence[str],
    wanted: Sequence[str],
    *,
    known: bool,
    named: bool,
    owner: str,
    name: str = "X",
) -> list[int]:
    """Positions of the channels that `owner` was fitted on among those found.

    `known` and `named` tell whether the names on either side were given; for the rest, see
    `PanelSelection.align_channels`.
    """
    found, wanted = list(found), list(wanted)
    if known:
        if sorted(found) == sorted(wanted):
            return [found.index(channel) for channel in wanted]
        # The columns [1, 0] of a frame are those of an array, seen from its end.
        counted = [str(k) for k in range(len(wanted))]
        if not named and sorted(found) == sorted(counted):
            return [found.index(channel) for channel in counted]
        if named:
            unknown = [channel for channel in found if channel not in wanted]
            missing = [channel for channel in wanted if channel not in found]
            also = f", {unknown} are not known" if unknown else ""
            remedy = (
                f"{missing} are missing{also}. Give every series the channels of fit under "
                "these names, NaN where not observed."
                if missing
                else f"{unknown} are not known. Leave them out with "
                f"Panel.select_channels({wanted})."
            )
            raise ValueError(
                f"{name} has the channels {found}, but {owner} was fitted on {wanted}: {remedy}"
            )
    if len(found) != len(wanted):
        raise ValueError(
            f"{name} has {len(found)} channels ({', '.join(found)}), but {owner} was fitted on "
            f"{len(wanted)} ({', '.join(wanted)}): {name} has {len(found)} features, but "
            f"{owner} is expecting {len(wanted)} features as input. Give every series the "
            "channels of fit, NaN where not observed."
        )
    return list(range(len(wanted)))


def concat_rows(panels: Sequence[PanelSelection], ids: object = None) -> tuple[Rows, bool]:
    """Return the rows of all panels, and whether they are known to be without faults."""
    if not panels:
        raise ValueError("there is no panel to concatenate.")
    # Times since the start of each series do not follow on one another: back to the user's clock.
    panels = [
        panel if panel.rows.origin is None else panel.like(panel.times, panel.values, panel.offsets)
        for panel in panels
    ]
    first = panels[0]
    for position, panel in enumerate(panels):
        if panel.rows.times.axis != first.rows.times.axis:
            raise ValueError(
                f"panel {position} has times in {panel.rows.times.axis}, panel 0 in "
                f"{first.rows.times.axis}; build all of them with one time_unit and time zone."
            )
    leading = next((k for k, panel in enumerate(panels) if panel.has_channel_names), 0)
    named, aligned = (
        panels[leading],
        [_as_leading(panels, k, leading) for k in range(len(panels))],
    )
    labels = [pd.Index(panel.ids, tupleize_cols=False) for panel in panels]
    rows = replace(
        named.rows,
        times=_times([panel.rows.times for panel in panels]),
        values=np.concatenate([panel.values for panel in aligned]),
        beside=join_beside(aligned),
        offsets=offsets_from(np.concatenate([panel.lengths for panel in aligned])),
        ids=labels[0].append(labels[1:]).to_numpy(),
        has_ids=ids is not None or any(panel.rows.has_ids for panel in panels),
        static=join_static([panel.rows.static for panel in panels]),
        inputs=join_inputs([panel.inputs for panel in panels]),
        keeps_empty=any(panel.rows.keeps_empty for panel in panels),
    )
    if ids is not None:
        faults = Faults("concat", read_ids(ids))
        rows = replace(rows, ids=fit_ids(faults.ids, len(rows.ids), faults))
        faults.raise_if_any()
        if rows.static is not None:
            index = pd.Index(rows.ids, tupleize_cols=False)
            rows = replace(rows, static=rows.static.set_axis(index, axis=0))
    return rows, all(panel.is_checked for panel in panels)


def _as_leading(panels: Sequence[PanelSelection], position: int, leading: int) -> PanelSelection:
    """One of the panels with the channels of the leading one, in their order."""
    panel, first = panels[position], panels[leading]
    names, named = first.channel_names, first.has_channel_names
    try:
        return panel.align_channels(names, named=named, owner=f"panel {leading}")
    except ValueError:
        raise ValueError(
            f"panel {position} has the channels {list(panel.channel_names)}, but panel {leading} "
            f"has {list(names)}; give all panels the same, NaN where not observed, or choose those "
            "that all have (select_channels)."
        ) from None


def _times(parts: Sequence[Times]) -> Times:
    """Times of all rows, exact where all parts are and fit the finest resolution among them."""
    counts, axis = np.concatenate([part.counts for part in parts]), parts[0].axis
    if any(part.ticks is None for part in parts):
        return Times(counts, axis)
    per_unit, limit = max(part.per_unit for part in parts), np.iinfo(np.int64).max
    pairs = [(part, per_unit // part.per_unit) for part in parts]
    if any(np.abs(part.ticks).max(initial=0) > limit // factor for part, factor in pairs):
        return Times(counts, axis)  # too far from 1970 for nanoseconds
    return Times(counts, axis, np.concatenate([p.ticks * factor for p, factor in pairs]), per_unit)


def join_static(tables: Sequence[pd.DataFrame | None]) -> pd.DataFrame | None:
    """Static rows of several panels; None if none of them has any."""
    if len({None if table is None else frozenset(table.columns) for table in tables}) > 1:
        raise ValueError(
            "the panels have different static columns; give all of them the same, NaN where not "
            "known."
        )
    return None if tables[0] is None else pd.concat(tables)
