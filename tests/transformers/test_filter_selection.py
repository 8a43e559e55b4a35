"""Whether a model does better as a filter than without its gain."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skpolyode import Panel
from skpolyode.transformers.stages import TrainFilter
from tests.models.cases import gain_of
from tests.quick import early_noise_tests
from tests.transformers.data import small

pytestmark = pytest.mark.usefixtures("no_stacking")

TIMES, RNG = np.arange(30.0), np.random.default_rng(0)
LEVELS = RNG.normal(size=(20, 1))
WALKS = RNG.normal(size=(20, 30)).cumsum(axis=1)


def standing(values, share):
    """A model that knows no dynamics, as a filter of this gain, and its series."""
    panel = Panel.from_series([(TIMES[: len(x)], x) for x in values])
    options = {"observations": "exact", "max_epochs": 1, "learning_rate_init": 1e-9}
    embedder = small(validation_fraction=None, **options).fit(panel).embedder_.with_own_model()
    embedder.model.gain = gain_of(torch.full((1,), share))
    return embedder, panel


@pytest.mark.parametrize(
    ("values", "is_better"),
    [(LEVELS + 0.5 * RNG.normal(size=WALKS.shape), True), (WALKS, False)],
    ids=["noise about a level", "a walk without noise"],
)
def test_a_filter_is_better_where_there_is_noise(values, is_better):
    found = TrainFilter().compare(*standing(values, 0.5))
    assert found.is_better is is_better
    assert (found.gap_filling < 1) is is_better


@pytest.mark.parametrize("n_rows", [14, 15])
def test_short_series_are_not_filtered(n_rows):
    """Nor are they for the first half of the training."""
    values = LEVELS + 0.5 * np.random.default_rng(0).normal(size=(20, n_rows))
    panel = Panel.from_series([(TIMES[:n_rows], x) for x in values])
    with early_noise_tests(4):
        model = small(observations="auto", max_epochs=8).fit(panel)
    noise = model.fit_report_["noise"]
    short = "observations are exact: series are too short for a filter"
    assert (noise.outcome == short) is ("gap_filling" not in noise.figures) is (n_rows == 14)


def test_a_gain_of_one_changes_nothing():
    embedder, panel = standing(WALKS, 1 - 1e-12)
    assert TrainFilter().compare(embedder, panel) == (False, pytest.approx(1.0), None)
    residuals = [own.residuals(panel)[0] for own in (embedder, embedder.without_gain())]
    np.testing.assert_allclose(*residuals, atol=1e-9)


def test_what_filling_in_gains_weighs_against_what_forecasts_lose():
    noisy = standing(LEVELS + 0.5 * RNG.normal(size=WALKS.shape), 0.5)
    _, gap_filling, forecasts = TrainFilter().compare(*noisy)
    for margin in (0.99, 1.01):
        stage = TrainFilter(max_error=margin * gap_filling * forecasts)
        assert stage.compare(*noisy).is_better == (margin > 1)
