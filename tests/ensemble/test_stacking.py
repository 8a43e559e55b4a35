"""Stacking: weights of the best forecasts at each lead."""

from __future__ import annotations

import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter

import skpolyode
from skpolyode import Panel, PolyODEForecaster, PolyODETransformer
from skpolyode.ensemble import stacking as stackings
from skpolyode.ensemble.backtest import (
    BacktestSettings,
    effective_count,
    folds_of,
    knots_of,
    nearness,
    rolling_origins,
)
from skpolyode.ensemble.member import Member, RollingOrigins
from skpolyode.ensemble.members import Bounds, LastValue, Members
from skpolyode.ensemble.mixed import MixedEffects
from skpolyode.ensemble.stacking import (
    Backtest,
    StackedForecast,
    cross_fitted,
    learn_members,
    learn_stacking,
    learn_weights,
    weights_between,
)
from skpolyode.panel.select import observed_part, series_of_rows
from tests.closeness import assert_same_but_for_rounding
from tests.ensemble.cases import Clairvoyant, asked_at, no_inputs, part_of, rows_of
from tests.transformers.registry import all_transformers
from tests.transformers.toy import ToyTransformer

NAMES = ("run", "last", "mixed", "ridge")  # many series have no structural forecasts
ANCHORED = ["last", "run"]
RUN, LAST, MIXED, RIDGE = range(4)
FIRST = np.zeros(1, dtype=int)  # the only series


def backtest_of(
    members: np.ndarray, actual: np.ndarray, leads: np.ndarray, **of: object
) -> Backtest:
    """One channel, each forecast of a new series of its own."""
    n = len(leads)
    own = {"series": np.arange(n), "times": np.zeros(n), "is_new": np.ones(n, dtype=bool)}
    own |= {"predictors": np.zeros((n, 1, 3)), "origin": np.arange(n), "expected": np.ones((n, 1))}
    own |= of
    return Backtest(NAMES, leads[:, None], members=members[:, None], actual=actual[:, None], **own)


def simulated(n: int, seed: int, errors: dict[str, float], **of: object) -> Backtest:
    """Members that err by independent noise of these sizes; the others by one of size 3."""
    rng = np.random.default_rng(seed)
    actual, leads = rng.standard_normal(n), rng.uniform(0.1, 8.0, n)
    sizes = np.array([errors.get(name, 3.0) for name in NAMES])
    members = actual[:, None] + sizes * rng.standard_normal((n, len(NAMES)))
    return backtest_of(members, actual, leads, **of)


def weights_of(own: Backtest, anchored: list[str] = ANCHORED) -> StackedForecast:
    """Weights that a backtest teaches; there are no forecasts to combine."""
    leads, weights, unseen = learn_weights(own)
    start = stackings._at_zero(weights[:, :1], NAMES, anchored)
    weights, leads = np.concatenate([start, weights], axis=1), np.concatenate([[0.0], leads])
    return StackedForecast({}, None, NAMES, leads, weights, unseen)


def weights_at(stacking: StackedForecast, leads: list[float]) -> np.ndarray:
    every = np.broadcast_to(np.array(leads)[:, None], (len(leads), len(stacking.weights)))
    return weights_between(stacking.weights, stacking.unseen, stacking.leads, every)[:, 0]


@given(seed=st.integers(0, 200), n=st.integers(1, 300), start=st.booleans())
def test_weights_are_convex_everywhere(seed, n, start):
    own = simulated(n, seed, {"run": 0.3, "last": 0.4})
    anchored = ANCHORED if start else ANCHORED[:1]
    w = weights_at(weights_of(own, anchored), [0.0, 0.01, 0.3, 2.0, 9.0, np.inf])
    assert (w >= 0).all()
    assert (w.sum(axis=1) <= 1 + 1e-9).all()
    assert w[0, [NAMES.index(name) for name in anchored]].sum() == pytest.approx(1.0)


def test_weights_have_no_kinks():
    """Slopes in the lead are the same on both sides of each knot."""
    rng = np.random.default_rng(0)
    own = simulated(900, 0, {"run": 0.5, "last": 0.2, "mixed": 0.7})
    own = own._replace(members=own.members * (1 + 0.3 * rng.standard_normal((900, 1, 1))))
    stacking, step = weights_of(own), 1e-5
    assert len(stacking.leads) > 4
    assert np.abs(np.diff(stacking.weights[0], axis=0)).max() > 0.05
    for knot in stacking.leads[:-1]:
        w = weights_at(stacking, [max(knot - step, 0.0), knot, knot + step])
        np.testing.assert_allclose(np.diff(w, axis=0) / step, 0, atol=0.01)


def test_the_best_of_two_is_taken_by_inverse_variance():
    """Of independent errors the best weights are as one over their variances."""
    w = weights_at(weights_of(simulated(20_000, 0, {"run": 0.1, "mixed": 0.2})), [1.0, 4.0])
    np.testing.assert_allclose(w[:, RUN], 0.8, atol=0.06)
    np.testing.assert_allclose(w[:, MIXED], 0.2, atol=0.06)


def test_an_exact_member_gets_all_weight():
    """Whatever others miss; two of them are wrong by as much, on either side."""
    rng = np.random.default_rng(0)
    actual, leads = rng.standard_normal(40), rng.uniform(0.1, 8.0, 40)
    members = actual[:, None] + rng.uniform(1.0, 3.0, (40, 1)) * np.array([1.0, 0, -1, 1])
    own = backtest_of(members, actual, leads, series=np.zeros(40, dtype=int), times=leads)
    w = weights_at(weights_of(own), [0.5, 2.0, 8.0])
    np.testing.assert_allclose(w[:, LAST], 1.0, atol=1e-6)


def test_what_was_never_observed_has_weights_of_its_own():
    seen, unseen = (simulated(200, k, {name: 0.1}) for k, name in enumerate(("last", "run")))
    unseen = unseen._replace(leads=np.full((200, 1), np.inf), series=unseen.series + 200)
    columns = zip(seen[1:], unseen[1:], strict=True)
    own = weights_of(Backtest(NAMES, *map(np.concatenate, columns)))
    assert weights_at(own, [0.5, 9.0, 1e9])[:, LAST].min() > 0.9
    assert weights_at(own, [np.inf])[0, RUN] > 0.9
    np.testing.assert_allclose(weights_at(own, [3.0]), weights_at(weights_of(seen), [3.0]))


def test_each_channel_has_weights_of_its_own():
    one, two = (simulated(2000, k, {name: 0.1}) for k, name in enumerate(("run", "last")))
    columns = ("leads", "predictors", "members", "actual")
    both = {name: np.concatenate([getattr(b, name) for b in (one, two)], 1) for name in columns}
    stacking = weights_of(one._replace(**both))
    assert (stacking.weights[0, 1:, RUN] > 0.95).all()
    assert (stacking.weights[1, 1:, LAST] > 0.95).all()


def test_where_dynamics_are_known_the_model_keeps_all_weight():
    own = simulated(3000, 0, {"run": 0.02, "last": 0.8})
    np.testing.assert_allclose(weights_at(weights_of(own), [0.3, 2.0, 8.0])[:, 0], 1.0, atol=0.02)


def test_nothing_that_is_known_goes_to_the_mean():
    rng = np.random.default_rng(0)
    leads = rng.uniform(0.1, 5.0, 50_000)
    run = rng.standard_normal(len(leads))
    known = np.exp(-leads)
    actual = known * run + np.sqrt(1 - known**2) * rng.standard_normal(len(leads))
    members = np.column_stack([run, 9 + np.zeros((len(leads), len(NAMES) - 1))])
    w = weights_at(weights_of(backtest_of(members, actual, leads)), [0.5, 1.0, 2.0])
    np.testing.assert_allclose(w[:, 0], np.exp([-0.5, -1.0, -2.0]), atol=0.06)


def test_without_a_backtest_all_weight_is_on_the_free_run():
    stacking = weights_of(simulated(0, 0, {}))
    np.testing.assert_array_equal(weights_at(stacking, [0.0, 3.0]), np.eye(4)[[0, 0]])


# What weights are shrunk towards, and who judges


@pytest.mark.parametrize(
    ("n", "least", "most"), [(1, 0, 0.1), (3, 0, 0.25), (30, 0.4, 0.65), (3000, 0.67, 0.72)]
)
def test_few_forecasts_speak_for_the_best_simple_one(n, least, most):
    """In the mean of draws. Ten count as much as the prior; of many, it is by inverse variances."""
    drawn = [simulated(n, seed, {"run": 0.5, "mixed": 1.5}) for seed in range(20 if n < 99 else 1)]
    drawn = [weights_of(own._replace(leads=np.full((n, 1), 2.0))) for own in drawn]
    assert least <= np.mean([weights_at(own, [2.0])[0, RUN] for own in drawn]) <= most


def test_forecasts_that_overlap_count_as_few():
    """Hundreds of one series for about one time, or of as many series."""
    every = simulated(300, 0, {"run": 0.3, "mixed": 1.0})
    every = every._replace(leads=np.full((300, 1), 2.0))
    one = every._replace(series=np.zeros(300, dtype=int), times=np.linspace(0, 1, 300))
    many, few = (weights_at(weights_of(own), [2.0])[0, RUN] for own in (every, one))
    assert many > 0.8
    assert few < 0.6
    apart = one._replace(times=np.linspace(0, 2e3, 300))
    assert few < weights_at(weights_of(apart), [2.0])[0, RUN] < many


def test_forecasts_that_do_not_overlap_are_counted():
    series = np.array([0] * 10 + [1] * 3)
    times = np.array([3, 1, 2, 0, 4, 5, 6, 9, 8, 7, 0, 0.1, 0.2])
    for power in (1.0, 0.5):
        assert effective_count(series, times, 2.0, power) == pytest.approx(5**power + 1)
        assert effective_count(series, times, 100.0, power) == 2
        assert effective_count(series, times, 1e-3, power) == pytest.approx(10**power + 3**power)


def test_errors_in_training_count_as_large_as_others():
    """The run nearly knows by heart what it was trained on; simple forecasts do not."""
    own = simulated(400, 0, {"run": 1.0, "last": 0.5})
    is_new = np.arange(400) % 2 == 0
    members = own.members.copy()
    run = members[:, 0, RUN]
    members[:, 0, RUN] = np.where(is_new, run, own.actual[:, 0] + 0.05 * (run - own.actual[:, 0]))
    taught = weights_of(own._replace(is_new=is_new, members=members))
    found, wanted = (weights_at(one, [1.0, 4.0])[:, RUN] for one in (taught, weights_of(own)))
    np.testing.assert_allclose(found, wanted, atol=0.1)


def test_a_run_that_knows_its_training_by_heart_is_not_trusted():
    """Errors of nothing cannot be enlarged; those of new series still speak."""
    own = simulated(400, 0, {"run": 1.0, "last": 0.5})
    is_new = np.arange(400) % 2 == 0
    members = own.members.copy()
    members[:, 0, RUN] = np.where(is_new, members[:, 0, RUN], own.actual[:, 0])
    found = weights_of(own._replace(is_new=is_new, members=members))
    assert weights_at(found, [1.0, 4.0])[:, RUN].max() < 0.5


def test_series_that_trained_the_model_count():
    """A few new ones alone would not outweigh the prior."""
    found = []
    for seed in range(5):
        own = simulated(200, seed, {"run": 0.5, "mixed": 0.9})
        few = np.arange(200) < 2
        both = own._replace(is_new=few), own.of(few)
        found.append([weights_at(weights_of(b), [1.0, 4.0])[:, RUN] for b in both])
    with_others, alone = np.mean(found, axis=0)
    assert (with_others > alone + 0.2).all()


def test_errors_count_less_where_no_series_is_new():
    own = simulated(40, 0, {"run": 0.5, "mixed": 1.0})
    own = own._replace(leads=np.full((40, 1), 2.0))
    old = own._replace(is_new=np.zeros(40, dtype=bool))
    new, trained = (weights_at(weights_of(b), [2.0])[0, RUN] for b in (own, old))
    assert trained < new - 0.1


def test_one_faulty_cell_moves_weights_by_little():
    own = simulated(400, 0, {"run": 0.5, "last": 0.5, "mixed": 0.5})
    before = weights_of(own).weights
    actual = own.actual.copy()
    actual[7] = 1e6
    after = weights_of(own._replace(actual=actual)).weights
    np.testing.assert_allclose(after, before, atol=0.05)


# Cross-fitting


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
    two = folds_of(series[:15], 5, times[:15])
    assert two[:10].tolist() == [4, 4, 3, 3, 2, 2, 1, 1, 0, 0]
    assert two[10:].tolist() == [0, 1, 2, 3, 4]
    for n_folds in (3, 5):  # of three series, what differs between series is known
        np.testing.assert_array_equal(folds_of(series, n_folds, times), folds_of(series, 3))


def test_few_series_are_cross_fitted_by_blocks_in_time():
    times = np.tile(np.arange(20.0), 2)
    own = simulated(40, 0, {"run": 0.5, "last": 0.5}, series=np.repeat([0, 1], 20), times=times)
    whole, block = cross_fitted(own), times < 4
    changed = own._replace(actual=np.where(block[:, None], 1e3, own.actual))
    np.testing.assert_array_equal(cross_fitted(changed)[block], whole[block])
    assert not np.allclose(cross_fitted(changed)[~block], whole[~block])


# Combining


def still(n_channels: int = 1) -> Members:
    """Known by hand: the mixed model expects 0.5, training had values from -1 to 1."""
    ones = np.ones(n_channels)
    blank = MixedEffects._blank(np.array([0.0, 1.0]), (), 1.0, n_channels)
    mixed = replace(blank, curve=np.full((n_channels, 2), 0.5))
    bounds = Bounds(
        -ones, ones, -ones, ones, np.array([0.0, 10.0]), np.full((n_channels, 2), 100.0)
    )
    return Members({"last": LastValue(np.zeros(n_channels)), "mixed": mixed}, bounds)


def stacked(**weights: float) -> StackedForecast:
    row = np.array([weights.get(name, 0.0) for name in NAMES])
    own = {"names": NAMES, "leads": np.array([0.0, 9.0]), "unseen": row[None]}
    return StackedForecast(**vars(still()), **own, weights=np.tile(row, (1, 2, 1)))


def seen(*values: float) -> dict[str, np.ndarray]:
    times, rows, n = np.arange(float(len(values))), np.array(values)[:, None], len(values)
    return still().known_at(rows_of(times, rows, np.array([0, n])), np.array([n - 1]))


def forecasts(own: Members, run: float, known: dict, *elapsed: float) -> np.ndarray:
    """Of all names, without inputs; the free run is the same everywhere."""
    n, n_channels = known["records"].shape[:2]
    given = {"run": np.full((n, n_channels), run)}
    return own.forecasts(NAMES, given, known, np.array(elapsed), no_inputs(n))


@pytest.mark.parametrize(
    ("last", "expected"), [(0.9, 0.6), (1.0, 0.6), (-1.5, 0.15 - 0.15), (2.5, 0.75), (-40.0, -11.5)]
)
def test_outside_the_range_of_training_the_model_gives_way(last, expected):
    """By one standard deviation, its weight and that of the mean are those of the mixed model."""
    own = stacked(run=0.6, last=0.3)
    parts = {"run": np.array([[1.0]])}, seen(last), FIRST, np.array([2.0]), no_inputs(1)
    found = own.combine(*parts)[0, 0]
    share = np.clip(max(last - 1, -1 - last), 0, 1)
    run = (1 - share) * 0.6
    assert found == pytest.approx(run + 0.3 * last + share * 0.7 * 0.5)


@pytest.mark.parametrize("run", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("last", [0.2, 0.3, 0.7, -0.9])
def test_where_few_series_have_been_it_gives_way_the_less_it_is_trusted(last, run):
    own = stacked(run=run, last=0.3 * (1 - run))
    bounds = replace(own.bounds, common_lowest=np.array([-0.4]), common_highest=np.array([0.2]))
    parts = {"run": np.array([[1.0]])}, seen(last), FIRST, np.array([2.0]), no_inputs(1)
    found = replace(own, bounds=bounds).combine(*parts)[0, 0]
    moved = max(last - 0.2, -0.4 - last, 0.0) * (1 - run)
    kept = own.combine(*parts)[0, 0] - moved * run
    assert found == pytest.approx(kept + moved * (run + 0.7 * (1 - run)) * 0.5)


def test_the_mean_and_the_regression_give_way_as_well():

    class Regression(Member):
        extrapolates = False

        def forecast(self, known, asked):
            return np.full(asked.base.shape, 0.25)

    own = stacked(ridge=0.4)
    own = replace(own, each=own.each | {"ridge": Regression()})
    for last, expected in ((1.0, 0.4 * 0.25), (3.0, 0.5)):
        known = seen(0.5, last) | {"ridge": np.empty((1, 1, 0))}
        found = own.combine({"run": np.ones((1, 1))}, known, FIRST, np.array([2.0]), no_inputs(1))
        assert found[0, 0] == pytest.approx(expected)


@pytest.mark.parametrize("member", NAMES)
def test_what_was_never_observed_is_forecast_as_the_population_is(member):
    """By every member but the run, and never beyond the range of training."""
    own, blank = stacked(**{member: 1.0}), still().start(2, 1)
    run = {"run": np.full((2, 1), 7.0)}
    found = own.combine(run, blank, np.arange(2), np.array([0.0, 99.0]), no_inputs(2))
    np.testing.assert_allclose(found, 1.0 if member == "run" else 0.5)


def test_what_is_measured_late_has_a_level_of_its_own():
    """Four series of five start with the second channel, the others end with it, and higher."""
    values = np.full((50, 20, 2), np.nan)
    values[..., 0] = np.random.default_rng(0).standard_normal((50, 20))
    values[::5, 10:, 1], values[1::5, :, 1] = 1.0, -1.0
    panel = Panel.from_series([(np.arange(20.0), own) for own in values])
    own = learn_members(Clairvoyant.of(panel), panel, np.random.RandomState(0), [()])[0]
    blank = own.start(1, 2)
    found = forecasts(own, 0.0, blank, 15.0)[0, 1]
    assert found[LAST] == pytest.approx(found[MIXED] + own.each["last"].offset[1])
    assert abs(found[LAST] - np.nanmax(own.bounds.highest[1])) < 0.1 < found[LAST]
    assert found[RIDGE] == found[MIXED]
    row = rows_of(np.array([15.0]), np.array([[0.2, 0.3]]), np.arange(2))
    shown = own.updated(blank, row)
    assert forecasts(own, 0.0, shown, 15.0)[0, 1, LAST] == 0.3


def test_members_stay_within_bounds():
    own, steep = still(), seen(1.0, -1.0, 1.0)  # changes that do not go on
    trend = replace(own.each["mixed"], curve=np.array([[0.0, 1.0]]))  # by one a unit of time
    bounds = replace(own.bounds, reach=np.array([[0.0, 0.5]]))
    own = Members(own.each | {"mixed": trend}, bounds)
    members = forecasts(own, -1e9, steep, 900.0)[0, 0]
    assert members[MIXED] == 1.5  # of the longest lead of training, no more
    assert members[RUN] == -1.0


# Backtests


def regular(n_series: int, n_rows: int, seed: int = 0, walk: bool = False) -> Panel:
    """White noise of variance 1, or walks, one unit of time apart."""
    x = np.random.default_rng(seed).standard_normal((n_series, n_rows))
    x = x.cumsum(axis=1) if walk else x
    return Panel.from_series([(np.arange(float(n_rows)), own) for own in x])


def counts_of(asked: RollingOrigins) -> np.ndarray:
    """How many rows are forecast from each origin."""
    return np.bincount(asked.origin, minlength=len(asked.origins))


def test_backtests_reach_the_next_row():
    """However far that is beyond half of a series."""
    panel = regular(3, 2)
    asked = rolling_origins(Clairvoyant.of(panel), panel, np.random.RandomState(0))
    assert (counts_of(asked) == 1).all()


@pytest.mark.parametrize(("context", "reach"), [(None, 32.0), (15.0, 30.0), (5.0, 24.0)])
def test_backtests_reach_two_contexts_or_some_gaps(context, reach):
    """Or half of a series, if that is longer."""
    panel = regular(3, 50)
    model = Clairvoyant.of(panel)
    model.recent = None if context is None else SimpleNamespace(window=context)
    asked = rolling_origins(model, panel, np.random.RandomState(0), panel.offsets[:-1])
    leads = asked.times - panel.times[asked.origins][asked.origin]
    assert leads.max() == reach
    assert len(asked.origins) == 3 * 49
    assert (counts_of(asked) == np.minimum(reach, 49 - panel.times[asked.origins])).all()
    assert (leads > 0).all()
    every = rolling_origins(model, panel, np.random.RandomState(0))
    assert (every.times - every.panel.times[every.origins][every.origin]).max() == reach


def test_of_many_rows_some_series_judge():
    """With their windows, as many as the model may run through, each whole; the rest as before."""
    panel, rng = regular(40, 50), np.random.RandomState(0)
    few = BacktestSettings(max_rows=500, enough_series=6)
    asked = rolling_origins(Clairvoyant.of(panel), panel, rng, panel.offsets[:-1] + 30, few)
    assert len(asked.whose) == 10
    for i, row in zip(asked.whose, asked.panel.offsets[:-1], strict=True):
        np.testing.assert_array_equal(asked.panel.values[row : row + 50], panel[[i]].values)
    row = asked.origins - asked.panel.offsets[:-1][series_of_rows(asked.panel)[asked.origins]]
    assert row.min() == 29
    fewer = replace(few, max_rows=5)
    assert len(rolling_origins(Clairvoyant.of(panel), panel, rng, None, fewer).whose) == 6


def test_more_series_judge_where_a_channel_is_rare():
    panel, rng = regular(40, 50), np.random.RandomState(0)
    values = [np.column_stack([x, np.where(np.arange(50) % 2, np.nan, x[:, 0])]) for _, x in panel]
    panel = Panel.from_series([(t, x) for (t, _), x in zip(panel, values, strict=True)])
    few = BacktestSettings(max_rows=500, enough_series=6)
    asked = rolling_origins(Clairvoyant.of(panel), panel, rng, panel.offsets[:-1] + 30, few)
    assert len(asked.whose) == 20


def test_long_series_have_windows_of_which_no_forecast_knows_what_was_before():
    """They share the folds of their series, whose mixed model does not know them."""
    panel = Panel.concat([regular(30, 25), regular(2, 19)], ids=range(32))
    asked = rolling_origins(Clairvoyant.of(panel), panel, np.random.RandomState(0))
    assert asked.panel[:32].times.tolist() == panel.times.tolist()
    assert asked.whose.tolist() == [*range(32), *range(30)]
    lengths = asked.panel.lengths[32:]
    assert set(lengths.tolist()) == set(range(10, 16))
    for window, length, whole in zip(asked.panel[32:], lengths, panel, strict=False):
        np.testing.assert_array_equal(window[1], whole[1][-length:])
    np.testing.assert_array_equal(asked.records.n_values, asked.elapsed[:, None] - asked.leads + 1)
    np.testing.assert_array_equal(
        asked.series, asked.whose[series_of_rows(asked.panel)[asked.rows]]
    )
    own = Members.learn(asked, [()], np.empty(0))[0]
    alone = MixedEffects.estimate(Clairvoyant.of(panel).standardised(panel), [()])
    np.testing.assert_array_equal(own.each["mixed"].curve, alone.curve)


def test_a_curve_over_the_time_since_the_start_counts_only_where_starts_are_known():
    """All series follow one curve: of windows nobody knows where they are on it."""
    t, rng = np.arange(40.0), np.random.default_rng(0)
    rise = 4 * np.sin(t / 6) + 0.3 * rng.standard_normal((80, 40)).cumsum(axis=1)
    errors = []
    for n_rows in (19, 40):  # short series have no windows
        panel = Panel.from_series([(t[:n_rows], x[:n_rows]) for x in rise])
        parts = panel[:20], panel[20:], np.random.RandomState(0)
        found, backtest = learn_stacking(Clairvoyant.of(panel, noise=0.5), *parts)
        near = np.abs(backtest.leads[:, 0] - 4) <= 2
        wrong = backtest.members[near, 0] - backtest.actual[near]
        errors.append(dict(zip(backtest.names, (wrong**2).mean(axis=0), strict=True)))
    assert weights_at(found, [4.0])[0, MIXED] < 0.05
    assert errors[0]["ridge"] < 1.1 * errors[0]["mixed"]
    assert errors[1]["ridge"] < 0.5 * errors[1]["mixed"]


def test_members_are_learned_from_more_windows_the_longer_series_are():
    """Of which a quarter of a series is known at most: what is short rather lost its beginning."""
    settings = BacktestSettings(max_windows=3, window_share=0.25, max_origins=10**6)
    panel = Panel.concat([regular(4, 30), regular(4, 79), regular(4, 200)], ids=range(12))
    model, rng = Clairvoyant.of(panel), np.random.RandomState(0)
    asked = rolling_origins(model, panel, rng, settings=settings)
    assert np.bincount(asked.whose[12:]).tolist() == [1] * 8 + [3] * 4
    place = series_of_rows(asked.panel)[asked.origins]
    n_known, of_long = asked.origins - asked.panel.offsets[place] + 1, asked.whose[place] >= 8
    assert n_known[(place >= 12) & of_long].max() == 50
    assert n_known[(place >= 12) & ~of_long].max() == 20
    assert n_known[place < 12].max() == 199


def test_whether_a_row_is_forecast_depends_on_how_far_it_is_not_on_where_its_series_ends():
    """Else errors far ahead would be those of ends, where engines fail and storms dissolve."""
    panel, few = Panel.concat([regular(8, 120), regular(8, 60)], ids=range(16)), 8
    settings = BacktestSettings(max_targets=few, reach_gaps=100)
    parts = Clairvoyant.of(panel), panel, np.random.RandomState(0), panel.offsets[:-1]
    asked = rolling_origins(*parts, settings)
    steps = asked.rows - asked.origins[asked.origin]
    ends = panel.offsets[1:][series_of_rows(panel)[asked.origins]]
    n_ahead = np.minimum(ends - 1 - asked.origins, 100)
    own = n_ahead[asked.origin]
    assert (np.bincount(asked.origin[steps == 1]) == 1).all()
    for low, high in ((20, 40), (40, 59)):
        shares = []
        for longest in (4, 100):  # of rows after the one that is forecast
            given = ((low <= steps) & (steps < high) & (own - steps < longest)).sum()
            left = n_ahead[:, None] - np.arange(low, high)
            shares.append(given / ((left >= 0) & (left < longest)).sum())
        assert shares[0] == pytest.approx(shares[1], rel=0.2)
    assert len(steps) / len(asked.origins) == pytest.approx(few, abs=1)


def test_many_origins_are_drawn_and_many_targets_thinned():
    panel, rng = regular(2, 300), np.random.RandomState(0)
    model, start = Clairvoyant.of(panel), panel.offsets[:-1]
    few = BacktestSettings(max_origins=20, max_targets=6, reach_gaps=200)
    asked = rolling_origins(model, panel, rng, start, few)
    assert len(asked.origins) == 20
    assert (np.diff(asked.origins) > 0).all()
    assert 4 < len(asked.rows) / 20 <= 6 + 1
    rare = np.column_stack([panel.values, np.full(len(panel.values), np.nan)])
    rare[17::40, 1] = 1.0
    rows = Panel(panel.times, rare, panel.offsets)
    kept = rolling_origins(model, rows, rng, start, few)
    for row, own in zip(
        kept.origins, np.split(kept.rows, np.cumsum(counts_of(kept))[:-1]), strict=True
    ):
        later = np.arange(row + 1, min(row + 201, 300 * (row // 300 + 1)))
        assert set(later[later % 40 == 17]) <= set(own.tolist())
    first = rolling_origins(model, panel, rng, np.array([250, 590]))
    assert first.origins.tolist() == [*range(249, 299), *range(589, 599)]


def test_a_convex_combination_that_is_best_by_construction_is_found():
    """Of white noise nothing is known: the run, which errs as much as the mean, gets a half."""
    panel = regular(450, 6)
    model = Clairvoyant.of(panel, noise=1.0)
    parts = panel[:50], panel[50:], np.random.RandomState(0)
    stacking, backtest = learn_stacking(model, *parts)
    assert backtest.is_new.all()
    np.testing.assert_allclose(weights_at(stacking, [1.0, 2.0, 3.0])[:, RUN], 0.46, atol=0.1)
    wrong = cross_fitted(backtest) - backtest.actual
    assert np.mean(wrong**2) == pytest.approx(0.5, abs=0.05)
    exact = learn_stacking(Clairvoyant.of(panel), *parts)[0]
    assert (weights_at(exact, [1.0, 2.0, 3.0, 4.0])[:, RUN] > 0.97).all()
    assert exact.mean_weights["run"] > 0.6  # between these leads nothing was seen
    assert sum(exact.mean_weights.values()) == pytest.approx(1.0)


def test_a_run_that_does_not_start_at_the_observation_is_not_right_there():
    panel = regular(60, 12)
    model = Clairvoyant.of(panel, noise=0.1)
    off = copy.copy(model)
    off.runs_from = lambda *asked: model.runs_from(*asked) + 0.5
    parts = panel[:35], panel[35:], np.random.RandomState(0)
    right, wrong = (learn_stacking(own, *parts)[0] for own in (model, off))
    assert right.weights[0, 0, RUN] > 0.9
    assert wrong.weights[0, 0, RUN] == 0.0
    off.filters = True  # a filter knows better than one observation
    assert learn_stacking(off, *parts)[0].weights[0, 0, RUN] == 1.0


def test_one_cell_of_a_million_moves_weights_by_little():
    """In a series that judges; the run errs in some way, the others know nothing."""
    panel = regular(120, 12)
    values = panel.values.copy()
    values[60 * 12 + 6] = 1e6
    faulty = Panel(panel.times, values, panel.offsets)
    model = Clairvoyant.of(panel, noise=0.7)
    before, after = (
        learn_stacking(model, own[:50], own[50:], np.random.RandomState(0))[0].weights
        for own in (panel, faulty)
    )
    np.testing.assert_allclose(after[..., RUN], before[..., RUN], atol=0.1)


@pytest.mark.parametrize(("n_series", "regresses"), [(1, False), (2, True)])
def test_two_series_are_enough_for_a_regression(n_series, regresses):
    """They swing alike: one tells how the other goes on, and a third one."""
    t, rng = np.arange(120.0), np.random.default_rng(0)
    x = lfilter([1.0], [1.0, -1.8, 0.9], rng.standard_normal((3, 120)), axis=1)
    panel = Panel.from_series([(t, own) for own in x[:n_series]])
    model, rng = Clairvoyant.of(panel, noise=1.0), np.random.RandomState(0)
    stacking, _ = learn_stacking(model, panel, None, rng, period=[])
    assert ("ridge" in stacking.each) == regresses
    if regresses:
        test = Panel.from_series([(t, x[2])])
        sample = rolling_origins(model, test, rng, test.offsets[:-1])
        first = part_of(sample, sample.leads[:, 0] <= 4)
        nothing = {"run": np.zeros_like(first.actual)}
        members = stackings.members_of([stacking], NAMES, first, nothing)
        errors = np.mean((members - first.actual[..., None]) ** 2, axis=(0, 1))
        assert errors[RIDGE] < 0.7 * errors[LAST]


def test_few_held_out_series_judge_the_run_only(monkeypatch):
    """Simple forecasts are judged on all series, each by what was learned from others."""
    panel, asked, members_of = regular(15, 10, walk=True), [], stackings.members_of

    def spied(learned, names, sample, given):
        asked.append((learned, sample))
        return members_of(learned, names, sample, given)

    monkeypatch.setattr(stackings, "members_of", spied)
    model, rng = Clairvoyant.of(panel, noise=0.1), np.random.RandomState(0)
    stacking, backtest = learn_stacking(model, panel[:12], panel[12:], rng)
    learned, sample = asked[0]
    assert len(learned) == 5
    assert set(backtest.series.tolist()) == set(range(15))
    np.testing.assert_array_equal(backtest.is_new, backtest.series >= 12)
    # What is known of the mean of all series, and of those that are not in the second fold.
    rows, whole = model.standardised(panel), stacking.each["mixed"]
    without = whole.without_folds(rows, 5)[1]
    np.testing.assert_allclose(learned[1].each["mixed"].curve, without.curve)
    own = np.flatnonzero((sample.series % 5 == 1) & (sample.elapsed == 1))
    known = without.known_at(rows, panel.offsets[sample.series[own]])
    expected = without.forecast(known, asked_at(known, sample.elapsed[own]))
    np.testing.assert_allclose(backtest.members[own, :, MIXED], expected)


def test_a_single_series_is_judged_in_time():
    """What was learned from its first half is judged on the second; all of it is kept."""
    t, rng = np.arange(40.0), np.random.default_rng(0)
    x = rng.standard_normal(40)

    def learned(values):
        panel = Panel.from_series([(t, values)])
        model, rng = Clairvoyant.of(Panel.from_series([(t, x)])), np.random.RandomState(0)
        return learn_stacking(model, panel, None, rng, period=[])

    (own, backtest), (other, _) = learned(x), learned(np.where(t < 38, x, 5.0))
    assert backtest.times.min() == 20
    assert not backtest.is_new.any()
    panel = Panel.from_series([(t, x)])
    known = Clairvoyant.of(panel).standardised(panel)
    known_half = known.times[:20], known.values[:20], np.array([0, 20])
    half = MixedEffects.estimate(rows_of(*known_half), [()])
    sure = half.known_at(known, np.array([25]))
    expected = half.forecast(sure, asked_at(sure, np.array([26.0]), 19.0))
    row = (backtest.times == 26) & (backtest.leads[:, 0] == 1)
    np.testing.assert_allclose(backtest.members[row, 0, MIXED], expected[0], atol=1e-9)
    assert other.bounds.highest[0] > own.bounds.highest[0]


def test_many_held_out_series_judge_what_was_learned_without_them(monkeypatch):
    judges, members_of = [], stackings.members_of

    def spied(learned, *args):
        judges.append([own.each for own in learned])
        return members_of(learned, *args)

    monkeypatch.setattr(stackings, "members_of", spied)
    panel = regular(80, 10, walk=True)
    model, rng = Clairvoyant.of(panel), np.random.RandomState(0)
    stacking, backtest = learn_stacking(model, panel[:20], panel[20:], rng)
    assert judges == [[stacking.each]]
    assert len(np.unique(backtest.series)) == 60


def test_forecasts_that_all_members_miss_count_less():
    """In a share of the forecasts all are far off, on the side where the run is less so."""
    rng = np.random.default_rng(0)
    own = simulated(400, 0, {"run": 1.0, "last": 0.3})
    far = rng.random(400) < 0.03
    actual = own.actual + np.where(far, 300.0, 0.0)[:, None]
    members = own.members + np.where(far[:, None], [100.0, 0.0, 0.0, 0.0], 0.0)[:, None]
    found = weights_at(weights_of(own._replace(actual=actual, members=members)), [2.0])
    assert found[0, LAST] > 0.7


def test_after_a_typical_gap_the_last_value_says_no_more_than_then():
    """Where no lead below two gaps was seen, weights go from those at 0 to those at 1."""
    panel = regular(60, 12, walk=True)
    wide = Panel(3.0 * panel.times, panel.values, panel.offsets)
    parts = wide[:20], wide[20:], np.random.RandomState(0)
    own = learn_stacking(Clairvoyant.of(panel, noise=2.0), *parts)[0]
    assert own.leads[:3].tolist() == [0.0, 1.0, 3.0]
    np.testing.assert_array_equal(own.weights[:, 1], own.weights[:, 2])
    assert (own.weights[:, 0] != own.weights[:, 1]).any()


def test_noisy_values_that_are_measured_again_at_once_are_not_repeated():
    """Of levels under noise, every fifth row comes soon after the one before."""
    rng, n_rows = np.random.default_rng(0), 15
    gaps = np.where(np.arange(n_rows) % 5 == 2, 0.02, rng.uniform(0.8, 1.2, (120, n_rows)))
    levels = rng.standard_normal((120, 1)) + rng.standard_normal((120, n_rows))
    panel = Panel.from_series(list(zip(np.cumsum(gaps, axis=1), levels, strict=True)))
    parts = panel[:60], panel[60:], np.random.RandomState(0)
    own = learn_stacking(Clairvoyant.of(panel, noise=9.0), *parts)[0]
    weights = weights_at(own, [0.0, 0.002, 0.02, 1.0])
    assert weights[0, [LAST, RUN]].sum() == pytest.approx(1.0)
    assert (weights[1:, [LAST, RUN]].sum(axis=1) < 0.4).all()  # a third weighs level and value best


def test_jumps_that_no_held_out_series_has_count():
    """Every fifth series jumps, and only the run knows; none of the forty held-out ones does."""
    t, rng = np.arange(8.0), np.random.default_rng(0)
    jump = 3.0 * ((np.arange(240) % 5 == 0) & (np.arange(240) < 200))
    noise, levels = 0.02 * rng.standard_normal((240, 8)), rng.standard_normal(240)
    values = levels[:, None] + noise + np.where(t >= 4, jump[:, None], 0.0)
    panel = Panel.from_series([(t, x) for x in values])
    parts = panel[:200], panel[200:], np.random.RandomState(0)
    weights = learn_stacking(Clairvoyant.of(panel, noise=0.3), *parts)[0].mean_weights
    assert weights["run"] > 0.5


def test_leads_of_weights_are_spread_over_those_that_occur():
    leads = np.random.default_rng(0).uniform(1.0, 50.0, (399, 1))
    knots = knots_of(leads, np.ones_like(leads))
    assert len(knots) == 7  # one for fifty forecasts, and eight at most
    assert knots[-1] == pytest.approx(leads.max())
    np.testing.assert_allclose(np.diff(np.log(knots), 2), 0, atol=1e-9)
    assert len(knots_of(np.tile(leads, (9, 1)), np.ones((9 * 399, 1)))) == 8
    assert len(knots_of(np.full((9, 1), np.inf), np.ones((9, 1)))) == 0
    rows = np.repeat(np.arange(1.0, 101.0), 50)[:, None]
    assert knots_of(rows, np.ones_like(rows))[0] == 1.0  # the next row has one of its own
    w = nearness(np.array([0.0, knots[0], 1e9, np.inf]), knots)
    np.testing.assert_array_equal(w, np.eye(7)[[0, 0, 6, 6]])


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
    other, own = copy.copy(transformer), transformer.embedder_.stacking.learned
    weights = np.zeros_like(own.weights)
    weights[..., own.names.index(member)] = 1.0
    bounds = replace(own.bounds, lowest=np.full(2, -np.inf), highest=np.full(2, np.inf))
    stacking = replace(own, weights=weights, bounds=bounds)
    other.embedder_ = replace(transformer.embedder_, stacking=stacking)
    return other


@pytest.fixture(scope="module", params=TRANSFORMERS)
def fitted(request):
    return TRANSFORMERS[request.param].fit(waves(12, 0))


def test_with_all_weight_on_one_it_is_that_forecast(fitted):
    panel = waves(3, 1)
    ends = [times[-1] for times, _ in panel]
    asked = [[end, end + 0.7, end + 5] for end in ends]
    found = all_weight_on(fitted, "last").forecast(panel, asked).values.reshape(3, 3, 2)
    for own, (_, values) in zip(found, panel, strict=True):
        expected = [x[~np.isnan(x)][-1] for x in values.T]
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
    with pytest.warns(UserWarning, match="may be a fault: it is far from others"):
        found = [model.forecast(far, ahead, combine=own).values for own in (False, True)]
    free, with_stacking = found
    assert (free < last - 20).all()  # the wall
    assert (np.abs(with_stacking - last) < 8).all()


def test_a_set_point_that_moved_is_forecast_as_it_is():
    """One series that was 0 and is 72; the last value is exact since, and nothing else is."""
    t = np.arange(45.0)
    panel, zeros = ([(t[:n], x)] for n, x in ((45, np.where(t < 20, 0.0, 72.0)), (30, 0 * t[:30])))
    model = PolyODETransformer(n_coefficients=4, hidden_layer_sizes=(4,), max_epochs=1)
    model.set_params(random_state=0)
    forecaster = PolyODEForecaster(model, random_state=0).pretrain(Panel.from_series(panel))
    for own in (model.fit(panel), forecaster):
        np.testing.assert_allclose(own.forecast(panel, [[46.0, 60.0]]).values, 72.0, atol=0.01)
        np.testing.assert_allclose(own.forecast(zeros, [[31.0, 35.0]]).values, 0.0, atol=0.01)


def test_a_run_that_is_no_number_is_not_answered(fitted):
    own = fitted.embedder_
    panel = waves(2, 1)
    broken = {"run": np.full((2, 2), np.nan)}
    ends = own.known(panel), np.arange(2), np.full(2, 99.0), no_inputs(2)
    found = own.stacking.combine(broken, *ends)
    assert np.isfinite(found).all()


def test_what_judges_the_ridge_has_no_part_in_it():
    model = PolyODETransformer(n_coefficients=3, hidden_layer_sizes=(4,), max_epochs=1)
    embedder = model.set_params(random_state=0).fit(waves(20, 0)).embedder_
    train, test = (observed_part(waves(n, seed)) for n, seed in ((20, 1), (60, 2)))
    other = test.like(test.times, test.values * np.cos(test.times)[:, None], test.offsets)
    one, two = (
        learn_stacking(embedder, train, tested, np.random.RandomState(0))[0]
        for tested in (test, other)
    )
    np.testing.assert_array_equal(one.each["ridge"].coefficients, two.each["ridge"].coefficients)
    assert (one.weights != two.weights).any()


def test_trends_of_the_mixed_model_end_after_the_longest_lead():
    t, slopes = np.arange(24.0), np.linspace(-1, 1, 12)
    panel = Panel.from_series([(t, 0.1 * a * t) for a in slopes])
    model = Clairvoyant.of(panel)
    own = learn_members(model, panel, np.random.RandomState(0), [()])[0]
    ends, longest = panel.offsets[1:] - 1, own.bounds.leads[-1]
    known = own.known_at(model.standardised(panel), ends)
    members = [forecasts(own, 0.0, known, *np.full(12, 23 + k * longest)) for k in (1, 3)]
    at_longest, later = (model.units.scaler.scale * found[:, 0, MIXED] for found in members)
    np.testing.assert_allclose(at_longest, 0.1 * slopes * (23 + longest), atol=0.02)
    np.testing.assert_allclose(later, at_longest, atol=0.02)
