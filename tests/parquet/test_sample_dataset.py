"""Whole series, drawn at random from disk."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from skpolyode import PolyODETransformer
from skpolyode.parquet import sample_dataset, tables
from tests.parquet.data import LENGTHS, panel_of, write


def rows(panel):
    return [
        (id, s.times.tolist(), s.values.tolist()) for id, s in zip(panel.ids, panel, strict=True)
    ]


@pytest.mark.parametrize("n_rows", [sum(LENGTHS), 10**6])
def test_more_rows_than_there_are_is_the_panel_itself(table, tmp_path, n_rows):
    source = write(table, tmp_path / "series.parquet")
    np.testing.assert_equal(rows(sample_dataset(source, n_rows=n_rows)), rows(panel_of(table)))


@pytest.mark.parametrize("rows_at_once", [1, 7, 1000])
def test_series_are_whole_and_follow_from_the_seed_alone(
    table, tmp_path, monkeypatch, rows_at_once
):
    """However the files, and what is read of them at once, are cut."""
    whole = dict(zip(panel_of(table).ids, rows(panel_of(table)), strict=True))
    expected = sample_dataset(write(table, tmp_path / "a.parquet"), n_rows=12, random_state=3)
    monkeypatch.setattr(tables, "ROWS_PER_CHUNK", rows_at_once)
    source = write(table, tmp_path / "b.parquet", 4)
    drawn = sample_dataset(source, n_rows=12, random_state=3)
    assert 0 < len(drawn) < len(LENGTHS)
    np.testing.assert_equal(rows(drawn), [whole[id] for id in drawn.ids])
    np.testing.assert_equal(rows(drawn), rows(expected))


def test_rows_are_enough_and_no_series_more(table, tmp_path):
    source = write(table, tmp_path / "series.parquet")
    for n_rows in (1, 5, 20, 60):
        for seed in range(5):
            lengths = sample_dataset(source, n_rows=n_rows, random_state=seed).lengths
            assert n_rows <= lengths.sum() < n_rows + max(LENGTHS)


def test_every_series_is_drawn_as_often(tmp_path):
    table = pd.DataFrame({"id": np.repeat(np.arange(20), 3), "time": np.tile(np.arange(3.0), 20)})
    source = write(table.assign(hr=1.0), tmp_path / "series.parquet")
    drawn = [sample_dataset(source, n_rows=15, random_state=seed).ids for seed in range(200)]
    counts = np.bincount(np.concatenate(drawn), minlength=20)
    assert counts.sum() == 1000
    assert (np.abs(counts - 50) < 4 * np.sqrt(50)).all()


@pytest.mark.parametrize("kind", ["dates", "categories"])
def test_ids_keep_their_type(table, tmp_path, kind):
    dates = pd.date_range("2024-01-01", periods=len(LENGTHS))
    ids = dates if kind == "dates" else pd.Categorical([f"s{k}" for k in range(len(LENGTHS))])
    table["id"] = pd.Series(ids).repeat(LENGTHS).array
    source = write(table, tmp_path / "series.parquet", 4)
    drawn = sample_dataset(source, n_rows=9, random_state=0)
    assert set(pd.Index(drawn.ids)) < set(ids)  # labels of dates, whatever unit pandas stores


def test_static_columns_and_chosen_channels(table, tmp_path):
    table["age"] = np.repeat(np.arange(len(LENGTHS), dtype=float), LENGTHS)
    source = write(table, tmp_path / "series.parquet")
    drawn = sample_dataset(source, n_rows=9, channels="hr", static="age", random_state=0)
    assert drawn.n_channels == 1
    assert drawn.static["age"].tolist() == [float(id[1:]) for id in drawn.ids]


def test_rows_of_a_series_that_are_apart_are_an_error(table, tmp_path):
    source = write(pd.concat([table, table.iloc[:1]]), tmp_path / "series.parquet")
    with pytest.raises(ValueError, match=r"p0.*goes on at row .*sort the source by 'id'"):
        sample_dataset(source, n_rows=5)


def test_wrong_numbers_of_rows(table, tmp_path):
    source = write(table, tmp_path / "series.parquet")
    with pytest.raises(ValueError, match="n_rows"):
        sample_dataset(source, n_rows=0)


def test_what_is_drawn_can_be_fitted(table, tmp_path, capfd, monkeypatch):
    source = write(table, tmp_path / "series.parquet")
    panel = sample_dataset(source, n_rows=30, random_state=0, verbose=1)
    assert "row" in capfd.readouterr().err
    monkeypatch.setattr(sys, "stderr", None)  # as in services
    sample_dataset(source, n_rows=30, verbose=1)
    embedder = PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), random_state=0)
    assert np.isfinite(embedder.set_params(max_epochs=1).fit(panel).transform(panel)).all()
