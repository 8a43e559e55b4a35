"""Events that are stored as the value 1: only their times differ."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode import (
    HiPPOTransformer,
    InterpolationTransformer,
    LegendreFitTransformer,
    Panel,
    SummaryStatsTransformer,
)
from tests.transformers.data import small

TIMES = np.arange(8.0)


def stay(k, event=1.0):
    events = np.where(np.arange(8) % (k + 2) == 0, event, np.nan)
    return TIMES, np.column_stack([np.sin(TIMES + k), events])


def panel(series):
    return Panel.from_series(series, channel_names=["hr", "dose"])


PANEL = panel([stay(k) for k in range(4)])


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize(
    "transformer",
    [HiPPOTransformer(), InterpolationTransformer(), LegendreFitTransformer(), small(max_epochs=1)],
    ids=["hippo", "interpolation", "least squares", "polyode"],
)
def test_a_channel_that_is_always_1_is_said_to_give_constant_coefficients(transformer):
    with pytest.warns(
        UserWarning, match=r"\['dose'\] have one value .* the time between .* SummaryStats"
    ):
        transformer.fit(PANEL)
    constant = transformer.embedder_.coefficients(PANEL.since_start())[:, 1]
    np.testing.assert_allclose(constant, constant[:1].repeat(4, axis=0), atol=1e-6)


def test_nothing_is_said_where_features_count_or_nothing_can_be_known():
    """Warnings are errors."""
    features = SummaryStatsTransformer().fit_transform(PANEL)
    assert (features[:, 20] != features[0, 20]).any()  # the number of events
    HiPPOTransformer().fit(panel([stay(k, event=1.0 + k) for k in range(4)]))
    HiPPOTransformer().fit(PANEL.select_channels(["dose"]))  # no other channel changes
    HiPPOTransformer().fit(panel([stay(9), stay(9)]))  # two events
