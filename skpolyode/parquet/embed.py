"""Embedding, chunk by chunk, from Parquet to Parquet."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.utils import check_scalar
from tqdm.auto import tqdm

from skpolyode.parquet.source import (
    ROWS_PER_CHUNK,
    Reading,
    first_rows,
    open_source,
    read_chunks,
)
from skpolyode.saving.container import replace_file


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
    with tqdm(total=total, disable=not verbose, unit="row", unit_scale=True) as bar:
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
