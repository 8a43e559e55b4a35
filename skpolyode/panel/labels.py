"""Ids, channel names and static rows: reading them and checking that they fit."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd

from skpolyode.errors import FaultKind, Faults
from skpolyode.panel.rows import default_channel_names

IDS = FaultKind("ids that do not fit", "give one unique id for each series")
NAMES = FaultKind("channel names that do not fit", "give one unique name for each channel")
STATIC = FaultKind(
    "static rows that do not fit", "give one row for each series, indexed by the ids"
)


def read_ids(ids: object) -> np.ndarray | None:
    """Return ids as a 1-D array of their own kind."""
    if ids is None:
        return None
    try:
        if isinstance(ids, str | bytes):
            raise TypeError
        labels = np.array(pd.Index(ids, tupleize_cols=False).to_numpy())
        set(labels.tolist())  # raises for what cannot be a label, such as a list
        return labels
    except (TypeError, ValueError):
        raise TypeError(f"ids must be a 1-D sequence of labels, got {ids!r}.") from None


def fit_ids(ids: np.ndarray | None, n_series: int, faults: Faults) -> np.ndarray:
    """Return one id a series, 0, 1, ... when none were given."""
    if ids is None:
        return np.arange(n_series)
    if len(ids) != n_series:
        faults.add(IDS, [f"{len(ids)} ids for {n_series} series"])
        return np.arange(n_series)
    repeated = np.flatnonzero(pd.Index(ids, tupleize_cols=False).duplicated())
    lines = [f"{faults.series(row)}: its id occurs before" for row in repeated[: faults.limit]]
    faults.add(IDS, lines, len(repeated))
    return ids


def fit_channel_names(
    names: Sequence[Hashable] | None, n_channels: int, faults: Faults
) -> tuple[str, ...]:
    """Return one name a channel, x0, x1, ... when none were given."""
    if names is None:
        return default_channel_names(n_channels)
    if isinstance(names, str):
        raise TypeError(f"channel_names must be a sequence of names, got the text {names!r}.")
    found = tuple(map(str, names))
    if len(found) != n_channels:
        faults.add(NAMES, [f"{len(found)} channel names for {n_channels} channels"])
        return default_channel_names(n_channels)
    repeated = sorted({name for name in found if found.count(name) > 1})
    faults.add(NAMES, [f"channel name {name!r} occurs more than once" for name in repeated])
    return found


def fit_static(static: object, ids: np.ndarray, faults: Faults) -> pd.DataFrame | None:
    """Return static rows in the order of the ids.

    A frame whose index holds exactly the ids is aligned by them; otherwise rows are taken in
    their order, unless some but not all ids stand in the index: then a guess could be wrong.
    """
    if static is None:
        return None
    table = static
    if not isinstance(static, pd.DataFrame):
        array = np.array(static)
        if array.ndim != 2:
            raise TypeError(
                "static must be a DataFrame or a 2-D array with one row a series, got "
                f"{type(static)}."
            )
        table = pd.DataFrame(array)
    if len(table) != len(ids):
        faults.add(STATIC, [f"{len(table)} static rows for {len(ids)} series"])
        return None
    index = pd.Index(ids, tupleize_cols=False)
    known = table.index.isin(index)
    if known.all() and table.index.is_unique and index.is_unique:
        return table.reindex(index)
    if known.any() and not table.index.equals(pd.RangeIndex(len(table))):
        faults.add(STATIC, ["the index of static holds some of the ids, but not each of them once"])
        return None
    return table.set_axis(index, axis=0)
