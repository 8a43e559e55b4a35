"""Transformers that are given what acts on series."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skpolyode import (
    HiPPOTransformer,
    Inputs,
    Panel,
    PanelImputer,
    PolyODEClassifier,
    PolyODETransformer,
    S4Transformer,
    load,
)
from skpolyode.embedders import model as of_model
from skpolyode.panel.select import keep_rows
from skpolyode.transformers import polyode
from tests.streams.test_inputs import KINDS, OBSERVED, ROWS

PANEL = Panel.from_series(OBSERVED, inputs=Inputs(ROWS, KINDS))
PLAIN = Panel.from_series(OBSERVED)
ASKED = [6.2, 7.0, 9.5]
SMALL = {"n_coefficients": 4, "max_epochs": 2, "random_state": 0}
UNKNOWN = "no input is known after the last observation"


def moved(factor, shift=0.0):
    rows = Panel(ROWS.times, ROWS.values * factor + shift, ROWS.offsets, channel_names=list(KINDS))
    return Panel.from_series(OBSERVED, inputs=Inputs(rows, KINDS))


@pytest.fixture(scope="module")
def model():
    return PolyODETransformer(**SMALL).fit(PANEL)


def test_inputs_change_every_answer(model):
    louder = moved(3.0)
    for answer in (
        model.transform,
        model.score_samples,
        lambda X: model.residuals(X).values,
        lambda X: model.forecast(X, ASKED, combine=False).values,
        lambda X: model.interpolate(X, [2.0, 4.0]).values,
    ):
        one, other = answer(PANEL), answer(louder)
        assert one.shape == other.shape
        assert not np.allclose(one, other, equal_nan=True)


@pytest.mark.usefixtures("no_stacking")
def test_inputs_have_units_of_their_own(model):
    units = np.array([1e3, 1e-4, 50.0]), np.array([273.0, -7.0, 0.0])
    other = PolyODETransformer(**SMALL).fit(moved(*units))
    expected = model.forecast(PANEL, ASKED, combine=False).values
    found = other.forecast(moved(*units), ASKED, combine=False).values
    assert np.allclose(found, expected, atol=1e-3)


def test_future_inputs_may_be_given_with_the_question(model):
    own = PANEL.inputs.panel
    end = np.repeat([t[-1] for t, _ in OBSERVED], own.lengths)
    past = Panel.from_series(OBSERVED, inputs=Inputs(keep_rows(own, own.times <= end), KINDS))
    ahead = keep_rows(own, own.times > end)
    expected = model.forecast(PANEL, ASKED, combine=False).values
    for inputs in (Inputs(ahead, KINDS), Inputs(own, KINDS)):
        assert np.array_equal(
            model.forecast(past, ASKED, combine=False, inputs=inputs).values, expected
        )
    with pytest.warns(UserWarning, match=rf"of 8 series, the first of which is 0, {UNKNOWN}"):
        alone = model.forecast(past, ASKED, combine=False).values
    assert not np.allclose(alone, expected)
    # What holds is said again, and no impulse is told of: the same, without a warning.
    levels = np.array([[np.nan, np.nan, 0.0]] * 8)
    silent = Panel(np.full(8, 6.0), levels, np.arange(9), channel_names=list(KINDS))
    told = model.forecast(past, ASKED, combine=False, inputs=Inputs(silent, KINDS)).values
    assert np.array_equal(told, alone)


def test_the_order_of_inputs_and_of_series_does_not_matter(model):
    order = [5, 2, 7, 0]
    turned = Inputs(ROWS.select_channels(["dose", "valve", "heat"]), KINDS)
    panel = Panel.from_series(OBSERVED, inputs=turned)[order]
    assert np.allclose(model.transform(panel), model.transform(PANEL)[order], atol=1e-12)


@pytest.mark.usefixtures("no_stacking")
def test_other_inputs_are_refused(model):
    with pytest.raises(ValueError, match=r"X has the inputs \{\}, but the model was fitted with"):
        model.transform(PLAIN)
    other = Panel.from_series(OBSERVED, inputs=Inputs(ROWS, "hold"))
    with pytest.raises(ValueError, match=r"X has the inputs \{'valve': 'hold', 'heat': 'hold'"):
        model.forecast(other, ASKED)
    plain = PolyODETransformer(**SMALL).fit(PLAIN)
    with pytest.raises(ValueError, match="PolyODETransformer was fitted without any"):
        plain.transform(PANEL)
    with pytest.raises(ValueError, match="PolyODETransformer was fitted without any"):
        plain.forecast(PLAIN, ASKED, inputs=Inputs(ROWS, KINDS))


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize("other", [HiPPOTransformer(), S4Transformer(max_epochs=1, hidden_size=4)])
def test_those_that_cannot_use_inputs_warn(other):
    assert not other.uses_inputs
    with pytest.warns(UserWarning, match=r"does not use the inputs \['valve', 'heat', 'dose'\]"):
        other.fit(PANEL)


@pytest.mark.usefixtures("no_stacking")
def test_impulses_need_a_learned_state():
    with pytest.raises(ValueError, match="inputs of the kind 'impulse' move the hidden state"):
        PolyODETransformer(hidden_size=0, **SMALL).fit(PANEL)
    rows = Inputs(ROWS.select_channels(["valve", "heat"]), {"heat": "linear"})
    model = PolyODETransformer(hidden_size=0, **SMALL)
    found = model.fit(Panel.from_series(OBSERVED, inputs=rows)).transform(
        Panel.from_series(OBSERVED, inputs=rows)
    )
    assert np.isfinite(found).all()


@pytest.mark.usefixtures("no_stacking")
def test_files(model, tmp_path):
    model.save(tmp_path / "model")
    same = load(tmp_path / "model")
    assert np.array_equal(same.transform(PANEL), model.transform(PANEL))


def test_fits_with_the_parts_that_fits_may_have(monkeypatch):
    # Noise, how far off paths are, static covariates, and series that only validate.
    sex = pd.DataFrame({"sex": np.arange(8) % 2})
    inputs = Inputs(ROWS, KINDS)
    panel = Panel.from_series(OBSERVED, inputs=inputs, static=sex)
    model = PolyODETransformer(observations="noisy", **SMALL)
    model.fit(panel[:5], validation=panel[5:])
    assert (model.interpolate_std(panel, [2.1, 7.0]).values > 0).all()
    # A long series, which is cut in windows, and in parts.
    monkeypatch.setattr(polyode, "LONG_SERIES", 24)
    monkeypatch.setattr(of_model, "_PART_ROWS", 24)
    times = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(50) * 3600, unit="s")
    doses = Panel.from_series([(times[::7] + pd.Timedelta("20min"), np.ones(8))], time_unit="h")
    long = Panel.from_series(
        [(times, np.sin(np.arange(50)))], time_unit="h", inputs=Inputs(doses, "impulse")
    )
    model = PolyODETransformer(context=3.0, **SMALL).fit(long)
    assert model._rows_to_cut(model.embedder_) == 24
    assert np.isfinite(model.transform(long)).all()
    assert np.isfinite(model.interpolate(long).values).all()


@pytest.mark.usefixtures("no_stacking")
def test_a_classifier_and_an_imputer_hand_them_on():
    embedder = PolyODETransformer(**SMALL)
    head = PolyODEClassifier(embedder, features="coefficients", random_state=0)
    assert head.fit(PANEL, np.arange(8) % 2).predict(PANEL).shape == (8,)
    filled = PanelImputer(embedder).fit(PANEL).transform(PANEL)
    assert filled.inputs.equals(PANEL.inputs)
