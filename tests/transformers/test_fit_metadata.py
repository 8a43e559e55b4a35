"""What fit is told besides the series: weights, and series that validate."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skpolyode import Panel
from skpolyode.embedders import fitting
from skpolyode.transformers import stages
from skpolyode.transformers.neural import NeuralTransformer
from tests.quick import until_training, with_usual_epochs
from tests.transformers.data import short_oscillators
from tests.transformers.data import small as usual
from tests.transformers.registry import all_transformers

small = partial(usual, max_epochs=1)  # nothing here depends on how well is learned
SERIES = short_oscillators(12, seed=5)  # each of the transformers learns something in an epoch
OTHERS = short_oscillators(5, seed=7)
TRAINED = {
    name: transformer
    for name, transformer in all_transformers().items()
    if isinstance(transformer, NeuralTransformer)
}


def weights_of(fitted):
    return [p.detach().numpy() for p in fitted.embedder_.model.parameters()]


def assert_same_fit(one, other):
    assert one.validation_error_ == other.validation_error_
    for a, b in zip(weights_of(one), weights_of(other), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (one.scaler_.mean == other.scaler_.mean).all()
    assert one.time_scale_ == other.time_scale_


@cache
def plain_fit(name):
    return clone(TRAINED[name]).fit(SERIES)


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize("name", TRAINED)
class TestEveryTrainedTransformer:
    def test_series_without_weight_are_left_out(self, name):
        weight = np.array([1, 0, 2, 1, 3, 1, 0, 1, 1, 0.5, 1, 1])
        some = [pair for pair, w in zip(SERIES, weight, strict=True) if w]
        found = clone(TRAINED[name]).fit(SERIES, sample_weight=weight)
        assert_same_fit(found, clone(TRAINED[name]).fit(some, sample_weight=weight[weight > 0]))

    def test_equal_weights_are_none(self, name):
        found = clone(TRAINED[name]).fit(SERIES, sample_weight=np.full(12, 3e-5))
        assert_same_fit(found, plain_fit(name))

    def test_weights_change_what_is_learned(self, name):
        found = clone(TRAINED[name]).fit(SERIES, sample_weight=np.arange(1.0, 13))
        plain = plain_fit(name)
        differs = zip(weights_of(found), weights_of(plain), strict=True)
        assert any((a != b).any() for a, b in differs)
        assert (found.scaler_.mean == plain.scaler_.mean).all()

    def test_others_validate(self, name, monkeypatch):
        tasks, make_task = [], fitting.make_task

        def spied(new_task, embedder, split, *rest):
            tasks.append(split)
            return make_task(new_task, embedder, split, *rest)

        monkeypatch.setattr(stages, "make_task", spied)
        found = clone(TRAINED[name]).fit(SERIES, validation=OTHERS)
        ((panel, held_out, _),) = tasks
        assert held_out.tolist() == [False] * 12 + [True] * 5
        values = np.concatenate([x for _, x in SERIES])
        np.testing.assert_allclose(found.scaler_.mean, np.nanmean(values, axis=0))
        np.testing.assert_array_equal(panel[-1].values, OTHERS[-1][1])
        # The error of the weights that were kept, by another way.
        assert found.validation_error_ == pytest.approx(-found.score(OTHERS), rel=1e-3)


@pytest.mark.usefixtures("no_stacking")
def test_heavier_series_are_learned_better():
    """Two kinds of series of opposite motion: the one that counts more wins."""
    times = np.arange(9.0)
    series = [(times, times * (-1) ** k + 0.1 * k) for k in range(20)]
    options = {"validation_fraction": None, "max_epochs": 8, "horizon": 1}
    errors = []
    for heavy in (0, 1):
        weight = np.where(np.arange(20) % 2 == heavy, 1.0, 1e-3)
        fitted = small(**options).fit(series, sample_weight=weight)
        errors.append([-fitted.score(series[k::2]) for k in (0, 1)])
    assert errors[0][0] < errors[1][0]
    assert errors[1][1] < errors[0][1]


@pytest.mark.usefixtures("no_stacking")
def test_the_validation_error_is_weighted():
    weight = np.ones(12)
    weight[:3] = 5.0
    quick = small()
    fitted = clone(quick).fit(SERIES, sample_weight=weight)
    plain = clone(quick).fit(SERIES)
    first = [own.history_[0]["validation_error"] for own in (fitted, plain)]
    assert first[0] == pytest.approx(first[1], rel=1e-6)
    # One series validates here; of several, each counts as its weight says.
    quick.set_params(validation_fraction=0.5)
    fitted = clone(quick).fit(SERIES, sample_weight=weight)
    plain = clone(quick).fit(SERIES)
    first = [own.history_[0]["validation_error"] for own in (fitted, plain)]
    assert first[0] != pytest.approx(first[1], rel=1e-3)


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
        small().fit(SERIES, sample_weight=weight)


@pytest.mark.usefixtures("no_stacking")
def test_weights_of_nothing():
    panel = Panel.from_series([([0.0], [[np.nan, np.nan]]), *SERIES], empty="keep")
    found = small().fit(panel, sample_weight=[9, *np.arange(1, 13)])
    assert_same_fit(found, small().fit(SERIES, sample_weight=np.arange(1, 13)))
    with pytest.raises(ValueError, match="sample_weight is zero for every series that has an obs"):
        small().fit(panel, sample_weight=[1] + [0] * 12)


@pytest.mark.usefixtures("no_stacking")
def test_extreme_weights():
    for weight in ([1e300] + [1e-300] * 11, [5e-324] * 11 + [1.0], 1e300 * np.arange(1, 13)):
        fitted = small().fit(SERIES, sample_weight=weight)
        assert np.isfinite(fitted.transform(SERIES)).all()
        assert np.isfinite(fitted.validation_error_)


def test_weights_follow_the_parts_of_long_series(monkeypatch):
    splits, make_task = [], fitting.make_task

    def spied(new_task, embedder, split, *rest):
        splits.append(split)
        return make_task(new_task, embedder, split, *rest)

    monkeypatch.setattr(stages, "make_task", spied)
    series = [(np.arange(n, dtype=float), np.full(n, float(k))) for k, n in enumerate((900, 500))]
    with until_training():
        small().fit(series, sample_weight=[1.0, 4.0])
    ((panel, held_out, weights),) = splits
    assert panel.n_series > 4
    assert held_out.any()
    level = panel.values[panel.offsets[:-1], 0]
    np.testing.assert_array_equal(weights, np.where(level == 0, 0.25, 1.0))


@pytest.mark.usefixtures("no_stacking")
def test_weights_of_parts_that_are_drawn(monkeypatch):
    """Epochs that go through some of the series: each part has its own weights."""
    monkeypatch.setattr(stages, "LARGEST_EPOCH", 40)
    found = small(max_epochs="auto").set_params(learning_rate_init=1e-9)
    monkeypatch.setattr(type(found), "stages", with_usual_epochs(found.stages, 2))
    levels = np.arange(12.0)
    series = [(t, np.full_like(t, k)) for k, (t, _) in zip(levels, SERIES, strict=True)]
    seen, new_task = [], type(found)._new_task

    def spied(self, model, data, held_out):
        seen.append(data)
        return new_task(self, model, data, held_out)

    monkeypatch.setattr(type(found), "_new_task", spied)
    found.fit(series, sample_weight=1 + levels)
    (data,) = seen
    own = found.scaler_.inverse(data.x.double().numpy())[:, 0]
    np.testing.assert_allclose(data.weight.numpy(), (1 + own) / 12, atol=1e-5)


@pytest.mark.usefixtures("no_stacking")
def test_metadata_is_routed():
    labels = np.tile([0, 1], 6)
    with sklearn.config_context(enable_metadata_routing=True):
        embedder = small().set_fit_request(sample_weight=True, validation=True)
        model = make_pipeline(embedder, LogisticRegression(max_iter=1000))
        model[-1].set_fit_request(sample_weight=False).set_score_request(sample_weight=False)
        weight = np.arange(12.0)
        model.fit(Panel.from_series(SERIES), labels, sample_weight=weight, validation=OTHERS)
        expected = small().fit(SERIES, sample_weight=weight, validation=OTHERS)
        assert_same_fit(model[0], expected)
        model[0].set_fit_request(sample_weight=False)
        search = GridSearchCV(model, {"polyodetransformer__n_coefficients": [2]}, cv=2)
        # Of another length than X, or a search would cut it like X.
        search.set_params(error_score="raise", scoring="accuracy")
        search.fit(Panel.from_series(SERIES), labels, validation=OTHERS)


class TestValidation:
    @pytest.mark.usefixtures("no_stacking")
    def test_channels_are_aligned_by_name(self):
        frames = [pd.DataFrame(x, index=t, columns=["a", "b"]) for t, x in SERIES]
        others = [pd.DataFrame(x, index=t, columns=["a", "b"]) for t, x in OTHERS]
        turned = [frame[["b", "a"]] for frame in others]
        one, other = (small().fit(frames, validation=v) for v in (others, turned))
        assert_same_fit(one, other)
        with pytest.raises(ValueError, match=r"validation has the channels \['a', 'c'\], but"):
            small().fit(frames, validation=[f.set_axis(["a", "c"], axis=1) for f in others])
        with pytest.raises(ValueError, match="validation has 1 channels"):
            small().fit(SERIES, validation=[(t, x[:, 0]) for t, x in OTHERS])

    def test_groups_do_not_go_with_it(self):
        with pytest.raises(ValueError, match="give one of the two"):
            small().fit(SERIES, validation=OTHERS, groups=np.arange(12))

    @pytest.mark.parametrize(
        ("others", "message"),
        [
            ([([0.0], [[1.0, 2.0]])], "validation has no series with two observations or more"),
            ([], "validation"),
            ([([0.0, 1.0], [[1.0, 2.0], [np.inf, 1.0]])], "validation: series 0"),
            (
                [([0.0, 1.0], [[1e9, 2e9], [3e9, 4e9]])],
                "validation: series 0.*far from those of fit",
            ),
            ([([0.0, 1e-200], [[1.0, 2.0], [1.0, 1.0]])], "validation: series 0.*less than 1e-50"),
        ],
    )
    def test_faults_are_of_validation(self, others, message):
        embedder = small()
        with pytest.raises(ValueError, match=message):
            embedder.fit(SERIES, validation=others)
        assert not hasattr(embedder, "embedder_")

    @pytest.mark.usefixtures("no_stacking")
    def test_faulty_cells_are_not_observed(self):
        faulty, blank = ([(t, x.copy()) for t, x in OTHERS] for _ in range(2))
        faulty[0][1][2, 1], blank[0][1][2, 1] = 1e200, np.nan
        with pytest.warns(UserWarning, match="validation: series 0.*1e\\+200 is far from all"):
            one = small().fit(SERIES, validation=faulty)
        assert_same_fit(one, small().fit(SERIES, validation=blank))

    @pytest.mark.usefixtures("no_stacking")
    def test_series_without_observations_are_left_out(self):
        nothing = ([0.0], [[np.nan, np.nan]])
        panel = Panel.from_series([nothing, *OTHERS], empty="keep")
        one, other = (small().fit(SERIES, validation=v) for v in (OTHERS, panel))
        assert_same_fit(one, other)

    @pytest.mark.usefixtures("no_stacking")
    def test_times_of_days(self):
        start = pd.Timestamp("2024-01-01", tz="Europe/Paris")
        days = [[(start + pd.to_timedelta(t, "D"), x) for t, x in own] for own in (SERIES, OTHERS)]
        series, others = (Panel.from_series(own, time_unit="D") for own in days)
        one, other = small().fit(SERIES, validation=OTHERS), small().fit(series, validation=others)
        assert one.validation_error_ == pytest.approx(other.validation_error_, rel=1e-4)
        with pytest.raises(ValueError, match="the times of validation are in plain numbers"):
            small().fit(series, validation=OTHERS)

    @pytest.mark.usefixtures("no_stacking")
    def test_static_covariates(self):
        own = pd.DataFrame({"age": range(12), "ward": list("abcabcabcabc")})
        panel = Panel.from_series(SERIES, static=own)
        table = pd.DataFrame({"ward": list("abxab"), "more": 1, "age": [0.5, 2, 3, np.nan, 5]})
        fitted = small().fit(panel, validation=Panel.from_series(OTHERS, static=table))
        assert fitted.embedder_.static.names == ["age", "ward_a", "ward_b", "ward_c"]
        lacking = Panel.from_series(OTHERS, static=table[["ward"]])
        with pytest.raises(ValueError, match=r"validation lacks the static covariates \['age'\]"):
            small().fit(panel, validation=lacking)
        small().fit(SERIES, validation=Panel.from_series(OTHERS, static=table))

    @pytest.mark.usefixtures("no_stacking")
    def test_arrays(self):
        rng = np.random.default_rng(0)
        X, V = rng.normal(size=(8, 6)), rng.normal(size=(3, 6))
        small().fit(X, validation=V)
        with pytest.raises(ValueError, match="5 features"):
            small().fit(X, validation=V[:, :5])

    def test_forecasts_lean_as_it_teaches(self):
        """Rows that repeat for ever, or never: weights of simple forecasts differ."""
        times = np.arange(8.0)
        still = [(times, np.full((8, 2), k / 5)) for k in range(5)]
        one, other = (small().fit(SERIES, validation=v) for v in (OTHERS, still))
        weights = [fitted.embedder_.stacking.weights for fitted in (one, other)]
        assert weights[0].shape != weights[1].shape or not np.allclose(*weights)

    @pytest.mark.usefixtures("no_stacking")
    def test_early_stopping_listens_to_it(self, monkeypatch):
        """Also without a fraction to hold out, which would train through all epochs."""
        found, trainer = [], stages.Trainer

        def spied(**settings):
            found.append(settings["patience"])
            return trainer(**settings)

        monkeypatch.setattr(stages, "Trainer", spied)
        for told in ({}, {"validation": OTHERS}):
            small(validation_fraction=None).fit(SERIES, **told)
        assert found == [None, 10]
