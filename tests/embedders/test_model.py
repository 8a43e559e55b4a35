"""States that a trained model leaves on the way."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode import Panel, PolyODETransformer
from tests.transformers.data import oscillators
from tests.transformers.toy import ToyTransformer

PANEL = Panel.from_series(oscillators(4))


@pytest.mark.parametrize(
    "transformer",
    [
        ToyTransformer(max_epochs=1, random_state=0),
        PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1, random_state=0),
    ],
    ids=lambda transformer: type(transformer).__name__,
)
def test_states_on_the_way_are_those_of_the_past_alone(transformer):
    embedder = transformer.fit(PANEL).embedder_
    rows = np.array([0, 3, 4, PANEL.offsets[2], PANEL.offsets[2] + 6, PANEL.n_observations - 1])
    found = embedder.states_at(PANEL, rows, embedder.exact)
    series = np.searchsorted(PANEL.offsets, rows, side="right") - 1
    for k, (i, row) in enumerate(zip(series, rows, strict=True)):
        times, values = PANEL[int(i)]
        n_rows = row - PANEL.offsets[i] + 1
        alone = embedder.states(Panel.from_series([(times[:n_rows], values[:n_rows])]))
        for name, part in alone.items():
            np.testing.assert_allclose(found[name][k], part[0], atol=1e-12)
