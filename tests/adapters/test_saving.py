"""Adapters come back from a file as they were, with the transformers inside."""

from __future__ import annotations

import pandas as pd
import pytest
from sktime.datasets import load_unit_test

import skpolyode
from skpolyode import HiPPOTransformer, PolyODETransformer
from skpolyode.adapters import SeriesFeatures

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
