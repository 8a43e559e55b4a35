"""Forecasts of any series are finite, and stay within what training and its own past justify."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skpolyode import Panel
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.panel.units import within_limits
from tests.robustness.test_bad_days import EXAMPLES
from tests.transformers.data import Pairs, small

KINDS = ("noise", "walk", "trend", "jumps", "constant", "season")


def one_kind(kind: str, times: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Values of a channel; of some size and level."""
    n, noise = len(times), rng.standard_normal(len(times))
    return {
        "noise": noise,
        "walk": noise.cumsum(),
        "trend": rng.normal() * times + 0.01 * noise,
        "jumps": rng.poisson(0.3, n).cumsum() * rng.choice([1, 50]) * 1.0,
        "constant": np.full(n, rng.normal()),
        "season": np.sin(2 * np.pi * times / 7) + 0.1 * noise,
    }[kind]


def training(n_series: int) -> Pairs:
    """Series of 12 rows, of a walk and of counts with jumps."""
    rng, series = np.random.default_rng(0), []
    for _ in range(n_series):
        t = np.cumsum(rng.exponential(size=12))
        x = [one_kind(kind, t, rng) for kind in ("walk", "jumps")]
        series.append((t, np.stack(x, axis=1)))
    return series


@cache
def fitted(name: str) -> Any:
    """A transformer of many series, and forecasters of many and of few."""
    model = small(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1)
    if name == "transformer":
        return model.fit(training(24))
    forecaster = PolyODEForecaster(model, random_state=0)
    return forecaster.pretrain(Panel.from_series(training(12 if "many" in name else 4)))


@st.composite
def odd_series(draw: st.DrawFn) -> Pairs:
    """Of 1 to 3 rows or more, with outliers, huge gaps, and any of the kinds."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1), label="seed"))
    series = []
    for n in draw(st.lists(st.sampled_from([1, 2, 3, 9, 40]), min_size=1, max_size=4)):
        gap = draw(st.sampled_from([0.001, 1.0, 1e4]), label="longest gap")
        times = np.cumsum(rng.exponential(size=n) * np.where(rng.random(n) < 0.2, gap, 1.0))
        kinds = [draw(st.sampled_from(KINDS)) for _ in range(2)]
        x = np.stack([one_kind(kind, times, rng) for kind in kinds], axis=1)
        x *= draw(st.sampled_from([1.0, 1.0, 30.0]), label="size")
        outlier = draw(st.sampled_from([0.0, 0.0, 60.0, -1e3]), label="outlier")
        x[rng.integers(n), rng.integers(2)] += outlier
        x[rng.random(x.shape) < draw(st.sampled_from([0.0, 0.4]), label="missing")] = np.nan
        x[-1] = np.where(np.isnan(x).all(axis=0), 1.0, x[-1])
        series.append((times, x))
    return series


def risen(times: np.ndarray, x: np.ndarray, lead: float) -> float:
    """How far what rose steadily may go on."""
    if len(x) < 3:
        return 0.0
    rise, inside = x[-1] - x[0], x[1:-1].mean()
    least = 2 * min(inside - x[0], x[-1] - inside, key=lambda part: part * np.sign(rise))
    steady = max(least * np.sign(rise), 0.0) * np.sign(rise)
    return 1.5 * min(lead / (times[-1] - times[0]), 1.0) * steady


def limits(model: Any, series: Pairs, leads: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """Widest range of forecasts (n, D): of training, of the series, and around its last value.

    What rose steadily goes on for as long as it did, half as fast again.
    """
    transformer = getattr(model, "transformer_", model)
    embedder = transformer.embedder_
    bounds, scaler = embedder.stacking.bounds, embedder.units.scaler
    values = np.concatenate([x for _, x in training(24)])
    ranges = []
    for times, x in series:
        for lead in leads:
            own = []
            for j, channel in enumerate(x.T):
                seen = np.flatnonzero(~np.isnan(channel))
                if not len(seen):
                    own.append((values[:, j].min(), values[:, j].max()))
                    continue
                since = (times[-1] + lead - times[seen[-1]]) / embedder.units.time_scale
                reach = scaler.scale[j] * np.interp(since, bounds.leads, bounds.reach[j])
                last, every = channel[seen[-1]], np.append(channel[seen], values[:, j])
                rise = risen(times[seen], channel[seen], since * embedder.units.time_scale)
                ends = [*every, last - reach, last + reach, last + rise]
                own.append((min(ends), max(ends)))
            ranges.append(own)
    low, high = np.moveaxis(np.array(ranges), -1, 0)
    return low, high


@pytest.mark.filterwarnings("ignore:times are more than 20 times as far:UserWarning")
@pytest.mark.filterwarnings(r"ignore:[\s\S]*far from (all )?others:UserWarning")
@pytest.mark.filterwarnings("ignore:the typical gap between rows:UserWarning")
@pytest.mark.parametrize("name", ["transformer", "forecaster of many", "forecaster of few"])
@EXAMPLES
@given(odd_series())
def test_forecasts_stay_within_bounds(name, series):
    model, leads = fitted(name), [0.01, 1.0, 30.0, 1e6]
    asked = [[times[-1] + lead for lead in leads] for times, _ in series]
    panel = Panel.from_series(series)
    scaler = getattr(model, "transformer_", model).scaler_
    try:
        known = within_limits(panel, scaler.limits)  # as a warning says
    except ValueError:  # of some series nothing is left
        with pytest.raises(ValueError, match=r"all values are far[\s\S]*in the units of fit"):
            model.forecast(panel, asked)
        return
    found = model.forecast(panel, asked).values
    assert np.isfinite(found).all()
    low, high = limits(model, list(known), leads)
    slack = 1e-9 * (1 + np.abs(low) + np.abs(high))
    assert (found >= low - slack).all()
    assert (found <= high + slack).all()
