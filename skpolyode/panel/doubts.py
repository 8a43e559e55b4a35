"""Columns of tables that are hardly channels: row numbers, labels, and errors of other columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from skpolyode.errors import FaultKind, Faults
from skpolyode.panel.rows import Rows, inside_series

ROW_NUMBERS = FaultKind(
    "whole numbers that rise along the table, as row numbers do",
    "leave the column out; or pass channel_names= to {maker} if it is a channel",
)
LABELS = FaultKind(
    "constant within every series, but not the same in all",
    "leave the column out, and pass what describes a series as static=, what is to be predicted as "
    "y, and ids as id= of Panel.from_long; or pass channel_names= to {maker} if it is a channel",
)
# Names that pandas gives to an index of rows when it writes or resets it.
_EXPORTED = re.compile(r"Unnamed: \d+|level_\d+|__index_level_\d+__")


@dataclass(frozen=True)
class DoubtSettings:
    """What makes a channel doubtful; fewer rows or series may look so by chance.

    Parameters
    ----------
    n_steps : int, default=8
        Fewest steps inside series at which row numbers rise. A random walk does in 1 of 256 cases.
    n_series : int, default=10
        Fewest series of two rows or more that show labels.
    n_repeats : int, default=36
        Fewest steps inside series at which labels stay. A switch that is thrown at one step in ten
        looks so in 2 % of such panels.
    sparsity : float, default=3.0
        Row numbers of series in any order span at most this many times as many rows as there are.
    """

    n_steps: int = 8
    n_series: int = 10
    n_repeats: int = 36
    sparsity: float = 3.0


SETTINGS = DoubtSettings()


def doubt_channels(rows: Rows, faults: Faults, kinds: Iterable[FaultKind]) -> None:
    """Refuse channels that have names of exports; warn of those of some kinds of `DOUBTS`.

    The rows are in the order of their table.
    """
    names = rows.channel_names
    errors = {name: f"{name}_error" for name in names if f"{name}_error" in names}
    if found := [*errors.values(), *filter(_EXPORTED.fullmatch, names)]:
        remedy = f"pass error={errors}, or errors= of frames" if errors else "leave them out"
        raise ValueError(
            f"{faults.name} has the columns {found}, named like errors or row numbers: {remedy}; "
            "or name all channels (channel_names=, values= or channels=) to keep them."
        )
    doubts = Faults(faults.name, channel_names=names, maker=faults.maker)
    inside = inside_series(rows.offsets, len(rows.values))
    for kind in kinds:
        found = [k for k in range(len(names)) if DOUBTS[kind](rows, k, inside)]
        if len(found) < len(names):  # beside a channel
            doubts.add(kind, [f"{doubts.channel(k)}: {kind.title}" for k in found])
    doubts.warn_if_any(stacklevel=4)


def _are_row_numbers(rows: Rows, channel: int, inside: np.ndarray) -> bool:
    cells = rows.values[:, channel]
    parts = cells[:1000], cells  # the first part is enough for most channels
    if inside.sum() < SETTINGS.n_steps or any((np.floor(part) != part).any() for part in parts):
        return False
    rises = cells[1:] > cells[:-1]
    is_dense = rises.all() or cells.max() < cells.min() + SETTINGS.sparsity * len(cells)
    is_counted = is_dense and rises[inside].all() and len(rows.offsets) > 2
    is_counted |= rows.channel_names[channel] == "index"  # perhaps in another order
    return is_counted and len(np.unique(cells)) == len(cells)


def _are_labels(rows: Rows, channel: int, inside: np.ndarray) -> bool:
    cells, first = rows.values[:, channel], rows.offsets[:-1][rows.lengths > 1]
    if len(first) < SETTINGS.n_series or inside.sum() < SETTINGS.n_repeats:
        return False
    same = (part[1:] == part[:-1] for part in (cells[:1000], cells))  # not where one is missing
    is_repeated = all(part[inside[: len(part)]].all() for part in same)
    return is_repeated and (cells[first] != cells[first[0]]).any()


DOUBTS = {ROW_NUMBERS: _are_row_numbers, LABELS: _are_labels}
