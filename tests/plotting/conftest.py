"""Every test leaves pyplot as it found it."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _close(close_figures: None) -> None:
    """`close_figures`, without being asked for."""
