"""How far off forecasts and paths are, against what is known of a random walk."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode import Panel
from skpolyode.embedders import ChannelScaler, MemoryReadout, ModelEmbedder, Units
from skpolyode.embedders.variance import path_std, with_variance
from skpolyode.memory import MEMORIES
from tests.models.cases import SIZE
from tests.models.test_gain import KALMAN, MOVE, NOISE, random_walk, standing_still, steady


def learned(model, rows, seed=0):
    """An embedder of a model that knows all but how far off it is, which it learns from rows."""
    units = Units(ChannelScaler(np.zeros(1), np.ones(1)), 1.0)
    past = MemoryReadout(MEMORIES["legt"](SIZE, 1.5), 1.5, units)
    embedder = ModelEmbedder(model.float(), units, ("coefficients",), past, past)
    return with_variance(embedder, Panel(*rows), np.random.RandomState(seed))


@pytest.fixture(scope="module")
def embedder():
    """A filter of a random walk."""
    return learned(standing_still(steady()), random_walk(150, 40))


def walks(moves, n_rows=60):
    """Random walks that are observed exactly, at irregular times; variances in a unit of time."""
    rng = np.random.default_rng(1)
    gaps = rng.exponential(size=(len(moves), n_rows)) + 0.1
    steps = np.sqrt(np.asarray(moves)[:, None] * gaps) * rng.normal(size=gaps.shape)
    columns = (np.cumsum(x, axis=1).ravel() for x in (gaps, steps))
    times, values = columns
    return times, values[:, None], np.arange(len(moves) + 1) * n_rows


def scales(embedder, times, step=0.0):
    rows, x = np.arange(20.0), np.zeros((20, 1))
    x[11:] = step
    panel = Panel(rows, x, np.array([0, 20]))
    return path_std(embedder, panel, np.asarray(times), np.array([0, len(times)]))[:, 0]


@pytest.mark.slow
def test_variance_of_a_forecast_grows_as_that_of_the_walk(embedder):
    """In the mean of four draws of the minibatches, each of which errs by a tenth."""
    lead, walk = np.array([0.0, 1.0, 2.0, 3.0]), random_walk(150, 40)
    others = [learned(standing_still(steady()), walk, seed) for seed in range(1, 4)]
    found = np.mean([scales(one, 19.0 + lead) ** 2 for one in (embedder, *others)], axis=0)
    np.testing.assert_allclose(found, KALMAN * NOISE + MOVE * lead, rtol=0.15)


def test_between_observations_it_is_what_all_of_them_leave(embedder):
    """The variance of a Gaussian process, given 20 observations of it with noise."""
    share = np.array([0.0, 0.25, 0.5, 0.75])
    for row in (10.0, 18.0):  # of the last way it is more
        times, rows = row + share, np.arange(20.0)
        prior = 1e3 + MOVE * np.minimum.outer(rows, rows) + NOISE * np.eye(20)
        with_rows = 1e3 + MOVE * np.minimum.outer(times, rows)
        known = (with_rows * np.linalg.solve(prior, with_rows.T).T).sum(axis=1)
        wanted = 1e3 + MOVE * times - known
        np.testing.assert_allclose(scales(embedder, times) ** 2, wanted, rtol=0.2)


def test_between_exact_observations_it_is_that_of_a_bridge():
    """``move u (1 - u) gap``, whatever the step was: that of a Brownian motion says nothing."""
    embedder = learned(standing_still(None), walks([MOVE] * 60))
    share = np.array([0.0, 0.2, 0.5, 0.8])
    wanted = MOVE * share * (1 - share)
    found = scales(embedder, 10.0 + share, step=np.sqrt(MOVE)) ** 2
    np.testing.assert_allclose(found, wanted, rtol=0.25, atol=1e-15)
    assert found[0] == scales(embedder, [19.0])[0] == 0.0
    ahead = scales(embedder, [20.0, 22.0]) ** 2
    np.testing.assert_allclose(ahead, MOVE * np.array([1.0, 3.0]), rtol=0.2)
    early = scales(embedder, [-1.0, -3.0]) ** 2
    np.testing.assert_allclose(early, MOVE * np.array([1.0, 3.0]), rtol=0.2)


def test_a_step_tells_a_wild_series_from_a_quiet_one():
    embedder = learned(standing_still(None), walks([MOVE, 100 * MOVE] * 30))
    quiet, wild = (scales(embedder, [10.5], step=k * np.sqrt(MOVE))[0] for k in (0.5, 10.0))
    assert wild > 3 * quiet
