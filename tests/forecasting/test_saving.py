"""A forecaster comes back from a file as it was, and sktime's own way still works."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sktime.base import load as load_sktime
from sktime.exceptions import NotFittedError
from sktime.utils._testing.hierarchical import _make_hierarchical

import skpolyode
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.transformers import PolyODETransformer
from tests.forecasting.conftest import waves
from tests.fresh import after_steps


def quick() -> PolyODEForecaster:
    transformer = PolyODETransformer(n_coefficients=2, hidden_layer_sizes=(4,), max_epochs=1)
    return PolyODEForecaster(transformer, random_state=0)


def round_trip(forecaster: PolyODEForecaster, folder: Path) -> PolyODEForecaster:
    path = folder / "model.safetensors"
    forecaster.save(path)
    return skpolyode.load(path)


def roots(index: pd.Index, name: object = None) -> pd.Series:
    return pd.Series(np.sqrt(np.arange(len(index))), index=index, name=name)


N = 20
CONTEXTS = {
    "integers": roots(pd.RangeIndex(N)),
    "array": np.sqrt(np.arange(N)),
    "months": roots(pd.period_range("2024-01", periods=N, freq="M"), "x"),
    "days": roots(pd.date_range("2024-03-20", periods=N, freq="D", tz="Europe/Rome"), ("x", 1)),
    "frame": roots(pd.date_range("2024-03-20", periods=N, freq="h")).to_frame("x"),
    "hierarchy": _make_hierarchical((2, 2), min_timepoints=12, random_state=0),
}


@pytest.mark.parametrize("kind", CONTEXTS)
def test_the_series_are_given_again(kind, tmp_path):
    """A file holds the model and settings; `fit` of a loaded forecaster does not train."""
    y = CONTEXTS[kind]
    forecaster = quick().set_config(warnings="off").fit(y, fh=[1, 3])
    again = round_trip(forecaster, tmp_path)
    assert repr(again.get_params()) == repr(forecaster.get_params())
    assert again.get_config() == forecaster.get_config()
    with pytest.raises(NotFittedError, match=r"has no series .* fit\(y\), which does not train"):
        again.predict([1])
    transformer = again.transformer_
    assert again.fit(y, fh=[1, 3]).transformer_ is transformer
    for method in ("predict", "predict_interval"):
        old, new = (getattr(own, method)() for own in (forecaster, again))
        np.testing.assert_array_equal(new, old)
        if not isinstance(old, np.ndarray):
            assert new.index.equals(old.index)
    assert repr(again.cutoff) == repr(forecaster.cutoff)


def test_any_times_are_given_again(tmp_path):
    """Also those that a file could not hold: steps with holidays."""
    holidays = pd.offsets.CustomBusinessDay(holidays=["2024-03-08"])
    y = roots(pd.date_range("2024-03-04", periods=N, freq=holidays))
    forecaster = quick().fit(y)
    again = round_trip(forecaster, tmp_path).fit(y)
    pd.testing.assert_series_equal(again.predict([1, 2]), forecaster.predict([1, 2]))
    hours = np.cumsum(np.random.default_rng(0).exponential(size=N)).round(3)
    y = roots(pd.Timestamp("2024-01-01") + pd.to_timedelta(hours, unit="h"))
    fh = pd.to_timedelta([20, 90], unit="min")
    forecaster = quick().fit(y)
    again = round_trip(forecaster, tmp_path).fit(y)
    later = y.index[-1:] + pd.Timedelta("1h")
    for own in (forecaster, again):
        own.update(roots(later))
    pd.testing.assert_series_equal(again.predict(fh), forecaster.predict(fh))


def test_pretrained_model_answers_and_is_fitted_the_same(tmp_path):
    panel = waves(12, seed=0)
    forecaster = quick().pretrain(panel)
    again = round_trip(forecaster, tmp_path)
    assert again.state == "pretrained"
    old, new = (own.forecast_quantiles(panel, [12.5], [0.1, 0.5]) for own in (forecaster, again))
    assert all(np.array_equal(new[a].values, old[a].values) for a in (0.1, 0.5))


def test_files_hold_no_code(tmp_path):
    forecaster = quick().fit(CONTEXTS["integers"], fh=1)
    for name in ("model.v2", "model.safetensors"):
        assert forecaster.save(tmp_path / name) is None
        assert b"pickle" not in (tmp_path / name).read_bytes()
    assert {own.name for own in tmp_path.iterdir()} == {"model.v2", "model.safetensors"}


def test_a_name_without_an_ending_is_for_sktime_which_keeps_the_series(tmp_path):
    forecaster = quick().fit(CONTEXTS["integers"], fh=1)
    forecaster.save(tmp_path / "model")
    for serial in (str(tmp_path / "model"), tmp_path / "model.zip", forecaster.save()):
        assert load_sktime(serial).predict().equals(forecaster.predict())
    with pytest.raises(ValueError, match="not a file of skpolyode"):
        skpolyode.load(tmp_path / "model.zip")


def test_loading_a_forecaster_is_what_loads_sktime():
    loaded = after_steps()
    assert "sktime" not in loaded["plot"]
    assert {"sktime", "skpolyode.forecasting"} <= set(loaded["load a forecaster"])
