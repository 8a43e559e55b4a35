"""PolyODE-RNN against an ODE solver, its memory against an integral; its embeddings read back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.special import expit
from sklearn.base import clone
from torchdiffeq import odeint

from skpolyode.memory import LegTMemory
from skpolyode.models import pack
from skpolyode.models.gain import Gain
from skpolyode.siblings import PolyODERNN
from tests.closeness import assert_same_but_for_rounding
from tests.memory.measures import EQUATIONS
from tests.models.cases import flat_series
from tests.models.weights import observations, shaken, states
from tests.transformers.data import oscillators
from tests.transformers.registry import all_transformers

H, WINDOW = 4, 3.0
SERIES = oscillators()


def make_model(n_static=0, gain=None, **options):
    memory = LegTMemory(5, WINDOW)
    model = PolyODERNN(2, n_static, H, history=memory, hidden_layer_sizes=(6,), **options)
    model = shaken(model).eval()
    model.gain = gain
    return model


def half(n_channels=2):
    return Gain.of(torch.full((n_channels,), 0.5, dtype=torch.float64))


def solution(model, h, times):
    """States (T, 2 + H) by an adaptive solver, inside of the wall."""
    first, last = (layer.state_dict() for layer in model.field.layers)

    def slope(_, y):
        drive = (first["weight"] @ y + first["bias"]).numpy()
        return last["weight"] @ torch.from_numpy(drive * expit(drive)) + last["bias"]

    return odeint(slope, h, times, rtol=1e-10, atol=1e-12)


def test_flow_is_the_solution_of_the_field():
    model, h = make_model(step_size=0.01), states(3, 2 + H)
    gap = torch.tensor([0.02, 0.7, 1.5], dtype=torch.float64)
    with torch.no_grad():
        found = model.flow({"h": h}, gap, gap)["h"]
    ends = [solution(model, y, torch.stack([0 * t, t]))[-1] for y, t in zip(h, gap, strict=True)]
    torch.testing.assert_close(found, torch.stack(ends), rtol=0, atol=1e-8)


@pytest.mark.parametrize("gain", [None, half()])
def test_memory_follows_the_path_and_the_ramp_that_bends_it(gain):
    """The equation of the measure, driven by a solver's path and a line from 0 to the rise."""
    model, gap = make_model(gain=gain, step_size=0.01), 2.0
    data = pack(np.array([0.0, gap]), np.array([[0.4, -0.3], [1.0, 0.2]]), np.array([0, 2]))
    with torch.no_grad():
        first = model.observe(model.initial(data, torch.arange(1)), data, torch.arange(1))
        *_, step = model.run(data)
        times = torch.linspace(0, gap, 401, dtype=torch.float64)
        path = solution(model, first["h"][0], times)[:, :2]
        share = model.share(data, torch.tensor([1]))
        rise = (data.x[1] - path[-1]) * (1 if share is None else share[0])
    assert torch.equal(first["h"][0, :2], data.x[0]), "the first observation is taken whole"
    signal = CubicSpline(times.numpy(), (path + times[:, None] / gap * rise).numpy())
    matrix, inputs = EQUATIONS["legt"].matrices(5)

    def slope(t, c):
        driven = matrix @ c.reshape(2, 5).T + np.outer(inputs, signal(t))
        return driven.T.ravel() / WINDOW

    start = np.outer(data.x[0], [1, 0, 0, 0, 0]).ravel()  # a constant past
    expected = solve_ivp(slope, (0, gap), start, rtol=1e-9, atol=1e-11).y[:, -1].reshape(2, 5)
    np.testing.assert_allclose(step.state["history"][0], expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(step.state["h"][0, :2], path[-1] + rise, rtol=0, atol=1e-8)


def test_before_training_the_signal_is_the_last_observation():
    memory = LegTMemory(3, WINDOW)
    generator = torch.Generator().manual_seed(0)
    model = PolyODERNN(2, 0, H, history=memory, generator=generator).double().eval()
    data = pack(np.array([0.0, 0.5]), np.array([[1.0, np.nan], [np.nan, 2.0]]), np.array([0, 2]))
    gap = torch.tensor([9.0], dtype=torch.float64)
    with torch.no_grad():
        state = model.flow(model.embed(data), gap, gap)
        assert model.predict(state).mean.tolist() == [[1.0, 2.0]]


def test_what_was_not_observed_is_not_read():
    """But that it was not is, and how far the forecast was off."""
    model, row = make_model(), torch.arange(1)
    state = {"h": states(1, 2 + H)}
    y, w = state["h"][0].split([2, H])
    with torch.no_grad():
        one = model.observe(state, observations([0.7, np.nan]), row)["h"][0]
        nothing = model.observe(state, observations([np.nan, np.nan]), row)["h"]
        inputs = torch.stack([*torch.tensor([0.7, 0.0, 1.0, 0.0]).double(), 0.7 - y[0], 0 * y[0]])
        expected = torch.cat([torch.tensor([0.7]).double(), y[1:], model.cell(inputs, w)])
    torch.testing.assert_close(one, expected)
    assert torch.equal(nothing, state["h"])


def test_gain_moves_the_signal_so_far():
    model, state = make_model(gain=half()), {"h": states(1, 2 + H)}
    data, row = pack(*flat_series([3])), torch.tensor([2])
    share = model.share(data, row)
    assert ((share > 0) & (share <= 1)).all()
    assert not (share == 1).all()
    with torch.no_grad():
        y = model.observe(state, data, row)["h"][:, :2]
    expected = torch.where(data.mask[row], torch.lerp(state["h"][:, :2], data.x[row], share), y)
    torch.testing.assert_close(y, expected)


def test_training_does_without_the_memory_and_forecasts_the_same():
    model, data = make_model(1), pack(*flat_series([4], missing=0.3), static=np.array([[0.5]]))
    with torch.no_grad():
        remembering = model.predictions(data)
        model.train()
        assert "history" not in model.embed(data)
        assert_same_but_for_rounding(model.predictions(data), remembering)


@pytest.mark.parametrize("gain", [None, half()])
def test_gradient(gain):
    model = make_model(1, gain).train()
    data = pack(*flat_series([3], missing=0.3), static=np.array([[0.5]]))

    def last_forecast(*weights):
        *_, step = model.run(data)
        return step.prediction.mean

    weights = tuple(p for p in model.parameters() if p.requires_grad)
    assert torch.autograd.gradcheck(last_forecast, weights, atol=1e-6, fast_mode=True)


def small(**parameters):
    return clone(all_transformers()["PolyODERNNTransformer"]).set_params(**parameters)


@pytest.mark.parametrize("measure", ["legt", "legs"])
@pytest.mark.parametrize("embedding", ["full", "coefficients"])
def test_what_is_embedded_is_what_is_reconstructed(measure, embedding):
    fitted = small(measure=measure, embedding=embedding).fit(SERIES)
    features = fitted.transform(SERIES)
    assert features.shape[1] == len(fitted.get_feature_names_out())
    ages = np.linspace(-fitted.window_, 0, 11)
    back = fitted.inverse_transform(features, ages)
    np.testing.assert_allclose(
        back.values, fitted.reconstruct(SERIES, ages, relative_to="end").values, atol=1e-12
    )


def test_state_alone_is_not_inverted():
    fitted = small(embedding="hidden").fit(SERIES)
    features = fitted.transform(SERIES)
    assert [*fitted.get_feature_names_out()] == [f"hidden{k}" for k in range(2 + 4)]
    last, scaler = np.stack([values[-1] for _, values in SERIES]), fitted.scaler_
    signals, observed = features[:, :2] * scaler.scale + scaler.mean, ~np.isnan(last)
    np.testing.assert_allclose(signals[observed], last[observed], atol=1e-12)
    with pytest.raises(ValueError, match="holds no coefficients to invert"):
        fitted.inverse_transform(features)


def test_learned_gain_does_not_meet_observations():
    exact, noisy = (small(observations=own).fit(SERIES) for own in ("exact", "noisy"))
    values = np.concatenate([values for _, values in SERIES])
    met, missed = (
        own.interpolate(SERIES).values[~np.isnan(values)] - values[~np.isnan(values)]
        for own in (exact, noisy)
    )
    assert not met.any()
    assert np.abs(missed).max() > 1e-3


@pytest.mark.parametrize("other", [{"n_coefficients": 5}, {"measure": "legs"}])
def test_warm_start_keeps_the_memory(other):
    fitted = small(warm_start=True).fit(SERIES)
    with pytest.raises(ValueError, match=f"which had {next(iter(other))}="):
        fitted.set_params(**other).fit(SERIES)
