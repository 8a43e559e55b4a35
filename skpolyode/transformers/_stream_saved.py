"""Whether the saved state of a stream is one: files may come from anyone."""

from __future__ import annotations

from typing import Any

import torch

from skpolyode.saving.frames import checked_zone
from skpolyode.transformers._stream_clock import Clock

__all__ = ["checked_state"]

_LARGEST = 4096  # coefficients: the tables of a memory are square, so that a file cannot bound them


def checked_state(state: dict[str, Any], cls: type) -> dict[str, Any]:
    """State of a stream whose parts fit together.

    Nothing is built before that is known, so that it takes no more memory than the file.

    Parameters
    ----------
    state : dict
        As it was read.
    cls : type
        Class of the stream.

    Raises
    ------
    ValueError
        If they do not.
    """
    labels, parts, transformer = state["labels"], state["parts"], state["of"]
    names, n = transformer.channel_names_, transformer.n_coefficients
    start = getattr(transformer, "start_", None)
    rows, columns = len(labels["ids"]), len(names)
    shapes = {
        "c": (rows, columns, n),
        "x": (rows, columns),
        "z": (rows, columns, 1 + n),
        "static": (rows, 0 if start is None else start.in_features),
    }
    clock, stopped = Clock(**state["clock"]), Clock.stopped(rows, columns)
    if (
        transformer._stream_class is not cls
        or n > _LARGEST
        or labels["n_series"] != rows
        or list(labels["channel_names"]) != list(names)
        or {name: tuple(part.shape) for name, part in parts.items()}
        != {name: shapes[name] for name in cls._part_names}
        or any(part.dtype != torch.float64 for part in parts.values())
        or [(own.shape, own.dtype) for own in clock] != [(s.shape, s.dtype) for s in stopped]
    ):
        raise ValueError("parts that are not of one stream")
    checked_zone(labels["tz"])
    return state
