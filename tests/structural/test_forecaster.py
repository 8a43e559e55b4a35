"""The estimator of structural models, alone."""

import numpy as np
import pytest
from sklearn.base import clone

import skpolyode
from skpolyode import Panel
from skpolyode.forecasting import evaluate_forecasts
from skpolyode.structural import StructuralForecaster
from tests.quick import small_fits

MONTHS = np.arange(60.0)
SALES = 100 + 2 * MONTHS + 10 * np.sin(MONTHS * np.pi / 6)


@pytest.fixture(scope="module")
def fitted():
    return StructuralForecaster(random_state=0).fit([(MONTHS, SALES)])


def test_trend_and_season_are_continued(fitted):
    ahead = np.array([60.0, 66.5, 71.0])
    truth = 100 + 2 * ahead + 10 * np.sin(ahead * np.pi / 6)
    found = fitted.forecast([(MONTHS, SALES)], ahead)
    std = fitted.forecast_std([(MONTHS, SALES)], ahead)
    np.testing.assert_allclose(found.values[:, 0], truth, atol=0.5)
    assert (std.values > 0).all()
    assert std.values[2] >= std.values[0]


def test_irregular_times_and_several_series(fitted):
    rng = np.random.default_rng(0)
    kept = [np.sort(rng.permutation(60)[:40]) for _ in range(3)]
    series = [(MONTHS[k], SALES[k]) for k in kept]
    together = fitted.forecast(series, [[61.0], [60.0, 70.0], [62.0]]).values
    alone = [fitted.forecast(series[:1], [61.0]).values]
    alone.append(fitted.forecast(series[1:2], [60.0, 70.0]).values)
    alone.append(fitted.forecast(series[2:], [62.0]).values)
    np.testing.assert_array_equal(together, np.concatenate(alone))
    truth = 100 + 2 * 61.0 + 10 * np.sin(61.0 * np.pi / 6)
    assert abs(together[0, 0] - truth) < 2


@pytest.mark.parametrize("relative_to", [None, "end"])
def test_a_series_without_observations_keeps_its_place(fitted, relative_to):
    nothing = np.full(60, np.nan)
    series = [(MONTHS, SALES), (MONTHS, nothing), (MONTHS, SALES + 1)]
    X = Panel.from_series(series, ids=["a", "b", "c"], empty="keep")
    when = 2.0 if relative_to else 61.0
    for answer in (fitted.forecast, fitted.forecast_std):
        found = answer(X, [when], relative_to)
        assert list(found.ids) == ["a", "b", "c"]
        sold = ~np.isnan(found.values[:, 0])
        assert sold.tolist() == ([True, True] if relative_to else [True, False, True])
        own = answer([series[0], series[2]], [when], relative_to)
        np.testing.assert_array_equal(found.values[sold], own.values)


def test_seed_decides_the_draw():
    series = [(MONTHS, SALES + np.random.default_rng(1).normal(size=60))]
    one, same, other = (
        StructuralForecaster(random_state=k).fit(series).forecast(series, [65.0]).values
        for k in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert one != other


def test_without_a_season_it_is_not_continued():
    series = [(MONTHS, SALES)]
    plain = clone(StructuralForecaster(period=None, random_state=0)).fit(series)
    given = StructuralForecaster(period=12.0, random_state=0).fit(series)
    truth = 100 + 2 * 63.0 + 10 * np.sin(63.0 * np.pi / 6)
    errors = [abs(f.forecast(series, [63.0]).values[0, 0] - truth) for f in (plain, given)]
    assert errors[1] < 0.5 < errors[0]


def test_channels_go_by_name():
    panel = Panel.from_series(
        [(MONTHS, np.stack([SALES, -SALES], axis=1))], channel_names=["up", "down"]
    )
    forecaster = StructuralForecaster(random_state=0).fit(panel)
    swapped = panel.select_channels(["down", "up"])
    np.testing.assert_array_equal(
        forecaster.forecast(swapped, [61.0]).values, forecaster.forecast(panel, [61.0]).values
    )


def test_it_can_be_scored():
    panel = Panel.from_series([(MONTHS, SALES)])
    scores = evaluate_forecasts(StructuralForecaster(random_state=0), panel, cutoff=0.8)
    assert len(scores)


def test_wrong_input_is_told(fitted):
    with pytest.raises(ValueError, match=r"period must be a positive length.*'weekly'"):
        StructuralForecaster(period="weekly").fit([(MONTHS, SALES)])
    with pytest.raises(ValueError, match=r"period must be.*-3"):
        StructuralForecaster(period=-3.0).fit([(MONTHS, SALES)])
    with pytest.raises(ValueError, match=r"times of series 0: .*56 before its last observation"):
        fitted.forecast([(MONTHS, SALES)], [3.0])


def test_extreme_times_and_values_are_refused():
    """As all estimators refuse them; the limit of values is lower, as they are squared."""
    times, values = np.array([0.0, 1e-60, 1.0, 2.0]), np.array([1.0, 2.0, 1.0, 3.0])
    with pytest.raises(ValueError, match=r"time 1e-60: the time since the row before it is less"):
        StructuralForecaster().fit([(times, values)])
    with pytest.raises(ValueError, match=r"1e\+200 is too large"):
        StructuralForecaster().fit([(np.arange(4.0), values * 1e200)])


def test_it_comes_back_from_a_file_as_it_was(fitted, tmp_path):
    """Of several channels, one of which was never observed."""
    values = np.column_stack([SALES, np.full_like(SALES, np.nan)])
    with small_fits():
        wide = StructuralForecaster(period=[12.0, 3.0], random_state=0).fit([(MONTHS, values)])
    for model, series in ((fitted, SALES), (wide, values)):
        model.save(tmp_path / "model")
        again = skpolyode.load(tmp_path / "model")
        assert repr(again) == repr(model)
        assert vars(again).keys() == vars(model).keys()
        for method in ("forecast", "forecast_std"):
            old, new = (getattr(own, method)([(MONTHS, series)], [61.5]) for own in (model, again))
            np.testing.assert_array_equal(new.values, old.values)
