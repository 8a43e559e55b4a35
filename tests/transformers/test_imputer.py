"""PanelImputer: what was observed stays, everything else is filled, in the same container."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import skpolyode
from skpolyode import (
    HiPPOTransformer,
    InterpolationTransformer,
    Panel,
    PanelImputer,
    PolyODETransformer,
    SummaryStatsTransformer,
)
from skpolyode.transformers import neural
from tests.fits import train_once
from tests.transformers.data import short_oscillators, small
from tests.transformers.test_sklearn_checks import UNLISTED

LINEAR = PanelImputer(InterpolationTransformer(n_coefficients=4))
LEARNED = PanelImputer(small(n_coefficients=3, max_epochs=1))
both = pytest.mark.parametrize("imputer", [LINEAR, LEARNED], ids=["linear", "learned"])


TRAINED: dict[bytes, bytes] = {}


@pytest.mark.usefixtures("no_stacking")
@parametrize_with_checks([LINEAR, LEARNED])
def test_scikit_learn_check(estimator, check, monkeypatch):
    if check.func is not estimator_checks.check_fit_idempotent:
        train_once(monkeypatch, PolyODETransformer, "_fit", TRAINED)
    check(estimator)


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.filterwarnings("ignore:X .*feature names:UserWarning")
@pytest.mark.parametrize("check", UNLISTED)
def test_unlisted_check(check):
    getattr(estimator_checks, check)("PanelImputer", clone(LINEAR))


def holes(shape, seed=0, share=0.4):
    rng = np.random.default_rng(seed)
    X = np.sin(np.arange(shape[1])[:, None] / 2 + rng.uniform(0, 6, (shape[0], 1, 1)))
    X = X + np.zeros(shape)
    X[rng.random(shape) < share] = np.nan
    X[:, 2] = 0.1 + 0.2  # somewhere in the middle, a number that rounding would change
    return X


@pytest.mark.usefixtures("no_stacking")
@both
class TestContainers:
    def test_panel(self, imputer):
        panel = Panel.from_series(short_oscillators(), ids=[f"s{k}" for k in range(12)])
        found = clone(imputer).fit_transform(panel)
        observed = ~np.isnan(panel.values)
        assert isinstance(found, Panel)
        assert found.ids.tolist() == panel.ids.tolist()
        np.testing.assert_array_equal(found.times, panel.times)
        np.testing.assert_array_equal(found.values[observed], panel.values[observed])
        assert np.isfinite(found.values).all()
        assert np.isnan(panel.values).any()

    def test_three_dimensional_array(self, imputer):
        X = holes((6, 9, 2))
        X[1, 6:] = np.nan  # padding
        X[2, :2] = np.nan  # rows before the first observation
        X[3, 4] = np.nan  # a row in the middle
        X[4, :, 1] = np.nan  # a channel that is never observed
        before = X.copy()
        found = clone(imputer).fit_transform(X)
        np.testing.assert_array_equal(X, before)
        assert found.shape == X.shape
        assert found.flags.writeable
        np.testing.assert_array_equal(found[~np.isnan(X)], X[~np.isnan(X)])
        assert np.isfinite(found).all()
        other = clone(imputer).fit(X).transform(X[:, :7])  # of another length
        assert other.shape == (6, 7, 2)

    def test_table(self, imputer):
        names = [f"day{k}" for k in range(5)]
        X = pd.DataFrame(holes((6, 5, 1))[..., 0], columns=names)
        found = clone(imputer).fit_transform(X)
        assert isinstance(found, np.ndarray)
        years = clone(imputer).fit_transform(X.set_axis(range(2001, 2006), axis=1))
        np.testing.assert_array_equal(years, found)
        table = clone(imputer).set_output(transform="pandas").fit_transform(X)
        assert table.columns.tolist() == names
        assert table.notna().all(axis=None)
        observed = X.notna().to_numpy()
        np.testing.assert_array_equal(table.to_numpy()[observed], X.to_numpy()[observed])

    def test_lists_become_panels(self, imputer):
        series = short_oscillators()
        found = clone(imputer).fit(series).transform(series[:3])
        assert isinstance(found, Panel)
        assert np.isfinite(found.values).all()
        # a table is asked for, but a panel is none
        imputer = clone(imputer).set_output(transform="pandas").fit(series)
        assert isinstance(imputer.transform(series), Panel)
        assert not hasattr(imputer, "get_feature_names_out")

    def test_what_is_complete_stays(self, imputer):
        X = np.random.default_rng(0).normal(size=(4, 6, 2))
        np.testing.assert_array_equal(clone(imputer).fit_transform(X), X)

    def test_batch_mates_do_not_matter(self, imputer):
        X = holes((6, 9, 2))
        imputer = clone(imputer).fit(X)
        whole = imputer.transform(X)
        np.testing.assert_allclose(imputer.transform(X[[4, 1]]), whole[[4, 1]], atol=1e-9)

    def test_saved_and_loaded(self, imputer, tmp_path):
        X = holes((6, 9, 2))
        imputer = clone(imputer).fit(X)
        imputer.save(tmp_path / "imputer")
        again = skpolyode.load(tmp_path / "imputer")
        np.testing.assert_array_equal(again.transform(X), imputer.transform(X))


cells = st.none() | st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-9)


@pytest.mark.filterwarnings("ignore:the channels")
@settings(max_examples=40, deadline=None)
@given(arrays(object, st.tuples(*[st.integers(1, n) for n in (4, 6, 3)]), elements=cells))
@pytest.mark.filterwarnings("ignore:.* is read as")
def test_any_array_is_filled(X):
    X = X.astype(np.float64)
    observed = ~np.isnan(X)
    if not observed.any(axis=(1, 2)).all():
        with pytest.raises(ValueError, match=r"all values of its|has no rows"):
            clone(LINEAR).fit(X)
        return
    found = clone(LINEAR).fit_transform(X)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[observed], X[observed])


def test_values():
    X = np.array([[[np.nan, 0.0], [1.0, np.nan], [np.nan, np.nan], [4.0, 6.0], [np.nan, np.nan]]])
    found = clone(LINEAR).fit_transform(X)
    np.testing.assert_allclose(found[0, :, 0], [1, 1, 2.5, 4, 4])
    np.testing.assert_allclose(found[0, :, 1], [0, 2, 4, 6, 6])


@pytest.mark.usefixtures("no_stacking")
def test_nested_lists_are_filled_as_arrays():
    X = np.array([[[2.0, 0.0], [np.nan, 1.0], [3.0, np.nan], [4.0, 6.0], [0.0, 1.0]]] * 2)
    np.testing.assert_array_equal(
        clone(LINEAR).fit_transform(X.tolist()), clone(LINEAR).fit_transform(X)
    )


def test_tails_are_forecast():
    X = holes((6, 9, 2))
    X[:, 6:] = np.nan
    imputer = clone(LEARNED).fit(X)
    ahead = imputer.transformer_.forecast(X, [6.0, 7.0, 8.0]).values.reshape(6, 3, 2)
    np.testing.assert_allclose(imputer.transform(X)[:, 6:], ahead, atol=1e-12)


@pytest.mark.parametrize("observations", ["exact", "noisy"])
def test_intervals_are_those_of_the_path_around_what_is_filled_in(observations):
    X = holes((60, 9, 2))
    imputer = clone(LEARNED).set_params(transformer__observations=observations).fit(X)
    values, (lower, upper) = imputer.transform(X), imputer.interval(X, coverage=0.8)
    ends = imputer.transformer_.interpolate_interval(X, np.arange(9.0), coverage=0.8)
    width = (ends[1].values - ends[0].values).reshape(X.shape)
    hidden = np.isnan(X)
    np.testing.assert_allclose((upper - lower)[hidden], width[hidden], rtol=1e-9)
    np.testing.assert_allclose((lower + upper) / 2, values, atol=1e-12)
    np.testing.assert_array_equal(lower[~hidden], X[~hidden])
    assert (width[~hidden] > 1e-3).all() if observations == "noisy" else True
    panel = Panel.from_series(short_oscillators())
    low, high = imputer.interval(panel)
    assert low.offsets.tolist() == panel.offsets.tolist()
    assert (low.values <= high.values).all()
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        imputer.interval(X, coverage=90)


def test_what_trains_nothing_has_intervals_between_observations():
    X = holes((20, 9, 2))
    imputer = clone(LINEAR).fit(X)
    filled, (lower, upper) = imputer.transform(X), imputer.interval(X)
    assert (lower <= filled).all()
    assert (filled <= upper).all()
    assert ((lower < upper) == np.isnan(X)).all()


def test_in_a_pipeline_and_a_search():
    X, y = holes((12, 6, 1))[..., 0], np.arange(12) % 2
    pipeline = make_pipeline(clone(LINEAR), LogisticRegression())
    grid = {"panelimputer__transformer__kind": ["linear", "pchip"]}
    assert GridSearchCV(pipeline, grid, cv=2).fit(X, y).best_params_
    ragged = make_pipeline(clone(LINEAR), HiPPOTransformer(), LogisticRegression())
    assert ragged.fit(short_oscillators(), y).predict(short_oscillators()).shape == (12,)


def test_a_transformer_without_a_path():
    with pytest.raises(ValueError, match=r"object implementing 'fit' and 'interpolate' or None"):
        PanelImputer(SummaryStatsTransformer()).fit(np.ones((2, 3)))


def test_a_series_without_observations():
    with pytest.raises(ValueError, match="series 1: all values of its 3 row"):
        clone(LINEAR).fit([([0, 1, 2], [1.0, 2.0, 3.0]), ([0, 1, 2], [np.nan] * 3)])


def test_a_fit_that_fails_leaves_the_last_one():
    X = holes((6, 9, 2))
    imputer = clone(LINEAR).fit(X)
    whole = imputer.transform(X)
    imputer.set_params(transformer__window=-1.0)
    with pytest.raises(ValueError, match="'window' parameter"):
        imputer.fit(X[:, :, :1])
    np.testing.assert_array_equal(imputer.transform(X), whole)


def test_an_interrupted_fit_leaves_the_one_before(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    X = holes((3, 6, 2))
    imputer = clone(LINEAR).fit(X)
    before = imputer.transform(X)
    monkeypatch.setattr(InterpolationTransformer, "_fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        imputer.fit(holes((3, 6, 4)))
    np.testing.assert_array_equal(imputer.transform(X), before)


def test_errors_of_observations_stay_beside_them():
    times, values = np.arange(4.0), np.array([1.0, np.nan, 3.0, 2.0])
    errors = [np.array([0.1, np.nan, 0.2, 0.3])]
    panel = Panel.from_series([(times, values)], errors=errors)
    with pytest.warns(UserWarning, match="do not depend on the known errors"):
        filled = PanelImputer(InterpolationTransformer()).fit_transform(panel)
    np.testing.assert_array_equal(filled.values[:, 0], [1.0, 2.0, 3.0, 2.0])
    np.testing.assert_array_equal(filled.errors[:, 0], errors[0])


@pytest.mark.parametrize("routing", [False, True])
def test_groups_are_held_out_together(routing, monkeypatch):
    """Also through a pipeline, and of series that have no observation."""
    held = []
    hold_out = neural.hold_out
    monkeypatch.setattr(neural, "hold_out", lambda *a: held.append(hold_out(*a)) or held[-1])
    series = [(np.arange(6.0), np.sin(np.arange(6.0) + k)[:, None]) for k in range(24)]
    series[5] = (np.arange(6.0), np.full((6, 1), np.nan))
    panel, groups = Panel.from_series(series, empty="keep"), np.arange(24) // 4
    small = PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1)
    with sklearn.config_context(enable_metadata_routing=routing):
        imputer = PanelImputer(small)
        if routing:
            imputer.set_fit_request(groups=True)
            make_pipeline(imputer, InterpolationTransformer()).fit(panel, groups=groups)
        else:
            imputer.fit(panel, groups=groups)
    [out] = {tuple(np.unique(np.delete(groups, 5)[split.held_out])) for split in held}
    assert len(out) == 1
    with pytest.raises(ValueError, match="groups must have one entry for each of the 24 series"):
        PanelImputer(small).fit(panel, groups=groups[1:])
    PanelImputer(InterpolationTransformer()).fit(panel, groups=groups)  # nothing is held out
