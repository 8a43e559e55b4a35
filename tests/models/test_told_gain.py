"""A gain that is told errors of observations, against Kalman's smoother of a random walk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from skpolyode import Panel
from skpolyode.embedders import ChannelScaler, MemoryReadout, ModelEmbedder, Units
from skpolyode.memory import MEMORIES
from skpolyode.models import pack
from skpolyode.models.gain import Gain
from skpolyode.training.tasks import PolyODETask, with_precision
from tests.models.cases import SIZE, make_model

MOVE, N_SERIES, LENGTH = 0.3, 80, 25
START, SPREAD = 0.8, 0.5  # mean and variance of the walks at their first observations
RNG = np.random.default_rng(0)
GAPS = RNG.exponential(size=(N_SERIES, LENGTH))
GAPS[:, 0] = 0.0
TIMES = GAPS.cumsum(axis=1)
WALKS = (np.sqrt(MOVE * GAPS) * RNG.normal(size=GAPS.shape)).cumsum(axis=1)
WALKS += START + np.sqrt(SPREAD) * RNG.normal(size=(N_SERIES, 1))
SIGMA = 10 ** RNG.uniform(-1.0, 0.0, GAPS.shape)
VALUES = WALKS + SIGMA * RNG.normal(size=GAPS.shape)
OFFSETS = np.arange(N_SERIES + 1) * LENGTH
UNITS = Units(ChannelScaler(np.zeros(1), np.ones(1)), 1.0)


def panel(errors=SIGMA, values=VALUES):
    return Panel(TIMES.ravel(), values.ravel(), OFFSETS, errors=errors.ravel())


def embedder(move=MOVE):
    """Of a field that stands still, with the gain of the walk at noise of variance 4."""
    gain = Gain(1, "each").double()
    gain.known.fill_(-100.0)
    gain.added.fill_(np.log(move / 4.0))
    gain.noise.fill_(2.0)
    gain.start.fill_(START)
    gain.spread.fill_(SPREAD)
    model = make_model(1, gain=gain)
    model.field.stand_still()
    past = MemoryReadout(MEMORIES["legt"](SIZE, 1.5), 1.5, UNITS)
    return ModelEmbedder(model, UNITS, ("coefficients",), past, past)


def kalman(at, series, sigma=SIGMA, values=VALUES):
    """Mean and variance of the walk at some times, given all observations of a series."""
    times = TIMES[series]
    cross = SPREAD + MOVE * np.minimum.outer(at, times)
    known = SPREAD + MOVE * np.minimum.outer(times, times) + np.diag(sigma[series] ** 2)
    weights = np.linalg.solve(known, cross.T)
    variance = SPREAD + MOVE * at - np.einsum("ij,ji->i", cross, weights)
    return START + weights.T @ (values[series] - START), variance


def test_paths_are_the_smoothed_walk():
    """At observations, exact ones among them, between them, and ahead."""
    errors, values = SIGMA.copy(), VALUES.copy()
    errors[:, 7], values[:, 7] = 0.0, WALKS[:, 7]
    at = np.sort(np.append(np.random.default_rng(1).uniform(0, 30, 60), TIMES[0, 5:9]))
    found = embedder().path_values(panel(errors, values)[:1], at, np.array([0, len(at)]))[:, 0]
    wanted, _ = kalman(at, 0, errors, values)
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    exact = embedder().path_values(panel(errors, values)[:1], TIMES[0, [7]], np.array([0, 1]))
    np.testing.assert_allclose(exact[0, 0], values[0, 7], atol=1e-12)


@pytest.mark.parametrize(("off", "error"), [(100.0, 50.0), (100.0, 1.0), (8.0, 0.1)])
def test_paths_from_a_far_start_are_the_smoothed_walk(off, error):
    """Of 100 with an error of 50 next to nothing is taken; the other two start outside the wall."""
    errors, values = SIGMA.copy(), VALUES.copy()
    errors[0, 0], values[0, 0] = error, WALKS[0, 0] + off
    at = np.sort(np.append(TIMES[0], np.linspace(0.1, 3.0, 9)))
    found = embedder().path_values(panel(errors, values)[:1], at, np.array([0, len(at)]))[:, 0]
    np.testing.assert_allclose(found, kalman(at, 0, errors, values)[0], atol=1e-3)


def test_variances_are_those_of_the_smoother():
    from skpolyode.embedders.smoother import shares

    _, wanted = kalman(TIMES[0], 0)
    np.testing.assert_allclose(shares(embedder(), panel()[:1]).variances[:, 0], wanted, rtol=1e-4)


def test_the_gain_is_estimated_from_forecasts():
    """Within 5 % of the error of the exact smoother, from a start that is far off."""
    model = embedder(move=20.0)
    data = pack(TIMES.ravel(), VALUES.reshape(-1, 1), OFFSETS, errors=SIGMA.reshape(-1, 1))
    task = PolyODETask(model.model, data, torch.zeros(N_SERIES, dtype=torch.bool))
    for _ in range(4):
        task.refresh()
    found = model.path_values(panel(), TIMES.ravel(), OFFSETS).reshape(TIMES.shape)
    wanted = np.stack([kalman(TIMES[k], k)[0] for k in range(N_SERIES)])
    error, least = (np.sqrt(np.mean((x - WALKS) ** 2)) for x in (found, wanted))
    assert error < 1.05 * least


@pytest.mark.parametrize(("n_series", "start", "spread"), [(80, START, SPREAD), (20, 0.0, 1.0)])
def test_starts_are_those_of_training(n_series, start, spread):
    """Of few series those of the channel, whose mean is 0 and whose variance is 1."""
    gain, rows = Gain(1, "each").double(), slice(n_series * LENGTH)
    gain.noise.fill_(2.0)
    model = make_model(1, gain=gain)
    model.field.stand_still()
    cells = TIMES.ravel()[rows], VALUES.reshape(-1, 1)[rows], OFFSETS[: n_series + 1]
    data = pack(*cells, errors=SIGMA.reshape(-1, 1)[rows])
    task = PolyODETask(model, data, torch.zeros(n_series, dtype=torch.bool))
    for _ in range(5):
        task.refresh()
    first, noise = VALUES[:, 0] - gain.start.item(), SIGMA[:, 0] ** 2
    precision = 1 / (gain.spread.item() + noise)
    if n_series > 30:  # the likeliest ones
        assert precision @ first == pytest.approx(0.0, abs=1e-2)
        assert precision**2 @ (first**2 - noise - gain.spread.item()) == pytest.approx(0, abs=0.1)
    assert gain.start.item() == pytest.approx(start, abs=0.25)
    assert gain.spread.item() == pytest.approx(spread, abs=0.25)


def test_what_is_left_of_observations_counts_beside_p_and_q():
    """Squared errors that are what forecasts expect of them, each with what was left before."""
    gain, zeros = embedder(move=3.0).model.gain, np.zeros((N_SERIES * LENGTH, 1))
    data = pack(TIMES.ravel(), zeros, OFFSETS, errors=SIGMA.reshape(-1, 1))
    data = replace(data, posterior=gain.follow(data)[0])
    assert data.posterior.max() > 20 * data.posterior[data.seen].min()
    variance = 4.0 * (data.posterior + 0.01 + 0.07 * data.channel_gap) + data.error.square()
    for _ in range(3):
        gain.estimate(data, variance.sqrt(), None, data.mask)
    assert gain.known.exp().item() == pytest.approx(0.01)
    assert gain.added.exp().item() == pytest.approx(0.07)


def test_no_observation_and_one_that_tells_nothing_are_alike():
    errors, values = SIGMA.copy(), VALUES.copy()
    errors[0, 9], values[0, 9] = 1e9, 3.0
    kept = np.delete(np.arange(LENGTH), 9)
    one = panel(errors, values)[:1]
    other = Panel(TIMES[0, kept], VALUES[0, kept], [0, LENGTH - 1], errors=SIGMA[0, kept])
    at, ends = np.linspace(0, TIMES[0, -1] + 2, 40), np.array([0, 40])
    found = (embedder().path_values(own, at, ends) for own in (one, other))
    np.testing.assert_allclose(*found, atol=1e-6)


def test_gradients_reach_noise_that_is_not_known():
    gain, seen = Gain(1, "each").double(), torch.ones(4, 1, dtype=torch.bool)
    torch.nn.init.constant_(gain.noise, 0.5)
    gap, left = (torch.rand(4, 1, dtype=torch.float64) for _ in range(2))
    error = torch.tensor([[0.3], [torch.nan], [0.0], [2.0]], dtype=torch.float64)

    def share(*weights):
        return torch.func.functional_call(gain, dict(zip(names, weights, strict=True)), args)

    names, args = [n for n, _ in gain.named_parameters()], (gap, seen, error, left)
    weights = [p.detach().clone().requires_grad_() for p in gain.parameters()]
    assert torch.autograd.gradcheck(share, weights)
    assert gain(*args)[2].item() == 1.0


def test_values_count_by_what_they_tell():
    """Inverse variances of forecasts: how far the walk moves, and the error of the cell."""
    data = pack(TIMES.ravel(), VALUES.reshape(-1, 1), OFFSETS, errors=SIGMA.reshape(-1, 1))
    weights = with_precision(data).precision
    assert weights.mean().item() == pytest.approx(1.0)
    wanted = 1 / (MOVE * GAPS[:, 1:].mean() + data.error**2)
    ratio = weights / wanted
    assert (ratio.max() / ratio.min()).item() < 1.3
    equal = pack(TIMES.ravel(), VALUES.reshape(-1, 1), OFFSETS, errors=np.full((2000, 1), 0.3))
    assert (with_precision(equal).precision == 1.0).all()
