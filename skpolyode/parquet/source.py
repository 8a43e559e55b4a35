"""Parquet files that are one table: checked when opened, then read in chunks of whole series."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from skpolyode.errors import plain_repr
from skpolyode.panel import Panel
from skpolyode.panel.readers.long import error_columns, value_columns

ROWS_PER_CHUNK = 500_000  # read, and held, at once

_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_TIMES = (*_NUMBERS, pa.types.is_temporal)
_VALUES = (*_NUMBERS, pa.types.is_boolean, pa.types.is_null)  # null: a channel nowhere observed


@dataclass(frozen=True)
class Reading:
    """How a table becomes a panel: columns, and the options of :meth:`skpolyode.Panel.from_long`.

    Parameters
    ----------
    id, time : str
        Columns.
    channels : list of str
    static : list of str or None
    options : dict
    """

    id: str
    time: str
    channels: list[str]
    static: list[str] | None
    options: dict[str, Any]

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        beside = error_columns(self.options.get("error"))
        return [self.id, self.time, *self.channels, *(self.static or []), *beside]

    def panel(self, table: pa.Table) -> Panel:
        """Series of a table that holds all of their rows, with the inputs of these."""
        frame, options = table.to_pandas(ignore_metadata=True), self.options  # an index is a column
        if (inputs := options.get("inputs")) is not None:
            options = options | {"inputs": inputs[inputs[self.id].isin(frame[self.id])]}
        columns = {"time": self.time, "values": self.channels, "static": self.static}
        return Panel.from_long(frame, id=self.id, **columns, **options)


def open_source(
    source: Any,
    id: str,
    time: str,
    channels: str | Sequence[str] | None,
    static: str | Sequence[str] | None,
    options: dict[str, Any],
) -> tuple[ds.Dataset, Reading]:
    """Open Parquet files and check that all of them hold the columns, of the same types.

    pyarrow knows the columns of the first file only, fills what a later one lacks with nulls and
    reads text as numbers: what is not the same in all files is therefore an error.

    Parameters
    ----------
    source : str, PathLike, list of such, or Dataset
    id, time : str
        Columns.
    channels : str, sequence of str or None
        None: all columns that have no other use, and are not an index that pandas stored.
    static : str, sequence of str or None
    options : dict
        Further options of :meth:`skpolyode.Panel.from_long`.

    Returns
    -------
    dataset : Dataset
    reading : Reading

    Raises
    ------
    FileNotFoundError
        If there is no such file or folder.
    ValueError
        If a file lacks a column, or if a channel or the times are of a type that is not allowed.
    """
    try:
        is_open = isinstance(source, ds.Dataset)
        dataset = source if is_open else ds.dataset(source, format="parquet")
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"source: there is no {str(error)!r}: pass a Parquet file, a folder or a list of them."
        ) from error
    static = [static] if isinstance(static, str) else static and list(static)
    used = [id, time, *(static or []), *error_columns(options.get("error"))]
    names = value_columns("source", dataset.schema.names, used, channels)
    if channels is None:
        indices = _index_columns(dataset.schema)
        names = [name for name in names if name not in indices]
    known = None if channels else [*dataset.schema.names]
    schema, parts = dataset.schema, list(dataset.get_fragments())
    for part in parts:
        schema = _joined(schema, part, [*used, *names], known)
    _check_types(schema, time, names)
    if isinstance(dataset, ds.FileSystemDataset):  # others have one schema
        dataset = ds.FileSystemDataset(parts, schema, dataset.format, dataset.filesystem)
    return dataset, Reading(id, time, names, static, options)


def _joined(
    schema: pa.Schema, part: ds.Fragment, needed: Sequence[str], known: Sequence[str] | None
) -> pa.Schema:
    """Schema whose types hold the values of a further file too, which must have the same columns.

    Those that are `needed`, and none but the `known` ones if these are given.
    """
    path = getattr(part, "path", None)
    where, own = "source" if path is None else f"source: file {path!r}", part.physical_schema
    keys = ds.get_partition_keys(part.partition_expression)  # columns in the names of folders
    found = [*own.names, *keys]
    if missing := [name for name in needed if name not in found]:
        raise ValueError(
            f"{where} has no column {missing[0]!r}, which other files have; its columns are "
            f"{found}: give it the column, of nulls if it is a channel that was not observed there."
        )
    known = found if known is None else [*known, *_index_columns(own)]
    if new := [name for name in found if name not in known]:
        raise ValueError(
            f"{where} has a column {new[0]!r} that is not in the first file: name the channels by "
            "channels=, or give all files the same columns."
        )
    own = pa.schema([field for field in own if field.name in needed])
    try:
        return pa.unify_schemas([schema, own], promote_options="permissive")
    except pa.ArrowTypeError as error:
        raise ValueError(f"{where}: {error}: give the column one type in all files.") from None


def _check_types(schema: pa.Schema, time: str, channels: Sequence[str]) -> None:
    """Check that times and channels are of types that can be read as such."""
    for name in (time, *channels):
        kind, tests = schema.field(name).type, _TIMES if name == time else _VALUES
        if not any(test(kind) for test in tests):
            raise ValueError(
                f"source: the {'times' if name == time else 'channel'} {name!r} is of type {kind}, "
                "which is not one of numbers: convert it, or leave it out by channels=."
            )


def _index_columns(schema: pa.Schema) -> list[str]:
    """Columns in which pandas has stored the index of a frame; a counted one needs none."""
    own = schema.pandas_metadata or {}
    return [name for name in own.get("index_columns", ()) if isinstance(name, str)]


def read_chunks(
    dataset: ds.Dataset, columns: Sequence[str], id: str, rows_per_chunk: int
) -> Iterator[pa.Table]:
    """Read consecutive series of at least `rows_per_chunk` rows in all; fewer in the last chunk.

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
        batch_size=-(-rows_per_chunk // 8),  # small beside a chunk, and still quick to read
        batch_readahead=2,
        fragment_readahead=1,
        fragment_scan_options=options if is_parquet else None,
    )
    held: list[pa.RecordBatch] = []  # of the chunk that is being filled
    n_held = 0
    for batch, starts in _with_starts(scanner.to_batches(), id):
        begin = 0
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
    ids = _decoded(ids)
    changes = pc.not_equal(ids.slice(1), ids.slice(0, max(len(ids) - 1, 0)))
    return np.flatnonzero(np.concatenate([[True], changes.to_numpy(zero_copy_only=False)]))


def _decoded(ids: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Ids without the dictionary of a categorical column, whose codes differ between batches."""
    return ids.cast(ids.type.value_type) if pa.types.is_dictionary(ids.type) else ids


def _with_starts(
    batches: Iterable[pa.RecordBatch], id: str
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    """Batches that have rows, each with the rows at which series begin; none begins twice.

    As long as ids ascend, no earlier one can come again; a set of the ids so far is made only when
    the order first breaks.
    """
    n_rows = 0
    last: object = None  # id of the last row; a missing id is an error
    ascending: list[pa.Array] | None = []
    seen: set[object] = set()
    for batch in batches:
        if not batch.num_rows:
            continue
        ids = _decoded(batch.column(id))
        missing = pc.is_null(ids, nan_is_null=True).to_numpy(zero_copy_only=False)
        if missing.any():
            row = n_rows + int(np.argmax(missing))
            raise ValueError(
                f"source: row {row} has no {id!r}; give it one, or leave such rows out."
            )
        starts = first_rows(ids)
        if ids[0].as_py() == last:
            starts = starts[1:]
        new = ids.take(pa.array(starts))
        if len(new) and ascending is not None:
            steps_up = pc.less(new.slice(0, len(new) - 1), new.slice(1))
            ascends = pc.all(steps_up, min_count=0).as_py()
            if ascends and (last is None or last < new[0].as_py()):
                ascending.append(new)
            else:
                seen = {label for part in ascending for label in part.to_pylist()}
                ascending = None
        if ascending is None:
            for label, start in zip(new.to_pylist(), starts, strict=True):
                if label in seen:
                    raise ValueError(
                        f"source: the series with {id} {plain_repr(label)} goes on at row "
                        f"{n_rows + start}, after rows of another: sort the source by {id!r} (and "
                        "time)."
                    )
                seen.add(label)
        n_rows += len(ids)
        last = ids[-1].as_py()
        yield batch, starts
