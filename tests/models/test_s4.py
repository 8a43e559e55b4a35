"""State spaces against exact discretisations of SciPy, and against convolutions on even grids."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.signal import cont2discrete

from skpolyode import HiPPOTransformer, S4Transformer
from skpolyode.memory import LegTMemory
from skpolyode.models import S4, pack
from skpolyode.models.s4 import DiagonalStateSpace
from tests.models.cases import flat_series
from tests.models.weights import observations, shaken, states
from tests.transformers.data import oscillators

H, K = 3, 2


def make_layer(is_held=True):
    return shaken(DiagonalStateSpace(H, K, is_held, None), size=2.0)


def make_model(n_static=0, **options):
    return shaken(S4(2, n_static, H, pairs=(K, K), **options))


def matrices(layer, feature):
    """What drives the states of a feature, in real numbers: ``dx/dt = A x + B u, y = C x + D u``.

    The states are the real parts, then the imaginary parts.
    """
    with torch.no_grad():
        rates, speed = (part[feature].numpy() for part in layer.rates())
        b, c = layer.b[:, feature].numpy(), layer.c[:, feature].numpy()
        d = layer.d[feature].item()
    real, imaginary = np.diag(rates.real), np.diag(rates.imag)
    A = np.block([[real, -imaginary], [imaginary, real]])
    return A, speed * b.reshape(-1, 1), 2 * np.concatenate([c[0], -c[1]])[None], np.array([[d]])


def test_rates_decay_whatever_the_weights():
    rates, speed = make_layer().rates()
    assert (rates.real < 0).all()
    assert (speed > 0).all()
    untrained, _ = DiagonalStateSpace(H, 3, True, None).rates()
    ratio = (untrained.imag / untrained.real).detach()
    torch.testing.assert_close(ratio, -2 * torch.pi * torch.arange(3.0).expand(H, -1))


@pytest.mark.parametrize("gap", [1e-6, 0.02, 0.7, 40.0])
def test_held_features_are_an_exact_discretisation(gap):
    layer, x, u = make_layer(), states(1, 2 * H * K).view(1, 2, H, K), states(1, H, 1)
    with torch.no_grad():
        found = layer.flow(x, u, torch.tensor([gap], dtype=torch.float64))
        read = layer(found, u)
    for h in range(H):
        system = matrices(layer, h)
        A, B, C, D, _ = cont2discrete(system, gap, method="zoh")
        after = A @ x[0, :, h].flatten().numpy() + B[:, 0] * u[0, h].item()
        np.testing.assert_allclose(found[0, :, h].flatten(), after, rtol=1e-9, atol=1e-12)
        expected = C[0] @ after + D[0, 0] * u[0, h].item()
        assert read[0, h].item() == pytest.approx(expected)


@pytest.mark.parametrize("is_held", [True, False])
def test_recurrence_is_a_convolution_on_an_even_grid(is_held):
    layer, gap = make_layer(is_held), 0.3
    signal = states(7, H)
    x, found = torch.zeros(1, 2, H, K, dtype=torch.float64), []
    with torch.no_grad():
        for k, u in enumerate(signal[:, None]):
            if k:
                x = layer.flow(x, signal[k - 1 : k], torch.tensor([gap], dtype=torch.float64))
            x = layer.observe(x, u)
            found.append(layer(x, u)[0])
    for h in range(H):
        A, B, C, D = matrices(layer, h)
        Ad, Bd, *_ = cont2discrete((A, B, C, D), gap, method="zoh")
        powers = [np.linalg.matrix_power(Ad, k) for k in range(len(signal))]
        if is_held:  # what is held acts from the next observation on
            kernel = [D.item(), *((C @ power @ Bd).item() for power in powers[:-1])]
        else:
            kernel = [
                (C @ power @ B).item() + (k == 0) * D.item() for k, power in enumerate(powers)
            ]
        expected = np.convolve(kernel, signal[:, h].numpy())[: len(signal)]
        np.testing.assert_allclose(torch.stack(found)[:, h], expected, atol=1e-9)


@pytest.mark.parametrize("inputs", ["held", "impulses"])
def test_two_half_gaps_are_one_gap(inputs):
    model, data = make_model(inputs=inputs, memory=LegTMemory(4, 3.0)), pack(*flat_series([4]))
    gap = torch.tensor([2.0], dtype=torch.float64)
    with torch.no_grad():
        state = model.embed(data)
        twice = model.flow(model.flow(state, gap / 2, gap), gap / 2, 2 * gap)
        once = model.flow(state, gap, 2 * gap)
    for name in state:
        torch.testing.assert_close(twice[name], once[name], rtol=0, atol=1e-11)


def test_nothing_is_left_after_very_long():
    model, data = make_model(inputs="impulses"), pack(*flat_series([4]))
    with torch.no_grad():
        state = model.embed(data)
        for gap in (1e9, 1e100):
            after = model.flow(state, *torch.full((2, 1), gap, dtype=torch.float64))
            assert after["x"].abs().max() < 1e-12
            assert torch.isfinite(model.predict(after).mean).all()


def test_inputs_are_what_was_observed_and_the_gap():
    model, row = make_model(), torch.arange(1)
    with torch.no_grad():
        state = model.initial(observations([0.0, 0.0]), row)
        state["since"] += 1.5
        found = model.observe(state, observations([0.7, np.nan]), row)["r"][0, 0]
        inputs = torch.tensor([0.7, 0.0, 1.0, 0.0, np.log(2.5)], dtype=torch.float64)
        torch.testing.assert_close(found, model.encoder(inputs))


@pytest.mark.parametrize("memory", [None, LegTMemory(4, 3.0)])
def test_where_nothing_was_observed_the_state_is_kept(memory):
    model, data = make_model(memory=memory), observations([np.nan, np.nan])
    with torch.no_grad():
        state = {k: part + 0.3 for k, part in model.initial(data, torch.arange(1)).items()}
        after = model.observe(state, data, torch.arange(1))
    assert all(torch.equal(after[name], state[name]) for name in state)


def test_its_memory_is_that_of_the_observations():
    """Of channels that are observed apart, by the transformer without training."""
    series = oscillators()
    settings = {"hidden_size": 4, "state_size": 4, "max_epochs": 1, "random_state": 0}
    model = S4Transformer(memory=True, window=2.0, validation_fraction=None, **settings)
    found = model.fit(series).transform(series)
    assert found.shape[1] == 2 * 32 + 4
    expected = HiPPOTransformer(window=2.0).fit(series).transform(series)
    np.testing.assert_allclose(found[:, :-4], expected, atol=1e-9)
    assert list(model.get_feature_names_out()[[0, -1]]) == ["x0_coefficients0", "output3"]
    stream = model.stream(len(series))
    for k, (times, values) in enumerate(series):
        for time, row in zip(times, values, strict=True):
            stream.update(time, row, series=k)
    np.testing.assert_allclose(stream.embedding(), found, atol=1e-9)


def test_an_odd_state_is_an_error():
    with pytest.raises(ValueError, match="state_size must be even, got 3"):
        S4Transformer(state_size=3).fit(oscillators())


@pytest.mark.parametrize("options", [{}, {"inputs": "impulses", "memory": LegTMemory(3, 3.0)}])
def test_gradient(options):
    model, data = make_model(1, **options), pack(*flat_series([3]), static=np.array([[0.5]]))

    def last_forecast(*weights):
        *_, step = model.run(data)
        return step.prediction.mean

    assert torch.autograd.gradcheck(
        last_forecast, tuple(model.parameters()), atol=1e-6, fast_mode=True
    )
