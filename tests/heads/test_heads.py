"""Classifier and regressor of irregular series."""

from __future__ import annotations

import pickle
from contextlib import nullcontext as nothing

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.ensemble import StackingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import skpolyode
from skpolyode import (
    HiPPOTransformer,
    InterpolationTransformer,
    LegendreFitTransformer,
    Panel,
    PanelImputer,
    PolyODEClassifier,
    PolyODERegressor,
    PolyODETransformer,
)
from skpolyode.heads import MiniRocket, base, features
from skpolyode.heads.contest import spread_folds
from skpolyode.transformers import neural

EMBEDDER = InterpolationTransformer(n_coefficients=12)
OF_A_PATH = set(features.FEATURES) - {"state"}  # without a learned state


def swings(n_series=30, seed=0, rates=(2.0, 3.0)):
    """Two channels of sines, observed apart; the label is their rate."""
    rng = np.random.default_rng(seed)
    y = np.tile(rates, n_series)[:n_series]
    series = []
    for rate in y:
        times = np.sort(rng.uniform(0, rng.uniform(4, 6), 30))
        values = np.sin(rate * times[:, None] + rng.uniform(0, 1) + [0, 2])
        values[rng.random(values.shape) < 0.3] = np.nan
        values[0] = 0.0
        series.append((times, values))
    return series, y


def test_series_of_one_group_are_held_out_together(monkeypatch):
    """Both where heads compete and where the embedder is trained."""
    X, y = swings(24)
    persons = np.arange(24) // 4
    dealt, validating = [], []
    monkeypatch.setattr(base, "_MOST_DEALS", 5)
    deal, hold_out = base.spread_folds, neural.hold_out

    def spied_deal(*arguments, **options):
        dealt.append(deal(*arguments, **options))
        return dealt[-1]

    def spied_hold_out(*arguments):
        split = hold_out(*arguments)
        validating.append(split.held_out)
        return split

    monkeypatch.setattr(base, "spread_folds", spied_deal)
    monkeypatch.setattr(neural, "hold_out", spied_hold_out)
    embedder = PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1)
    model = PolyODEClassifier(embedder, features="summary", cv=3, random_state=0)
    model.fit(X, y, groups=persons)
    for train, test in [fold for deal in dealt for fold in deal]:
        assert not set(persons[train]) & set(persons[test])
    assert len(dealt) == 5
    assert validating[0].sum() == 4
    assert len(set(persons[validating[0]])) == 1
    with pytest.raises(ValueError, match="groups must have one entry for each of the 24 series"):
        model.fit(X, y, groups=persons[1:])


def without_numba(monkeypatch):
    monkeypatch.setattr(features, "has_minirocket", lambda: False)


@pytest.mark.parametrize("kind", ["coefficients", "summary"])
def test_tells_rates_apart(kind):
    X, y = swings(80)
    new, truth = swings(40, seed=1)
    model = PolyODEClassifier(EMBEDDER, features=kind, cv=2, random_state=0).fit(X, y)
    assert model.features_ == kind
    assert model.score(new, truth) > (0.9 if kind == "coefficients" else 0.6)
    chances = model.predict_proba(new)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[chances.argmax(axis=1)], model.predict(new))


def test_the_path_by_minirocket():
    pytest.importorskip("numba")
    X, y = swings(40)
    new, truth = swings(20, seed=1)
    model = PolyODEClassifier(EMBEDDER, features="path", random_state=0).fit(X, y)
    assert model.score(new, truth) > 0.9
    assert isinstance(model.feature_transformer_[-1], MiniRocket)
    assert 32 <= len(model.feature_transformer_[0].grid_) <= 60
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(new), again.predict_proba(new))


def test_minirocket_mapped_into_memory(tmp_path):
    """As joblib hands it to other processes."""
    pytest.importorskip("numba")
    X = np.random.default_rng(0).normal(size=(5, 2, 20))
    rocket = MiniRocket(num_kernels=84, random_state=0).fit(X)
    joblib.dump(rocket, tmp_path / "rocket")
    mapped = joblib.load(tmp_path / "rocket", mmap_mode="r")
    np.testing.assert_array_equal(mapped.transform(X), rocket.transform(X))


def test_minirocket_leaves_the_number_of_threads(monkeypatch):
    """Which numba sets when it starts: from then on, all that torch does would be slower."""
    rocket = pytest.importorskip("sktime.transformations.panel.rocket").MiniRocketMultivariate
    before = torch.get_num_threads()

    def greedy(self, X):
        torch.set_num_threads(before + 1)
        return self

    monkeypatch.setattr(rocket, "fit", greedy)
    monkeypatch.setattr(rocket, "transform", lambda self, X: pd.DataFrame(greedy(self, X) and X))
    model = MiniRocket().fit(np.ones((2, 1, 9)))
    assert torch.get_num_threads() == before
    model.transform(np.ones((2, 9)))
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("cls", [PolyODEClassifier, PolyODERegressor])
def test_auto_takes_the_best_features(cls, monkeypatch):
    without_numba(monkeypatch)
    X, y = swings(40)
    with pytest.warns(UserWarning, match=r"numba.*not installed.*values of the path") as caught:
        model = cls(EMBEDDER, random_state=0, cv=2).fit(X, y)
    assert len(caught) == 1
    assert set(model.cv_scores_) == OF_A_PATH
    assert model.features_ == " + ".join(model.weights_)
    assert model.weights_[max(model.cv_scores_, key=model.cv_scores_.get)] > 0.1
    assert sum(model.weights_.values()) == pytest.approx(1)
    report = model.fit_report_["features"]
    assert report.figures["gain"] > report.figures["standard_error"] > 0
    new, truth = swings(40, seed=1)
    assert model.score(new, truth) > 0.9


@pytest.mark.parametrize("cls", [PolyODEClassifier, PolyODERegressor])
@pytest.mark.parametrize("helps", [True, False])
def test_a_network_is_trained_where_untrained_features_gain(cls, helps, monkeypatch):
    """The label is the rate, or how often a series was observed."""
    quick = {"n_coefficients": 3, "hidden_layer_sizes": (4,), "max_epochs": 1}
    monkeypatch.setattr(base, "PolyODETransformer", lambda: PolyODETransformer(**quick))
    X, y = swings(60)
    if not helps:
        y = np.array([np.isnan(values).sum() for _, values in X], dtype=float)
        y = y > np.median(y) if cls is PolyODEClassifier else y
    with pytest.warns(UserWarning, match="numba") if not features.has_minirocket() else nothing():
        model = cls(cv=2, random_state=0).fit(X, y)
    assert isinstance(model.transformer_, PolyODETransformer if helps else InterpolationTransformer)
    assert ("coefficients" in model.cv_scores_) == ("state" in model.cv_scores_) == helps
    assert "path of lines" in model.cv_scores_
    assert (model.features_ == "summary") == (not helps)
    stages = [decision.stage for decision in model.fit_report_.decisions]
    assert stages == (["probe", "features"] if helps else ["features"])
    unit = "log loss" if cls is PolyODEClassifier else "R²"
    outcome = model.fit_report_["features"].outcome
    assert outcome.endswith(f"of {unit} on statistics")
    assert outcome.startswith("summary 1.00: the others gain") == (not helps)
    assert model.predict(X).shape == (60,)


@pytest.mark.parametrize("kind", ["summary", "memory"])
def test_no_network_is_trained_for_kinds_that_do_not_read_it(kind):
    X, y = swings(30)
    model = PolyODEClassifier(features=kind, random_state=0).fit(X, y)
    assert isinstance(model.transformer_, InterpolationTransformer)
    assert model.fit_report_["features"].outcome == f"{kind} 1.00"


@pytest.mark.parametrize("cls", [PolyODEClassifier, PolyODERegressor])
def test_features_that_say_nothing(cls):
    """Shares still add up to 1, and answers are the shares of the classes, or the mean."""
    rng = np.random.default_rng(3)
    X = [(np.arange(6.0), rng.normal(size=(6, 1))) for _ in range(60)]
    y = np.arange(60) % 3 == 0 if cls is PolyODEClassifier else rng.normal(size=60)
    model = cls(EMBEDDER, features="spectrum", cv=3, random_state=0).fit(X, y)
    assert sum(model.weights_.values()) == pytest.approx(1)
    new = [(np.arange(6.0), rng.normal(size=(6, 1))) for _ in range(40)]
    if cls is PolyODEClassifier:
        assert np.abs(model.predict_proba(new)[:, 1] - 1 / 3).max() < 0.2
    else:
        assert np.abs(model.predict(new) - y.mean()).max() < 0.5


def test_the_learned_state_and_the_spectrum():
    X, y = swings(40)
    quick = PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1)
    model = PolyODEClassifier(quick, features="state", random_state=0).fit(X, y)
    alone = clone(model.transformer_).set_params(embedding="state").fit(X)
    np.testing.assert_array_equal(model.feature_transformer_.transform(X), alone.transform(X))
    assert model.transformer_.transform(X).shape != alone.transform(X).shape
    with pytest.raises(ValueError, match="transformer that learns a state, and InterpolationT"):
        PolyODEClassifier(EMBEDDER, features="state").fit(X, y)
    # Series that are shifted by whole periods of the grid have the same amplitudes.
    times = np.arange(33.0)
    waves = [(times, np.sin(2 * np.pi * 3 * (times + shift) / 33)) for shift in (0.0, 5.0, 11.0)]
    spectrum = PolyODEClassifier(InterpolationTransformer(), features="spectrum", cv=2)
    Z = spectrum.fit(waves * 4, [0, 0, 1] * 4).feature_transformer_.transform(waves)
    np.testing.assert_allclose(Z, Z[:1].repeat(3, axis=0), atol=1e-6)
    assert Z[0].argmax() == 2  # three periods


def test_ties_go_to_the_statistics(monkeypatch):
    without_numba(monkeypatch)
    X, y = swings(12)
    X = [(np.arange(5), np.full((5, 2), rate)) for rate in y]
    with pytest.warns(UserWarning, match="numba"):
        model = PolyODEClassifier(EMBEDDER, head=KNeighborsClassifier(1), cv=2).fit(X, y)
    others = {model.cv_scores_[kind] for kind in ("summary", "memory", "coefficients", "path")}
    assert len(others) == 1
    assert model.features_ == "summary"


def test_summary_statistics_win_where_only_they_know():
    """The label is how often a series was observed."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 40)
    X = [(np.linspace(0, 1, 10 + 10 * k), rng.normal(size=10 + 10 * k)) for k in y]
    model = PolyODEClassifier(LegendreFitTransformer(n_coefficients=4), cv=2).fit(X, y)
    assert set(model.cv_scores_) == {"summary", "memory", "coefficients"}  # it follows no path
    assert model.features_ == "summary"
    assert model.score(X, y) == 1


def waves(n_series=60, apart=0.0, end=(4.0, 6.0)):
    """Waves that end at different times, and what they are at time 3."""
    rng = np.random.default_rng(0)
    series, y = [], []
    for phase in rng.uniform(0, 6, n_series):
        start, last = rng.uniform(0, apart), rng.uniform(*end)
        times = np.append(np.sort(rng.uniform(0, last, 30)), last)
        values = np.sin(2 * times + phase)
        series.append((start + times, np.stack([values, 1e6 + 1e3 * values], axis=1)))
        y.append(np.sin(6 + phase))
    return series, np.array(y)


@pytest.mark.filterwarnings("ignore:MiniRocket needs numba")
@pytest.mark.parametrize("cls", [PolyODEClassifier, PolyODERegressor])
def test_what_belongs_to_a_time_is_told_by_the_clock(cls, monkeypatch):
    """The embedding looks back from the end, and does not know when that is."""
    without_numba(monkeypatch)
    X, y = waves()
    y = np.where(y > 0, "up", "down") if cls is PolyODEClassifier else y
    model = cls(EMBEDDER, cv=2, random_state=0).fit(X[:40], y[:40])
    assert max(model.weights_, key=model.weights_.get) == "clock"
    assert model.cv_scores_["clock"] > model.cv_scores_["coefficients"] + 0.1
    assert model.score(X[40:], y[40:]) > 0.8


@pytest.mark.filterwarnings("ignore:MiniRocket needs numba")
@pytest.mark.parametrize(
    ("setting", "as_dates"),
    [({"apart": 100.0}, False), ({"apart": 100.0}, True), ({"end": (5.0, 5.0)}, False)],
)
def test_dates_and_equal_ends_are_no_clock(setting, as_dates, monkeypatch):
    without_numba(monkeypatch)
    X, y = waves(20, **setting)
    if as_dates:
        X = [(pd.Timestamp("2026-01-05") + pd.to_timedelta(t, unit="h"), x) for t, x in X]
    model = PolyODEClassifier(EMBEDDER, cv=2, random_state=0).fit(X, y > 0)
    assert set(model.cv_scores_) == OF_A_PATH - {"clock"}
    assert model.set_params(features="clock").fit(X, y > 0).features_ == "clock"  # if asked for


@pytest.mark.usefixtures("no_stacking")
def test_the_embedder_learns_once_and_from_the_seed(monkeypatch):
    X, y = swings(8)
    X = [(times[:9], values[:9]) for times, values in X]
    calls = []
    fit = PolyODETransformer.fit
    monkeypatch.setattr(
        PolyODETransformer, "fit", lambda self, *args: calls.append(self) or fit(self, *args)
    )
    small = PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1)
    model = PolyODEClassifier(small, features="coefficients", random_state=3).fit(X, y)
    assert calls == [model.transformer_]
    assert small.random_state is None
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.transformer_.transform(X), model.transformer_.transform(X))
    other = clone(model).set_params(random_state=4).fit(X, y)
    assert not np.allclose(other.transformer_.transform(X), model.transformer_.transform(X))


def test_a_trained_embedder_is_kept():
    X, y = swings(20)
    more, _ = swings(60, seed=1)
    trained = clone(EMBEDDER).fit(more)
    model = PolyODEClassifier(FrozenEstimator(trained), features="coefficients").fit(X, y)
    assert model.transformer_ is trained
    assert trained.window_ == clone(EMBEDDER).fit(more).window_
    with pytest.raises(ValueError, match=r"1 features.*expecting 2"):
        model.fit([(t, x[:, 0]) for t, x in X], y)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        PolyODEClassifier(FrozenEstimator(clone(EMBEDDER)), features="coefficients").fit(X, y)


def test_regressor():
    rates = np.random.default_rng(0).uniform(1, 3, 80)
    X, y = swings(80, rates=rates)
    model = PolyODERegressor(EMBEDDER, features="coefficients", random_state=0)
    model.fit(X[:60], 1000 + 10 * y[:60])
    assert model.score(X[60:], 1000 + 10 * y[60:]) > 0.8
    assert not hasattr(model, "predict_proba")
    linear = clone(model).set_params(head=Ridge()).fit(X, y)
    assert isinstance(linear.head_, Ridge)
    assert linear.cv_scores_ == {}  # there was nothing to choose


@pytest.mark.parametrize("n_series", [1, 3, 5])
def test_regressor_of_few_series(n_series):
    X, y = swings(n_series)
    embedder = LegendreFitTransformer(n_coefficients=4)
    model = PolyODERegressor(embedder, random_state=0).fit(X, y)
    assert bool(model.cv_scores_) == (n_series == 5)
    assert np.isfinite(model.predict(X)).all()


def test_head_of_the_user():
    X, y = swings(20)
    model = PolyODEClassifier(EMBEDDER, features="coefficients", head=LogisticRegression())
    Z = EMBEDDER.fit_transform(X)
    wanted = LogisticRegression().fit(Z, y).predict_proba(Z)
    np.testing.assert_allclose(model.fit(X, y).predict_proba(X), wanted)
    assert model.temperature_ == 1
    assert not hasattr(model.set_params(head=Ridge()).fit(X, y), "predict_proba")


def test_a_head_may_have_its_methods_once_it_is_fitted():
    X, y = swings(20)
    head = StackingClassifier([("ridge", RidgeClassifier())], cv=2)
    assert not hasattr(head, "predict")
    model = PolyODEClassifier(EMBEDDER, features="coefficients", head=head).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), model.head_.predict(EMBEDDER.fit_transform(X)))
    assert model.predict_proba(X).shape == (20, 2)
    with pytest.raises(ValueError, match="'head' parameter of PolyODEClassifier must be an object"):
        clone(model).set_params(head=3).fit(X, y)


def test_a_scoring_that_is_not_known_is_refused_before_training():
    X, y = swings(20)
    with pytest.raises(ValueError, match=r"'scoring' parameter of PolyODEClassifier .* Got 'auc'"):
        PolyODEClassifier(scoring="auc").fit(X, y)


@pytest.mark.filterwarnings("ignore:MiniRocket needs numba")
@pytest.mark.parametrize("scoring", ["neg_log_loss", "roc_auc_ovr", "neg_brier_score"])
def test_scorings_may_read_probabilities(scoring, monkeypatch):
    """Of heads that have none, those that the classifier itself gives."""
    monkeypatch.setattr(features, "has_minirocket", lambda: False)
    X, y = swings(30, rates=(2.0, 3.0, 4.0))
    if scoring == "neg_brier_score":  # of two classes only
        y = y > 2.5
    weights = np.linspace(0.5, 1, 30)
    model = PolyODEClassifier(EMBEDDER, cv=2, scoring=scoring, random_state=0)
    found = model.fit(X, y, sample_weight=weights).cv_scores_
    assert found.keys() == OF_A_PATH
    guess = {"neg_log_loss": -np.log(3), "roc_auc_ovr": 0.5, "neg_brier_score": -2 / 9}[scoring]
    assert all(score > guess for score in found.values())


def test_few_series_are_dealt_out_several_times(monkeypatch):
    monkeypatch.setattr(base, "_MOST_DEALS", 5)
    X, y = swings(60)
    deals = []
    monkeypatch.setattr(
        base, "spread_folds", lambda *a, **k: deals.append(spread_folds(*a, **k)) or deals[-1]
    )
    model = PolyODEClassifier(EMBEDDER, features="coefficients", cv=2, random_state=0)
    for n_series, wanted in ((60, 4), (20, 5)):
        deals.clear()
        model.fit(X[:n_series], y[:n_series])
        assert len(deals) == wanted
        assert len({tuple(deal[0][1]) for deal in deals}) == wanted  # each another one


def test_rare_classes():
    X, y = swings(11, rates=(2.0, 3.0))
    y = np.array(["often"] * 8 + ["twice"] * 2 + ["once"])
    model = PolyODEClassifier(EMBEDDER, features="coefficients", random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["often", "once", "twice"]
    assert model.predict_proba(X).shape == (11, 3)
    lonely = clone(model).fit(X[:2], ["a", "b"])  # nothing can be cross-validated
    assert lonely.cv_scores_ == {}
    assert lonely.predict(X[:2]).tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="one class only, a: PolyODEClassifier needs two"):
        clone(model).fit(X[:2], ["a", "a"])


@pytest.mark.parametrize("kind", [PolyODEClassifier, PolyODERegressor])
@pytest.mark.parametrize(
    "y",
    [
        [1, None, 1, 2],
        [1.0, np.nan, 1.0, np.nan],
        pd.array(["a", pd.NA, "b", "b"]),
        [[1.0], [np.nan]] * 2,
    ],
    ids=["None", "NaN", "NA", "column"],
)
def test_a_missing_target_is_named(kind, y):
    X, _ = swings(4)
    with pytest.raises(ValueError, match="y: series 1 has no target"):
        kind(EMBEDDER, features="coefficients").fit(X, y)


def test_targets_of_another_kind_or_number():
    X, _ = swings(4)
    for kind in (PolyODEClassifier, PolyODERegressor):
        with pytest.raises(ValueError, match=r"one entry for each of the 4 series, got 0"):
            kind(EMBEDDER, features="coefficients").fit(X, [])
    with pytest.raises(ValueError, match="y must be numbers, got 'a': PolyODEClassifier takes lab"):
        PolyODERegressor(EMBEDDER, features="coefficients").fit(X, list("abab"))


def test_default_for_a_series_without_any_observation():
    """The most frequent class, also if its name is shorter than others; the mean of numbers."""
    X, _ = swings(9)
    X[8] = (X[8][0], np.full_like(X[8][1], np.nan))
    panel = Panel.from_series(X, empty="keep")
    labels = np.array(["a", "often", "a", "often", "a", "a", "a", "rarely", "rarely"], dtype=object)
    embedder = LegendreFitTransformer(n_coefficients=4)
    model = PolyODEClassifier(embedder, head=KNeighborsClassifier(1)).fit(panel, labels)
    assert model.predict(panel).tolist() == [*labels[:8], "a"]
    np.testing.assert_array_equal(model.class_prior_, [5 / 8, 2 / 8, 1 / 8])
    np.testing.assert_array_equal(model.predict_proba(panel)[8], model.class_prior_)
    numbers = PolyODERegressor(embedder, random_state=0).fit(panel, np.arange(9.0))
    assert numbers.predict(panel)[8] == numbers.target_mean_ == 3.5


def test_scoring_decides():
    """A score that is best where accuracy is worst turns the choice round."""
    X, y = swings(40)
    embedder = LegendreFitTransformer(n_coefficients=12)  # no path: three kinds to choose from
    head = LogisticRegression(max_iter=1000)
    model = PolyODEClassifier(embedder, head=head, cv=2, random_state=0).fit(X, y)
    assert model.features_ == "memory"

    def errors(head, Z, truth):
        return 1 - head.score(Z, truth)

    contrary = clone(model).set_params(scoring=errors)
    assert contrary.fit(X, y).features_ == "summary"
    with pytest.raises(ValueError, match="The 'scoring' parameter of"):
        clone(model).set_params(scoring="beauty").fit(X, y)
    with pytest.raises(ValueError, match=r"gave \[nan.* for features='summary'.*fewer folds"):
        clone(model).set_params(scoring=lambda head, Z, truth: np.nan).fit(X, y)


@pytest.mark.parametrize("kind", ["coefficients", "summary"])
@pytest.mark.parametrize("embedder", [EMBEDDER, PolyODETransformer(max_epochs=1, random_state=0)])
def test_static_covariates_stand_beside_the_features(kind, embedder):
    X, _ = swings(24)
    y = np.tile([0, 0, 1], 8)
    static = pd.DataFrame({"age": 50 + 10 * y, "ward": np.where(y, "a", "b")})
    panel = Panel.from_series(X, static=static)
    embedder = clone(embedder).set_params(n_coefficients=3)
    model = PolyODEClassifier(embedder, features=kind, cv=2, random_state=0).fit(panel, y)
    assert model.score(panel, y) == 1
    assert model.feature_transformer_.transform(panel)[:, -3:].tolist()[2] == pytest.approx(
        [np.sqrt(2), 1, 0]
    )
    with pytest.raises(ValueError, match=r"X lacks the static covariates \['age', 'ward'\]"):
        model.predict(X)


def test_series_of_any_length_and_order():
    X, y = swings(30)
    model = PolyODEClassifier(EMBEDDER, features="coefficients", random_state=0).fit(X, y)
    odd = [(X[0][0][:1], X[0][1][:1]), X[1], (X[2][0] * 4 + 7, X[2][1])]
    together = model.predict_proba(odd)
    alone = np.concatenate([model.predict_proba([one]) for one in odd])
    np.testing.assert_allclose(together, alone, atol=1e-9)
    with pytest.raises(ValueError, match=r"X has 1 features.*PolyODEClassifier is expecting 2"):
        model.predict([(t, x[:, 0]) for t, x in X])
    with pytest.raises(ValueError, match="one entry for each of the 30 series, got 29"):
        model.fit(X, y[1:])
    assert model.predict(X[:1]).shape == (1,)  # what was fitted before is as it was


def test_inside_searches_and_pipelines():
    X, y = swings(30)
    panel = Panel.from_series(X)
    model = PolyODEClassifier(HiPPOTransformer(), features="coefficients", cv=2)
    search = GridSearchCV(model, {"transformer__n_coefficients": [4, 16]}, cv=2).fit(panel, y)
    assert search.best_params_["transformer__n_coefficients"] in (4, 16)
    assert cross_val_score(model, panel, y, cv=2).mean() > 0.7
    chain = make_pipeline(PanelImputer(EMBEDDER), model).fit(panel, y)
    assert chain.predict(panel).shape == (30,)


@pytest.mark.parametrize("kind", ["coefficients", "clock"])
def test_datetimes(kind):
    X, y = swings(20)
    days = [(pd.Timestamp("2026-01-05") + pd.to_timedelta(t, unit="D"), x) for t, x in X]
    stamped = Panel.from_series(days, time_unit="D")
    model = PolyODEClassifier(EMBEDDER, features=kind, random_state=0)
    found = model.fit(stamped, y).predict_proba(stamped)
    np.testing.assert_allclose(found, clone(model).fit(X, y).predict_proba(X), atol=1e-6)


def test_bad_parameters():
    X, y = swings(8)
    with pytest.raises(
        ValueError, match="of PolyODEClassifier needs a transformer that follows a path, and Leg"
    ):
        PolyODEClassifier(LegendreFitTransformer(), features="path").fit(X, y)
    with pytest.raises(TypeError, match="transformer of PolyODEClassifier must be a transformer"):
        PolyODEClassifier(PanelImputer(EMBEDDER)).fit(X, y)
    with pytest.raises(ValueError, match="The 'features' parameter of PolyODERegressor must be"):
        PolyODERegressor(features="all").fit(X, y)


def test_files(tmp_path):
    X, y = swings(12)
    model = PolyODEClassifier(EMBEDDER, features="coefficients", random_state=0)
    model.save(tmp_path / "model")
    assert repr(skpolyode.load(tmp_path / "model")) == repr(model)
    model.fit(X, y)
    with pytest.raises(TypeError, match=r"fitted PolyODEClassifier cannot be saved.*joblib\.dump"):
        model.save(tmp_path / "model")
    model.transformer_.save(tmp_path / "embedder")
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
