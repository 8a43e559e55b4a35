"""Two streams become one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch

from skpolyode.errors import plain_repr
from skpolyode.panel.inputs import join_inputs
from skpolyode.panel.selection import join_static
from skpolyode.saving.codec import Encoder
from skpolyode.streams.revisions import History
from skpolyode.streams.stream import SeriesStream


def merge(a: SeriesStream, b: SeriesStream) -> SeriesStream:
    """Make one stream of two streams of different series: those of `a`, then those of `b`.

    Parameters
    ----------
    a, b : stream
        Of the same transformer, and with the same `keep`. They stay as they are.

    Returns
    -------
    stream
        Ids are those of the two; of streams without ids, positions from 0 on.

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
    if type(a) is not type(b) or not _alike(a._embedder, b._embedder):
        raise ValueError("merge: the streams are of different transformers, or of different fits.")
    if getattr(a._history, "keep", None) != getattr(b._history, "keep", None):
        raise ValueError("merge: the streams keep different lengths of the past: give both one.")
    return _merged(a, b)


def _alike(one: Any, two: Any) -> bool:
    """Whether files of two objects hold the same."""
    if one is two:
        return True
    encoders = Encoder(), Encoder()
    same = encoders[0].encode(one, "of") == encoders[1].encode(two, "of")
    first, second = (
        {name: np.asarray(x).tobytes() for name, x in own.arrays.items()} for own in encoders
    )
    return same and first == second


def _merged(a: SeriesStream, b: SeriesStream) -> SeriesStream:
    clock = {
        name: np.concatenate([column, getattr(b._clock, name)])
        for name, column in a._clock._asdict().items()
    }
    parts = {name: torch.cat([part, b._parts[name]]) for name, part in a._parts.items()}
    merged = type(a).__new__(type(a))
    own = {"of": a._embedder, "labels": _labels(a, b), "clock": clock, "parts": parts}
    merged.__setstate__(own)
    if a._history is not None:
        merged._history = History(_merged(a._history.before, b._history.before), a._history.keep)
        rows = {s + a.n_series: kept for s, kept in b._history.rows.items()}
        merged._history.rows = a._history.rows | rows
    return merged


def _labels(a: SeriesStream, b: SeriesStream) -> dict[str, Any]:
    """What a panel without rows of the series of both is made of."""
    first, second = a._labels(), b._labels()
    n_series, both = a.n_series + b.n_series, (first, second)
    ids = np.concatenate([first["ids"], second["ids"]])
    if all(np.array_equal(own["ids"], np.arange(own["n_series"])) for own in both):
        ids = np.arange(n_series)
    if (twice := pd.Index(ids, tupleize_cols=False).duplicated()).any():
        raise ValueError(f"merge: the series {plain_repr(ids[twice][0])} is in both streams.")
    started = [own for own in both if own["origin"] is not None]
    zones = {(own["time_unit"], own["tz"]) for own in started or both}
    if len(zones) > 1:
        raise ValueError(f"merge: the streams have times of different kinds or zones, {zones}.")
    labels = (started or both)[0] | {"ids": ids, "n_series": n_series}
    if started:  # what was not observed has no origin yet, and any will do
        per_unit = max(own["per_unit"] for own in started)
        origins = [
            own["origin"] * (per_unit // own["per_unit"])
            if own["origin"] is not None
            else np.full(own["n_series"], started[0]["origin"][0])
            for own in both
        ]
        labels |= {"origin": np.concatenate(origins), "per_unit": per_unit}
    labels["static"] = static = join_static([own["static"] for own in both])
    if static is not None:
        labels["static"] = static.set_axis(pd.Index(ids, tupleize_cols=False), axis=0)
    return labels | {"inputs": join_inputs([own["inputs"] for own in both])}
