"""Intervals between observations, calibrated by hiding some, and variances that agree."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import skpolyode
from skpolyode import PolyODETransformer
from skpolyode.embedders.paths import PathQuery
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.panel import Panel
from tests.closeness import assert_same_but_for_rounding
from tests.transformers.data import short_oscillators, small


def bridges(n_series: int, seed: int, n_rows: int = 25) -> Panel:
    """Brownian motions, quiet and wild ones."""
    rng, series = np.random.default_rng(seed), []
    for k in range(n_series):
        gaps = rng.exponential(size=n_rows) + 0.05
        steps = (0.3, 1.0)[k % 2] * np.sqrt(gaps) * rng.standard_normal(n_rows)
        series.append((np.cumsum(gaps), np.cumsum(steps)))
    return Panel.from_series(series)


def as_good_as_lines() -> PolyODEForecaster:
    """One epoch leaves the dynamics nearly where they began."""
    transformer = small(max_epochs=1, learning_rate_init=1e-9, validation_fraction=None)
    return PolyODEForecaster(transformer, calibration_fraction=0.5, random_state=0)


both = pytest.mark.parametrize("kind", ["forecaster", "transformer"])


@pytest.fixture(scope="module")
def walkers() -> dict[str, PolyODEForecaster | PolyODETransformer]:
    model, panel = as_good_as_lines(), bridges(300, 0)
    transformer = clone(model.transformer).set_params(validation_fraction=0.5)
    return {"forecaster": model.pretrain(panel), "transformer": transformer.fit(panel)}


@pytest.fixture(scope="module")
def all_fitted() -> dict[str, PolyODEForecaster | PolyODETransformer]:
    panel = Panel.from_series(short_oscillators(20))
    forecaster = PolyODEForecaster(small(), random_state=0).pretrain(panel)
    return {"forecaster": forecaster, "transformer": small(random_state=0).fit(panel)}


@pytest.fixture
def walker(walkers, kind):
    return walkers[kind]


@pytest.fixture
def fitted(all_fitted, kind):
    return all_fitted[kind]


def transformer_of(model: PolyODEForecaster | PolyODETransformer) -> PolyODETransformer:
    return getattr(model, "transformer_", model)


@both
def test_hidden_values_are_covered(walker):
    """Those of other series, of both kinds, near observations and far from them."""
    panel = bridges(200, 1)
    hidden = np.arange(panel.n_observations) % 25 % 4 == 2
    known = Panel.from_series(
        [(s.times[keep], s.values[keep]) for s, keep in parts(panel, ~hidden)]
    )
    times = [s.times[keep] for s, keep in parts(panel, hidden)]
    lower, upper = walker.interpolate_interval(known, times, coverage=0.9)
    actual = panel.values[hidden]
    inside = (lower.values <= actual) & (actual <= upper.values)
    assert inside.mean() == pytest.approx(0.9, abs=0.05)  # over 24 fits: 0.85 to 0.93
    wide = upper.values - lower.values
    far = wide > np.median(wide)
    assert inside[far].mean() == pytest.approx(0.9, abs=0.06)
    assert inside[~far].mean() == pytest.approx(0.9, abs=0.06)
    ahead = walker.forecast_interval(known, [1.0], relative_to="end")
    assert wide.mean() < np.mean(ahead[1].values - ahead[0].values)


def parts(panel: Panel, kept: np.ndarray) -> list:
    return list(zip(panel, np.split(kept, panel.offsets[1:-1]), strict=True))


@both
def test_distances_are_those_to_the_observations_of_the_channel(fitted):
    panel = Panel.from_series([([0.0, 1.0, 3.0], [[1.0, 0.0], [2.0, np.nan], [0.0, 1.0]])])
    times = np.array([0.0, 0.5, 1.0, 2.5])
    embedder, asked = transformer_of(fitted).embedder_, PathQuery.of(panel, times, np.array([0, 4]))
    wanted = [[0, 0], [0.25, 1 / (2 + 1 / 2.5)], [0, 1 / (1 + 1 / 2)], [0.375, 1 / (2 + 1 / 2.5)]]
    errors = embedder.path_errors
    found = errors.on_path(embedder, asked)
    np.testing.assert_allclose(found["distance"], wanted)


@both
def test_what_was_observed_is_known_and_coverage_widens(fitted):
    panel = Panel.from_series(short_oscillators(6, seed=3))
    ends = [fitted.interpolate_interval(panel, coverage=level) for level in (0.5, 0.8, 0.95)]
    known = np.isfinite(panel.values)
    for lower, upper in ends:
        np.testing.assert_allclose(lower.values[known], panel.values[known], atol=1e-12)
        np.testing.assert_allclose(upper.values[known], panel.values[known], atol=1e-12)
        assert (upper.values[~known] > lower.values[~known]).all()
    widths = np.stack([upper.values - lower.values for lower, upper in ends])
    assert (np.diff(widths, axis=0) >= 0).all()
    path = transformer_of(fitted).interpolate(panel).values
    middle = (ends[0][0].values + ends[0][1].values) / 2
    np.testing.assert_allclose(middle, path, atol=1e-9)
    np.testing.assert_allclose(fitted.interpolate(panel).values, path, atol=1e-9)


@both
def test_after_the_end_they_are_those_of_forecasts(fitted):
    panel = Panel.from_series(short_oscillators(4, seed=3))
    ahead = {"times": [0.2, 2.0], "relative_to": "end", "coverage": 0.8}
    for one, other in zip(
        fitted.interpolate_interval(panel, **ahead),
        fitted.forecast_interval(panel, **ahead),
        strict=True,
    ):
        assert_same_but_for_rounding(one.values, other.values)
    path, forecast = (
        ask(panel, [0.2, 2.0], relative_to="end") for ask in (fitted.interpolate, fitted.forecast)
    )
    assert_same_but_for_rounding(path.values, forecast.values)


@both
def test_series_do_not_depend_on_their_company_and_files_keep_all(fitted, tmp_path):
    panel, times = Panel.from_series(short_oscillators(5, seed=4)), [0.5, 1.5, 2.5]
    whole = fitted.interpolate_interval(panel, times, relative_to="start")[1].values
    one = fitted.interpolate_interval(panel[[3]], times, relative_to="start")[1].values
    np.testing.assert_allclose(one, whole[9:12], atol=1e-6)
    fitted.save(tmp_path / "model.safetensors")
    again = skpolyode.load(tmp_path / "model.safetensors")
    there = again.interpolate_interval(panel, times, relative_to="start")[1].values
    np.testing.assert_array_equal(there, whole)


def test_with_too_few_observations_to_hide_they_are_as_wide_as_of_forecasts():
    series = [([0.0, 1.0, 2.0], [k, k + 1.0, k]) for k in range(5)]
    model = small(random_state=0).fit(series)
    assert model.embedder_.path_errors.law is None
    lower, upper = model.interpolate_interval(series, [0.5, 1.5])
    assert (upper.values > lower.values).all()
    std = model.interpolate_std(series, [0.5, 1.5]).values
    np.testing.assert_allclose((upper.values - lower.values) / 2, 1.6449 * std, rtol=1e-3)


@both
def test_before_the_first_row_they_are_the_wider_the_longer_before(walker):
    """On one grid for all series, which start when they do, as `interpolate` takes."""
    panel, grid = bridges(12, 4), np.array([-30.0, 0.0, 5.0, 10.0])
    lower, upper = walker.interpolate_interval(panel, grid, coverage=0.9)
    middle = (lower.values + upper.values) / 2
    np.testing.assert_allclose(middle, transformer_of(walker).interpolate(panel, grid).values)
    first = panel.times[panel.offsets[:-1]]
    early = (lower.times < np.repeat(first, len(grid))).reshape(12, -1)
    assert 12 < early.sum() < 36
    widths = (upper.values - lower.values).reshape(12, -1)
    assert (widths[early] > 0).all()
    assert (np.diff(widths, axis=1)[early[:, 1:]] <= 0).all()
    assert widths[:, 0].mean() > 1.2 * widths[:, 1:][early[:, 1:]].mean()


def test_long_gaps_are_covered():
    """Even rows and some gaps of ten of them: errors at single hidden rows do not tell of these."""
    rng, known, hidden = np.random.default_rng(0), [], []
    for _ in range(120):
        times, x = np.arange(60.0), rng.standard_normal(60).cumsum()
        start = int(rng.integers(10, 40))
        gap = (times > start) & (times <= start + 10)
        known.append((times[~gap], x[~gap]))
        hidden.append((times[gap], x[gap]))
    model = as_good_as_lines().pretrain(Panel.from_series(known[:80]))
    inside = [(t - t[0] > 3) & (t - t[0] < 7) for t, _ in hidden[80:]]
    asked = [t[own] for (t, _), own in zip(hidden[80:], inside, strict=True)]
    lower, upper = model.interpolate_interval(known[80:], asked, coverage=0.9)
    actual = np.concatenate([x[own] for (_, x), own in zip(hidden[80:], inside, strict=True)])
    covered = (lower.values[:, 0] <= actual) & (actual <= upper.values[:, 0])
    assert covered.mean() == pytest.approx(0.9, abs=0.07)  # 40 gaps: a standard error of 0.045


def test_an_embedder_that_knows_its_errors_is_listened_to():
    model = PolyODEForecaster(small(observations="noisy"), random_state=0)
    model.pretrain(Panel.from_series(short_oscillators(20)))
    panel = Panel.from_series(short_oscillators(4, seed=5))
    lower, upper = model.interpolate_interval(panel, np.linspace(0.3, 2.0, 9), relative_to="start")
    width = upper.values - lower.values
    assert (width > 0).all()
    assert np.unique(width.round(9)).size > width.size / 2
    own = model.interpolate_interval(panel)
    known = np.isfinite(panel.values)
    assert ((own[1].values - own[0].values)[known] > 0).all()


def buoys(n_series: int, seed: int) -> np.ndarray:
    """Two channels that swing together, (series, time, channel)."""
    phase = np.random.default_rng(seed).uniform(0, 2 * np.pi, (n_series, 1))
    angle = np.arange(18.0) / 2 + phase
    return np.stack([np.sin(angle), np.cos(angle)], axis=2)


def test_channels_that_start_late_or_never_have_the_errors_of_such():
    """Errors between observations are much smaller."""
    model, truth = small(validation_fraction=0.4).fit(buoys(100, 0)), buoys(40, 1)
    for n_hidden in (9, 15, 18):
        known = truth.copy()
        known[:, :n_hidden, 1] = np.nan
        ends = model.interpolate_interval(Panel.from_array(known), coverage=0.9)
        lower, upper = (end.values.reshape(truth.shape) for end in ends)
        covered = ((lower <= truth) & (truth <= upper))[:, :n_hidden, 1].mean()
        assert 0.65 < covered <= 1.0  # 0.3 and less as errors between rows


@both
def test_wrong_coverage(fitted):
    with pytest.raises(ValueError, match=r"coverage must lie between 0 and 1, got 1\.5"):
        fitted.interpolate_interval(short_oscillators(2), [1.0], coverage=1.5)
    one = r"coverage must be one number between 0 and 1, got \[0\.5, 0\.9\]: call it for each"
    for method in (fitted.interpolate_interval, fitted.forecast_interval):
        with pytest.raises(TypeError, match=one):
            method(short_oscillators(2), [5.0], coverage=[0.5, 0.9])


def frame(n_rows: int = 40) -> pd.DataFrame:
    index = pd.date_range("2026-01-01", periods=n_rows, freq="h")
    angle = np.arange(n_rows) / 3
    return pd.DataFrame({"a": np.sin(angle), "b": 10 + 3 * np.cos(angle)}, index=index)


@pytest.fixture(scope="module")
def of_a_frame() -> PolyODEForecaster:
    return PolyODEForecaster(small(step_size=2000.0), random_state=0).fit(frame())


def test_variances_are_the_mean_squares_of_the_quantiles(of_a_frame):
    """Of half widths that are quantiles of the absolute error: the integral of their squares."""
    model, fh = of_a_frame, [1, 3, 6]
    levels = (np.arange(50) + 0.5) / 50
    interval = model.predict_interval(fh, coverage=list(levels))
    found = model.predict_var(fh)
    assert list(found.columns) == ["a", "b"]
    for name in found.columns:
        half = np.stack(
            [(interval[name][own]["upper"] - interval[name][own]["lower"]) / 2 for own in levels]
        )
        np.testing.assert_allclose(found[name], np.mean(half**2, axis=0), rtol=1e-9)
    with pytest.raises(NotImplementedError, match="cov=False"):
        model.predict_var(fh, cov=True)


def test_with_skpro_distributions_have_the_quantiles_or_are_joint(of_a_frame):
    """Of a walk: times are independent in the one, and go together in the other."""
    pytest.importorskip("skpro")
    model, fh = of_a_frame, list(range(1, 7))
    each, joint = (model.predict_proba(fh, marginal=own) for own in (True, False))
    np.testing.assert_allclose(each.mean(), model.predict(fh))
    asked = [0.05, 0.9]
    found, spread = each.quantile(asked), np.sqrt(model.predict_var(fh)).to_numpy().max()
    expected = model.predict_quantiles(fh, alpha=asked)
    np.testing.assert_allclose(found, expected, atol=0.05 * spread)
    near, far = (joint.spl["a"].xs(k, level=1) for k in joint.index[[3, 5]])
    assert np.corrcoef(near, far)[0, 1] > 0.5
    with pytest.raises(ValueError, match="futures start there"):
        model.predict_proba([-1, 1], marginal=False)


@pytest.mark.skipif(find_spec("skpro") is not None, reason="then it is an empirical one")
@pytest.mark.filterwarnings("ignore:.*skpro:UserWarning")
def test_the_normal_distribution_has_that_mean_and_variance(of_a_frame):
    model = of_a_frame
    normal, fh = model.predict_proba([1, 4]), [1, 4]
    np.testing.assert_allclose(normal.mean(), model.predict(fh))
    np.testing.assert_allclose(normal.var(), model.predict_var(fh))
