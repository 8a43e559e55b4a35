"""A cell far from all others is not observed, by the same rule however far away it is."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from skpolyode import (
    LegendreFitTransformer,
    Panel,
    PanelImputer,
    PolyODEClassifier,
    Resampler,
)
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.heads.features import FEATURES
from skpolyode.panel.units import CellLimits, within_limits
from skpolyode.structural import StructuralForecaster
from tests.quick import no_stacking
from tests.transformers.data import oscillators, small

SIZES = [1e5, 1e90, -1e120, 1e200, 1e300, 1.7e308]
SERIES = oscillators(12)
ROW = 4


def with_cell(value: float, series=SERIES):
    """The series, with one cell of series 3 replaced."""
    changed = [(t, x.copy()) for t, x in series]
    changed[3][1][ROW, 0] = value
    return Panel.from_series(changed)


def told(call, *arguments):
    """Result of a call that warns of the cell."""
    with pytest.warns(UserWarning, match=r"series 3 .*channel 'x0', .* is far from all others"):
        return call(*arguments)


@pytest.fixture(scope="module")
def model():
    return small().fit(SERIES)


@pytest.mark.parametrize("size", SIZES)
def test_of_a_transformer(model, size):
    faulty, without = with_cell(size), with_cell(np.nan)
    np.testing.assert_array_equal(told(model.transform, faulty), model.transform(without))
    found = told(model.forecast, faulty, [4.5]).values
    np.testing.assert_array_equal(found, model.forecast(without, [4.5]).values)


@pytest.fixture(scope="module")
def features():
    """After a fit to the series without the cell."""
    with no_stacking():
        return small().fit(with_cell(np.nan)).transform(SERIES)


@pytest.mark.parametrize("size", SIZES)
def test_of_a_fit(features, size):
    with no_stacking():
        found = told(small().fit, with_cell(size)).transform(SERIES)
    np.testing.assert_array_equal(found, features)


@pytest.mark.parametrize("size", SIZES)
def test_of_a_stream(model, size):
    one, two = model.stream(SERIES), model.stream(SERIES)
    with pytest.warns(UserWarning, match="is far from all others"):
        one.update(5.0, [size, 0.5], series=0)
    two.update(5.0, [np.nan, 0.5], series=0)
    np.testing.assert_array_equal(one.embedding(), two.embedding())
    with pytest.raises(ValueError, match=r"channel 'x0', time 6: .* inf.*by NaN"):
        one.update(6.0, [np.inf, 0.5], series=0)


@pytest.fixture(scope="module")
def forecaster():
    return PolyODEForecaster(small(max_epochs=1), random_state=0).pretrain(
        Panel.from_series(SERIES)
    )


@pytest.mark.parametrize("size", SIZES)
def test_of_a_forecaster(forecaster, size):
    found = told(forecaster.forecast, with_cell(size), [4.5]).values
    np.testing.assert_array_equal(found, forecaster.forecast(with_cell(np.nan), [4.5]).values)


def ended_by(value: float):
    """The series, and one more row of series 3, which has no other value."""
    changed = list(SERIES)
    t, x = changed[3]
    changed[3] = np.append(t, 9.0), np.vstack([x, [value, np.nan]])
    return Panel.from_series(changed)


@pytest.mark.parametrize(
    "ask",
    [
        lambda model, X: model.forecast(X, [0.5, 2.0], "end").values,
        lambda model, X: model.sample_paths(X, [6.0], random_state=0).samples,
        lambda model, X: model.crossing_times(X, 0.5, 6.0, channel="x0", random_state=0),
    ],
    ids=["forecast", "sample_paths", "crossing_times"],
)
def test_a_future_does_not_begin_at_a_faulty_cell(forecaster, ask):
    found = told(ask, forecaster, ended_by(1e5))
    np.testing.assert_array_equal(found, ask(forecaster, Panel.from_series(SERIES)))


@pytest.mark.parametrize("frozen", [False, True])
def test_of_estimators_around_a_transformer(frozen):
    """Each reads the series of `fit` as its transformer does, with one warning."""
    inner = FrozenEstimator(small(max_epochs=1).fit(SERIES)) if frozen else small(max_epochs=1)
    y = np.arange(12) % 2
    for make, answer in (
        (lambda: PanelImputer(inner), lambda e: e.transform(SERIES).values),
        (lambda: Resampler(inner, n_points=5), lambda e: e.grid_),
        *(
            (
                partial(PolyODEClassifier, inner, features=kind, random_state=0),
                lambda e: e.predict_proba(SERIES),
            )
            for kind in FEATURES
        ),
    ):
        with pytest.warns(UserWarning, match="is far from all others") as warned:
            one = make().fit(ended_by(1e5), y)
        assert sum("far from" in str(warning.message) for warning in warned) == 1
        np.testing.assert_array_equal(answer(one), answer(make().fit(SERIES, y)))


MONTH = np.arange(40.0)
MONTHLY = [(MONTH, 10 + np.sin(MONTH[:, None] / 3 + k)) for k in range(4)]


@pytest.fixture(scope="module")
def expected():
    """Forecasts of structural models of monthly series without the cell."""
    without = with_cell(np.nan, MONTHLY)
    return StructuralForecaster(random_state=0).fit(without).forecast(without, [41.0]).values


@pytest.mark.parametrize("size", SIZES)
def test_of_structural_models(expected, size):
    faulty = with_cell(size, MONTHLY)
    model = told(StructuralForecaster(random_state=0).fit, faulty)
    np.testing.assert_array_equal(told(model.forecast, faulty, [41.0]).values, expected)


def test_series_whose_squares_are_no_numbers_are_refused_by_structural_models():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"1e\+200 is too large[\s\S]*repair their unit"):
            StructuralForecaster().fit([(MONTH, 1e200 * np.cos(MONTH))])


DOUBTFUL = [-9.0, 12.0, 200.0]  # of channels from -.83 to .99


def doubted(call, *arguments, name="X"):
    """Result of a call that warns once that the cell may be a fault."""
    rule = rf"^{name}: series 3 .*channel 'x0', .* may be a fault: it is far from others"
    with pytest.warns(UserWarning, match=rule) as found:
        result = call(*arguments)
    assert len(found) == 1
    return result


@pytest.mark.parametrize("value", DOUBTFUL)
def test_cells_that_may_be_faults_are_used_with_a_warning(model, value):
    doubtful = with_cell(value)
    path = doubted(model.interpolate, doubtful).values
    np.testing.assert_array_equal(path[doubtful.values == value], value)
    stream = model.stream(SERIES)
    with pytest.warns(
        UserWarning, match=r"^update: series 0 .*channel 'x0', time 5: .*correct them"
    ):
        stream.update(5.0, [value, 0.5], series=0)
    assert stream.n_observations[0] == len(SERIES[0][0]) + 1
    with no_stacking():
        doubted(small(max_epochs=1).fit, doubtful)


def test_a_forecaster_warns_once_of_cells_that_may_be_faults(forecaster):
    new = PolyODEForecaster(small(max_epochs=1), random_state=0)
    doubted(new.pretrain, with_cell(12.0), name="y")
    doubted(forecaster.forecast, with_cell(12.0), [2.22, 4.5], name="y")


def judged(values, learned=None):
    """Masks of `values` (P, D), by limits of others or of themselves."""
    return CellLimits.of(Panel.from_array(values.T if learned is None else learned.T)).judge(
        values, None
    )


def test_a_code_for_missing_values_is_doubtful():
    """One -999 among values of 40 to 180, and none of these."""
    values = np.random.default_rng(0).uniform(40, 180, 400)
    values[7] = -999.0
    faulty, doubtful = judged(values[:, None])[1:]
    assert not faulty.any()
    np.testing.assert_array_equal(np.flatnonzero(doubtful), [7])


@pytest.mark.parametrize("draw", ["normal", "lognormal", "exponential", "standard_t"])
def test_cells_of_heavy_tails_are_not_doubtful(draw):
    """Nor are new ones of the same kind, the farthest of which lie beyond all that fit has seen."""
    options = {"df": 3} if draw == "standard_t" else {}
    old, new = (
        getattr(np.random.default_rng(k), draw)(size=(3000, 1), **options) for k in range(2)
    )
    for values in (old, new):
        assert not np.any(judged(values, old))


def test_many_values_far_out_are_a_mode_and_one_farther_still_is_faulty():
    values = np.random.default_rng(0).normal(size=(3000, 1))
    values[:6] += 60.0
    values[6] = 1e6
    faulty, doubtful = judged(values)[1:]
    np.testing.assert_array_equal(np.flatnonzero(faulty), [6])
    assert not doubtful.any()
    with pytest.warns(UserWarning, match="1e\\+06 is far from all others"):
        found = within_limits(panel := Panel.from_array(values.T), CellLimits.of(panel))
    assert np.isnan(found.values).sum() == 1


TINY = {"max_epochs": 1, "hidden_layer_sizes": (4,), "n_coefficients": 2}
RNG = np.random.default_rng(0)
CALM = RNG.normal(size=(20, 12))
FAR = Panel.from_series([(np.arange(12.0), x + 600 * (k == 0)) for k, x in enumerate(CALM)])


def test_what_fit_took_is_taken_later():
    """The series that is far away is held out by this seed, and says nothing of the limits."""
    with no_stacking():
        model = small(random_state=23, **TINY).fit(FAR)
    assert np.isfinite(model.transform(FAR)).all()
    np.testing.assert_array_equal(model.stream(FAR[:1]).embedding(), model.transform(FAR[:1]))


@pytest.mark.parametrize("seed", [2, 5])  # held out of the training, and of the calibration
def test_what_a_forecaster_took_is_taken_later(seed):
    model = PolyODEForecaster(small(**TINY), random_state=seed).pretrain(FAR)
    assert np.isfinite(model.forecast(FAR, [13.0]).values).all()


def test_a_held_out_value_that_cannot_be_computed_with_is_refused_by_fit():
    series = [(np.arange(12.0), np.zeros(12)) for _ in range(20)]
    series[0][1][5] = 1e150
    with no_stacking(), pytest.raises(ValueError, match=r"series 0 .*time 5: 1e\+150 is too large"):
        small(random_state=23, **TINY).fit(series)


def test_a_value_that_a_forecaster_cannot_be_calibrated_with_is_refused_by_fit():
    """By this seed its series is held out, and says nothing of the units."""
    series = [(np.arange(12.0), np.zeros(12)) for _ in range(20)]
    series[0][1][5] = 1e150
    model = PolyODEForecaster(small(**TINY), random_state=5)
    with pytest.raises(ValueError, match=r"series 0.*time 5: 1e\+150 is too large"):
        model.pretrain(Panel.from_series(series))


def test_errors_that_fit_took_are_taken_later():
    """The first series has errors of 1200 standard deviations, some 730 half widths."""
    errors = np.full((240, 1), 0.1)
    errors[:12] = 1200.0
    vague = Panel(FAR.times, CALM.reshape(-1, 1), FAR.offsets, errors=errors)
    model = LegendreFitTransformer().fit(vague)
    assert np.isfinite(model.transform(vague)).all()
