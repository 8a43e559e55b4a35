"""Merge two streams into one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from skpolyode.panel import Panel
from skpolyode.saving.codec import Encoder
from skpolyode.streams.revisions import History
from skpolyode.streams.stream import Clock, SeriesStream


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
    if getattr(a._history, "keep", None) != getattr(b._history, "keep", None):
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
    state = {"of": a._embedder, "panel": _joint(a._panel, b._panel), "clock": clock, "parts": parts}
    merged.__setstate__(state)
    if a._history is not None:
        merged._history = History(_merged(a._history.before, b._history.before), a._history.keep)
        rows = {s + a.n_series: kept for s, kept in b._history.rows.items()}
        merged._history.rows = a._history.rows | rows
    return merged


def _joint(a: Panel, b: Panel) -> Panel:
    """Panel without rows, with the series of both."""
    both = a, b
    begun = next((panel.rows for panel in both if panel.rows.origin is not None), None)
    if begun is not None:  # before an observation there is no clock, and any will do
        started = {"times": begun.times, "origin": begun.origin[:1]}
        both = [
            p if p.rows.origin is not None else Panel.from_rows(replace(p.rows, **started))
            for p in both
        ]
    if all(np.array_equal(panel.ids, np.arange(panel.n_series)) for panel in both):
        ids = np.arange(a.n_series + b.n_series)
    else:
        ids = np.concatenate([panel.ids for panel in both])
    joint = Panel.concat(both, ids=ids).rows
    if begun is not None:
        per_unit = max(panel.rows.times.per_unit for panel in both)
        origins = [
            np.broadcast_to(p.rows.origin * (per_unit // p.rows.times.per_unit), p.n_series)
            for p in both
        ]
        clock = joint.times._replace(ticks=np.empty(0, np.int64), per_unit=per_unit)
        joint = replace(joint, times=clock, origin=np.concatenate(origins))
    return Panel.from_rows(joint, checked=False)
