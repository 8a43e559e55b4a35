"""The tables of the paper: cells on tiny data, resuming, and what is written down."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import skpolyode.transformers
from benchmarks.paper import runner
from benchmarks.paper.beside import beside_paths, beside_the_paper, compared
from benchmarks.paper.cells import QUICK, Cell, Setting, Size, cells, settings, with_clock
from benchmarks.paper.metrics import HORIZONS
from benchmarks.paper.mimic_cells import MimicCell
from benchmarks.paper.rows import all_rows
from benchmarks.paper.simple import ChannelMean, LastValue
from benchmarks.paper.store import Store
from benchmarks.paper.tables import Number, published, setting_tables, summarise
from benchmarks.paper.truth import with_truth
from skpolyode.datasets import make_lorenz96
from skpolyode.panel import Panel
from skpolyode.siblings import PastDecoder
from skpolyode.transformers.base import SeriesTransformer
from skpolyode.transformers.neural import NeuralTransformer
from tests.benchmarks.test_mimic_extract import make_tables, write_hdf
from tests.quick import no_stacking
from tests.transformers.registry import all_transformers

LIMITS = {"max_epochs": 1, "n_coefficients": 4, "hidden_size": 4}
TINY = Size(n_series=20, n_seeds=1, n_rates=1, limits=LIMITS)
LORENZ96 = Setting("Lorenz96", 0.3, "independent")


def forecasts(name):
    """Whether a row forecasts: that of a neural model, or of a baseline without features."""
    kind = all_rows()[name].kind
    return issubclass(kind, NeuralTransformer) or not issubclass(kind, SeriesTransformer)


ROWS = [
    pytest.param(name, marks=pytest.mark.slow) if row.is_sibling and name != "ODERNN" else name
    for name, row in all_rows().items()
]


@pytest.mark.parametrize("name", ROWS)
def test_cell_of_every_row(name):
    with nullcontext() if name == "PolyODE" else no_stacking():  # the same for all rows
        results = Cell(LORENZ96, name, 0, TINY).run()
    expected = {"fit_seconds", "auc", "label_regression_mse"}
    kind = all_rows()[name].kind
    if getattr(kind, "has_coefficients", True) or forecasts(name):
        expected |= {"reverse_observed_mse", "reverse_held_out_mse"}
    if all_rows()[name].has_field:
        expected |= {"reverse_backward_mse"}
    if forecasts(name):
        expected |= {"forecasting_mse", *(f"forecast_{end}_mse" for end in HORIZONS)}
    if issubclass(kind, NeuralTransformer):
        expected |= {f"free_run_{end}_mse" for end in HORIZONS}
    assert {metric for metric in results if "median" not in metric} == expected
    assert np.isfinite(list(results.values())).all()


def test_every_public_transformer_has_a_row():
    kinds = {row.kind for row in all_rows().values()}
    public = {type(transformer) for transformer in all_transformers().values()} - {PastDecoder}
    assert {kind for kind in public if kind.__name__ in skpolyode.__all__} <= kinds


def test_cells_of_equal_seeds_are_equal_and_of_others_differ():
    first, again, other = (Cell(LORENZ96, "last value", seed, TINY).run() for seed in (0, 0, 1))
    assert first["reverse_held_out_mse"] == again["reverse_held_out_mse"]
    assert first["reverse_held_out_mse"] != other["reverse_held_out_mse"]


def test_truth_is_seen_between_the_first_and_the_last_observation():
    data = make_lorenz96(6, protocol="paper-code", random_state=0)
    seen = with_truth(data)
    assert_array_equal(seen.panel.channel_names, data.panel.channel_names)
    for i, (series, all_times) in enumerate(zip(data.panel, seen.panel, strict=True)):
        grid = data.truth.times
        assert_array_equal(all_times.times, grid[grid >= series.times[0]])
        assert_array_equal(all_times.values, data.truth.values[i, grid >= series.times[0], :-1])


def test_clock_is_told_where_series_do_not_end_together():
    panels = [
        make_lorenz96(6, protocol=protocol, random_state=0).panel
        for protocol in ("paper-code", "independent")
    ]
    together, apart = (with_clock(np.zeros((6, 1)), panel) for panel in panels)
    assert together.shape == (6, 1)
    order = np.argsort([series.times[-1] for series in panels[1]])
    assert (np.diff(apart[order, 1]) > 0).all()
    assert_allclose([apart[:, 1].mean(), apart[:, 1].std()], [0, 1], atol=1e-12)


def test_table_is_complete_for_one_seed_before_the_next():
    size = QUICK._replace(n_seeds=2)
    table = list(cells(size, settings(size), ["mean", "PolyODE"]))
    assert len(table) == len(set(map(repr, table))) == 2 * 3 * 2 * 2
    assert [cell.seed for cell in table] == [0] * 12 + [1] * 12


def test_siblings_may_have_fewer_seeds():
    size = QUICK._replace(n_seeds=2, n_sibling_seeds=1)
    table = list(cells(size, [LORENZ96], ["mean", "PolyODE", "S4"]))
    assert [cell.row for cell in table if cell.seed] == ["mean", "PolyODE"]
    assert len(table) == 3 + 2


@pytest.mark.parametrize(("largest", "best"), [(False, "a"), (True, "b")])
def test_the_best_of_each_setting_is_bold(largest, best):
    summary = {
        (LORENZ96, row, "auc"): Number(x) for row, x in (("a", 0.81), ("b", 0.9), ("c", np.nan))
    }
    entries = {"a": "0.8", "b": "0.9"}
    entries[best] = f"**{entries[best]}**"
    row = compared(summary, [LORENZ96], ["a", "b", "c"], "auc", 1, largest)[-1]
    assert row == f"| Lorenz96, 0.3, independent | {entries['a']} | {entries['b']} |  |"


PANEL = Panel.from_series(
    [([0, 1, 2], [[1, np.nan], [np.nan, 2], [4, 6]]), ([0, 5], [[3, np.nan], [5, np.nan]])]
)


def test_last_value():
    model = LastValue().fit(PANEL)
    assert_array_equal(model.forecast(PANEL, [7]).values, [[4, 6], [5, 4]])
    assert_array_equal(model.reconstruct(PANEL, [0, 1]).values, [[4, 6], [4, 6], [5, 4], [5, 4]])
    # From 1 to 4 and from 3 to 5; from the second channel's mean, 4, to 2, and from there to 6.
    model.scale_[:] = 1
    assert_allclose(model.score(PANEL), -(9 + 4 + 4 + 16) / 4)


def test_mean_of_the_channel():
    model = ChannelMean().fit(PANEL)
    assert_array_equal(model.forecast(PANEL, [7]).values, [[3.25, 4], [3.25, 4]])
    assert_array_equal(model.transform(PANEL), 0)


@dataclass
class Counted:
    """A job that notes that it ran."""

    row: str
    ran: list
    setting: Setting = LORENZ96

    def settings(self):
        return {"row": self.row}

    def run(self):
        self.ran.append(self.row)
        if self.row == "fails":
            raise ValueError("on purpose")
        return {"auc": 0.5}


def test_run_resumes_and_tries_again_what_failed(tmp_path):
    ran = []
    jobs = [Counted(row, ran) for row in ("a", "fails", "b")]
    failures = runner.run(jobs, Store(tmp_path / "cells.jsonl"), n_jobs=1)
    assert ran == ["a", "fails", "b"]
    assert len(failures) == 1
    assert "ValueError: on purpose" in failures[0]
    runner.run(jobs, Store(tmp_path / "cells.jsonl"), n_jobs=1)
    assert ran == ["a", "fails", "b", "fails"]


def test_a_table_is_printed_with_what_failed(tmp_path, capsys):
    arguments = argparse.Namespace(jobs=1, output=tmp_path)
    jobs = [Counted("a", [])]
    runner.make_table(jobs, lambda store: [f"{len(store.results)} number"], arguments)
    assert capsys.readouterr().out == "1 number\n"
    with pytest.raises(SystemExit, match=r"these cells failed.*\n.*on purpose"):
        runner.make_table([Counted("fails", [])], lambda store: [], arguments)


def test_store_survives_a_line_that_was_cut_short(tmp_path, monkeypatch):
    path = tmp_path / "folder" / "cells.jsonl"
    for seed in range(2):
        Store(path).add({"seed": seed}, {"auc": float(seed)})
    path.write_text(path.read_text()[:-5])
    store = Store(path)
    assert store.get({"seed": 0}) == {"auc": 0.0}
    assert store.get({"seed": 1}) is None
    store.add({"seed": 1}, {"auc": 0.7})
    assert Store(path).get({"seed": 1}) == {"auc": 0.7}
    monkeypatch.setattr("skpolyode.__version__", "9.9")
    assert Store(path).get({"seed": 0}) is None


def test_other_parameters_are_another_cell():
    cell, shorter = (
        Cell(LORENZ96, "PolyODE", 0, size)
        for size in (TINY, TINY._replace(limits={"max_epochs": 2}))
    )
    assert cell.settings() != shorter.settings()
    assert cell.settings()["parameters"]["max_epochs"] == "1"


def test_published_numbers():
    assert published("Lorenz63", 0.3, "PolyODE", "auc") == (0.992, 0.0)
    assert published("Lorenz96", 0.5, "Interpolation linear", "label_regression_mse").mean == 0.351
    assert published("Synthetic", 0.9, "HiPPORNN", "auc").mean > 0
    assert published("Lorenz63", 0.3, "NeuralRDE", "auc").mean == 0.604
    assert published("Lorenz63", 0.3, "S4", "auc").mean == 0.911
    assert np.isnan(published("Lorenz63", 0.3, "S4 with memory", "auc").mean)
    assert published("Synthetic", 0.9, "GRUODEBayes", "auc").mean == 0.976
    assert published("MIMIC-III", None, "HiPPO legt", "reverse_observed_mse").mean == 0.775
    assert np.isnan(published("Lorenz63", 0.3, "SummaryStats", "auc").mean)


def test_table_shows_means_deviations_and_the_paper(tmp_path):
    setting = Setting("Lorenz63", 0.3, "paper-code")
    store = Store(tmp_path / "cells.jsonl")
    jobs = [Cell(setting, "PolyODE", seed, TINY) for seed in range(2)]
    for job, auc in zip(jobs, (0.98, 1.0), strict=True):
        store.add(job.settings(), {"auc": auc, "label_regression_mse": 0.01})
    lines = setting_tables(summarise(jobs, store), [setting], ["PolyODE"])
    assert lines[0] == "<details><summary>Lorenz63, rate 0.3, paper-code</summary>"
    assert lines[-2] == "</details>"
    row = next(line for line in lines if line.startswith("| PolyODE"))
    assert row == (
        "| PolyODE | 0.990 ± 0.014 | 0.0100 ± 0.0000 |  |  | 0.992 ± 0.000 | 0.034 ± 0.008 |"
    )


def test_polyode_beside_the_paper():
    setting = Setting("Lorenz63", 0.3, "paper-code")
    numbers = {"auc": 0.9916, "label_regression_mse": 0.017, "fit_seconds": 59.0}
    summary = {(setting, "PolyODE", metric): Number(x) for metric, x in numbers.items()}
    row = beside_the_paper(summary, [setting])[-1]
    assert row.startswith("| Lorenz63, 0.3 | 0.992 ± 0.000 | 0.992 |  | 0.0340 ± 0.0080 | 0.0170 |")
    assert row.endswith("| 0.50 | 59 |")


def test_polyode_beside_the_best_interpolation():
    errors = {"PolyODE": 0.01, "Interpolation cubic": 0.2, "Interpolation linear": 0.3}
    summary = {
        (LORENZ96, row, "reverse_held_out_mse"): Number(value) for row, value in errors.items()
    }
    entry = beside_paths(summary, [LORENZ96], list(errors))[-1]
    assert entry == "| Lorenz96, 0.3 | cubic | 0.2000 | 0.0100 | 20.0 |"


@pytest.fixture(scope="module")
def mimic_file(tmp_path_factory):
    """A file in the schema of MIMIC-Extract, with noise for values."""
    path = tmp_path_factory.mktemp("mimic") / "all_hourly_data.h5"
    write_hdf(path, make_tables(n_stays=80))
    return str(path)


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize("name", ["last value", "PolyODE", "Interpolation linear"])
def test_cell_of_mimic(mimic_file, name):
    results = MimicCell(mimic_file, name, 0, None, TINY.limits).run()
    assert np.isfinite(list(results.values())).all()
    assert ("forecast_mse" in results) == forecasts(name)
    assert 0.5 < results["reverse_held_out_mse"] < 5


def test_mean_has_the_error_of_noise_on_mimic(mimic_file):
    results = MimicCell(mimic_file, "mean", 0, None, {}).run()
    for metric in ("reverse_observed_mse", "reverse_held_out_mse", "forecast_mse"):
        assert_allclose(results[metric], 1.0, atol=0.1)
