"""Inputs beside observations: read, checked and kept as the series themselves."""

from __future__ import annotations

import calendar
import datetime
import pickle

import numpy as np
import pandas as pd
import pytest

from skpolyode import Inputs, Panel
from skpolyode.panel import calendar_inputs
from skpolyode.panel.inputs import on_clock_of
from skpolyode.panel.select import cut_windows, keep_rows

HR = pd.DataFrame(
    {"id": ["ann", "ann", "bob", "bob"], "t": [0.0, 1.0, 0.5, 2.0], "hr": [61.0, 64.0, 70.0, 71.0]}
)
DOSES = pd.DataFrame({"id": ["bob", "bob"], "t": [-1.0, 1.5], "dose": [5.0, 6.0]})


def long(df=HR, inputs=DOSES, kinds="impulse", **options):
    return Panel.from_long(df, id="id", time="t", inputs=inputs, kinds=kinds, **options)


def rows(panel):
    """Rows of inputs of each series, as lists."""
    own = panel.inputs.panel
    return [
        (own.times[a:b].tolist(), own.values[a:b].tolist())
        for a, b in zip(own.offsets[:-1], own.offsets[1:], strict=True)
    ]


@pytest.fixture(scope="module")
def panel():
    return long()


def test_a_table_of_inputs_goes_to_the_series_of_its_ids(panel):
    assert rows(panel) == [([], []), ([-1.0, 1.5], [[5.0], [6.0]])]
    assert panel.inputs.names == ("dose",)
    assert panel.inputs.kinds == ("impulse",)


def test_ways_to_say_the_same(panel):
    doses = Panel.from_series(
        [([], []), ([-1.0, 1.5], [5.0, 6.0])], channel_names=["dose"], empty="keep"
    )
    own = Inputs(doses, ["impulse"])
    series = [([0.0, 1.0], [61.0, 64.0]), ([0.5, 2.0], [70.0, 71.0])]
    names = {"ids": ["ann", "bob"], "channel_names": ["hr"]}
    built = [
        Panel.from_series(series, inputs=own, **names),
        Panel(panel.times, panel.values, panel.offsets, inputs=own, **names),
        Panel.from_frames(panel.to_frames(), inputs=own, ids=["ann", "bob"]),
        long(inputs=DOSES.iloc[::-1], sort=True),
        long(inputs=own),
    ]
    assert all(other == panel for other in built)
    assert panel != long(kinds={"dose": "hold"})
    assert panel != long(inputs=None)


def test_ids_count_where_there_are_any_and_positions_where_there_are_none():
    given = [([0.0], [5.0]), ([1.0], [6.0])]
    readings = Panel.from_series([([0.0], [1.0]), ([0.5], [2.0])], ids=["ann", "bob"])

    def doses(ids, series=given):
        inputs = Panel.from_series(series, ids=ids, channel_names=["dose"])
        found = Panel(readings.times, readings.values, readings.offsets, inputs=inputs, ids=names)
        return [values for _, values in rows(found)]

    names = ["ann", "bob"]
    assert doses(None) == [[[5.0]], [[6.0]]]
    assert doses(["bob", "ann"]) == [[[6.0]], [[5.0]]]
    assert doses(["bob"], given[:1]) == [[], [[5.0]]]
    for ids, series in ((None, given[:1]), (["ann", "eve"], given), ([7, 8], given)):
        with pytest.raises(ValueError, match="inputs are those of no series"):
            doses(ids, series)


def test_selecting_and_joining_keep_inputs(panel):
    ann, bob = rows(panel)
    assert rows(panel[[1, 0, 1]]) == [bob, ann, bob]
    assert rows(panel[1:]) == rows(panel.select_ids("bob")) == [bob]
    assert rows(panel.select_channels("hr")) == [ann, bob]
    assert rows(Panel.concat([panel[1:], panel], ids=range(3))) == [bob, ann, bob]
    assert rows(keep_rows(panel, panel.times > 0.5)) == [ann, bob]
    assert rows(cut_windows(panel, 1, 0)) == [ann, ann, bob, bob]
    assert pickle.loads(pickle.dumps(panel)) == panel


def test_selecting_copies_no_rows(panel):
    assert panel[[1, 0, 1]].inputs.stored is panel.inputs.stored


def test_joining_refuses_other_inputs(panel):
    with pytest.raises(ValueError, match=r"panel 1 has the inputs None, panel 0 .*'impulse'"):
        Panel.concat([panel, long(inputs=None)], ids=range(4))


@pytest.mark.parametrize("kind", ["hold", "linear"])
def test_later_rows_are_added_and_replace_those_of_their_time(panel, kind):
    later = Panel.from_series([([2.0], [9.0]), ([1.5, 3.0], [8.0, 7.0])], channel_names=["dose"])
    found = Inputs(panel.inputs.panel, kind).updated(Inputs(later, kind))
    values = [own.values.ravel().tolist() for own in found.panel]
    assert found.panel.times.tolist() == [2.0, -1.0, 1.5, 3.0]
    assert values == [[9.0], [5.0, 8.0, 7.0]]
    assert rows(panel)[1] == ([-1.0, 1.5], [[5.0], [6.0]])


@pytest.mark.parametrize("start", [0.0, pd.Timestamp("2026-10-25", tz="Europe/Berlin")])
def test_two_doses_of_one_moment_do_not_replace_each_other(start):
    def doses(*amounts):
        times = [start + (pd.Timedelta(k, "h") if start else k) for k in range(len(amounts))]
        rows = Panel.from_series([([], []), (times, amounts)], channel_names=["dose"], empty="keep")
        return Inputs(rows, "impulse")

    message = r"""series 1, channel 'dose', time .* has two amounts, 100 and {:g}: .*"sum\""""
    for later in (30.0, 0.0):
        with pytest.raises(ValueError, match=message.format(later)):
            doses(100.0, 0.0).updated(doses(later))
    assert doses(100.0).updated(doses(100.0, 5.0)).equals(doses(100.0, 5.0))  # the same again
    both = doses(100.0, 0.0).updated(doses(np.nan, 30.0))  # no dose, then one
    assert both.panel.values.ravel().tolist() == [100.0, 30.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dose": [5.0, np.inf]}, "inputs: .* must not be infinity"),
        ({"t": [1.5, 1.5]}, "inputs: .* has the same time"),
        ({"t": [1.5, -1.0]}, "inputs: .* times must increase"),
        ({"id": ["bob", "eve"]}, r"ids of inputs are those of no series \('eve'\)"),
        ({"dose": ["5", "many"]}, "inputs: column 'dose' holds text"),
        ({"t": [np.nan, 1.0]}, "inputs: .*must be finite"),
    ],
)
def test_faults_are_told_as_those_of_observations(change, message):
    with pytest.raises(ValueError, match=message):
        long(inputs=DOSES.assign(**change))


def test_inputs_are_shown_with_their_kinds():
    inputs = Inputs(Panel.from_series([([0.0, 6.5], [100.0, 50.0])], channel_names=["dose"]))
    shown = "2 observations, 100% of cells observed, times 0 to 6.5"
    assert repr(inputs) == f"Inputs(Panel(1 series, 1 channel, {shown}), {{'dose': 'hold'}})"


def test_kinds_that_cannot_be():
    with pytest.raises(ValueError, match=r"kinds names \['insulin'\]"):
        long(kinds={"insulin": "hold"})
    with pytest.raises(ValueError, match=r"one of \('hold', 'linear', 'impulse'\), got 'step'"):
        long(kinds="step")
    with pytest.raises(ValueError, match=r"one of \('hold', 'linear', 'impulse'\), got None"):
        Inputs(Panel.from_series([([0.0], [1.0])]), None)
    with pytest.raises(TypeError, match=r"made of a Panel, such as Panel.from_series.*'list'"):
        Inputs([([0.0], [1.0])], "impulse")
    with pytest.raises(TypeError, match=r"inputs must be Inputs\(panel, kinds\)"):
        Panel.from_series([([0.0], [1.0])], inputs=[([0.0], [1.0])])


def test_inputs_are_on_the_clock_of_their_series():
    start = pd.Timestamp("2024-03-31", tz="Europe/Berlin")
    minutes = pd.to_timedelta(HR["t"], unit="h")
    table, doses = (
        HR.assign(t=start + minutes),
        DOSES.assign(t=start + pd.to_timedelta([-1, 1.5], "h")),
    )
    panel = long(table, doses, time_unit="h")
    assert str(panel.inputs.panel.user_times()[0]) == str(start - pd.Timedelta("1h"))
    # Differences are exact, and count from the first row of each series.
    assert on_clock_of(panel.since_start()).panel.times.tolist() == [-1.5, 1.0]
    with pytest.raises(ValueError, match=r"in 's', of the time zone Europe/Berlin, .* plain"):
        long(table, Inputs(Panel.from_long(DOSES, id="id", time="t"), "impulse"))
    naive = doses.assign(t=doses["t"].dt.tz_localize(None))
    with pytest.raises(ValueError, match="both or none a time zone"):
        long(table, naive, time_unit="h")


def test_a_table_of_no_inputs_and_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    from skpolyode.parquet import sample_dataset

    none = long(inputs=DOSES.iloc[:0])
    assert rows(none) == [([], []), ([], [])]
    assert none.inputs.names == ("dose",)
    HR.to_parquet(tmp_path / "hr.parquet")
    options = {"inputs": DOSES, "kinds": "impulse"}
    found = sample_dataset(tmp_path / "hr.parquet", id="id", time="t", n_rows=10, **options)
    assert found == long()


def test_inputs_without_ids_belong_to_the_series_in_the_same_position():
    """Also where the ids of the series are whole numbers in another order."""
    series = [([0.0, 1.0], [float(k), 0.0]) for k in range(5)]
    doses = Inputs(Panel.from_series([([2.0], [10.0 * k]) for k in range(5)]), "impulse")
    order = [4, 3, 1, 2, 0]
    found = Panel.from_series(series, ids=order, inputs=doses)
    assert rows(found) == [([2.0], [[10.0 * k]]) for k in range(5)]
    labelled = Inputs(doses.panel[order], "impulse")  # what a selection leaves are labels
    assert rows(Panel.from_series(series, ids=order, inputs=labelled)) == [
        ([2.0], [[10.0 * k]]) for k in order
    ]
    # Of a table, ids are labels, even if they are 0, 1, ... in this order.
    table = doses.panel.to_long()
    assert table["id"].tolist() == list(range(5))
    known = Inputs(Panel.from_long(table, id="id", time="time"), "impulse")
    assert rows(Panel.from_series(series, ids=order, inputs=known)) == [
        ([2.0], [[10.0 * k]]) for k in order
    ]


def test_inputs_take_the_place_of_others(panel):
    doses = Inputs(Panel.from_series([([0.5], [1.0])], ids=[panel.ids[0]], channel_names=["dose"]))
    given = panel.with_inputs(doses)
    assert given.inputs.names == ("dose",)
    assert given.inputs.panel.lengths.tolist() == [1] + [0] * (panel.n_series - 1)
    assert given.with_inputs(panel.inputs).equals(panel)
    assert panel.with_inputs(None).inputs is None
    strange = Inputs(Panel.from_series([([0.5], [1.0])], ids=["strange"], channel_names=["dose"]))
    with pytest.raises(ValueError, match="inputs: 1 ids of inputs are those of no series"):
        panel.with_inputs(strange)


def test_inputs_of_two_kinds_stand_side_by_side(panel):
    meals = Panel.from_series([([1.5, 3.0], [7.0, 8.0])], ids=["bob"], channel_names=["meal"])
    both = panel.with_inputs(panel.inputs, Inputs(meals, "hold"))
    assert both.inputs.names == ("dose", "meal")
    assert both.inputs.kinds == ("impulse", "hold")
    times, values = rows(both)[1]
    assert rows(both)[0] == ([], [])
    assert times == [-1.0, 1.5, 3.0]
    np.testing.assert_array_equal(values, [[5.0, np.nan], [6.0, 7.0], [np.nan, 8.0]])
    swapped = panel.with_inputs(Inputs(meals, "hold"), panel.inputs)
    assert swapped.inputs.select(both.inputs.names).equals(both.inputs)
    dinner = Panel.from_series([([], []), ([3.0], [9.0])], channel_names=["meal"], empty="keep")
    later = both.inputs.updated(Inputs(dinner, "hold"))
    assert (later.names, later.kinds) == (both.inputs.names, both.inputs.kinds)
    np.testing.assert_array_equal(later.panel.values[:, 1], [np.nan, 7.0, 9.0])
    np.testing.assert_array_equal(later.panel.values[:, 0], both.inputs.panel.values[:, 0])
    with pytest.raises(ValueError, match=r"two inputs have the channels \['dose'\]"):
        panel.with_inputs(panel.inputs, panel.inputs)


def days_of(panel, **options):
    """What the calendar says at the start of each day, by weekday or holiday."""
    table = calendar_inputs(panel, **options).panel.to_long()
    return table["time"].tolist(), table.drop(columns=["id", "time"])


@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "America/Havana", "America/Sao_Paulo"])
@pytest.mark.parametrize("start", ["2018-10-26 23:30", "2018-11-02 00:00", "2018-03-08 12:00"])
def test_a_calendar_knows_the_days_of_the_time_zone(zone, start):
    first = pd.Timestamp(start, tz=zone)
    times = first + pd.to_timedelta([0, 100, 200], "h")
    panel = Panel.from_series([(times, [1.0, 2.0, 3.0])], time_unit="D")
    found, days = days_of(panel, ahead="3D", holidays=["2018-11-04", "2018-03-11"])
    assert found[0] <= first < found[1]
    assert found[-1] <= times[-1] + pd.Timedelta("3D") < found[-1] + pd.Timedelta("25h")
    dates = [time.date() for time in found]
    assert dates == [dates[0] + pd.Timedelta(days=k) for k in range(len(dates))]
    names = [time.day_name().lower() for time in found]
    assert days[[name.lower() for name in calendar.day_name]].idxmax(axis=1).tolist() == names
    assert (days.drop(columns="holiday").sum(axis=1) == 1).all()
    off = [date.isoformat() in ("2018-11-04", "2018-03-11") for date in dates]
    assert (days["holiday"] == off).all()
    assert panel.with_inputs(calendar_inputs(panel)).inputs.kinds == ("hold",) * 7


def test_calendars_of_series_without_rows_and_of_numbers():
    hours = pd.date_range("2026-12-24", periods=2, freq="h")
    panel = Panel.from_series([([], []), (hours, [1.0, 2.0])], ids=["a", "b"], empty="keep")
    own = calendar_inputs(panel, ahead="1D", holidays={datetime.date(2026, 12, 25): "Christmas"})
    assert own.panel.lengths.tolist() == [0, 2]
    assert own.panel.ids.tolist() == ["a", "b"]
    assert own.panel.values[:, -1].tolist() == [0.0, 1.0]
    panel = Panel.from_series([(hours, [1.0, 2.0])], time_unit="h")
    assert calendar_inputs(panel, ahead=48).panel.equals(calendar_inputs(panel, ahead="2D").panel)
    for ahead in ("-3D", "soon", 0):
        with pytest.raises(ValueError, match=f"ahead must be a positive length.*got '?{ahead}"):
            calendar_inputs(panel, ahead=ahead)
    with pytest.raises(ValueError, match=r"holidays: text must be dates.*got 'Christmas'"):
        calendar_inputs(panel, holidays=["Christmas"])
    with pytest.raises(TypeError, match="plain numbers as times, which have no days of the week"):
        calendar_inputs(Panel.from_series([([0.0, 1.0], [1.0, 2.0])]))


def holidays_of(panel, holidays):
    inputs = calendar_inputs(panel, holidays=holidays, ahead="1D").panel
    table = inputs.to_long()
    return table["time"][table["holiday"] == 1].dt.strftime("%m-%d").tolist()


def test_a_holiday_is_a_day_of_the_panel():
    hours = pd.date_range("2026-12-24 18:00", periods=3, freq="12h", tz="America/New_York")
    panel = Panel.from_series([(hours, [5.0, 1.0, 2.0])])
    named = pd.Series(["Christmas"], index=pd.DatetimeIndex(["2026-12-25"]))
    there = pd.DatetimeIndex(["2026-12-25"], tz="America/New_York")
    for holidays in (["2026-12-25"], named, {"2026-12-25": "Christmas"}, there):
        assert holidays_of(panel, holidays) == ["12-25"]
    with pytest.raises(ValueError, match=r"time zone UTC .* give dates without a time zone"):
        holidays_of(panel, pd.DatetimeIndex(["2026-12-25"], tz="UTC"))
    with pytest.raises(ValueError, match="position 1 is missing: leave it out"):
        holidays_of(panel, ["2026-12-25", pd.NaT])


def test_a_day_that_was_not_has_no_row():
    """Samoa went from 29 to 31 December 2011 over night."""
    hours = pd.date_range("2011-12-29 18:00", periods=4, freq="12h", tz="Pacific/Apia")
    panel = Panel.from_series([(hours, [5.0, 1.0, 2.0, 3.0])])
    days = calendar_inputs(panel, holidays=["2011-12-31"], ahead="1D").panel.user_times()
    assert [f"{day:%m-%d}" for day in days] == ["12-29", "12-31", "01-01", "01-02"]
    assert holidays_of(panel, ["2011-12-31"]) == ["12-31"]
    with pytest.raises(ValueError, match="2011-12-30 was no day in Pacific/Apia"):
        holidays_of(panel, ["2011-12-30"])


def test_doses_of_one_moment_add_up():
    """However readings of one moment are merged: 100 and 50 are 150, not 75."""
    rows = {"who": ["a", "a", "a"], "hour": [1.0, 1.0, 2.0]}
    names = {"id": "who", "time": "hour"}
    readings = pd.DataFrame({**rows, "level": [2.0, 4.0, 5.0]})
    doses = pd.DataFrame({**rows, "dose": [100.0, 50.0, 25.0]})
    message = r"""(?s)same time.*"sum" to add up amounts such as doses"""
    with pytest.raises(ValueError, match=message):
        Panel.from_long(readings, **names, inputs=doses, kinds="impulse", duplicates="mean")
    amounts = Inputs(Panel.from_long(doses, **names, duplicates="sum"), kinds="impulse")
    panel = Panel.from_long(readings, **names, inputs=amounts, duplicates="mean")
    assert panel.values.ravel().tolist() == [3.0, 5.0]
    assert panel.inputs.panel.values.ravel().tolist() == [150.0, 25.0]
