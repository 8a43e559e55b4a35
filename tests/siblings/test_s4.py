"""S4: its inputs, its memory, and its pass over many observations at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skpolyode import HiPPOTransformer, S4Transformer
from skpolyode.memory import LegTMemory
from skpolyode.models import SequenceModel, pack
from skpolyode.siblings import S4, s4
from tests.models.cases import flat_series
from tests.models.weights import observations, shaken
from tests.transformers.data import oscillators

H, K = 3, 2
LENGTHS = [6, 1, 14, 9, 2]


def make_model(n_static=0, **options):
    return shaken(S4(2, n_static, H, pairs=(K, K), **options))


def test_two_half_gaps_are_one_gap():
    model, data = make_model(memory=LegTMemory(4, 3.0)), pack(*flat_series([4]))
    gap = torch.tensor([2.0], dtype=torch.float64)
    with torch.no_grad():
        state = model.embed(data)
        twice = model.flow(model.flow(state, gap / 2, gap), gap / 2, 2 * gap)
        once = model.flow(state, gap, 2 * gap)
    for name in state:
        torch.testing.assert_close(twice[name], once[name], rtol=0, atol=1e-11)


def test_nothing_is_left_after_very_long():
    model, data = make_model(), pack(*flat_series([4]))
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


@pytest.mark.parametrize("options", [{}, {"memory": LegTMemory(3, 3.0)}])
def test_gradient(options):
    model, data = make_model(1, **options), pack(*flat_series([3]), static=np.array([[0.5]]))

    def last_forecast(*weights):
        *_, step = model.run(data)
        return step.prediction.mean

    weights = tuple(model.parameters())
    assert torch.autograd.gradcheck(last_forecast, weights, atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("at_once", [1, 200, 2**20])
@pytest.mark.parametrize("options", [{}, {"memory": LegTMemory(4, 3.0)}])
def test_layer_by_layer_is_observation_by_observation(options, at_once, monkeypatch):
    """All states, before and after, and the gradient; whatever is taken together."""
    monkeypatch.setattr(s4, "_AT_ONCE", at_once)
    model = shaken(S4(2, 1, 3, pairs=(2, 2), **options))
    static = np.linspace(-1, 1, len(LENGTHS))[:, None]
    data, found = pack(*flat_series(LENGTHS), static=static), []
    for run in (S4.run_from, SequenceModel.run_from):
        monkeypatch.setattr(S4, "run_from", run)
        steps = list(model.run(data))
        loss = sum(step.prediction.mean.square().sum() for step in steps)
        gradient = torch.autograd.grad(loss, list(model.parameters()))
        found.append((steps, gradient))
    for one, other in zip(*(steps for steps, _ in found), strict=True):
        torch.testing.assert_close(one._asdict(), other._asdict(), rtol=0, atol=1e-13)
    for one, other in zip(*(gradient for _, gradient in found), strict=True):
        torch.testing.assert_close(one, other)


def test_rows_without_any_observation_change_nothing():
    times, values, offsets = flat_series(LENGTHS)
    series = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    step = np.arange(len(times)) - offsets[series]
    gone = (step % 4 == 2) & (step < np.array(LENGTHS)[series] - 1)
    values[gone] = np.nan
    kept = np.searchsorted(series[~gone], np.arange(len(LENGTHS) + 1))
    model = shaken(S4(2, 0, 3, pairs=(2, 2)))
    with torch.no_grad():
        found = model.embed(pack(times, values, offsets))
        expected = model.embed(pack(times[~gone], values[~gone], kept))
    torch.testing.assert_close(found, expected)
