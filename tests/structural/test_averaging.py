"""Structural models of few series: the Kalman filter, their forecasts, and their weight."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_t

import skpolyode
from skpolyode import Panel, PolyODETransformer
from skpolyode.ensemble.periods import likely_periods
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.structural import components, forecaster
from skpolyode.structural.components import (
    Components,
    draw_components,
    kalman_filter,
    predict,
    similar_points,
    sobol_points,
)
from skpolyode.structural.forecaster import StructuralModels, StructuralSettings
from tests.quick import replaced

PERIOD = 6  # its place among the coordinates of a model
NOTHING = {
    **{"noise": 0.3, "rate": 0.0, "walk": 0.0, "slope_rate": 0.0, "slope_walk": 0.0, "slope": 0.0},
    **{"season_rate": 0.0, "season_walk": 0.0, "season": 0.0, "turns": [], "shares": []},
    **{"period": 1.0, "free": 0.0},
}
# Parts of a model, and what it makes of two times since the start as a Gaussian process.
PARTS = {
    "walk": ({"walk": 0.4}, lambda s, t: 0.4 * np.minimum(s, t)),
    "pulled": ({"rate": 0.3, "walk": 0.6}, lambda s, t: np.exp(-0.3 * np.abs(s - t))),
    "line": ({"slope": 0.2}, lambda s, t: 0.2 * s * t),
    "damped slope": (
        {"slope_rate": 0.5, "slope_walk": 0.2, "slope": 0.2},
        lambda s, t: (
            0.8
            * (np.minimum(s, t) - 1 + np.exp(-s / 2) + np.exp(-t / 2) - np.exp(-np.abs(s - t) / 2))
        ),
    ),
    "season": (
        {"season": 0.7, "season_walk": 0.1, "turns": [0.2, 0.4], "shares": [1.0, 0.5]},
        lambda s, t: (
            (0.7 + 0.1 * np.minimum(s, t))
            * sum(np.cos(2 * np.pi * k * (s - t) / 5) / k for k in (1, 2))
        ),
    ),
    "cycle": (
        {"season": 0.5, "season_rate": 0.2, "season_walk": 0.2, "turns": [1 / 7], "shares": [1.0]},
        lambda s, t: 0.5 * np.exp(-0.2 * np.abs(s - t)) * np.cos(2 * np.pi * (s - t) / 7),
    ),
    "two seasons": (
        {"season": 0.7, "turns": [0.2, 0.1, 0.0], "shares": [1.0, 0.5, 0.0]},
        lambda s, t: 0.7 * np.cos(0.4 * np.pi * (s - t)) + 0.35 * np.cos(0.2 * np.pi * (s - t)),
    ),
}


def model(**parts: object) -> Components:
    return Components(np.zeros(1, bool), *(np.array([v]) for v in (NOTHING | parts).values()))


def irregular(n: int = 60, seed: int = 0) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).choice(2 * n, n, replace=False)).astype(float)


def single(t: np.ndarray, x: np.ndarray) -> Panel:
    return Panel(t, x.reshape(len(t), -1), [0, len(t)])


def learned(panel: Panel, **options: object) -> StructuralModels:
    return StructuralModels.learn(panel, 0, **options)


@pytest.mark.parametrize("name", PARTS)
def test_filter_is_regression_by_a_gaussian_process(name):
    parts, covariance = PARTS[name]
    own, rng = model(**parts), np.random.default_rng(0)
    t = np.cumsum(np.append(0.0, rng.exponential(size=9)))
    x = rng.standard_normal(10)
    found = kalman_filter(t, x[:, None], own, asked=np.array([4, 9]))
    lead, known = 2.5, (found.states[-1:], found.covariances, found.phases, np.array([1]))
    (expected,), (variance,) = predict(own, *known, t[-1:], np.array([lead]))
    every = np.append(t, t[-1] + lead)
    matrix = 1e6 + covariance(every[:, None], every) + 0.3 * np.eye(11)
    weights = np.linalg.solve(matrix[:10, :10], matrix[:10, 10])
    assert weights @ x == pytest.approx(expected[0], abs=1e-4)
    left = matrix[10, 10] - weights @ matrix[:10, 10]
    assert left == pytest.approx(variance[0], rel=1e-3)
    # The first value says nothing; the scale of what follows has a Student's t distribution.
    centre = matrix[1:10, 0] / matrix[0, 0]
    left = matrix[1:10, 1:10] - np.outer(centre, matrix[0, 1:10])
    density = multivariate_t.logpdf(x[1:], centre * x[0], left, df=1)
    assert found.log_likelihood[-1, 0] == pytest.approx(density, abs=1e-4)


# Of a season: rate of decay, variance gained, harmonics beside phases, and tolerance.
PHASES = {
    "stay": (0.0, 0.0, [1.0, 0.5], 1e-3),
    "walk": (0.0, 0.02, [], 1e-3),
    "fade": (0.02, 0.08, [], 1e-3),
    "walk beside harmonics": (0.0, 0.02, [1.0, 0.5], 0.2),
}


@pytest.mark.parametrize("name", PHASES)
def test_phases_are_those_of_a_gaussian_process(name):
    """Nearly, if harmonics beside them do not stay."""
    fades, walk, shares, off = PHASES[name]
    season = {"season": 2.0, "season_rate": fades, "season_walk": walk}
    waves = {"turns": [k / 6 for k in range(1, 1 + len(shares))], "shares": shares}
    own = model(**season, **waves, period=6.0, free=0.5, noise=0.1)
    rng = np.random.default_rng(0)
    t = np.append(0.0, np.arange(1.0, 60.0)[rng.random(59) < 0.8])
    x = rng.standard_normal(6)[t.astype(int) % 6] + 0.3 * rng.standard_normal(len(t))
    found = kalman_filter(t, x[:, None], own, asked=np.array([len(t) - 1]))
    lead, states = np.arange(1.0, 7.0), np.repeat(found.states[-1:], 6, axis=0)
    known = states, found.covariances, found.phases, np.zeros(6, dtype=int)
    expected, variance = predict(own, *known, np.full(6, t[-1]), lead)
    every = np.append(t, t[-1] + lead)
    apart = np.abs(every[:, None] - every)
    amplitude = 2.0 * np.exp(-fades * apart) + walk * (not fades) * np.minimum.outer(every, every)
    shape = 0.5 * (apart % 6 == 0)
    shape = shape + sum(share * np.cos(np.pi * k * apart / 3) for k, share in enumerate(shares, 1))
    matrix = 1e6 + amplitude * shape + 0.1 * np.eye(len(every))
    n = len(t)
    weights = np.linalg.solve(matrix[:n, :n], matrix[:n, n:])
    np.testing.assert_allclose(expected[:, 0], x @ weights, atol=off)  # values have 1
    left = np.diag(matrix[n:, n:] - weights.T @ matrix[:n, n:])
    np.testing.assert_allclose(variance[:, 0], left, rtol=off)


def test_gaps_are_crossed_many_at_once_as_one_by_one(monkeypatch):
    own, t = draw_components(sobol_points(64, 0), [(5.0,)], positive=False), irregular(150)
    x = np.random.default_rng(0).standard_normal((150, 64)).cumsum(axis=0)
    together = kalman_filter(t, x, own, asked=np.array([63, 64, 149]))
    monkeypatch.setattr(components, "_AT_ONCE", 1)
    alone = kalman_filter(t, x, own, asked=np.array([63, 64, 149]))
    for many, one in zip(together, alone, strict=True):
        np.testing.assert_allclose(many, one, rtol=1e-9)


def test_drawn_models_add_one_in_a_gap_and_simple_ones_are_among_them():
    own = draw_components(sobol_points(256, 0), [(12.0,), (5.0, 30.0)], positive=True)
    added, both = own.added(1.0)
    np.testing.assert_allclose(own.noise + added[:, 1], 1.0)
    assert (added >= 0).all()
    assert (np.abs(both) <= np.sqrt(added[:, 0] * added[:, 2]) + 1e-12).all()
    mean, last = own.walk == 0, (own.noise < 0.01) & (own.rate == 0)
    assert (mean & (own.slope == 0)).any()
    assert (last & (own.slope == 0)).any()
    assert (mean & (own.slope > 0) & (own.slope_rate == 0)).any()
    assert own.turns.shape == (256, 2 + 12)  # five rows have two harmonics, thirty have twelve
    assert set(own.turns[:, 0]) == {1 / 12, 1 / 5}
    together = own.turns[:, 0] == 1 / 5
    np.testing.assert_allclose(own.turns[together, 2], 1 / 30)
    assert set(own.shares[together, 2]) == {1.0}
    assert not own.shares[~together, 6:].any()
    plain = draw_components(sobol_points(256, 0), [], positive=False)
    assert not plain.is_log.any()
    assert not plain.shares.size


def test_further_draws_have_the_moments_of_the_likely_ones():
    """Nine tenths of them: means, mean squares and shares of seasons; whatever was likely."""
    first, others = sobol_points(1024, 0), [j for j in range(13) if j != PERIOD]
    weights = first[:, 0] ** 8 * (1 - first[:, 1]) * (first[:, PERIOD] > 1 / 3)
    weights /= weights.sum()
    drawn = similar_points(first, weights, 3, 4096, 1)
    for power in (1, 2):
        moments = 0.9 * weights @ first**power + 0.1 / (1 + power)
        np.testing.assert_allclose((drawn**power).mean(axis=0)[others], moments[others], atol=0.005)
    old, new = ((3 * points[:, PERIOD]).astype(int) for points in (first, drawn))
    shares = 0.9 * np.bincount(old, weights) + 0.1 / 3
    np.testing.assert_allclose(np.bincount(new) / 4096, shares, atol=0.001)
    even = similar_points(first, np.full(1024, 1 / 1024), 1, 64, 1)
    np.testing.assert_allclose(even[:, others], sobol_points(64, 1)[:, others], atol=0.01)
    for alone in (np.zeros((1, 13)), np.full((1, 13), 1 - 1e-9)):
        drawn = similar_points(alone, np.ones(1), 2, 64, 0)
        assert ((drawn >= 0) & (drawn < 1)).all()


def test_a_draw_hardly_decides_a_forecast():
    """Of a season that grows: 96 models in three turns agree better than 128 in one."""
    t, rng = np.arange(72.0), np.random.default_rng(0)
    panel = single(t, np.exp(0.2 * wave(t) + 0.01 * t + 0.03 * rng.standard_normal(72)))
    ahead = t[-1] + np.arange(1.0, 13)

    def spread() -> float:
        found = [
            StructuralModels.learn(panel, seed)
            .forecast_from(panel, np.array([71]), ahead, np.array([12]))
            .means[:, 0]
            for seed in range(6)
        ]
        return float(np.std(found, axis=0).mean())

    with replaced(forecaster, "SETTINGS", StructuralSettings(n_drawn=32)):
        own = spread()
    with replaced(forecaster, "SETTINGS", StructuralSettings(n_drawn=128, n_turns=1)):
        assert own < spread()


@pytest.mark.parametrize("period", [12.0, 7.3])
def test_periods_are_found(period):
    t = irregular(100)
    rng = np.random.default_rng(0)
    x = np.cos(2 * np.pi * t / period) + 0.5 * np.sin(4 * np.pi * t / period)
    found = likely_periods(t / 2, [x - x.mean() + 0.3 * rng.standard_normal(100)], 3)
    assert 2 * found[0] == pytest.approx(period, rel=0.02)
    assert likely_periods(t, [np.zeros(100)], 3) == []


def test_bursts_far_apart_are_searched_like_others():
    """The grid of frequencies has a bounded number of points, however long the gap."""
    t = np.concatenate([np.arange(30.0), 1e9 + np.arange(30.0)])
    assert all(2 <= period <= t[-1] / 2 for period in likely_periods(t, [np.sin(t / 3)], 3))


SIGNALS = {
    "noise": lambda t, e: (5 + e, np.full(6, 5.0)),
    "walk": lambda t, e: ((w := np.cumsum(e)), np.full(6, w[-1])),
    "line": lambda t, e: (0.5 * t + e, 0.5 * (t[-1] + np.arange(1, 7))),
    "season": lambda t, e: (wave(t) + 0.3 * e, wave(t[-1] + np.arange(1, 7))),
    "multiplied": lambda t, e: (
        np.exp(wave(t) / 4 + 0.02 * t + 0.05 * e),
        np.exp(wave(n := t[-1] + np.arange(1, 7)) / 4 + 0.02 * n),
    ),
}


def wave(t: np.ndarray) -> np.ndarray:
    return 2 * np.sin(2 * np.pi * t / 11) + np.cos(4 * np.pi * t / 11)


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("stretch", [1.0, 86400.0])
def test_what_is_there_is_continued(name, stretch):
    t = irregular(90, seed=1)
    x, truth = SIGNALS[name](t, np.random.default_rng(1).standard_normal(90))
    panel = single(stretch * t, x)
    ahead = stretch * (t[-1] + np.arange(1.0, 7))
    found = learned(panel).forecast_from(panel, np.array([89]), ahead, np.array([6])).means[:, 0]
    rest = {"noise": 0.3, "walk": 0.8, "line": 0.8, "season": 0.6, "multiplied": 0.2 * truth.max()}
    assert np.abs(found - truth).max() < rest[name]


def test_forecasts_know_the_past_only_in_any_units():
    t, rng = irregular(60), np.random.default_rng(2)
    x = np.stack([wave(t), np.cumsum(rng.standard_normal(60))], axis=1)
    x[rng.random(x.shape) < 0.2] = np.nan
    x[0, 1] = np.nan
    panel = Panel(t, x, [0, 30, 60])
    own = learned(panel)
    origins, counts = np.array([10, 30, 45]), np.array([2, 1, 2])
    times = np.repeat(t[origins], counts) + np.array([1.0, 9.0, 0.5, 2.0, 30.0])
    found = own.forecast_from(panel, origins, times, counts).means
    assert np.isfinite(found[[0, 1, 3, 4]]).all()
    later = x.copy()
    later[11:30] = later[46:] = 99.0
    changed = own.forecast_from(Panel(t, later, [0, 30, 60]), origins, times, counts)
    np.testing.assert_allclose(changed.means, found, rtol=1e-9)
    other = Panel(3600 * t + 1e6, 7 - 1000 * x, [0, 30, 60])
    converted = learned(other).forecast_from(other, origins, 3600 * times + 1e6, counts)
    np.testing.assert_allclose(converted.means, 7 - 1000 * found, rtol=1e-4, atol=1)
    np.testing.assert_allclose(converted.deviations, 1000 * changed.deviations, rtol=1e-2)


def test_no_forecast_goes_far_beyond_what_was_seen():
    t = np.arange(12.0)
    panel = single(t, np.exp(t))
    found = learned(panel).forecast_from(panel, np.array([11]), np.array([1e4]), np.array([1]))
    assert found.means[0, 0] <= np.exp(11) * 4
    for x in (np.zeros(12), np.full(12, 3.5)):
        panel = single(t, x)
        found = learned(panel).forecast_from(panel, np.array([0, 11]), t[:2] + 20, np.ones(2, int))
        np.testing.assert_allclose(found.means[:, 0], x[0], atol=1e-9)


def test_values_may_cease_to_be_positive():
    t = np.arange(40.0)
    panel = single(t, np.exp(0.2 * np.random.default_rng(0).standard_normal(40).cumsum()))
    own = learned(panel)
    assert any(group.is_log.any() for group in own.channels[0].groups)
    dropped = single(t[:6], np.array([1.0, 2.0, 1.0, 0.0, -1.0, -2.0]))
    found = own.forecast_from(dropped, np.array([2, 5]), np.array([8.0, 8.0]), np.ones(2, int))
    assert np.isfinite(found).all()


def test_long_series_are_run_through_in_blocks(monkeypatch):
    t = np.arange(300.0)
    panel = single(t, wave(t) + 0.1 * np.random.default_rng(0).standard_normal(300))
    own, origins = learned(panel), np.array([5, 150, 299])
    asked = origins, t[origins] + 3.0, np.ones(3, int)
    whole = own.forecast_from(panel, *asked).means
    monkeypatch.setattr(forecaster, "LONGEST_PAST", 100)
    found = own.forecast_from(panel, *asked).means
    np.testing.assert_allclose(found, whole, atol=0.2)


def test_choices_of_the_forecaster():
    t = irregular(60)
    panel = single(t, 0.1 * t + wave(t))
    groups = learned(panel, period=()).channels[0].groups
    assert len(groups) == 1
    assert not groups[0].season.any()
    own = learned(panel, period=[11.0, 5.5]).channels[0]
    assert set(own.gap / own.groups[-1].turns[:, 0]) <= {11.0, 5.5}
    assert not any(own.priors)
    assert learned(Panel(t, np.stack([t, np.nan * t], axis=1), [0, 60])).channels[1] is None


def test_a_day_and_a_week_are_there_together():
    """Three weeks, then a weekend."""
    t, rng = np.arange(504.0 + 48), np.random.default_rng(0)
    x = np.sin(2 * np.pi * t / 24) - 2.0 * ((t // 24 + 5) % 7 > 4) + 0.1 * rng.standard_normal(552)
    panel, ahead = single(t[:504], x[:504]), t[504:]
    found = learned(panel, period=[24.0, 168.0]).forecast_from(
        panel, np.array([503]), ahead, np.array([48])
    )
    assert np.sqrt(np.mean((found.means[:, 0] - x[504:]) ** 2)) < 0.45  # a day alone: above 1


@pytest.mark.parametrize("moved", [0.0, 0.2])
def test_a_sharp_hour_is_told_from_smooth_ones(moved):
    """At which six harmonics of a day swing; also if hours are missing, and are not whole."""
    t, rng = np.arange(168.0), np.random.default_rng(0)
    x = np.cos(2 * np.pi * t / 24) + 3.0 * (t % 24 == 7) + 0.1 * rng.standard_normal(168)
    known = rng.random(144) < (0.7 if moved else 1.0)
    t += moved * rng.uniform(-1, 1, 168)
    panel = single(t[:144][known], x[:144][known])
    origin, ahead = np.array([known.sum() - 1]), t[144:]
    found = learned(panel, period=[24.0]).forecast_from(panel, origin, ahead, np.array([24]))
    assert np.sqrt(np.mean((found.means[:, 0] - x[144:]) ** 2)) < 0.25  # harmonics alone: above .4


def small(**options: object) -> PolyODEForecaster:
    transformer = PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1)
    return PolyODEForecaster(transformer, random_state=0, **options)


@pytest.mark.parametrize("n_rows", [1, 2, 5, 40])
@pytest.mark.filterwarnings("ignore:times are more than 20 times as far")
def test_forecaster_of_few_series(n_rows, tmp_path):
    t, rng = np.cumsum(1 + np.random.default_rng(0).random(40)), np.random.default_rng(1)
    series = [(t[:n_rows] + k, rng.normal([0, 1e4, 0], size=(n_rows, 3))) for k in range(2)]
    for _, x in series:
        x[1::3, 1] = np.nan
        x[:, 2] = np.nan
    panel = Panel.from_series(series)
    with pytest.warns(UserWarning, match="never observed|cannot be held out|no observation"):
        forecaster = small().pretrain(panel)
    ahead = [0.5, 3.0, 40.0]
    found = forecaster.forecast_quantiles(panel, ahead, [0.1, 0.5], relative_to="end")
    assert all(np.isfinite(own.values).all() for own in found.values())
    assert (np.abs(found[0.5].values - [0, 1e4, 0]) < 10).all()
    forecaster.save(tmp_path / "model.safetensors")
    again = skpolyode.load(tmp_path / "model.safetensors")
    new = again.forecast_quantiles(panel, ahead, [0.1], relative_to="end")
    np.testing.assert_array_equal(new[0.1].values, found[0.1].values)


def test_random_state_draws_the_models():
    t = np.arange(40.0)
    panel = single(t, wave(t))
    groups = [
        small().set_params(random_state=k).pretrain(panel).structural_.channels[0].groups[0]
        for k in (0, 0, 1)
    ]
    np.testing.assert_array_equal(groups[0].noise, groups[1].noise)
    assert not np.array_equal(groups[0].noise, groups[2].noise)


def test_only_few_series_have_a_structure():
    t = np.arange(12.0)
    panel = Panel.from_series([(t, np.sin(t + k)) for k in range(10)])
    assert small().pretrain(panel).structural_ is None
    assert small().pretrain(panel[:9]).structural_ is not None


def test_forecasts_are_structural_where_these_have_all_weight():
    t = np.arange(60.0)
    panel = single(t, 0.3 * t + wave(t))
    forecaster = small().pretrain(panel)
    embedder, ahead = forecaster.transformer_.embedder_, np.arange(60.0, 66)
    alone = np.zeros_like(embedder.stacking.weights)
    alone[..., embedder.stacking.names.index("structural")] = 1.0
    stacking = replace(embedder.stacking.learned, weights=alone)
    forecaster.transformer_.embedder_ = replace(embedder, stacking=stacking)
    own, doors = forecaster.structural_, (forecaster, forecaster.transformer_)
    expected = own.forecast_from(panel, np.array([59]), ahead, np.array([6])).means
    for ask in (ask for door in doors for ask in (door.forecast, door.interpolate)):
        np.testing.assert_allclose(ask(panel, ahead).values, expected, rtol=1e-9)


def test_structure_has_the_weight_where_there_is_one():
    """A trend and a season of one series."""
    t, rng = np.arange(80.0), np.random.default_rng(0)
    panel = single(t, 0.3 * t + wave(t) + 0.1 * rng.standard_normal(80))
    stacking = small().pretrain(panel).transformer_.embedder_.stacking
    assert (stacking.weights[0, -1:, stacking.names.index("structural")] > 0.8).all()
    anchored = [stacking.names.index(name) for name in ("run", "last")]
    assert stacking.weights[0, 0, anchored].sum() == pytest.approx(1.0)


def test_a_structural_forecast_that_is_not_known_is_that_of_the_mixed_model():
    t = np.arange(60.0)
    embedder = small().pretrain(single(t, wave(t))).transformer_.embedder_
    own, rows = embedder.stacking, embedder.standardised(single(t, wave(t)))
    known = own.known_at(rows, np.array([40, 50]))
    parts = known, rows.times[[40, 50]] + 2.0, np.empty((2, 0))
    run, names = {"run": np.zeros((2, 1))}, ("structural", "mixed")
    found = own.forecasts(names, run | {"structural": np.array([[np.nan], [0.7]])}, *parts)
    assert found[0, 0, 0] == found[0, 0, 1]
    assert found[1, 0, 0] == 0.7
    found = own.forecasts(names, run, *parts)  # as in transformers and streams
    np.testing.assert_array_equal(found[..., 0], found[..., 1])
