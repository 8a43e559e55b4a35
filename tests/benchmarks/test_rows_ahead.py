"""The benchmark of rows ahead asks what it says, and its ridge learns what a line tells."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.testing import assert_array_equal

from benchmarks import rows_ahead
from benchmarks.real.questions import nth_row, one_step
from benchmarks.rows_ahead import ridge, some_origins, table
from skpolyode import Panel


def ragged(*lengths: int) -> Panel:
    return Panel.from_series([(np.arange(n) * 2.0, np.arange(n)[:, None] * 1.0) for n in lengths])


def test_rows_are_asked_from_those_some_rows_before():
    asked = nth_row(2)(ragged(1, 3, 4))
    assert_array_equal(asked.origin, [1, 4, 5])
    assert_array_equal(asked.target, [3, 6, 7])
    asked = one_step(ragged(1, 3))
    assert_array_equal(asked.target, [2, 3])
    assert_array_equal(asked.origin, [1, 2])


def test_few_origins_of_each_series_and_never_its_first_row():
    panel = ragged(2, 4, 40)
    asked = some_origins(panel, 2)
    assert_array_equal(asked.origin[asked.origin < 6], [3])
    assert (asked.origin >= 6).sum() == rows_ahead.ORIGINS
    assert_array_equal(asked.target - asked.origin, 2)


def test_ridge_forecasts_what_decays_at_a_known_rate():
    rng, decay = np.random.default_rng(0), 0.8 ** np.arange(12)
    series = [(np.arange(12.0), rng.normal(0, 3) * decay[:, None]) for _ in range(40)]
    ask = nth_row(4)
    training, test = ask(Panel.from_series(series[:30])), ask(Panel.from_series(series[30:]))
    errors = ridge(training, test) - test.truth
    assert np.mean(errors**2) < 0.02 * np.mean(test.truth**2)
    last = test.panel.values[test.origin]
    assert np.mean((last - test.truth) ** 2) > 0.5 * np.mean(test.truth**2)


def test_ratios_compare_the_run_the_stack_and_two_seeds():
    errors = {"stack": 0.3, "run": 0.4, "seed 1": 0.5, "ridge": 0.25, "boosting": 0.2}
    rows = [{"set": "some", "row": row, "fold": 0, "4": x} for row, x in errors.items()]
    (*_, last) = table(pd.DataFrame(rows))
    assert [cell.strip() for cell in last.split("|")[1:-1]] == [
        *("some", "4", "0.300", "0.400", "0.500", "0.250", "**0.200**", "2.00", "0.75", "1.25"),
    ]
