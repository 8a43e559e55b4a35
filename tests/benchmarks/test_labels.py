"""How the table of labels deals series out, and how it judges the default."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import label_sets
from benchmarks.labels import BOOSTING, DEFAULT, HIPPO, LINES, NETWORK, ROWS, summarise

WITHOUT_FILES = ["JapaneseVowels, half", "ArrowHead, half", "Synthetic", "period"]


def cells(default, best):
    """Scores of five folds: of the default, the best simple row, and a worse one."""
    found = {row: {} for row in ROWS}
    for row, scores in ((DEFAULT, default), (BOOSTING, best), (HIPPO, [0.5] * 5)):
        found[row] = {k: {"score": x, "precision": 0.2, "CPU s": 7.0} for k, x in enumerate(scores)}
    found[NETWORK] = {1: {"score": 0.4, "precision": 0.1, "CPU s": 3.0}}
    return found


@pytest.mark.parametrize(
    ("gaps", "verdict"),
    [
        ([0.02] * 5, "+0.020 ± 0.000, better"),
        ([0.004] * 5, "+0.004 ± 0.000, level"),
        ([-0.02] * 5, "-0.020 ± 0.000, LOST"),
        ([0.1, -0.12, 0.1, -0.12, 0.0], "-0.008 ± 0.049, level"),  # folds differ by more
    ],
)
def test_the_default_is_judged_by_paired_differences(gaps, verdict):
    best = np.array([0.7, 0.8, 0.75, 0.72, 0.78])
    (gap, limit), line = summarise("set", cells(best + gaps, best))
    assert line.startswith("| set, 5 | ")
    assert f"| {verdict} | 7, 3 |" in line
    assert "| 0.400 / 0.100 (1) |" in line
    assert gap == pytest.approx(np.mean(gaps))
    assert limit >= 0.005
    assert "| 0.750 / 0.200 | 0.500 / 0.200 |  | " in line or "**0.750 / 0.200**" in line
    assert ROWS.index(LINES) == 2  # a row without cells is empty


@pytest.mark.parametrize("name", WITHOUT_FILES)
def test_folds_test_each_series_once(name):
    parts = list(label_sets.folds(name, Path()))
    assert len(parts) == 5
    labels = [np.concatenate([part.train.y, part.test.y]) for part in parts]
    assert all(len(part.train.y) == part.train.panel.n_series for part in parts)
    assert sum(len(part.test.y) for part in parts) == len(labels[0])
    assert all(set(part.train.y) == set(labels[0]) for part in parts)


def test_windows_of_an_engine_are_in_one_fold(tmp_path):
    (tmp_path / "turbofan").mkdir()
    rng = np.random.default_rng(0)
    rows = [
        {"unit": unit, "cycle": cycle, "s2": rng.normal(), "s3": rng.normal()}
        for unit in range(12)
        for cycle in range(1, 121)
    ]
    pd.DataFrame(rows).to_parquet(tmp_path / "turbofan" / "fd001.parquet")
    labelled = label_sets.remaining_life(tmp_path)
    assert labelled.panel.n_series == 12 * label_sets.CUTS
    np.testing.assert_array_equal(labelled.panel.lengths + labelled.y, 120)
    for part in label_sets.folds("FD001, fails in 30 cycles", tmp_path):
        assert not set(part.train.groups) & set(part.test.groups)
