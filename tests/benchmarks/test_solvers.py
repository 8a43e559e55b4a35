"""The study of solvers: eigenvalues, limits, and its table on a few series."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.paper import solvers
from skpolyode.memory import legt_matrices


def test_poles_of_the_delay_are_the_eigenvalues_of_the_memory():
    for size in (1, 4, 9):
        exact, double = solvers.eigenvalues(size), np.linalg.eigvals(legt_matrices(size)[0])
        np.testing.assert_allclose(abs(exact[:, None] - double).min(axis=1), 0, atol=1e-9)


def test_step_limits():
    """Those of 8 coefficients, worked out independently; of one, -1, they are known."""
    values = solvers.eigenvalues(8)
    assert solvers.limit("euler", values) == pytest.approx(0.05638, rel=1e-3)
    assert solvers.limit("rk4", values) == pytest.approx(0.21309, rel=1e-3)
    decay = np.array([-1.0])
    limits = [solvers.limit(name, decay) for name in ("euler", "rk4", "adams_moulton")]
    np.testing.assert_allclose(limits, [2.0, 2.785, 90 / 49], rtol=1e-3)


def test_the_signal_of_the_memory_study_is_a_cosine():
    rows = {row["solver"]: row for row in solvers.memory(steps=(0.05,), n_gaps=4)}
    ends = {name: float(row["h = 0.05"].split(" / ")[0]) for name, row in rows.items()}
    assert ends["dopri5"] < ends["rk4"] < ends["backward_euler"] < ends["euler"]


@pytest.mark.slow
def test_quick_study_writes_what_it_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(solvers, "QUICK", solvers.Scale(6, 4, 1, (4, 8)))
    monkeypatch.setattr(solvers, "RUNS", [("exact", "auto"), ("euler", 0.05), ("rk4", 0.05)])
    monkeypatch.setattr(solvers, "memory", lambda: [{"solver": "rk4"}])
    monkeypatch.setattr("sys.argv", ["solvers.py", "--quick", "--output", str(tmp_path)])
    solvers.main()
    results = json.loads((tmp_path / "solvers.json").read_text("utf-8"))
    assert [row["forecasting MSE"] == "diverges" for row in results["table"]] == [0, 1, 0]
    assert results["table"][1]["published MSE"] == "1519 ± 633"
    assert (tmp_path / "solvers_spectrum.png").stat().st_size > 10_000
    printed = capsys.readouterr().out
    assert solvers.markdown(results["table"]) in printed
    assert solvers.markdown(results["spectrum"]) in printed
