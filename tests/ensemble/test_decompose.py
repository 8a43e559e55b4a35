"""Level, trend and season: what is found, taken out and put back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import skpolyode
from skpolyode import Panel, PolyODETransformer
from skpolyode.ensemble.decompose import Decomposition, choose_decomposition
from skpolyode.forecasting import PolyODEForecaster


def small(**options: object) -> PolyODEForecaster:
    transformer = PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1)
    return PolyODEForecaster(transformer, random_state=0, **options)


def irregular(n: int, seed: int = 0, stretch: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return stretch * np.sort(rng.choice(2 * n, n, replace=False)).astype(float)


def wave(t: np.ndarray) -> np.ndarray:
    return 2 * np.sin(2 * np.pi * t / 11) + np.cos(4 * np.pi * t / 11)


@pytest.mark.parametrize("n_series", [1, 9, 10])
def test_nothing_is_removed_unless_it_is_asked_for(n_series):
    t = irregular(120)
    panel = Panel.from_series([(t, 0.1 * t + wave(t) + 9.0 * k) for k in range(n_series)])
    automatic = {"detrend": "auto", "period": "auto", "normalize": "auto"}
    assert choose_decomposition(panel, **automatic).is_none
    assert choose_decomposition(panel, detrend=False, period=None, normalize="channel").is_none
    own = choose_decomposition(panel, detrend=True, period=(11.0,), normalize="series")
    assert (own.trend, own.periods, own.by_series) == (True, (11.0,), True)
    for name, value in {"detrend": True, "period": (11.0,), "normalize": "series"}.items():
        assert not choose_decomposition(panel, **(automatic | {name: value})).is_none


def test_parts_are_put_back_as_they_were_taken_out():
    t = irregular(60)
    panel = Panel.from_series([(t, np.column_stack([wave(t), t, 3 + 0 * t]))])
    option = Decomposition(True, (11.0,), True, 2.0, 120.0, np.zeros((3, 2)), np.ones((2, 3)))
    origins = np.array([20, 59])
    own = option.remove(panel, origins)
    assert own.panel.lengths.tolist() == [21, 60]
    for i, rows in enumerate((slice(0, 21), slice(0, 60))):
        which = np.full(rows.stop, i)
        shift, scale = own.restoring(which, panel.times[rows])
        back = shift + scale * own.panel[i].values
        np.testing.assert_allclose(back, panel.values[rows], atol=1e-9)


def test_a_line_is_continued_and_an_outlier_does_not_bend_it():
    t = irregular(80)
    x = 5 - 0.25 * t
    ahead = np.array([165.0, 180.0, 200.0])
    panel = Panel.from_series([(t, x)])
    forecaster = small(detrend=True, period=None).pretrain(panel)
    found = forecaster.forecast(panel, ahead).values[:, 0]
    np.testing.assert_allclose(found, 5 - 0.25 * ahead, atol=0.2)
    x[70] += 500.0
    option = forecaster.decomposition_
    own = option.remove(Panel.from_series([(t, x)]), np.array([79]))
    line = own.restoring(np.zeros(3, dtype=int), ahead)[0][:, 0]
    np.testing.assert_allclose(line, 5 - 0.25 * ahead, atol=1.5)


def test_a_season_is_repeated():
    t = irregular(120)
    panel = Panel.from_series([(t, wave(t))])
    forecaster = small(detrend=False, period=11.0).pretrain(panel)
    ahead = np.linspace(241, 262, 12)
    found = forecaster.forecast(panel, ahead).values[:, 0]
    np.testing.assert_allclose(found, wave(ahead), atol=0.3)


def stores(n: int = 14) -> Panel:
    rng, t, series = np.random.default_rng(0), np.arange(40.0), []
    for level in np.geomspace(10, 1000, n):
        wiggle = 0.1 * np.sin(2 * np.pi * t / 7 + rng.uniform(0, 6))
        series.append((t, level * (1 + wiggle + 0.03 * rng.standard_normal(len(t)))))
    return Panel.from_series(series)


def test_series_of_very_different_levels_get_units_of_their_own():
    panel = stores()
    past = Panel.from_series([(t[:32], x[:32]) for t, x in panel])
    future = np.stack([x[32:, 0] for _, x in panel])
    forecaster = small(normalize="series").pretrain(past)
    assert forecaster.decomposition_.by_series
    found = forecaster.forecast(past, np.arange(32.0, 40.0)).values.reshape(future.shape)
    mape = np.abs(found / future - 1).mean(axis=1)
    assert mape.max() < 0.15  # of the smallest and of the largest
    intervals = forecaster.forecast_quantiles(past, np.arange(32.0, 40.0), [0.05, 0.95])
    low, high = (intervals[a].values.reshape(future.shape) for a in (0.05, 0.95))
    np.testing.assert_array_less((high - low)[0].max(), 0.1 * (high - low)[-1].min())
    assert 0.75 < ((low <= future) & (future <= high)).mean() <= 1


def test_answers_in_the_sample_know_only_what_was_before():
    t = irregular(60)
    x = 0.3 * t + wave(t)
    index = pd.Timestamp("2024-01-01") + pd.to_timedelta(t, unit="h")
    y = pd.Series(x, index=index)
    forecaster = small(detrend=True, period=11 * 3600.0).fit(y)
    changed = y.copy()
    changed.iloc[45:] += 100.0
    other = small(detrend=True, period=11 * 3600.0).fit(y)
    other.update(changed.iloc[45:], update_params=False)
    rows = index[[30, 44]]
    np.testing.assert_allclose(forecaster.predict(rows), other.predict(rows), rtol=1e-9)
    residuals = forecaster.predict_residuals()
    assert np.isfinite(residuals.to_numpy()).all()
    between = index[10:20] + (index[11:21] - index[10:20]) / 2
    expected = np.interp(between.asi8, index.asi8, x)
    assert np.abs(forecaster.predict(between) - expected).max() < 3


def test_file(tmp_path):
    panel = stores()
    forecaster = small(detrend=True, period=(7.0, 3.5)).pretrain(panel)
    forecaster.save(tmp_path / "model.safetensors")
    again = skpolyode.load(tmp_path / "model.safetensors")
    old, new = (own.forecast_quantiles(panel, [45.0], [0.1]) for own in (forecaster, again))
    np.testing.assert_array_equal(new[0.1].values, old[0.1].values)
    assert again.decomposition_.periods == (7.0, 3.5)


def test_time_may_start_anywhere():
    t = irregular(60).round()
    answers = []
    for shift in (0.0, 2.0**20):
        panel = Panel.from_series([(t + shift, 0.3 * t + wave(t))])
        forecaster = small(detrend=True, period=11.0).pretrain(panel)
        answers.append(forecaster.forecast(panel, [shift + 125.0, shift + 130.0]).values)
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"detrend": "yes"}, "detrend must be True, False or \"auto\", got 'yes'"),
        ({"period": 0}, "period must be a positive length"),
        ({"period": [7, np.nan]}, "period must be a positive length"),
        ({"period": "weekly"}, "period must be a positive length"),
        ({"normalize": None}, 'normalize must be "auto", "channel" or "series", got None'),
    ],
)
def test_wrong_choices(options, message):
    with pytest.raises(ValueError, match=message):
        small(**options).pretrain(stores())
