"""Who is held out: no row serves training and validation both."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skpolyode import Panel, PolyODETransformer
from skpolyode.embedders.fitting import hold_out, with_validation
from skpolyode.transformers import stages
from tests.quick import until_training


def series(lengths: list[int]) -> Panel:
    """The value of a row is a name of its own."""
    times = [np.arange(n, dtype=np.float64) for n in lengths]
    return Panel.from_series([(t, t + 1e4 * k) for k, t in enumerate(times)])


def split(lengths, fraction=0.2, longest=32, seed=0):
    """Values that train, and those that validate."""
    random_state = np.random.RandomState(seed)
    panel, held_out = hold_out(series(lengths), fraction, random_state, longest)
    rows = np.repeat(held_out, panel.lengths)
    return panel.values[~rows, 0], panel.values[rows, 0]


def test_whole_series_are_drawn():
    panel, held_out = hold_out(series([9] * 20), 0.2, np.random.RandomState(0), 32)
    assert panel.equals(series([9] * 20))
    assert held_out.sum() == 4
    other = hold_out(series([9] * 20), 0.2, np.random.RandomState(1), 32)[1]
    assert (held_out != other).any()


@pytest.mark.parametrize("seed", range(8))
def test_a_series_of_one_row_validates_nothing_and_is_not_drawn(seed):
    panel, held_out = hold_out(
        series([1, 9, 1, 9, 9, 1, 9, 9]), 0.5, np.random.RandomState(seed), 9
    )
    assert held_out.sum() == 2
    assert (panel.lengths[held_out] == 9).all()


@pytest.mark.parametrize("fraction", [0.01, 0.2, 0.5, 0.99])
@pytest.mark.parametrize("seed", range(4))
def test_groups_are_held_out_as_a_whole(fraction, seed):
    groups = np.array(["a", "b", "b", "c", "d", "c", "b", "e", "c", "only one row"])
    panel = series([9] * 9 + [1])
    whole, held_out = hold_out(panel, fraction, np.random.RandomState(seed), 32, groups)
    assert whole.equals(panel)
    assert not set(groups[held_out]) & set(groups[~held_out])
    assert held_out[:9].any()
    assert not held_out[:9].all()
    assert not held_out[9]  # it could not validate
    if fraction == 0.5:  # one group more or less is at most three of nine series
        assert 3 <= held_out.sum() <= 6


def test_few_series_of_two_groups_are_enough():
    held_out = hold_out(series([9, 9]), 0.1, np.random.RandomState(0), 4, np.array([5, 7]))[1]
    assert held_out.sum() == 1
    unused = hold_out(series([9, 9]), None, np.random.RandomState(0), 4, np.array([5, 5]))[1]
    assert not unused.any()


def test_one_group_cannot_be_split():
    with pytest.raises(ValueError, match="1 of 2 has observations to forecast: give two groups"):
        hold_out(series([9, 1, 9]), 0.1, np.random.RandomState(0), 4, np.array([5, 7, 5]))


@pytest.mark.parametrize("fraction", [0.01, 0.2, 0.6, 0.99])
@pytest.mark.parametrize("lengths", [[48], [47, 400], [50, 30, 60, 48]])
def test_few_long_series_give_their_ends(lengths, fraction):
    training, validating = split(lengths, fraction)
    assert len(validating) >= 2
    for k, n in enumerate(lengths):
        own = [values[values // 1e4 == k] % 1e4 for values in (training, validating)]
        if n < 48:
            assert len(own[0]) == n
            assert len(own[1]) == 0
        else:
            assert own[1].tolist() == list(range(n - len(own[1]), n))
            assert own[0].tolist() == list(range(n - len(own[1]) - 4))
            assert len(own[0]) >= 16
            if fraction == 0.2:
                assert len(own[1]) == round(0.2 * n)


@pytest.mark.parametrize("lengths", [[47], [9, 9, 9, 9], [1] * 9])
def test_short_series_are_too_few(lengths):
    training, validating = split(lengths)
    assert len(validating) == 0
    assert len(training) == sum(lengths)


def test_none_holds_out_nothing():
    assert len(split([99] * 9, fraction=None)[1]) == 0


@pytest.mark.parametrize("lengths", [[500], [500, 600], [400] * 5])
def test_no_validation_row_is_trained_on_and_none_is_measured(lengths, monkeypatch):
    """Neither weights nor scales learn from what validates, however series are cut."""
    found, make_task = [], stages.make_task

    def spied(new_task, embedder, split, *rest):
        task = make_task(new_task, embedder, split, *rest)
        found.append((task.data, split.held_out, embedder.units.scaler))
        return task

    monkeypatch.setattr(stages, "make_task", spied)
    with until_training():
        PolyODETransformer(n_coefficients=3, random_state=0).fit(series(lengths))
    ((data, held_out, scaler),) = found
    values = scaler.inverse(data.x.double().numpy())[:, 0].round().astype(int)
    rows = held_out[data.series.numpy()]
    training, validating = set(values[~rows]), set(values[rows])
    assert training
    assert validating
    assert not training & validating
    assert (~held_out).sum() > len(lengths)  # they are cut
    assert scaler.mean[0] == pytest.approx(np.mean(sorted(training)), rel=1e-6)
    assert scaler.scale[0] == pytest.approx(np.std(sorted(training)), rel=1e-6)


def test_units_do_not_depend_on_what_is_held_out():
    rng = np.random.default_rng(0)
    times = [np.sort(rng.uniform(0, 5, 12)) for _ in range(10)]
    panel = Panel.from_series([(t, np.sin(t)) for t in times])
    (drawn,) = np.flatnonzero(hold_out(panel, 0.1, _after_one_draw(), 256)[1])
    pairs = [(s.times, s.values) for s in panel]
    pairs[drawn] = (3 * times[drawn], 1e3 * pairs[drawn][1])
    other = Panel.from_series(pairs)
    first, second = (
        PolyODETransformer(n_coefficients=3, max_epochs=1, random_state=0).fit(X)
        for X in (panel, other)
    )
    assert first.scaler_.scale == second.scaler_.scale
    assert (first.time_scale_, first.window_) == (second.time_scale_, second.window_)
    assert first.step_size_ == second.step_size_


def _after_one_draw() -> np.random.RandomState:
    state = np.random.RandomState(0)
    state.randint(2**31)  # the seed of the weights
    return state


def test_series_that_validate_may_have_a_time_zone_of_their_own():
    days = pd.date_range("2026-03-28", periods=4, freq="D", tz="UTC")
    panels = [
        Panel.from_frames([pd.DataFrame({"x": range(4)}, index=own)]).since_start()
        for own in (days, days.tz_convert("Europe/Berlin") + pd.Timedelta("1h"))
    ]
    joint = with_validation(panels[0], panels[1], groups=None)
    assert joint.held_out.tolist() == [False, True]
    np.testing.assert_array_equal(joint.panel.elapsed, [*panels[0].elapsed, *panels[1].elapsed])
