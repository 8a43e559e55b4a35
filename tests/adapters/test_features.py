"""The transformers inside sktime's and scikit-learn's pipelines."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sktime.classification.model_selection import TSCGridSearchCV
from sktime.datatypes import convert_to

from skpolyode.adapters import SeriesFeatures
from skpolyode.panel import Panel
from skpolyode.transformers import (
    HiPPOTransformer,
    PolyODETransformer,
    SummaryStatsTransformer,
)
from tests.quick import no_stacking
from tests.transformers.registry import all_transformers

NAN = np.nan


@pytest.fixture(scope="module", autouse=True)
def quick():
    with no_stacking():
        yield


def tiny(**options) -> SeriesFeatures:
    small = {"n_coefficients": 4, "hidden_layer_sizes": (4,), "max_epochs": 1, "random_state": 0}
    return SeriesFeatures(PolyODETransformer(**{**small, **options}))


def untrained() -> SeriesFeatures:
    """For searches, which fit a dozen times: to the adapter one transformer is like another."""
    return SeriesFeatures(HiPPOTransformer(n_coefficients=4))


@pytest.fixture(scope="module")
def data() -> tuple[pd.DataFrame, np.ndarray]:
    """Slow and fast waves at irregular times, of unequal length, some values missing."""
    rng = np.random.default_rng(0)
    frames, y = {}, np.repeat(["slow", "fast"], 12)
    for k, speed in enumerate(y):
        t = np.sort(rng.uniform(0, 6, rng.integers(8, 12)))
        x = np.sin((1 + 2 * (speed == "fast")) * t + rng.uniform(0, 1))
        x[3] = NAN
        index = pd.Timestamp("2024-01-01") + pd.to_timedelta(t, unit="h")
        frames[k] = pd.DataFrame({"wave": x}, index=index.round("ms"))
    return pd.concat(frames, names=["who", "when"]), y


def test_features_are_those_of_the_transformer(data):
    X, _ = data
    features = tiny().fit_transform(X)
    own = tiny().transformer
    expected = own.fit_transform(Panel.from_sktime(X))
    np.testing.assert_array_equal(features.to_numpy(), expected)
    assert features.columns.tolist() == own.get_feature_names_out().tolist()
    assert features.index.tolist() == list(range(24))


@pytest.mark.parametrize("mtype", ["nested_univ", "df-list"])
def test_formats_agree(data, mtype):
    X, _ = data
    fitted = tiny().fit(X)
    expected = fitted.transform(X)
    other = tiny().fit(convert_to(X, mtype)).transform(convert_to(X, mtype))
    np.testing.assert_allclose(other.to_numpy(), expected.to_numpy(), rtol=1e-9)


def test_scattered_rows_and_hierarchies(data):
    X, _ = data
    fitted = tiny().fit(X)
    expected = fitted.transform(X)
    scattered = fitted.transform(X.sort_index(level="when", sort_remaining=False))
    np.testing.assert_allclose(scattered.loc[expected.index], expected, rtol=1e-9)
    deep = pd.concat({"north": X.loc[:11], "south": X.loc[12:]}, names=["area"])
    answer = fitted.transform(deep)
    assert answer.index.tolist() == [("north" if k < 12 else "south", k) for k in range(24)]
    np.testing.assert_allclose(answer.to_numpy(), expected.to_numpy(), rtol=1e-9)


def test_sktime_classifier_and_grid_search(data):
    X, y = data
    nested = convert_to(X, "nested_univ")
    classifier = tiny(max_epochs=3) * LogisticRegression(max_iter=1000)
    assert np.mean(classifier.fit(nested, y).predict(nested) == y) > 0.8
    search = TSCGridSearchCV(
        untrained() * LogisticRegression(max_iter=1000),
        {"SeriesFeatures__transformer__n_coefficients": [2, 4]},
        cv=2,
    )
    search.fit(nested, y)
    assert search.best_params_["SeriesFeatures__transformer__n_coefficients"] in (2, 4)


def test_sklearn_pipeline_and_grid_search(data):
    X, y = data
    nested = convert_to(X, "nested_univ")
    pipeline = make_pipeline(untrained(), LogisticRegression(max_iter=1000))
    assert cross_val_score(pipeline, nested, y, cv=2).shape == (2,)
    search = GridSearchCV(pipeline, {"seriesfeatures__transformer__n_coefficients": [2, 3]}, cv=2)
    assert search.fit(nested, y).predict(nested).shape == y.shape


@pytest.mark.parametrize("name", all_transformers())
def test_every_transformer_can_be_adapted(data, name):
    X, _ = data
    inner = all_transformers()[name]
    features = SeriesFeatures(inner).fit_transform(X)
    own = clone(inner).fit(Panel.from_sktime(X))
    np.testing.assert_array_equal(features, own.transform(Panel.from_sktime(X)))
    assert features.columns.tolist() == own.get_feature_names_out().tolist()


def test_nested_parameters_reach_a_clone(data):
    X, _ = data
    inner = PolyODETransformer(n_coefficients=3, max_epochs=1, random_state=0)
    adapted = SeriesFeatures(inner)
    assert adapted.fit_transform(X).shape == (24, 7)
    assert not hasattr(inner, "embedder_")
    adapted.set_params(transformer__n_coefficients=2)
    assert adapted.fit_transform(X).shape == (24, 5)


def test_what_has_no_inverse_says_so(data):
    X, _ = data
    adapted = SeriesFeatures(SummaryStatsTransformer()).fit(X)
    with pytest.raises(NotImplementedError, match="SummaryStatsTransformer cannot turn features"):
        adapted.inverse_transform(adapted.transform(X))


def test_inverse_transform(data):
    X, _ = data
    fitted = tiny().fit(X)
    window = fitted.transformer_.window_
    series = fitted.inverse_transform(fitted.transform(X), times=[-0.5 * window, 0.0])
    assert series.channel_names == ("wave",)
    assert series.ids.tolist() == list(range(24))
    assert series.lengths.tolist() == [2] * 24
    expected = fitted.transformer_.inverse_transform(fitted.transform(X), [-0.5 * window, 0.0])
    np.testing.assert_array_equal(series.values, expected.values)
    features = fitted.transform(X).iloc[:, ::-1]
    back = fitted.inverse_transform(features, times=[-0.5 * window, 0.0])
    np.testing.assert_array_equal(back.values, expected.values)
