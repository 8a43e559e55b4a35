"""Saving of pandas tables and indexes, as in sktime's data."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset

from skpolyode.saving.codec import register, register_attributes

_LABELS = ("object", "str")
_NAMES = type(pd.MultiIndex.from_arrays([[0]]).names)  # sktime keeps names of levels
register(_NAMES, lambda names: {"names": list(names)}, lambda state: _NAMES(state["names"]))
_OFFSET = re.compile(r"UTC([+-]\d\d:\d\d(:\d\d)?)?")


def checked_zone(name: str | None) -> str | None:
    """Name of a time zone, if it is in the database or a fixed offset.

    pandas also accepts "dateutil/" and the path of any file, and would open that.

    Raises
    ------
    ValueError
        If it is another name.
    """
    if name is not None and not _OFFSET.fullmatch(name):
        try:
            ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            raise ValueError(f"{name!r} is no time zone of the database") from None
    return name


def _frame_state(frame: pd.DataFrame) -> dict[str, Any]:
    cells = [pd.Index(frame.iloc[:, j], name=None) for j in range(frame.shape[1])]
    return {"index": frame.index, "columns": frame.columns, "cells": cells}


def _frame(state: dict[str, Any]) -> pd.DataFrame:
    index, cells = state["index"], state["cells"]
    # A range or a single value may expand to more cells than the file has bytes.
    if any(not isinstance(cell, pd.Index) or isinstance(cell, pd.RangeIndex) for cell in cells):
        raise ValueError("the cells of a table are not written out")
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
    zone = getattr(index, "tz", None)
    try:
        tz = checked_zone(None if zone is None else str(zone))
    except ValueError as error:
        raise TypeError(f"{error}; use tz_convert with one, or 'UTC'.") from None
    if index.freq is not None and to_offset(index.freqstr) != index.freq:
        raise TypeError(
            f"the frequency {index.freq!r} has holidays or hours that {index.freqstr!r} does not "
            "tell; set index.freq = None, and give the frequency to horizons."
        )
    parts = {"counts": index.asi8, "unit": index.unit, "tz": tz}
    return parts | {"freq": index.freqstr, "name": index.name}


def _times(
    cls: type[pd.DatetimeIndex | pd.TimedeltaIndex], kind: str, state: dict[str, Any]
) -> pd.DatetimeIndex | pd.TimedeltaIndex:
    index = cls(state["counts"].view(f"{kind}[{state['unit']}]"), name=state["name"])
    if (zone := checked_zone(state["tz"])) is not None:
        index = index.tz_localize("UTC").tz_convert(zone)
    index.freq = state["freq"]
    return index


_CLASSES: dict[type, tuple[Callable, Callable]] = {
    pd.DataFrame: (_frame_state, _frame),
    pd.Index: (_index_state, _index),
    pd.DatetimeIndex: (_times_state, partial(_times, pd.DatetimeIndex, "M8")),
    pd.TimedeltaIndex: (_times_state, partial(_times, pd.TimedeltaIndex, "m8")),
    pd.PeriodIndex: (
        lambda index: {"ordinals": index.asi8, "freq": index.freqstr, "name": index.name},
        lambda state: pd.PeriodIndex.from_ordinals(**state),
    ),
    pd.MultiIndex: (
        lambda index: {
            "levels": list(index.levels),
            "codes": [np.asarray(codes, dtype=np.int64) for codes in index.codes],
            "names": list(index.names),
        },
        lambda state: pd.MultiIndex(**state),
    ),
    pd.Timedelta: (
        lambda value: {"count": int(value.asm8.view(np.int64)), "unit": value.unit},
        lambda state: pd.Timedelta(np.timedelta64(state["count"], state["unit"])),
    ),
    np.timedelta64: (
        lambda value: {"count": int(value.view(np.int64)), "unit": np.datetime_data(value)[0]},
        lambda state: np.timedelta64(state["count"], state["unit"]),
    ),
}
for _cls, (_to_state, _from_state) in _CLASSES.items():
    register(_cls, _to_state, _from_state, part="pandas")
register_attributes(datetime.timedelta, "days", "seconds", "microseconds", part="pandas")
register_attributes(
    pd.RangeIndex,
    *("start", "stop", "step", "name"),
    part="pandas",
    length=lambda state: len(range(state["start"], state["stop"], state["step"])),
)
