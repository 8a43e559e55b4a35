"""The benchmark of questions to paths asks what it says, and its Kalman filter is one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from benchmarks import path_questions
from benchmarks.path_questions import LocalLine, drawn, first_rows, hide_stretches, true_means


def test_the_local_line_has_the_slopes_of_a_line_and_ignores_small_noise():
    t, rng = np.linspace(0, 5, 12), np.random.default_rng(0)
    series = [(t, 2 * t + 1 + 0.01 * rng.standard_normal(12)) for _ in range(3)]
    line = LocalLine().fit(series)
    assert_allclose(line.slopes(*series[0], np.array([0.0, 2.3, 5.0])), 2.0, atol=0.05)


def test_slopes_of_the_local_line_are_derivatives_of_its_mean():
    t, rng = np.sort(np.random.default_rng(1).uniform(0, 5, 10)), np.random.default_rng(2)
    x, line = rng.standard_normal(10), LocalLine()
    line.q, line.r = 2.0, 0.1

    def mean(at: float) -> float:
        both = np.append(t - t[0], at - t[0])
        cross = line._covariance(both, line.q, 0.0)[-1, :-1]
        return cross @ np.linalg.solve(line._covariance(t - t[0], line.q, line.r), x)

    for at in (t[0] + 0.3, 2.2, t[-1] - 0.1):
        between = (mean(at + 1e-5) - mean(at - 1e-5)) / 2e-5
        assert_allclose(line.slopes(t, x, np.array([at]))[0], between, rtol=1e-5, atol=1e-5)


def test_windows_begin_and_end_at_rows_that_are_known_and_truth_is_denser():
    rng = np.random.default_rng(0)
    whole, dense = drawn("walk with drift", 3, rng)
    known = hide_stretches(first_rows(whole, 40), rng)
    assert (known.lengths < 40).all()
    truth, start, end = true_means(whole, dense, 10, 30)
    assert np.isin(start, known.times).all()
    assert np.isin(end, known.times).all()
    t, own = dense[0][0], slice(10, 31)
    rows = np.trapezoid(whole.values[own, 0], whole.times[own]) / (end[0] - start[0])
    assert len(t) == 60 * 16
    assert truth[0] != rows
    assert abs(truth[0] - rows) < 1.0


@pytest.mark.slow
def test_program_prints_every_part(tmp_path, monkeypatch, capsys):
    rng, rows = np.random.default_rng(0), []
    for k in range(12):
        times = np.sort(rng.uniform(0, 10, 14))
        rows += [(k, t, "x", t + rng.normal()) for t in times]
    table = pd.DataFrame(rows, columns=["id", "time", "channel", "value"])
    table.to_parquet(tmp_path / "aneurysm.parquet")
    monkeypatch.setattr(path_questions, "LONGITUDINAL", {"aneurysm": 1.0})
    parts = ["--parts", "processes", "slopes", "years", "--data", str(tmp_path), "--quick"]
    monkeypatch.setattr("sys.argv", ["path_questions", *parts])
    path_questions.main()
    printed = capsys.readouterr().out
    for window in ("past", "ahead", "both"):
        assert f"| seasonal | 6 | {window} |" in printed
    for where in ("middle", "end"):
        assert f"| lorenz63 | 0.1, close rows | {where} |" in printed
    assert "| aneurysm | " in printed
