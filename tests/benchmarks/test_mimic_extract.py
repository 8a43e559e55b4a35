"""MIMIC-Extract files, in small and made up."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.paper import mimic_extract
from benchmarks.paper.mimic_extract import load_mimic_extract

STAY = ["subject_id", "hadm_id", "icustay_id"]
NAMES = [*mimic_extract.MIMIC_VARIABLES, "heart rate variability"]


def make_tables(n_stays=40, n_hours=36, seed=0):
    """Tables `vitals_labs` and `patients`, with two stays of every subject."""
    rng = np.random.default_rng(seed)
    subjects = np.arange(n_stays) // 2 + 1
    stays = pd.MultiIndex.from_arrays(
        [subjects, np.arange(n_stays) + 5000, np.arange(n_stays) + 90000], names=STAY
    )
    rows = pd.MultiIndex.from_tuples(
        [(*stay, hour) for stay in stays for hour in range(n_hours)], names=[*STAY, "hours_in"]
    )
    columns = pd.MultiIndex.from_product(
        [NAMES, ["count", "mean", "std"]], names=["LEVEL2", "Aggregation Function"]
    )
    vitals = pd.DataFrame(rng.normal(size=(len(rows), len(columns))), rows, columns)
    counts = rng.poisson(0.5, (len(rows), len(NAMES))).astype(float)
    vitals.loc[:, pd.IndexSlice[:, "count"]] = counts
    means = vitals.loc[:, pd.IndexSlice[:, "mean"]].to_numpy()
    vitals.loc[:, pd.IndexSlice[:, "mean"]] = np.where(counts > 0, means, np.nan)
    patients = pd.DataFrame(
        {
            "gender": rng.choice(["F", "M"], n_stays),
            "age": rng.uniform(16, 90, n_stays),
            "mort_hosp": rng.integers(0, 2, n_stays),
            "max_hours": np.where(np.arange(n_stays) == 3, 30, 31 + np.arange(n_stays)),
        },
        index=stays,
    )
    return {"vitals_labs": vitals.sort_index(axis=1), "patients": patients}


@pytest.fixture
def tables():
    return make_tables()


@pytest.fixture
def load(tables, tmp_path, monkeypatch):
    """Load `tables` as if they were the content of a file."""
    path = tmp_path / "all_hourly_data.h5"
    path.touch()
    monkeypatch.setattr(mimic_extract, "_read_tables", lambda _: tables)
    return lambda random_state=0: load_mimic_extract(path, random_state=random_state)


def test_first_day_of_stays_over_thirty_hours(load, tables):
    data = load()
    patients = tables["patients"]
    ids = patients.index.get_level_values("icustay_id")
    assert_array_equal(data.panel.ids, ids[patients["max_hours"] > 30])
    assert len(data.panel) == 39
    assert_array_equal(data.y, patients["mort_hosp"][patients["max_hours"] > 30])
    assert data.panel.channel_names == mimic_extract.MIMIC_VARIABLES
    assert set(data.panel.times) == set(range(24))


def test_values_are_the_means_of_hours_with_a_measurement(load, tables):
    data = load()
    for stay, series in zip(data.panel.ids[:5], data.panel, strict=False):
        table = tables["vitals_labs"].xs(stay, level="icustay_id")
        hours = table.index.get_level_values("hours_in")
        for row, time in enumerate(series.times):
            cells = table[hours == time].iloc[0]
            for channel, name in enumerate(mimic_extract.MIMIC_VARIABLES):
                expected = cells[name, "mean"] if cells[name, "count"] > 0 else np.nan
                assert_array_equal(series.values[row, channel], expected)


def test_a_mean_without_count_is_not_observed(load, tables):
    vitals = tables["vitals_labs"]
    clean = load().panel
    never = vitals[("glucose", "count")] == 0
    vitals.loc[never, ("glucose", "mean")] = 99.0
    assert_array_equal(load().panel.values, clean.values)


def test_order_of_rows_does_not_matter(load, tables):
    before = load()
    tables["vitals_labs"] = tables["vitals_labs"].sample(frac=1, random_state=0)
    tables["patients"] = tables["patients"].sample(frac=1, random_state=1)
    after = load()
    assert after.panel.equals(before.panel)
    assert_array_equal(after.y, before.y)
    assert_array_equal(after.split, before.split)


def test_stays_without_observation_are_left_out(load, tables):
    vitals = tables["vitals_labs"]
    first = vitals.index.get_level_values("icustay_id") == 90000
    vitals.loc[first, pd.IndexSlice[:, "count"]] = 0.0
    data = load()
    assert 90000 not in set(data.panel.ids)
    assert len(data.panel) == len(data.y) == len(data.groups) == len(data.split) == 38


def test_subjects_are_split_seventy_ten_twenty(load):
    data = load()
    parts = {part: set(data.groups[data.split == part]) for part in set(data.split)}
    assert {part: len(members) for part, members in parts.items()} == {
        "train": 14,
        "validation": 2,
        "test": 4,
    }
    assert not parts["train"] & parts["test"]
    assert not parts["validation"] & (parts["train"] | parts["test"])
    assert_array_equal(load(0).split, data.split)
    assert not np.array_equal(load(1).split, data.split)


def test_center_and_scale_are_those_of_the_training_part(load):
    data = load()
    train = data.panel[data.split == "train"].values
    assert_allclose(data.center, np.nanmean(train, axis=0))
    assert_allclose(data.scale, np.nanstd(train, axis=0))


def test_variable_that_training_never_sees_has_no_scale(load, tables):
    tables["vitals_labs"].loc[:, ("creatinine", "count")] = 0.0
    data = load()
    assert np.isnan([data.center[-1], data.scale[-1]]).all()
    assert np.isfinite(data.scale[:-1]).all()


def drop_variable(tables):
    tables["vitals_labs"] = tables["vitals_labs"].drop(columns=[("glucose", "mean")])


def ungroup(tables):
    vitals = tables["vitals_labs"]
    levels = [["51"] * vitals.shape[1], *map(list, zip(*vitals.columns, strict=True))]
    tables["vitals_labs"] = vitals.set_axis(pd.MultiIndex.from_arrays(levels), axis=1)


def drop_hours(tables):
    tables["vitals_labs"] = tables["vitals_labs"].droplevel("hours_in")


def drop_label(tables):
    tables["patients"] = tables["patients"].drop(columns="mort_hosp")


def spoil_label(tables):
    tables["patients"].loc[:, "mort_hosp"] = 2


def repeat_stay(tables):
    tables["patients"] = pd.concat([tables["patients"]] * 2)


def drop_measurements(tables):
    tables["vitals_labs"] = tables["vitals_labs"].iloc[:0]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (drop_variable, r"'vitals_labs' lacks the columns \[\('glucose', 'mean'\)\]"),
        (ungroup, "two levels LEVEL2 and aggregation, got 3: run MIMIC-Extract with grouping"),
        (drop_hours, r"'vitals_labs' must be indexed by .*'hours_in'\], got \['subject_id'"),
        (drop_label, r"'patients' lacks the columns \['mort_hosp'\]; it has \['gender'"),
        (spoil_label, "'mort_hosp' of table 'patients' must hold 0 and 1 only"),
        (repeat_stay, "must have one row for each stay, got repeated stays"),
        (drop_measurements, "no stay of more than 30 hours has a measurement"),
    ],
)
def test_wrong_schema(load, tables, spoil, message):
    spoil(tables)
    with pytest.raises(ValueError, match=message):
        load()


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*nothing\.h5': pass the path of"):
        load_mimic_extract(tmp_path / "nothing.h5")


def test_without_pytables(tmp_path, monkeypatch):
    path = tmp_path / "all_hourly_data.h5"
    path.touch()
    monkeypatch.setitem(sys.modules, "tables", None)
    monkeypatch.setitem(sys.modules, "tables.exceptions", None)
    with pytest.raises(ImportError, match=r"needs PyTables, .*: pip install tables"):
        load_mimic_extract(path)


def write_hdf(path, tables):
    with warnings.catch_warnings():
        # "Aggregation Function", a name that the schema prescribes, is no Python name.
        warnings.simplefilter("ignore")
        for name, table in tables.items():
            table.to_hdf(path, key=name)


class TestFile:
    """The same through a real HDF5 file."""

    @pytest.fixture
    def path(self, tables, tmp_path):
        pytest.importorskip("tables", reason="PyTables is optional")
        path = tmp_path / "all_hourly_data.h5"
        write_hdf(path, tables)
        return path

    def test_same_as_the_tables(self, path, load):
        data, expected = load_mimic_extract(str(path), random_state=0), load()
        assert data.panel.equals(expected.panel)
        assert_array_equal(data.y, expected.y)

    def test_missing_table(self, path, tables):
        path.unlink()
        write_hdf(path, {"vitals_labs_mean": tables["vitals_labs"]})
        with pytest.raises(ValueError, match=r"lacks the tables \['vitals_labs', 'patients'\]; it"):
            load_mimic_extract(path)

    @pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
    def test_truncated(self, path, kept):
        content = path.read_bytes()
        path.write_bytes(content[: int(kept * len(content))])
        with pytest.raises(ValueError, match="is not a readable HDF5 file; is it truncated"):
            load_mimic_extract(path)

    def test_no_hdf5(self, path):
        path.write_text("subject_id,hadm_id\n1,2\n")
        with pytest.raises(ValueError, match="is not a readable HDF5 file"):
            load_mimic_extract(path)
