"""A forecaster comes back from a file as it was, and sktime's own way still works."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sktime.base import load as load_sktime
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
def test_forecaster_comes_back_as_it_was(kind, tmp_path):
    y = CONTEXTS[kind]
    forecaster = quick().fit(y, fh=[1, 3])
    again = round_trip(forecaster, tmp_path)
    assert repr(again.get_params()) == repr(forecaster.get_params())
    assert vars(again).keys() == vars(forecaster).keys()
    for method in ("predict", "predict_interval"):
        old, new = (getattr(own, method)() for own in (forecaster, again))
        np.testing.assert_array_equal(new, old)
        if not isinstance(old, np.ndarray):
            assert new.index.equals(old.index)
    assert repr(again.cutoff) == repr(forecaster.cutoff)
    assert again.is_fitted


def test_irregular_times_and_durations_are_kept(tmp_path):
    hours = np.cumsum(np.random.default_rng(0).exponential(size=N)).round(3)
    y = roots(pd.Timestamp("2024-01-01") + pd.to_timedelta(hours, unit="h"))
    forecaster = quick().fit(y, fh=pd.to_timedelta([20, 90], unit="min"))
    again = round_trip(forecaster, tmp_path)
    pd.testing.assert_series_equal(again.predict(), forecaster.predict())
    later = y.index[-1:] + pd.Timedelta("1h")
    for own in (forecaster, again):
        own.update(roots(later))
    pd.testing.assert_series_equal(again.predict(), forecaster.predict())


def test_pretrained_model_answers_and_is_fitted_the_same(tmp_path):
    panel = waves(12, seed=0)
    forecaster = quick().pretrain(panel)
    again = round_trip(forecaster, tmp_path)
    assert again.state == "pretrained"
    old, new = (own.forecast_quantiles(panel, [12.5], [0.1, 0.5]) for own in (forecaster, again))
    assert all(np.array_equal(new[a].values, old[a].values) for a in (0.1, 0.5))


def test_files_hold_no_code(tmp_path):
    forecaster = quick().fit(CONTEXTS["integers"], fh=1)
    for name in ("model.v2", "model.safetensors", "model"):
        assert forecaster.save(tmp_path / name) is None
        assert skpolyode.load(tmp_path / name).predict().equals(forecaster.predict())
        assert b"pickle" not in (tmp_path / name).read_bytes()
    # What sktime reads first only names the class; it finds the file beside it.
    assert {own.name for own in tmp_path.glob("*.zip")} == {"model.zip"}
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        assert archive.namelist() == ["_metadata"]
    for serial in (str(tmp_path / "model"), tmp_path / "model.zip", forecaster.save()):
        assert load_sktime(serial).predict().equals(forecaster.predict())
    with pytest.raises(ValueError, match="not a file of skpolyode"):
        skpolyode.load(tmp_path / "model.zip")


def test_holidays_that_no_file_can_hold_are_named(tmp_path):
    holidays = pd.offsets.CustomBusinessDay(holidays=["2024-03-08"])
    forecaster = quick().fit(roots(pd.date_range("2024-03-04", periods=N, freq=holidays)))
    with pytest.raises(TypeError, match=r"_cutoff.* cannot .*holidays.*index\.freq = None"):
        forecaster.save(tmp_path / "model")


def test_loading_a_forecaster_is_what_loads_sktime():
    loaded = after_steps()
    assert "sktime" not in loaded["plot"]
    assert {"sktime", "skpolyode.forecasting"} <= set(loaded["load a forecaster"])
