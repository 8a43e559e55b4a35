"""How files hold the tables and indexes of pandas that come with sktime's data."""

from __future__ import annotations

import re
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from skpolyode.saving.codec import register

__all__ = ["checked_zone"]

_LABELS = ("object", "str")
_OFFSET = re.compile(r"UTC([+-]\d\d:\d\d(:\d\d)?)?")


def checked_zone(name: str | None) -> str | None:
    """Name of a time zone, if it is one of the database or a fixed offset.

    pandas would also take "dateutil/" and the path of any file, and open that.

    Raises
    ------
    ValueError
        If it is of another kind.
    """
    if name is not None and not _OFFSET.fullmatch(name):
        try:
            ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            raise ValueError(f"{name!r} is no time zone of the database") from None
    return name


def _frame(state: dict[str, Any]) -> pd.DataFrame:
    index, cells = state["index"], state["cells"]
    # Columns that are ranges or single values would be written out, and take more than the file.
    if any(not isinstance(own, pd.Index) or isinstance(own, pd.RangeIndex) for own in cells):
        raise ValueError("the cells of a table are written out")
    frame = pd.DataFrame(dict(enumerate(cells)), index=None if cells else range(len(index)))
    return frame.set_axis(index).set_axis(state["columns"], axis=1)


def _index_state(index: pd.Index) -> dict[str, Any]:
    if isinstance(index.dtype, np.dtype) and index.dtype.kind in "biuf":
        return {"values": index.to_numpy(), "name": index.name}
    if str(index.dtype) in _LABELS:
        return {"labels": index.tolist(), "dtype": str(index.dtype), "name": index.name}
    raise TypeError(f"an index of {index.dtype} is not supported; convert it, for example to text.")


def _index(state: dict[str, Any]) -> pd.Index:
    if "values" in state:
        return pd.Index(state["values"], name=state["name"])
    if state["dtype"] not in _LABELS:
        raise ValueError(f"unknown type of labels {state['dtype']!r}")
    return pd.Index(state["labels"], dtype=state["dtype"], name=state["name"], tupleize_cols=False)


def _times_state(index: pd.DatetimeIndex | pd.TimedeltaIndex) -> dict[str, Any]:
    state = {"counts": index.asi8, "unit": index.unit, "freq": index.freqstr, "name": index.name}
    if isinstance(index, pd.DatetimeIndex):
        try:
            state["tz"] = checked_zone(None if index.tz is None else str(index.tz))
        except ValueError as error:
            raise TypeError(f"{error}; use tz_convert with one, or 'UTC'.") from None
    return state


def _stepped(index: pd.Index, freq: str | None) -> pd.Index:
    index.freq = freq
    return index


register(
    pd.DataFrame,
    lambda frame: {
        "index": frame.index,
        "columns": frame.columns,
        "cells": [pd.Index(frame.iloc[:, j], name=None) for j in range(frame.shape[1])],
    },
    _frame,
    part="pandas",
)
register(pd.Index, _index_state, _index, part="pandas")
register(
    pd.RangeIndex,
    lambda index: {
        "start": index.start,
        "stop": index.stop,
        "step": index.step,
        "name": index.name,
    },
    lambda state: pd.RangeIndex(**state),
    part="pandas",
    length=lambda state: len(range(state["start"], state["stop"], state["step"])),
)
register(
    pd.DatetimeIndex,
    _times_state,
    lambda state: _stepped(
        pd.DatetimeIndex(state["counts"].view(f"M8[{state['unit']}]"), name=state["name"])
        .tz_localize("UTC")
        .tz_convert(checked_zone(state["tz"])),  # None: counts without a time zone
        state["freq"],
    ),
    part="pandas",
)
register(
    pd.TimedeltaIndex,
    _times_state,
    lambda state: _stepped(
        pd.TimedeltaIndex(state["counts"].view(f"m8[{state['unit']}]"), name=state["name"]),
        state["freq"],
    ),
    part="pandas",
)
register(
    pd.PeriodIndex,
    lambda index: {"ordinals": index.asi8, "freq": index.freqstr, "name": index.name},
    lambda state: pd.PeriodIndex.from_ordinals(
        state["ordinals"], freq=state["freq"], name=state["name"]
    ),
    part="pandas",
)
register(
    pd.MultiIndex,
    lambda index: {
        "levels": list(index.levels),
        "codes": [np.asarray(own, dtype=np.int64) for own in index.codes],
        "names": list(index.names),
    },
    lambda state: pd.MultiIndex(**state),
    part="pandas",
)
