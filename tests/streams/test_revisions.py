"""Late, corrected and retracted observations: the state is what it would have been."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import skpolyode
from skpolyode import HiPPOTransformer, Panel
from skpolyode.streams import merge
from skpolyode.streams.revisions import check_kept
from tests.streams.cases import VARIANTS, assert_same_answers, fitted, snapshot
from tests.transformers.data import short_oscillators, small

MORE = 1000  # rows: all of them


def rows_of(series):
    return [dict(zip(t.tolist(), x, strict=True)) for t, x in series]


def panel_of(tables):
    pairs = [sorted(table.items()) for table in tables]
    return [(np.array([t for t, _ in own]), np.array([x for _, x in own])) for own in pairs]


@pytest.mark.parametrize("name", VARIANTS)
@given(seed=st.integers(0, 2**32 - 1), acts=st.lists(st.integers(0, 3), max_size=8))
@settings(max_examples=3)
def test_any_revisions_give_the_batch_result_of_the_revised_series(name, seed, acts):
    rng, series = np.random.default_rng(seed), short_oscillators(2, seed=seed)
    stream, tables = fitted(name).stream(series, keep=MORE), rows_of(series)
    for act in acts:
        k = int(rng.integers(2))
        known = sorted(tables[k])
        some, new = known[rng.integers(len(known))], rng.normal(size=2)
        if act == 0:
            later = known[-1] + rng.uniform(0.1, 0.5)
            stream.update(later, new, k)
            tables[k][later] = new
        elif act == 1:
            at = rng.uniform(0.001, known[-1])
            stream.insert(k, at, new)
            tables[k][at] = new
        elif act == 2:
            right = np.where(np.isnan(tables[k][some]), np.nan, new)
            stream.correct(k, some, right)
            tables[k][some] = right
        elif len(known) > 2:
            stream.retract(k, some)
            del tables[k][some]
    assert_same_answers(stream, fitted(name), panel_of(tables), atol=1e-9)


def test_rows_that_are_replayed_give_the_same_bits():
    transformer, ((times, values),) = fitted("polyode"), short_oscillators(1, seed=3)
    late, right = (transformer.stream(keep=4) for _ in range(2))
    for k in range(len(times)):
        right.update(times[k], values[k])
        if k != len(times) - 2:
            late.update(times[k], values[k] + (k == len(times) - 1))
    late.insert(0, times[-2], values[-2]).correct(0, times[-1], values[-1])
    assert_array_equal(late.embedding(), right.embedding())


@pytest.mark.parametrize("keep", [3, 1.5])
@pytest.mark.parametrize("name", ["polyode", "hippo"])
def test_what_is_kept_bounds_memory_and_revisions(name, keep):
    times, rng = np.arange(0.5, 40.0, 0.5), np.random.default_rng(0)
    values = rng.normal(size=(len(times), 2))
    stream = fitted(name).stream(keep=keep)
    for k in range(len(times)):
        stream.update(times[k], values[k])
        assert len(stream._rows_of(0).times) <= 4
    whole = fitted(name).stream([(times, values)], keep=keep)
    assert_array_equal(whole._rows_of(0).times, stream._rows_of(0).times)
    before = snapshot(stream)
    for act in (
        lambda: stream.insert(0, 1.2, [0.0, 0.0]),
        lambda: stream.correct(0, 1.0, [0.0, 0.0]),
        lambda: stream.retract(0, 1.0),
    ):
        with pytest.raises(ValueError, match=r"series 0.*only what comes after .* is kept.*keep"):
            act()
    assert snapshot(stream) == before
    for one in (stream, whole):
        one.retract(0, times[-2])
        rest = np.delete(np.arange(len(times)), -2)
        assert_same_answers(one, fitted(name), [(times[rest], values[rest])], atol=1e-9)


def test_values_that_are_there_or_not_are_named_and_nothing_changes():
    series = [(np.array([0.0, 1.0, 2.0]), np.array([[1.0, 2.0], [3.0, np.nan], [0.0, 1.0]]))]
    stream = fitted("hippo").stream(series, keep=MORE)
    before = snapshot(stream)
    for act, match in [
        (lambda: stream.insert(0, 1.0, [5.0, 1.0]), r"time 1: it has a value.*by correct"),
        (lambda: stream.correct(0, 1.0, [np.nan, 1.0]), "time 1: x1 not observed.*by insert"),
        (lambda: stream.correct(0, 1.5, [1.0, 1.0]), r"time 1\.5: there is no row.*by insert"),
        (lambda: stream.retract(0, 1.5), r"retract: series 0.*time 1\.5: there is no row"),
        (lambda: stream.retract(0, 1.0, "x1"), "time 1: x1 not observed then"),
        (lambda: stream.retract(0, 1.0, "x7"), r"no channel 'x7'"),
        (lambda: stream.insert(0, np.inf, [1.0, 1.0]), r"inf"),
        (lambda: stream.retract(3, 1.0), r"from 0 to 0"),
    ]:
        with pytest.raises(ValueError, match=match):
            act()
    assert snapshot(stream) == before
    stream.insert(0, 1.0, {"x1": 7.0} if stream._panel.has_channel_names else [np.nan, 7.0])
    series[0][1][1, 1] = 7.0
    assert_same_answers(stream, fitted("hippo"), series)
    stream.retract(0, 2.0, "x0")
    series[0][1][2, 0] = np.nan
    assert_same_answers(stream, fitted("hippo"), series)
    stream.retract(0, 2.0)  # a row of which a channel was not observed
    assert_same_answers(stream, fitted("hippo"), [tuple(column[:2] for column in series[0])])


def with_datetimes(hours):
    return pd.Timestamp("2026-01-02", tz="UTC") + pd.to_timedelta(hours, "h")


@pytest.fixture(scope="module", params=["numbers", "datetimes"])
def followed(request):
    """A transformer that ignores outliers, two whole series, and their times as users have them."""
    rng, hours = np.random.default_rng(0), np.arange(8.0)
    clock = with_datetimes(hours) if request.param == "datetimes" else hours
    values = [rng.normal(size=(8, 2)) for _ in range(2)]
    frames = [pd.DataFrame(x, index=clock, columns=["a", "b"]) for x in values]
    return small(max_epochs=1).fit(Panel.from_frames(frames)), clock, frames


@pytest.mark.parametrize("right", [[1e6, 1e6], [1e6, 0.5]], ids=["row", "cell"])
@pytest.mark.parametrize("restored", [False, True])
def test_a_value_far_from_all_others_does_not_leave_the_old_one(followed, right, restored):
    transformer, clock, frames = followed
    panel = Panel.from_frames(frames)
    stream = transformer.stream(panel, keep=5)
    stream = pickle.loads(pickle.dumps(stream)) if restored else stream
    rows = np.array([[0.3, 0.4], right])
    with pytest.warns(UserWarning, match=r"(?s)^correct.*'a', time .*5.*1e\+06 is far from"):
        stream.correct(0, clock[4:6], rows)
    revised = frames[0].copy()
    revised.iloc[4:6] = np.where(rows == 1e6, np.nan, rows)
    wanted = Panel.from_frames([revised, frames[1]])
    assert_allclose(stream.embedding(), transformer.transform(wanted), rtol=0, atol=1e-10)
    last = stream.last_times
    with pytest.warns(UserWarning, match="(?s)^insert.*1e.06 is far from"):
        stream.insert(1, clock[5:6] + (clock[1] - clock[0]) / 2, [[1e6, 1e6]])
    assert_allclose(stream.embedding(), transformer.transform(wanted), rtol=0, atol=1e-10)
    assert_array_equal(stream.last_times, last)


@pytest.mark.parametrize("name", ["polyode", "hippo"])
def test_revisions_of_nothing_change_nothing(name):
    series = short_oscillators(2, seed=4)
    stream, (times, _) = fitted(name).stream(series, keep=MORE), series[0]
    before, nothing = stream.embedding(), np.empty((0, 2))
    unknown = [np.nan, np.nan]
    for act in (
        lambda: stream.update([], []),
        lambda: stream.update([], nothing, []),
        lambda: stream.insert([], [], []),
        lambda: stream.insert(0, [], nothing),
        lambda: stream.insert(0, times[1] + 1e-3, unknown),
        lambda: stream.correct([], [], nothing),
        lambda: stream.correct(0, times[1], unknown),
        lambda: stream.retract([], []),
        lambda: stream.retract(0, []),
        lambda: stream.retract(0, times[1], []),
    ):
        act()
        assert_array_equal(stream.embedding(), before)
    with pytest.raises(ValueError, match="1 times for 0 rows"):
        stream.insert(0, [1.0], nothing)


def test_a_revision_of_which_a_part_is_wrong_changes_nothing(followed):
    transformer, clock, frames = followed
    stream = transformer.stream(Panel.from_frames(frames), keep=4)
    before, ones = snapshot(stream), np.ones((2, 2))
    between = clock[6] + (clock[1] - clock[0]) / 2
    for act, match in (
        (lambda: stream.correct(0, clock[[2, 5]], ones), "only what comes after"),
        (lambda: stream.correct([0, 1], clock[5:7], [[1, 1], [np.inf, 1]]), "infinity"),
        (lambda: stream.correct([0, 1], clock[5:7], [[1, 1], [1e305, 1]]), "too large"),
        (lambda: stream.insert([0, 1], [between, clock[5]], ones), "by correct"),
        (lambda: stream.retract(0, clock[[5, 5]]), "the same time"),
        (lambda: stream.retract([0, 1], [clock[5], between]), "no row at that time"),
    ):
        with pytest.raises(ValueError, match=match):
            act()
        assert snapshot(stream) == before


@pytest.mark.parametrize("keep", [3, 2.0])
def test_the_last_rows_that_are_kept_are_revised_and_the_one_before_is_not(keep):
    series = [(np.arange(6.0), np.random.default_rng(0).normal(size=(6, 2)))]
    whole, followed = (fitted("hippo").stream(x, keep=keep) for x in (series, 1))
    followed.update(*series[0])
    for stream in (whole, followed):
        assert_array_equal(stream._rows_of(0).times, [3.0, 4.0, 5.0])
        for act in (stream.insert, stream.correct):
            with pytest.raises(ValueError, match="time 2: only what comes after 2 is kept"):
                act(0, 2.0, [0.0, 0.0])
        with pytest.raises(ValueError, match="time 2: only what comes after 2 is kept"):
            stream.retract(0, 2.0)
        stream.insert(0, 2.0 + 1e-9, [0.0, 0.0]).retract(0, 2.0 + 1e-9)
        stream.correct(0, 3.0, [0.5, 0.5])
    revised = series[0][1].copy()
    revised[3] = 0.5
    assert_same_answers(whole, fitted("hippo"), [(series[0][0], revised)])
    assert_same_answers(followed, fitted("hippo"), [(series[0][0], revised)])


def test_streams_without_keep_say_so_and_wrong_lengths_are_named():
    with pytest.raises(ValueError, match=r'keep="6h"'):
        fitted("hippo").stream(short_oscillators(1)).retract(0, 0.0)
    for keep, match in [(0, "positive number of rows"), (-1.0, "keep must be"), ("6h", "numbers")]:
        with pytest.raises(ValueError, match=match):
            fitted("hippo").stream(keep=keep)


def test_one_row_may_be_kept():
    stream = fitted("hippo").stream(keep=1).update([0.0, 1.0], np.ones((2, 2)))
    series = [(np.array([0.0, 1.0]), np.array([[1.0, 1.0], [3.0, 2.0]]))]
    assert_same_answers(stream.correct(0, 1.0, [3.0, 2.0]), fitted("hippo"), series)
    with pytest.raises(ValueError, match="only what comes after 0 is kept"):
        stream.correct(0, 0.0, [3.0, 2.0])


def test_kept_rows_of_a_file_that_are_not_of_its_stream_are_refused():
    stream = fitted("hippo").stream(short_oscillators(2), keep=2)
    load, good = type(stream)._from_file, stream._kept[1]
    assert snapshot(load(stream.__getstate__()))[1] == snapshot(stream)[1]
    for rows, keep in (
        ({2: good}, 2),
        ({-1: good}, 2),
        ({1: good._replace(times=good.times[[0, 0]])}, 2),
        ({1: good._replace(times=good.times[::-1])}, 2),
        ({1: good}, 0),
        ({1: good}, "6h"),
    ):
        with pytest.raises(ValueError, match="rows that are not of this stream"):
            check_kept(rows, keep, stream._panel)


def test_all_rows_may_be_retracted_and_the_series_begin_anew():
    stream = fitted("polyode").stream(keep=5).update([0.0, 1.0], np.ones((2, 2)))
    stream.retract(0, [0.0, 1.0])
    assert_array_equal(stream.n_observations, [0])
    times, values = np.array([3.0, 4.0]), np.array([[1.0, 2.0], [0.0, 1.0]])
    stream.insert(0, 4.0, values[1]).insert(0, 3.0, values[0])
    assert_same_answers(stream, fitted("polyode"), [(times, values)])


def test_datetimes_equal_numbers():
    hours = np.array([0.0, 1.0, 3.0, 4.0, 9.0])
    index = pd.Timestamp("2026-01-02", tz="Europe/Rome") + pd.to_timedelta(hours, "h")
    values = np.array([1.0, 3.0, 2.0, 5.0, 0.0])
    numbers = HiPPOTransformer(n_coefficients=5).fit([(hours, values)]).stream(keep=6.0)
    dates = HiPPOTransformer(n_coefficients=5)
    dates.fit(Panel.from_frames([pd.Series(values, index)], time_unit="h"))
    dates = dates.stream(keep="6h")
    for stream, at in ((numbers, hours), (dates, index)):
        for k in (0, 1, 3, 4):
            stream.update(at[k], values[k])
        stream.insert(0, at[2] if stream is dates else 3.0, 2.0).correct(0, at[3], 4.0)
    assert_allclose(dates.embedding(), numbers.embedding(), rtol=0, atol=1e-12)
    with pytest.raises(
        ValueError, match=r"2026-01-02 00:30.*only what comes after 2026-01-02 01:00"
    ):
        dates.insert(0, "2026-01-02 00:30", 1.0)


def test_errors_of_values_are_replayed():
    transformer = fitted("polyode noisy")
    ((times, values),) = short_oscillators(1, seed=5)
    errors = np.where(np.isnan(values), np.nan, 0.3)
    stream = transformer.stream(keep=MORE).update(times, values, errors=errors)
    panel = Panel.from_series([(times, values)], errors=[errors])
    stream.correct(0, times[1], values[1] + 1, errors=errors[1]).correct(
        0, times[1], values[1], errors=errors[1]
    )
    assert_allclose(stream.embedding(), transformer.transform(panel), rtol=0, atol=1e-10)


def test_the_error_of_a_channel_stays_when_another_one_is_corrected():
    series, rng = short_oscillators(8, seed=5), np.random.default_rng(0)
    errors = [np.where(np.isnan(x), np.nan, rng.uniform(0.1, 0.9, x.shape)) for _, x in series]
    transformer = small(max_epochs=1).fit(Panel.from_series(series, errors=errors))
    (times, values), own = series[0], errors[0]
    stream = transformer.stream(keep=MORE).update(times, values, errors=own)
    k = int(np.argmax(~np.isnan(values).any(axis=1)))
    right, known = values.copy(), own.copy()
    right[k, 0], known[k, 0] = 2.0, 0.8
    stream.correct(0, times[k], [2.0, np.nan], errors=[0.8, np.nan])
    wanted = transformer.transform(Panel.from_series([(times, right)], errors=[known]))
    assert_allclose(stream.embedding(), wanted, rtol=0, atol=1e-7)
    stream.correct(0, times[k], [2.0, np.nan])
    known[k, 0] = np.nan
    unknown = transformer.transform(Panel.from_series([(times, right)], errors=[known]))
    assert_allclose(stream.embedding(), unknown, rtol=0, atol=1e-7)
    assert np.abs(unknown - wanted).max() > 1e-4
    known[k] = 0.8, np.nan
    other = transformer.transform(Panel.from_series([(times, right)], errors=[known]))
    assert np.abs(other - wanted).max() > 1e-4


@pytest.mark.parametrize("how", ["save", "pickle"])
def test_kept_streams_are_revised_as_they_would_have_been(how, tmp_path):
    series = short_oscillators(3)
    stream = fitted("polyode").stream(series, keep=4)
    if how == "save":
        stream.save(tmp_path / "s.safetensors")
        again = skpolyode.load(tmp_path / "s.safetensors")
    else:
        again = pickle.loads(pickle.dumps(stream))
    for one in (stream, again):
        one.retract([0, 2], [series[0][0][-1], series[2][0][-2]])
    assert snapshot(again) == snapshot(stream)


def test_a_file_has_as_many_arrays_for_many_series_as_for_few():
    few, many = (fitted("hippo").stream(short_oscillators(n), keep=3) for n in (2, 9))
    assert len(snapshot(few)[1]) == len(snapshot(many)[1])


def test_merged_streams_go_on_as_each_would_have():
    series = short_oscillators(4, seed=8)
    transformer = fitted("polyode")
    a, b = transformer.stream(series[:3], keep=5), transformer.stream(series[3:], keep=5)
    both = merge(a, pickle.loads(pickle.dumps(b)))
    both.retract(3, series[3][0][-1])
    assert_array_equal(b.n_observations, [len(series[3][0])])
    series[3] = tuple(x[:-1] for x in series[3])
    assert_same_answers(both, transformer, series)


def test_merged_ids_datetimes_and_static_rows_are_those_of_both(no_static_warnings_so_far):
    index = pd.date_range("2026-01-01", periods=4, freq="h", tz="UTC")
    frame = pd.DataFrame({"a": np.arange(4.0)}, index=index)
    static = pd.DataFrame({"age": [1.0, 2.0]}, index=["x", "y"])
    panel = Panel.from_frames([frame, frame.iloc[1:] * 2], ids=["x", "y"], static=static)
    transformer = HiPPOTransformer(n_coefficients=3)
    with pytest.warns(UserWarning, match="static"):
        transformer.fit(panel)
    a, b = transformer.stream(panel[[0]]), transformer.stream(panel[[1]])
    both = merge(a, b)
    assert_array_equal(both._panel.ids, ["x", "y"])
    assert both._panel.static.loc["y", "age"] == 2.0
    assert both.last_times.equals(transformer.stream(panel).last_times)
    assert_allclose(both.embedding(), transformer.transform(panel), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match=r"id 'x'.*one unique id"):
        merge(a, both)


def test_streams_that_do_not_fit_are_not_merged():
    stream = fitted("hippo").stream(2)
    with pytest.raises(ValueError, match="different transformers"):
        merge(
            stream, fitted("hippo legs" if "hippo legs" in VARIANTS else "hippo previous").stream()
        )
    with pytest.raises(ValueError, match="keep different"):
        merge(stream, fitted("hippo").stream(keep=3))
