"""scikit-learn's own checks, the public ones and those it runs only on its own estimators."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from sklearn.base import clone
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.fits import train_once
from tests.quick import no_stacking
from tests.transformers.registry import all_transformers

TRANSFORMERS = all_transformers()
STACKED = ("HiPPOTransformer",)


@pytest.fixture(autouse=True)
def quick(request):
    """How forecasts are combined is learned in the same way for all: one of them does it here."""
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    name = params.get("name", type(params.get("estimator")).__name__)
    with nullcontext() if name in STACKED else no_stacking():
        yield


# scikit-learn runs these on itself only; set_output and feature names depend on them.
UNLISTED = [
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_dataframe_column_names_consistency",
    "check_inplace_ensure_writeable",
]


@parametrize_with_checks(list(TRANSFORMERS.values()))
def test_scikit_learn_check(estimator, check):
    check(estimator)


TRAINED: dict[bytes, bytes] = {}


# These checks mix frames and arrays, of which scikit-learn itself warns.
@pytest.mark.filterwarnings("ignore:X .*feature names:UserWarning")
@pytest.mark.parametrize("check", UNLISTED)
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_unlisted_check(name, check, monkeypatch):
    # All but one, which looks at what a fit writes to, look at tables and names.
    learned = None if "inplace" in check else TRAINED
    train_once(monkeypatch, type(TRANSFORMERS[name]), "_fit", learned)
    getattr(estimator_checks, check)(name, clone(TRANSFORMERS[name]))


def test_the_suite_of_checks_is_the_whole_one():
    """Tags like two_d_array=False would skip nearly all checks without a word."""
    for transformer in TRANSFORMERS.values():
        checks = list(estimator_checks.estimator_checks_generator(transformer))
        assert len(checks) > 40
        tags = transformer.__sklearn_tags__()
        assert tags.input_tags.allow_nan
        assert tags.input_tags.three_d_array
        assert not tags.non_deterministic
