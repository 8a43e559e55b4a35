"""Streams under inputs: they answer as the transformer does for all that they know."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

from skpolyode import (
    GRUODEBayesTransformer,
    Inputs,
    ODERNNTransformer,
    Panel,
    PolyODETransformer,
    load,
)

KINDS = {"valve": "hold", "heat": "linear", "dose": "impulse"}
ASKED = np.array([6.2, 7.0, 9.5])


def series(n, rng):
    """Observations, and inputs before, between and after them."""
    found, inputs = [], []
    for _ in range(n):
        t = np.sort(rng.uniform(0, 6, 9))
        knots = np.sort(rng.uniform(-1, 9, 12))
        rows = np.where(rng.random((12, 3)) < 0.6, np.nan, rng.normal(size=(12, 3)))
        found.append((t, np.stack([np.sin(t), np.cos(t)], axis=1) + 0.1 * rng.normal(size=(9, 2))))
        inputs.append((knots, rows))
    return found, Panel.from_series(inputs, channel_names=list(KINDS), empty="keep")


OBSERVED, ROWS = series(8, np.random.default_rng(0))
PANEL = Panel.from_series(OBSERVED, inputs=Inputs(ROWS, KINDS))
KINDS_OF_MODELS = [
    PolyODETransformer(n_coefficients=4, observations="noisy"),
    PolyODETransformer(n_coefficients=4, measure="legs"),
    ODERNNTransformer(hidden_size=4),
    GRUODEBayesTransformer(hidden_size=4),
]


@pytest.fixture(scope="module", params=KINDS_OF_MODELS, ids=lambda model: repr(model)[:40])
def model(request):
    return request.param.set_params(max_epochs=1, random_state=0).fit(PANEL)


def answers(model, panel):
    return model.transform(panel), model.forecast(panel, ASKED).values


def test_all_inputs_first_then_the_observations(model):
    stream = model.stream(8).update(inputs=PANEL.inputs)
    for k in range(9):
        times, values = (np.array([own[i][k] for own in OBSERVED]) for i in (0, 1))
        stream = stream.update(times, values)
    expected = answers(model, PANEL)
    assert np.allclose(stream.embedding(), expected[0], atol=1e-10)
    assert np.allclose(stream.forecast(ASKED).values, expected[1], atol=1e-10)


def test_observations_with_the_inputs_known_by_then(model):
    # Of series 3 alone; the rest of the inputs with the last observation.
    t, x = OBSERVED[3]
    own, split = PANEL[[3]].inputs.panel, t[4] + 1e-3
    parts = [
        Panel.from_series([(own.times[kept], own.values[kept])], channel_names=list(KINDS))
        for kept in (own.times <= split, own.times > split)
    ]
    # A line is known from its next point on: all points of it come first.
    lines = [np.where([False, True, False], part.values, np.nan) for part in parts]
    first = parts[0].values
    early = Panel.from_series(
        [(own.times, np.concatenate([first, lines[1]]))], channel_names=list(KINDS), empty="keep"
    )
    stream = model.stream(1).update(t[:5], x[:5], inputs=Inputs(early, KINDS))
    stream = stream.update(t[5:], x[5:], inputs=Inputs(parts[1], KINDS))
    expected = answers(model, PANEL[[3]])
    assert np.allclose(stream.embedding(), expected[0], atol=1e-10)
    assert np.allclose(stream.forecast(ASKED).values, expected[1], atol=1e-10)


def test_a_stream_goes_on_from_series_and_through_files(model, tmp_path):
    cut = Panel.from_series([(t[:6], x[:6]) for t, x in OBSERVED], inputs=PANEL.inputs)
    stream = model.stream(cut)
    stream.save(tmp_path / "stream")
    stream = load(tmp_path / "stream")
    for k, (t, x) in enumerate(OBSERVED):
        stream = stream.update(t[6:], x[6:], series=k)
    assert np.allclose(stream.embedding(), model.transform(PANEL), atol=1e-10)
    assert np.allclose(stream.forecast(ASKED).values, answers(model, PANEL)[1], atol=1e-10)


def test_inputs_of_the_past_are_refused(model):
    t, x = OBSERVED[0]
    stream = model.stream(1).update(t[:3], x[:3])
    late = Panel.from_series([([t[1]], [[np.nan, np.nan, 1.0]])], channel_names=list(KINDS))
    before = stream.embedding()
    with pytest.raises(ValueError, match=r"inputs that come too late|an input at .* known up to"):
        stream.update(t[3:4], x[3:4], inputs=Inputs(late, KINDS))
    assert np.array_equal(stream.embedding(), before)


def test_inputs_of_no_fit_are_refused():
    plain = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0)
    stream = plain.fit(Panel.from_series(OBSERVED)).stream(8)
    with pytest.raises(ValueError, match="was fitted without any"):
        stream.update(inputs=PANEL.inputs)


def test_datetimes():
    start = pd.Timestamp("2024-01-01", tz="UTC")

    def at(hours):
        return start + pd.to_timedelta(np.round(np.asarray(hours) * 3600), unit="s")

    own = PANEL.inputs.panel
    inputs = Panel.from_series(
        [(at(t), x) for t, x in own], channel_names=list(KINDS), empty="keep", time_unit="h"
    )
    panel = Panel.from_series(
        [(at(t), x) for t, x in OBSERVED], inputs=Inputs(inputs, KINDS), time_unit="h"
    )
    model = PolyODETransformer(n_coefficients=4, max_epochs=2, random_state=0).fit(panel)
    stream = model.stream(8).update(inputs=Inputs(inputs, KINDS))
    for k, (t, x) in enumerate(OBSERVED):
        stream = stream.update(at(t), x, series=k)
    assert np.allclose(stream.embedding(), model.transform(panel), atol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ahead = model.forecast(panel, ["2h", "5h"], relative_to="end").values
    assert np.allclose(stream.forecast(["2h", "5h"], relative_to="end").values, ahead, atol=1e-8)


def test_inputs_that_act_no_more_are_forgotten(model):
    """All of the past takes as much memory as a part of it, whatever comes in."""
    rng, stream, sizes, names = np.random.default_rng(1), model.stream(2), [], list(KINDS)
    for k in range(40):
        # The point that a line leads to comes with the observation before it.
        rows = Panel.from_series(
            [([k + 0.2, k + 0.7], rng.normal(size=(2, 3))), ([k + 0.5], [[1.0, 0.3, k]])],
            channel_names=names,
        )
        stream.update(float(k), rng.normal(size=(2, 2)), inputs=Inputs(rows, KINDS))
        sizes.append(len(pickle.dumps(stream)))
    assert len(set(sizes[2:])) == 1
    stream.update(0.5 + np.arange(40, 44), rng.normal(size=(4, 2)), series=0)
    assert len(pickle.dumps(stream)) < sizes[-1]  # one row, in which all that goes on is said


def test_revisions_under_inputs_replay_them(model):
    stream = model.stream(8, keep=3).update(inputs=PANEL.inputs)
    late = {}
    for k in range(9):
        rows = [(t[k], x[k]) for t, x in OBSERVED]
        if k == 7:
            late = rows
            continue
        stream.update([t for t, _ in rows], [x for _, x in rows])
    stream.insert(np.arange(8), [t for t, _ in late], [x for _, x in late])
    features, forecast = answers(model, PANEL)
    np.testing.assert_allclose(stream.embedding(), features, rtol=0, atol=1e-9)
    np.testing.assert_allclose(stream.forecast(ASKED).values, forecast, rtol=0, atol=1e-8)
