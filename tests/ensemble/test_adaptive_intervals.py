"""Intervals that adapt to the volatility of a series."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

import skpolyode
from skpolyode.ensemble.conformal import Calibration
from skpolyode.ensemble.error_scale import ErrorScale, cross_fitted_scales
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.futures.spread import (
    FEW,
    LEVEL,
    N_PREDICTORS,
    predictors_of,
    spread_after,
    spread_at,
)
from skpolyode.panel import Panel
from skpolyode.transformers import PolyODETransformer
from tests.closeness import assert_same_but_for_rounding


def test_volatility_is_that_of_the_rows_so_far():
    """Against a loop; each has one more observation and step, of one standard deviation."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((40, 3)) + 1e6
    values[rng.random(values.shape) < 0.4] = np.nan
    values[:, 2] = np.nan
    offsets, rows = np.array([0, 15, 16, 40]), np.array([39, 3, 14, 15, 20, 0, 39])
    found = predictors_of(spread_at(values, offsets, rows), np.ones((7, 3)))
    for own, row in zip(found, rows, strict=True):
        start = offsets[offsets <= row].max()
        for j in range(3):
            x = values[start : row + 1, j]
            x = x[~np.isnan(x)]
            n = max(len(x), 1)
            variance = (((x - x.mean()) ** 2).sum() if len(x) else 0.0) + 1
            step = np.abs(np.diff(x)).sum() + 1
            expected = np.log([np.sqrt(variance / n), step / n])
            np.testing.assert_allclose(own[j, :2], expected, atol=1e-7)
    assert spread_at(values, offsets, rows[:0]).shape == (0, 3, 6)
    whole, row_by_row = spread_at(values, offsets, rows), np.zeros((1, 3, 6))
    for row in range(16, 40):
        row_by_row = spread_after(row_by_row, values[row : row + 1])
    np.testing.assert_allclose(row_by_row[0], whole[0], rtol=1e-12)


def test_a_sign_of_errors_is_the_last_value():
    """Of its own series, or the mean where a channel was not observed yet."""
    values = np.array([[1.0, np.nan], [np.nan, -3.0], [5.0, np.nan], [np.nan, 2.0]])
    offsets, rows = np.array([0, 2, 4]), np.array([3, 0, 1, 2])
    found = predictors_of(spread_at(values, offsets, rows), np.ones((4, 2)))[..., LEVEL]
    last = np.array([[5.0, 2.0], [1.0, 0.0], [1.0, -3.0], [5.0, 0.0]])
    np.testing.assert_allclose(found, np.arcsinh(2 * last))


def test_widths_grow_with_the_level_where_errors_do():
    """Growth by random factors: what is ten times as high errs ten times as much."""
    rng, t = np.random.default_rng(0), np.arange(12.0)
    steps = rng.normal(0, 0.15, (160, 12))
    steps[:, 0] = rng.normal(0, 1, 160)
    values = np.exp(steps.cumsum(axis=1))
    panel = Panel.from_series([(t, x) for x in values])
    model = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0).fit(panel[:120])
    others = panel[120:]
    samples = model.sample_paths(others, [1.0], "end", random_state=0).samples[:, :, 0]
    last = others.values[others.offsets[1:] - 1, 0]
    slope = np.polyfit(np.log(last), np.log(samples.std(axis=1)), 1)[0]
    assert slope > 0.6


def kinds(n_series: int, seed: int, scales: tuple[float, ...], n: int = 12) -> tuple:
    """Errors of two channels, which are as large as the volatility say, and grow with the lead."""
    rng = np.random.default_rng(seed)
    series = np.repeat(np.arange(n_series), n)
    size = np.array(scales)[rng.integers(len(scales), size=(n_series, 2))][series]
    noisy = size * np.exp(0.2 * rng.standard_normal(size.shape))
    volatility = np.zeros((*size.shape, N_PREDICTORS))
    volatility[..., 0] = np.log(noisy)
    volatility[..., 1] = volatility[..., 0] + rng.standard_normal(size.shape)
    leads = rng.uniform(0.5, 2.0, size.shape)
    errors = size * np.sqrt(leads) * rng.standard_normal(size.shape)
    return leads, errors, series, np.tile(np.arange(n) * 3.0, n_series), volatility


def calibrated(leads, errors, series, times, volatility) -> Calibration:
    return Calibration.learn(leads, errors, series, times, volatility)


def test_slopes_are_of_the_greatest_likelihood():
    """Of a Gamma distribution, weighted by series, with a ridge: an optimiser of its own."""
    rng = np.random.default_rng(0)
    series = np.repeat(np.arange(30), rng.integers(1, 4, 30))
    volatility = rng.standard_normal((len(series), 1, 2))
    errors = np.exp(0.7 * volatility[:, :, 0]) * rng.exponential(size=(len(series), 1))
    own = ErrorScale.learn(volatility, errors, np.ones_like(errors), series)
    w = 1 / np.bincount(series)[series]
    x = volatility[:, 0] - w @ volatility[:, 0] / w.sum()
    x = x / np.sqrt(w @ x**2 / w.sum())
    y = errors[:, 0] / errors.mean()

    def loss(b):
        line = b[0] + x @ b[1:]
        return w @ (y * np.exp(-line) + line) + 5 / 2 * b[1:] @ b[1:]

    best = minimize(loss, np.zeros(3), tol=1e-10).x[1:]
    width = np.sqrt(w @ (volatility[:, 0] - own.centre[0]) ** 2 / w.sum())
    np.testing.assert_allclose(own.slopes[0] * width, best, atol=1e-3)
    assert own.slopes[0, 0] > 0.3


def test_calm_and_volatile_series_get_different_widths_at_the_same_coverage():
    calibration = calibrated(*kinds(80, 0, (0.2, 1.0)))
    leads, errors, _, _, volatility = kinds(1000, 1, (0.2, 1.0))
    adapted = calibration.half_widths(leads, 0.9, volatility)
    plain = calibrated(*kinds(80, 0, (0.2, 1.0))[:4], None).half_widths(leads, 0.9)
    inside, calm = np.abs(errors) <= adapted, volatility[..., 0] < np.log(0.45)
    assert 0.88 < inside.mean() < 0.92
    assert inside[calm].mean() == pytest.approx(inside[~calm].mean(), abs=0.06)
    assert (np.abs(errors) <= plain)[calm].mean() > 0.99
    assert adapted.mean() < 0.8 * plain.mean()


def test_beyond_the_volatility_of_the_backtest_the_scale_is_held():
    parts = kinds(80, 0, (0.2, 1.0))
    own, volatility = calibrated(*parts), parts[-1]
    ends = np.stack([f(volatility, axis=0) for f in (np.min, np.max)])  # (2, D, 2)
    leads = np.ones((2, 2))
    expected = own.half_widths(leads, 0.9, ends)
    assert (expected[1] > 1.5 * expected[0]).all()
    far = ends + np.array([-5.0, 5.0])[:, None, None]
    np.testing.assert_array_equal(own.half_widths(leads, 0.9, far), expected)


@pytest.mark.parametrize("n_series", [3, 5, 8, 20])
@pytest.mark.parametrize("scales", [(1.0,), (0.2, 1.0)])
def test_few_series_cover_what_they_cover_without_scales(n_series, scales):
    leads, errors, _, _, volatility = kinds(200, 1000, scales)
    covered = []
    for seed in range(20):
        known = kinds(n_series, seed, scales)
        for calibration in (calibrated(*known), calibrated(*known[:4], None)):
            widths = calibration.half_widths(leads, 0.9, volatility)
            covered.append((np.abs(errors) <= widths).mean())
    adapted, plain = np.mean(np.reshape(covered, (-1, 2)), axis=0)
    assert adapted > min(plain, 0.9) - 0.03
    assert 0.83 < adapted < 0.96


def test_scale_of_one_is_no_scale():
    """Too few series, or volatility that say nothing: the errors as they are."""
    known = kinds(40, 0, (1.0,))
    plain = calibrated(*known[:4], None)
    assert plain.scale is None
    assert calibrated(*kinds(4, 0, (1.0,))).scale is None
    alike = calibrated(*known[:4], np.full_like(known[4], 0.3))
    np.testing.assert_array_equal(alike.scale.slopes, 0)
    asked = known[0][:50]
    expected = plain.half_widths(asked, 0.9)
    for own, volatility in ((plain, known[4][:50]), (alike, known[4][:50]), (alike, None)):
        assert_same_but_for_rounding(own.half_widths(asked, 0.9, volatility), expected)


def test_scales_of_a_series_are_learned_from_others():
    leads, errors, series, _, volatility = kinds(20, 0, (0.2, 1.0))
    one = cross_fitted_scales(volatility, errors, leads, series)
    own = series == 7
    other = cross_fitted_scales(volatility, np.where(own[:, None], 50.0, errors), leads, series)
    assert_same_but_for_rounding(one[own], other[own])
    assert (one[series == 8] != other[series == 8]).any()


def test_what_is_unknown_or_exact_has_scales():
    leads, errors, series, times, volatility = kinds(20, 0, (1.0,))
    errors[:, 1] = np.nan
    errors[:, 0] = 0.0
    calibration = calibrated(leads, errors, series, times, volatility)
    widths = calibration.half_widths(leads, 0.9, 100 * volatility)
    np.testing.assert_array_equal(widths, np.tile([0.0, 1.0], (len(leads), 1)))


def walks(n_series: int, seed: int) -> Panel:
    """Calm and volatile ones in turn."""
    rng, series = np.random.default_rng(seed), []
    for k in range(n_series):
        t = np.cumsum(rng.exponential(size=25))
        series.append((t, (0.2 if k % 2 else 1.0) * rng.standard_normal((25, 1))))
    return Panel.from_series(series)


def pretrained(panel: Panel, **options: object) -> PolyODEForecaster:
    small = PolyODETransformer(n_coefficients=2, hidden_layer_sizes=(4,), max_epochs=2)
    share = {"calibration_fraction": 0.5, "random_state": 0}
    return PolyODEForecaster(small, **share, **options).pretrain(panel)


@pytest.fixture(scope="module")
def forecaster() -> PolyODEForecaster:
    return pretrained(walks(60, 0))


def seasonal(n_series: int, seed: int) -> Panel:
    """Sines of unknown phase and size, with noise of 0.3."""
    rng, t = np.random.default_rng(seed), np.arange(40.0)
    waves = rng.lognormal(0, 0.3, n_series), rng.uniform(0, 2 * np.pi, n_series)
    noise = 0.3 * rng.standard_normal((n_series, 40))
    values = [a * np.sin(t / 2 + phase) for a, phase in zip(*waves, strict=True)] + noise
    return Panel.from_series([(t, own) for own in values])


def test_interval_narrows_as_more_of_a_season_is_known():
    """Errors at the start of a series, whose phase is not known, do not widen those at its end."""
    model, others = pretrained(seasonal(40, 0), period=4 * np.pi), seasonal(60, 1)
    leads, widths = np.arange(1.0, 9.0), []
    for known in (4, 28):
        past = Panel.from_series([(t[:known], x[:known]) for t, x in others])
        lower, upper = model.forecast_interval(past, leads, 0.9, "end")
        widths.append((upper.values - lower.values).mean())
        actual = np.concatenate([x[known : known + 8] for _, x in others])
        assert 0.8 < ((lower.values <= actual) & (actual <= upper.values)).mean() < 0.97
    assert widths[1] < 0.75 * widths[0]  # without what is expected 0.82
    assert widths[1] < 1.3 * 2 * 1.645 * 0.3  # of the noise alone


def waves(n_series: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sines of unknown phase and size at irregular times."""
    rng, series = np.random.default_rng(seed), []
    for _ in range(n_series):
        t = np.cumsum(rng.uniform(0.3, 1.5, 20))
        size, phase = rng.gamma(4, 0.25), rng.uniform(0, 2 * np.pi)
        series.append((t, size * np.sin(0.8 * t + phase)))
    return series


def test_the_next_rows_after_the_first_one_are_held():
    """One says nothing of where a wave goes: 0.75 and 0.77 without factors of few observations."""
    small = {"n_coefficients": 2, "hidden_layer_sizes": (4,), "max_epochs": 1, "random_state": 0}
    model, others = PolyODETransformer(**small).fit(waves(40, 0)), waves(200, 1)
    for n in (1, 2, 3):
        past, asked = [(t[:n], x[:n]) for t, x in others], [t[n : n + 2] for t, _ in others]
        actual = np.concatenate([x[n : n + 2] for _, x in others])
        ends = [own.values[:, 0] for own in model.forecast_interval(past, asked, 0.9)]
        samples = model.sample_paths(past, asked, random_state=0).samples[:, :, 0]
        for low, high in (ends, np.quantile(samples, [0.05, 0.95], axis=1)):
            assert ((low <= actual) & (actual <= high)).mean() > 0.88


def test_factors_of_few_observations():
    """Errors of normal size but for the first four groups' at short leads, in 95 series."""
    rng, per, n_series = np.random.default_rng(0), 400, 95
    count = np.repeat([1, 2, 3, 4, 5, 6, 30], per)
    n = len(count)
    predictors = np.zeros((n, 1, N_PREDICTORS))
    predictors[..., FEW] = count[:, None] ** -0.5
    leads, series = np.tile([[1.0], [8.0]], (n // 2, 1)), rng.integers(n_series, size=n)
    grown = np.select([count == 1, count == 2, count == 3], [2.0, 3.0, 1.0], 0.5)[:, None]
    relative = np.abs(rng.normal(size=(n, 1))) / 1.645 * np.where(leads == 1.0, grown, 0.7)
    blank = [np.zeros((1, N_PREDICTORS))] * 4
    plain = ErrorScale(*blank, np.ones(1), np.zeros((5, 1)))
    scale = plain.widened(4 * relative, np.full((n, 1), 4.0), predictors, leads, series)
    np.testing.assert_array_equal(scale.leads, [1.0, 8.0])
    near = np.exp(scale.few[:, 0])
    np.testing.assert_allclose(near, np.array([1, 1, 1, 3, 3]) ** 0.95, rtol=0.15)
    assert near[4] == near[3]  # not less after one than after two
    np.testing.assert_array_equal(scale.few[:, 1], 0.0)
    at = scale.at(predictors, leads)[:, 0]
    expected = np.where((count <= 2) & (leads[:, 0] == 1.0), near[4], 1.0)
    few = (count != 3) & (count != 4) & (count != 5)
    np.testing.assert_allclose(at[few], expected[few])
    far = scale.at(predictors[:1], np.full((1, 1), np.inf))  # a channel not yet observed
    np.testing.assert_allclose(far, 1.0)
    many = (own[-per:] for own in (relative, relative, predictors, leads, series))
    assert plain.widened(*many) is plain


def test_interval_is_narrower_for_calm_series(forecaster):
    lower, upper = forecaster.forecast_interval(walks(20, 1), [1.0, 4.0], 0.9, "end")
    quantiles = forecaster.forecast_quantiles(walks(20, 1), [1.0, 4.0], [0.05, 0.95], "end")
    np.testing.assert_allclose(lower.values, quantiles[0.05].values, rtol=1e-9)
    np.testing.assert_allclose(upper.values, quantiles[0.95].values, rtol=1e-9)
    widths = (upper.values - lower.values).reshape(20, 2)
    assert widths[1::2].max() < widths[::2].min()
    assert (np.diff(widths, axis=1) >= 0).all()
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1, got 90"):
        forecaster.forecast_interval(walks(2, 1), [1.0], 90, "end")


def test_intervals_do_not_depend_on_units(forecaster):
    """Nor on what comes later, at times after, at and between rows."""
    panel, asked = walks(6, 2), [np.sort([0.3, 2.0, 40.0])]
    times = [own[0] + asked[0] for own, _ in panel]
    known = walks(60, 0)
    other = pretrained(known.like(known.times, 100 + 8 * known.values, known.offsets))
    in_others = panel.like(panel.times, 100 + 8 * panel.values, panel.offsets)
    plain, moved = (
        np.stack([end.values for end in model.forecast_interval(own, times)])
        for model, own in ((forecaster, panel), (other, in_others))
    )
    np.testing.assert_allclose(moved, 100 + 8 * plain, rtol=2e-3)
    until = Panel.from_series([(t[:10], x[:10]) for t, x in panel])
    rows = [t[9] for t, _ in panel]
    early, late = (
        np.stack([e.values for e in forecaster.forecast_interval(own, [[r] for r in rows])])
        for own in (until, panel)
    )
    np.testing.assert_allclose(early, late, atol=1e-6)


def test_scale_is_saved_and_may_be_missing(tmp_path: Path):
    model = pretrained(walks(40, 0))
    assert model.calibration_.scale is not None
    model.save(tmp_path / "new.safetensors")
    again = skpolyode.load(tmp_path / "new.safetensors")
    asked = walks(4, 1), [1.0, 5.0], 0.8, "end"
    for old, new in zip(
        model.forecast_interval(*asked), again.forecast_interval(*asked), strict=True
    ):
        np.testing.assert_array_equal(new.values, old.values)
    plain = replace(model.calibration_.learned, scale=None)
    again.transformer_.embedder_ = replace(again.transformer_.embedder_, calibration=plain)
    again.save(tmp_path / "old.safetensors")
    plain = skpolyode.load(tmp_path / "old.safetensors")
    lower, upper = plain.forecast_interval(*asked)
    widths = (upper.values - lower.values).reshape(4, 2)
    np.testing.assert_allclose(widths, np.tile(widths[:1], (4, 1)), rtol=0.05)
