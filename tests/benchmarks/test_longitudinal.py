"""The benchmark on longitudinal sets asks, chooses, predicts and prints as it says."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks import longitudinal
from benchmarks.longitudinal import Growth, best_rule, error_table, folds_of, powers, rest
from benchmarks.real.questions import one_step
from skpolyode import Panel


def children(n_series: int, noise: float = 0.1) -> Panel:
    """Lines with levels and slopes of their own, on a shared schedule; some cells are missing."""
    rng = np.random.default_rng(0)
    times = np.arange(6.0)
    series = []
    for _ in range(n_series):
        values = np.array([5.0, 1.0]) * rng.normal(size=2) + times[:, None] * rng.normal(1, 0.5, 2)
        values += noise * rng.normal(size=values.shape)
        values[rng.integers(1, 6), 1] = np.nan
        series.append((times, values))
    return Panel.from_series(series)


def write(panel: Panel, file) -> None:
    frames = [
        pd.DataFrame(values, columns=["height", "mass"]).assign(time=times, id=f"child{k}")
        for k, (times, values) in enumerate(panel)
    ]
    wide = pd.concat(frames)
    wide.melt(["id", "time"], var_name="channel").dropna().to_parquet(file)


def test_the_rest_is_asked_from_the_middle():
    lengths = [1, 2, 3, 6]
    times = np.concatenate([np.arange(n) for n in lengths]).astype(float)
    panel = Panel(times, times[:, None], np.append(0, np.cumsum(lengths)))
    questions = rest(panel)
    assert_array_equal(questions.origin, [1, 3, 3, 8, 8, 8])
    assert_array_equal(questions.target, [2, 4, 5, 9, 10, 11])


def test_folds_of_few_series(tmp_path):
    write(children(4), tmp_path / "few.parquet")
    folds = list(folds_of("few", tmp_path, 5))
    assert [fold.train.n_series for fold in folds] == [3] * 4
    assert sorted(fold.test.ids[0] for fold in folds) == [f"child{k}" for k in range(4)]
    assert len(list(folds_of("few", tmp_path, 2))) == 2
    write(children(2), tmp_path / "few.parquet")
    with pytest.raises(ValueError, match="few has 2 series"):
        folds_of("few", tmp_path, 5)


def test_the_best_rule_is_that_of_the_training_part():
    lines, flat = (Panel.from_series([(np.arange(5.0), x)]) for x in (np.arange(5.0), np.ones(5)))
    noisy = flat.like(flat.times, np.array([[4.0], [-4], [4], [-4], [4]]), flat.offsets)
    assert_allclose(best_rule(one_step(lines), one_step(lines))[1:, 0], [2, 3, 4])
    assert_allclose(best_rule(one_step(noisy), one_step(lines))[:, 0], 0.0)


def test_prediction_of_a_growth_is_that_of_the_joint_normal():
    panel, channel = children(3), 1
    spread = np.array([[1.0, -0.3], [-0.3, 0.5]])
    growth = Growth((2.0, 1.5), np.array([0.2, 1.0, -0.1]), spread, 0.3)
    questions = rest(panel)
    mean, error = growth.forecast(questions, channel)
    for q, (origin, target) in enumerate(zip(questions.origin, questions.target, strict=True)):
        start = 6 * (origin // 6)
        rows = [r for r in range(start, origin + 1) if not np.isnan(panel.values[r, channel])]
        rows.append(target)
        line, parabola = (powers(panel.times[rows], growth.clock, n) for n in (2, 3))
        joint = line @ spread @ line.T + 0.3 * np.eye(len(rows))
        gain = np.linalg.solve(joint[:-1, :-1], joint[:-1, -1])
        surprise = panel.values[rows[:-1], channel] - (parabola @ growth.curve)[:-1]
        assert_allclose(mean[q], parabola[-1] @ growth.curve + gain @ surprise)
        assert_allclose(error[q], np.sqrt(joint[-1, -1] - gain @ joint[:-1, -1]))


@pytest.mark.slow
def test_program_prints_tables_of_all_methods(tmp_path, monkeypatch, capsys):
    panel, own_method = children(8), {"truth": lambda _, test: np.nan_to_num(test.truth)}
    write(panel, tmp_path / "school.parquet")
    monkeypatch.setattr(longitudinal, "METHODS", longitudinal.METHODS | own_method)
    options = ["--data", tmp_path, "--folds", "1", "--only", "school", "--out", tmp_path / "out"]
    monkeypatch.setattr("sys.argv", ["longitudinal", *map(str, options)])
    longitudinal.main()
    printed = capsys.readouterr().out
    for task in ("next row", "rest of the series"):
        head = next(line for line in printed.splitlines() if line.startswith(f"| {task} |"))
        columns, rules = {cell.strip() for cell in head.split("|")}, longitudinal.RULES.keys()
        assert columns >= longitudinal.METHODS.keys() - rules
        assert not columns & rules  # the best of them says it
        assert f"PolyODEForecaster(), {task}: within 5% of the best rule" in printed
        assert f"coverage, {task}, from set to set: PolyODEForecaster() " in printed
    scores = {
        row: json.loads((tmp_path / "out" / f"school-{row}-0.json").read_text())
        for row in longitudinal.METHODS
    }
    assert scores["truth"]["rest of the series"] == 0.0
    assert scores["drift"]["next row"] < scores["population mean"]["next row"]
    monkeypatch.setattr(longitudinal, "measure", lambda *_: {})  # all is read from files
    longitudinal.main()
    assert capsys.readouterr().out == printed


def test_losses_come_first():
    methods = ["PolyODETransformer()", "last value", "best rule", "least squares", "MixedLM"]
    errors = pd.DataFrame(
        [[1.0, 3.0, 2.0, 1.0, np.nan], [2.0, 1.0, 1.0, 8.0, 3.0]], ["won", "lost"], methods
    )
    lines = error_table(errors, "next row")
    assert lines[2] == "| lost | 2.00 | **1.00** | **1.00** | 8.00 | 3.00 | 2.00 |"
    assert lines[3] == "| won | **1.00** | 3.00 | 2.00 | **1.00** | - | 0.50 |"
    assert lines[-1] == (
        "PolyODETransformer(), next row: within 5% of the best rule or better on 1 of 2 sets; "
        "0.500 times the error of least squares (geometric mean)."
    )
