"""Embedding from disk gives what embedding in memory gives, whatever the files look like."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpolyode import HiPPOTransformer, Panel, PolyODETransformer, SummaryStatsTransformer
from skpolyode.parquet import embed_dataset
from skpolyode.parquet.sink import Sink

LENGTHS = [5, 1, 9, 30, 2, 7, 7, 3, 12, 4]


class Probe(BaseEstimator):
    """Features that show what reached the estimator: rows, sum of values, first static column."""

    def get_feature_names_out(self):
        return ["n_rows", "total", "static"]

    def transform(self, panel):
        totals = np.add.reduceat(panel.values[:, 0], panel.offsets[:-1])
        static = np.zeros(len(panel)) if panel.static is None else panel.static.iloc[:, 0]
        return np.column_stack([panel.lengths, totals, static])


class Failing(Probe):
    """Fails at a series, as a machine that is switched off would."""

    def __init__(self, at=30):
        self.at = at

    def transform(self, panel):
        if (panel.lengths == self.at).any():
            raise RuntimeError("switched off")
        return super().transform(panel)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    ids = np.repeat([f"p{n}" for n in range(len(LENGTHS))], LENGTHS)
    times = np.concatenate([rng.exponential(size=n).cumsum() for n in LENGTHS])
    values = rng.normal(size=(len(ids), 2))
    values[rng.uniform(size=values.shape) < 0.2] = np.nan
    values[np.cumsum([0, *LENGTHS[:-1]])] = 1.0
    return pd.DataFrame({"id": ids, "time": times, "hr": values[:, 0], "bp": values[:, 1]})


def panel_of(table: pd.DataFrame) -> Panel:
    return Panel.from_long(table, id="id", time="time", values=["hr", "bp"])


def write(table: pd.DataFrame, path: Path, row_group_size: int = 4) -> Path:
    pq.write_table(pa.Table.from_pandas(table), path, row_group_size=row_group_size)
    return path


def parts(sink: Path) -> list[Path]:
    return sorted(sink.glob("part-*.parquet"))


@pytest.mark.parametrize("rows_per_chunk", [1, 8, 1000])
@pytest.mark.parametrize("row_group_size", [1, 4, 1000])
def test_equals_the_result_in_memory(table, tmp_path, rows_per_chunk, row_group_size):
    source = write(table, tmp_path / "series.parquet", row_group_size)
    embedder = HiPPOTransformer(n_coefficients=3).fit(panel_of(table))
    n = embed_dataset(embedder, source, tmp_path / "out", rows_per_chunk=rows_per_chunk)
    result = pd.read_parquet(tmp_path / "out")
    assert n == len(LENGTHS)
    assert result["id"].tolist() == [f"p{k}" for k in range(n)]
    assert result.columns[1:].tolist() == embedder.get_feature_names_out().tolist()
    expected = embedder.transform(panel_of(table))
    np.testing.assert_allclose(result.iloc[:, 1:], expected, atol=1e-12)
    assert len(parts(tmp_path / "out")) == {1: 10, 8: 6, 1000: 1}[rows_per_chunk]


def test_series_go_on_in_the_next_file(table, tmp_path):
    folder = tmp_path / "series"
    folder.mkdir()
    for number, begin in enumerate(range(0, len(table), 11)):
        write(table.iloc[begin : begin + 11], folder / f"{number:03d}.parquet")
    n = embed_dataset(Probe(), folder, tmp_path / "out", channels=["hr"], rows_per_chunk=6)
    assert n == len(LENGTHS)
    assert pd.read_parquet(tmp_path / "out")["n_rows"].tolist() == LENGTHS
    files = sorted(map(str, folder.iterdir()))
    embed_dataset(Probe(), ds.dataset(files), tmp_path / "again", channels=["hr"])
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "again"), pd.read_parquet(tmp_path / "out")
    )


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(10),
        np.arange(10)[::-1],
        np.array([3, 4, 5, 1, 2, 0, 9, 8, 7, 6]),
        pd.date_range("2024-01-01", periods=10),
        pd.Categorical(list("bacdefghij")),
    ],
    ids=["ascending", "descending", "any order", "dates", "categories"],
)
def test_ids_may_be_of_any_kind_and_order(table, tmp_path, ids):
    table["id"] = pd.Series(ids).repeat(LENGTHS).array
    source = write(table, tmp_path / "series.parquet")
    embed_dataset(Probe(), source, tmp_path / "out", channels=["hr"], rows_per_chunk=9)
    result = pd.read_parquet(tmp_path / "out")
    assert result["id"].tolist() == list(ids)
    assert result["n_rows"].tolist() == LENGTHS


@pytest.mark.parametrize("ids", ["abcadefghi", "jihgfedcbj", "bacdefghib"])
def test_an_id_that_comes_again_is_an_error(table, tmp_path, ids):
    table["id"] = np.repeat(list(ids), LENGTHS)
    source = write(table, tmp_path / "series.parquet")
    again = ids[-1] if ids[-1] in ids[:-1] else "a"
    row = sum(LENGTHS[: ids.rindex(again)])
    with pytest.raises(ValueError, match=rf"id '{again}' goes on at row {row}.*sort the source"):
        embed_dataset(Probe(), source, tmp_path / "out", channels=["hr"], rows_per_chunk=9)


def test_a_missing_id_is_an_error(table, tmp_path):
    table.loc[33, "id"] = None
    source = write(table, tmp_path / "series.parquet")
    with pytest.raises(ValueError, match="row 33 has no 'id'"):
        embed_dataset(Probe(), source, tmp_path / "out")


def test_columns_have_their_uses(table, tmp_path):
    table["age"] = np.repeat(np.arange(10.0), LENGTHS)
    source = write(table.rename(columns={"id": "who", "time": "t"}), tmp_path / "series.parquet")
    names = {"id": "who", "time": "t", "static": ["age"]}
    embed_dataset(Probe(), source, tmp_path / "out", **names, rows_per_chunk=20)
    result = pd.read_parquet(tmp_path / "out")
    assert result["static"].tolist() == list(range(10))
    with pytest.raises(ValueError, match=r"no column 'id'; its columns are \['who', 't', 'hr'"):
        embed_dataset(Probe(), source, tmp_path / "out")


def test_options_of_the_panel_are_those_of_fit(table, tmp_path):
    table["time"] = pd.Timestamp("2024-03-01") + pd.to_timedelta(table["time"], unit="h")
    panel = Panel.from_long(table, id="id", time="time", time_unit="h")
    embedder = HiPPOTransformer(n_coefficients=3).fit(panel)
    source = write(table, tmp_path / "series.parquet")
    with pytest.raises(ValueError, match="fitted on times in datetimes counted in 'h'"):
        embed_dataset(embedder, source, tmp_path / "wrong")
    embed_dataset(embedder, source, tmp_path / "out", time_unit="h", rows_per_chunk=20)
    result = pd.read_parquet(tmp_path / "out").iloc[:, 1:]
    # Files keep datetimes to the microsecond or nanosecond, no finer.
    np.testing.assert_allclose(result, embedder.transform(panel), atol=1e-6)


def test_a_run_that_failed_goes_on_where_it_stopped(table, tmp_path):
    source, sink = write(table, tmp_path / "series.parquet"), tmp_path / "out"
    settings = {"channels": ["hr"], "rows_per_chunk": 6}
    with pytest.raises(RuntimeError, match="switched off"):
        embed_dataset(Failing(at=3), source, sink, **settings)
    done = {path: path.stat().st_mtime_ns for path in parts(sink)}
    assert 1 < len(done) < 7
    assert embed_dataset(Failing(at=-1), source, sink, **settings) == len(LENGTHS)
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert pd.read_parquet(sink)["n_rows"].tolist() == LENGTHS
    assert len(os.listdir(sink)) == len(parts(sink)) + 1  # only the settings besides


def test_only_what_is_missing_is_embedded_again(table, tmp_path):
    source, sink = write(table, tmp_path / "series.parquet"), tmp_path / "out"
    embed_dataset(Probe(), source, sink, channels=["hr"], rows_per_chunk=1)
    expected = pd.read_parquet(sink)
    parts(sink)[0].unlink()
    parts(sink)[4].unlink()
    # The part with 30 rows is there: the estimator that fails at it is not asked.
    n = embed_dataset(Failing(at=30), source, sink, channels=["hr"], rows_per_chunk=1)
    assert n == len(LENGTHS)
    pd.testing.assert_frame_equal(pd.read_parquet(sink), expected)


def test_a_folder_of_something_else_is_refused(table, tmp_path):
    source, sink = write(table, tmp_path / "series.parquet"), tmp_path / "out"
    embedder = HiPPOTransformer(n_coefficients=3, window=2.0).fit(panel_of(table))
    embed_dataset(embedder, source, sink)
    other = HiPPOTransformer(n_coefficients=3, window=2.01).fit(panel_of(table))
    with pytest.raises(ValueError, match="embeddings of another estimator"):
        embed_dataset(other, source, sink)
    with pytest.raises(ValueError, match="made with another list of features: pass another folder"):
        embed_dataset(SummaryStatsTransformer().fit(panel_of(table)), source, sink)
    with pytest.raises(ValueError, match="made with rows_per_chunk=500000, not 9"):
        embed_dataset(embedder, source, sink, rows_per_chunk=9)
    write(table.iloc[:-1], source)
    with pytest.raises(ValueError, match="made with another source"):
        embed_dataset(embedder, source, sink)
    with pytest.raises(ValueError, match="holds files that embed_dataset has not written"):
        embed_dataset(embedder, source, tmp_path)


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
    with pytest.raises(ValueError, match=rf"the channel 'hr' is of type {kind}, not of numbers"):
        embed_dataset(Probe(), source, tmp_path / "out")
    assert embed_dataset(Probe(), source, tmp_path / "bp", channels=["bp"]) == 2


def test_times_are_numbers_or_timestamps_and_alike(tmp_path):
    source = one_file_each(two_files(first=cast("time", pa.string())), tmp_path / "text")
    with pytest.raises(ValueError, match="the times 'time' are of type string, not numbers"):
        embed_dataset(Probe(), source, tmp_path / "out")
    source = one_file_each(two_files(cast("time", pa.int64())), tmp_path / "mixed")
    with pytest.raises(ValueError, match=r"1.parquet': the times 'time' are of type int64, in the"):
        embed_dataset(Probe(), source, tmp_path / "out")


@pytest.mark.parametrize(("first", "later"), [("int64", "float64"), ("float64", "int8")])
def test_numbers_of_different_types_are_numbers(tmp_path, first, later):
    files = two_files(cast("hr", getattr(pa, later)()), cast("hr", getattr(pa, first)()))
    # A half in the later file: as integers, of which the first file may be, it would be refused.
    if later == "float64":
        files[1] = files[1].set_column(2, "hr", pa.array([1.5, 5.0, 3.0]))
    source = one_file_each(files, tmp_path / "source")
    embed_dataset(Probe(), source, tmp_path / "out", channels=["hr"])
    totals = pd.read_parquet(tmp_path / "out")["total"].tolist()
    assert totals == [6.0, 9.5 if later == "float64" else 9.0]
    with pytest.raises(ValueError, match=r"different types in its files \(hr\): open it with a"):
        embed_dataset(Probe(), ds.dataset(source), tmp_path / "other", channels=["hr"])


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


def test_a_source_that_was_written_again_is_another_one(table, tmp_path):
    """Even one of the same size: nothing else shows without reading all of it."""
    source, sink = write(table, tmp_path / "series.parquet"), tmp_path / "out"
    embed_dataset(Probe(), source, sink, channels=["hr"])
    status = source.stat()
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000))
    with pytest.raises(ValueError, match="made with another source"):
        embed_dataset(Probe(), source, sink, channels=["hr"])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other_series(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "id", pa.array(["z"] * len(table))), path)


def other_columns(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop_columns("total"), path)


@pytest.mark.parametrize("spoil", [cut, empty, other_series, other_columns])
def test_every_part_is_checked_when_a_run_goes_on(table, tmp_path, spoil):
    source, sink = write(table, tmp_path / "series.parquet"), tmp_path / "out"
    embed_dataset(Probe(), source, sink, channels=["hr"], rows_per_chunk=1)
    expected = pd.read_parquet(sink)
    spoil(parts(sink)[7])
    with pytest.warns(UserWarning, match="part-000007.parquet' is damaged or not of these series"):
        embed_dataset(Probe(), source, sink, channels=["hr"], rows_per_chunk=1)
    pd.testing.assert_frame_equal(pd.read_parquet(sink), expected)


def test_what_killed_runs_left_is_deleted(table, tmp_path):
    source, sink = write(table, tmp_path / "series.parquet"), tmp_path / "out"
    sink.mkdir()
    for name in (".part-000001.parquet.f00", "._embedding.json.f00", ".nfs1"):
        (sink / name).write_bytes(b"PAR1")
    embed_dataset(Probe(), source, sink, channels=["hr"])
    assert sorted(os.listdir(sink)) == [".nfs1", "_embedding.json", "part-000000.parquet"]


def test_a_part_that_another_run_deletes_is_written_again(table, tmp_path, monkeypatch):
    """A run that ends deletes what is half written, also by a run that still goes on."""
    source, sink = write(table, tmp_path / "series.parquet"), tmp_path / "out"
    write_table = pq.write_table
    calls = []

    def deleted(content, path):
        write_table(content, path)
        calls.append(path)
        if len(calls) % 2:
            path.rename(tmp_path / "gone")

    monkeypatch.setattr("skpolyode.parquet.sink.pq.write_table", deleted)
    embed_dataset(Probe(), source, sink, channels=["hr"], rows_per_chunk=1)
    assert len(calls) == 2 * len(parts(sink)) == 2 * len(LENGTHS)


def test_parts_are_on_disk_before_they_have_their_names(table, tmp_path, monkeypatch):
    source, sink = write(table, tmp_path / "series.parquet"), tmp_path / "out"
    done = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor):
        fsync(descriptor)
        done.append(("fsync", os.fstat(descriptor).st_ino))

    def named(part, path):
        done.append(("named", os.stat(part).st_ino))
        replace(part, path)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named)
    embed_dataset(Probe(), source, sink, channels=["hr"])
    inode = parts(sink)[0].stat().st_ino
    assert done.index(("fsync", inode)) < done.index(("named", inode))


@pytest.mark.parametrize("links", [True, False])
def test_two_runs_may_open_a_new_sink_at_once(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(PermissionError("no")))
    with ThreadPoolExecutor(4) as pool:
        for n in range(40):
            start = threading.Barrier(4)

            def opened(k, start=start, folder=tmp_path / str(n)):
                start.wait()
                return Sink(folder, {"rows": 1}, ["a"])

            assert len(list(pool.map(opened, range(4)))) == 4
            assert os.listdir(tmp_path / str(n)) == ["_embedding.json"]


def test_of_two_runs_that_open_a_sink_with_other_settings_one_is_refused(tmp_path, monkeypatch):
    """Whichever is second, even where both have found the folder empty."""
    link = os.link

    def late(part, path):
        monkeypatch.setattr(os, "link", link)
        Sink(tmp_path / "out", {"rows": 2}, ["a"])
        link(part, path)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(ValueError, match="embeddings made with rows=2, not 1"):
        Sink(tmp_path / "out", {"rows": 1}, ["a"])


class Lost(Probe):
    """The worker is gone at a series, at some of the times: what joblib then raises."""

    def __init__(self, at=30, times=(1,)):
        self.at, self.times = at, times
        self.tried = []

    def transform(self, panel):
        if (panel.lengths == self.at).any():
            self.tried.append(panel)
            if len(self.tried) in self.times:
                raise TerminatedWorkerError("killed")
        return super().transform(panel)


def test_a_run_that_loses_a_worker_goes_on(table, tmp_path):
    source, sink = write(table, tmp_path / "series.parquet"), tmp_path / "out"
    settings = {"channels": ["hr"], "rows_per_chunk": 1}
    assert embed_dataset(Lost(), source, sink, **settings) == len(LENGTHS)
    assert pd.read_parquet(sink)["n_rows"].tolist() == LENGTHS
    # Two series of seven rows, each of which is deadly as often as can be.
    unlucky = Lost(at=7, times=(1, 2, 3, 5, 6, 7))
    assert embed_dataset(unlucky, source, tmp_path / "b", **settings) == len(LENGTHS)
    assert len(unlucky.tried) == 8


def test_a_chunk_that_kills_every_worker_ends_the_run(table, tmp_path):
    source, lost = write(table, tmp_path / "series.parquet"), Lost(times=range(99))
    with pytest.raises(TerminatedWorkerError, match="killed") as caught:
        embed_dataset(lost, source, tmp_path / "out", channels=["hr"], rows_per_chunk=1)
    assert len(lost.tried) == 4
    assert "lower rows_per_chunk" in caught.value.__notes__[0]


def test_an_empty_source_and_a_feature_named_id_are_refused(table, tmp_path):
    source = write(table.iloc[:0], tmp_path / "series.parquet")
    with pytest.raises(ValueError, match="source has no rows"):
        embed_dataset(Probe(), source, tmp_path / "out")
    with pytest.raises(ValueError, match="id='total' is also the name of a feature"):
        embed_dataset(
            Probe(), write(table.rename(columns={"id": "total"}), source), "x", id="total"
        )


def test_a_chunk_has_at_least_a_row(table, tmp_path):
    with pytest.raises(ValueError, match="rows_per_chunk == 0, must be >= 1"):
        embed_dataset(Probe(), write(table, tmp_path / "s.parquet"), "x", rows_per_chunk=0)


def test_a_faulty_series_is_named_by_its_id(table, tmp_path):
    table.loc[16, "time"] = 0.0  # of the series with 30 rows
    source = write(table, tmp_path / "series.parquet")
    with pytest.raises(ValueError, match=r"chunk 1 of source: .*id 'p3'.*must increase"):
        embed_dataset(Probe(), source, tmp_path / "out", rows_per_chunk=8)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_workers_give_the_same(table, tmp_path, backend):
    source = write(table, tmp_path / "series.parquet")
    embedder = make_pipeline(
        PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1, random_state=0),
        StandardScaler(),
    ).fit(panel_of(table))
    settings = {"channels": ["hr", "bp"], "rows_per_chunk": 12}
    embed_dataset(embedder, source, tmp_path / "one", **settings)
    with joblib.parallel_config(backend):
        embed_dataset(embedder, source, tmp_path / "two", n_jobs=2, **settings)
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "two"), pd.read_parquet(tmp_path / "one"), check_exact=True
    )


def test_no_more_than_a_few_chunks_are_read_ahead(table, tmp_path, monkeypatch):
    from skpolyode.parquet import embed

    read = []

    def counting(*arguments):
        for chunk in original(*arguments):
            read.append(len(chunk))
            yield chunk

    original = embed.read_chunks
    monkeypatch.setattr(embed, "read_chunks", counting)
    source = write(table, tmp_path / "series.parquet")
    with pytest.raises(RuntimeError, match="switched off"):
        embed_dataset(Failing(at=5), source, tmp_path / "out", rows_per_chunk=1)
    assert len(read) <= 3
    assert read == LENGTHS[: len(read)]


def test_progress_is_shown_on_request(table, tmp_path, capsys):
    source = write(table, tmp_path / "series.parquet")
    embed_dataset(Probe(), source, tmp_path / "a", channels=["hr"])
    assert capsys.readouterr().err == ""
    embed_dataset(Probe(), source, tmp_path / "b", channels="hr", verbose=1)
    assert "80.0/80.0" in capsys.readouterr().err
