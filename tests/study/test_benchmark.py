"""The study of solvers: eigenvalues, limits, and its table on a few series."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from skpolyode.memory import legt_matrices

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("solvers")


def test_poles_of_the_delay_are_the_eigenvalues_of_the_memory(study):
    for size in (1, 4, 9):
        exact, double = study.eigenvalues(size), np.linalg.eigvals(legt_matrices(size)[0])
        np.testing.assert_allclose(abs(exact[:, None] - double).min(axis=1), 0, atol=1e-9)


def test_step_limits(study):
    """Those of 8 coefficients, worked out independently; of one, -1, they are known."""
    values = study.eigenvalues(8)
    assert study.limit("euler", values) == pytest.approx(0.05638, rel=1e-3)
    assert study.limit("rk4", values) == pytest.approx(0.21309, rel=1e-3)
    decay = np.array([-1.0])
    limits = [study.limit(name, decay) for name in ("euler", "rk4", "adams_moulton")]
    np.testing.assert_allclose(limits, [2.0, 2.785, 90 / 49], rtol=1e-3)


def test_the_signal_of_the_memory_study_is_a_cosine(study):
    rows = {row["solver"]: row for row in study.memory(steps=(0.05,), n_gaps=4)}
    ends = {name: float(row["h = 0.05"].split(" / ")[0]) for name, row in rows.items()}
    assert ends["dopri5"] < ends["rk4"] < ends["backward_euler"] < ends["euler"]


def test_quick_study_writes_what_it_prints(study, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(study, "QUICK", study.Scale(6, 4, 1, (4, 8)))
    monkeypatch.setattr(study, "RUNS", [("exact", "auto"), ("euler", 0.05), ("rk4", 0.05)])
    monkeypatch.setattr(study, "memory", lambda: [{"solver": "rk4"}])
    monkeypatch.setattr("sys.argv", ["solvers.py", "--quick", "--output", str(tmp_path)])
    study.main()
    results = json.loads((tmp_path / "solvers.json").read_text("utf-8"))
    assert [row["forecasting MSE"] == "diverges" for row in results["table"]] == [0, 1, 0]
    assert results["table"][1]["published MSE"] == "1519 ± 633"
    assert (tmp_path / "solvers_spectrum.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert study.markdown(results["table"]) in printed
    assert study.markdown(results["spectrum"]) in printed
