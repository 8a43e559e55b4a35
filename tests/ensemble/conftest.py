"""What is tested here is what other tests do without."""

from __future__ import annotations

import pytest

from skpolyode.embedders import table
from skpolyode.ensemble import mixed
from tests import quick


@pytest.fixture(scope="module", autouse=True)
def whole_ensembles():
    """Members and paths learn from all that users have."""
    with quick.whole(mixed, table):
        yield
