"""Folds spread targets evenly, whatever the classes."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode.heads.folds import spread_folds


def rng() -> np.random.RandomState:
    return np.random.RandomState(0)


def test_classes_are_spread_evenly():
    y = np.repeat(list("aabc"), 10)
    folds = spread_folds(y, 5, rng(), keep_single=True)
    assert len(folds) == 5
    for train, test in folds:
        assert not set(train) & set(test)
        assert len(train) + len(test) == len(y)
        assert [np.sum(y[test] == label) for label in "abc"] == [4, 2, 2]
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(len(y)))


@pytest.mark.parametrize("n_folds", [2, 5, 50])
def test_no_training_part_lacks_a_class(n_folds):
    y = np.array(["a"] * 7 + ["b"] * 2 + ["c"])
    folds = spread_folds(y, n_folds, rng(), keep_single=True)
    assert len(folds) == min(n_folds, 9)
    assert all(set(y[train]) == {"a", "b", "c"} for train, _ in folds)
    assert 9 not in np.concatenate([test for _, test in folds])


def test_numbers_are_spread_over_their_range():
    y = np.random.default_rng(0).normal(size=50)
    means = [y[test].mean() for _, test in spread_folds(y, 5, rng(), keep_single=False)]
    plain = [part.mean() for part in np.split(y, 5)]
    assert np.std(means) < np.std(plain) / 2


@pytest.mark.parametrize("y", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_nothing_to_test(y):
    assert spread_folds(np.array(y), 5, rng(), keep_single=True) == []
