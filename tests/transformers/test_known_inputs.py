"""Warnings of inputs that are not known as far ahead as a forecast is asked."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from skpolyode import Inputs, Panel
from skpolyode.transformers.neural import warn_of_unknown_inputs

SERIES = [([0.0, 1.0, 2.0], [1.0, 2.0, 3.0])] * 2


def told(rows, asked, kinds="hold", n_asked=2):
    """What is said of two series, whose inputs have rows at the same times."""
    rows = np.asarray(rows, dtype=float)
    inputs = Inputs(Panel.from_series([(rows, np.ones(len(rows)))] * 2, empty="keep"), kinds)
    panel = Panel.from_series(SERIES, inputs=inputs).since_start()
    asked = np.tile([asked, 2.5], n_asked)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of_unknown_inputs(panel, asked, np.arange(n_asked + 1) * 2)
    return str(found[0].message) if found else ""


@pytest.mark.parametrize("kinds", ["hold", "linear"])
@pytest.mark.parametrize("step", [0.5, 1.0, 2.0])
def test_regular_rows_that_stop_are_named(kinds, step):
    rows = np.arange(0, 6.1, step)
    assert "of 2 series, the first of which is 0, inputs end too early" in told(
        rows, 6 + step, kinds
    )
    assert told(rows, 6 + 0.8 * step, kinds) == ""
    assert told(rows, 6.0, kinds) == ""


def test_months_are_regular():
    days = np.cumsum([0, 31, 28, 31, 30, 31])
    assert "too early" in told(days, days[-1] + 28.0)


def test_rows_of_changes_and_impulses_may_end_at_any_time():
    assert told([0.0, 0.5, 2.2], 50.0) == ""
    assert told([2.2], 50.0) == told([2.0, 3.0], 50.0) == ""
    assert told(np.arange(5.0), 50.0, "impulse") == ""


def test_no_input_after_the_end_is_said_of_every_kind():
    for kinds in ("hold", "linear", "impulse"):
        text = told([0.0, 1.0, 2.0], 3.0, kinds)
        assert "no input is known after the last observation" in text
        assert text.endswith("Give inputs=, or add a row of inputs after the last observation.")
