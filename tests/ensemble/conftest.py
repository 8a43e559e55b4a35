"""What is tested here is what other tests do without."""

from __future__ import annotations

import pytest

from tests import quick


@pytest.fixture(scope="module", autouse=True)
def all_population_curves():
    """The likelihood decides between three of them."""
    with quick.all_population_curves():
        yield
