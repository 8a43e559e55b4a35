"""Weights of series and classes, and several targets at once."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpolyode import HiPPOTransformer, PolyODEClassifier, PolyODERegressor
from skpolyode.panel import Panel
from tests.transformers.data import small

RNG = np.random.default_rng(0)
LEVEL = RNG.normal(size=60)
SERIES = [(np.arange(4.0), np.column_stack([k + 0.1 * RNG.normal(size=4)] * 2)) for k in LEVEL]
RARE = (LEVEL + 0.6 * RNG.normal(size=60) > 1.0).astype(int)


def embedder():
    return HiPPOTransformer(n_coefficients=2)


def classifier(**parameters):
    return PolyODEClassifier(embedder(), features="coefficients", random_state=0, **parameters)


def regressor(**parameters):
    return PolyODERegressor(embedder(), features="coefficients", random_state=0, **parameters)


def test_weights_reach_the_head():
    """They are those of the head itself, of which the largest is 1."""
    weights = RNG.integers(1, 4, 60)
    model = regressor(head=Ridge()).fit(SERIES, LEVEL**2, sample_weight=weights)
    Z = model.transformer_.transform(SERIES)
    wanted = Ridge().fit(Z, LEVEL**2, sample_weight=weights / weights.max())
    np.testing.assert_allclose(model.head_.coef_, wanted.coef_)
    assert np.abs(wanted.coef_ - Ridge().fit(Z, LEVEL**2).coef_).max() > 1e-3


@pytest.mark.parametrize("features", ["coefficients", "path", "summary", "clock"])
def test_every_default_head_takes_weights(features):
    weights = RNG.uniform(0.5, 2, 60)
    for model, y in ((PolyODEClassifier, RARE), (PolyODERegressor, LEVEL)):
        own = model(embedder(), features=features, cv=2, random_state=0)
        if features in ("path", "clock"):
            own.set_params(transformer=small(max_epochs=1))
        assert own.fit(SERIES, y, sample_weight=weights).predict(SERIES[:3]).shape == (3,)


def test_balanced_classes_find_the_rare_one():
    head = make_pipeline(StandardScaler(), LogisticRegression(C=0.05))
    plain, balanced = (
        classifier(head=head, class_weight=how).fit(SERIES, RARE) for how in (None, "balanced")
    )
    found, more = (model.predict(SERIES)[RARE == 1].mean() for model in (plain, balanced))
    assert more > found
    told = classifier(head=head, class_weight={0: 1.0, 1: (60 - RARE.sum()) / RARE.sum()})
    share = told.fit(SERIES, RARE).predict_proba(SERIES)[:, 1].mean()
    assert share > plain.predict_proba(SERIES)[:, 1].mean()


SCALED = make_pipeline(StandardScaler(), Ridge())


@pytest.mark.parametrize(
    ("features", "head"),
    [("coefficients", None), ("summary", None), ("path", None), ("coefficients", SCALED)],
)
def test_a_series_of_weight_zero_changes_nothing(features, head):
    """However far its values and its target are from all others; nor does its class."""
    far = [(np.arange(9.0), np.full((9, 2), 1e3)), (np.arange(40.0), np.full((40, 2), -1e3))]
    given = [far[0], *SERIES[:30], far[1]]
    weights = np.r_[0, np.tile([1.0, 2.0], 15), 0]
    embedder = HiPPOTransformer(n_coefficients=2) if features != "path" else small(max_epochs=1)
    known = {"features": features, "cv": 2, "n_cuts": 2, "random_state": 0}
    model = PolyODERegressor(embedder, head=head, **known)
    alone = clone(model).fit(SERIES[:30], LEVEL[:30], sample_weight=weights[1:-1])
    model.fit(given, np.r_[1e6, LEVEL[:30], 1e6], sample_weight=weights)
    assert model.target_mean_ == alone.target_mean_
    np.testing.assert_array_equal(model.predict(SERIES), alone.predict(SERIES))
    paths = (one.predict_path(SERIES[:3]).values for one in (model, alone))
    np.testing.assert_array_equal(*paths)
    if head is not None:
        return
    model, label = PolyODEClassifier(embedder, **known), np.where(LEVEL[:30] > 0, "up", "down")
    alone = clone(model).fit(SERIES[:30], label, sample_weight=weights[1:-1])
    model.fit(given, ["far", *label, "far"], sample_weight=weights)
    assert model.classes_.tolist() == ["down", "far", "up"]
    known, wanted = (one.predict_proba(SERIES) for one in (model, alone))
    np.testing.assert_array_equal(known[:, [0, 2]], wanted)
    np.testing.assert_array_equal(known[:, 1], 0.0)
    known, wanted = (one.predict_proba_path(SERIES[:3]).values for one in (model, alone))
    np.testing.assert_array_equal(known[:, [0, 2]], wanted)


@pytest.mark.parametrize("features", ["coefficients", "path"])
def test_a_series_of_hardly_any_weight_changes_hardly_anything(features):
    """Scalers of targets and features have the weights, as the head has (a tree isolates it)."""
    weights = np.r_[np.ones(30), 1e-9]
    embedder = HiPPOTransformer(n_coefficients=2) if features != "path" else small(max_epochs=1)
    model = PolyODERegressor(embedder, features=features, cv=2, random_state=0)
    model.fit([*SERIES[:30], SERIES[30]], np.r_[LEVEL[:30], 1e4], sample_weight=weights)
    assert np.abs(model.predict(SERIES) - LEVEL).max() < 2.5
    assert model.target_mean_ == pytest.approx(LEVEL[:30].mean(), abs=1e-6)


def test_steps_before_the_head_have_the_weights():
    """A weight of two is two such series, for a scaler as well."""
    weights = RNG.integers(1, 3, 60)
    twice = np.repeat(np.arange(60), weights)
    model = regressor(head=SCALED).fit(SERIES, LEVEL, sample_weight=weights)
    Z = model.transformer_.transform(SERIES)
    wanted = StandardScaler().fit(Z[twice])
    np.testing.assert_allclose(model.head_[0].mean_, wanted.mean_)
    default = regressor().fit(SERIES, LEVEL, sample_weight=weights)
    support_vectors = default.head_.heads_[0]
    assert support_vectors.scaler_.mean_[0] == pytest.approx(LEVEL[twice].mean())
    assert default.target_mean_ == pytest.approx(LEVEL[twice].mean())
    assert support_vectors.scaler_.scale_[0] == pytest.approx(LEVEL[twice].std())


@pytest.mark.parametrize("head", [None, LogisticRegression()])
def test_a_class_of_weight_zero_has_no_probability(head):
    level = np.digitize(LEVEL, [-0.5, 0.5])
    model = classifier(head=head, n_cuts=2, class_weight={0: 1.0, 1: 0.0, 2: 1.0})
    given = model.fit(SERIES, level).predict_proba(SERIES)
    assert given.shape == (60, 3)
    np.testing.assert_array_equal(given[:, 1], 0.0)
    np.testing.assert_allclose(given.sum(axis=1), 1.0)
    assert model.class_prior_[1] == 0.0
    np.testing.assert_array_equal(model.predict_proba_path(SERIES[:3]).values[:, 1], 0.0)
    of_both = classifier(head=head).fit(
        [SERIES[k] for k in np.flatnonzero(level != 1)], level[level != 1]
    )
    agree = of_both.predict(SERIES) == model.predict(SERIES)
    assert agree[level != 1].all()
    only = classifier(head=head, n_cuts=2, class_weight={0: 1.0, 1: 0.0}).fit(SERIES, RARE)
    np.testing.assert_array_equal(only.predict_proba(SERIES), [[1.0, 0.0]] * 60)
    np.testing.assert_array_equal(only.predict(SERIES), 0)
    np.testing.assert_array_equal(only.predict_proba_path(SERIES[:1]).values[:, 0], 1.0)


def test_priors_are_weighted():
    weights = np.where(RARE == 1, 3.0, 1.0)
    model = classifier(head=LogisticRegression()).fit(SERIES, RARE, sample_weight=weights)
    share = 3 * RARE.sum() / weights.sum()
    np.testing.assert_allclose(model.class_prior_, [1 - share, share])


def test_weights_of_nothing_but_series_without_an_observation_are_refused():
    nothing = (np.arange(2.0), np.full((2, 2), np.nan))
    panel = Panel.from_series([nothing, *SERIES], empty="keep")
    with pytest.raises(ValueError, match="zero for every series that has an observation"):
        regressor().fit(panel, np.r_[0.0, LEVEL], sample_weight=np.r_[1, np.zeros(60)])


def test_a_head_without_weights_says_so():
    with pytest.raises(ValueError, match="KNeighborsClassifier takes no sample_weight"):
        classifier(head=KNeighborsClassifier()).fit(SERIES, RARE, sample_weight=np.ones(60))
    with pytest.raises(ValueError, match="sample_weight must have one entry for each"):
        classifier().fit(SERIES, RARE, sample_weight=np.ones(3))


def several(kind, one):
    """Of scikit-learn, around one on a transformer that is fitted already."""
    frozen = FrozenEstimator(embedder().fit(SERIES))
    return kind(one.set_params(transformer=frozen))


def test_several_numbers_at_once():
    y = np.column_stack([LEVEL, -2 * LEVEL + 1, RNG.normal(size=60)])
    model = several(MultiOutputRegressor, regressor()).fit(SERIES, y)
    assert model.predict(SERIES).shape == (60, 3)
    alone = regressor().fit(SERIES, y[:, 1])
    np.testing.assert_allclose(model.predict(SERIES)[:, 1], alone.predict(SERIES))
    assert len({id(one.transformer_) for one in model.estimators_}) == 1
    assert model.score(SERIES, y) > 0.6
    with pytest.raises(ValueError, match=r"MultiOutputRegressor.*FrozenEstimator\(transformer\)"):
        regressor().fit(SERIES, y)
    with pytest.raises(TypeError, match="a fitted PolyODERegressor cannot be saved"):
        alone.save("anything")


def test_several_labels_at_once():
    y = np.column_stack([RARE, LEVEL > 0]).astype(int)
    one = classifier(head=LogisticRegression())
    model = several(MultiOutputClassifier, one).fit(Panel.from_series(SERIES), y)
    assert model.predict(SERIES).shape == (60, 2)
    first, second = model.predict_proba(SERIES)
    assert first.shape == second.shape == (60, 2)
    share = (model.predict(SERIES) == y).all(axis=1).mean()
    assert model.score(SERIES, y) == pytest.approx(share)
    assert share > 0.8
    with pytest.raises(ValueError, match=r"MultiOutputClassifier.*FrozenEstimator\(transformer\)"):
        classifier().fit(SERIES, y)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(11), "sample_weight must have one entry for each of the 12 series"),
        (np.ones((12, 2)), "sample_weight must have one entry for each of the 12 series"),
        (2.0, "sample_weight must have one entry for each of the 12 series"),
        ([1.0] * 11 + [np.nan], "series 11 has no weight"),
        ([1.0] * 11 + [-1.0], r"sample_weight of series 11 \(id 11\) is -1 .* of 0 or more"),
        ([np.inf] * 2 + [1.0] * 10, r"sample_weight of series 0 \(id 0\) is inf \(2 such series\)"),
        (np.zeros(12), "sample_weight is zero for all series"),
        (["heavy"] * 12, "sample_weight must hold one number for each series"),
        (pd.array([1, pd.NA] * 6, dtype="Int64"), "sample_weight"),
    ],
)
def test_weights_are_checked(weight, message):
    with pytest.raises(ValueError, match=message):
        regressor(head=Ridge()).fit(SERIES[:12], LEVEL[:12], sample_weight=weight)


@pytest.mark.parametrize(
    ("name", "message"),
    [("y", "no target"), ("sample_weight", "no weight"), ("groups", "no label")],
)
def test_what_is_masked_is_missing(name, message):
    """numpy forgets a mask without a word; what stands behind it is no target."""
    given = {"y": LEVEL, "sample_weight": np.ones(60), "groups": np.arange(60)}
    given[name] = np.ma.array(given[name], mask=np.arange(60) == 3)
    with pytest.raises(ValueError, match=f"{name}: series 3 has {message} .1 such series"):
        regressor(head=Ridge()).fit(SERIES, **given)
    targets, given[name] = given["y"], np.ma.array(given[name].data, mask=False)
    model = regressor(head=Ridge()).fit(SERIES, **given)
    if name == "y":
        with pytest.raises(ValueError, match="y: series 3 has no target"):
            model.score(SERIES, targets)


@pytest.mark.parametrize(
    "config",
    [
        {"enable_metadata_routing": True},
        {"transform_output": "pandas"},
        {"transform_output": "polars"},
    ],
    ids=lambda config: next(iter(config)) + str(next(iter(config.values()))),
)
def test_options_of_scikit_learn_for_users_do_not_reach_the_parts_of_an_estimator(config):
    groups, weights = np.arange(60) // 2, np.linspace(1, 2, 60)
    given = {"sample_weight": weights, "groups": groups}
    head = make_pipeline(StandardScaler(), LogisticRegression())
    models = [
        (classifier(n_cuts=2, class_weight="balanced", cv=2), RARE),
        (classifier(n_cuts=2, head=head), RARE),
        (regressor(n_cuts=2, cv=2), LEVEL),
    ]
    for model, y in models:
        along = "predict_proba_path" if y is RARE else "predict_path"
        expected = model.fit(SERIES, y, **given)
        with sklearn.config_context(**config):
            found = clone(model).fit(SERIES, y, **given)
            answers = found.predict(SERIES), getattr(found, along)(SERIES).values
        np.testing.assert_array_equal(answers[0], expected.predict(SERIES))
        np.testing.assert_array_equal(answers[1], getattr(expected, along)(SERIES).values)


@pytest.mark.parametrize("size", [1e200, -1e200, 1e-200])
def test_targets_whose_squares_are_no_numbers_are_refused(size):
    with pytest.raises(ValueError, match=re.escape(f"y reaches {abs(size):g}, ")):
        regressor().fit(SERIES, size * RNG.uniform(0.5, 1.0, 60).round(0).clip(1))
    assert regressor().fit(SERIES, np.zeros(60)).predict(SERIES[:1]).item() == 0.0
