"""Responses to inputs, against a solver of differential equations."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from skpolyode.embedders.encoders import InputEncoder
from skpolyode.panel import Inputs, Panel
from skpolyode.panel.units import ChannelScaler

KINDS = {"valve": "hold", "heat": "linear", "dose": "impulse"}
T = np.array([-2.0, -0.5, 0.3, 0.8, 1.1, 1.5, 2.5, 3.5])
ROWS = np.array(
    [
        [np.nan, np.nan, 1.0],
        [1.0, 0.4, np.nan],
        [np.nan, -0.5, np.nan],
        [np.nan, np.nan, 0.7],
        [-1.0, np.nan, np.nan],
        [np.nan, 0.9, -0.4],
        [0.3, np.nan, 0.9],
        [np.nan, -1.0, 2.0],
    ]
)
DECAYS = (0.5, 3.0)
ASKED = np.array([0.0, 0.3, 1.0, 1.5, 2.7, 6.0])


def knots_of(t=T, rows=ROWS, kinds=KINDS, unit=1.0, before=()):
    """Of the inputs in their own units, as one of some series."""
    names = sorted(kinds, key=list(KINDS).index)
    scaler = ChannelScaler(np.zeros(3), np.ones(3))
    encoder = InputEncoder(names, [KINDS[name] for name in names], scaler, DECAYS)
    inputs = Panel.from_series([*before, (t, rows)], channel_names=list(kinds), empty="keep")
    blank = Panel.from_series([([0.0], [0.0])] * inputs.n_series)
    panel = Panel(blank.times, blank.values, blank.offsets, inputs=Inputs(inputs, kinds))
    return encoder.knots(panel, np.zeros(inputs.n_series), unit)


def responses(asked=ASKED, decays=DECAYS, **options):
    return knots_of(**options).responses(asked, np.array([0, len(asked)]), decays)


def level(name, t):
    """Value of what holds or is linear, just after a time."""
    column = ROWS[:, list(KINDS).index(name)]
    known = ~np.isnan(column)
    at, values = T[known], column[known]
    if t < at[0]:
        return 0.0
    return (
        np.interp(t, at, values) if name == "heat" else values[np.searchsorted(at, t, "right") - 1]
    )


@pytest.mark.parametrize("name", list(KINDS))
@pytest.mark.parametrize("decay", DECAYS)
def test_they_solve_their_equations(name, decay):
    doses = np.nan_to_num(ROWS[:, 2])
    found = responses()[:, 2 * list(KINDS).index(name) + DECAYS.index(decay)]
    for when, own in zip(ASKED, found, strict=True):
        s, knots = 0.0, [*T[when >= T], when]
        for k, (start, end) in enumerate(pairwise(knots)):
            if name == "dose":
                s = (s + doses[k]) * np.exp(-(end - start) / decay)
                continue
            middle = (level(name, start), level(name, np.nextafter(end, start)))

            def slope(t, s, ends=middle, start=start, end=end):
                return (np.interp(t, [start, end], ends) - s) / decay

            if end > start:
                s = solve_ivp(slope, (start, end), [s], rtol=1e-9, atol=1e-11).y[0, -1]
        assert own == pytest.approx(s, abs=1e-7)


def test_values_of_levels_come_with_them():
    expected = [[level(name, t) for name in ("valve", "heat")] for t in ASKED]
    assert np.allclose(responses()[:, 6:], expected)


def test_the_first_row_of_a_series_changes_the_mean_whatever_the_series_before_ended_with():
    nothing = np.nan, np.nan
    one = [([0.2], [[0.7, *nothing]])]
    found = knots_of(
        np.array([0.5, 1.0, 2.0]), [[0.7, *nothing]] * 2 + [[0.0, *nothing]], before=one
    )
    assert found.changes.tolist() == [True, True, False, True]
    at_mean = knots_of(np.array([0.5, 1.0]), [[0.0, *nothing], [np.nan, np.nan, 0.0]], before=one)
    assert at_mean.changes.tolist() == [True, False, False]


def test_amounts_of_nothing_do_not_count_in_the_unit_of_impulses():
    """It is the root mean square of the others, and does not move with rows that hold no dose."""
    rows, scales = Panel.from_series([([0.0, 1.0, 2.0, 3.0], [3.0, 0.0, 4.0, 0.0])]), []
    for kind in ("impulse", "hold"):
        panel = Panel.from_series([([0.0], [0.0])], inputs=Inputs(rows, kind))
        scaler = InputEncoder.of_panel(panel).scaler
        scales.append((scaler.mean[0], scaler.scale[0]))
    assert scales[0] == pytest.approx((0.0, np.sqrt(12.5)))
    assert scales[1] == pytest.approx((1.75, np.std([3, 0, 4, 0])))


def test_later_inputs_say_nothing():
    # But the next point of a line.
    kept = T <= 1.5
    one, other = responses(), responses(t=T[kept], rows=ROWS[kept])
    before = ASKED <= 1.5
    assert np.array_equal(one[before], other[before])
    assert not np.allclose(one[~before], other[~before])


def test_units_order_and_other_series_do_not_matter():
    expected = responses()
    other = responses(ASKED / 60, tuple(tau / 60 for tau in DECAYS), unit=60.0)
    assert np.allclose(other, expected)
    turned = {name: KINDS[name] for name in ("dose", "valve", "heat")}
    assert np.array_equal(responses(kinds=turned, rows=ROWS[:, [2, 0, 1]]), expected)
    others = [([], np.empty((0, 3))), ([0.1, 9.0], [[1.0, 0.0, 2.0], [0.5, np.nan, 1.0]])]
    joint = knots_of(before=others).responses(np.tile(ASKED, 3), np.arange(4) * len(ASKED), DECAYS)
    assert np.allclose(joint[-len(ASKED) :], expected, atol=1e-14)
    assert not joint[: len(ASKED)].any()


def test_they_go_on_from_where_they_are_known():
    """What came before the time 0 may then be forgotten, but for what holds and lines."""
    known = responses(np.zeros(1))
    later = ~np.isnan(ROWS[:, 2]) & (T < 0)
    kept = knots_of(t=T[~later], rows=ROWS[~later])
    found = kept.responses(ASKED, np.array([0, len(ASKED)]), DECAYS, known)
    assert np.allclose(found, responses(), atol=1e-14)
    unknown = kept.responses(ASKED, np.array([0, len(ASKED)]), DECAYS, np.full_like(known, np.nan))
    assert np.array_equal(unknown, responses(t=T[~later], rows=ROWS[~later]))
