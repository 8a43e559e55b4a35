"""How a table becomes a panel, and which of its columns are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from skpolyode.panel import Panel
from skpolyode.parquet.source import open_source

__all__ = ["Reading", "open_reading"]


@dataclass(frozen=True)
class Reading:
    """Names of columns, and the options of :meth:`skpolyode.Panel.from_long`."""

    id: str
    time: str
    channels: list[str]
    static: list[str] | None
    options: dict[str, Any]

    @property
    def columns(self) -> list[str]:
        """All that are read."""
        return [self.id, self.time, *self.channels, *(self.static or [])]

    def panel(self, table: pa.Table) -> Panel:
        """Series of a table that holds all of their rows."""
        return Panel.from_long(
            table.to_pandas(),
            id=self.id,
            time=self.time,
            values=self.channels,
            static=self.static,
            **self.options,
        )


def open_reading(
    source: Any,
    id: str,
    time: str,
    channels: str | Sequence[str] | None,
    static: str | Sequence[str] | None,
    options: dict[str, Any],
) -> tuple[ds.Dataset, Reading]:
    """Open a source as `open_source` does; names of columns as users give them."""
    static = _names(static)
    dataset, names = open_source(source, id, time, _names(channels), static or [])
    return dataset, Reading(id, time, names, static, options)


def _names(names: str | Sequence[str] | None) -> list[str] | None:
    if names is None:
        return None
    return [names] if isinstance(names, str) else list(names)
