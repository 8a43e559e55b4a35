"""The update that filters, against Kalman's filter and smoother of a random walk, and the reset."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skpolyode import Panel
from skpolyode.embedders import ChannelScaler, MemoryReadout, ModelEmbedder, Units
from skpolyode.memory import MEMORIES
from skpolyode.models import pack
from skpolyode.models.gain import Gain, Passed
from skpolyode.training.tasks import PolyODETask
from tests.closeness import assert_same_but_for_rounding
from tests.models.cases import SIZE, flat_series, gain_of, make_model, some_gain

NOISE, MOVE = 0.01, 0.005  # variances of the noise, and of a random walk over a unit of time
# Of the forecast just before an observation, in the steady state: p = p R / (p + R) + Q.
BEFORE = (MOVE + np.sqrt(MOVE**2 + 4 * MOVE * NOISE)) / 2
KALMAN = BEFORE / (BEFORE + NOISE)
NONE = torch.zeros(1, dtype=torch.bool)


def steady(n_channels=1) -> Gain:
    """The gain of the random walk at steps of one, none of it from the time that has passed."""
    gain = Gain(n_channels).double()
    gain.known.fill_(np.log(KALMAN / (1 - KALMAN)))
    gain.added.fill_(-100.0)
    gain.noise.fill_(np.sqrt(NOISE))
    return gain


def random_walk(n_series, n_rows, seed=0, noise=NOISE):
    rng = np.random.default_rng(seed)
    walk = np.cumsum(np.sqrt(MOVE) * rng.normal(size=(n_series, n_rows)), axis=1)
    values = walk + np.sqrt(noise) * rng.normal(size=walk.shape)
    times = np.tile(np.arange(n_rows, dtype=np.float64), n_series)
    return times, values.reshape(-1, 1), np.arange(n_series + 1) * n_rows


def standing_still(gain, n_channels=1):
    model = make_model(n_channels, gain=gain)
    model.field.stand_still()
    return model


def passed(data, predictions) -> Passed:
    """Forecasts past an observation, where those of before go on."""
    rows = (data.next >= 0).nonzero()[:, 0]
    return Passed(rows, data.next[rows], predictions[rows])


@pytest.mark.parametrize("measure", ["legt", "legs"])
def test_a_gain_of_one_is_the_reset(measure):
    gain = Gain(2).double()
    gain.known.fill_(100.0)
    static = np.random.default_rng(0).normal(size=(3, 3))
    data = pack(*flat_series([6, 1, 9]), static=static)
    models = [make_model(measure=measure, n_static=3, gain=g) for g in (None, gain)]
    with torch.no_grad():
        one, other = (model.embed(data) for model in models)
    for name in one:
        assert_same_but_for_rounding(one[name], other[name])


def test_update_is_kalmans():
    """Signal and memory move K of the way; the hidden copy follows the memory."""
    model = make_model(gain=some_gain())
    unseen = model.gain.spread / model.gain.noise**2
    data = pack(*flat_series([7, 5]))
    for step in model.run(data):
        rows, mask = step.rows, data.mask[step.rows]
        z, after = (model.split(state["z"])[0] for state in (step.before, step.state))
        gap = data.channel_gap[rows]
        v = model.gain.known.exp() + model.gain.added.exp() * gap
        v = torch.where(data.seen[rows], v, unseen)
        share = v / (v + 1) * mask
        rise = data.x[rows] - z[..., 0]
        torch.testing.assert_close(after[..., 0], z[..., 0] + share * rise)
        later = torch.where(data.seen[rows], share * rise, 0.0)
        ramp = model.memory.bridge(later, gap, data.elapsed[rows])
        first = model.memory.constant(share * rise - later)
        torch.testing.assert_close(step.state["c"], step.before["c"] + ramp + first)
        hidden = torch.where(mask[..., None], step.state["c"], z[..., 1:])
        torch.testing.assert_close(after[..., 1:], hidden)


@pytest.mark.parametrize("start", [-4.0, 1.3, 6.0])
def test_gain_and_noise_of_a_random_walk_are_estimated(start):
    """Forecasts are those of the gain before: wherever that was, it ends at the steady state."""
    gain = Gain(1).double()
    gain.known.fill_(start)
    model, data = standing_still(gain), pack(*random_walk(160, 50))
    task = PolyODETask(model, data, NONE.expand(160))
    for _ in range(5):
        task.refresh()
    one = torch.ones(1, 1, dtype=torch.float64)
    assert gain(one, one > 0).item() == pytest.approx(KALMAN, abs=0.03)
    assert gain.noise.item() == pytest.approx(np.sqrt(NOISE), rel=0.03)
    assert {name: x.item() for name, x in task.found.items()} == {
        f"gain.{name}": x.item() for name, x in gain.named_buffers()
    }


def test_what_a_variance_grows_by_is_told_from_what_it_begins_with():
    """Squared errors that are v + 1 at gaps of all lengths; those of training are 0."""
    times = np.random.default_rng(0).exponential(size=1000).cumsum()
    data = pack(times, np.zeros((1000, 1)), np.array([0, 1000]))
    judged = torch.arange(1000)[:, None] >= 500
    gain = Gain(1, "equal").double()
    gain.noise.fill_(0.5)
    variance = 0.25 * (1.0 + 0.4 + 2.0 * data.channel_gap)
    predictions = judged * variance.sqrt()
    for _ in range(4):
        gain.estimate(data, predictions, passed(data, predictions), judged)
    assert gain.noise.item() == 0.5
    assert gain.added.exp().item() == pytest.approx(2.0)
    assert gain.known.exp().item() == pytest.approx(0.4)


def test_forecasts_that_are_not_finite_change_nothing():
    data = pack(*random_walk(3, 40))
    gain = some_gain(1)
    before = [x.clone() for x in gain.buffers()]
    astray = torch.full_like(data.x, torch.inf)
    gain.estimate(data, astray, passed(data, astray), data.mask)
    assert all(torch.equal(a, b) for a, b in zip(before, gain.buffers(), strict=True))


def test_errors_that_are_all_noise_leave_no_gain_and_those_of_no_noise_all_of_it():
    rng, times = np.random.default_rng(0), np.arange(1000.0)
    one = torch.ones(1, 1, dtype=torch.float64)
    constant = pack(times, 0.3 * rng.normal(size=(1000, 1)), np.array([0, 1000]))
    walk = pack(times, 0.3 * rng.normal(size=(1000, 1)).cumsum(axis=0), np.array([0, 1000]))
    for data, wanted in ((constant, 0.0), (walk, 1.0)):
        gain = Gain(1).double()
        last = torch.zeros_like(data.x) if wanted == 0 else data.x.roll(1, dims=0)
        for _ in range(4):
            gain.estimate(data, last, passed(data, last), data.mask)
        assert gain(one, one > 0).item() == pytest.approx(wanted, abs=0.1)


@pytest.mark.parametrize("start", [-3.0, 5.0])
def test_noise_of_sparse_observations_is_told_from_what_forecasts_miss(start):
    """Errors of forecasts that decay over three typical gaps; no gain confirms itself."""
    rng = np.random.default_rng(0)
    gaps = rng.exponential(size=4000)
    missed, decay = np.zeros(4000), np.exp(-gaps / 3)
    for k in range(1, 4000):
        missed[k] = decay[k] * missed[k - 1] + np.sqrt(1 - decay[k] ** 2) * rng.normal()
    values = 0.3 * missed + 0.2 * rng.normal(size=4000)
    data = pack(gaps.cumsum(), values[:, None], np.array([0, 4000]))
    gain, nothing = Gain(1).double(), torch.zeros_like(data.x)
    gain.known.fill_(start)
    for _ in range(3):
        gain.estimate(data, nothing, passed(data, nothing), data.mask)
    assert gain.noise.item() == pytest.approx(0.2, rel=0.15)
    two = torch.full((1, 1), 2.0, dtype=torch.float64)
    assert gain(two, two > 0).item() == pytest.approx(0.09 / 0.13, abs=0.1)


@pytest.mark.parametrize("share", [0.2, 0.9])
def test_noise_does_not_depend_on_the_gain(share):
    """Of a walk whose filter believes too little or too much, and how far that one is off."""
    gain = gain_of(torch.tensor([share], dtype=torch.float64))
    model, data = standing_still(gain), pack(*random_walk(60, 200))
    walk = random_walk(60, 200, noise=0.0)[1]
    with torch.no_grad():
        predictions = model.predictions(data)
        model.gain.estimate(data, predictions, passed(data, predictions), data.mask)
        after = model.gain.after(data, predictions)
        share = model.share(data, torch.arange(len(data)))
    assert gain.noise.item() == pytest.approx(np.sqrt(NOISE), rel=0.03)
    state = predictions + torch.where(data.mask, share * (data.x - predictions), 0.0)
    order = data.series.argsort(stable=True)
    true = (state[order].numpy() - walk) ** 2
    assert after.item() == pytest.approx(true.mean(), rel=0.1)


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_training_departs_from_the_states_of_a_run(missing):
    model, data = make_model(gain=some_gain()), pack(*flat_series([6, 9, 2], missing=missing))
    task = PolyODETask(model, data, NONE.expand(3))
    for _ in range(3):
        task.refresh()
    for step in model.run(data):
        found = task._depart(step.rows)["z"]
        torch.testing.assert_close(found, step.state["z"], atol=1e-6, rtol=1e-6)


def test_path_is_the_smoothed_random_walk():
    """Rauch, Tung and Striebel's is the mean of a Brownian motion, given all observations."""
    times, values, offsets = random_walk(1, 120)
    units = Units(ChannelScaler(np.zeros(1), np.ones(1)), 1.0)
    past = MemoryReadout(MEMORIES["legt"](SIZE, 1.5), 1.5, units)
    embedder = ModelEmbedder(standing_still(steady()), units, ("coefficients",), past, past)
    asked = np.sort(np.append(np.random.default_rng(0).uniform(45, 75, 40), [50.0, 60.0]))
    found = embedder.path_values(Panel(times, values, offsets), asked, np.array([0, len(asked)]))
    prior = 1e3 + MOVE * np.minimum.outer(times, times)  # a start that is not known
    weights = np.linalg.solve(prior + NOISE * np.eye(len(times)), values[:, 0])
    wanted = (1e3 + MOVE * np.minimum.outer(asked, times)) @ weights
    np.testing.assert_allclose(found[:, 0], wanted, atol=1e-6)
