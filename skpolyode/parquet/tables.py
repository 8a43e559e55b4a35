"""Parquet files that are one table: checked when opened, then read in chunks of whole series."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from sklearn.utils import check_random_state, check_scalar
from tqdm.auto import tqdm

from skpolyode.errors import plain_repr
from skpolyode.panel import Panel
from skpolyode.panel.readers.long import error_columns, refuse_many, value_columns
from skpolyode.saving.objects import replace_file
from skpolyode.transformers.stages import bar_settings

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
    are_named : bool
        Whether the user named the channels.
    """

    id: str
    time: str
    channels: list[str]
    static: list[str] | None
    options: dict[str, Any]
    are_named: bool

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        beside = error_columns(self.options.get("error"))
        return [self.id, self.time, *self.channels, *(self.static or []), *beside]

    def panel(self, table: pa.Table) -> Panel:
        """Series of a table that holds all of their rows, with the inputs of these."""
        frame = table.select(self.columns).to_pandas(ignore_metadata=True)  # an index is a column
        options = self.options
        if (inputs := options.get("inputs")) is not None:
            options = options | {"inputs": inputs[inputs[self.id].isin(frame[self.id])]}
        columns = {"time": self.time, "static": self.static}
        columns["values"] = self.channels if self.are_named else None
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
    refuse_many("id", id)
    refuse_many("time", time)
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
    for name in (time, *names):
        kind, tests = schema.field(name).type, _TIMES if name == time else _VALUES
        if not any(test(kind) for test in tests):
            raise ValueError(
                f"source: the {'times' if name == time else 'channel'} {name!r} is of type {kind}, "
                "which is not one of numbers: convert it, or leave it out by channels=."
            )
    if isinstance(dataset, ds.FileSystemDataset):  # others have one schema
        dataset = ds.FileSystemDataset(parts, schema, dataset.format, dataset.filesystem)
    return dataset, Reading(id, time, names, static, options, channels is not None)


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


def embed_dataset(
    estimator: Any,
    source: Any,
    sink: str | os.PathLike[str],
    *,
    id: str = "id",
    time: str = "time",
    channels: str | Sequence[str] | None = None,
    static: str | Sequence[str] | None = None,
    rows_per_chunk: int = ROWS_PER_CHUNK,
    n_jobs: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> int:
    """Embed a long table on disk that does not fit in memory.

    The table is read in chunks of whole series, and the embeddings of each chunk are written to one
    file in the folder `sink`.

    Parameters
    ----------
    estimator : transformer
        Fitted; any of this package, or a pipeline that begins with one and has
        `get_feature_names_out`.
    source : str, PathLike, list of such, or pyarrow Dataset
        Parquet files, or folders of them, in the order of their names. One row holds all
        channels of one series at one time, null or NaN where not observed. All rows of a series
        are neighbours, also across files, and in the order of time. All files have the same
        columns: a channel that one of them lacks is an error, since it may only have another
        name there; add a column of nulls where it was not observed.
    sink : str or PathLike
        Folder for the results, new or empty.
    id : str, default="id"
        Column that tells the series apart.
    time : str, default="time"
        Column of times: numbers or timestamps.
    channels : str, sequence of str or None, default=None
        Columns of the channels, of numbers and in the order of `fit`. None: all columns without
        another use.
    static : str, sequence of str or None, default=None
        Columns that are constant in each series, if the estimator was fitted with such.
    rows_per_chunk : int, default=500000
        Rows read and embedded at once. A chunk ends with the first series that reaches so many;
        lower it if memory is short, or to have enough chunks for all workers.
    n_jobs : int or None, default=None
        Processes that embed chunks, through joblib. None: one, or what
        `joblib.parallel_config` says, which also selects the engine, such as a Dask cluster.
    verbose : int, default=0
        If positive, show a progress bar.
    **options : dict
        `time_unit`, `sort`, `duplicates`, `empty` and `missing` of :class:`skpolyode.Panel`, and
        `error` of :meth:`skpolyode.Panel.from_long`. If the estimator was fitted on datetimes in
        another unit than seconds, give its `time_unit`. `inputs`, a DataFrame with the columns `id`
        and `time`, and `kinds` are exogenous variables.

    Returns
    -------
    int
        Number of series in `sink`.

    Raises
    ------
    ValueError
        If the rows of a series are not neighbours, if a series is not valid, or if `sink` is not
        empty.

    See Also
    --------
    skpolyode.Panel.from_long : The same format in memory.

    Notes
    -----
    Memory holds a chunk for each worker and one more, their embeddings, a group of rows of a file,
    and the ids of the series so far: a few bytes for each while ids ascend, then about a hundred. A
    series longer than `rows_per_chunk` is a chunk by itself.

    The files ``part-000000.parquet``, ... hold the column of ids and a column for each of
    `get_feature_names_out`, in the order of the source; any reader of Parquet folders takes them
    as one table. With an engine on several machines, `sink` must be a folder that all of them see.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> from skpolyode import HiPPOTransformer, Panel
    >>> from skpolyode.parquet import embed_dataset
    >>> table = pd.DataFrame(
    ...     {"id": ["a", "a", "b", "b"], "time": [0.0, 2.0, 0.0, 1.0], "hr": [61.0, 64, 70, 72]}
    ... )
    >>> transformer = HiPPOTransformer(n_coefficients=2).fit(
    ...     Panel.from_long(table, id="id", time="time")
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table.to_parquet(Path(folder) / "vitals.parquet")
    ...     n_series = embed_dataset(transformer, Path(folder) / "vitals.parquet", f"{folder}/out")
    ...     embeddings = pd.read_parquet(f"{folder}/out")
    >>> n_series, embeddings.columns.to_list()
    (2, ['id', 'hr_c0', 'hr_c1'])
    """
    rows_per_chunk = int(check_scalar(rows_per_chunk, "rows_per_chunk", Integral, min_val=1))
    dataset, reading = open_source(source, id, time, channels, static, options)
    features = [str(name) for name in estimator.get_feature_names_out()]
    if id in features:
        raise ValueError(f"id={id!r} is also the name of a feature: rename the column of ids.")
    folder = Path(sink)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ValueError(f"sink {str(folder)!r} holds files: pass a new or an empty folder.")
    chunks = enumerate(read_chunks(dataset, reading.columns, id, rows_per_chunk))
    embed = joblib.delayed(_embed)
    calls = (embed(estimator, reading, features, folder, *chunk) for chunk in chunks)
    # Waiting chunks take memory, so that there is no more than one in reserve.
    parallel = joblib.Parallel(
        n_jobs, return_as="generator", batch_size=1, pre_dispatch="n_jobs + 1"
    )
    n_series, total = 0, dataset.count_rows() if verbose else None
    with tqdm(total=total, unit="row", unit_scale=True, **bar_settings(verbose)) as bar:
        for rows, series in parallel(calls):
            bar.update(rows)
            n_series += series
    return n_series


def _embed(
    estimator: Any,
    reading: Reading,
    features: Sequence[str],
    folder: Path,
    number: int,
    table: pa.Table,
) -> tuple[int, int]:
    """Write the embeddings of a chunk to a file; return its numbers of rows and of series."""
    try:
        panel = reading.panel(table)
    except ValueError as error:  # it counts series from the start of the chunk
        raise ValueError(f"chunk {number} of source: {error}") from None
    # From the table, since a panel changes the types of ids.
    ids = table[reading.id].take(pa.array(first_rows(table[reading.id])))
    embedded = np.ascontiguousarray(np.asarray(estimator.transform(panel)).T)
    data = io.BytesIO()
    pq.write_table(pa.table({reading.id: ids, **dict(zip(features, embedded, strict=True))}), data)
    # At once, so that a reader of the folder never sees a part of a file.
    replace_file(folder / f"part-{number:06d}.parquet", data.getvalue())
    return table.num_rows, len(ids)


def sample_dataset(
    source: Any,
    *,
    n_rows: int = 1_500_000,
    id: str = "id",
    time: str = "time",
    channels: str | Sequence[str] | None = None,
    static: str | Sequence[str] | None = None,
    random_state: Any = None,
    verbose: int = 0,
    **options: Any,
) -> Panel:
    """Draw whole series from a long table on disk that does not fit in memory, to fit a model.

    With ``max_epochs="auto"`` a fit goes through at most 40 times 32 000 intervals, each epoch
    through other series if there are enough. This function draws as many rows at random, in
    advance. A fit on them is as good as a fit on the whole table, except that the scales of
    channels and the window are those of the sample.

    Parameters
    ----------
    source : str, PathLike, list of such, or pyarrow Dataset
        Parquet files as :func:`embed_dataset` reads them: the rows of a series are neighbours, in
        the order of time.
    n_rows : int, default=1500000
        Series are drawn, each with the same probability, until they have so many rows; all if
        there are fewer. Lower it if memory is short, as with very many channels.
    id : str, default="id"
        Column that tells the series apart.
    time : str, default="time"
        Column of times: numbers or timestamps.
    channels : str, sequence of str or None, default=None
        Columns of the channels, of numbers. None: all columns without another use.
    static : str, sequence of str or None, default=None
        Columns that are constant in each series.
    random_state : int, RandomState instance or None, default=None
        Seed of what is drawn. It does not depend on how files are cut into groups of rows.
    verbose : int, default=0
        If positive, show a progress bar.
    **options : dict
        `time_unit`, `sort`, `duplicates` and `missing` of :class:`skpolyode.Panel`, and `error` of
        :meth:`skpolyode.Panel.from_long`; `inputs` and `kinds` as of `embed_dataset`.

    Returns
    -------
    Panel
        In the order of the source.

    Raises
    ------
    ValueError
        If rows of a series are apart, or if a series that was drawn is not valid.

    See Also
    --------
    embed_dataset : Embeds the whole table by the fitted model.

    Notes
    -----
    The column of ids is read first, then the rest, a stretch of rows at a time. Memory holds the
    sample, such a stretch, a group of rows of a file, and the number of rows of each series.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skpolyode.parquet import sample_dataset
    >>> table = pd.DataFrame({"id": np.repeat(np.arange(50), 4), "time": np.tile(np.arange(4), 50)})
    >>> table["hr"] = 60.0 + table["id"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table.to_parquet(Path(folder) / "vitals.parquet")
    ...     sample_dataset(Path(folder) / "vitals.parquet", n_rows=40, random_state=0)
    Panel(10 series, 1 channel, 40 observations, 100% of cells observed, times 0 to 3)
    """
    n_rows = int(check_scalar(n_rows, "n_rows", Integral, min_val=1))
    dataset, reading = open_source(source, id, time, channels, static, options)
    total = 2 * dataset.count_rows()  # ids are read before
    with tqdm(total=total, unit="row", unit_scale=True, **bar_settings(verbose)) as bar:
        lengths = np.concatenate([counts for _, counts in _chunks(dataset, [id], id, bar)])
        order = check_random_state(random_state).permutation(len(lengths))
        n_drawn = 1 + np.searchsorted(np.cumsum(lengths[order]), n_rows)
        drawn = np.zeros(len(lengths), dtype=bool)
        drawn[order[:n_drawn]] = True
        parts, first = [], 0
        for table, counts in _chunks(dataset, reading.columns, id, bar):
            kept = np.repeat(drawn[first : first + len(counts)], counts)
            parts.append(table.filter(pa.array(kept)))
            first += len(counts)
    return reading.panel(pa.concat_tables(parts))


def _chunks(
    dataset: ds.Dataset, columns: Sequence[str], id: str, bar: tqdm
) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """Read whole series, with the number of rows of each."""
    for table in read_chunks(dataset, columns, id, ROWS_PER_CHUNK):
        yield table, np.diff(first_rows(table[id]), append=table.num_rows)
        bar.update(table.num_rows)
