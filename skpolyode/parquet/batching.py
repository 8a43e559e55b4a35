"""From a long table on disk to chunks of whole series, without holding more than a chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from skpolyode.errors import plain_repr

__all__ = ["first_rows", "read_chunks"]

_BATCH_ROWS = 65_536


def read_chunks(
    dataset: ds.Dataset, columns: Sequence[str], id: str, rows_per_chunk: int
) -> Iterator[pa.Table]:
    """Consecutive series of at least `rows_per_chunk` rows in all, the last chunk may have fewer.

    Where a chunk ends depends on the rows only, not on how files are cut into groups of rows: a
    later run meets the same chunks.

    Raises
    ------
    ValueError
        If an id is missing, or comes again after rows of another one.
    """
    is_parquet = isinstance(getattr(dataset, "format", None), ds.ParquetFileFormat)
    # Few batches ahead and no buffers of whole files: speed is that of the embedding anyway.
    options = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
    scanner = dataset.scanner(
        columns=list(columns),
        batch_size=min(rows_per_chunk, _BATCH_ROWS),
        batch_readahead=2,
        fragment_readahead=1,
        fragment_scan_options=options if is_parquet else None,
    )
    blocks = _Blocks(id)
    held: list[pa.RecordBatch] = []  # of the chunk that is being filled
    n_held = 0
    for batch in scanner.to_batches():
        if not batch.num_rows:
            continue
        starts, begin = blocks.starts(batch.column(id)), 0
        while True:
            index = int(np.searchsorted(starts, begin + rows_per_chunk - n_held))
            if index == len(starts):
                break
            end = int(starts[index])
            yield pa.Table.from_batches([*held, batch.slice(begin, end - begin)])
            held, n_held, begin = [], 0, end
        held.append(batch.slice(begin))
        n_held += batch.num_rows - begin
    if not held:
        raise ValueError("source has no rows: pass files that hold series.")
    yield pa.Table.from_batches(held)


def first_rows(ids: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Rows at which a series begins."""
    ids = _plain(ids)
    changes = pc.not_equal(ids.slice(1), ids.slice(0, max(len(ids) - 1, 0)))
    return np.flatnonzero(np.concatenate([[True], changes.to_numpy(zero_copy_only=False)]))


def _plain(ids: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Ids without the dictionary of a categorical column, whose codes differ between batches."""
    return ids.cast(ids.type.value_type) if pa.types.is_dictionary(ids.type) else ids


class _Blocks:
    """Where series begin, in batch after batch, and the check that none begins twice.

    As long as ids ascend, no earlier one can come again; only when the order first breaks are
    those until then brought into a set.
    """

    def __init__(self, id: str) -> None:
        self.id = id
        self.n_rows = 0
        self.last: object = None  # id of the last row; a missing id is an error
        self.ascending: list[pa.Array] | None = []
        self.seen: set[object] = set()

    def starts(self, ids: pa.Array) -> np.ndarray:
        """First rows, in the next batch, of series that begin there."""
        ids = _plain(ids)
        missing = pc.is_null(ids, nan_is_null=True).to_numpy(zero_copy_only=False)
        if missing.any():
            row = self.n_rows + int(np.argmax(missing))
            raise ValueError(
                f"source: row {row} has no {self.id!r}; give it one, or leave such rows out."
            )
        starts = first_rows(ids)
        if ids[0].as_py() == self.last:
            starts = starts[1:]
        new = ids.take(pa.array(starts))
        self._check_new(new, starts)
        self.n_rows += len(ids)
        self.last = ids[-1].as_py()
        return starts

    def _check_new(self, ids: pa.Array, starts: np.ndarray) -> None:
        if not len(ids):
            return
        if self.ascending is not None:
            steps_up = pc.less(ids.slice(0, len(ids) - 1), ids.slice(1))
            ascends = pc.all(steps_up, min_count=0).as_py()
            if ascends and (self.last is None or self.last < ids[0].as_py()):
                self.ascending.append(ids)
                return
            self.seen = {id for part in self.ascending for id in part.to_pylist()}
            self.ascending = None
        for label, start in zip(ids.to_pylist(), starts, strict=True):
            if label in self.seen:
                raise ValueError(
                    f"source: the series with {self.id} {plain_repr(label)} goes on at row "
                    f"{self.n_rows + start}, after rows of another: sort the source by "
                    f"{self.id!r} (and time)."
                )
            self.seen.add(label)
