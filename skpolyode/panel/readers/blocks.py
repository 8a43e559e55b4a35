"""Blocks of times and values, one a series, and the rows that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from skpolyode.errors import FaultKind, Faults
from skpolyode.panel.cells import BadCell
from skpolyode.panel.checks import NOT_NUMERIC
from skpolyode.panel.rows import Rows, offsets_from, require_series
from skpolyode.panel.timeaxis import TimeBlock, join_times

Block = tuple[TimeBlock, np.ndarray, Sequence[BadCell]]

LENGTHS = FaultKind("times and values of different length", "give one time for each row of values")
SHAPE = FaultKind(
    "wrong number of dimensions",
    "give times of shape (L,) and values of shape (L,) or (L, D)",
)
CHANNELS = FaultKind(
    "different numbers of channels",
    "give every series the same channels, with NaN where one was not observed",
)


class Blocks:
    """Collects one block of times and values a series; blocks with a wrong shape are faults."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._times: list[TimeBlock] = []
        self._values: list[np.ndarray] = []
        self._positions: list[int] = []
        self._n_series = 0
        self._kind = ""

    def add(self, times: TimeBlock, values: np.ndarray, bad: Sequence[BadCell] = ()) -> None:
        """Add the next series."""
        position = self._n_series
        self._n_series += 1
        if values.ndim == 1:
            values = values[:, None]
        if bad:
            lines = []
            for cell in bad[: self._faults.limit]:
                row, channel = divmod(cell.position, max(values.shape[-1], 1))
                time = times.format(row) if row < times.data.size else "unknown"
                where = f"{self._faults.series(position)}, {self._faults.channel(channel)}"
                lines.append(f"{where}, time {time}: not a number, {cell}")
            self._faults.add(NOT_NUMERIC, lines, len(bad))
        self._check_kind(position, times)
        data = times.data
        if data.ndim != 1 or values.ndim != 2:
            kind, line = SHAPE, f"times of shape {data.shape}, values of shape {values.shape}"
            if data.ndim == 2 and values.shape == (len(data), 1):
                line += ", which look swapped: times come first, (times, values)"
        elif len(data) != len(values):
            kind, line = LENGTHS, f"{len(data)} times but {len(values)} rows of values"
        elif self._values and values.shape[1] != self._values[0].shape[1]:
            first = self._faults.series(self._positions[0])
            n_first = self._values[0].shape[1]
            kind, line = CHANNELS, f"{values.shape[1]} channel(s), where {first} has {n_first}"
        else:
            self._times.append(times)
            self._values.append(values)
            self._positions.append(position)
            return
        self._faults.add(kind, [f"{self._faults.series(position)}: {line}"])

    def join(self, time_unit: str | None) -> Rows:
        """Return the rows of all series that fit; raise when none does."""
        if not self._values:
            self._faults.raise_if_any()
        times = join_times(self._times, time_unit)
        values = np.concatenate(self._values, dtype=np.float64, casting="unsafe")
        lengths = np.fromiter(map(len, self._values), dtype=np.int64, count=len(self._values))
        positions = np.asarray(self._positions, dtype=np.int64)
        n_broken = self._n_series - len(positions)
        offsets = offsets_from(lengths)
        return Rows.of(times, values, offsets, positions=positions, n_broken=n_broken)

    def _check_kind(self, position: int, times: TimeBlock) -> None:
        if not times.data.size:
            return
        self._kind = self._kind or times.kind
        if times.kind != self._kind:
            raise TypeError(
                f"{self._faults.name}: {self._faults.series(position)}: times must be of one kind "
                f"in all series, got {times.kind}s after {self._kind}s; convert them to one kind."
            )


def rows_from_blocks(
    items: Iterable[object],
    read: Callable[[object], Block],
    faults: Faults,
    time_unit: str | None,
) -> Rows:
    """Read a list of series one by one; an error names the one that cannot be read."""
    blocks = Blocks(faults)
    position = -1
    for position, item in enumerate(items):
        try:
            times, values, bad = read(item)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{faults.name}: {faults.series(position)}: {error}") from error
        blocks.add(times, values, bad)
    require_series(position + 1, faults.name)
    return blocks.join(time_unit)
