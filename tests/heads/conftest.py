"""Tests of heads look at what is learned from features, not at how these come about."""

from __future__ import annotations

import pytest

from tests import quick


@pytest.fixture(scope="module", autouse=True)
def no_stacking():
    """Forecasts are not asked for."""
    with quick.no_stacking():
        yield
