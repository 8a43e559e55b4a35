"""Adapters come back from a file as they were, with the transformers inside."""

from __future__ import annotations

import pandas as pd
import pytest
from sktime.datasets import load_unit_test

import skpolyode
from skpolyode import HiPPOTransformer, PolyODETransformer
from skpolyode.adapters import SeriesFeatures
from skpolyode.saving.codec import Decoder, Encoder

ADAPTERS = [
    SeriesFeatures(
        PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1, random_state=0)
    ),
    SeriesFeatures(HiPPOTransformer(n_coefficients=4)),
]


@pytest.mark.parametrize("adapter", ADAPTERS, ids=["PolyODE", "HiPPO"])
def test_adapter_comes_back_as_it_was(adapter, tmp_path):
    X, _ = load_unit_test(split="train")
    fitted = adapter.clone().fit(X)
    fitted.save(tmp_path / "model.safetensors")
    again = skpolyode.load(tmp_path / "model.safetensors")
    features = fitted.transform(X)
    pd.testing.assert_frame_equal(again.transform(X), features)
    back = again.inverse_transform(features)
    assert (back.values == fitted.inverse_transform(features).values).all()
    assert repr(again.get_params()) == repr(fitted.get_params())


def test_the_adapter_with_parameters_of_its_own_is_understood():
    """Format 1 had a `PolyODEFeatures`, with the parameters of the transformer."""
    X, _ = load_unit_test(split="train")
    fitted = ADAPTERS[0].clone().fit(X)
    encoder = Encoder()
    tag, state = encoder.encode(fitted, "adapter")["object"]
    assert tag == "adapters.SeriesFeatures"
    inner = fitted.transformer.get_params() | {"early_stopping": False, "n_iter_no_change": 10}
    state["params"] = encoder.encode(inner, "params")
    again = Decoder(encoder.arrays).decode({"object": ["adapters.PolyODEFeatures", state]})
    assert type(again) is SeriesFeatures
    expected = {**fitted.transformer.get_params(), "validation_fraction": None}
    assert again.transformer.get_params() == expected
    pd.testing.assert_frame_equal(again.transform(X), fitted.transform(X))
