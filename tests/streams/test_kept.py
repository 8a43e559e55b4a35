"""A stream that was saved, pickled or copied goes on as it would have."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

import skpolyode
from skpolyode import Panel
from tests.streams.cases import fitted
from tests.transformers.data import short_oscillators, small


@pytest.mark.parametrize("keep", ["save", "pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("name", ["polyode", "polyode legs", "hippo"])
def test_kept_stream_goes_on_as_it_would_have(name, keep, tmp_path):
    static = pd.DataFrame({"ward": ["a", "b", None], "age": [1, 2, 3]}, index=list("xyz"))
    X = Panel.from_series(short_oscillators(3), ids=["x", "y", "z"], static=static)
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
