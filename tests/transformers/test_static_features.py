"""Static covariates as features of their own, beside those of the series."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline, make_union

import skpolyode
from skpolyode import HiPPOTransformer, Panel, StaticFeatures
from tests.closeness import assert_same_but_for_rounding
from tests.transformers.data import oscillators, small

IDS = [f"p{k}" for k in range(12)]
STATIC = pd.DataFrame({"age": np.arange(12.0), "sex": ["f", "m", None] * 4}, index=IDS)


@pytest.fixture
def panel():
    return Panel.from_series(oscillators(rate=3.0), ids=IDS, static=STATIC)


def test_one_row_of_encoded_covariates_a_series(panel):
    table = StaticFeatures().set_output(transform="pandas").fit_transform(panel)
    assert table.columns.tolist() == ["age", "sex_f", "sex_m"]
    assert table.index.tolist() == IDS
    np.testing.assert_allclose(table["age"], (STATIC["age"] - 5.5) / np.std(STATIC["age"]))
    np.testing.assert_array_equal(table["sex_f"], STATIC["sex"] == "f")
    fitted = StaticFeatures().fit(panel)
    assert_same_but_for_rounding(fitted.transform(panel[3:5]), table[3:5])


def test_clone_pickle_and_file(panel, tmp_path):
    transformer = StaticFeatures().fit(panel)
    expected = transformer.transform(panel)
    transformer.save(tmp_path / "static")
    for again in (
        clone(transformer).fit(panel),
        pickle.loads(pickle.dumps(transformer)),
        skpolyode.load(tmp_path / "static"),
    ):
        np.testing.assert_array_equal(again.transform(panel), expected)


def test_datetimes_and_durations_are_one_feature_each(panel, tmp_path):
    born = pd.Timestamp("1980-01-01") + pd.to_timedelta(STATIC["age"], "D")
    static = STATIC.assign(born=born, stay=pd.to_timedelta(STATIC["age"], "h"))
    dated = Panel.from_series(oscillators(rate=3.0), ids=IDS, static=static)
    transformer = StaticFeatures().fit(dated)
    assert transformer.get_feature_names_out().tolist() == ["age", "born", "stay", "sex_f", "sex_m"]
    features = transformer.transform(dated)
    np.testing.assert_allclose(features[:, [1, 2]], features[:, [0, 0]], atol=1e-9)
    transformer.save(tmp_path / "static")
    np.testing.assert_array_equal(skpolyode.load(tmp_path / "static").transform(dated), features)


def test_in_a_union_it_tells_what_the_series_do_not(panel, no_static_warnings_so_far):
    y = np.arange(12) >= 6  # the age tells
    both = make_union(HiPPOTransformer(n_coefficients=3), StaticFeatures())
    names = both.set_output(transform="pandas").fit_transform(panel).columns
    assert names[0] == "hippotransformer__x0_c0"
    assert names[-1] == "staticfeatures__sex_m"
    both.set_output(transform="default")
    scores = [
        cross_val_score(make_pipeline(features, LogisticRegression()), panel, y, cv=3).mean()
        for features in (both, StaticFeatures())
    ]
    assert min(scores) > 0.8


def test_others_do_not_warn_while_it_is_there(panel, no_static_warnings_so_far):
    union = make_union(HiPPOTransformer(n_coefficients=3), StaticFeatures())
    for copy in (clone(union), pickle.loads(pickle.dumps(union))):
        del union
        copy.fit(panel)
        union = copy
    del union, copy
    with pytest.warns(UserWarning, match="HiPPOTransformer does not use the static covariates"):
        HiPPOTransformer(n_coefficients=3).fit(panel)


def test_without_static_covariates_there_is_nothing_to_say(panel):
    with pytest.raises(ValueError, match="no static covariates with known values: give"):
        StaticFeatures().fit(oscillators())
    transformer = StaticFeatures().fit(panel)
    with pytest.raises(ValueError, match=r"lacks the static covariates \['age', 'sex'\]"):
        transformer.transform(oscillators())
    assert not hasattr(transformer, "stream")
    assert not hasattr(transformer, "inverse_transform")


@pytest.mark.parametrize("name", ["PolyODETransformer", "StaticFeatures"])
def test_a_covariate_of_which_nothing_is_known_is_told_once(panel, name):
    fitted = (small(max_epochs=1) if name == "PolyODETransformer" else StaticFeatures()).fit(panel)
    others = Panel.from_series(oscillators(2), static=STATIC[:2].assign(sex=["F", None]))
    with pytest.warns(UserWarning, match="'sex' is known") as caught:
        fitted.transform(others)
    assert [str(one.message) for one in caught] == [
        "no value of the static covariate 'sex' is known from fit: got 'F', where fit had "
        "['f', 'm'] (2 such values). They count as missing; check how the categories are written."
    ]
    fitted.transform(Panel.from_series(oscillators(2), static=STATIC[:2].assign(sex=["F", "m"])))
    fitted.transform(Panel.from_series(oscillators(2), static=STATIC[:2].assign(sex=[None, None])))
