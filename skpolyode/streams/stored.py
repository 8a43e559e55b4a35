"""What is saved and pickled of a stream, and what of a file is believed."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np

from skpolyode.panel import Inputs, Panel
from skpolyode.panel.checks import build_rows
from skpolyode.panel.rows import Rows, are_offsets
from skpolyode.panel.timeaxis import MICROSECONDS, TimeAxis, Times
from skpolyode.saving.codec import place, register
from skpolyode.saving.frames import checked_zone
from skpolyode.saving.objects import save
from skpolyode.streams.clock import Clock, kinds
from skpolyode.streams.revisions import History


class StoredStream:
    """Base of streams: their files."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        register(cls, cls.__getstate__, cls._from_file, place=cls._place)

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
        """What is saved and pickled: no tables of the memory."""
        return {
            "of": self._embedder,
            "panel": self._panel,
            "clock": {name: column.copy() for name, column in self._clock._asdict().items()},
            "parts": {name: part.clone() for name, part in self._parts.items()},
            "history": None if self._history is None else self._history.__getstate__(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._embedder = state["of"]
        self._panel = state["panel"]
        self._clock = Clock(**state["clock"])
        self._parts = state["parts"]
        self._bind()
        self._history = History.restored(type(self), state)

    @classmethod
    def _from_file(cls, state: dict[str, Any]) -> Self:
        """Stream of a state that may come from anyone: a ValueError if its parts do not fit."""
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
            stream._history.check()
        return stream

    def _place(self, device: str | None) -> Self:
        self._embedder = place(self._embedder, device)
        self._bind()
        where = self._embedder.device
        self._parts = {name: part.to(where) for name, part in self._parts.items()}
        if self._history is not None:
            self._history.before._embedder = self._embedder
            self._history.before._place(device)
        return self


_CLOCK = ("counts", "ticks", "per_unit", "unit", "tz")


def _panel_state(panel: Panel) -> dict[str, Any]:
    counts, axis, ticks, per_unit = panel.rows.times
    names = (own.name for own in fields(Rows) if own.name not in ("times", "unreadable"))
    clock = zip(_CLOCK, (counts, ticks, per_unit, axis.unit, axis.tz), strict=True)
    return dict(clock) | {name: getattr(panel.rows, name) for name in names}


def _panel(state: dict[str, Any]) -> Panel:
    """Panel of what a file holds, which may come from anyone: it is checked."""
    counts, ticks, per_unit, unit, tz = (state.pop(name) for name in _CLOCK)
    rows = Rows(Times(counts, TimeAxis(unit, checked_zone(tz)), ticks, per_unit), **state)
    fit = are_offsets(rows.offsets, len(counts)) and rows.values.shape[0] == len(counts)
    for whole, length in ((ticks, len(counts)), (rows.origin, len(rows.offsets) - 1)):
        fit &= whole is None or (whole.shape == (length,) and whole.dtype == np.int64)
    fit &= rows.origin is None or per_unit / MICROSECONDS.get(unit, 1) in (1, 1000)
    if not fit:
        raise ValueError("times and rows that are not of one panel")
    labels = {name: state[name] for name in ("ids", "channel_names", "static")}
    checked = build_rows("panel", lambda *_: rows, None, empty="keep", **labels)
    as_it_was = ("has_ids", "has_channel_names", "keeps_empty", "inputs")
    checked = replace(checked, **{name: state[name] for name in as_it_was})
    return Panel.from_rows(checked, checked=False)


register(Panel, _panel_state, _panel, part="streams")
register(
    Inputs,
    lambda inputs: {"panel": inputs.panel, "kinds": inputs.kinds},
    lambda state: Inputs(**state),
    part="streams",
)
