"""How far off forecasts and paths are, against what is known of a random walk."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skpolyode import Panel
from skpolyode.embedders import ChannelScaler, ModelEmbedder, Past, Units
from skpolyode.embedders.scales import path_scales
from skpolyode.memory import MEMORIES
from skpolyode.models import pack
from skpolyode.models.scale import learn_scale
from tests.models.cases import SIZE
from tests.models.test_gain import KALMAN, MOVE, NOISE, random_walk, standing_still, steady


@pytest.fixture(scope="module")
def embedder():
    """A filter of a random walk that has learned all but its gain."""
    model = standing_still(steady())
    data = pack(*random_walk(40, 60))
    scale = learn_scale(model, data, torch.Generator().manual_seed(0)).float()
    units = Units(ChannelScaler(np.zeros(1), np.ones(1)), 1.0)
    past = Past(MEMORIES["legt"](SIZE, 1.5), 1.5, units)
    return ModelEmbedder(model, units, ("coefficients",), past, past, scale=scale)


def scales(embedder, times):
    rows = np.arange(20.0)
    panel = Panel(rows, np.zeros((20, 1)), np.array([0, 20]))
    return path_scales(embedder, panel, np.asarray(times), np.array([0, len(times)]))[:, 0]


def test_variance_of_a_forecast_grows_as_that_of_the_walk(embedder):
    lead = np.array([0.0, 1.0, 2.0, 3.0])
    found = scales(embedder, 19.0 + lead) ** 2
    np.testing.assert_allclose(found, KALMAN * NOISE + MOVE * lead, rtol=0.15)


def test_between_observations_it_is_that_of_a_walk_seen_again(embedder):
    """Of a Brownian motion that starts with variance K R, and is seen with noise R at the end."""
    share = np.array([0.0, 0.25, 0.5, 0.75])
    before, end = KALMAN * NOISE + MOVE * share, KALMAN * NOISE + MOVE
    wanted = before - before**2 / (end + NOISE)
    np.testing.assert_allclose(scales(embedder, 10.0 + share) ** 2, wanted, rtol=0.2)
