"""Files that are no one table are refused, and never filled with nulls or read as numbers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from skpolyode.parquet import embed_dataset, sample_dataset, tables
from tests.parquet.data import Probe, panel_of, write


def one_file_each(tables, folder: Path) -> Path:
    folder.mkdir()
    for number, own in enumerate(tables):
        pq.write_table(own, folder / f"{number}.parquet")
    return folder


def two_files(later=lambda own: own, first=lambda own: own):
    """Two series in a file each; what is done to a file is done to its pyarrow table."""
    tables = [
        pa.table({"id": [name] * 3, "time": [0.0, 1.0, 2.0], "hr": [1.0, k, 3.0], "bp": [k] * 3})
        for name, k in (("a", 2.0), ("b", 5.0))
    ]
    return [first(tables[0]), later(tables[1])]


def cast(name: str, kind: pa.DataType):
    return lambda own: own.set_column(
        own.schema.get_field_index(name), name, own[name].cast(pa.string()).cast(kind)
    )


@pytest.mark.parametrize("channels", [None, ["hr", "bp"]])
@pytest.mark.parametrize("opened", [False, True], ids=["paths", "dataset"])
@pytest.mark.parametrize(
    "change",
    [
        lambda own: own.drop_columns("bp"),
        lambda own: own.rename_columns(["id", "time", "hr", "BP"]),
    ],
    ids=["lacks", "renames"],
)
def test_a_channel_that_a_later_file_lacks_is_an_error(tmp_path, change, opened, channels):
    """pyarrow would fill it with nulls, and the memory with zeros."""
    source = one_file_each(two_files(change), tmp_path / "source")
    source = ds.dataset(source) if opened else source
    with pytest.raises(ValueError, match=r"1.parquet' has no column 'bp', which .* of nulls if"):
        embed_dataset(Probe(), source, tmp_path / "out", channels=channels)
    # One that is not asked for may be missing.
    assert embed_dataset(Probe(), source, tmp_path / "hr", channels="hr") == 2


def test_a_column_that_only_a_later_file_has_is_an_error_unless_channels_are_named(tmp_path):
    added = two_files(lambda own: own.append_column("rr", own["hr"]))
    source = one_file_each(added, tmp_path / "source")
    with pytest.raises(ValueError, match=r"1.parquet' has a column 'rr' .* name the channels by"):
        embed_dataset(Probe(), source, tmp_path / "out")
    assert embed_dataset(Probe(), source, tmp_path / "out", channels=["hr", "bp"]) == 2


@pytest.mark.parametrize("which", ["first", "later"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary()])
def test_text_is_no_channel(tmp_path, which, kind):
    """pyarrow would read numbers out of it, where the first file has numbers."""
    source = one_file_each(two_files(**{which: cast("hr", kind)}), tmp_path / "source")
    with pytest.raises(ValueError, match=rf"1.parquet'.* hr .*{kind}.* one type in all"):
        embed_dataset(Probe(), source, tmp_path / "out")
    assert embed_dataset(Probe(), source, tmp_path / "bp", channels=["bp"]) == 2


@pytest.mark.parametrize(("name", "what"), [("hr", "channel"), ("time", "times")])
def test_channels_and_times_are_no_text(tmp_path, name, what):
    texts = two_files(cast(name, pa.string()), cast(name, pa.string()))
    source = one_file_each(texts, tmp_path / "text")
    with pytest.raises(ValueError, match=f"the {what} '{name}' is of type string, which is not"):
        embed_dataset(Probe(), source, tmp_path / "out")


def test_times_of_different_types_are_numbers(tmp_path):
    source = one_file_each(two_files(cast("time", pa.int64())), tmp_path / "mixed")
    embed_dataset(Probe(), source, tmp_path / "out", channels=["hr"])
    assert pd.read_parquet(tmp_path / "out")["n_rows"].tolist() == [3, 3]


@pytest.mark.parametrize("opened", [False, True], ids=["paths", "dataset"])
@pytest.mark.parametrize(
    ("first", "later"),
    [
        ([1, 2, 3], [1.5, 5.0, 3.0]),  # as integers, of which the first file is, a half is refused
        ([1.0, 2.0, 3.0], [1, 5, 3]),
        (pa.nulls(3), [0.5, None, 0.5]),
    ],
    ids=["integers", "reals", "nulls"],
)
def test_numbers_of_different_types_are_numbers(tmp_path, first, later, opened):
    files = [
        own.set_column(2, "hr", pa.array(values))
        for own, values in zip(two_files(), (first, later), strict=True)
    ]
    source = one_file_each(files, tmp_path / "source")
    source = ds.dataset(source) if opened else source
    embed_dataset(Total(), source, tmp_path / "out", channels=["hr", "bp"])
    totals = [np.nansum(np.array(pa.array(own).to_pylist(), float)) for own in (first, later)]
    assert pd.read_parquet(tmp_path / "out")["total"].tolist() == totals


class Total(Probe):
    """Sums of what is observed."""

    def get_feature_names_out(self):
        return ["total"]

    def transform(self, panel):
        return np.add.reduceat(np.nan_to_num(panel.values[:, 0]), panel.offsets[:-1])[:, None]


def test_columns_may_be_those_of_partitions(tmp_path):
    for name, own in zip("ab", two_files(), strict=True):
        folder = tmp_path / "source" / f"id={name}"
        folder.mkdir(parents=True)
        pq.write_table(own.drop_columns("id"), folder / "0.parquet")
    source = ds.dataset(tmp_path / "source", partitioning="hive")
    embed_dataset(Probe(), source, tmp_path / "out")
    assert pd.read_parquet(tmp_path / "out")["id"].tolist() == ["a", "b"]


def test_a_channel_that_is_nowhere_is_an_error(table, tmp_path):
    source = write(table, tmp_path / "series.parquet")
    with pytest.raises(ValueError, match="source has no column 'pulse'; its columns are"):
        embed_dataset(Probe(), source, tmp_path / "out", channels=["hr", "pulse"])


@pytest.mark.parametrize("index", ["shuffled", "named", "keys", "of one file"])
def test_an_index_that_pandas_stored_is_no_channel(index, table, tmp_path):
    table.to_parquet(tmp_path / "plain.parquet", index=False)
    expected = tables.open_source(tmp_path / "plain.parquet", "id", "time", None, None, {})[1]
    if index == "of one file":
        first, later = table[table["id"] == "p0"], table[table["id"] != "p0"]
        (tmp_path / "two").mkdir()
        first.reset_index(drop=True).to_parquet(tmp_path / "two" / "a.parquet")
        later.to_parquet(tmp_path / "two" / "b.parquet", index=True)
        path = tmp_path / "two"
    else:
        own = table.set_index(["id", "time"]) if index == "keys" else table
        if index != "keys":
            own = own.set_axis(pd.Index(own.index[::-1], name=index if index == "named" else None))
        own.to_parquet(path := tmp_path / "indexed.parquet", index=True)
    dataset, reading = tables.open_source(path, "id", "time", None, None, {})
    assert reading == expected
    assert reading.panel(dataset.to_table()).equals(panel_of(table))


@pytest.mark.parametrize("key", ["id", "time"])
def test_a_key_of_several_columns_is_refused_with_its_remedy(tmp_path, key):
    source = one_file_each(two_files(), tmp_path / "source")
    columns = {"id": "id", "time": "time"} | {key: ["id", "bp"]}
    for read in (sample_dataset, partial(embed_dataset, Probe(), sink=tmp_path / "out")):
        with pytest.raises(TypeError, match=rf"{key} must be .* one column.*assign\({key}=table"):
            read(source=source, **columns)
