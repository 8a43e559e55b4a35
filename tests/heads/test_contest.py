"""Scores become probabilities that are as sure as they are right, and blends take what helps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.calibration import calibration_curve
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import log_loss, r2_score

from skpolyode.heads.contest import (
    BlendedClassifier,
    BlendedRegressor,
    Competitor,
    Contest,
    class_scores,
)


def dealt(n_rows, n_folds=5, seed=0):
    fold = np.random.default_rng(seed).permutation(n_rows) % n_folds
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


def in_order(contest, values):
    """Values of the rows in the order of the test parts."""
    return values[np.concatenate([test for _, test in contest.folds])]


def drawn(chances, rng):
    return (rng.random(len(chances))[:, None] > chances.cumsum(axis=1)).sum(axis=1)


@pytest.mark.parametrize("temperature", [0.2, 1.0, 5.0])
def test_the_temperature_of_scores_is_found_again(temperature):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(20_000, 3)) * temperature
    contest = Contest(
        drawn(softmax(scores / temperature, axis=1), rng), [dealt(20_000)], None, True
    )
    [weight], _ = contest.weights_of([in_order(contest, scores)])
    assert 1 / weight == pytest.approx(temperature, rel=0.05)


def test_scores_without_an_error_are_not_certain():
    """The fewer there are, the less."""
    sure = []
    for n_series in (4, 400):
        label = np.arange(n_series) % 2
        scores = np.column_stack([1 - label, label]).astype(float)
        contest = Contest(label, [dealt(n_series, 2)], None, True)
        [weight], _ = contest.weights_of([in_order(contest, scores)])
        sure.append(softmax(weight * scores, axis=1).max())
    assert 0.8 < sure[0] < 0.9
    assert 0.99 < sure[1] < 1


def test_weights_of_a_blend_are_found_again_and_what_says_nothing_gets_none():
    rng = np.random.default_rng(1)
    parts = rng.normal(size=(3, 30_000, 3))
    label = drawn(softmax(0.5 * parts[0] + 2.0 * parts[1] + [0.0, 1.0, -0.5], axis=1), rng)
    weights = rng.uniform(0.5, 2, len(label))
    contest = Contest(label, [dealt(len(label))], weights, True)
    found, constants = contest.weights_of([in_order(contest, part) for part in parts])
    np.testing.assert_allclose(found, [0.5, 2.0, 0.0], atol=0.06)
    np.testing.assert_allclose(constants - constants[0], [0.0, 1.0, -0.5], atol=0.1)


def test_numbers_are_blended_as_by_least_squares_without_negative_weights():
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(300, 3))
    target = 3 + Z @ [0.5, 2.0, -1.0] + rng.normal(size=300)
    weights = rng.uniform(0.5, 2, 300)
    contest = Contest(target, [dealt(300)], weights, False)
    found, _ = contest.weights_of([in_order(contest, z[:, None]) for z in Z.T])
    wanted = LinearRegression(positive=True, fit_intercept=False)
    wanted.fit(in_order(contest, Z), contest.truth[:, 0], sample_weight=in_order(contest, weights))
    np.testing.assert_allclose(found, wanted.coef_, atol=1e-6)
    assert found[2] == 0


def test_scores_are_those_of_scikit_learn():
    rng = np.random.default_rng(3)
    Z, weights = rng.normal(size=(200, 4)), rng.uniform(0.5, 2, 200)
    label = (Z[:, 0] + rng.normal(size=200) > 0).astype(int)
    contest = Contest(label, [dealt(200)], weights, True)
    answers = contest.answers(LogisticRegression(), Z)
    found = contest.scores(answers)
    for k, (train, test) in enumerate(contest.folds):
        head = LogisticRegression().fit(Z[train], label[train], sample_weight=weights[train])
        chances = head.predict_proba(Z[test])
        expected = log_loss(label[test], chances, sample_weight=weights[test])
        assert -found[k] == pytest.approx(expected, rel=1e-9)
    numbers = Contest(Z[:, 0] * 2 + 5, [dealt(200)], None, False)
    ridge = numbers.answers(Ridge(), Z)
    total = r2_score(in_order(numbers, numbers.target), ridge[:, 0] + numbers.centre)
    assert numbers.scores(ridge).mean() == pytest.approx(total, abs=1e-3)
    absolute = Contest(Z[:, 0] * 2 + 5, [dealt(200)], None, False, "neg_mean_absolute_error")
    assert -0.2 < absolute.scores(ridge).mean() < 0


def test_heads_without_probabilities_have_scores_of_all_classes():
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(60, 2))
    head = RidgeClassifier().fit(Z, Z[:, 0] > 0)
    scores = class_scores(head, Z)
    np.testing.assert_array_equal(scores[:, 1] - scores[:, 0], head.decision_function(Z))
    with pytest.raises(TypeError, match="the head Ridge is no classifier"):
        class_scores(Ridge().fit(Z, Z[:, 0]), Z)


def test_a_class_that_no_tree_has_is_improbable_and_no_more():
    """One row that a forest gave the probability 0 must not cost it its weight in a blend."""
    rng = np.random.default_rng(7)
    Z = rng.normal(size=(600, 5))
    label = (Z[:, 0] + rng.normal(size=600) > 1.5).astype(int)
    contest = Contest(label, [dealt(600)], None, True)
    forest = ExtraTreesClassifier(100, random_state=0)
    answers = contest.answers(forest, Z)
    share = label.mean()
    constant = -log_loss(label, np.tile([1 - share, share], (600, 1)))
    assert contest.scores(contest.blended([answers])).mean() > constant + 0.03


def test_each_head_of_a_blend_reads_its_block_and_what_is_common():
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(80, 6))  # blocks of 2 and 3 columns, and one for both
    label = (Z[:, 0] + Z[:, 5] > 0).astype(int)
    heads = [LogisticRegression(C=0.1), LogisticRegression(C=0.01)]
    blend = BlendedClassifier(heads, [(0, 2), (2, 5)], [0.5, 2.0], [0.0, 1.0]).fit(Z, label)
    blocks = [Z[:, [0, 1, 5]], Z[:, [2, 3, 4, 5]]]
    alone = [head.fit(block, label) for head, block in zip(heads, blocks, strict=True)]
    scores = [w * h.predict_log_proba(b) for w, h, b in zip([0.5, 2.0], alone, blocks, strict=True)]
    np.testing.assert_allclose(
        blend.predict_proba(Z), softmax(sum(scores, np.array([0.0, 1.0])), axis=1)
    )
    numbers = BlendedRegressor([Ridge(), Ridge(3.0)], [(0, 2), (2, 5)], [0.5, 2.0], [0.0])
    numbers.fit(Z, 10 + Z[:, 0])
    each = [h.predict(b) for h, b in zip(numbers.heads_, blocks, strict=True)]
    mean = (10 + Z[:, 0]).mean()
    expected = mean + 0.5 * (each[0] - mean) + 2.0 * (each[1] - mean)
    np.testing.assert_allclose(numbers.predict(Z), expected)


@pytest.mark.parametrize("helps", [False, True])
def test_what_does_not_gain_on_statistics_is_not_taken(helps):
    rng = np.random.default_rng(6)
    Z, more = rng.normal(size=(2, 400, 2))
    label = (Z[:, 0] + helps * more[:, 0] + rng.normal(size=400) > 0).astype(int)
    contest = Contest(label, [dealt(400)], None, True)
    pool = [
        contest.entered(Competitor(kind, [], [part], LogisticRegression()))
        for kind, part in (("summary", Z), ("coefficients", more))
    ]
    for blends in (False, True):
        chosen = contest.choose(pool, blends=blends)
        kinds = [each.kind for each in chosen.members]
        assert (chosen.gain > chosen.error) == (helps and blends)
        assert kinds == (["summary", "coefficients"] if helps and blends else ["summary"])
        assert chosen.shares.sum() == pytest.approx(1)


def test_a_blend_is_as_sure_as_it_is_right():
    """On new rows, also where its members are too sure."""
    rng = np.random.default_rng(7)
    Z = rng.normal(size=(4000, 4))
    label = (Z.sum(axis=1) + 2 * rng.normal(size=4000) > 1.5).astype(int)
    train, test = slice(0, 1000), slice(1000, None)
    contest = Contest(label[train], [dealt(1000)], None, True)
    sure = [LogisticRegression(C=1e6), RidgeClassifier()]
    pool = [
        contest.entered(Competitor("summary", [], [Z[train, part]], head))
        for head, part in zip(sure, ([0, 1], [2, 3]), strict=True)
    ]
    chosen = contest.choose(pool, blends=True)
    for factor, is_right in ((3, False), (1, True)):
        found = (factor * np.append(chosen.weights, chosen.constants)).tolist()
        blend = BlendedClassifier(sure, [(0, 2), (2, 4)], found[:2], found[2:])
        blend.fit(Z[train], label[train])
        share, chance = calibration_curve(
            label[test], blend.predict_proba(Z[test])[:, 1], n_bins=8, strategy="quantile"
        )
        assert (np.abs(share - chance).max() < 0.08) == is_right
