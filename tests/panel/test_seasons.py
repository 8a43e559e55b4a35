"""The season of a channel, as `describe` tells it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from skpolyode.panel import Panel
from skpolyode.panel.seasons import find_season


def wave(t: np.ndarray, period: float, rng: np.random.Generator) -> np.ndarray:
    phase = rng.uniform(0, 2 * np.pi)
    return 4 + 0.02 * t + np.sin(2 * np.pi * t / period + phase) + 0.3 * rng.standard_normal(len(t))


def walk(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.cumsum(rng.standard_normal(len(t)) * np.sqrt(np.diff(t, prepend=t[0] - 1)))


def of_series(
    values: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator, n_series: int, n: int
) -> float:
    """What is found in series of `n` rows at uneven times."""
    times = rng.exponential(size=(n_series, n)).cumsum(axis=1)
    x = np.concatenate([values(t) for t in times])
    return find_season(times.ravel(), x, n * np.arange(n_series + 1))


NO_SEASONS = {
    "white noise": lambda t, rng: rng.standard_normal(len(t)),
    "walk": walk,
    "walk and noise": lambda t, rng: walk(t, rng) + 2 * rng.standard_normal(len(t)),
    "smooth walk": lambda t, rng: np.cumsum(walk(t, rng)),
    "line": lambda t, rng: 3 * t,
    "line and noise": lambda t, rng: 0.1 * t + rng.standard_normal(len(t)),
    "parabola": lambda t, rng: t**2,
    "growth": lambda t, rng: np.exp(4 * t / t[-1]) + 0.1 * rng.standard_normal(len(t)),
    "step": lambda t, rng: (t > t.mean()) + 0.1 * rng.standard_normal(len(t)),
    "constant": lambda t, rng: np.full(len(t), 5.0),
}


@pytest.mark.parametrize("kind", NO_SEASONS)
@pytest.mark.parametrize("size", [(1, 30), (6, 30), (1, 100)])
def test_no_season_is_invented(kind, size):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        found = of_series(lambda t, rng=rng: NO_SEASONS[kind](t, rng), rng, *size)
        assert np.isnan(found), (seed, found)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("period", "size"), [(6.0, (6, 30)), (11.0, (1, 100)), (20.0, (2, 400))])
def test_a_season_is_found_at_uneven_times(period, size, seed):
    """With phases of their own, a trend and noise; not twice or half the period."""
    rng = np.random.default_rng(seed)
    found = of_series(lambda t: wave(t, period, rng), rng, *size)
    assert found == pytest.approx(period, rel=0.03)


def test_two_cycles_are_not_enough():
    t = np.linspace(0, 2, 60)
    assert np.isnan(find_season(t, np.sin(2 * np.pi * t), np.array([0, 60])))
    assert find_season(2 * t, np.sin(4 * np.pi * t), np.array([0, 60])) == pytest.approx(1, 0.03)


def test_the_size_of_values_and_times_does_not_matter():
    rng = np.random.default_rng(0)
    t = rng.exponential(size=80).cumsum()
    x, ends = wave(t, 9.0, rng), np.array([0, 80])
    found = find_season(t, x, ends)
    assert find_season(t + 1e6, 1e303 * x, ends) == pytest.approx(found, rel=1e-6)
    assert find_season(1e-3 * t, 1e-300 * x, ends) == pytest.approx(1e-3 * found)


@pytest.mark.parametrize("burst", [2, 3])
def test_what_is_read_in_bursts_is_read_as_often_as_these(burst):
    """Every two days, a minute apart: a period of 14 days, not the one of 2.3 that aliases it."""
    t = (2 * np.arange(60)[:, None] + 1e-3 * np.arange(burst)).ravel()
    x = np.sin(2 * np.pi * t / 14) + 0.1 * np.random.default_rng(0).standard_normal(len(t))
    assert find_season(t, x, np.array([0, len(t)])) == pytest.approx(14, 0.03)


def test_long_bursts_far_apart_are_not_searched():
    """A span of 10^8 gaps would take no end of time."""
    t = (2 * np.arange(40)[:, None] + 1e-7 * np.arange(10)).ravel()
    assert np.isnan(find_season(t, np.sin(2 * np.pi * t / 14), np.array([0, 400])))


def test_a_day_is_found_in_office_hours():
    t = (24 * np.arange(20)[:, None] + np.arange(9, 17)).ravel().astype(float)
    x = np.sin(2 * np.pi * t / 24) + 0.1 * np.random.default_rng(0).standard_normal(len(t))
    assert find_season(t, x, np.array([0, len(t)])) == pytest.approx(24, 0.03)


def test_describe_tells_the_season_in_the_units_of_times():
    """Each channel has its own, by the cells that it has; here by the hour."""
    rng = np.random.default_rng(0)
    hours = np.sort(rng.uniform(0, 24 * 14, size=200))
    table = pd.DataFrame({"day": wave(hours, 24.0, rng), "none": rng.standard_normal(200)})
    table = table.mask(rng.random((200, 2)) < 0.4)
    table["id"], table["time"] = 0, pd.Timestamp("2026-03-01") + pd.to_timedelta(hours, unit="h")
    found = Panel.from_long(table, id="id", time="time", time_unit="h").describe()["season"]
    assert found["day"] == pytest.approx(24.0, rel=0.02)
    assert found[["none", "(any)"]].isna().all()
