"""Random series for the tests of the panel."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

NUMBERS = st.floats(-1e30, 1e30) | st.sampled_from([1e-30, 1e30, -1e30, 5e-324])
CELLS = NUMBERS | st.just(np.nan)
# Differences of them are exact: no two are too close.
TIMES = st.integers(-(2**50), 2**50).map(lambda ticks: ticks / 1024)


@st.composite
def series(draw: st.DrawFn, n_channels: int) -> tuple[np.ndarray, np.ndarray]:
    times = sorted(draw(st.lists(TIMES, min_size=1, max_size=5, unique=True)))
    cells = draw(
        st.lists(CELLS, min_size=len(times) * n_channels, max_size=len(times) * n_channels)
    )
    values = np.array(cells).reshape(len(times), n_channels)
    if np.isnan(values).all():
        values[-1, 0] = 1.0
    return np.array(times), values


@st.composite
def pairs(draw: st.DrawFn) -> list[tuple[np.ndarray, np.ndarray]]:
    """One to six series with the same one to three channels."""
    n_channels = draw(st.integers(1, 3))
    return draw(st.lists(series(n_channels), min_size=1, max_size=6))
