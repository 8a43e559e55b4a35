"""GRU-ODE-Bayes against an ODE solver, its formulas written out, and numerical integration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from torchdiffeq import odeint

from skpolyode.models import pack
from skpolyode.siblings import GRUODEBayes
from skpolyode.training import prediction_loss
from skpolyode.training.tasks import IntervalTask
from tests.models.cases import flat_series
from tests.models.weights import observations, shaken, states

H = 5


def make_model(**options):
    return shaken(GRUODEBayes(2, 0, H, head_size=4, **options))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def weights(model):
    return {name: p.detach().numpy() for name, p in model.named_parameters()}


def test_flow_is_the_solution_of_the_continuous_cell():
    model = make_model(step_size=0.01, stepper="rk4")
    w, h = weights(model), states(3, H)
    gap = torch.tensor([0.02, 0.7, 3.0], dtype=torch.float64)

    def slope(_, y):
        y = y.numpy()
        r, z = np.split(sigmoid(y @ w["gates.weight"].T + w["gates.bias"]), 2)
        u = np.tanh((r * y) @ w["candidate.weight"].T + w["candidate.bias"])
        return torch.from_numpy(2 * sigmoid(w["speed_logit"]) * (1 - z) * (u - y))

    with torch.no_grad():
        found = model.flow({"h": h}, gap, gap)["h"]
        ends = [
            odeint(slope, y, torch.stack([0 * t, t]), rtol=1e-10, atol=1e-12)[-1]
            for y, t in zip(h, gap, strict=True)
        ]
    torch.testing.assert_close(found, torch.stack(ends), rtol=0, atol=1e-8)


def test_default_steps_are_of_second_order():
    """Against steps so fine that they are exact."""
    h, gap = {"h": states(3, H)}, torch.tensor([0.5, 2.0, 4.0], dtype=torch.float64)
    errors = []
    with torch.no_grad():
        exact = make_model(step_size=0.01, stepper="rk4").flow(h, gap, gap)["h"]
        for step in (0.5, 0.25, 0.125):
            found = make_model(step_size=step).flow(h, gap, gap)["h"]
            errors.append(float((found - exact).norm()))
    assert errors[0] < 0.05
    assert errors[0] > 3 * errors[1] > 9 * errors[2]


def test_state_stays_bounded_and_is_held_after_the_longest_gap():
    model, h = make_model(max_gap=8.0), {"h": states(3, H).clamp(-1, 1)}
    gap = torch.tensor([7.9, 8.0, 1e9], dtype=torch.float64)
    with torch.no_grad():
        end = model.flow(h, gap, gap)["h"]
        held = model.flow({"h": h["h"][2:]}, gap[1:2], gap[1:2])["h"]
    assert (end.abs() <= 1).all()
    torch.testing.assert_close(end[2:], held)


def test_jump_reads_each_observed_channel_with_its_error():
    """The formulas in numpy; the second channel is not observed."""
    model, data = make_model(), observations([0.7, np.nan])
    w, h = weights(model), states(1, H)
    hidden = np.maximum(h.numpy() @ w["head.0.weight"].T + w["head.0.bias"], 0)
    mean, s = np.split((hidden @ w["head.2.weight"].T + w["head.2.bias"])[0], 2)
    q = np.array([0.7, mean[0], 2 * s[0], (0.7 - mean[0]) / np.exp(s[0])])
    f = np.maximum(q @ w["prepare"][0] + w["prepare_bias"][0], 0)
    f = np.concatenate([f, np.zeros_like(f)])
    before, after = (
        np.split(part, 3)
        for part in (
            w["jump.weight_ih"] @ f + w["jump.bias_ih"],
            w["jump.weight_hh"] @ h[0].numpy() + w["jump.bias_hh"],
        )
    )
    r, z = (sigmoid(before[k] + after[k]) for k in (0, 1))
    expected = (1 - z) * np.tanh(before[2] + r * after[2]) + z * h[0].numpy()
    found = model.observe({"h": h}, data, torch.arange(1))["h"][0].detach()
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_where_nothing_was_observed_the_state_is_kept():
    data, state = observations([np.nan, np.nan]), {"h": states(1, H)}
    assert torch.equal(make_model().observe(state, data, torch.arange(1))["h"], state["h"])


def test_loss_of_a_jump_is_a_divergence():
    model, x = make_model(), [0.03, -0.02]
    data, state = observations(x), {"h": 0.1 * states(1, H)}
    with torch.no_grad():
        found = model.update_loss(state, data, torch.arange(1))[0]
        mean, log_scale = (part[0].numpy() for part in model.predict(state))
    for j in range(2):
        own, target = norm(mean[j], np.exp(log_scale[j])), norm(x[j], 0.01)

        def density(t, own=own, target=target):
            return own.pdf(t) * (own.logpdf(t) - target.logpdf(t))

        reach = 12 * own.std()
        expected, _ = quad(density, own.mean() - reach, own.mean() + reach, epsabs=1e-10)
        assert found[j].item() == pytest.approx(1e-4 * expected)


def test_training_adds_the_losses_before_and_after_the_jumps():
    """Of series of two rows, with channels that are not observed."""
    model, data = make_model(), pack(*flat_series([2, 2, 2]))
    task = IntervalTask(model, data, torch.zeros(3, dtype=torch.bool))
    task.refresh()
    first, second = list(model.run(data))
    likelihood = prediction_loss(second.prediction, data.x[second.rows])[data.mask[second.rows]]
    jumps = model.update_loss(first.state, data, first.rows)[data.mask[first.rows]]
    expected = likelihood.mean() + jumps.mean()
    found = task.loss(torch.arange(3))
    assert found.item() == pytest.approx(expected.item())
    gradients = (torch.autograd.grad(loss, list(model.parameters())) for loss in (found, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_gradient():
    model = make_model()
    data = pack(*flat_series([3], missing=0.3))

    def losses(*weights):
        *_, step = model.run(data)
        return step.prediction.mean, model.update_loss(step.state, data, step.rows)

    assert torch.autograd.gradcheck(losses, tuple(model.parameters()), atol=1e-5, fast_mode=True)
