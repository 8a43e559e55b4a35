"""Draw series at random from a table on disk, to fit a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from sklearn.utils import check_random_state, check_scalar
from tqdm.auto import tqdm

from skpolyode.panel import Panel
from skpolyode.parquet.source import ROWS_PER_CHUNK, first_rows, open_source, read_chunks


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
    with tqdm(
        total=2 * dataset.count_rows(), disable=not verbose, unit="row", unit_scale=True
    ) as bar:
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
