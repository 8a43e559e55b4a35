"""Which of two models forecasts as well as the other."""

from __future__ import annotations

import pytest

from skpolyode import Panel
from skpolyode.embedders.filter_selection import SETTINGS, run_error_ratio
from tests.transformers.data import oscillators, small

PANEL = Panel.from_series(oscillators(12))


@pytest.fixture(scope="module")
def pair():
    """One that has learned, and one that stands still."""
    options = {"observations": "exact", "validation_fraction": None}
    learned = small(max_epochs=15, **options).fit(PANEL)
    return learned.embedder_, small(max_epochs=1, learning_rate_init=1e-9, **options).fit(
        PANEL
    ).embedder_


def test_free_runs_of_known_dynamics_are_better(pair):
    learned, standing = pair
    assert run_error_ratio(learned, standing, PANEL) < 1
    assert run_error_ratio(standing, learned, PANEL) > SETTINGS.max_run_error
    assert run_error_ratio(learned, learned, PANEL) == 1


def test_a_few_series_that_go_astray_do_not_decide(pair):
    """Nobody can forecast a jump; it is as large for both."""
    learned, standing = pair
    values = PANEL.values.copy()
    values[PANEL.offsets[1:3] - 1] += 50.0
    jumping = PANEL.like(PANEL.times, values, PANEL.offsets)
    assert run_error_ratio(standing, learned, jumping) > SETTINGS.max_run_error


@pytest.mark.parametrize("lengths", [[1, 1], [2, 1, 3], [1, 9]], ids=str)
def test_short_series_serve_as_far_as_they_go(pair, lengths):
    pairs = [(t[:n], x[:n]) for n, (t, x) in zip(lengths, oscillators(12), strict=False)]
    assert run_error_ratio(pair[0], pair[0], Panel.from_series(pairs)) == 1
