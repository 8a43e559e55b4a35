"""The mixed model against dense formulas, simulated variances, and statsmodels."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.signal import lombscargle
from scipy.stats import multivariate_normal

from skpolyode.ensemble import mixed
from skpolyode.ensemble.mixed import MixedEffects, RestrictedLikelihood, grouped
from skpolyode.ensemble.periods import alternatives, lomb_scargle, shared_seasons
from tests.ensemble.cases import asked_at, rows_of, single

SEASONS = [(), (6.0,), (6.0, 20.0)]  # periods
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def irregular(lengths: list[int], n_channels: int = 2, seed: int = 0) -> Rows:
    """Irregular rows with gaps; the second channel is never observed in the first series."""
    rng = np.random.default_rng(seed)
    times = np.concatenate([np.cumsum(rng.exponential(size=n)) for n in lengths])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    times -= np.repeat(times[offsets[:-1]], lengths)
    values = rng.standard_normal((len(times), n_channels))
    values[rng.random(values.shape) < 0.3] = np.nan
    values[: lengths[0], 1:] = np.nan
    return times, values, offsets


def made_up(periods: tuple[float, ...], n_channels: int = 2) -> MixedEffects:
    """A model whose numbers differ from channel to channel."""
    n_harmonics = (2, 7)[: len(periods)]  # six of these seven differ between series
    p, rng = 3 + (0, 4, 16)[len(periods)], np.random.default_rng(1)
    prior = np.zeros((n_channels, p, p))
    for j, own in enumerate(prior):
        own[:2, :2] = [[0.8, -0.2], [-0.2, 0.3 + j]]
        own[range(2, p - 1), range(2, p - 1)] = np.where(np.arange(2, p - 1) < 6, 0.2, 0.1)
        own[-1, -1] = 0.5 + 0.1 * j
    knots = np.array([0.0, 1.0, 2.5, 4.0])
    curve = rng.standard_normal((n_channels, len(knots) + 2 * sum(n_harmonics)))
    memory, noise = np.linspace(2.0, 5.0, n_channels), np.linspace(0.2, 0.7, n_channels)
    theta = np.zeros((n_channels, 6))
    return MixedEffects(knots, 3.0, periods, n_harmonics, theta, curve, prior, memory, noise)


def covariance(model: MixedEffects, channel: int, s: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Of the effects and the serial part at times s and t, term by term."""
    prior, memory = model.prior[channel], model.memory[channel]
    one, other = (np.stack([np.ones_like(x), x / model.span]) for x in (s, t))
    found = one.T @ prior[:2, :2] @ other
    own = zip(model.periods, model.n_harmonics, strict=True)
    waves = [k / period for period, n in own for k in range(1, min(n, 6) + 1)]
    for place, turns in enumerate(waves, 1):
        apart = s[:, None] - t
        found += prior[2 * place, 2 * place] * np.cos(2 * np.pi * turns * apart)
    return found + prior[-1, -1] * np.exp(-np.abs(s[:, None] - t) / memory)


def answers(
    model: MixedEffects, known: np.ndarray, *asked: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances."""
    query = known, asked_at(known, *asked)
    return model.forecast(*query), model.errors(*query) ** 2


def curve(model: MixedEffects, channel: int, t: np.ndarray) -> np.ndarray:
    """Of the population."""
    return model.fixed(t, lasting=model._lasting[channel]) @ model.curve[channel]


def conditional(
    model: MixedEffects, channel: int, seen: np.ndarray, x: np.ndarray, when: float
) -> tuple[float, float]:
    """Mean and variance of a value, given others, of a normal distribution."""
    at, noise = np.array([when]), model.noise[channel]
    v = covariance(model, channel, seen, seen) + noise * np.eye(len(seen))
    cross = covariance(model, channel, at, seen)
    gain = np.linalg.solve(v, cross.T)[:, 0]
    mean = curve(model, channel, at)[0] + gain @ (x - curve(model, channel, seen))
    own = covariance(model, channel, at, at)[0, 0] + noise
    return mean, own - gain @ cross[0]


def likelihood(periods: tuple[float, ...], channel: int = 0) -> tuple[RestrictedLikelihood, Rows]:
    times, values, offsets = irregular([9, 1, 5, 7, 12])
    model = MixedEffects._blank(np.array([0.0, 2.0, 5.0]), periods, 4.0, 2)
    rows = times, values[:, channel], offsets
    return model._likelihood(grouped(*rows)), rows


def some_theta(own: RestrictedLikelihood, seed: int) -> np.ndarray:
    return own.typical + 0.7 * np.random.default_rng(seed).standard_normal(len(own.typical))


# The population curve


def test_the_curve_is_a_natural_cubic_spline():
    knots = np.array([0.0, 1.0, 3.0, 7.0])
    model = MixedEffects._blank(knots, (), 1.0, 1)
    np.testing.assert_allclose(model.fixed(knots), np.eye(4), atol=1e-12)
    line = np.array([-4.0, 0.3, 2.2, 6.0, 20.0])
    np.testing.assert_allclose(model.fixed(line) @ (2 - 3 * knots), 2 - 3 * line, atol=1e-10)
    for edge, beyond in ((0.0, -9.0), (7.0, 30.0)):  # no bend at the outer knots, nor beyond
        step = 1e-3 * np.sign(edge - beyond)
        inside = model.fixed(edge + step * np.arange(3))
        np.testing.assert_allclose(np.diff(inside, 2, axis=0) / step**2, 0, atol=0.02)
        slope = (inside[0] - inside[1]) / -step
        expected = inside[0] + slope * (beyond - edge)
        np.testing.assert_allclose(model.fixed(np.array(beyond)), expected, atol=0.02)


def test_lines_go_on_beyond_the_knots_and_swings_that_series_share_do_not():
    """The share is that of slopes inside in how the curve went on."""
    knots = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    swings, bent = np.array([0.5, -0.4, 0.3, -0.6, 0.2, 0.6]), 2 + 3 * knots + 0.1 * (-1) ** knots
    model = MixedEffects._blank(knots, (), 1.0, 4)
    model = replace(model, curve=np.stack([2 + 3 * knots, bent, swings, np.zeros(6)]))
    means = [answers(model, model.start(1, 4), np.array([t]))[0][0] for t in (5.0, 5.001, 9.0)]
    now, soon, later = means
    np.testing.assert_allclose((later - now)[:2], 12.0, atol=2.0)
    np.testing.assert_allclose(later - now, 4 * (soon - now) / 0.001, atol=1e-6)
    pairs = []
    for reach in (0.5, 1.0, 1.5):
        for t in np.linspace(0, 5 - reach, 33):
            x = model.fixed(np.array([t, t + 1e-5, t + reach])) @ swings
            pairs.append(((x[1] - x[0]) / 1e-5, (x[2] - x[0]) / reach))
    slope, told = np.array(pairs).T
    share = slope @ told / (slope @ slope)
    assert 0.2 < share < 0.4
    end = (model.fixed(np.array(5.0)) - model.fixed(np.array(5.0 - 1e-5))) @ swings / 1e-5
    assert end > 0.1
    assert later[2] - now[2] == pytest.approx(4 * share * end, rel=1e-3)
    assert later[3] == now[3] == 0


# The restricted likelihood


@pytest.mark.parametrize("periods", SEASONS)
@pytest.mark.parametrize("seed", range(3))
def test_gradient_is_that_of_finite_differences(periods, seed):
    own, _ = likelihood(periods)
    theta = some_theta(own, seed)
    expected = approx_fprime(theta, lambda x: own.loss(x)[0], 1e-6)
    np.testing.assert_allclose(own.loss(theta)[1], expected, rtol=1e-4, atol=1e-4)


def test_a_memory_beyond_the_longest_has_no_gradient_but_that_of_the_prior():
    own, _ = likelihood(())
    theta = own.typical.copy()
    theta[-2] = np.log(400.0)
    assert own.parts(theta)[1] == 300.0
    expected = approx_fprime(theta, lambda x: own.loss(x)[0], 1e-6)
    np.testing.assert_allclose(own.loss(theta)[1], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("periods", SEASONS)
@pytest.mark.parametrize("seed", range(3))
def test_loss_is_the_density_of_all_values(periods, seed):
    """With the curve's prior P, log|V|, squares and log|X'V^-1 X| are those of V + X P X'."""
    own, (times, x, offsets) = likelihood(periods)
    theta = some_theta(own, seed)
    prior, memory, noise, _ = own.parts(theta)
    n_harmonics = (3, 10)[: len(periods)]  # half the periods: no finer than the rows
    blank = np.zeros((2, 3 + 2 * sum(n_harmonics)))
    model = MixedEffects(
        *(np.array([0.0, 2.0, 5.0]), 4.0, periods, n_harmonics, blank, blank),
        *(prior[None], np.array([memory]), np.array([noise])),
    )
    seen = ~np.isnan(x)
    series = np.repeat(np.arange(5), np.diff(offsets))[seen]
    t, x = times[seen], x[seen]
    v = covariance(model, 0, t, t) * (series[:, None] == series)
    turns = np.concatenate([np.arange(1, n + 1) for n in (0, *n_harmonics)])
    of_curve = np.concatenate([np.full(3, 9.0), 1 / np.repeat(turns, 2) ** 2])
    v += noise * np.eye(len(t)) + model.fixed(t) * of_curve @ model.fixed(t).T
    density = multivariate_normal.logpdf(x, np.zeros(len(t)), v)
    expected = -density - 0.5 * len(t) * np.log(2 * np.pi) + ((theta - own.typical) ** 2).sum() / 8
    assert own.loss(theta)[0] == pytest.approx(expected, rel=1e-10)


def test_curve_is_that_of_generalised_least_squares():
    own, (times, x, offsets) = likelihood(())
    theta = some_theta(own, 0)
    prior, memory, noise, _ = own.parts(theta)
    blank = MixedEffects._blank(np.array([0.0, 2.0, 5.0]), (), 4.0, 1)
    parts = {"prior": prior[None], "memory": np.array([memory]), "noise": np.array([noise])}
    model, gram, product = replace(blank, **parts), np.eye(3) / 9, np.zeros(3)
    for first, end in pairwise(offsets):
        seen = first + np.flatnonzero(~np.isnan(x[first:end]))
        own_times, fixed = times[seen], model.fixed(times[seen])
        v = covariance(model, 0, own_times, own_times) + noise * np.eye(len(seen))
        gram += fixed.T @ np.linalg.solve(v, fixed)
        product += fixed.T @ np.linalg.solve(v, x[seen])
    np.testing.assert_allclose(own.curve(theta), np.linalg.solve(gram, product), rtol=1e-9)


# Predictions


@pytest.mark.parametrize("periods", SEASONS)
@pytest.mark.parametrize("lead", [0.0, 0.7, 30.0])
def test_forecasts_are_conditional_expectations(periods, lead):
    """At irregular times, of several channels, some never observed; of one row as well."""
    rows, model = irregular([8, 1, 12, 3]), made_up(periods)
    times, values, offsets = rows
    asked = np.arange(len(times))
    known = model.known_at(rows_of(*rows), asked)
    means, variances = answers(model, known, times + lead)
    series = np.repeat(np.arange(4), np.diff(offsets))
    for row in asked:
        for j in range(2):
            own = slice(offsets[series[row]], row + 1)
            seen = ~np.isnan(values[own, j])
            past = times[own][seen], values[own, j][seen]
            mean, variance = conditional(model, j, *past, times[row] + lead)
            assert means[row, j] == pytest.approx(mean, abs=1e-9)
            assert variances[row, j] == pytest.approx(variance, abs=1e-9)


@pytest.mark.parametrize("periods", SEASONS)
def test_before_any_observation_it_is_the_population(periods):
    model, times = made_up(periods), np.array([0.0, 3.0, 99.0])
    means, variances = answers(model, model.start(3, 2), times)
    for j in range(2):
        np.testing.assert_allclose(means[:, j], curve(model, j, times), rtol=1e-12)
        own = np.diagonal(covariance(model, j, times, times)) + model.noise[j]
        np.testing.assert_allclose(variances[:, j], own, rtol=1e-12)


@pytest.mark.parametrize("periods", SEASONS)
def test_row_by_row_it_knows_the_same(periods):
    (times, values, offsets), model = irregular([6, 1, 9]), made_up(periods)
    expected = model.known_at(rows_of(times, values, offsets), np.arange(len(times)))
    for first, end in pairwise(offsets):
        known = model.start(1, 2)
        for row in range(first, end):
            known = model.updated(known, single(rows_of(times, values, offsets), [row]))
            np.testing.assert_allclose(known[0], expected[row], rtol=1e-12, atol=1e-12)


def test_rows_may_be_asked_for_in_any_order_and_in_batches():
    rows, model = irregular([6, 1, 9, 4]), made_up((6.0,))
    every = model.known_at(rows_of(*rows), np.arange(20))
    asked = np.random.default_rng(0).integers(0, 20, 50)
    np.testing.assert_allclose(model.known_at(rows_of(*rows), asked), every[asked], atol=1e-13)
    times, values, offsets = rows
    last = times[offsets[2] :], values[offsets[2] :], offsets[2:] - offsets[2]
    found = model.known_at(rows_of(*last), np.arange(13))
    np.testing.assert_allclose(found, every[7:], atol=1e-13)
    when = np.linspace(0, 40, 20)
    both = answers(model, every, when)
    parts = (answers(model, every[part], when[part]) for part in (slice(9), slice(9, None)))
    for whole, one, two in zip(both, *parts, strict=True):
        np.testing.assert_allclose(np.concatenate([one, two]), whole, atol=1e-13)


@pytest.mark.parametrize("periods", SEASONS)
def test_units_of_time_make_no_difference(periods):
    (times, values, offsets), model = irregular([6, 1, 9]), made_up(periods)
    longer = {name: 60.0 * getattr(model, name) for name in ("knots", "span", "memory")}
    scaled = replace(model, **longer, periods=tuple(60.0 * period for period in periods))
    asked = offsets[1:] - 1
    found = answers(model, model.known_at(rows_of(times, values, offsets), asked), times[asked] + 2)
    other = scaled.known_at(rows_of(60 * times, values, offsets), asked)
    for one, two in zip(found, answers(scaled, other, 60 * (times[asked] + 2)), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-10)


@pytest.mark.parametrize("periods", SEASONS)
def test_trends_end_and_seasons_go_on(periods):
    """After the longest time; the same a common period of all seasons later."""
    rows, model = irregular([8, 1, 12]), made_up(periods)
    last = rows[2][1:] - 1
    known = model.known_at(rows_of(*rows), last)[[0, 2], :1]  # a channel that both series have
    end = known[..., 0] + 4.0  # four after its last observation
    near, far, later = (end[:, 0] + since for since in (-1.0, 300.0, 360.0))
    longest = np.full((2, 1), 4.0)
    ended = [answers(model, known, when, longest)[0] for when in (near, far, later)]
    np.testing.assert_allclose(ended[0], answers(model, known, near)[0], rtol=1e-12)
    np.testing.assert_allclose(ended[2], ended[1], atol=1e-9)
    assert (np.abs(answers(model, known, later)[0] - ended[2]) > 5).all()


# What is learned


def simulated(n_series: int, n_rows: int, seed: int, sizes: dict[str, float]) -> Rows:
    """Random levels and slopes, an Ornstein-Uhlenbeck process and noise of these sizes."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(size=(n_series, n_rows)), axis=1)
    times -= times[:, :1]
    span = np.median(times[:, -1])
    serial = np.zeros_like(times)
    for k in range(n_rows):
        kept = np.exp(-(times[:, k] - times[:, k - 1]) / sizes["memory"]) if k else np.zeros(1)
        shock = sizes["serial"] * rng.standard_normal(n_series)
        serial[:, k] = kept * serial[:, k - 1] + np.sqrt(1 - kept**2) * shock
    level, slope = rng.standard_normal((2, n_series, 1))
    x = sizes["level"] * level + sizes["slope"] * slope * times / span + serial
    x += sizes["noise"] * rng.standard_normal(x.shape)
    return times.ravel(), x.reshape(-1, 1), n_rows * np.arange(n_series + 1)


def test_variances_of_simulated_series_are_recovered():
    """Within four standard errors, from the curvature of the likelihood."""
    true = {"level": 1.0, "slope": 0.8, "serial": 0.7, "memory": 2.0, "noise": 0.3}
    times, values, offsets = simulated(200, 14, 0, true)
    model = MixedEffects.estimate(rows_of(times, values, offsets), [()])
    own = model._likelihood(grouped(times, values[:, 0], offsets))
    theta = model.theta[0]
    curvature = approx_fprime(theta, lambda x: own.loss(x)[1], 1e-5)
    error = np.sqrt(np.diagonal(np.linalg.inv((curvature + curvature.T) / 2)))
    expected = np.log([true[name] for name in ("level", "slope", "serial", "memory", "noise")])
    found, error = theta[[0, 2, 3, 4, 5]], error[[0, 2, 3, 4, 5]]
    assert (error < 0.3).all()
    assert (np.abs(found - expected) < 4 * error).all()
    assert np.abs(model.curve).max() < 0.4
    np.testing.assert_allclose(own.loss(theta)[1], 0, atol=1.0)


def test_the_order_of_series_does_not_matter():
    times, values, offsets = irregular([9, 7, 12, 5, 8, 10, 6, 11], seed=3)
    order = np.random.default_rng(0).permutation(8)
    rows = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in order])
    shuffled = np.concatenate([[0], np.cumsum(np.diff(offsets)[order])])
    one = MixedEffects.estimate(rows_of(times, values, offsets), [()])
    two = MixedEffects.estimate(rows_of(times[rows], values[rows], shuffled), [()])
    for name in ("knots", "curve", "prior", "memory", "noise"):
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), rtol=1e-3, atol=1e-4)


def test_without_a_fold_of_series_variances_stay_and_curves_do_not_know_it():
    sizes = {"level": 1.0, "slope": 0.5, "serial": 0.5, "memory": 3.0, "noise": 0.3}
    times, values, offsets = simulated(40, 10, 0, sizes)
    model = MixedEffects.estimate(rows_of(times, values, offsets), [()])
    parts = model.without_folds(rows_of(times, values, offsets), 5)
    is_first = np.repeat(np.arange(40) % 5 == 0, np.diff(offsets))
    moved = np.where(is_first[:, None], values + 5.0, values)
    again = model.without_folds(rows_of(times, moved, offsets), 5)
    np.testing.assert_allclose(again[0].curve, parts[0].curve)
    np.testing.assert_array_equal(again[0].prior, model.prior)
    assert (again[1].curve > parts[1].curve + 0.5).all()
    shifted = model.without_folds(rows_of(times, values + 5.0, offsets), 5)[0]
    np.testing.assert_allclose(shifted.curve, parts[0].curve + 5, atol=0.2)


@pytest.mark.parametrize("lengths", [[1], [1, 1, 1], [2], [3, 1]])
def test_a_few_rows_are_enough_and_none_as_well(lengths):
    times, values, offsets = irregular(lengths)
    for own in (values, np.full_like(values, np.nan)):
        model = MixedEffects.estimate(rows_of(times, own, offsets), [()])
        found = answers(model, model.start(4, 2), np.array([0.0, 1.0, 50.0, 1e6]))
        assert all(np.isfinite(part).all() for part in found)
    nothing = MixedEffects.estimate(
        rows_of(times[:0], values[:0], np.zeros(1, dtype=np.int64)), [()]
    )
    assert answers(nothing, nothing.start(1, 2), np.ones(1))[1].shape == (1, 2)


@pytest.mark.parametrize("sharp", [True, False])
def test_a_single_series_shows_its_week(sharp):
    """Hourly values of 19 days, the last of which is a Friday: the weekend is not like Friday."""
    hours, rng = np.arange(552.0), np.random.default_rng(0)
    works = hours // 24 % 7 < 5
    day = np.exp(2 * (np.cos(2 * np.pi * (hours % 24 - 13) / 24) - 1))
    x = day + 0.8 * works if sharp else day * np.where(works, 1.0, 0.3) + 0.2 * works
    x = (x + 0.1 * rng.standard_normal(len(hours)))[:, None] / x.std()
    known, offsets = 456, np.array([0, 456])
    rows = hours[:known], x[:known] - x[:known].mean(), offsets
    model = MixedEffects.estimate(rows_of(*rows), [(), (24.0,), (168.0,), (24.0, 168.0)])
    assert model.periods == (24.0, 168.0)
    last = np.repeat(model.known_at(rows_of(*rows), np.array([known - 1])), 48, axis=0)
    found = answers(model, last, hours[known : known + 48])[0]
    error = found + x[:known].mean() - x[known : known + 48]
    assert np.sqrt(np.mean(error**2)) < 0.6


@pytest.mark.parametrize(("n_series", "n_rows"), [(1, 192), (10, 100), (60, 48)])
def test_the_fewer_series_the_longer_they_are_looked_at(n_series, n_rows):
    times = np.tile(np.arange(300.0), n_series)
    found = grouped(times, np.sin(times), 300 * np.arange(n_series + 1))
    assert found.times.shape[1] == n_rows
    assert found.known.all()
    assert (found.times[:, -1] == 299).all()


def test_the_search_does_not_run_off_where_nothing_is_noise():
    """Straight lines, far apart: the best variance of the noise is zero."""
    t = np.tile(np.arange(40.0), 9)
    x = (np.repeat(np.linspace(-1.5, 1.5, 9), 40) + 1e-3 * t)[:, None]
    offsets = 40 * np.arange(10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MixedEffects.estimate(rows_of(t, x, offsets), [()])
        known = model.known_at(rows_of(t, x, offsets), offsets[1:] - 1)
        found = answers(model, known, np.full(9, 80.0))[0]
    np.testing.assert_allclose(found[:, 0], x[offsets[:-1], 0] + 0.08, atol=0.02)


# Seasons


def profile(t: np.ndarray) -> np.ndarray:
    """Of a day of 24 steps; with a peak in the morning, which takes several harmonics."""
    return 2 * np.exp(4 * (np.cos(2 * np.pi * (t - 8) / 24) - 1)) - 0.5


def daily(n_series: int, seed: int) -> Rows:
    """Ten days by the hour: a level of each series, one season of 24 steps, and noise."""
    rng, t = np.random.default_rng(seed), np.arange(240.0)
    x = rng.standard_normal((n_series, 1)) + profile(t)
    x = x + 0.3 * rng.standard_normal((n_series, 240))
    return np.tile(t, n_series), x.reshape(-1, 1), 240 * np.arange(n_series + 1)


def test_a_season_is_found_and_continued():
    rows = daily(6, 0)
    seasons = shared_seasons(*rows)
    assert seasons[0] == pytest.approx((24.0,))
    model = MixedEffects.estimate(rows_of(*rows), [(), *seasons])
    assert model.periods == pytest.approx((24.0,))
    values, known = rows[1], model.known_at(rows_of(*rows), rows[2][1:] - 1)
    for lead in (6.0, 12.0, 30.0):
        when = 239.0 + lead
        level = (values.reshape(6, 240) - profile(np.arange(240.0))).mean(axis=1)
        found = answers(model, known, np.full(6, when))[0][:, 0]
        np.testing.assert_allclose(found, level + profile(when), atol=0.3)


def test_a_day_and_a_week_are_found_together():
    """Three weeks by the hour, of which the next one is told; a day beside which there is none."""
    rng, t = np.random.default_rng(0), np.arange(504.0)
    week = np.where(np.arange(504 + 48) // 24 % 7 < 5, 0.0, -1.5)
    level = rng.standard_normal((4, 1))
    x = level + profile(t) + week[:504] + 0.3 * rng.standard_normal((4, 504))
    rows = np.tile(t, 4), x.reshape(-1, 1), 504 * np.arange(5)
    seasons = shared_seasons(*rows)
    assert seasons == [(24.0,), (168.0,), (24.0, 168.0)]
    model = MixedEffects.estimate(rows_of(*rows), [(), *seasons])
    assert model.periods == (24.0, 168.0)
    known = model.known_at(rows_of(*rows), rows[2][1:] - 1)
    for lead in (9.0, 30.0, 60.0, 130.0):  # ends of weekends are smoothed
        expected = level + profile(503 + lead) + (-1.5 if lead > 120 else 0.0)
        found = answers(model, known, np.full(4, 503 + lead))[0]
        np.testing.assert_allclose(found, expected, atol=0.6)
    given = MixedEffects.estimate(rows_of(*daily(4, 0)), alternatives([24.0, 60.0]))
    assert given.periods == (24.0,)


@pytest.mark.parametrize("seed", range(4))
def test_no_season_is_made_of_a_walk(seed):
    """Walks show long waves; the likelihood takes them for none, nor a period that is offered."""
    rng, t = np.random.default_rng(seed), np.tile(np.arange(120.0), 6)
    x = rng.standard_normal((6, 120)).cumsum(axis=1)
    rows = t, (x / x.std()).reshape(-1, 1), 120 * np.arange(7)
    assert (
        MixedEffects.estimate(rows_of(*rows), [(), (24.0,), *shared_seasons(*rows)]).periods == ()
    )
    known = MixedEffects.estimate(rows_of(*rows), [(24.0,)])
    assert known.periods == (24.0,)  # unless it is known that there is one


def test_a_season_of_few_rows_is_not_searched():
    times, values, _ = daily(3, 0)
    keep = np.tile(np.arange(240) < 19, 3)
    assert shared_seasons(times[keep], values[keep], 19 * np.arange(4)) == []


# Another implementation


def test_it_is_the_mixed_model_of_statsmodels(monkeypatch):
    """Random level and slope: without priors and serial part, REML gives the same."""
    models = pytest.importorskip("statsmodels.regression.mixed_linear_model")
    sizes = {"level": 1.0, "slope": 0.8, "serial": 0.0, "memory": 1.0, "noise": 0.4}
    times, values, offsets = simulated(60, 8, 0, sizes)
    flat = replace(mixed.SETTINGS, prior=1e6, curve_prior=1e4)
    monkeypatch.setattr(mixed, "SETTINGS", flat)
    blank = MixedEffects._blank(np.array([0.0, times.max()]), (), 5.0, 1)
    own = blank._likelihood(grouped(times, values[:, 0], offsets))

    def without_serial_part(free: np.ndarray) -> tuple[float, np.ndarray]:
        loss, slope = own.loss(np.array([*free[:3], -12.0, 0.0, free[3]]))
        return loss, slope[[0, 1, 2, 5]]

    options = {"gtol": 1e-8}
    found = minimize(without_serial_part, np.zeros(4), jac=True, method="BFGS", options=options)
    prior, _, noise, _ = own.parts(np.array([*found.x[:3], -12.0, 0.0, found.x[3]]))
    design = np.stack([np.ones_like(times), times / 5], axis=1)
    series = np.repeat(np.arange(60), 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = models.MixedLM(values[:, 0], design, groups=series, exog_re=design)
        oracle = model.fit(reml=True, method=["powell", "lbfgs"])
    np.testing.assert_allclose(prior[:2, :2], oracle.cov_re, rtol=0.01, atol=0.005)
    assert noise == pytest.approx(oracle.scale, rel=0.01)
    fixed = own.curve(np.array([*found.x[:3], -12.0, 0.0, found.x[3]]))
    at = np.array([0.0, times.max() / 5])
    np.testing.assert_allclose(fixed, oracle.fe_params[0] + at * oracle.fe_params[1], atol=0.01)
    learned = replace(
        blank,
        curve=fixed[None],
        prior=prior[None],
        noise=np.array([noise]),
    )
    known = learned.known_at(rows_of(times, values, offsets), offsets[1:] - 1)
    expected = oracle.fe_params + np.stack(list(map(np.asarray, oracle.random_effects.values())))
    when = np.full(60, 12.0)
    forecasts = answers(learned, known, when)[0][:, 0]
    np.testing.assert_allclose(forecasts, expected @ [1.0, 12 / 5], atol=0.02)


@pytest.mark.parametrize("times", [np.arange(40.0), irregular([50])[0]], ids=["even", "irregular"])
def test_periodogram_is_that_of_scipy(times):
    """Also at half a turn a row, where even times see no sine."""
    x, grid = np.random.default_rng(2).standard_normal(len(times)), np.linspace(0.05, 0.5, 46)
    expected = lombscargle(times, x, 2 * np.pi * grid, normalize=True)
    np.testing.assert_allclose(lomb_scargle(times, x, grid), expected, atol=1e-11)


def test_first_seasons_decide_on_the_curve(monkeypatch):
    tried, estimate = [], MixedEffects._estimate

    def noted(self, *given):
        tried.append((self.periods, len(self.knots)))
        return estimate(self, *given)

    monkeypatch.setattr(MixedEffects, "_estimate", noted)
    times, values, offsets = irregular([30, 40], n_channels=1)
    rows = rows_of(times, values + np.sin(times)[:, None], offsets)
    found = MixedEffects.estimate(rows, [(), (2 * np.pi,)])
    assert tried == [((), 2), ((), 4), ((), 8), ((2 * np.pi,), len(found.knots))]
    assert found.periods == (2 * np.pi,)
