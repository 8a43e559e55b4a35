"""What PolyODE-RNN has that other siblings do not: parts of an embedding, and the way back."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from tests.transformers.data import oscillators
from tests.transformers.registry import all_transformers

SERIES = oscillators()


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
