"""A stream gives, at any moment, what the transformer gives for all observations so far."""

from __future__ import annotations

import copy
import pickle
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import skpolyode
from skpolyode import HiPPOTransformer, Panel
from skpolyode.memory import MEMORIES
from skpolyode.saving.codec import Encoder
from skpolyode.streams import stream as stream_module
from tests.transformers.data import Pairs, oscillators, small

VARIANTS: dict[str, dict[str, Any]] = {
    "polyode": {},
    "polyode coefficients": {"embedding": "coefficients"},
    "polyode legs": {"measure": "legs"},
    "polyode hidden": {"embedding": "hidden", "window": 0.7},
    "polyode noisy": {"observations": "noisy"},
    "hippo": {},
    "hippo previous": {"hold": "previous"},
    "hippo lagt previous": {"measure": "lagt", "hold": "previous"},
    **{f"hippo {measure}": {"measure": measure} for measure in MEMORIES if measure != "legt"},
}


@cache
def fitted(name: str) -> Any:
    parameters = VARIANTS[name]
    if name.startswith("polyode"):
        return small(**parameters).fit(oscillators())
    return HiPPOTransformer(n_coefficients=6, **parameters).fit(oscillators())


def flat(series: Pairs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which series, times and values of all rows."""
    owner = np.repeat(np.arange(len(series)), [len(t) for t, _ in series])
    return owner, *(np.concatenate(parts) for parts in zip(*series, strict=True))


def mixed(series: Pairs, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `flat`, with the series mixed; each of them stays in order."""
    owner, times, values = flat(series)
    place = rng.permutation(len(owner))
    places = np.concatenate([np.sort(place[owner == i]) for i in range(len(series))])
    order = np.argsort(places)
    return owner[order], times[order], values[order]


def snapshot(stream: Any) -> tuple[Any, dict[str, bytes]]:
    """All that a stream consists of."""
    encoder = Encoder()
    content = encoder.encode(stream, "stream")
    return content, {name: array.tobytes() for name, array in encoder.arrays.items()}


def assert_same_answers(stream: Any, transformer: Any, series: Pairs, atol: float = 1e-10) -> None:
    """Every answer of the stream is that of the transformer."""
    tight = {"rtol": 0, "atol": atol}
    np.testing.assert_allclose(stream.embedding(), transformer.transform(series), **tight)
    ends = np.array([t[~np.isnan(x).all(axis=1)][-1] for t, x in series])
    past = [[end, end - 0.2 * transformer.window_] for end in ends]
    old, new = transformer.reconstruct(series, past), stream.reconstruct(past)
    np.testing.assert_allclose(new.values, old.values, **tight)
    assert new.equals(new.like(old.times, new.values, old.offsets))
    if hasattr(stream, "forecast"):
        ahead = [[end, end + 0.3, end + 2.0] for end in ends]
        old, new = transformer.forecast(series, ahead), stream.forecast(ahead)
        np.testing.assert_allclose(new.values, old.values, **tight)


@pytest.mark.parametrize("name", VARIANTS)
@given(seed=st.integers(0, 2**32 - 1), n_splits=st.integers(0, 25))
@settings(max_examples=2)
def test_any_split_of_the_data_gives_the_batch_result(name, seed, n_splits):
    transformer, rng = fitted(name), np.random.default_rng(seed)
    series = oscillators(3, seed=seed)
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
    ((times, values),) = oscillators(1, seed=3)
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
    transformer = small(n_coefficients=n_coefficients, max_epochs=1).fit(oscillators())
    ((times, values),) = oscillators(1, seed=1, length=40 * transformer.window_)
    stream = transformer.stream().update(times, values)
    difference = stream.embedding() - transformer.transform([(times, values)])
    assert abs(difference).max() < 1e-7


@pytest.mark.parametrize("name", VARIANTS)
def test_stream_goes_on_from_series(name):
    transformer, series = fitted(name), oscillators(4, seed=5)
    known = Panel.from_series([(t[:3], x[:3]) for t, x in series], ids=list("abcd"))
    stream = transformer.stream(known)
    assert stream.last_times.tolist() == [t[2] for t, _ in series]
    owner, times, values = flat([(t[3:], x[3:]) for t, x in series])
    stream.update(times, values, owner)
    np.testing.assert_allclose(stream.embedding(), transformer.transform(series), atol=1e-10)
    assert stream.reconstruct(stream.last_times[1], series=[1]).ids.tolist() == ["b"]


def test_answers_of_some_of_the_series():
    transformer, series = fitted("polyode"), oscillators(4)
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
    transformer, series = fitted("polyode"), oscillators(9, seed=8)
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
    X = Panel.from_series(oscillators(), static=static)
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
        for t, x in oscillators(3)
    ]
    transformer = small().fit(frames)
    stream = transformer.stream(3)
    for i, frame in enumerate(frames):
        stream.update(frame.index[:-1], frame.to_numpy()[:-1], i)
        stream.update(frame.index[-1], frame.to_numpy()[-1], i)
    np.testing.assert_allclose(stream.embedding(), transformer.transform(frames), atol=1e-10)
    assert stream.last_times.equals(pd.DatetimeIndex([f.index[-1] for f in frames]))
    later = start + pd.Timedelta("5h")
    forecast = stream.forecast([later])
    assert forecast.tz == zone
    assert forecast.user_times()[0] == later
    with pytest.raises(TypeError, match="time zone exactly if those before had one"):
        stream.update(pd.Timestamp("2024-04-02"), [1, 2], 0)
    naive = transformer.stream().update(np.datetime64("2024-04-02"), [1.0, 2.0])
    assert naive.last_times[0] == pd.Timestamp("2024-04-02")
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
        assert stream.embedding().tolist() == by_hand.tolist()
    one = HiPPOTransformer(n_coefficients=3).fit(np.ones((2, 5)))
    by_hand = one.stream().update([0, 1], [[1.0], [2.0]]).embedding()
    assert one.stream().update([0, 1], [1.0, 2.0]).embedding().tolist() == by_hand.tolist()
    single = one.stream()
    for time, value in enumerate([1.0, 2.0, 0.0, 3.0, 5.0]):
        single.update(time, value)
    batch = one.transform([[1.0, 2.0, 0.0, 3.0, 5.0]])
    np.testing.assert_allclose(single.embedding(), batch, atol=1e-12)


FAULTS = [
    (
        ([0.5], [[1, 2]], [1]),
        ValueError,
        r"series 1 \(id 1\), time 0.5: it is known up to 1. Rem.*as",
    ),
    (([1.0], [[1, 2]], [1]), ValueError, "it has an observation at this time. Remedy: merge"),
    (([2, 4, 3], np.ones((3, 2)), [1] * 3), ValueError, "time 3: it is known up to 4"),
    (([2, 2], np.ones((2, 2)), [1, 1]), ValueError, "time 2: it has an observation at this"),
    (([2, np.nan], np.ones((2, 2))), ValueError, r"series 1 \(id 1\): time nan"),
    (([2, 3], [[1, 2], [np.inf, 0]]), ValueError, r"series 1 .*, time 3: \[inf\s+0.\]. Rem.*NaN"),
    (([2, 0.5], [[1, np.inf], [1, 0]]), ValueError, "2 faults"),
    (
        ([2, 3], np.ones((2, 3))),
        ValueError,
        r"shape \(n_rows, 2\), a column a channel, got \(2, 3\)",
    ),
    (([2, 3], [1, 2]), ValueError, r"shape \(n_rows, 2\)"),
    (([2, 3, 4], np.ones((2, 2))), ValueError, "3 times for 2 rows"),
    (([[2, 3]], np.ones((2, 2))), ValueError, r"one-dimensional, got shape \(1, 2\)"),
    (([2, 3, 4], np.ones((3, 2))), ValueError, "3 rows for 2 series: pass series"),
    (([2, 3], np.ones((2, 2)), [0, 2]), ValueError, "from 0 to 1, .* got 2"),
    (([2, 3], np.ones((2, 2)), [0, -1]), ValueError, "got -1"),
    (([2, 3], np.ones((2, 2)), [0, 1, 0]), ValueError, "3 entries of series for 2 rows"),
    (([2, 3], np.ones((2, 2)), ["a", "b"]), TypeError, "whole numbers"),
    (([2, 3], [["a", 1], [1, 2]]), TypeError, "values must be numbers"),
    ((["a", "b"], np.ones((2, 2))), TypeError, "times must be numbers"),
]


@pytest.mark.parametrize(("arguments", "kind", "message"), FAULTS, ids=[f[2] for f in FAULTS])
@pytest.mark.parametrize("name", ["polyode", "hippo"])
def test_fault_is_named_and_leaves_the_stream_as_it_was(name, arguments, kind, message):
    stream = fitted(name).stream(2).update([0.0, 1.0], np.ones((2, 2)))
    before = snapshot(stream)
    with pytest.raises(kind, match=message):
        stream.update(*arguments)
    assert snapshot(stream) == before


def test_many_faults_are_counted_and_the_first_are_shown():
    stream = fitted("hippo").stream().update(5.0, [1, 2])
    with pytest.raises(ValueError, match=r"(?s)100 faults.*and 90 more.*the stream is as it was"):
        stream.update(np.linspace(0, 4, 100), np.ones((100, 2)))


def test_failure_in_the_middle_leaves_the_stream_as_it_was(monkeypatch):
    stream = fitted("polyode").stream(oscillators(3))
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
    stream = fitted("polyode").stream(oscillators(2))
    with pytest.raises(ValueError, match="before its last observation"):
        stream.forecast([0.0])
    with pytest.raises(ValueError, match="outside"):
        stream.reconstruct([100.0])


@pytest.mark.parametrize("keep", ["save", "pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("name", ["polyode", "polyode legs", "hippo"])
def test_kept_stream_goes_on_as_it_would_have(name, keep, tmp_path):
    static = pd.DataFrame({"ward": ["a", "b", None], "age": [1, 2, 3]})
    X = Panel.from_series(oscillators(3), ids=["x", "y", "z"], static=static)
    stream = fitted(name).stream(X)
    if keep == "save":
        stream.save(tmp_path / "stream.safetensors")
        again = skpolyode.load(tmp_path / "stream.safetensors")
    else:
        again = (
            pickle.loads(pickle.dumps(stream)) if keep == "pickle" else getattr(copy, keep)(stream)
        )
    assert repr(again) == repr(stream)
    untouched = again.embedding()
    stream.update(9.0, np.ones((3, 2)))
    assert np.array_equal(again.embedding(), untouched)
    again.update(9.0, np.ones((3, 2)))
    assert np.array_equal(again.embedding(), stream.embedding())
    assert again.reconstruct([9.0]).equals(stream.reconstruct([9.0]))


def test_datetimes_and_zones_are_kept_in_a_file(tmp_path):
    index = pd.date_range("2024-03-30", periods=6, freq="7h", tz="Europe/Rome")
    stream = small().fit([pd.DataFrame({"a": np.arange(6.0)}, index=index)]).stream()
    stream.update(index, np.arange(6.0))
    stream.save(tmp_path / "stream")
    again = skpolyode.load(tmp_path / "stream")
    later = index[-1:] + pd.Timedelta("3h")
    assert again.forecast(later).equals(stream.forecast(later))
    assert again.last_times.equals(stream.last_times)


def test_kept_stream_is_of_the_same_size_after_any_number_of_observations(tmp_path):
    stream = fitted("polyode").stream(3)
    sizes = set()
    for start in (0, 10, 20):
        times = start + np.arange(10.0)
        stream.update(np.tile(times, 3), np.ones((30, 2)), np.repeat([0, 1, 2], 10))
        stream.save(tmp_path / "stream")
        sizes.add((tmp_path / "stream").stat().st_size // 64)
    assert len(sizes) == 1


def test_stream_does_not_change_with_its_transformer():
    transformer = small(warm_start=True).fit(oscillators())
    stream = transformer.stream(oscillators(3))
    before = stream.embedding()
    transformer.fit(oscillators(seed=1))
    assert np.array_equal(stream.embedding(), before)
    stream.update(9.0, np.ones((3, 2)))


def test_stream_tells_what_it_is():
    text = repr(fitted("hippo").stream(4).update(1.0, np.ones((4, 2))))
    assert text == "HiPPOStream(4 series, 4 observations)"
