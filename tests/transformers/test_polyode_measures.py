"""PolyODE with the memory of the whole history, and with static covariates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skpolyode import Panel, PolyODETransformer

CHEAP = {"n_coefficients": 6, "hidden_layer_sizes": (8,), "max_epochs": 3, "random_state": 0}


def random_series(n=12, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 12, n)
    return [
        (np.sort(rng.uniform(0, 6, k)), rng.normal(size=(k, 2)).cumsum(axis=0)) for k in lengths
    ]


@pytest.fixture(scope="module")
def whole():
    return PolyODETransformer(measure="legs", **CHEAP).fit(random_series())


def test_the_history_is_as_long_as_its_series(whole):
    series = random_series()
    durations = np.array([times[-1] - times[0] for times, _ in series])
    Z = whole.transform(series)
    assert whole.window_ == durations.max()
    assert whole.get_feature_names_out()[-1] == "duration"
    np.testing.assert_allclose(Z[:, -1] * whole.window_, durations)


def test_inverse_transform_reads_each_history_at_its_own_length(whole):
    series = random_series(3, seed=5)
    ages = np.array([0.0, 0.3, 0.9])
    back = whole.inverse_transform(whole.transform(series), -ages)
    asked = [times[-1] - ages[::-1] for times, _ in series]
    np.testing.assert_allclose(back.values, whole.reconstruct(series, asked).values, atol=1e-9)


def test_a_path_through_all_observations_is_remembered():
    """With many coefficients the bridged path passes through every observation."""
    times = np.linspace(0, 4, 12)
    series = [(times, np.sin(times)), (times[:7], np.cos(times[:7]))]
    parameters = {**CHEAP, "n_coefficients": 40}
    embedder = PolyODETransformer(measure="legs", **parameters).fit(series)
    past = embedder.reconstruct(series)
    assert len(past.times) == 19  # the whole history of each
    np.testing.assert_allclose(past.values[:, 0], np.concatenate([x for _, x in series]), atol=0.05)


def test_constant_histories_of_any_length_come_back(whole):
    series = [([0.0, 0.1, 9.0], np.full((3, 2), 2.5)), ([3.0], [[-1.0, 0.5]])]
    with pytest.warns(UserWarning, match="no channel ever changes in fit"):
        embedder = PolyODETransformer(measure="legs", **CHEAP).fit(series[:1])
    np.testing.assert_allclose(embedder.reconstruct(series[:1]).values, 2.5, atol=1e-9)
    np.testing.assert_allclose(whole.reconstruct(series[1:]).values, [[-1.0, 0.5]], atol=1e-9)


def drifting(n=60, seed=0):
    """Lines that rise or fall as their covariates say; one is a number, one a word."""
    rng = np.random.default_rng(seed)
    rising = rng.uniform(size=n) < 0.5
    series = []
    for up in rising:
        times = np.sort(rng.uniform(0, 10, 8))
        series.append((times, rng.normal() + np.where(up, 0.5, -0.5) * times))
    static = pd.DataFrame({"trend": np.where(rising, "up", "down"), "age": rng.normal(size=n)})
    return Panel.from_series(series, static=static)


def test_static_covariates_say_what_one_observation_cannot():
    panel = drifting()
    embedder = PolyODETransformer(**{**CHEAP, "max_epochs": 12}).fit(panel)
    static = pd.DataFrame({"trend": ["up", "down", "unknown"], "age": [0.0, 0.0, np.nan]})
    start = Panel.from_series([([0.0], [1.0])] * 3, static=static)
    ahead = embedder.forecast(start, [1.0]).values[:, 0]
    assert ahead[0] > 1.1
    assert ahead[1] < 0.9
    assert np.isfinite(ahead[2])


@pytest.mark.filterwarnings("ignore:.*thing was learned in")  # one of the channels is noise
def test_a_channel_not_yet_observed_starts_where_the_covariates_say():
    """Its state at the start is h(0): without covariates it is the same for all."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 40)
    series = [
        (np.arange(4.0), np.column_stack([rng.normal(size=4), [np.nan, *np.full(3, 2.0 * g)]]))
        for g in group
    ]
    panel = Panel.from_series(series, static=pd.DataFrame({"group": group}))
    told = {"max_epochs": 15, "observations": "exact"}
    embedder = PolyODETransformer(**{**CHEAP, **told}).fit(panel)
    first = panel.like(panel.times[::4], panel.values[::4], np.arange(41))
    ahead = embedder.forecast(first, [1.0], combine=False).values[:, 1]
    assert ahead[group == 1].mean() - ahead[group == 0].mean() > 1.0


def test_static_covariates_of_fit_are_needed_later():
    embedder = PolyODETransformer(**CHEAP).fit(drifting())
    with pytest.raises(ValueError, match=r"lacks the static covariates \['age', 'trend'\]"):
        embedder.transform([([0.0, 1.0], [1.0, 2.0])])


def test_static_covariates_are_not_needed():
    with_static = drifting()
    panel = Panel(with_static.times, with_static.values, with_static.offsets)
    embedder = PolyODETransformer(**CHEAP).fit(panel)
    assert embedder.start_ is None
    np.testing.assert_array_equal(embedder.transform(with_static), embedder.transform(panel))
