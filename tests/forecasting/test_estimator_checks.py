"""sktime's own checks of a forecaster, all of them."""

from __future__ import annotations

import pytest
from sklearn.utils import check_random_state
from sktime.utils._testing import hierarchical, series
from sktime.utils.estimator_checks import check_estimator, parametrize_with_checks

from skpolyode.forecasting import PolyODEForecaster
from tests.fits import LOOK_AT_TRAINING, train_once

pytestmark = [
    # Its distributions live in skpro; without it, it warns and uses one of its own.
    pytest.mark.filterwarnings("ignore:Forecasters' predict_proba requires skpro:UserWarning"),
    # Some checks hand the forecaster X of the past alone.
    pytest.mark.filterwarnings("ignore:of . series, the first of which is .*, no input is known"),
    # pandas, about the call of concat by which update_predict joins its answers.
    pytest.mark.filterwarnings("ignore:Sorting by default when concatenating all DatetimeIndex"),
]


TRAINED: dict[bytes, bytes] = {}


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    """sktime draws its series from the global generator: other ones at each run and each call."""
    for data in (series, hierarchical):
        monkeypatch.setattr(data, "check_random_state", lambda seed: check_random_state(seed or 0))


@parametrize_with_checks([PolyODEForecaster])
def test_sktime_check(obj, test_name, monkeypatch):
    # Most checks fit the same series, many of them once a horizon, to look at something else.
    if test_name not in LOOK_AT_TRAINING:
        train_once(monkeypatch, PolyODEForecaster, "_train", TRAINED)
    # The first parameters for tests do all that the others do, and more.
    check_estimator(
        obj.create_test_instance(), tests_to_run=test_name, raise_exceptions=True, verbose=False
    )
