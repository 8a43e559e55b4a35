"""Training that is asked for again, with equal parameters and data, is done once."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

# Checks of sktime that ask what a fit does to its own parameters, or whether a second one does the
# same as the first.
LOOK_AT_TRAINING = ("test_fit_does_not_overwrite_hyper_params", "test_fit_idempotent")


def train_once(
    monkeypatch: pytest.MonkeyPatch,
    cls: type,
    method: str,
    learned: dict[bytes, bytes] | None = None,
) -> None:
    """Let a method of `cls` that trains do so once for equal parameters and data.

    Later calls in this test, or in all tests that hand in the same `learned`, set the attributes
    that the first one set, each time as copies. For checks of scikit-learn and sktime, which fit
    the same estimator to the same data over and over; not for those that ask whether a second fit
    gives the same.
    """
    train = getattr(cls, method)
    learned = {} if learned is None else learned

    def remembered(self: Any, *args: Any, **options: Any) -> Any:
        key = pickle.dumps((type(self), self.get_params(deep=False), args, options))
        if key not in learned:
            before = dict(vars(self))
            result = train(self, *args, **options)
            after = {k: v for k, v in vars(self).items() if k not in before or before[k] is not v}
            learned[key] = pickle.dumps((after, None if result is self else result))
            return result
        after, result = pickle.loads(learned[key])
        vars(self).update(after)
        return result

    monkeypatch.setattr(cls, method, remembered)
