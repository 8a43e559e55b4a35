"""Datetimes of which only those of `fit`, or only the new ones, have a time zone warn, once."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import skpolyode
from skpolyode import (
    HiPPOTransformer,
    InterpolationTransformer,
    Panel,
    PanelImputer,
    PastDecoder,
    PolyODEClassifier,
    PolyODETransformer,
    Resampler,
)
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.structural import StructuralForecaster

ZONES = [None, "Europe/Berlin", "UTC"]
SMALL = {"n_coefficients": 3, "max_epochs": 1, "random_state": 0}
STRUCTURE = "StructuralForecaster was fitted on times in datetimes counted in 'h'"


def panel_of(zone: str | None, n_series: int = 6, unit: str = "h") -> Panel:
    rng = np.random.default_rng(0)
    start = pd.date_range("2024-01-01", periods=12, freq="h", tz=zone)
    series = [(start + pd.Timedelta(hours=k), rng.normal(size=12)) for k in range(n_series)]
    return Panel.from_series(series, time_unit=unit)


def streamed(transformer, panel):
    times, values = panel.to_series()[0]
    stream = transformer.stream(1)
    for time, value in zip(times[:3], values[:3], strict=True):
        stream.update(time, value)
    assert stream.last_times[0] == times[2]


ESTIMATORS = {
    "HiPPO": HiPPOTransformer(n_coefficients=3),
    "PolyODE": PolyODETransformer(**SMALL),
    "imputer": PanelImputer(InterpolationTransformer()),
    "resampler": Resampler(InterpolationTransformer(), every="2h"),
    "decoder": PastDecoder(HiPPOTransformer(n_coefficients=3), max_epochs=1),
    "classifier": PolyODEClassifier(HiPPOTransformer(n_coefficients=3), cv=2),
    "structural": StructuralForecaster(random_state=0),
}
DOORS = [
    ("HiPPO", lambda model, X: model.transform(X)),
    ("HiPPO", lambda model, X: model.stream(X)),
    ("HiPPO", streamed),
    ("PolyODE", lambda model, X: model.forecast(X, ["1h"], relative_to="end")),
    ("PolyODE", lambda model, X: model.interpolate(X, ["-1h"], relative_to="end")),
    ("PolyODE", streamed),
    ("imputer", lambda model, X: model.transform(X)),
    ("resampler", lambda model, X: model.transform(X)),
    ("decoder", lambda model, X: model.transform(X)),
    ("classifier", lambda model, X: model.predict(X)),
    ("structural", lambda model, X: model.forecast(X, ["1h"], relative_to="end")),
]
FITTED: dict = {}


def fitted(name, zone):
    if (name, zone) not in FITTED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            FITTED[name, zone] = clone(ESTIMATORS[name]).fit(panel_of(zone), np.arange(6) % 2)
    return FITTED[name, zone]


def warnings_of(call) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    found = [str(each.message) for each in caught if "time zone" in str(each.message)]
    return sorted(set(found))  # the parts of a classifier use the same words, which are shown once


@pytest.mark.parametrize(("name", "door"), DOORS)
def test_a_panel_with_or_without_a_zone_after_a_fit_on_the_other(name, door, tmp_path):
    for zone in ZONES[:2]:
        model = fitted(name, zone)
        again = pickle.loads(pickle.dumps(model))
        if name != "classifier":  # which cannot be saved
            model.save(tmp_path / "model")
            again = skpolyode.load(tmp_path / "model")
        for each in (model, again):
            for other in ZONES:
                found = warnings_of(lambda: door(each, panel_of(other)))  # noqa: B023
                assert len(found) == ((zone is None) != (other is None)), found
                new = "no time zone" if other is None else f"the time zone {other}"
                assert all(f" have {new}, those of `fit` had" in text for text in found)


def test_forecasts_of_panels_by_a_forecaster():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PolyODEForecaster(PolyODETransformer(**SMALL), random_state=0)
        model.fit(panel_of("UTC", unit="s").to_sktime())
    for zone in ZONES:
        panel = panel_of(zone, unit="s")
        found = warnings_of(lambda: model.forecast(panel, ["1h"], relative_to="end"))  # noqa: B023
        assert len(found) == (zone is None)


def test_a_structural_forecaster_needs_the_unit_of_fit():
    model = fitted("structural", None)
    with pytest.raises(ValueError, match=STRUCTURE):
        model.forecast(panel_of(None, unit="s"), ["1h"], relative_to="end")
    with pytest.raises(ValueError, match=STRUCTURE):
        model.forecast([([0.0, 1.0], [1.0, 2.0])], [1.0], relative_to="end")


def test_times_without_datetimes_have_no_zone():
    model = HiPPOTransformer(n_coefficients=3).fit([([0.0, 1.0], [1.0, 2.0])])
    assert warnings_of(lambda: model.transform([([0.0, 1.0], [1.0, 2.0])])) == []
