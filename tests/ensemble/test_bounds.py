"""Bounds of forecasts, by numbers made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode.ensemble.member import Records
from skpolyode.ensemble.members import Bounds
from tests.ensemble.cases import rows_of

OWN = Bounds(
    lowest=np.array([-2.0]),
    highest=np.array([3.0]),
    common_lowest=np.array([-1.0]),
    common_highest=np.array([2.0]),
    leads=np.array([0.0, 1.0, 4.0]),
    reach=np.array([[0.0, 1.0, 2.0]]),
)


def after(*values: float) -> Records:
    """Of one series with these values, one at each time step."""
    n = len(values)
    times, rows = np.arange(float(n)), np.array(values)[:, None]
    return Records.of(Records.known_at(rows_of(times, rows, np.array([0, n])), np.array([n - 1])))


def one(value: float):
    """A series of one row."""
    return rows_of(np.zeros(1), np.array([[value]]), np.array([0, 1]))


def ends(records: Records, lead: float) -> list[float]:
    """Where the farthest forecasts are clipped to."""
    asked = np.array([[[-1e9, 0.1, 1e9]]])
    found = OWN.clip(asked, records, np.array([[lead]]))[0, 0]
    assert found[1] == 0.1
    return [found[0], found[2]]


@pytest.mark.parametrize(
    ("values", "lead", "expected"),
    [
        ((0.0,), 1.0, [-2.0, 3.0]),  # the range of training
        ((0.0, 5.0, -7.0, 0.0), 1.0, [-7.0, 5.0]),  # that of the series itself
        ((2.9,), 1.0, [-2.0, 3.9]),  # the last value and the change over the lead
        ((2.9,), 2.5, [-2.0, 4.4]),  # linear between the leads
        ((2.9,), 99.0, [-2.0, 4.9]),  # held beyond
        ((2.9,), 0.0, [-2.0, 3.0]),
        ((-2.0,), 4.0, [-4.0, 3.0]),
        ((9.0,), 4.0, [-2.0, 11.0]),  # outside the range of training as well
        ((9.0, 0.0), 4.0, [-2.0, 9.0]),
        ((0.0, 3.0, 6.0, 9.0), 2.0, [-2.0, 18.0]),  # what rose goes on, up to 1.5 times as fast
        ((0.0, 3.0, 6.0, 9.0), 99.0, [-2.0, 22.5]),  # for as long as it has risen
        ((0.0, -3.0, -6.0), 1.0, [-10.5, 3.0]),
        ((0.0, 3.0, 4.0, 9.0), 3.0, [-2.0, 19.5]),  # less so what rose unevenly
        ((0.0, 8.0, -8.0, 0.0), 2.0, [-8.0, 8.0]),  # what came back has not risen
        ((9.0, 0.0, 0.0, 0.0), 1.0, [-2.0, 9.0]),  # nor what jumped
    ],
)
def test_forecasts_stay_in_the_widest_range(values, lead, expected):
    assert ends(after(*values), lead) == pytest.approx(expected)


def test_what_was_never_observed_stays_in_the_range_of_training():
    assert ends(Records.of(Records.start(1, 1)), 4.0) == [-2.0, 3.0]


def test_the_distances_from_the_ranges_of_training():
    found = np.concatenate([OWN.outside(after(x)) for x in (-2.5, -1.5, 0.0, 2.0, 7.0)], axis=1)
    np.testing.assert_allclose(found[..., 0], [[0.5, 0, 0, 0, 4.0], [1.5, 0.5, 0, 0, 5.0]])
    assert not np.any(OWN.outside(after(7.0, 1.0)))  # only the last value counts
    assert not np.any(OWN.outside(Records.of(Records.start(1, 1))))


def test_ranges_and_changes_of_training_are_learned():
    values = np.array([[1.0, np.nan], [-4.0, np.nan], [np.nan, np.nan], [2.0, np.nan]])
    leads = np.repeat(np.geomspace(1.0, 128.0, 8), 1000)[:, None]
    changes = np.random.default_rng(0).uniform(-1, 1, leads.shape) * np.sqrt(leads)
    both = np.hstack([changes, np.full_like(changes, np.nan)])
    rows = rows_of(np.arange(4.0), values, np.array([0, 4]))
    own = Bounds.learn(rows, np.hstack([leads, leads]), both)
    assert own.lowest.tolist() == [-4.0, 0.0]
    assert own.highest.tolist() == [2.0, 0.0]
    assert own.leads[[0, -1]].tolist() == [0.0, pytest.approx(128.0)]
    ends = [1.0, 8.0, 128.0]  # 1.5 times nearly the largest change up to these leads
    found = np.interp(ends, own.leads, own.reach[0])
    np.testing.assert_allclose(found[1:], 1.5 * 0.99 * np.sqrt(ends[1:]), rtol=0.05)
    assert (np.diff(own.reach[0]) >= 0).all()
    assert not own.reach[1].any()


@pytest.mark.parametrize(
    ("n_series", "place"), [(1, 0), (9, 0), (10, 1), (19, 1), (20, 2), (50, 2)]
)
def test_the_common_range_is_what_several_series_have_reached(n_series, place):
    # Series k goes from -2 k to k, in two rows; the second channel is seen in one series alone.
    k = np.arange(1.0, n_series + 1)
    values = np.stack(
        [np.stack([-2 * k, k], axis=1).ravel(), np.full(2 * n_series, np.nan)], axis=1
    )
    values[0, 1] = 7.0
    offsets = 2 * np.arange(n_series + 1)
    rows = rows_of(np.tile([0.0, 1.0], n_series), values, offsets)
    own = Bounds.learn(rows, np.empty((0, 2)), np.empty((0, 2)))
    assert own.highest.tolist() == [n_series, 7.0]
    assert own.lowest.tolist() == [-2 * n_series, 7.0]
    assert own.common_highest.tolist() == [n_series - place, 7.0]
    assert own.common_lowest.tolist() == [-2 * (n_series - place), 7.0]


def test_one_huge_change_of_many_does_not_widen_the_reach():
    rng = np.random.default_rng(0)
    leads, changes = np.full((2000, 1), 1.0), rng.uniform(-1, 1, (2000, 1))
    leads[::2] = 2.0
    calm = Bounds.learn(one(0.0), leads, changes)
    changes[7] = 1e6
    np.testing.assert_allclose(Bounds.learn(one(0.0), leads, changes).reach, calm.reach, rtol=0.02)


def test_without_any_change_the_last_value_has_no_reach():
    own = Bounds.learn(one(1.0), np.full((3, 1), np.inf), np.ones((3, 1)))
    found = own.clip(np.full((1, 1), 9.0), after(1.0), np.ones((1, 1)))
    assert found[0, 0] == 1.0
    none = rows_of(np.empty(0), np.empty((0, 1)), np.array([0]))
    nothing = Bounds.learn(none, np.empty((0, 1)), np.empty((0, 1)))
    assert nothing.clip(np.full((1, 1), 9.0), after(5.0), np.ones((1, 1)))[0, 0] == 5.0
