"""Tests of heads look at what is learned from features, not at how these come about."""

from __future__ import annotations

import pytest

from tests import quick


@pytest.fixture(scope="module", autouse=True)
def few_trees_and_no_stacking():
    """Forecasts are not asked for, and forests have a fifth of their trees."""
    with quick.no_stacking(), quick.few_trees():
        yield
