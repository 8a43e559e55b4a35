"""One series without an observation does not stop a batch, where it is kept on purpose."""

from __future__ import annotations

import copy
import pickle
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skpolyode import (
    GRUODEBayesTransformer,
    HiPPOTransformer,
    InterpolationTransformer,
    Panel,
    PanelImputer,
    PolyODEClassifier,
    PolyODERegressor,
    Resampler,
)
from tests.closeness import assert_same_but_for_rounding
from tests.quick import no_stacking
from tests.transformers.data import short_oscillators, small
from tests.transformers.registry import all_transformers

SERIES = short_oscillators(6)
NOTHING = ([0.5, 1.0], np.full((2, 2), np.nan))
MIXED = [SERIES[0], NOTHING, *SERIES[1:5], ([], np.empty((0, 2))), SERIES[5]]
KNOWN = np.array([True, False, True, True, True, True, False, True])


def kept(series=MIXED):
    return Panel.from_series(series, empty="keep")


@pytest.fixture(scope="module")
def polyode():
    return small(window=2.0).fit(SERIES)


def test_refused_by_default_and_the_remedy_helps():
    transformer = HiPPOTransformer().fit(SERIES)
    with pytest.raises(ValueError, match=r'pass empty="keep" to Panel, Panel\.') as error:
        transformer.transform(MIXED)
    assert "series 1: all values of its 2 row(s) are NaN" in str(error.value)
    assert "series 6: has no rows" in str(error.value)
    assert np.isnan(transformer.transform(kept())[1]).all()
    table = np.array([[1.0, 2.0, 4.0], [np.nan, np.nan, np.nan]])
    flat = HiPPOTransformer().fit(table[:1])
    with pytest.raises(ValueError, match=r"Panel\.from_array"):
        flat.transform(table)
    assert np.isnan(flat.transform(Panel.from_array(table, empty="keep"))[1]).all()


def test_other_words_are_refused():
    with pytest.raises(ValueError, match=r"empty must be one of 'error', 'keep', got 'drop'"):
        Panel.from_series(MIXED, empty="drop")


@pytest.mark.parametrize("name", all_transformers())
def test_nan_for_it_and_nothing_changes_for_the_others(name):
    transformer = all_transformers()[name]
    with nullcontext() if name == "PolyODETransformer" else no_stacking():
        plain = clone(transformer).fit(SERIES)
        features = clone(transformer).fit(kept()).transform(kept())
    assert_same_but_for_rounding(features[KNOWN], plain.transform(SERIES))
    assert np.isnan(features[~KNOWN]).all()
    nothing = plain.transform(kept([NOTHING]))
    assert nothing.shape == (1, features.shape[1])
    assert np.isnan(nothing).all()


def test_nothing_can_be_learned_from_none():
    with pytest.raises(ValueError, match="no observation in any series: there is nothing to learn"):
        HiPPOTransformer().fit(kept([NOTHING]))


@pytest.mark.parametrize(
    ("method", "times", "relative_to", "n_rows"),
    [
        ("forecast", [5.0, 6.0], None, 4),
        ("forecast", [0.5, 1.0], "end", 0),  # it has no end to count from
        ("interpolate", [0.5, 1.0, 9.0], None, 6),
        ("interpolate", [0.5, -1.0], "start", 0),
        ("interpolate", None, None, 2),
        ("reconstruct", [-0.5, 0.0], "end", 0),
        ("reconstruct", None, None, 0),
    ],
)
def test_answers_at_times(polyode, method, times, relative_to, n_rows):
    arguments = [] if times is None else [times, relative_to]
    whole = getattr(polyode, method)(kept(), *arguments)
    part = getattr(polyode, method)(SERIES, *arguments)
    assert_same_but_for_rounding(whole[KNOWN].values, part.values)
    np.testing.assert_array_equal(whole[KNOWN].times, part.times)
    assert np.isnan(whole[~KNOWN].values).all()
    assert whole[~KNOWN].n_observations == n_rows


def test_scores(polyode):
    assert polyode.score(kept()) == pytest.approx(polyode.score(SERIES), rel=1e-12)
    samples = polyode.score_samples(kept())
    assert_same_but_for_rounding(samples[KNOWN], polyode.score_samples(SERIES))
    assert np.isnan(samples[~KNOWN]).all()
    residuals = polyode.residuals(kept())
    assert_same_but_for_rounding(residuals[KNOWN].values, polyode.residuals(SERIES).values)
    assert np.isnan(residuals[~KNOWN].values).all()


def test_rows_that_hold_nothing_change_no_score():
    """Of a model whose state moves on in steps of its own."""
    with no_stacking():
        model = GRUODEBayesTransformer(hidden_size=4, max_epochs=1, random_state=0).fit(SERIES)
    times = [np.sort([*t, t[0] + 0.37]) for t, _ in SERIES]
    blank = [
        (own, np.insert(x, np.searchsorted(t, t[0] + 0.37), np.nan, axis=0))
        for own, (t, x) in zip(times, SERIES, strict=True)
    ]
    assert model.score(blank) == model.score(SERIES)


@pytest.mark.parametrize("unit", [None, "s"])
def test_a_stream_lets_it_start_later(polyode, unit):
    series = [(pd.to_datetime(np.asarray(t) * 1e9), x) if unit else (t, x) for t, x in MIXED]
    panel = kept(series)
    transformer = small(window=2.0).fit(panel) if unit else polyode
    stream = transformer.stream(panel)
    np.testing.assert_array_equal(stream.n_observations > 0, KNOWN)
    whole = transformer.transform(panel)
    np.testing.assert_allclose(stream.embedding(KNOWN.nonzero()[0]), whole[KNOWN], atol=1e-12)
    times, values = series[2]
    stream.update(times, values, series=np.full(len(times), 1))
    np.testing.assert_allclose(stream.embedding(1), whole[[2]], atol=1e-9)


def test_imputer_and_resampler():
    embedder = InterpolationTransformer()
    imputed = PanelImputer(embedder).fit(kept()).transform(kept())
    assert np.isnan(imputed[~KNOWN].values).all()
    assert not np.isnan(imputed[KNOWN].values).any()
    for relative_to in ("start", "end", None):
        grids = Resampler(embedder, n_points=4, relative_to=relative_to).fit(kept())
        values = grids.transform(kept())
        assert_same_but_for_rounding(values[KNOWN], grids.transform(SERIES))
        assert np.isnan(values[~KNOWN]).all()


def test_classifier_says_what_was_most_frequent():
    labels = np.array(["b", "", "long", "b", "long", "b", "only of nothing", "b"])
    model = PolyODEClassifier(InterpolationTransformer(), features="coefficients", random_state=0)
    model.fit(kept(), labels)
    assert model.classes_.tolist() == ["b", "long"]
    predicted = model.predict(kept())
    np.testing.assert_array_equal(predicted[KNOWN], model.predict(SERIES))
    assert predicted[~KNOWN].tolist() == ["b", "b"]
    chances = model.predict_proba(kept())
    np.testing.assert_allclose(chances[~KNOWN], [[4 / 6, 2 / 6]] * 2)
    assert_same_but_for_rounding(chances[KNOWN], model.predict_proba(SERIES))
    assert model.predict(kept([NOTHING])).tolist() == ["b"]


def test_regressor_says_the_mean():
    target = np.arange(8.0)
    model = PolyODERegressor(InterpolationTransformer(), features="coefficients", random_state=0)
    predicted = model.fit(kept(), target).predict(kept())
    np.testing.assert_allclose(predicted[~KNOWN], target[KNOWN].mean())
    assert_same_but_for_rounding(predicted[KNOWN], model.predict(SERIES))


def test_what_was_kept_stays_kept():
    panel = kept()
    alone = panel[~KNOWN]
    joined = Panel.concat([Panel.from_series(SERIES), alone], ids=range(8))
    transformer = HiPPOTransformer().fit(SERIES)
    for own in (panel, alone, joined, copy.deepcopy(panel), pickle.loads(pickle.dumps(panel))):
        features = transformer.transform(own)
        np.testing.assert_array_equal(np.isnan(features).all(axis=1), np.isin(own.lengths, [0, 2]))
