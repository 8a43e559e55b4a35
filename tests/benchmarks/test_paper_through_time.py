"""The past by running dynamics backward, and forecasts over a horizon."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.linalg import expm

from benchmarks.paper import through_time
from benchmarks.paper.backward import LARGEST, Backward, run_back
from benchmarks.paper.cells import Cell, Setting, Size
from benchmarks.paper.metrics import horizon_metrics, past_metrics
from benchmarks.paper.printed import TABLES, table
from benchmarks.paper.simple import LastValue
from benchmarks.paper.tables import Number
from skpolyode import ODERNNTransformer
from skpolyode.datasets import make_lorenz63

A = np.array([[-0.3, 2.0], [-2.0, 0.1]])
SERIES, AGES = np.array([0, 0, 0, 1]), np.array([1.5, 0.0, 0.4, 2.3])  # in any order


def field(z: torch.Tensor) -> torch.Tensor:
    return z @ torch.from_numpy(A.T)


def test_exact_dynamics_lead_back_to_the_past() -> None:
    now = np.array([[1.0, -2.0], [0.5, 0.25]])
    found = run_back(field, torch.from_numpy(now), SERIES, AGES, step_size=0.02)
    past = [expm(-A * age) @ now[i] for i, age in zip(SERIES, AGES, strict=True)]
    assert_allclose(found, past, rtol=0, atol=1e-6)


@pytest.fixture(scope="module")
def data():
    return make_lorenz63(24, protocol="independent", random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return ODERNNTransformer(hidden_size=6, max_epochs=1, random_state=0).fit(data.panel[:20])


def test_a_model_is_read_on_the_way_back(model, data) -> None:
    panel = data.panel[[21, 22]]
    end = panel.end
    unit, inner = model.embedder_.units.time_scale, model.embedder_.exact
    now = model.transform(panel)
    times = [[end[0] - unit, end[0]], [end[1] - 2 * unit]]
    found = Backward(model).reconstruct(panel, times).values
    with torch.no_grad():
        way = run_back(
            inner.field, torch.from_numpy(now), np.array([0, 1]), np.array([1, 2.0]), 0.1
        )
        read = inner.readout(torch.cat([way[:1], torch.from_numpy(now[:1]), way[1:]])).numpy()
    assert_allclose(found, model.scaler_.inverse(read), rtol=0, atol=1e-4)


def test_a_run_that_leaves_all_bounds_is_cut_off(model, data, monkeypatch) -> None:
    lost = torch.full((1, 6), torch.nan, dtype=torch.float64)
    monkeypatch.setattr("benchmarks.paper.backward.run_back", lambda *_: lost)
    panel = data.panel[[21]]
    found = Backward(model).reconstruct(panel, panel.end - 1.0).values
    assert_allclose(found, [model.scaler_.inverse(np.full(2, LARGEST))])


class Truth:
    """Knows the test series, but for an error in the first channel; forecasts likewise."""

    def __init__(self, data, error: float) -> None:
        self.data, self.shift = data, np.array([error, 0.0])
        self.rows = {own: i for i, own in enumerate(data.panel.ids)}

    def reconstruct(self, X, times):
        grid, rows = self.data.truth.times, [self.rows[own] for own in X.ids]
        times = times if isinstance(times, list) else [times] * len(rows)
        values = [
            self.data.truth.values[i][np.searchsorted(grid, own)][:, self.data.truth.observed]
            for i, own in zip(rows, times, strict=True)
        ]
        counts = np.append(0, np.cumsum([len(own) for own in times]))
        return X.like(np.concatenate(times), np.concatenate(values) + self.shift, counts)

    forecast = reconstruct


def test_errors_are_in_units_of_the_variance(data) -> None:
    scale = data.panel.values.std(axis=0)
    for error in (0.0, 0.5):
        expected = (error / scale[0]) ** 2 / 2  # of two channels
        past = past_metrics(Truth(data, error), data, "past")
        assert len(past) == 7
        assert_allclose([*past.values()], expected, atol=1e-12)
        ahead = horizon_metrics(Truth(data, error), data)
        assert_allclose([ahead[f"forecast_{end}_mse"] for end in (1, 2, 5)], expected, atol=1e-12)


def test_a_horizon_starts_at_the_condition(data) -> None:
    model = LastValue().fit(data.panel)
    test, grid, scale = np.asarray(data.split) == "test", data.truth.times, model.scale_
    squares = []
    for series, states in zip(data.panel[test], data.truth.values[test], strict=True):
        last = series.values[series.times <= 5.0][-1]
        squares.append((states[(grid > 5) & (grid <= 6)][:, data.truth.observed] - last) / scale)
    found = horizon_metrics(model, data)
    assert_allclose(found["forecast_1_mse"], np.mean(np.square(squares)))
    assert "free_run_1_mse" not in found


def test_the_table_has_a_row_for_each_reading() -> None:
    setting = Setting("Lorenz63", 0.3, "paper-code")
    readings = {"PolyODE": ("reverse_held_out", "reverse_backward")}
    readings |= {"ODERNN": readings["PolyODE"]}
    readings |= dict.fromkeys(through_time.DECODED, ("reverse_held_out",))
    summary = {
        (setting, row, f"{name}_median_5"): Number(0.1)
        for row, names in readings.items()
        for name in names
    }
    summary |= {
        (setting, "ODERNN", "reverse_backward_median_5"): Number(3.25e7),
        (setting, "PolyODE", "reverse_held_out_median_1"): Number(0.002),
        (setting, "S4", "reverse_held_out_median_1"): Number(0.5),  # which has no field
    }
    lines = through_time.past(summary, [setting], through_time.ROWS)[2:]
    assert [line.split(" | ")[1:3] for line in lines] == [
        ["PolyODE", "memory"],
        ["PolyODE", "running backward"],
        ["PolyODE state", "PastDecoder"],
        ["PolyODE decoded", "PastDecoder"],
        ["ODERNN", "PastDecoder"],
        ["ODERNN", "running backward"],
    ]
    assert "| 0.002 |" in lines[0]
    assert "| 3e+07 |" in lines[-1]
    assert [*map(through_time.short, (0.00123, 3.25, 250.4))] == ["0.0012", "3.2", "250"]
    rows = "PolyODE", *through_time.DECODED
    ahead = {(setting, row, "forecast_2_mse"): Number(0.25) for row in rows}
    assert through_time.ahead(ahead, setting, through_time.ROWS)[2:] == [
        "| PolyODE |  | 0.250 |  |  |  |  |"
    ]


def test_printed_tables_have_ours_then_theirs() -> None:
    settings = [Setting("Synthetic", 0.7, "paper-code"), Setting("Lorenz63", 0.3, "paper-code")]
    summary = {(settings[1], "PolyODE", "auc"): Number(0.9934, 0.001)}
    lines = table(summary, settings, TABLES["Table 3: interpolations"])
    assert [line.split(" | ")[0] for line in lines[2:]] == [
        *("| Constant", "| Linear", "| Hermite Spline", "| PolyODE"),
    ]
    assert lines[-1].split(" | ")[2] == "0.993 ± 0.001 (0.992 ± 0.000)"
    assert lines[2].split(" | ")[4].startswith("(0.785 ± 0.074)")


@pytest.mark.usefixtures("no_stacking")
def test_cells_have_what_the_tables_show() -> None:
    limits = {"max_epochs": 1, "n_coefficients": 4, "hidden_size": 4}
    tiny = Size(n_series=24, n_seeds=1, n_rates=1, limits=limits)
    results = Cell(Setting("Lorenz96", 0.3, "independent"), "PolyODE", 0, tiny).run()
    for name in ("reverse_held_out_median_1", "reverse_backward_mse", "free_run_5_mse"):
        assert np.isfinite(results[name])
