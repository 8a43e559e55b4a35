"""What the forecaster refuses, or warns of, and the remedies that it names."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sktime.exceptions import NotFittedError
from sktime.forecasting.base import ForecastingHorizon

from skpolyode import S4Transformer
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.panel import Panel
from tests.forecasting.conftest import HOUR, START, tiny


def test_before_the_first_observation(forecaster, y):
    early = pd.DatetimeIndex([START - HOUR])
    with pytest.raises(ValueError, match=r"fh asks for 2024-02-29 23:00:00 of instance 0, .*first"):
        forecaster.fit(y).predict(early)


def test_panels_have_a_first_row_too_and_levels_are_probabilities():
    panel = Panel.from_series([([0.0, 1.0], [1.0, 2.0])] * 2, ids=["a", "b"])
    learned = tiny().pretrain(panel)
    with pytest.raises(ValueError, match=r"times of series 'b': 0\.5 before its first row"):
        learned.forecast(panel, [[2.0], [1.5, -0.5]])
    dated = Panel(panel.times, panel.values, panel.offsets, ids=[30, 31], time_unit="h")
    with pytest.raises(ValueError, match=r"series 30: 1969-12-31 22:00:00, 2 h before its first"):
        tiny().pretrain(dated).forecast(dated, pd.Timestamp("1969-12-31 22:00"))
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1, got 1"):
        learned.forecast_quantiles(panel, [2.0], [0.5, 1])


def test_horizons_that_the_index_cannot_carry(forecaster, y):
    with pytest.raises(TypeError, match=r"fh counts \[1, 2\] steps, .*without a frequency"):
        forecaster.fit(y).predict([1, 2])
    with pytest.raises(
        TypeError, match=r"integers .* as absolute times, but y is indexed by a Dat"
    ):
        forecaster.predict(ForecastingHorizon(pd.Index([5]), is_relative=False))
    regular = pd.Series(np.arange(12.0))
    with pytest.raises(TypeError, match="fh holds durations, but y is indexed by a"):
        tiny().fit(regular).predict([HOUR])
    durations = pd.Series(np.arange(12.0), index=pd.to_timedelta(np.arange(12), unit="h"))
    with pytest.raises(TypeError, match="TimedeltaIndex, from which sktime's horizons cannot"):
        tiny().fit(durations)


@pytest.mark.parametrize("make", [pd.Series, lambda x, index: Panel(index, x, [0, len(x)])])
def test_real_times_are_for_panels(make):
    with pytest.raises(TypeError, match=r"use pretrain\(panel\) and forecast\(panel, times\)"):
        tiny().fit(make([1.0, 2.0, 3.0], index=[0.0, 0.5, 1.7]))


def test_empty_horizon(forecaster, y):
    with pytest.raises(ValueError, match="must not be empty"):
        forecaster.fit(y).predict([])


def test_unfitted(y):
    with pytest.raises(NotFittedError, match="has not been fitted"):
        tiny().predict([HOUR])
    with pytest.raises(NotFittedError, match="has not been fitted"):
        tiny().forecast([([0.0, 1.0], [1.0, 2.0])], [2.0])


def test_missing_channels(forecaster, y):
    with pytest.raises(ValueError, match=r"y has the channels \['u'\], but .*\['u', 'v'\]"):
        forecaster.fit(y).update(y[["u"]])
    for wrong in (y[["u"]], y[["v", "u"]], y.rename(columns={"u": "w"})):
        names = re.escape(str(list(wrong.columns)))
        with pytest.raises(ValueError, match=rf"{names}, but .* pretrained on \['u', 'v'\]: give"):
            forecaster.fit(wrong)
    with pytest.raises(ValueError, match="1 channels"):
        forecaster.forecast([([0.0, 1.0], [1.0, 2.0])], [2.0])


def test_unknown_instance_of_residuals(forecaster, y):
    with pytest.raises(ValueError, match=r"instances \[2\] are not known"):
        forecaster.fit(y.loc[[0, 1]]).predict_residuals(y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"calibration_fraction": 1.0}, "calibration_fraction must be between 0 and 1, got 1.0"),
        ({"update_epochs": -1}, "update_epochs must not be negative, got -1"),
        ({"horizon": 0}, "'horizon' parameter"),
    ],
)
def test_parameters_out_of_range(y, options, message):
    with pytest.raises(ValueError, match=message):
        tiny(**options).fit(y)


def test_repeated_rows_are_refused_and_the_remedy_helps(forecaster, y):
    doubled = pd.concat([y + 1, y - 1]).sort_index(level=["who", "when"])
    message = rf"rows of equal instance and time \({len(y)} .*y\.groupby\(level=\[0, 1\]\)\.mean"
    with pytest.raises(ValueError, match=message):
        forecaster.fit(doubled)
    with pytest.raises(ValueError, match=message):
        tiny().pretrain(doubled)
    merged = forecaster.fit(doubled.groupby(level=[0, 1]).mean()).predict([HOUR])
    pd.testing.assert_frame_equal(merged, forecaster.fit(y).predict([HOUR]))
    with pytest.raises(ValueError, match="y has rows of equal instance and time"):
        forecaster.update(doubled, update_params=False)
    own = doubled.loc[0]
    with pytest.raises(ValueError, match=r"equal time .*2024-.*y\.groupby\(level=\[0\]\)"):
        forecaster.fit(own)
    pd.testing.assert_frame_equal(
        forecaster.fit(own.groupby(level=[0]).mean()).predict([HOUR]),
        forecaster.fit(y.loc[0]).predict([HOUR]),
    )


@pytest.mark.parametrize("method", ["fit", "pretrain"])
def test_exogenous_series_are_not_ignored_without_a_word(y, method):
    forecaster = PolyODEForecaster(S4Transformer(hidden_size=4, max_epochs=1), random_state=0)
    with pytest.warns(UserWarning, match="does not use exogenous series: X is ignored"):
        getattr(forecaster, method)(y, X=y)
