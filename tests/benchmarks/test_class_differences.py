"""The features that the guide recommends for what differs between classes."""

from __future__ import annotations

import pytest

from benchmarks import class_differences

OTHERS = {"summary", "coefficients", "clock", "spectrum"}
# What differs: the features to use, and those that see little or nothing of it.
RECOMMENDED = {
    "level": ("summary", {"spectrum"}),
    "how often observed": ("summary", OTHERS - {"summary"}),
    "shape: which channel follows": ("coefficients", {"summary", "spectrum"}),
    "phase, by the clock": ("clock", {"summary", "spectrum"}),
    "period": ("spectrum", OTHERS - {"spectrum"}),
    "time of an event": ("clock", {"summary", "spectrum"}),
    class_differences.DOSES: ("summary of inputs", OTHERS),
}


@pytest.mark.parametrize("difference", [*class_differences.DIFFERENCES, class_differences.DOSES])
def test_features_suit_what_differs(difference: str) -> None:
    best, worse = RECOMMENDED[difference]
    scores = class_differences.scores(difference, n_series=200, seed=10)
    assert scores[best] > 0.75
    assert max(scores[name] for name in worse) < scores[best] - 0.05


def test_the_table_marks_the_best(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = list(class_differences.features())
    monkeypatch.setattr(class_differences, "DIFFERENCES", {})
    monkeypatch.setattr(
        class_differences, "scores", lambda *_: {names[0]: 0.5, names[1]: 0.75, names[2]: 0.751}
    )
    monkeypatch.setattr("sys.argv", ["class_differences.py", "--seeds", "0"])
    class_differences.main()
    (row,) = capsys.readouterr().out.splitlines()[2:]
    assert row == "| what was done (doses) | 0.50 | **0.75** | **0.75** |  |  |"
