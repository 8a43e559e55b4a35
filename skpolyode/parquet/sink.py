"""A folder of numbered Parquet files, each there as a whole or not at all."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["Sink"]

_SETTINGS = "_embedding.json"  # readers of Parquet folders leave out names that start with _ or .
_LONG = {"source": "another source", "features": "another list of features"}  # not to be shown


class Sink:
    """Folder that receives embeddings, part by part, and remembers how they were made.

    Parameters
    ----------
    folder : Path
        Made if it is not there; otherwise it must be empty or hold parts of the same settings.
    settings : dict
        Everything that the parts depend on, but the estimator; JSON.
    features : sequence of str
        Names of the columns.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], features: Sequence[str]) -> None:
        self.folder = folder
        self.features = list(features)
        self._open(json.loads(json.dumps({**settings, "features": self.features})))

    def part(self, number: int) -> Path:
        """File of a part."""
        return self.folder / f"part-{number:06d}.parquet"

    def write(self, number: int, id: str, ids: pa.Array, features: np.ndarray) -> None:
        """Write a part at once."""
        columns = dict(zip(self.features, np.ascontiguousarray(features.T), strict=True))
        table = pa.table({id: ids, **columns})
        _replace(self.part(number), lambda path: pq.write_table(table, path))

    def read(self, number: int, n_series: int) -> np.ndarray:
        """Features of the first series of a part."""
        table = pq.read_table(self.part(number), columns=self.features).slice(0, n_series)
        return np.column_stack([column.to_numpy() for column in table.columns])

    def _open(self, settings: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / _SETTINGS
        if path.is_file():
            _compare(json.loads(path.read_text("utf-8")), settings, self.folder)
        elif any(not other.name.startswith(".") for other in self.folder.iterdir()):
            raise ValueError(
                f"sink {str(self.folder)!r} holds files that embed_dataset has not written: pass "
                "a new or an empty folder."
            )
        else:
            _replace(path, lambda part: part.write_text(json.dumps(settings, indent=1), "utf-8"))


def _compare(before: dict[str, Any], now: dict[str, Any], folder: Path) -> None:
    for name in now:
        if before.get(name) == now[name]:
            continue
        made = f"{name}={before.get(name)!r}, not {now[name]!r}"
        if name in _LONG:
            made = _LONG[name]
        raise ValueError(
            f"sink {str(folder)!r} holds embeddings made with {made}: pass another folder, or the "
            "same estimator, source and settings to go on."
        )


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        write(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
