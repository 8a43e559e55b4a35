"""Parquet files that are one table: whether they are, and what tells them from others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

__all__ = ["identity", "open_source"]

# What a channel may be of, by pyarrow's tests; what is null may be a channel nowhere observed.
_NUMBERS = (
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    *(pa.types.is_boolean, pa.types.is_null),
)
_TIMES = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_temporal)


def open_source(
    source: Any, id: str, time: str, channels: Sequence[str] | None, static: Sequence[str]
) -> tuple[ds.Dataset, list[str]]:
    """Open a Parquet file, a folder or a list of them; check all of its files.

    pyarrow knows the columns of the first file only, fills what a later one lacks with nulls and
    reads text as numbers: what is not the same in all files is therefore an error.

    Parameters
    ----------
    source : str, PathLike, list of such, or Dataset
    id, time : str
        Columns.
    channels : sequence of str or None
        None: all columns that have no other use.
    static : sequence of str

    Returns
    -------
    dataset : Dataset
    channels : list of str

    Raises
    ------
    FileNotFoundError
        If there is no such file or folder.
    ValueError
        If a file lacks a column, or if a channel or the times are of a type that is not allowed.
    """
    opened = isinstance(source, ds.Dataset)
    try:
        dataset = source if opened else ds.dataset(source, format="parquet")
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"source: there is no {str(error)!r}: pass a Parquet file, a folder or a list of them."
        ) from error
    schema, used = dataset.schema, [id, time, *static]
    if missing := [name for name in (*used, *(channels or [])) if name not in schema.names]:
        raise ValueError(f"source has no column {missing[0]!r}; its columns are {schema.names}.")
    names = [name for name in schema.names if name not in used] if channels is None else channels
    mixed = set()
    for fragment in dataset.get_fragments():
        path = getattr(fragment, "path", None)
        where = "source" if path is None else f"source: file {path!r}"
        kinds = {field.name: field.type for field in fragment.physical_schema}
        _check_columns(where, fragment, [*used, *names], names)
        if channels is None and (new := [name for name in kinds if name not in schema.names]):
            raise ValueError(
                f"{where} has a column {new[0]!r} that is not in the first file: name the channels "
                "by channels=, or give all files the same columns."
            )
        if time in kinds:
            _check_times(where, time, kinds[time], schema.field(time).type)
        for name in [name for name in names if name in kinds]:
            if not any(test(kinds[name]) for test in _NUMBERS):
                raise ValueError(
                    f"{where}: the channel {name!r} is of type {kinds[name]}, not of numbers: "
                    "convert it, name it in static=, or leave it out of channels=."
                )
            if schema.field(name).type not in (kinds[name], pa.float64()):
                mixed.add(name)
    if mixed and opened:
        raise ValueError(
            f"source: channels are of different types in its files ({', '.join(sorted(mixed))}): "
            "open it with a schema in which they are float64, or pass the paths."
        )
    if mixed:
        for name in mixed:
            field = pa.field(name, pa.float64())
            schema = schema.set(schema.get_field_index(name), field)
        dataset = ds.dataset(source, format="parquet", schema=schema)
    return dataset, list(names)


def _check_columns(
    where: str, fragment: ds.Fragment, needed: Sequence[str], channels: Sequence[str]
) -> None:
    keys = ds.get_partition_keys(fragment.partition_expression)  # columns in the names of folders
    present = [*fragment.physical_schema.names, *keys]
    if missing := [name for name in needed if name not in present]:
        remedy = "give it the column"
        if missing[0] in channels:
            remedy += ", of nulls if the channel was not observed there"
        raise ValueError(
            f"{where} has no column {missing[0]!r}, which other files have; its columns are "
            f"{present}: {remedy}."
        )


def _check_times(where: str, name: str, kind: pa.DataType, first: pa.DataType) -> None:
    if not any(test(kind) for test in _TIMES):
        raise ValueError(
            f"{where}: the times {name!r} are of type {kind}, not numbers or timestamps: convert "
            "them."
        )
    if kind != first:
        raise ValueError(
            f"{where}: the times {name!r} are of type {kind}, in the first file of {first}: write "
            "them alike."
        )


def identity(dataset: ds.Dataset) -> dict[str, Any]:
    """What tells one source from another without reading it: columns, files, sizes, dates."""
    files = getattr(dataset, "files", [])
    infos = dataset.filesystem.get_file_info(files) if files else []
    return {
        "columns": [f"{field.name}: {field.type}" for field in dataset.schema],
        "files": [[info.path, info.size, info.mtime_ns] for info in infos],
    }
