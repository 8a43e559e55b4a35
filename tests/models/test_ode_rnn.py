"""ODE-RNN against an ODE solver, and what its cell reads."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import expit
from torchdiffeq import odeint

from skpolyode.models import ODERNN, pack
from tests.models.cases import flat_series
from tests.models.weights import observations, shaken, states

H = 5


def make_model(n_static=0, **options):
    return shaken(ODERNN(2, n_static, H, hidden_layer_sizes=(6,), **options))


def test_flow_is_the_solution_of_the_field():
    model, h = make_model(step_size=0.01, stepper="rk4"), states(3, H)
    gap = torch.tensor([0.02, 0.7, 1.5], dtype=torch.float64)
    (first, last) = (layer.state_dict() for layer in model.field.layers)

    def slope(_, y):
        """Inside the wall."""
        drive = (first["weight"] @ y + first["bias"]).numpy()
        return last["weight"] @ torch.from_numpy(drive * expit(drive)) + last["bias"]

    with torch.no_grad():
        found = model.flow({"h": h}, gap, gap)["h"]
        ends = [
            odeint(slope, y, torch.stack([0 * t, t]), rtol=1e-10, atol=1e-12)[-1]
            for y, t in zip(h, gap, strict=True)
        ]
    assert max(float(end.abs().max()) for end in ends) < 5, "the wall is at five"
    torch.testing.assert_close(found, torch.stack(ends), rtol=0, atol=1e-8)


def test_before_training_the_state_is_held():
    model = ODERNN(2, 0, H, generator=torch.Generator().manual_seed(0)).double()
    gap = torch.tensor([0.3, 9.0], dtype=torch.float64)
    h = states(2, H)
    assert torch.equal(model.flow({"h": h}, gap, gap)["h"], h)


def test_after_the_longest_gap_the_state_is_held():
    model, h = make_model(max_gap=4.0), {"h": states(1, H)}
    four, long = (torch.tensor([gap], dtype=torch.float64) for gap in (4.0, 1e9))
    with torch.no_grad():
        torch.testing.assert_close(model.flow(h, long, long), model.flow(h, four, four))


def test_what_was_not_observed_is_not_read():
    """But that it was not is."""
    model, h = make_model(), {"h": states(1, H)}
    with torch.no_grad():
        row = torch.arange(1)
        one = model.observe(h, observations([0.7, np.nan]), row)["h"]
        zero = model.observe(h, observations([0.7, 0.0]), row)["h"]
        nothing = model.observe(h, observations([np.nan, np.nan]), row)["h"]
        inputs = torch.tensor([[0.7, 0.0, 1.0, 0.0]], dtype=torch.float64)
        torch.testing.assert_close(one, model.cell(inputs, h["h"]))
    assert not torch.isclose(one, zero).any()
    assert torch.equal(nothing, h["h"])


def test_gradient():
    model, data = make_model(1), pack(*flat_series([3], missing=0.3), static=np.array([[0.5]]))

    def last_forecast(*weights):
        *_, step = model.run(data)
        return step.prediction.mean

    assert torch.autograd.gradcheck(
        last_forecast, tuple(model.parameters()), atol=1e-6, fast_mode=True
    )
