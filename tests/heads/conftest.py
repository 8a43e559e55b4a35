"""Tests of heads look at what is learned from features, not at how these come about."""

from __future__ import annotations

import pytest

from skpolyode.heads import base
from tests import quick


@pytest.fixture(scope="module", autouse=True)
def few_trees_and_no_stacking():
    """Forecasts are not asked for, forests are small, and few series are dealt out twice."""
    with quick.no_stacking(), quick.few_trees(), quick.replaced(base, "_MOST_DEALS", 2):
        yield
