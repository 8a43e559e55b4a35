"""Stacking: weights of the best forecasts at each lead."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skpolyode
from skpolyode import Panel, PolyODETransformer
from skpolyode.ensemble.backtest import ANCHORED, Backtest, folds_of
from skpolyode.ensemble.naive import NAIVE
from skpolyode.ensemble.stacking import StackedForecast, Weights, cross_fitted, learn_stacking
from tests.closeness import assert_same_but_for_rounding
from tests.transformers.registry import all_transformers
from tests.transformers.toy import ToyTransformer

MEMBERS = ("run", *NAIVE)
INF = np.array([np.inf])


def backtest_of(
    members: np.ndarray, actual: np.ndarray, leads: np.ndarray, **of: object
) -> Backtest:
    """One channel, each forecast of a series of its own."""
    n = len(leads)
    own = {"series": np.arange(n), "times": np.zeros(n), "anchored": ANCHORED} | of
    return Backtest(leads[:, None], members[:, None], actual[:, None], **own)


def simulated(n: int, seed: int, errors: dict[str, float], **of: object) -> Backtest:
    """Members that err by independent noise of these sizes; the others by one of size 3."""
    rng = np.random.default_rng(seed)
    actual, leads = rng.standard_normal(n), rng.uniform(0.1, 8.0, n)
    sizes = np.array([errors.get(name, 3.0) for name in MEMBERS])
    members = actual[:, None] + sizes * rng.standard_normal((n, len(MEMBERS)))
    return backtest_of(members, actual, leads, **of)


def weights_at(stacking: StackedForecast, leads: list[float]) -> np.ndarray:
    return stacking.channels[0].at(np.array(leads))


def learned(own: Backtest) -> StackedForecast:
    return StackedForecast.learn(own, -INF, INF)


@given(seed=st.integers(0, 200), n=st.integers(1, 300), start=st.booleans())
def test_weights_are_convex_everywhere(seed, n, start):
    own = simulated(n, seed, {"run": 0.3, "last": 0.4}, anchored=ANCHORED[not start :])
    w = weights_at(learned(own), [0.0, 0.01, 0.3, 2.0, 9.0, np.inf])
    assert (w >= 0).all()
    assert (w.sum(axis=1) <= 1 + 1e-9).all()
    at_last = [MEMBERS.index(name) for name in ANCHORED[not start :]]
    assert w[0, at_last].sum() == pytest.approx(1.0)


def test_the_best_of_two_is_taken_by_inverse_variance():
    """Of independent errors the best weights are as one over their variances."""
    stacking = learned(simulated(20_000, 0, {"run": 0.1, "mean": 0.2}))
    w = weights_at(stacking, [1.0, 4.0])
    np.testing.assert_allclose(w[:, 0], 0.8, atol=0.02)
    np.testing.assert_allclose(w[:, MEMBERS.index("mean")], 0.2, atol=0.02)


def test_where_dynamics_are_known_the_model_keeps_all_weight():
    own = simulated(300, 0, {"run": 0.02, "last": 0.8})
    np.testing.assert_allclose(weights_at(learned(own), [0.3, 2.0, 8.0])[:, 0], 1.0, atol=0.01)


def test_nothing_that_is_known_goes_to_the_mean():
    rng = np.random.default_rng(0)
    leads = rng.uniform(0.1, 5.0, 50_000)
    run = rng.standard_normal(len(leads))
    known = np.exp(-leads)
    actual = known * run + np.sqrt(1 - known**2) * rng.standard_normal(len(leads))
    members = np.column_stack([run, 9 + np.zeros((len(leads), 5))])
    w = weights_at(learned(backtest_of(members, actual, leads)), [0.5, 1.0, 2.0])
    np.testing.assert_allclose(w[:, 0], np.exp([-0.5, -1.0, -2.0]), atol=0.06)


def test_without_a_backtest_all_weight_is_on_the_free_run():
    stacking = learned(simulated(0, 0, {}))
    np.testing.assert_array_equal(weights_at(stacking, [0.0, 3.0]), np.eye(6)[[0, 0]])


def test_cross_fitting_uses_no_errors_of_the_series_itself():
    own = simulated(40, 0, {"run": 0.5, "last": 0.5}, series=np.arange(40) % 8)
    whole = cross_fitted(own, 4)
    changed = own._replace(actual=np.where(own.series[:, None] == 3, 1e3, own.actual))
    mine = own.series == 3
    assert_same_but_for_rounding(cross_fitted(changed, 4)[mine], whole[mine], 1e-9)
    assert not np.allclose(cross_fitted(changed, 4)[~mine], whole[~mine])


def test_folds_are_of_series_or_of_blocks_in_time():
    series, times = (
        np.repeat([7, 2, 5], [10, 5, 4]),
        np.concatenate([np.arange(10.0)[::-1], range(9)]),
    )
    assert folds_of(series, 3).tolist() == [2] * 10 + [0] * 5 + [1] * 4
    folds = folds_of(series, 5, times)
    assert folds[:10].tolist() == [4, 4, 3, 3, 2, 2, 1, 1, 0, 0]
    assert folds[10:].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3]
    np.testing.assert_array_equal(folds_of(series, 3, times), folds_of(series, 3))


def test_few_series_are_cross_fitted_by_blocks_in_time():
    times = np.tile(np.arange(20.0), 2)
    own = simulated(40, 0, {"run": 0.5, "last": 0.5}, series=np.repeat([0, 1], 20), times=times)
    whole, block = cross_fitted(own), times < 4
    changed = own._replace(actual=np.where(block[:, None], 1e3, own.actual))
    np.testing.assert_array_equal(cross_fitted(changed)[block], whole[block])
    assert not np.allclose(cross_fitted(changed)[~block], whole[~block])


# In transformers


def waves(n_series: int, seed: int, stretch: float = 1.0, shift: float = 0.0) -> Panel:
    rng = np.random.default_rng(seed)
    series = []
    for _ in range(n_series):
        t = np.cumsum(rng.integers(1, 9, 16)) / 8
        x = np.stack([np.sin(t + rng.uniform(0, 6)), rng.standard_normal() + 0 * t], axis=1)
        x += 0.25 * rng.integers(-2, 3, x.shape)
        x[rng.random(x.shape) < 0.2] = np.nan
        x[[0, -1]] = np.nan_to_num(x[[0, -1]])
        series.append((stretch * t + shift, x))
    return Panel.from_series(series)


TRANSFORMERS = {
    "ToyTransformer": ToyTransformer(max_epochs=1, random_state=0),
    **{k: own for k, own in all_transformers().items() if hasattr(own, "forecast")},
}


def all_weight_on(transformer, member: str):
    """The same with all weight on one forecast."""
    row, unlimited = np.eye(6)[[MEMBERS.index(member)] * 2], np.full(2, np.inf)
    weights = Weights(np.array([0.0, 1e9]), row)
    other = copy.copy(transformer)
    stacking = StackedForecast((weights, weights), -unlimited, unlimited)
    other.embedder_ = replace(transformer.embedder_, stacking=stacking)
    return other


@pytest.fixture(scope="module", params=TRANSFORMERS)
def fitted(request):
    return TRANSFORMERS[request.param].fit(waves(12, 0))


def test_with_all_weight_on_one_it_is_that_forecast(fitted):
    panel = waves(3, 1)
    ends = [times[-1] for times, _ in panel]
    asked = [[end, end + 0.7, end + 5] for end in ends]
    for name, rule in {
        "last": lambda x: x[-1],
        "mean": np.mean,
        "moving_average": lambda x: x[-4:].mean(),
    }.items():
        found = all_weight_on(fitted, name).forecast(panel, asked).values.reshape(3, 3, 2)
        for own, (_, values) in zip(found, panel, strict=True):
            expected = [rule(x[~np.isnan(x)]) for x in values.T]
            np.testing.assert_allclose(own, np.tile(expected, (3, 1)), atol=1e-12)
    free = all_weight_on(fitted, "run").forecast(panel, asked)
    own = fitted.forecast(panel, asked, combine=False)
    np.testing.assert_allclose(free.values, own.values, atol=1e-12)


def test_at_the_last_observation_it_is_the_observation(fitted):
    panel = waves(4, 2)
    ends = [[times[-1]] for times, _ in panel]
    last = panel.values[panel.offsets[1:] - 1]
    np.testing.assert_allclose(fitted.forecast(panel, ends).values, last, atol=1e-9)


def test_streams_and_files_are_stacked_as_well(fitted, tmp_path):
    panel = waves(4, 3)
    ends = [times[-1] for times, _ in panel]
    asked = [[end, end + 0.4, end + 9] for end in ends]
    expected = fitted.forecast(panel, asked).values
    stream = fitted.stream(4)
    for i, (times, values) in enumerate(panel):
        stream.update(times, values, series=np.full(len(times), i))
    np.testing.assert_allclose(stream.forecast(asked).values, expected, atol=1e-9)
    free = fitted.forecast(panel, asked, combine=False).values
    np.testing.assert_allclose(stream.forecast(asked, combine=False).values, free, atol=1e-9)
    resumed = fitted.stream(panel).forecast(asked).values
    np.testing.assert_allclose(resumed, expected, atol=1e-9)
    fitted.save(tmp_path / "model.safetensors")
    again = skpolyode.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.forecast(panel, asked).values, expected)
    stream.save(tmp_path / "stream.safetensors")
    again = skpolyode.load(tmp_path / "stream.safetensors")
    np.testing.assert_array_equal(again.forecast(asked).values, stream.forecast(asked).values)


def test_units_and_the_origin_of_time_make_no_difference():
    model = PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=2)
    model.set_params(random_state=0)
    found = []
    for stretch, shift, scale in ((1.0, 0.0, 1.0), (64.0, 4096.0, 16.0)):
        train, test = (waves(n, k, stretch, shift) for n, k in ((12, 0), (3, 1)))
        train, test = (Panel(p.times, p.values * scale, p.offsets) for p in (train, test))
        asked = [[times[-1] + stretch * k for k in (0.5, 3, 20)] for times, _ in test]
        found.append(model.fit(train).forecast(test, asked).values / scale)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-4)


def test_a_walk_that_has_left_the_range_of_training_is_not_called_back():
    rng = np.random.default_rng(0)
    t = np.arange(24.0)
    walks = [(t, np.cumsum(rng.standard_normal(24))) for _ in range(20)]
    model = PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=2)
    model.set_params(random_state=0).fit(walks)
    far = [(t, 100 + np.cumsum(rng.standard_normal(24)))]
    ahead, last = [24.0, 25.0], far[0][1][-1]
    free, with_stacking = (model.forecast(far, ahead, combine=own).values for own in (False, True))
    assert (free < last - 20).all()  # the wall
    assert (np.abs(with_stacking - last) < 8).all()


def test_a_run_that_is_no_number_is_not_answered(fitted):
    own = fitted.embedder_
    panel = waves(2, 1)
    broken = np.full((2, 1, 2), np.nan)
    found = own.stacking.combine(broken, own.records(panel), np.full((2, 1), 99.0))
    assert np.isfinite(found).all()


def test_what_judges_the_ridge_has_no_part_in_it():
    model = PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1)
    embedder = model.set_params(random_state=0).fit(waves(20, 0)).embedder_
    train, test = waves(20, 1), waves(6, 2)
    other = test.like(test.times, test.values * np.cos(test.times)[:, None], test.offsets)
    one, two = (
        learn_stacking(embedder, train, tested, np.random.RandomState(0))
        for tested in (test, other)
    )
    np.testing.assert_array_equal(one.ridge.coefficients, two.ridge.coefficients)
    assert (one.channels[0].weights != two.channels[0].weights).any()
