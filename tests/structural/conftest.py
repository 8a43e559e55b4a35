"""What is tested here is what other tests do with few."""

from __future__ import annotations

import pytest

from skpolyode.structural import forecaster
from tests import quick


@pytest.fixture(scope="module", autouse=True)
def all_structural_models():
    """The likelihood decides between all of them."""
    with quick.whole(forecaster):
        yield
