"""sktime's own checks of a transformer, all of them."""

from __future__ import annotations

import pytest
from sktime.utils.estimator_checks import check_estimator, parametrize_with_checks

from skpolyode.adapters import SeriesFeatures, SeriesResampler


@pytest.mark.usefixtures("no_stacking")
@parametrize_with_checks([SeriesFeatures, SeriesResampler])
def test_sktime_check(obj, test_name):
    check_estimator(obj, tests_to_run=test_name, raise_exceptions=True, verbose=False)
