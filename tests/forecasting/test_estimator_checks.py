"""sktime's own checks of a forecaster, all of them."""

from __future__ import annotations

import pytest
from sktime.utils.estimator_checks import check_estimator, parametrize_with_checks

from skpolyode.forecasting import PolyODEForecaster

pytestmark = [
    # Its distributions live in skpro; without it, it warns and uses one of its own.
    pytest.mark.filterwarnings("ignore:Forecasters' predict_proba requires skpro:UserWarning"),
    # The checks hand exogenous series to every forecaster.
    pytest.mark.filterwarnings("ignore:PolyODEForecaster does not use exogenous series"),
    # pandas, about the call of concat by which update_predict joins its answers.
    pytest.mark.filterwarnings("ignore:Sorting by default when concatenating all DatetimeIndex"),
]


@parametrize_with_checks([PolyODEForecaster])
def test_sktime_check(obj, test_name):
    check_estimator(obj, tests_to_run=test_name, raise_exceptions=True, verbose=False)
