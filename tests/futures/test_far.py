"""Forecasts further ahead than `fit` could judge: a warning by every door, and none before."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import skpolyode
from skpolyode import ODERNNTransformer, Panel, PolyODEForecaster, PolyODETransformer
from skpolyode.embedders.base import UNLIKE_FIT

rng, MIDNIGHT = np.random.default_rng(0), pd.Timestamp("2026-01-01")
HOURS = [np.sort(rng.uniform(0, 24, 20)) for _ in range(12)]
DAYS = Panel.from_series(
    [(MIDNIGHT + pd.to_timedelta(t, "h"), np.sin(t / 2 + k)) for k, t in enumerate(HOURS)]
)
PLAIN = Panel.from_series([(t, np.sin(t / 2 + k)) for k, t in enumerate(HOURS)])
FAR = "more than 20 times as far .* compare forecasts with values, which is .*: .*shorter leads"
DOORS = {
    "forecast": lambda model, X, lead: model.forecast(X, [lead], "end"),
    "interval": lambda model, X, lead: model.forecast_interval(X, [lead], relative_to="end"),
    "paths": lambda model, X, lead: model.sample_paths(X, [lead], "end"),
    "crossings": lambda model, X, lead: model.crossing_times(X, 9.0, lead, "end", n_samples=5),
}
OF_STREAMS = {
    "forecast": lambda stream, lead: stream.forecast([lead], relative_to="end"),
    "paths": lambda stream, lead: stream.sample_paths([lead], relative_to="end"),
}


def small(kind=PolyODETransformer):
    return kind(max_epochs=1, random_state=0)


@pytest.fixture(scope="module", params=[PolyODETransformer, ODERNNTransformer, PolyODEForecaster])
def model(request):
    if request.param is PolyODEForecaster:
        return PolyODEForecaster(small(), random_state=0).pretrain(DAYS)
    return small(request.param).fit(DAYS)


@pytest.mark.parametrize("door", DOORS)
def test_every_door_warns(model, door):
    with pytest.warns(UserWarning, match=FAR):
        DOORS[door](model, DAYS, "30 days")
    DOORS[door](model, DAYS, "3 days")  # warnings are errors here


@pytest.mark.parametrize("door", OF_STREAMS)
def test_streams_warn_as_batches_do(door, tmp_path):
    model = small().fit(PLAIN)
    reach = model.embedder_.stacking.leads[-1] * model.time_scale_
    assert 6 < reach < 24  # a part of the series, as long as a day
    model.save(tmp_path / "model.safetensors")
    loaded = skpolyode.load(tmp_path / "model.safetensors")
    for stream in (model.stream(PLAIN), loaded.stream(PLAIN)):
        with pytest.warns(UserWarning, match=FAR) as caught:
            OF_STREAMS[door](stream, 1.01 * UNLIKE_FIT * reach)
        assert len(caught) == 1
        assert re.search(rf"which is {reach:.3g}:", str(caught[0].message))
        OF_STREAMS[door](stream, 0.99 * UNLIKE_FIT * reach)


def test_many_parts_of_one_call_warn_in_the_same_words():
    model = small().fit(DAYS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.average(DAYS, "0h", "3000 days", "end")
    assert len({str(each.message) for each in caught}) == 1
