"""Folds spread targets evenly, whatever the classes."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode.heads.contest import spread_folds


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


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("keep_single", [True, False])
def test_groups_are_tested_together(seed, keep_single):
    groups = np.repeat(np.arange(12), [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4])
    y = np.where(groups % 2, 1.0, 0.0)
    y[groups == 11] = 2.0  # a class of one group
    order = np.random.default_rng(seed).permutation(len(y))
    y, groups = y[order], groups[order]
    random_state = np.random.RandomState(seed)
    folds = spread_folds(y, 3, random_state, keep_single=keep_single, groups=groups)
    assert len(folds) == 3
    for train, test in folds:
        assert not set(groups[train]) & set(groups[test])
        assert {0.0, 1.0} <= set(y[test])
        if keep_single:
            assert set(y[train]) == {0.0, 1.0, 2.0}
    tested = set(groups[np.concatenate([test for _, test in folds])])
    assert tested == set(range(11 if keep_single else 12))


@pytest.mark.parametrize("seed", range(12))
def test_no_training_part_lacks_a_class_of_mixed_groups(seed):
    y, groups = np.array([0, 1, 2, 0, 1, 2, 0, 1]), np.array([0, 0, 0, 1, 1, 1, 2, 2])
    folds = spread_folds(y, 2, np.random.RandomState(seed), keep_single=True, groups=groups)
    assert all(set(y[train]) == {0, 1, 2} for train, _ in folds)


def test_groups_of_one_are_no_groups():
    y = np.random.default_rng(0).integers(0, 3, 20)
    plain = spread_folds(y, 4, rng(), keep_single=True)
    alone = spread_folds(y, 4, rng(), keep_single=True, groups=np.arange(20) + 7)
    for one, other in zip(plain, alone, strict=True):
        np.testing.assert_array_equal(one[1], other[1])
