"""scikit-learn's checks of classifiers and regressors."""

from __future__ import annotations

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from skpolyode import InterpolationTransformer, PolyODEClassifier, PolyODERegressor

EMBEDDER = InterpolationTransformer(n_coefficients=8)
ESTIMATORS = [
    PolyODEClassifier(EMBEDDER, features="coefficients", cv=2),
    PolyODERegressor(EMBEDDER, features="coefficients", cv=2),
]


def expected_to_fail(estimator):
    """Folds and the embedder depend on how often a series occurs, not on its weight alone."""
    return {"check_sample_weight_equivalence_on_dense_data": "folds are of series, not of weights"}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_to_fail)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_the_suite_of_checks_is_the_whole_one():
    for estimator in ESTIMATORS:
        assert len(list(estimator_checks.estimator_checks_generator(estimator))) > 45
        assert not estimator.__sklearn_tags__().non_deterministic


# Frames and arrays are mixed, of which scikit-learn itself warns.
@pytest.mark.filterwarnings("ignore:X .*feature names:UserWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda x: type(x).__name__)
def test_names_of_columns_are_checked(estimator):
    name = type(estimator).__name__
    estimator_checks.check_dataframe_column_names_consistency(name, estimator)
