"""Trends, seasons and levels: what members of the ensemble know, nothing is removed for."""

from __future__ import annotations

import numpy as np
import pytest

import skpolyode
from skpolyode import Panel, PolyODETransformer
from skpolyode.forecasting import PolyODEForecaster


def small(**options: object) -> PolyODEForecaster:
    transformer = PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1)
    return PolyODEForecaster(transformer, random_state=0, **options)


def irregular(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(2 * n, n, replace=False)).astype(float)


def wave(t: np.ndarray) -> np.ndarray:
    return 2 * np.sin(2 * np.pi * t / 11) + np.cos(4 * np.pi * t / 11)


@pytest.mark.parametrize(
    ("n_series", "period"), [(1, "auto"), (4, "auto"), (12, "auto"), (12, 11.0)]
)
def test_a_season_is_repeated(n_series, period):
    rng, t = np.random.default_rng(0), irregular(70)
    levels = rng.standard_normal(n_series)
    panel = Panel.from_series([(t, wave(t) + a) for a in levels])
    ahead = np.linspace(141, 162, 12)
    found = small(period=period).pretrain(panel).forecast(panel, ahead).values
    wrong = found.reshape(n_series, 12) - wave(ahead) - levels[:, None]
    assert np.sqrt(np.mean(wrong**2)) < 0.4  # the season has one of 1.6


@pytest.mark.parametrize("n_series", [1, 12])
def test_a_line_is_continued(n_series):
    t, slopes = irregular(80), np.linspace(-0.25, 0.3, n_series)
    panel = Panel.from_series([(t, 5 + a * t) for a in slopes])
    ahead = np.array([165.0, 180.0])
    found = small().pretrain(panel).forecast(panel, ahead).values.reshape(n_series, 2)
    wrong = np.abs(found - 5 - np.outer(slopes, ahead))
    assert wrong[:, 0].max() < 0.25  # of values up to 48
    assert wrong[:, 1].max() < 5  # further ahead than backtests reach, bounds hold the steepest


def test_lines_steeper_than_those_of_training_are_continued():
    """Five lines are all that training has, and their changes bound what is like them."""
    t = np.arange(40.0)
    train, steep = (
        Panel.from_series([(t, 5 + a * t) for a in slopes])
        for slopes in (np.linspace(-0.25, 0.3, 5), (1.0, -2.0))
    )
    forecaster = small().pretrain(train)
    found = forecaster.forecast(steep, [45.0, 55.0]).values.reshape(2, 2)
    np.testing.assert_allclose(found, 5 + np.outer([1.0, -2.0], [45.0, 55.0]), atol=0.1)


def test_without_a_season_none_is_sought():
    t = irregular(60)
    panel = Panel.from_series([(t, wave(t))])
    mixed = [
        small(period=period).pretrain(panel).transformer_.embedder_.stacking.each["mixed"]
        for period in (None, 11.0)
    ]
    unit = small(period=None).pretrain(panel).transformer_.time_scale_
    assert mixed[0].periods == ()
    assert mixed[1].periods[0] * unit == pytest.approx(11.0, rel=1e-6)


def test_time_may_start_anywhere():
    t, answers = irregular(60).round(), []
    for shift in (0.0, 2.0**20):
        panel = Panel.from_series([(t + shift, 0.3 * t + wave(t))])
        forecaster = small(period=11.0).pretrain(panel)
        answers.append(forecaster.forecast(panel, [shift + 125.0, shift + 130.0]).values)
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-4)


def test_file(tmp_path):
    t = irregular(60)
    panel = Panel.from_series([(t, wave(t) + k) for k in range(2)])
    forecaster = small(period=(11.0, 5.5)).pretrain(panel)
    forecaster.save(tmp_path / "model.safetensors")
    again = skpolyode.load(tmp_path / "model.safetensors")
    old, new = (own.forecast_quantiles(panel, [125.0], [0.1]) for own in (forecaster, again))
    np.testing.assert_array_equal(new[0.1].values, old[0.1].values)


@pytest.mark.parametrize("period", [0, -3.0, [7, np.nan], "weekly", np.inf, []])
def test_wrong_periods(period):
    t = irregular(20)
    with pytest.raises(ValueError, match="period must be a positive length"):
        small(period=period).pretrain(Panel.from_series([(t, wave(t))]))
