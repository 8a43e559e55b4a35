"""Parameters that are lengths of time are numbers, or beside datetimes durations of any kind."""

from __future__ import annotations

import datetime
from functools import cache

import numpy as np
import pandas as pd
import pytest

import skpolyode
from skpolyode import (
    HiPPORNNTransformer,
    HiPPOTransformer,
    InterpolationTransformer,
    Panel,
    PastDecoder,
    PolyODETransformer,
    Resampler,
    S4Transformer,
)
from skpolyode.forecasting import PolyODEForecaster, evaluate_forecasts
from skpolyode.panel.query import read_duration
from skpolyode.structural import StructuralForecaster

rng = np.random.default_rng(0)
HOURS = pd.date_range("2024-01-01", periods=20, freq="h")
PANEL = Panel.from_series([(HOURS, rng.normal(size=20)) for _ in range(6)], time_unit="h")
DURATIONS = ["5h", pd.Timedelta("5h"), np.timedelta64(300, "m"), datetime.timedelta(hours=5), 5.0]
SMALL = {"n_coefficients": 4, "max_epochs": 1, "random_state": 0}

pytestmark = pytest.mark.filterwarnings("ignore:.*thing was learned in")


@pytest.mark.parametrize("unit", ["us", "s", "min", "h", "D"])
@pytest.mark.parametrize("value", DURATIONS[:-1])
def test_durations_in_every_unit(value, unit):
    expected = pd.Timedelta("5h") / pd.Timedelta(1, unit)
    assert read_duration("window", value, unit) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    "value", ["5", "", "NaT", "-5h", "5 furlongs", 0, -1.0, True, np.inf, None, []]
)
def test_what_is_no_duration(value):
    with pytest.raises(ValueError, match="every must be a positive length of time"):
        read_duration("every", value, "h")


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize("value", DURATIONS)
def test_every_parameter_that_is_a_length(value, tmp_path):
    assert HiPPOTransformer(n_coefficients=4, window=value).fit(PANEL).window_ == 5.0
    lengths = dict.fromkeys(("window", "context", "step_size"), value)
    model = PolyODETransformer(**SMALL, **lengths).fit(PANEL)
    assert (model.window_, model.context_, model.step_size_) == (5.0, 5.0, 5.0)
    model.save(tmp_path / "model.safetensors")
    again = skpolyode.load(tmp_path / "model.safetensors")
    assert again.get_params() == model.get_params()
    assert type(again.window) is type(value)
    decoder = PastDecoder(HiPPOTransformer(n_coefficients=4), window=value, **SMALL)
    assert decoder.fit(PANEL).window_ == 5.0
    resampler = Resampler(InterpolationTransformer(), every=value).fit(PANEL)
    assert (resampler.grid_ / pd.Timedelta("1h")).tolist() == [0.0, 5.0, 10.0, 15.0]
    for cls in (HiPPORNNTransformer, S4Transformer):
        np.testing.assert_array_equal(embedding(cls, value), embedding(cls, 5.0))


@cache
def embedding(cls, window):
    own = {"memory": True} if cls is S4Transformer else {}
    return cls(window=window, max_epochs=1, random_state=0, **own).fit(PANEL).transform(PANEL)


def test_a_window_that_no_series_has_is_refused_by_siblings():
    for cls in (HiPPORNNTransformer,):
        with pytest.raises(ValueError, match=r"window=1e\+300 is .* as long as the longest"):
            cls(window=1e300, max_epochs=1).fit(PANEL)


@pytest.mark.parametrize("period", ["6h", pd.Timedelta("6h"), ["6h", 43200.0]])
def test_periods_of_a_forecaster(period):
    y = pd.Series(rng.normal(size=40), index=pd.date_range("2024", periods=40, freq="h"))
    forecaster = PolyODEForecaster(PolyODETransformer(**SMALL), period=period, random_state=0)
    transformer = forecaster.fit(y).transformer_
    periods = transformer.embedder_.stacking.each["mixed"].periods
    found = {period * transformer.time_scale_ for period in periods}
    assert found
    assert found <= ({21600.0, 43200.0} if isinstance(period, list) else {21600.0})
    assert forecaster.period is period


def test_leads_may_be_text():
    model = InterpolationTransformer(n_coefficients=4).fit(PANEL)
    asked = model.interpolate(PANEL, ["-90min", "2h"], relative_to="end")
    stamps = [HOURS[-1] - pd.Timedelta("90min"), HOURS[-1] + pd.Timedelta("2h")]
    assert list(asked.user_times()) == stamps * 6
    for wrong in ("soon", "5"):
        match = rf"times must be timedeltas, or text with a unit, .*, got \['{wrong}'\]"
        with pytest.raises(ValueError, match=match):
            model.interpolate(PANEL, wrong, relative_to="end")


@pytest.mark.usefixtures("no_stacking")
def test_very_small_steps_warn_of_their_cost():
    match = r"step_size=0\.01 makes 100 integration steps in a typical gap of 1: .* times as long"
    with pytest.warns(UserWarning, match=match):
        PolyODETransformer(step_size=0.01, horizon=1, **SMALL).fit(PANEL[:2])


@pytest.mark.usefixtures("no_stacking")
def test_more_coefficients_than_rows_are_refused_where_they_take_seconds():
    with pytest.raises(ValueError, match=r"=257 is too large: HiPPOTransformer takes at most 256"):
        HiPPOTransformer(n_coefficients=257).fit(PANEL)
    long = [(np.arange(3000.0), np.zeros(3000))]
    with pytest.raises(ValueError, match="takes at most 1024"):
        InterpolationTransformer(n_coefficients=1025).fit(long)
    assert InterpolationTransformer(n_coefficients=257).fit(long).window_ == 2999.0


PLAIN = Panel.from_series([(np.arange(20.0), rng.normal(size=20)) for _ in range(12)])


@pytest.mark.parametrize(
    ("estimator", "parameter"),
    [
        (HiPPOTransformer(window="5h"), "window"),
        (PolyODETransformer(context="5h", **SMALL), "context"),
        (PolyODETransformer(step_size="5h", **SMALL), "step_size"),
        (PastDecoder(HiPPOTransformer(n_coefficients=4), window="5h"), "window"),
        (Resampler(InterpolationTransformer(), every="5h"), "every"),
        (StructuralForecaster(period="5h"), "period"),
        (PolyODEForecaster(period=["5h"]), "period"),
    ],
    ids=lambda own: own if isinstance(own, str) else type(own).__name__,
)
def test_a_refused_duration_names_its_class_and_parameter(estimator, parameter):
    """Once, and that of the class that has the parameter."""
    fit = getattr(estimator, "pretrain", estimator.fit)
    with pytest.raises(ValueError, match=f"{parameter} must be .* got '5h', but the t") as caught:
        fit(PLAIN)
    assert str(caught.value).startswith(f"{type(estimator).__name__}: {parameter} must be")


def test_a_duration_inside_another_estimator_names_the_inner_one():
    inner = PolyODETransformer(window="5h", **SMALL)
    for outer in (PolyODEForecaster(inner).pretrain, Resampler(inner, every=1.0).fit):
        with pytest.raises(ValueError, match=r"^PolyODETransformer: window must be"):
            outer(PLAIN)
    with pytest.raises(ValueError, match=r"^HiPPOTransformer: window=1e\+300 is .* as long as"):
        HiPPOTransformer(window=1e300).fit(PLAIN)


def test_structural_models_read_durations():
    series = [(HOURS, np.sin(np.arange(20.0) * np.pi / 3))]
    panel = Panel.from_series(series, time_unit="h")
    later = [HOURS[-1] + pd.Timedelta("90min")]
    found = [
        StructuralForecaster(period=period, random_state=0).fit(panel).forecast(panel, later)
        for period in ("6h", 6.0)
    ]
    np.testing.assert_array_equal(found[0].values, found[1].values)


def test_leads_as_text_beside_plain_numbers_are_told_so():
    model = InterpolationTransformer(n_coefficients=4).fit(PLAIN)
    with pytest.raises(TypeError, match=r"times: give numbers, as the series have; got \['1h'\]"):
        model.interpolate(PLAIN, ["1h"], relative_to="end")


LEADS = [
    pd.to_timedelta([-5, 0], unit="h"),
    np.array([-300, 0], "m8[m]"),
    [pd.Timedelta("-5h"), pd.Timedelta(0)],
    ["-5h", "0h"],
]


@pytest.mark.parametrize("leads", LEADS)
def test_arrays_of_durations_are_read_in_the_unit_of_the_series(leads):
    embedder = HiPPOTransformer(n_coefficients=4).fit(PANEL)
    features = embedder.transform(PANEL)
    found = embedder.inverse_transform(features, times=leads)
    expected = embedder.inverse_transform(features, times=[-5.0, 0.0])
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.times, expected.times)
    resampler = Resampler(InterpolationTransformer(), grid=leads, relative_to="end").fit(PANEL)
    np.testing.assert_array_equal(resampler.grid_, pd.to_timedelta([-5.0, 0.0], unit="h"))


def test_limits_of_leads_may_be_durations():
    model = PolyODETransformer(**SMALL).fit(PANEL)
    tables = [
        evaluate_forecasts(model, PANEL, horizon=horizon)
        for horizon in ([1.0, 4.0], ["1h", "4h"], pd.to_timedelta([1, 4], unit="h"))
    ]
    assert tables[0]["n"].min() > 0
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0])


def test_durations_beside_plain_numbers_are_refused():
    embedder = HiPPOTransformer(n_coefficients=4).fit([(np.arange(5.0), np.arange(5.0))])
    with pytest.raises(TypeError, match="times must be numbers where they are relative"):
        embedder.inverse_transform(np.zeros((1, 4)), times=pd.to_timedelta([0], unit="h"))
