"""What is tested here is what other tests do without."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def all_population_curves(whole_fits):
    """The likelihood decides between three of them."""
