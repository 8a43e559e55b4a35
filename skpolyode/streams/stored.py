"""What is saved and pickled of a stream, and what of a file is believed."""

from __future__ import annotations

import os
from typing import Any, Self

import numpy as np

from skpolyode.panel.select import blank_panel
from skpolyode.panel.timeaxis import MICROSECONDS
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

    def _labels(self) -> dict[str, Any]:
        """What a panel without rows is made of."""
        panel = self._panel
        return {
            "n_series": panel.n_series,
            "channel_names": panel.channel_names,
            "has_channel_names": panel.has_channel_names,
            "ids": panel.ids.copy(),
            "static": panel.static,
            "time_unit": panel.time_unit,
            "tz": panel.tz,
            "origin": panel.rows.origin,
            "per_unit": panel.rows.times.per_unit,
            "inputs": panel.inputs,
        }

    def __getstate__(self) -> dict[str, Any]:
        """What is saved and pickled: no tables of the memory."""
        return {
            "of": self._embedder,
            "labels": self._labels(),
            "clock": {name: column.copy() for name, column in self._clock._asdict().items()},
            "parts": {name: part.clone() for name, part in self._parts.items()},
            "history": None if self._history is None else self._history.__getstate__(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._embedder = state["of"]
        self._panel = blank_panel(**state["labels"])
        self._clock = Clock(**state["clock"])
        self._parts = state["parts"]
        self._bind()
        self._history = History.restored(type(self), state)

    @classmethod
    def _from_file(cls, state: dict[str, Any]) -> Self:
        """Stream of a state that may come from anyone: a ValueError if its parts do not fit."""
        labels, clock = state["labels"], Clock(**state["clock"])
        rows, origin = len(labels["ids"]), labels["origin"]
        fit = labels["n_series"] == rows
        stopped = Clock.stopped(1, len(labels["channel_names"]))
        fit &= kinds(clock._asdict()) == kinds(stopped._asdict(), rows)
        if origin is not None:
            per_us = labels["per_unit"] / MICROSECONDS.get(labels["time_unit"], 1)
            fit &= origin.shape == (rows,) and origin.dtype == np.int64 and per_us in (1, 1000)
        if not fit:
            raise ValueError("labels and clock that are not of one stream")
        checked_zone(labels["tz"])
        stream = cls.__new__(cls)
        stream.__setstate__(state)
        one = cls(stream._embedder, stream._panel[[0]])
        if kinds(state["parts"]) != kinds(one._parts, rows):
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
