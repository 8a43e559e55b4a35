"""What may come of a call: a result with finite numbers, or one clear error from this package."""

from __future__ import annotations

import copy
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

import skpolyode
from skpolyode import Panel

_RAISERS = (str(Path(skpolyode.__file__).parent), "/sklearn/utils/", "/sklearn/base.py", "/sktime/")


def judge(call: Callable[[Any], Any], given: Any) -> Any:
    """Finite result of a call, or None after a documented error; anything else is a failure."""
    result = accepted(call, given)
    if result is not None:
        assert_finite(result)
    return result


def accepted(call: Callable[[Any], Any], given: Any) -> Any:
    """As :func:`judge`, but the result need not be numbers.

    Warnings are errors, but for those of a training that did not converge, or lacked channels or
    changes, of faulty cells, and of arrays that can be read in another way.
    """
    before = copy.deepcopy(given)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", "no channel ever changes")
            warnings.filterwarnings("ignore", "the channels .* were never observed")
            warnings.filterwarnings("ignore", "the channels .* have one value throughout fit")
            warnings.filterwarnings("ignore", "the typical gap between rows of X")
            warnings.filterwarnings("ignore", r"[\s\S]*far from (all )?others")
            warnings.filterwarnings("ignore", r".* is read as \(time, channel\)")
            result = call(given)
    except (ValueError, TypeError) as error:
        assert_documented(error)
        result = None
    assert_same(given, before)
    return result


def assert_documented(error: Exception) -> None:
    """It says something, and was raised on purpose: here or in the checks of our neighbours."""
    place = traceback.extract_tb(error.__traceback__)[-1].filename
    assert any(raiser in place for raiser in _RAISERS), f"{place}: {error!r}"
    assert len(str(error)) > 20


def assert_finite(result: Any) -> None:
    if isinstance(result, Panel):
        result = result.values
    assert np.isfinite(np.asarray(result, dtype=np.float64)).all(), result


def assert_same(one: Any, other: Any) -> None:
    """What the user gave is what it was."""
    assert type(one) is type(other)
    if isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif isinstance(one, Panel):
        for name in ("times", "values", "offsets"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    elif isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
    elif np.asarray(one).dtype == object:  # NaN among objects does not equal itself
        assert repr(np.asarray(one).tolist()) == repr(np.asarray(other).tolist())
    else:
        np.testing.assert_array_equal(one, other)
