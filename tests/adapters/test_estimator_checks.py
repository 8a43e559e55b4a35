"""sktime's own checks of a transformer, all of them."""

from __future__ import annotations

import pytest
from sktime.utils.estimator_checks import check_estimator, parametrize_with_checks

from skpolyode.adapters import SeriesFeatures
from tests.fits import LOOK_AT_TRAINING, train_once

TRAINED: dict[bytes, bytes] = {}


@pytest.mark.usefixtures("no_stacking")
@parametrize_with_checks([SeriesFeatures])
def test_sktime_check(obj, test_name, monkeypatch):
    if test_name not in LOOK_AT_TRAINING:
        train_once(monkeypatch, SeriesFeatures, "_fit", TRAINED)
    # The adapted transformer is the same to the adapter: the first parameters are enough.
    check_estimator(
        obj.create_test_instance(), tests_to_run=test_name, raise_exceptions=True, verbose=False
    )
