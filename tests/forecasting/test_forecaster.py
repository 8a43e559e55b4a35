"""PolyODEForecaster: contexts, horizons, in-sample answers, updates, errors."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sktime.datatypes import convert_to
from sktime.forecasting.base import ForecastingHorizon

from skpolyode.forecasting import PolyODEForecaster
from skpolyode.panel import Panel
from tests.closeness import assert_same_but_for_rounding
from tests.forecasting.conftest import HOUR, START, frame, tiny, waves


def test_the_model_has_learned_the_waves(trained):
    panel = waves(20, seed=9, noise=0.0)
    hours = Panel(panel.times * 3600.0, panel.values, panel.offsets, time_unit="s")
    answer = trained.forecast(hours, [pd.Timedelta("90min")], relative_to="end")
    true = waves(20, seed=9, noise=0.0)
    # The next 1.5 hours of a wave: the angle of the last observation, turned on.
    last = true.values[true.offsets[1:] - 1]
    angle = np.arctan2(last[:, 0], (last[:, 1] - 3) / 2) + 1.5
    exact = ~np.isclose(last, [0.0, 3.0]).any(axis=1)  # not those filled in by the fixture
    assert np.sqrt(np.mean((answer.values[exact, 0] - np.sin(angle)[exact]) ** 2)) < 0.25


# Contexts


def test_horizons_count_from_the_cutoff_of_each_instance(forecaster, y):
    durations = [HOUR / 2, 3 * HOUR]
    answer = forecaster.fit(y).predict(durations)
    assert answer.index.names == y.index.names
    for who, own in y.groupby(level="who"):
        expected = own.index.get_level_values("when")[-1] + pd.TimedeltaIndex(durations)
        assert answer.loc[who].index.tolist() == expected.tolist()
        alone = forecaster.fit(own.loc[who]).predict(durations)
        np.testing.assert_allclose(answer.loc[who], alone, rtol=1e-9)
        absolute = forecaster.predict(pd.DatetimeIndex(expected))
        assert_same_but_for_rounding(alone, absolute)


def test_answers_do_not_depend_on_the_calendar(trained):
    """Counts of microseconds since 1970 have more digits than float64 holds; differences do not."""
    hours = waves(4, seed=5)
    ticks = np.rint(hours.times * 3.6e9).astype("timedelta64[us]")
    durations = [pd.Timedelta(1234567, "us"), pd.Timedelta("2h")]
    found = []
    for start in ("1970-01-01", "2024-02-29 11:22:33.456789", "2150-07-01"):
        days = np.datetime64(start, "us") + ticks
        panel = Panel(days, hours.values, hours.offsets, time_unit="s")
        own = trained.forecast(panel, durations, "end"), *trained.interpolate_interval(panel)
        found.append(np.concatenate([answer.values for answer in own]))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_scattered_and_unsorted_rows(forecaster, y):
    durations = [HOUR, 2 * HOUR]
    expected = forecaster.fit(y).predict(durations)
    scattered = y.loc[[2, 0, 1]].sort_index(level="when", sort_remaining=False)
    pd.testing.assert_frame_equal(forecaster.fit(scattered).predict(durations), expected)


def test_hierarchies_have_one_model_and_a_cutoff_for_each_leaf(forecaster, y):
    deeper = pd.concat({("north", 1): y.loc[0], ("south", 1): y.loc[1], ("north", 2): y.loc[2]})
    deeper.index.names = ["area", "shop", "when"]
    answer = forecaster.fit(deeper).predict([HOUR])
    flat = forecaster.fit(y).predict([HOUR])
    assert answer.index.droplevel("when").tolist() == [("north", 1), ("north", 2), ("south", 1)]
    np.testing.assert_allclose(answer.to_numpy(), flat.to_numpy()[[0, 2, 1]], rtol=1e-9)


@pytest.mark.parametrize("mtype", ["df-list", "nested_univ"])
def test_answers_come_in_the_format_of_the_question(forecaster, y, mtype):
    answer = forecaster.fit(convert_to(y, mtype)).predict([HOUR])
    expected = forecaster.fit(y).predict([HOUR])
    back = convert_to(answer, "pd-multiindex")
    np.testing.assert_allclose(back.to_numpy(), expected.to_numpy(), rtol=1e-9)


def test_rows_without_observations_change_nothing_but_the_cutoff(forecaster, y):
    own = y.loc[0]
    later = own.index[-1] + pd.TimedeltaIndex([HOUR, 2 * HOUR])
    empty = pd.DataFrame(np.nan, index=later[:1].rename("when"), columns=own.columns)
    expected = forecaster.fit(own).predict(later)
    longer = forecaster.fit(pd.concat([own, empty]))
    pd.testing.assert_frame_equal(longer.predict(later[1:]), expected.iloc[1:])
    assert longer.predict([HOUR]).index[0] == later[1]


def test_integers_with_gaps_count_in_their_own_units():
    rows = np.array([0, 1, 4, 5, 9, 12, 13, 17, 20, 22, 23, 30, 31])
    y = pd.Series(np.sin(rows / 3.0), index=rows, name="x")
    fitted = tiny().fit(y)
    relative = fitted.predict([1, 5])
    assert relative.index.tolist() == [32, 36]
    absolute = fitted.predict(ForecastingHorizon(pd.Index([32, 36]), is_relative=False))
    pd.testing.assert_series_equal(relative, absolute)


@pytest.mark.filterwarnings("ignore:the times of y have the time zone")  # trained without one
def test_time_zones_are_kept(forecaster, y):
    own = y.loc[0].tz_localize("Europe/Brussels")
    answer = forecaster.fit(own).predict([HOUR])
    assert str(answer.index.tz) == "Europe/Brussels"
    naive = forecaster.fit(y.loc[0]).predict([HOUR])
    # One hour of winter time between the zone and UTC does not matter to differences.
    np.testing.assert_allclose(answer.to_numpy(), naive.to_numpy(), rtol=1e-6)


def test_only_the_recent_past_of_a_long_series_matters(forecaster):
    t = np.arange(0.0, 600.0, 0.5)
    index = START + pd.to_timedelta(t, unit="h")
    long = pd.DataFrame({"u": np.sin(t), "v": 3 + 2 * np.cos(t)}, index=index)
    changed = long.copy()
    changed.iloc[:900] = 1.0
    panels = [Panel.from_frames([own], channel_names=["u", "v"]) for own in (long, changed)]
    transformer, ahead = forecaster.transformer_, [index[-1] + HOUR, index[-1] + 5 * HOUR]
    free = [transformer.forecast(own, ahead, combine=False).values for own in panels]
    np.testing.assert_allclose(*free, rtol=1e-6)


# In-sample answers


def test_at_an_observation_the_answer_is_its_forecast(forecaster, y):
    own = y.loc[0]
    answer = forecaster.fit(own).predict(own.index[[8, 15]])
    for k, row in enumerate((8, 15)):
        before = forecaster.fit(own.iloc[:row]).predict(own.index[[row]])
        np.testing.assert_allclose(answer.iloc[k], before.iloc[0], rtol=1e-6)
    first = forecaster.fit(own).predict(own.index[:1])
    np.testing.assert_allclose(first.iloc[0], forecaster.transformer_.scaler_.mean)


def test_between_observations_the_answer_knows_both_sides(forecaster):
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, 12.0, 25))
    # Late in the gaps, where most is known from the other side.
    middle = (t[:-1] + 3 / 4 * np.diff(t))[np.diff(t) > 0.4]
    times, between = (START + pd.to_timedelta(own, unit="h").round("ms") for own in (t, middle))
    errors, one_sided = [], []
    for phase in np.linspace(0, 6, 8):
        own = pd.DataFrame({"u": np.sin(t + phase), "v": 3 + 2 * np.cos(t + phase)}, index=times)
        truth = np.sin(middle + phase)
        errors.append(forecaster.fit(own).predict(between)["u"] - truth)
        for time, value in zip(between, truth, strict=True):
            before = forecaster.fit(own[own.index < time]).predict(pd.DatetimeIndex([time]))
            one_sided.append(before["u"].item() - value)
    assert np.mean(np.square(errors)) < 0.6 * np.mean(np.square(one_sided))


def test_residuals_are_of_each_instance_at_its_own_times(forecaster, y):
    residuals = forecaster.fit(y).predict_residuals(y)
    assert residuals.index.equals(y.index)
    assert residuals.isna().equals(y.isna())
    own = y.loc[1]
    predicted = forecaster.fit(own).predict(own.index)
    np.testing.assert_allclose(residuals.loc[1], own - predicted, rtol=1e-6)
    pd.testing.assert_frame_equal(forecaster.predict_residuals(), own - predicted)
    doubled = pd.concat([own, own]).sort_index()
    assert len(forecaster.fit(own).predict_residuals(doubled)) == len(doubled)
    series = own["u"].dropna()
    fitted = tiny().fit(series)
    alone = fitted.predict_residuals(series)
    assert isinstance(alone, pd.Series)
    assert alone.index.equals(series.index)
    pd.testing.assert_series_equal(fitted.predict_residuals(series.rename(None)), alone)


def test_residuals_are_of_channels_by_name(forecaster, y):
    expected = forecaster.fit(y).predict_residuals(y)
    swapped = forecaster.predict_residuals(y[["v", "u"]])
    pd.testing.assert_frame_equal(swapped, expected[["v", "u"]])


# Update and pretrain


@pytest.mark.parametrize("shape", [(20,), (20, 2), (3, 2, 20)])
def test_residuals_of_arrays_are_those_of_frames(shape):
    values = np.random.default_rng(0).normal(size=shape)
    fitted = tiny().fit(values)
    found = fitted.predict_residuals(values)
    assert found.shape == (shape if len(shape) > 1 else (20, 1))
    rows = found if found.ndim == 2 else found.transpose(0, 2, 1).reshape(-1, 2)
    np.testing.assert_array_equal(rows, fitted.predict_residuals())
    with pytest.raises(ValueError, match="y has the channels"):
        tiny().fit(pd.DataFrame({"u": values.ravel()})).predict_residuals(values)


def test_update_without_parameters_moves_the_context(forecaster, y):
    head = y.groupby(level="who").head(12)
    tail = y[~y.index.isin(head.index)]
    expected = forecaster.fit(y).predict([HOUR])
    moved = forecaster.fit(head).update(tail, update_params=False)
    pd.testing.assert_frame_equal(moved.predict([HOUR]), expected)


def test_updated_observations_win_and_missing_ones_do_not_erase(forecaster, y):
    own = y.loc[0].dropna()
    again = own.iloc[-1:].copy()
    again["u"] += 0.5
    again["v"] = np.nan
    expected = own.copy()
    expected.iloc[-1, 0] += 0.5
    answer = forecaster.fit(own).update(again, update_params=False).predict([HOUR])
    pd.testing.assert_frame_equal(answer, forecaster.fit(expected).predict([HOUR]))


def test_new_instances_join_by_update(forecaster, y):
    expected = forecaster.fit(y).predict([HOUR])
    joined = forecaster.fit(y.loc[[0, 2]]).update(y.loc[[1]], update_params=False)
    pd.testing.assert_frame_equal(joined.predict([HOUR]), expected)


def weights(forecaster: PolyODEForecaster) -> np.ndarray:
    parameters = forecaster.transformer_.field_.parameters()
    return np.concatenate([p.detach().numpy().ravel() for p in parameters])


def test_update_moves_the_context_only():
    y = frame(waves(3, seed=5))
    fitted = tiny().fit(y.groupby(level="who").head(15))
    before, transformer = weights(fitted), fitted.transformer_
    fitted.update(y)
    assert fitted.transformer_ is transformer
    np.testing.assert_array_equal(weights(fitted), before)


def test_fit_after_pretrain_only_sets_the_context(forecaster, y):
    transformer, before = forecaster.transformer_, weights(forecaster)
    forecaster.fit(y)
    assert forecaster.transformer_ is transformer
    np.testing.assert_array_equal(weights(forecaster), before)


def test_any_panel_can_be_continued_without_fitting(forecaster, y):
    expected = forecaster.fit(y).predict([2 * HOUR])
    ends = [own.index.get_level_values("when")[-1] + 2 * HOUR for _, own in y.groupby("who")]
    panel = Panel.from_sktime(y)
    answer = forecaster.forecast(panel, [[end] for end in ends])
    assert answer.channel_names == ("u", "v")
    np.testing.assert_allclose(answer.values, expected.to_numpy(), rtol=1e-12)
    quantiles = forecaster.forecast_quantiles(panel, [[end] for end in ends], [0.1, 0.5])
    np.testing.assert_array_equal(quantiles[0.5].values, answer.values)
    table = forecaster.predict_quantiles([2 * HOUR], alpha=0.1)
    np.testing.assert_allclose(quantiles[0.1].values, table.to_numpy(), rtol=1e-12)


def test_a_panel_with_real_times_can_be_learned():
    panel = waves(12, seed=0, fewest=5)
    learned = tiny().pretrain(panel)
    assert learned.state == "pretrained"
    assert learned.clone().forecast(panel, [12.5, 13.0]).lengths.tolist() == [2] * 12
    learned.pretrain(panel[:8])  # trains anew
    np.testing.assert_array_equal(weights(learned), weights(tiny().pretrain(panel[:8])))


def test_a_long_series_is_learned_in_windows():
    t = np.cumsum(np.random.default_rng(0).exponential(size=160))
    index = START + pd.to_timedelta(t, unit="h")
    fitted = tiny(n_coefficients=4).fit(pd.Series(np.sin(t), index=index))
    assert fitted.transformer_.context_ < 20 * 3600 < fitted.transformer_.window_
    assert np.isfinite(fitted.predict([HOUR])).all()


def test_the_whole_history_as_memory(y):
    fitted = tiny(measure="legs").fit(y)
    assert np.isfinite(fitted.predict([HOUR])).all(axis=None)
    residuals = fitted.predict_residuals(y)
    assert residuals.isna().equals(y.isna())


# Intervals


def test_intervals_cover_and_widen(forecaster):
    panel = waves(150, seed=21)
    y = frame(panel)
    cutoff = START + 9 * HOUR
    times = y.index.get_level_values("when")
    past, future = y[times <= cutoff], y[times > cutoff]
    ids = future.index.get_level_values("who").unique()
    known = Panel.from_sktime(past.loc[ids])
    ahead = [future.loc[who].index for who in ids]
    quantiles = forecaster.forecast_quantiles(known, ahead, [0.05, 0.95])
    low, high = (quantiles[a].values for a in (0.05, 0.95))
    actual = future.to_numpy()
    seen = ~np.isnan(actual)
    inside = (low <= actual) & (actual <= high)
    assert 0.85 < inside[seen].mean() < 0.95
    grid = pd.TimedeltaIndex([k * HOUR / 4 for k in range(1, 60)])
    table = forecaster.fit(past.loc[0]).predict_interval(grid, coverage=[0.5, 0.9])
    for channel in ("u", "v"):
        wide, narrow = (
            table[channel, level, "upper"] - table[channel, level, "lower"] for level in (0.9, 0.5)
        )
        assert (np.diff(wide) >= -1e-9).all()
        assert (wide > narrow).all()


def test_intervals_of_few_series_never_narrow_beside_the_errors_that_are_expected():
    """These fall with the forecasts of what decays in proportion to itself."""
    rng, t = np.random.default_rng(0), np.arange(40.0)
    panel = Panel.from_series(
        [(t, 100 * np.exp(0.05 * rng.standard_normal(40) - t / 8)) for _ in range(2)]
    )
    few, ahead = tiny().pretrain(panel), np.linspace(0.5, 16, 16)
    low, high = few.forecast_interval(panel, ahead, relative_to="end")
    flat = np.tile(39.0 + ahead, 2)
    expected = few._outlook(panel, flat, np.array([0, 16, 32])).expected
    widths = (high.values - low.values).reshape(2, 16)
    assert (np.diff(widths / expected.reshape(2, 16)) >= -1e-9).all()
    assert (np.diff(widths) < -1e-3).any()


def test_free_runs_stay_near_the_data(forecaster, y):
    forecaster.fit(y)
    window = forecaster.transformer_.window_
    far = pd.to_timedelta(np.linspace(0.1, 10, 100) * window, unit="s").round("ms")
    answer = forecaster.predict(far)
    low, high, spread = y.min(), y.max(), 3 * y.std()
    assert ((answer > low - spread) & (answer < high + spread)).to_numpy().all()


# Repeatability


def test_equal_seeds_give_equal_forecasts(y):
    fits = [tiny(random_state=k).fit(y.loc[0].iloc[:12]) for k in (3, 3, 4)]
    answers = [fitted.predict([HOUR]) for fitted in fits]
    pd.testing.assert_frame_equal(answers[0], answers[1], check_exact=True)
    weights = [fitted.transformer_.field_.layers[0].weight for fitted in fits]
    assert not weights[0].equal(weights[2])


def test_pickle_keeps_the_forecasts(forecaster, y):
    forecaster.fit(y)
    again = pickle.loads(pickle.dumps(forecaster))
    expected = forecaster.predict_interval([HOUR])
    pd.testing.assert_frame_equal(again.predict_interval([HOUR]), expected, check_exact=True)


def test_user_data_are_left_alone(forecaster, y):
    copy = y.copy()
    forecaster.fit(y).update(y.iloc[-3:], update_params=False)
    forecaster.predict_residuals(y)
    pd.testing.assert_frame_equal(y, copy)
