"""Errors of paths against the laws of Brownian motion, and what they are learned from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpolyode import Panel, PolyODETransformer
from skpolyode.embedders import ChannelScaler, Units
from skpolyode.questions import errors
from skpolyode.questions.errors import Course, PathErrors, PathErrorSettings
from tests.questions.test_slopes import check_slopes, ended


@dataclass(frozen=True)
class Lines:
    """Straight lines between observations, which for Brownian motion are the expected path."""

    units: Units
    filters: bool = False
    path_errors: Any = None

    def path_values(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        found = np.empty((len(times), panel.n_channels))
        for k, (t, x) in enumerate(panel):
            asked = slice(*offsets[k : k + 2])
            for j, column in enumerate(x.T):
                seen = ~np.isnan(column)
                found[asked, j] = np.interp(times[asked], t[seen], column[seen])
        return found


def lines(unit: float = 1.0, scale: tuple[float, ...] = (1.0,)) -> Lines:
    return Lines(Units(ChannelScaler(np.zeros(len(scale)), np.array(scale)), unit))


def motions(n_series: int, n_rows: int, size: float = 0.1, noise: float = 0.0) -> list:
    """Brownian motions of variance ``size**2`` per unit of time, in gaps of 0.5 to 1.5."""
    rng, series = np.random.default_rng(0), []
    for _ in range(n_series):
        gaps = rng.uniform(0.5, 1.5, n_rows)
        x = (size * np.sqrt(gaps) * rng.normal(size=n_rows)).cumsum()
        series.append((gaps.cumsum(), x + noise * rng.normal(size=n_rows)))
    return series


@pytest.mark.parametrize(("unit", "scale"), [(1.0, 1.0), (0.25, 4.0)])
def test_the_law_of_brownian_motion_is_learned(unit, scale):
    """Its bridge has a = size, p = k = c = 1; size is per root of the unit, in deviations."""
    panel = Panel.from_series(motions(60, 100))
    found = PathErrors.learn(lines(unit, (scale,)), panel)
    assert_allclose(found.scale, 0.1 * np.sqrt(unit) / scale, rtol=0.04)
    assert_allclose(found.power, 1.0, atol=0.15)
    assert_allclose([found.rate, found.shared], 1.0, rtol=0.2)
    assert_allclose(found.gap * unit, 1.0, rtol=0.03)
    noisy = PathErrors.learn(lines(), Panel.from_series(motions(60, 100, 0.03, 0.1)))
    assert noisy.shared < 0.48  # noise is of single observations, as most of an error
    assert noisy.power < 0.5


def test_few_errors_of_a_channel_are_pooled_with_those_of_all():
    """One without errors counts twenty of the mean of all."""
    (t, x), *_ = motions(1, 1000)
    level = np.where(np.arange(1000) < 100, 1.0, np.nan)
    panel = Panel.from_series([(t, np.stack([x, level], axis=1))])
    found = PathErrors.learn(lines(scale=(1.0, 1.0)), panel)
    copies, hidden = errors.hidden_copies(panel)
    used = hidden[:, None] & ~np.isnan(copies.values)
    n = used[:, 0].sum(), used[:, 1].sum() - used[99::1000, 1].sum()
    share = 20 / (n[1] + 20) / (1 + 20 / n[0])
    assert_allclose((found.scale[1] / found.scale[0]) ** 2, share, rtol=0.1)


def test_too_few_hidden_rows_teach_nothing():
    (t, x), *_ = motions(1, 100)
    assert PathErrors.learn(lines(), Panel.from_series([(t[:9], x[:9])])) is None
    assert PathErrors.learn(lines(), Panel.from_series([(t[:20], x[:20])])) is not None


def test_errors_are_learned_from_held_out_series_first(monkeypatch):
    """The others, which the model knows, fill up the rows."""
    monkeypatch.setattr(errors, "SETTINGS", PathErrorSettings(n_rows=400))
    known, other = motions(4, 100, size=0.01), motions(4, 100, size=0.2)
    windows = SimpleNamespace(
        panel=Panel.from_series(known + other), held_out=np.repeat([False, True], 4)
    )
    state = SimpleNamespace(embedder=lines(), windows=windows)
    errors.learn_path_errors(state)
    assert_allclose(state.embedder.path_errors.learned.scale, 0.2, rtol=0.2)


def test_rows_of_each_series_end_in_observations_and_few_series_are_hidden_more_often():
    panel = Panel.from_series(motions(3, 50))
    copies, hidden = errors.hidden_copies(panel)
    assert len(copies) == 15
    ends = np.concatenate([copies.offsets[:-1], copies.offsets[1:] - 1])
    assert not hidden[ends].any()
    by_row = hidden.reshape(5, 3, 50).sum(axis=0)
    assert (by_row[:, 1:-1] > 0).all()
    assert by_row.mean() < 2.1  # ten of twenty-five rows, in five copies
    many = Panel.from_series(motions(61, 100))
    assert len(errors.hidden_copies(many)[0]) == 61


def course(panel: Panel, times: list[float], gap: Any = 1.0, unit: float = 1.0) -> Course:
    asked = np.array(times), np.array([0, len(times)])
    return Course.of(lines(unit, (1.0,) * panel.n_channels), panel, *asked, gap)


BRIDGE = PathErrors(np.full(1, 0.1), 1.0, 1.0, 1.0, np.ones(1))


def test_errors_beside_a_last_observation_are_those_of_a_typical_gap():
    """Open gaps, before and after all observations of a channel, are alike.

    They have s = a sqrt(t) and s' = s sqrt(1 + 1/4) / t; t counts as a twentieth of a gap at least.
    """
    others = np.zeros(5)
    x = np.stack([others, [np.nan, np.nan, 1.0, np.nan, np.nan]], axis=1)
    panel, gap = Panel.from_series([([0.0, 2.0, 5.0, 7.0, 10.0], x)]), np.array([1.0, 4.0])
    both = PathErrors(np.full(2, 0.1), 1.0, 1.0, 1.0, gap)
    found = course(panel, [1.0, 4.99, 5.0, 5.1, 9.0], gap)
    lead = np.array([4.0, 0.2, 0.2, 0.2, 4.0])
    assert_allclose(both.std(found)[:, 1], 0.1 * np.sqrt(lead))
    assert_allclose(both.of_slopes(found)[:, 1], 0.1 * np.sqrt(lead * 1.25) / lead)
    single = Panel.from_series([([3.0], [1.0])])
    assert_allclose(BRIDGE.of_slopes(course(single, [3.0])), 0.1 * np.sqrt(1.25 / 0.05))


def test_errors_are_at_most_the_deviation_of_the_channel_and_so_where_it_was_never_observed():
    panel = Panel.from_series([([0.0, 1.0], [[0.0, np.nan], [1.0, np.nan]])])
    both = replace(BRIDGE, scale=np.full(2, 0.1), gap=np.ones(2))
    assert_allclose(both.std(course(panel, [0.5, 1e6])), [[0.05, 1.0], [1.0, 1.0]])


def test_the_integral_of_a_motion_after_its_last_observation():
    """Errors of a motion over a length L integrate to the variance ``a**2 L**3 / 3``."""
    x, w = np.polynomial.legendre.leggauss(200)
    panel = Panel.from_series([([0.0, 1.0], [[0.0, 0.0], [1.0, np.nan]])])
    found = course(panel, (1 + x).tolist())
    both = replace(BRIDGE, scale=np.full(2, 0.01))
    sums = both.of_integrals(found, w, np.array([0, 200]))
    assert_allclose(sums[0, 1], 0.01 * np.sqrt(8 / 3), rtol=0.01)


@pytest.fixture(scope="module")
def model() -> PolyODETransformer:
    small = {"n_coefficients": 3, "max_epochs": 2, "random_state": 0}
    panel = Panel.from_series([(t, x / 4) for t, x in ended(12, seed=0)])
    limits = {"x0": (0.49, 1.01), "x1": (-0.26, 0.26)}
    return PolyODETransformer(**small).fit(panel.with_limits(limits))


def test_slopes_and_integrals_of_paths_with_waves(model):
    panel = Panel.from_series([(t, x / 4) for t, x in ended(3, seed=1)])
    wavy = replace(model.embedder_, waves=np.ones(2))
    own = PolyODETransformer().__class__(**model.get_params())
    vars(own).update(vars(model) | {"embedder_": wavy})
    times = panel.start[:, None] + np.linspace(0.05, 0.6, 20) * (panel.end - panel.start)[:, None]
    assert not np.allclose(
        own.interpolate(panel, [*times]).values, model.interpolate(panel, [*times]).values
    )
    check_slopes(own, panel, times)


def test_limits_of_integrals_are_those_of_each_window(model):
    panel = Panel.from_series([(t, x / 4) for t, x in ended(3, seed=1)])
    start, length = panel.end - 0.2, np.array([0.3, 1.0, 4.0])
    found = model.integral(panel, start, start + length, coverage=0.999)
    bounds = np.array([[0.49, 1.01], [-0.26, 0.26]]) * length[:, None, None]
    ends = found[["lower", "upper"]].to_numpy().reshape(3, 2, 2)
    assert (ends[..., 0] >= bounds[..., 0] - 1e-9).all()
    assert (ends[..., 1] <= bounds[..., 1] + 1e-9).all()


def test_noise_of_an_observation_counts_by_how_near_it_is():
    """With s = a, two gaps of length 2, and windows [1, 2] and [2, 2.5] beside one observation.

    Its share of an error is t / 2 before it, and 1 - t / 2 after: 3/4 and 7/16 in all.
    """
    x, w = np.polynomial.legendre.leggauss(60)
    times, weights = np.append(1.5 + x / 2, 2.25 + x / 4), np.append(w / 2, w / 4)
    panel = Panel.from_series([([0.0, 2.0, 4.0], [0.0, 0.0, 0.0])])
    even = PathErrors(np.full(1, 0.1), 0.0, 0.0, 0.3, np.ones(1))
    found = even.of_integrals(course(panel, times.tolist()), weights, np.array([0, 120]))
    variance = 0.3 * (1 + 0.25) + 0.7 * 2 * 3 / 4 * 7 / 16
    assert_allclose(found, 0.1 * np.sqrt(variance), rtol=0.01)


def test_correlations_are_of_enough_pairs_of_one_series(monkeypatch):
    """Of 61 series with one hidden row each, a filter learns none, nor of a single pair."""
    monkeypatch.setattr(errors, "path_std", lambda embedder, *at: np.ones((len(at[1]), 1)))
    monkeypatch.setattr(errors, "SETTINGS", PathErrorSettings(n_rows=300))
    rng = np.random.default_rng(0)
    series = [(np.arange(5.0), [0.0, 0.0, 0.0, rng.choice([-1.0, 1.0]), 0.0]) for _ in range(61)]
    pair = (
        np.arange(12.0),
        np.isin(np.arange(12), [3, 7, 8]) * [1.0, 1, 1, 1, 1, 1, 1, 2, -2, 1, 1, 1],
    )
    for every in (series, [*series, pair]):
        found = PathErrors.learn(replace(lines(), filters=True), Panel.from_series(every))
        assert (found.rate, found.shared) == (1.0, 1.0)


def test_errors_of_a_filter_follow_its_deviations(monkeypatch):
    """Over time in its unit of 0.25; its deviations are in the user's units, 4 to one."""
    monkeypatch.setattr(errors, "path_std", lambda *asked: np.array([[2.0], [6.0]]))
    embedder = replace(lines(0.25, (4.0,)), filters=True)
    panel = Panel.from_series([([0.0, 3.0], [0.0, 1.0])])
    found = Course.of(embedder, panel, np.array([1.0, 1.5]), np.array([0, 2]))
    own = PathErrors(np.full(1, 0.1), 2.0, 0.5, 0.8, np.ones(1))
    std = 0.1 * np.array([0.5, 1.5])
    assert_allclose(own.std(found)[:, 0], std)
    assert_allclose(own.of_slopes(found)[:, 0], np.sqrt(0.8 * 0.5) * std / 0.25)
    shared = (std**2).sum() + 2 * std.prod() * np.exp(-0.5 / 2 * 0.5 / 0.25)
    assert_allclose(own.of_integrals(found, np.ones(2), np.array([0, 2])), np.sqrt(0.8 * shared))
