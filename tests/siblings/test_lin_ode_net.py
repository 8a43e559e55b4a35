"""The linear latent ODE against matrix exponentials, and what its filter leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import expm

from skpolyode.models import pack
from skpolyode.siblings import LinODENet
from tests.closeness import assert_same_but_for_rounding
from tests.models.cases import flat_series
from tests.models.weights import observations, shaken, states

H = 8
GAPS = torch.tensor([1e-6, 0.3, 2.0, 1e4], dtype=torch.float64)


@pytest.fixture
def model():
    return shaken(LinODENet(2, 0, H, block_sizes=(5, 3)))


def latent(n):
    return {"z": states(n, H)}


def flow(model, state, gap):
    with torch.no_grad():
        return model.flow(state, gap, gap)["z"]


def matrix(model):
    """A, from what its blocks are said to be."""
    A = np.zeros((H, H))
    for k, (w, d) in enumerate(
        zip(model.frequency.tolist(), model.log_decay.tolist(), strict=True)
    ):
        A[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = [[-np.exp(d), -w], [w, -np.exp(d)]]
    return A


def test_flow_is_the_matrix_exponential(model):
    state = latent(len(GAPS))
    expected = [
        expm(matrix(model) * gap) @ z
        for gap, z in zip(GAPS.tolist(), state["z"].numpy(), strict=True)
    ]
    np.testing.assert_allclose(flow(model, state, GAPS), expected, atol=1e-10)


def test_two_half_gaps_are_one_gap(model):
    state = latent(len(GAPS))
    halfway = {"z": flow(model, state, GAPS / 2)}
    torch.testing.assert_close(flow(model, halfway, GAPS / 2), flow(model, state, GAPS))


def test_states_never_grow_between_observations(model):
    state = latent(len(GAPS))
    assert (flow(model, state, GAPS).norm(dim=1) < state["z"].norm(dim=1)).all()


@pytest.mark.parametrize("observed", [[True, True], [True, False]])
def test_filter_is_the_identity_where_the_forecast_was_right(model, observed):
    with torch.no_grad():
        state = latent(1)
        u = model.decode(state["z"])
        forecast = np.where(observed, model.predict(state).mean[0].numpy(), np.nan)
        data = observations(forecast)
        mask = data.mask.double()
        np.testing.assert_array_equal(mask, [observed])
        torch.testing.assert_close(model.filter(u, data.x, mask), u, rtol=0, atol=0)
        wrong = model.filter(u, data.x + 0.1, mask)
        assert (wrong - u).abs().max() > 1e-3


def test_untrained_filter_moves_a_forecast_half_way_to_the_observation():
    model = LinODENet(2, 0, H, generator=torch.Generator().manual_seed(0)).double()
    with torch.no_grad():
        state, data = latent(1), observations([0.4, np.nan])
        before = model.predict(state).mean[0]
        after = model.predict(model.observe(state, data, torch.arange(1))).mean[0]
    assert after[0].item() == pytest.approx((before[0].item() + 0.4) / 2)
    assert after[1].item() == pytest.approx(before[1].item())


def test_where_nothing_was_observed_the_state_is_kept(model):
    data, state = observations([np.nan, np.nan]), latent(1)
    assert torch.equal(model.observe(state, data, torch.arange(1))["z"], state["z"])


def test_gradient(model):
    data = pack(*flat_series([3], missing=0.3))

    def last_forecast(*weights):
        (step,) = list(model.run(data))[-1:]
        return step.prediction.mean

    assert torch.autograd.gradcheck(
        last_forecast, tuple(model.parameters()), atol=1e-6, fast_mode=True
    )


def test_static_covariates_set_the_start():
    model = shaken(LinODENet(2, 1, H))
    times, values, offsets = flat_series([2, 2])
    values[2:] = values[:2]
    times[2:] = times[:2]
    with torch.no_grad():
        same, other = (
            model.predictions(pack(times, values, offsets, static=np.array(static)))
            for static in ([[1.0], [1.0]], [[1.0], [2.0]])
        )
    assert_same_but_for_rounding(same[0], same[1])
    assert not torch.isclose(other[0], other[1]).any()


@pytest.mark.parametrize("size", [3, 2, 7])
def test_sizes_that_do_not_fit(size):
    with pytest.raises(ValueError, match=rf"even .* number of channels, got {size} for 4"):
        LinODENet(4, 0, size)
