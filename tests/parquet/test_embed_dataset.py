"""Embedding from disk gives what embedding in memory gives, whatever the files look like."""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpolyode import HiPPOTransformer, Panel, PolyODETransformer
from skpolyode.parquet import embed_dataset
from tests.parquet.data import LENGTHS, Probe, panel_of, parts, write


class Failing(Probe):
    """Fails at a series, as a machine that is switched off would."""

    def __init__(self, at=30):
        self.at = at

    def transform(self, panel):
        if (panel.lengths == self.at).any():
            raise RuntimeError("switched off")
        return super().transform(panel)


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


def test_only_an_empty_folder_is_written_to(table, tmp_path):
    source, sink = write(table, tmp_path / "series.parquet"), tmp_path / "out"
    embed_dataset(Probe(), source, sink, channels=["hr"])
    before = {path: path.read_bytes() for path in sink.iterdir()}
    with pytest.raises(ValueError, match="holds files: pass a new or an empty folder"):
        embed_dataset(Probe(), source, sink, channels=["hr"])
    assert {path: path.read_bytes() for path in sink.iterdir()} == before


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


def test_a_series_without_any_observation_is_kept_on_request(table, tmp_path):
    holes = table.copy()
    who = holes["id"].unique()[4]
    holes.loc[holes["id"] == who, ["hr", "bp"]] = np.nan
    embedder = HiPPOTransformer(n_coefficients=3).fit(panel_of(table))
    source = write(holes, tmp_path / "holes.parquet")
    options = {"channels": ["hr", "bp"], "rows_per_chunk": 20}
    with pytest.raises(ValueError, match="leave these series out, or pass empty="):
        embed_dataset(embedder, source, tmp_path / "refused", **options)
    embed_dataset(embedder, source, tmp_path / "out", **options, empty="keep")
    features = pd.read_parquet(tmp_path / "out").set_index("id")
    assert features.index[features.isna().any(axis=1)].tolist() == [who]


def test_a_faulty_series_is_named_by_its_id(table, tmp_path):
    table.loc[16, "time"] = 0.0  # of the series with 30 rows
    source = write(table, tmp_path / "series.parquet")
    with pytest.raises(ValueError, match=r"chunk 1 of source: .*id 'p3'.*must increase"):
        embed_dataset(Probe(), source, tmp_path / "out", rows_per_chunk=8)


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize("backend", [pytest.param("loky", marks=pytest.mark.slow), "threading"])
def test_workers_give_the_same(table, tmp_path, backend):
    source = write(table, tmp_path / "series.parquet")
    embedder = make_pipeline(
        PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1, random_state=0),
        StandardScaler(),
    ).fit(panel_of(table))
    settings = {"channels": ["hr", "bp"], "rows_per_chunk": 12}
    embed_dataset(embedder, source, tmp_path / "one", **settings)
    one = pd.read_parquet(tmp_path / "one")
    with joblib.parallel_config(backend):
        embed_dataset(embedder, source, tmp_path / backend, n_jobs=2, **settings)
    two = pd.read_parquet(tmp_path / backend)
    pd.testing.assert_frame_equal(two, one, check_exact=True)


def test_no_more_than_a_few_chunks_are_read_ahead(table, tmp_path, monkeypatch):
    from skpolyode.parquet import tables

    read = []

    def counting(*arguments):
        for chunk in original(*arguments):
            read.append(len(chunk))
            yield chunk

    original = tables.read_chunks
    monkeypatch.setattr(tables, "read_chunks", counting)
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
