"""A stream gives, at any moment, what the transformer gives for all observations so far."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skpolyode import HiPPOTransformer, Panel
from skpolyode.streams import stream as stream_module
from tests.closeness import assert_same_but_for_rounding
from tests.streams.cases import VARIANTS, assert_same_answers, fitted, flat, mixed, snapshot
from tests.transformers.data import short_oscillators, small


@pytest.mark.parametrize("name", VARIANTS)
@given(seed=st.integers(0, 2**32 - 1), n_splits=st.integers(0, 25))
@settings(max_examples=2)
def test_any_split_of_the_data_gives_the_batch_result(name, seed, n_splits):
    transformer, rng = fitted(name), np.random.default_rng(seed)
    series = short_oscillators(3, seed=seed)
    owner, times, values = mixed(series, rng)
    stream = transformer.stream(len(series))
    bounds = np.sort(rng.integers(0, len(owner), n_splits))
    for rows in np.split(np.arange(len(owner)), bounds):
        stream.update(times[rows], values[rows], owner[rows])
    assert_same_answers(stream, transformer, series)
    assert stream.n_observations.tolist() == [len(t) for t, _ in series]


@pytest.mark.parametrize("name", VARIANTS)
def test_every_moment_of_a_series_is_that_of_its_beginning(name):
    transformer = fitted(name)
    ((times, values),) = short_oscillators(1, seed=3)
    stream = transformer.stream()
    for k, (time, row) in enumerate(zip(times, values, strict=True), start=1):
        stream.update(time, row)
        assert_same_answers(stream, transformer, [(times[:k], values[:k])])


@pytest.mark.parametrize("name", VARIANTS)
def test_channels_may_come_late_or_never(name):
    nan = np.nan
    times = np.array([5.0, 5.5, 5.7, 6.9, 7.0, 9.0])
    values = np.array([[nan, 1], [nan, 2], [3, nan], [nan, nan], [4, nan], [nan, 0]])
    series = [(times, values), (times, np.where([True, False], nan, values))]
    transformer = fitted(name)
    stream = transformer.stream(2)
    for time, one, other in zip(times, values, series[1][1], strict=True):
        stream.update(time, [one, other])
    series[1] = tuple(part[[0, 1, 5]] for part in series[1])
    assert_same_answers(stream, transformer, series)
    assert stream.n_observations.tolist() == [5, 3]
    # Going on from the series is the same, now and afterwards.
    resumed = transformer.stream(series)
    assert_same_answers(resumed, transformer, series)
    later = [
        own.update([9.5, 9.9], [[1.0, nan], [2, 2]], 1).embedding() for own in (stream, resumed)
    ]
    np.testing.assert_allclose(*later, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["polyode", "polyode legs", "hippo", "hippo legs"])
def test_long_and_short_gaps_are_followed(name):
    transformer = fitted(name)
    gaps = np.array([1e-6, 300.0, 0.3, 1e-3, 40 * transformer.window_, 0.2, 5.0, 1e-4])
    times = np.concatenate([[-7.0], np.cumsum(gaps) - 7.0])
    series = [(times, np.random.default_rng(0).standard_normal((len(times), 2)))]
    stream = transformer.stream().update(times[:4], series[0][1][:4])
    stream.update(times[4:], series[0][1][4:])
    # Values that differ by 1e-15 give embeddings that differ by 2e-10 here.
    assert_same_answers(stream, transformer, series, atol=1e-9)


@pytest.mark.parametrize("n_coefficients", [1, 12])
def test_long_series_are_followed(n_coefficients):
    transformer = small(n_coefficients=n_coefficients, max_epochs=1).fit(short_oscillators())
    ((times, values),) = short_oscillators(1, seed=1, length=40 * transformer.window_)
    stream = transformer.stream().update(times, values)
    difference = stream.embedding() - transformer.transform([(times, values)])
    assert abs(difference).max() < 1e-7


@pytest.mark.parametrize("name", ["polyode", "hippo"])
def test_times_may_count_from_the_ends_of_series(name):
    series, transformer = short_oscillators(4), fitted(name)
    stream = transformer.stream(series)
    for method, times in (("reconstruct", [-0.4, 0.0]), ("forecast", [0.0, 0.7])):
        if hasattr(stream, method):
            expected = getattr(transformer, method)(series, times, relative_to="end")
            answer = getattr(stream, method)(times, relative_to="end")
            np.testing.assert_allclose(answer.values, expected.values, atol=1e-10)
            np.testing.assert_array_equal(answer.times, expected.times)
    past = stream.reconstruct([2.0], series=[2, 0], relative_to="start")
    np.testing.assert_allclose(past.times, [series[k][0][0] + 2.0 for k in (2, 0)])


@pytest.mark.parametrize("name", VARIANTS)
def test_stream_goes_on_from_series(name):
    transformer, series = fitted(name), short_oscillators(4, seed=5)
    known = Panel.from_series([(t[:3], x[:3]) for t, x in series], ids=list("abcd"))
    stream = transformer.stream(known)
    assert stream.last_times.tolist() == [t[2] for t, _ in series]
    owner, times, values = flat([(t[3:], x[3:]) for t, x in series])
    stream.update(times, values, owner)
    np.testing.assert_allclose(stream.embedding(), transformer.transform(series), atol=1e-10)
    assert stream.reconstruct(stream.last_times[1], series=[1]).ids.tolist() == ["b"]


def test_answers_of_some_of_the_series():
    transformer, series = fitted("polyode"), short_oscillators(4)
    stream = transformer.stream(4)
    owner, times, values = flat(series)
    stream.update(times[owner > 0], values[owner > 0], owner[owner > 0])
    chosen = [3, 1]
    features = transformer.transform([series[i] for i in chosen])
    np.testing.assert_allclose(stream.embedding(chosen), features, atol=1e-10)
    assert stream.embedding(np.int64(1)).shape == (1, features.shape[1])
    forecast = stream.forecast([6.0], series=chosen)
    assert forecast.ids.tolist() == chosen
    for answer in (stream.embedding, lambda: stream.forecast([9.0])):
        with pytest.raises(ValueError, match=r"series 0 has not been observed yet \(1 such"):
            answer()
    started = np.flatnonzero(stream.n_observations)
    assert stream.embedding(started).shape[0] == 3
    assert np.isnan(stream.last_times[0])


def test_groups_and_threads_do_not_matter(monkeypatch):
    transformer, series = fitted("polyode"), short_oscillators(9, seed=8)
    whole = transformer.stream(series).embedding()
    monkeypatch.setattr(stream_module, "_GROUP", 2)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        grouped = transformer.stream(series).embedding()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(grouped, whole, rtol=0, atol=1e-12)


def test_static_covariates_are_used():
    static = pd.DataFrame({"age": [30.0, 50.0, np.nan] * 4, "sex": ["f", "m", None, "f"] * 3})
    X = Panel.from_series(short_oscillators(), static=static)
    transformer = small().fit(X)
    with torch.no_grad():
        transformer.start_.weight.normal_(generator=torch.Generator().manual_seed(0))
    owner = np.repeat(np.arange(12), X.lengths)
    stream = transformer.stream(12, static=static).update(X.times, X.values, owner)
    np.testing.assert_allclose(stream.embedding(), transformer.transform(X), atol=1e-10)
    by_row = transformer.stream(12, static=static)
    for row in range(X.n_observations):
        by_row.update(X.times[row], X.values[row], owner[row])
    np.testing.assert_allclose(by_row.embedding(), transformer.transform(X), atol=1e-10)
    resumed = transformer.stream(X).update(9.0, np.ones((12, 2)))
    by_row.update(9.0, np.ones((12, 2)))
    np.testing.assert_allclose(resumed.embedding(), by_row.embedding(), atol=1e-10)
    assert stream.forecast([9.0]).equals(
        transformer.forecast(X, [9.0]).like(
            *(getattr(stream.forecast([9.0]), name) for name in ("times", "values", "offsets"))
        )
    )
    with pytest.raises(ValueError, match="static covariates"):
        transformer.stream(12)


def test_datetimes_are_read_and_given_back():
    zone, start = "Europe/Rome", pd.Timestamp("2024-03-31", tz="Europe/Rome")
    frames = [
        pd.DataFrame(x, index=start + pd.to_timedelta(t.round(6), unit="h"))
        for t, x in short_oscillators(3)
    ]
    transformer = small().fit(frames)
    stream = transformer.stream(3)
    for i, frame in enumerate(frames):
        stream.update(frame.index[:-1], frame.to_numpy()[:-1], i)
        stream.update(frame.index[-1], frame.to_numpy()[-1], i)
    np.testing.assert_allclose(stream.embedding(), transformer.transform(frames), atol=1e-10)
    assert (stream.last_times == pd.DatetimeIndex([f.index[-1] for f in frames])).all()
    later = start + pd.Timedelta("5h")
    forecast = stream.forecast([later])
    assert forecast.tz == zone
    assert forecast.user_times()[0] == later
    with pytest.raises(TypeError, match="the times no time zone: give both"):
        stream.update(pd.Timestamp("2024-04-02"), [1, 2], 0)
    with pytest.warns(UserWarning, match="times of this stream have no time zone, those of `fit`"):
        naive = transformer.stream().update(np.datetime64("2024-04-02"), [1.0, 2.0])
    assert naive.last_times[0] == pd.Timestamp("2024-04-02")
    as_text = transformer.stream().update("2024-04-02", [1.0, 2.0])
    assert as_text.last_times[0] == pd.Timestamp("2024-04-02", tz=zone)
    with pytest.raises(ValueError, match=r"update: times: text must be dates .* got 'noon'"):
        naive.update("noon", [1.0, 2.0])
    stream.update("2024-04-02 05:00", [1.0, 2.0], 0)
    assert stream.last_times[0] == pd.Timestamp("2024-04-02 05:00", tz=zone)
    with pytest.raises(TypeError, match=r"got numbers; turn counts since 1970 .*unit='s'\)"):
        naive.update(3.0, [1.0, 2.0])
    with pytest.raises(TypeError, match="got timedeltas"):
        naive.update(pd.Timedelta("1h"), [1.0, 2.0])
    with pytest.raises(TypeError, match=r"times must be numbers, .* got datetimes"):
        fitted("polyode").stream().update(np.datetime64("2024-04-02"), [1.0, 2.0])


def test_formats_of_an_update_agree():
    transformer = fitted("hippo")
    by_hand = transformer.stream(2).update([1.0, 1.0], [[1, 2], [3, 4]], [0, 1]).embedding()
    for arguments in [
        ([1.0, 1.0], [[1, 2], [3, 4]]),
        (1.0, [[1, 2], [3, 4]]),
        (1, pd.DataFrame([[3, 4], [1, 2]]), [1, 0]),
        ([2.0, 1.0, 1.0], [[None, None], [1, 2], [3, 4]], [0, 0, 1]),
    ]:
        stream = transformer.stream(2).update(*arguments)
        assert_same_but_for_rounding(stream.embedding(), by_hand)
    one = HiPPOTransformer(n_coefficients=3).fit(np.ones((2, 5)))
    by_hand = one.stream().update([0, 1], [[1.0], [2.0]]).embedding()
    given = one.stream().update([0, 1], [1.0, 2.0]).embedding()
    assert_same_but_for_rounding(given, by_hand)
    single = one.stream()
    for time, value in enumerate([1.0, 2.0, 0.0, 3.0, 5.0]):
        single.update(time, value)
    batch = one.transform([[1.0, 2.0, 0.0, 3.0, 5.0]])
    np.testing.assert_allclose(single.embedding(), batch, atol=1e-12)


FAULTS = [
    (
        ([0.5], [[1, 2]], [1]),
        ValueError,
        r"series 1 \(id 1\), time 0.5: .* before it is 1. Rem.*in the order of time; the stream",
    ),
    (([1.0], [[1, 2]], [1]), ValueError, r"series 1 .*, time 1: .*Remedy: merge observations of"),
    (([2, 4, 3], np.ones((3, 2)), [1] * 3), ValueError, "time 3: .* before it is 4.*in the order"),
    (([2, 2], np.ones((2, 2)), [1, 1]), ValueError, "time 2: .*Remedy: merge observations of"),
    (([2, np.nan], np.ones((2, 2))), ValueError, r"series 1 \(id 1\), row 0, missing time.*drop"),
    (
        ([2, 3], [[1, 2], [np.inf, 0]]),
        ValueError,
        r"series 1 .*, channel 'x0', time 3: .* inf. Rem.*NaN",
    ),
    (([2, 0.5], [[1, np.inf], [1, 0]]), ValueError, "2 faults"),
    (([2, 3], np.ones((2, 3))), ValueError, "update: values has 3 features.*Give .* of fit"),
    (
        ([2, 3], [1, 2]),
        ValueError,
        "update: values has 1 features.*expecting 2 .*channels of fit",
    ),
    (([2, 3], np.ones((2, 2, 1))), ValueError, "2-D, a column for each channel, got 3-D"),
    (([2, 3, 4], np.ones((2, 2))), ValueError, "3 times for 2 rows"),
    (([[2, 3]], np.ones((2, 2))), ValueError, r"one-dimensional, got shape \(1, 2\)"),
    (([2, 3, 4], np.ones((3, 2))), ValueError, "3 rows for 2 series: pass series"),
    (([2, 3], np.ones((2, 2)), [0, 2]), ValueError, "from 0 to 1, .* got 2"),
    (([2, 3], np.ones((2, 2)), [0, -1]), ValueError, "got -1"),
    (([2, 3], np.ones((2, 2)), [0, 1, 0]), ValueError, "2 rows for 3 series: pass series"),
    (([2, 3], np.ones((2, 2)), ["a", "b"]), ValueError, "no series with the id .a."),
    (
        ([2, 3], np.array([["a", 1], [1, 2]], object)),
        ValueError,
        r"series 0 .*, channel 'x0', time 2: not a number, got 'a'.*convert them",
    ),
    (([2, 3], [["1", "2"], ["1.5", "2"]]), ValueError, "column 'x0' holds text, such as '1'"),
    (([2, 3], np.ones((2, 2), "m8[s]")), ValueError, r"channel 'x0', .* got .*\(timedelta\)"),
    (([2, 3], [[1, 2], [3]]), ValueError, "must be rectangular"),
    ((["a", "b"], np.ones((2, 2))), TypeError, "the times of the series are numbers"),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), FAULTS, ids=[f[2] for f in FAULTS])
@pytest.mark.parametrize("name", ["polyode", "hippo"])
def test_fault_is_named_and_leaves_the_stream_as_it_was(name, arguments, kind, message):
    stream = fitted(name).stream(2).update([0.0, 1.0], np.ones((2, 2)))
    before = snapshot(stream)
    with pytest.raises(kind, match=message):
        stream.update(*arguments)
    assert snapshot(stream) == before


def test_a_value_that_is_too_large_is_named():
    with pytest.raises(ValueError, match=r"series 1 .*, channel 'x1', time 2: .*their unit"):
        fitted("hippo").stream(2).update([2.0], [[1.0, 1e305]], [1])


@pytest.fixture(scope="module")
def named():
    panel = Panel.from_series(short_oscillators(), channel_names=["hr", "bp"])
    return HiPPOTransformer(n_coefficients=6).fit(panel)


def test_columns_are_matched_by_name(named):
    times, values = np.arange(4.0), np.random.default_rng(0).normal(size=(4, 2))
    frame = pd.DataFrame(values, columns=["hr", "bp"])
    errors = pd.DataFrame(np.full((4, 2), 0.1), columns=["bp", "hr"])
    expected = named.stream().update(times, values).embedding()
    for table in (frame, frame[["bp", "hr"]], pl.DataFrame(frame)[["bp", "hr"]]):
        found = named.stream().update(times, table, errors=errors).embedding()
        np.testing.assert_array_equal(found, expected)
    found = pickle.loads(pickle.dumps(named.stream()))
    for time, row in frame[["bp", "hr"]].iterrows():
        found.update(time, row)
    np.testing.assert_allclose(found.embedding(), expected, atol=1e-12)


def test_a_dict_is_a_row_of_what_was_observed(named):
    values = np.array([[1.0, 2.0], [np.nan, 3.0]])
    expected = named.stream().update([0.0, 1.0], values).embedding()
    by_row = named.stream().update(0.0, {"bp": 2.0, "hr": 1.0}).update(1.0, {"bp": 3.0})
    at_once = named.stream().update([0.0, 1.0], {"bp": [2.0, 3.0], "hr": [1.0, None]})
    for stream in (by_row, at_once):
        np.testing.assert_allclose(stream.embedding(), expected, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="there is no channel 'pulse', only \\['hr', 'bp'\\]"):
        by_row.update(2.0, {"pulse": 1.0})


def test_other_names_are_refused(named):
    message = r"update: values has the channels \['hr', 'x'\], .* fitted on \['hr', 'bp'\]"
    row = pd.Series([1.0, 2.0], index=["hr", "x"])
    for stream in (named.stream(), pickle.loads(pickle.dumps(named.stream()))):
        with pytest.raises(ValueError, match=message):
            stream.update(0.0, row)
        with pytest.raises(ValueError, match=message):
            stream.update([0.0], pl.DataFrame(row.to_frame().T))
        with pytest.raises(ValueError, match=message.replace("values", "errors")):
            stream.update(0.0, [1, 2], errors=row)


def test_names_say_nothing_to_a_model_without_them():
    stream = fitted("hippo").stream()
    for own in (stream, pickle.loads(pickle.dumps(stream))):
        expected = fitted("hippo").stream().update(0.0, [1, 2]).embedding()
        found = own.update(0.0, pd.Series([1, 2], index=["a", "b"])).embedding()
        np.testing.assert_array_equal(found, expected)


def test_many_faults_are_counted_and_the_first_are_shown():
    stream = fitted("hippo").stream().update(5.0, [1, 2])
    with pytest.raises(ValueError, match=r"(?s)100 faults.*and 90 more.*the stream is as it was"):
        stream.update(np.linspace(4, 0, 100), np.ones((100, 2)))


def test_failure_in_the_middle_leaves_the_stream_as_it_was(monkeypatch):
    stream = fitted("polyode").stream(short_oscillators(3))
    before = snapshot(stream)
    real, calls = stream._take_in, []

    def failing(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(stream, "_take_in", failing)
    with pytest.raises(KeyboardInterrupt):
        stream.update([10.0, 11.0, 12.0, 13.0], np.ones((4, 2)), 1)
    monkeypatch.undo()
    assert snapshot(stream) == before


@pytest.mark.parametrize("X", [0, -1])
def test_number_of_series_must_be_positive(X):
    with pytest.raises(ValueError, match=f"positive number of series, got {X}"):
        fitted("hippo").stream(X)


def test_stream_needs_a_fitted_transformer():
    with pytest.raises(ValueError, match="not fitted"):
        small().stream()


def test_times_outside_are_refused_as_in_the_transformer():
    stream = fitted("polyode").stream(short_oscillators(2))
    with pytest.raises(ValueError, match="before its last observation"):
        stream.forecast([0.0])
    with pytest.raises(ValueError, match="outside"):
        stream.reconstruct([100.0])


@pytest.mark.filterwarnings("ignore:times are more than 20 times as far")
def test_moments_beyond_the_reach_of_nanoseconds_are_not_mistaken():
    """In 64 bits the year 1700 would be after 2026, and 2318 would be 1733."""
    start = pd.Timestamp("2026-01-01T00:00:00.000000001")
    dated = [(start + pd.to_timedelta(t, unit="h"), x) for t, x in short_oscillators()]
    panel = Panel.from_series(dated, time_unit="h")
    transformer = small().fit(panel)
    stream = transformer.stream(panel[:1])
    with pytest.raises(
        ValueError, match=r"time 1700-01-01 .* before it is 2026-01-0.*in the order"
    ):
        stream.update("1700-01-01", [1.0, 2.0])
    later = np.array(["2318-01-01", "2400-01-01"], "M8[s]")  # no text: pandas 2 reads it as ns
    assert stream.update(later[0], [1.0, 2.0]).last_times[0] == later[0]
    assert stream.forecast(later[1:]).user_times()[0].year == 2400
    with pytest.raises(ValueError, match=r"1700-01-01 .* h before its last observation"):
        transformer.forecast(panel[:1], ["1700-01-01"])


def test_stream_does_not_change_with_its_transformer():
    transformer = small().fit(short_oscillators())
    stream = transformer.stream(short_oscillators(3))
    before = stream.embedding()
    transformer.fit(short_oscillators(seed=1))
    assert np.array_equal(stream.embedding(), before)
    stream.update(9.0, np.ones((3, 2)))


def test_stream_tells_what_it_is():
    text = repr(fitted("hippo").stream(4).update(1.0, np.ones((4, 2))))
    assert text == "HiPPOStream(4 series, 4 observations)"


def test_series_are_found_by_their_ids():
    X = Panel.from_series(short_oscillators(3), ids=["ann", "bob", "eve"])
    by_place, by_id = (fitted("polyode").stream(X) for _ in range(2))
    by_place.update([9.0, 9.0], [[1.0, 2.0], [3.0, 4.0]], [2, 0]).update(9.5, [1.0, 1.0], 1)
    by_id.update([9.0, 9.0], [[1.0, 2.0], [3.0, 4.0]], ["eve", "ann"]).update(
        9.5, [1.0, 1.0], "bob"
    )
    np.testing.assert_array_equal(by_id.embedding(), by_place.embedding())
    assert by_id.forecast([10.0], "eve").equals(by_place.forecast([10.0], 2))
    match = "update: series: there is no series with the id 'zoe'; ids are 'ann', 'bob', 'eve'"
    with pytest.raises(ValueError, match=match):
        by_id.update(11.0, [1.0, 1.0], series="zoe")
    with pytest.raises(TypeError, match=r"whole numbers, or ids that are text, got 1\.0"):
        by_id.embedding(1.0)


@pytest.mark.parametrize(
    "times",
    [
        [pd.Timestamp("2024-04-02"), pd.NaT],
        np.array(["2024-04-02", "NaT"], "M8[s]"),
        np.ma.array(np.array(["2024-04-02", "2024-04-03"], "M8[s]"), mask=[False, True]),
    ],
    ids=["list", "array", "masked"],
)
def test_a_missing_moment_is_not_taken_in(times):
    days = pd.date_range("2024-03-31", periods=6, freq="D")
    series = [pd.DataFrame({"a": np.arange(6.0), "b": [0.0, 1.0] * 3}, index=days)] * 2
    transformer = HiPPOTransformer(n_coefficients=3).fit(Panel.from_frames(series, time_unit="D"))
    for stream in (transformer.stream(2), transformer.stream(2).update("2024-04-01", [[1, 2]] * 2)):
        before = stream.n_observations.copy()
        with pytest.raises(ValueError, match=r"series 1 \(id 1\), row 0, missing time"):
            stream.update(times, [[1.0, 2.0], [3.0, 4.0]])
        assert (stream.n_observations == before).all()


CROSSINGS = ["probability", "standard_error", "earliest", "median", "latest"]


@pytest.mark.parametrize("name", ["polyode", "polyode noisy"])
def test_crossings_are_those_of_the_transformer(name):
    """Row by row and resumed, with a cell that is hidden last, a channel that never was seen."""
    transformer, series = fitted(name), short_oscillators(4, seed=5)
    series[1][1][-1, 0] = np.nan
    series[2] = series[2][0], series[2][1] * [np.nan, 1.0]
    errors = [np.where(np.isnan(x), np.nan, 0.1 * (k == 3)) for k, (_, x) in enumerate(series)]
    panel = Panel.from_series(series, errors=errors)
    resumed, stream = transformer.stream(panel), transformer.stream(4)
    for k, (t, x) in enumerate(series):
        stream.update(t, x, k, errors=errors[k])
    line = float(series[0][1][-1, 0]) - 0.01  # which one has passed
    options = {"relative_to": "end", "channel": 0, "n_samples": 50}
    for until in (1e-6, 1.0, [0.1, 1.0, 5.0, 50.0]):
        expected = transformer.crossing_times(panel, line, until, **options)
        for own in (stream, resumed):
            found = own.crossing_times(line, until, **options)
            assert list(found["status"]) == list(expected["status"])
            np.testing.assert_allclose(found[CROSSINGS], expected[CROSSINGS], rtol=1e-9)
    assert expected["status"].iloc[0] == ("crosses" if "noisy" in name else "already")
    part = stream.crossing_times(line, [5.0, 0.1], series=[2, 0], **options)
    np.testing.assert_array_equal(part[CROSSINGS], found[CROSSINGS].iloc[[2, 0]])


def test_crossings_of_datetimes_are_datetimes():
    start, times = pd.Timestamp("2026-01-01", tz="Europe/Berlin"), np.arange(12.0)
    hours = start + pd.to_timedelta(times, unit="h")
    series = [(hours, np.sin(times + k)) for k in range(8)]
    panel = Panel.from_series(series, time_unit="h")
    model = small().fit(panel)
    stream = model.stream(8)
    for k, (t, x) in enumerate(series):
        stream.update(t, x, k)
    for until, options in (("3h", {"relative_to": "end"}), (hours[-1] + pd.Timedelta("3h"), {})):
        found = stream.crossing_times(0.5, until, **options)
        pd.testing.assert_frame_equal(found, model.crossing_times(panel, 0.5, until, **options))
    with pytest.raises(ValueError, match="series 0 has not been observed yet"):
        model.stream(2).sample_paths([hours[-1]])
