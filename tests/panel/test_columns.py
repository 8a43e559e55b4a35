"""Tools that know only arrays and frames get series as a column of objects."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.ensemble import BaggingClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skpolyode import InterpolationTransformer, Panel, PolyODEClassifier, SummaryStatsTransformer


@pytest.fixture(scope="module")
def data():
    """Series whose spread tells their label."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    series = [(np.sort(rng.uniform(0, 8, 9)), rng.normal(scale=1 + 4 * k, size=9)) for k in y]
    return Panel.from_series(series), y


def pipeline():
    return make_pipeline(SummaryStatsTransformer(), LogisticRegression())


def head():
    embedder = InterpolationTransformer(n_coefficients=4)
    return PolyODEClassifier(embedder, features="summary", head=LogisticRegression())


@pytest.mark.parametrize("make", [pipeline, head])
def test_a_bag_of_classifiers(data, make):
    panel, y = data
    column = np.asarray(panel)[:, None]
    whole = make_bag(make(), max_samples=1.0, bootstrap=False).fit(column, y)
    np.testing.assert_array_equal(whole.predict(column), make().fit(panel, y).predict(panel))
    bag = make_bag(make()).fit(column, y)
    assert bag.score(column, y) > 0.9
    assert len({tuple(part) for part in bag.estimators_samples_}) == 3


def make_bag(estimator, **options):
    return BaggingClassifier(estimator, 3, random_state=0, **options)


def test_permuted_series_are_worth_nothing(data):
    panel, y = data
    column = np.asarray(panel)[:, None]
    model = pipeline().fit(column, y)
    found = permutation_importance(model, column, y, n_repeats=8, random_state=0)
    assert found.importances_mean.shape == (1,)
    # Without the series nothing is left but to guess one of two equal halves.
    assert abs(model.score(column, y) - found.importances_mean[0] - 0.5) < 0.15


def test_a_column_of_series_beside_a_useless_one(data):
    panel, y = data
    table = pd.DataFrame({"stay": np.asarray(panel), "noise": np.arange(40.0) % 7})
    parts = make_column_transformer((SummaryStatsTransformer(), ["stay"]), remainder="passthrough")
    model = make_pipeline(parts, LogisticRegression(max_iter=1000)).fit(table, y)
    stay, noise = permutation_importance(model, table, y, random_state=0).importances_mean
    assert stay > 0.3
    assert abs(noise) < 0.1


@pytest.mark.parametrize(
    "use",
    [
        lambda panel, y: permutation_importance(pipeline().fit(panel, y), panel, y),
        lambda panel, y: ColumnTransformer([("x", SummaryStatsTransformer(), [0])]).fit(panel),
        lambda panel, y: make_bag(pipeline()).fit(panel, y),
        lambda panel, y: LogisticRegression().fit(panel, y),
    ],
    ids=["permutation_importance", "ColumnTransformer", "BaggingClassifier", "LogisticRegression"],
)
def test_tools_that_need_a_table_are_refused_with_the_remedy(data, use):
    """By what scikit-learn asks of a table only: its type of numbers, or its second axis."""
    with pytest.raises(TypeError, match=r"not a table.*asarray.*observation_importance\(model"):
        use(*data)


def test_other_attributes_are_just_missing(data):
    with pytest.raises(AttributeError, match="'Panel' object has no attribute 'iloc'"):
        data[0].iloc  # noqa: B018
