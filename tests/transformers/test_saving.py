"""Every transformer comes back from a file as it was: parameters, attributes and all results."""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest

import skpolyode
from skpolyode import (
    HiPPOTransformer,
    Panel,
    PanelImputer,
    PolyODEClassifier,
    PolyODETransformer,
    Resampler,
)
from tests.quick import no_stacking
from tests.transformers.data import short_oscillators, small
from tests.transformers.registry import DISTANT, all_transformers

TRANSFORMERS = all_transformers()
STACKED = ("HiPPOTransformer", "PolyODETransformer")  # files of stacking are alike for all


def round_trip(estimator: Any, folder: Path, **options: Any) -> Any:
    path = folder / "saved"
    estimator.save(path)
    return skpolyode.load(path, **options)


def array() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((6, 9))


def dated() -> list[pd.DataFrame]:
    start = pd.Timestamp("2024-02-01", tz="Europe/Rome")
    frames = []
    for times, values in short_oscillators(6):
        index = start + pd.to_timedelta(times.round(6), unit="h")
        frames.append(pd.DataFrame(values, index=index, columns=["hr", "t°"]))
    return frames


def with_static() -> Panel:
    static = pd.DataFrame({"age": [30.0, 50.0, np.nan] * 4, "sex": ["f", "m", None, "f"] * 3})
    return Panel.from_series(short_oscillators(12), static=static)


INPUTS = {
    "ragged": lambda: short_oscillators(6),
    "2-D": array,
    "frame": lambda: pd.DataFrame(array(), columns=[f"t{i}" for i in range(9)]),
    "3-D": lambda: array().reshape(3, 9, 2),
    "datetimes": dated,
    "static": with_static,
}


# What a fit keeps of a kind of input, siblings keep in their common class.
CASES = [
    (name, kind)
    for name in TRANSFORMERS
    for kind in (("ragged", "static") if name in DISTANT else INPUTS)
]


@pytest.mark.filterwarnings("ignore:.* does not use the static covariates")
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_transformer_comes_back_as_it_was(name, kind, tmp_path):
    X, transformer = INPUTS[kind](), all_transformers()[name]
    with nullcontext() if name in STACKED else no_stacking():
        transformer.fit(X)
    again = round_trip(transformer, tmp_path)
    assert type(again) is type(transformer)
    assert repr(again.get_params()) == repr(transformer.get_params())
    assert vars(again).keys() == vars(transformer).keys()
    assert again.get_feature_names_out().tolist() == transformer.get_feature_names_out().tolist()
    features = transformer.transform(X)
    assert np.array_equal(again.transform(X), features)
    if hasattr(transformer, "inverse_transform"):
        old, new = (own.inverse_transform(features, [-0.1, 0.0]) for own in (transformer, again))
        assert np.array_equal(getattr(new, "values", new), getattr(old, "values", old))
        old, new = (own.reconstruct(X) for own in (transformer, again))
        assert np.array_equal(new.values, old.values)
        assert new.ids.tolist() == old.ids.tolist()


def test_scores_and_forecasts_are_the_same(tmp_path):
    X = with_static()
    transformer = small(measure="legs").fit(X)
    again = round_trip(transformer, tmp_path)
    ahead = [4.0, 5.5]
    assert np.array_equal(again.forecast(X, ahead).values, transformer.forecast(X, ahead).values)
    assert again.score(X) == transformer.score(X)
    assert again.history_ == transformer.history_


def test_output_container_is_kept(tmp_path):
    X = short_oscillators(4)
    transformer = HiPPOTransformer(n_coefficients=3).set_output(transform="pandas").fit(X)
    pd.testing.assert_frame_equal(
        round_trip(transformer, tmp_path).transform(X), transformer.transform(X)
    )


def test_parameters_that_were_not_fitted_are_kept(tmp_path):
    state = np.random.RandomState(3)
    parameters = {"hidden_layer_sizes": [4, 5], "window": np.float64(2.5), "random_state": state}
    again = round_trip(PolyODETransformer(**parameters), tmp_path)
    assert not hasattr(again, "field_")
    assert again.hidden_layer_sizes == [4, 5]
    assert type(again.window) is np.float64
    assert again.random_state.random_sample() == state.random_sample()


def test_text_of_numpy_is_saved_as_text(tmp_path):
    text = np.str_("legs")
    plain = HiPPOTransformer(n_coefficients=4, measure=text)
    fitted = HiPPOTransformer(n_coefficients=4, measure=text).fit(np.arange(12.0).reshape(3, 4))
    for model in (plain, fitted, PanelImputer(plain), Resampler(plain, every=np.str_("1h"))):
        again = round_trip(model, tmp_path)
        assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()
        assert type(getattr(again, "transformer", again).measure) is str
    again = round_trip(PolyODEClassifier(plain, features=np.str_("path")), tmp_path)
    assert (type(again.features), again.features) == (str, "path")


def test_parameter_that_no_file_can_hold_is_named(tmp_path):
    message = r"PolyODETransformer\.params\['window'\] cannot be saved: it is of type slice"
    with pytest.raises(TypeError, match=message):
        PolyODETransformer(window=slice(3)).save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_class_of_others_is_refused_and_named(tmp_path):
    class Own(HiPPOTransformer):
        pass

    with pytest.raises(TypeError, match=r"^Own cannot be saved: it is of type Own"):
        Own().save(tmp_path / "model")


@pytest.mark.usefixtures("no_stacking")
def test_network_is_moved_to_the_device_that_is_asked_for(tmp_path):
    transformer = small().fit(short_oscillators(4))
    again = round_trip(transformer, tmp_path, device="meta")
    assert again.device == "meta"
    assert {p.device.type for p in again.field_.parameters()} == {"meta"}


@pytest.mark.usefixtures("no_stacking")
def test_device_that_is_not_here_is_named_with_the_remedy(tmp_path):
    X = short_oscillators(4)
    transformer = small().fit(X)
    features = transformer.transform(X)
    transformer.device = "cuda:99"
    with pytest.raises(ValueError, match=r"saved' cannot be used here .*device='cpu'"):
        round_trip(transformer, tmp_path)
    again = round_trip(transformer, tmp_path, device="cpu")
    assert np.array_equal(again.transform(X), features)


@pytest.mark.usefixtures("no_stacking")
def test_weights_can_still_be_trained(tmp_path):
    again = round_trip(small().fit(with_static()), tmp_path)
    assert all(p.requires_grad for m in (again.field_, again.start_) for p in m.parameters())


@pytest.mark.parametrize("keep", [pickle, joblib], ids=["pickle", "joblib"])
def test_pickle_and_joblib_keep_working(keep, tmp_path):
    X = short_oscillators(4)
    transformer = small().fit(X)
    with (tmp_path / "model").open("wb") as file:
        keep.dump(transformer, file)
    with (tmp_path / "model").open("rb") as file:
        again = keep.load(file)
    assert np.array_equal(again.transform(X), transformer.transform(X))
