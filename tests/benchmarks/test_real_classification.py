"""How the table of real sets judges the default."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.real_classification import DEFAULT, METHODS, SETS, load, summarise


def cells(default: list[float], other: float = 0.8) -> list[dict]:
    return [
        {
            "n_test": 100,
            "methods": {m: {"accuracy": rate if m == DEFAULT else other} for m in METHODS},
        }
        for rate in default
    ]


@pytest.mark.parametrize(
    ("default", "good", "words"),
    [
        ([0.9], True, "| best |"),
        ([0.77], True, "| near PolyODE coefficients + SVM (-0.030) |"),
        ([0.7], False, "| LOSES to PolyODE coefficients + SVM (-0.100) |"),
        ([0.55, 0.85], True, "0.700 ± 0.150"),  # draws that differ that much say little
    ],
)
def test_losses_are_told_from_noise(default, good, words):
    found, line = summarise("set", 0.5, cells(default))
    assert found is good
    assert words in line
    assert line.startswith(f"| set, 50%, {len(default)} |")


def test_all_right_is_not_certain():
    assert "1.000 ± 0.010" in summarise("set", 0.5, cells([1.0]))[1]


@pytest.mark.parametrize("name", [name for name in SETS if name != "OSULeaf"])
def test_sets_come_with_sktime_or_are_made(name):
    panel, y = load(name, "train")
    assert panel.n_series == len(y)
    assert len(np.unique(y)) > 1
    assert np.median(panel.lengths) > 6
