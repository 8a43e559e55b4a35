"""A folder of numbered Parquet files, each there as a whole or not at all."""

from __future__ import annotations

import io
import json
import os
import uuid
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skpolyode.saving.container import replace_file

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
        settings = json.loads(json.dumps({**settings, "features": self.features}))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / _SETTINGS
        # Looked for in this order: another run may open the folder, and write, at any moment.
        foreign = any(not other.name.startswith(".") for other in folder.iterdir())
        if foreign and not path.is_file():
            raise ValueError(
                f"sink {str(folder)!r} holds files that embed_dataset has not written: pass a new "
                "or an empty folder."
            )
        if not foreign:
            _write_first(path, json.dumps(settings, indent=1).encode())
        before = json.loads(path.read_text("utf-8"))
        for name in [name for name in settings if before.get(name) != settings[name]]:
            made = f"{name}={before.get(name)!r}, not {settings[name]!r}"
            raise ValueError(
                f"sink {str(folder)!r} holds embeddings made with {_LONG.get(name, made)}: pass "
                "another folder, or the same estimator, source and settings to go on."
            )

    def part(self, number: int) -> Path:
        """File of a part."""
        return self.folder / f"part-{number:06d}.parquet"

    @property
    def n_parts(self) -> int:
        """Parts that are there."""
        return sum(1 for _ in self.folder.glob("part-*.parquet"))

    def holds(self, number: int, id: str, ids: pa.Array | pa.ChunkedArray) -> bool:
        """Whether a part is there as a whole, with the series of a chunk.

        One that is damaged, or of other series, is warned of: it is to be written again.
        """
        path = self.part(number)
        if not path.is_file():
            return False
        try:
            found = pq.read_table(path, page_checksum_verification=True)
            same = found.column_names == [id, *self.features]
            if same and found[id].to_pylist() == ids.to_pylist():
                return True
        except (pa.ArrowException, OSError):
            pass
        warnings.warn(
            f"sink: {str(path)!r} is damaged or not of these series, and is written again.",
            UserWarning,
            stacklevel=2,
        )
        return False

    def write(self, number: int, id: str, ids: pa.Array, features: np.ndarray) -> None:
        """Write a part at once."""
        columns = dict(zip(self.features, np.ascontiguousarray(features.T), strict=True))
        table = pa.table({id: ids, **columns})
        data = io.BytesIO()
        pq.write_table(table, data, write_page_checksum=True)
        replace_file(self.part(number), data.getvalue())

    def read(self, number: int, n_series: int) -> np.ndarray:
        """Features of the first series of a part."""
        table = pq.read_table(self.part(number), columns=self.features).slice(0, n_series)
        return np.column_stack([column.to_numpy() for column in table.columns])


def _write_first(path: Path, data: bytes) -> None:
    """Write a file at once; of several that do so, the first one does and the others do not."""
    own = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    replace_file(own, data)
    try:
        os.link(own, path)
    except FileExistsError:
        pass
    except OSError:  # not on all file systems
        os.replace(own, path)
    finally:
        own.unlink(missing_ok=True)
