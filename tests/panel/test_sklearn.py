"""A panel goes through scikit-learn's splitters like any array."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.utils import _safe_indexing, resample, shuffle
from sklearn.utils.validation import _num_samples, check_consistent_length

from skpolyode.panel import Panel, as_panel


@pytest.fixture
def panel() -> Panel:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 6, 20)
    series = [(np.arange(n), np.full((n, 2), i)) for i, n in enumerate(lengths)]
    return Panel.from_series(
        series, ids=[f"s{i}" for i in range(20)], static=np.arange(20)[:, None]
    )


def numbers(panel: Panel) -> list[int]:
    """The number of each series, which all its values, its id and its static row repeat."""
    found = panel.values[panel.offsets[:-1], 0].astype(int).tolist()
    assert [f"s{i}" for i in found] == panel.ids.tolist()
    assert panel.static[0].tolist() == found
    return found


class FirstValue(ClassifierMixin, BaseEstimator):
    """Tells the parity of the first value; checks that it is handed a panel."""

    def __init__(self, flip=False):
        self.flip = flip

    def fit(self, X, y):
        assert isinstance(X, Panel)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        panel = as_panel(X)
        return (panel.values[panel.offsets[:-1], 0] % 2).astype(int) ^ int(self.flip)


def test_lengths(panel):
    assert _num_samples(panel) == 20
    check_consistent_length(panel, np.zeros(20))


@pytest.mark.parametrize("key", [[3, 1], np.array([3, 1]), slice(2, 4), np.arange(20) % 2 == 0])
def test_safe_indexing(panel, key):
    part = _safe_indexing(panel, key)
    assert isinstance(part, Panel)
    assert numbers(part) == np.arange(20)[key].tolist()


def test_splits(panel):
    y = np.arange(20)
    train, test, y_train, y_test = train_test_split(panel, y, random_state=0)
    assert numbers(train) == y_train.tolist()
    assert numbers(test) == y_test.tolist()
    assert sorted(numbers(train) + numbers(test)) == y.tolist()
    for splitter in (KFold(4), StratifiedKFold(4), GroupKFold(4)):
        seen = []
        groups = y // 2 if isinstance(splitter, GroupKFold) else None
        for _, test_rows in splitter.split(panel, y % 2, groups):
            seen += numbers(panel[test_rows])
        assert sorted(seen) == y.tolist()


def test_shuffle_and_resample(panel):
    mixed, y = shuffle(panel, np.arange(20), random_state=0)
    assert numbers(mixed) == y.tolist()
    drawn = resample(panel, n_samples=30, random_state=0)
    assert len(numbers(drawn)) == 30
    assert as_panel(drawn) is drawn


def test_cross_validation(panel):
    y = np.arange(20) % 2
    assert cross_val_score(FirstValue(), panel, y, cv=4).tolist() == [1.0] * 4
    assert cross_val_predict(FirstValue(), panel, y, cv=4).tolist() == y.tolist()
    search = GridSearchCV(FirstValue(), {"flip": [False, True]}, cv=3).fit(panel, y)
    assert search.best_params_ == {"flip": False}
