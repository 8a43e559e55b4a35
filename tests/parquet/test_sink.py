"""The folder of results: parts that are whole or not there, whoever else writes, kills or dies."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from joblib.externals.loky.process_executor import TerminatedWorkerError

from skpolyode.parquet import embed_dataset
from skpolyode.parquet.sink import Sink
from tests.parquet.data import LENGTHS, Probe, parts, write


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    """One bit among the features."""
    data, at = bytearray(path.read_bytes()), pq.ParquetFile(path).metadata.row_group(0).column(2)
    data[at.data_page_offset + at.total_compressed_size - 1] ^= 1
    path.write_bytes(data)


def other_series(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "id", pa.array(["z"] * len(table))), path)


def other_columns(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop_columns("total"), path)


@pytest.mark.parametrize("spoil", [cut, empty, flip, other_series, other_columns])
def test_every_part_is_checked_when_a_run_goes_on(table, tmp_path, spoil):
    source, sink = write(table, tmp_path / "series.parquet"), tmp_path / "out"
    embed_dataset(Probe(), source, sink, channels=["hr"], rows_per_chunk=1)
    expected = pd.read_parquet(sink)
    spoil(parts(sink)[7])
    with pytest.warns(UserWarning, match="part-000007.parquet' is damaged or not of these series"):
        embed_dataset(Probe(), source, sink, channels=["hr"], rows_per_chunk=1)
    pd.testing.assert_frame_equal(pd.read_parquet(sink), expected)


def test_what_killed_runs_left_of_a_part_goes_when_it_is_written(table, tmp_path):
    source, sink = write(table, tmp_path / "series.parquet"), tmp_path / "out"
    sink.mkdir()
    for name in (".part-000000.parquet.f00.part", ".nfs1"):
        (sink / name).write_bytes(b"PAR1")
    embed_dataset(Probe(), source, sink, channels=["hr"])
    assert sorted(os.listdir(sink)) == [".nfs1", "_embedding.json", "part-000000.parquet"]


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
