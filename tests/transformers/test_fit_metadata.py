"""What fit is given besides the series: groups, and series that validate."""

from __future__ import annotations

from functools import partial

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


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize("name", TRAINED)
class TestEveryTrainedTransformer:
    def test_others_validate(self, name, monkeypatch):
        tasks, make_task = [], fitting.make_task

        def spied(new_task, embedder, split, *rest):
            tasks.append(split)
            return make_task(new_task, embedder, split, *rest)

        monkeypatch.setattr(stages, "make_task", spied)
        found = clone(TRAINED[name]).fit(SERIES, validation=OTHERS)
        ((panel, held_out),) = tasks
        assert held_out.tolist() == [False] * 12 + [True] * 5
        values = np.concatenate([x for _, x in SERIES])
        np.testing.assert_allclose(found.scaler_.mean, np.nanmean(values, axis=0))
        np.testing.assert_array_equal(panel[-1].values, OTHERS[-1][1])
        # The error of the weights that were kept, by another way.
        assert found.validation_error_ == pytest.approx(-found.score(OTHERS), rel=1e-3)


@pytest.mark.usefixtures("no_stacking")
def test_metadata_is_routed():
    labels = np.tile([0, 1], 6)
    with sklearn.config_context(enable_metadata_routing=True):
        embedder = small().set_fit_request(validation=True)
        model = make_pipeline(embedder, LogisticRegression(max_iter=1000))
        model.fit(Panel.from_series(SERIES), labels, validation=OTHERS)
        assert_same_fit(model[0], small().fit(SERIES, validation=OTHERS))
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
        with pytest.raises(ValueError, match="validation has 1 features"):
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
