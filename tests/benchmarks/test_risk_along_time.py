"""The benchmark of risk along time scores what it says, and runs from end to end."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks import risk_along_time
from benchmarks.risk_along_time import SCORES, Task, area, brier, calibration_error, compare
from skpolyode import HiPPOTransformer, Panel


def test_scores_of_answers_that_are_known():
    y = np.tile([0, 0, 0, 1], 25)
    share = np.tile([0.75, 0.25], (100, 1))
    assert calibration_error(y, share) < 0.13
    assert calibration_error(y, share[:, ::-1]) == pytest.approx(0.5, abs=0.13)
    assert (area(y, share), area(y, np.eye(2)[y])) == (0.5, 1.0)
    assert_allclose([brier(y, np.eye(2)[y]), brier(y, share)], [0.0, 0.1875])


@pytest.mark.slow
def test_ages_of_series_are_compared(monkeypatch):
    monkeypatch.setattr(risk_along_time, "N_CUTS", 2)
    y = np.tile([0, 1], 10)
    rng = np.random.default_rng(0)
    panel = Panel.from_series([(np.arange(6.0), k + rng.normal(0, 0.1, 6)) for k in y])
    model = {"transformer": HiPPOTransformer(n_coefficients=2), "features": "coefficients"}
    found = compare(Task(panel, y, np.array([2.0, 5.0]), model, "h"))
    assert set(found) == {f"{name} {kind}" for name in SCORES for kind in ("path", "own")}
    assert found["area path"] == [1.0, 1.0]
