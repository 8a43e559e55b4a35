"""Paths before the first observation of a channel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpolyode import Panel, PolyODETransformer
from skpolyode.panel.select import hide_cells

pytestmark = pytest.mark.usefixtures("whole_fits")


def processes(n_series: int, seed: int, kept: float) -> Panel:
    """Two channels of 20 rows that keep a share of each deviation; 1 makes random walks."""
    rng, spread = np.random.default_rng(seed), np.sqrt(1 - kept**2) or 0.3
    x = rng.normal(size=(n_series, 1, 2))
    for _ in range(19):
        x = np.append(x, kept * x[:, -1:] + spread * rng.normal(size=(n_series, 1, 2)), axis=1)
    return Panel.from_series([(np.arange(20.0), own) for own in x])


@pytest.mark.parametrize(("kept", "most"), [(0.7, 0.7), (1.0, 1.02)])
def test_paths_go_back_to_what_is_expected_as_far_as_the_process_does(kept, most):
    small = {"n_coefficients": 3, "hidden_layer_sizes": (4,), "max_epochs": 1, "random_state": 0}
    model = PolyODETransformer(**small).fit(processes(30, 0, kept))
    panel = processes(40, 1, kept)
    hidden = np.zeros(panel.values.shape, dtype=bool)
    hidden[np.arange(len(hidden)) % 20 < 12, 1] = True
    known, truth = hide_cells(panel, hidden), panel.values[hidden]
    learned = model.interpolate(known).values[hidden]
    close = model.interpolate(known, [12.0 - 1e-7]).values[:, 1]
    assert_allclose(close, panel.values[12::20, 1], atol=1e-5)
    model.embedder_ = replace(model.embedder_, beginnings=None)
    shifted = model.interpolate(known).values[hidden]
    assert np.square(learned - truth).mean() < most * np.square(shifted - truth).mean()
