"""Scores become probabilities that are as sure as the scores are right."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from skpolyode.heads.estimators import fit_temperature, probabilities


@pytest.mark.parametrize("temperature", [0.2, 1.0, 5.0])
def test_temperature_of_scores_is_found_again(temperature):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(20_000, 3)) * temperature
    chances = softmax(scores / temperature, axis=1)
    label = (rng.random(len(scores))[:, None] > chances.cumsum(axis=1)).sum(axis=1)
    assert fit_temperature(scores, label) == pytest.approx(temperature, rel=0.05)


def test_score_of_the_second_class():
    scores = np.array([-3.0, 0.5, 2.0])
    chance = 1 / (1 + np.exp(-scores / 2))
    np.testing.assert_allclose(probabilities(scores, 2.0), np.c_[1 - chance, chance])


def test_scores_without_an_error_are_not_certain():
    """The fewer there are, the less."""
    sure = []
    for n_series in (4, 400):
        label = np.arange(n_series) % 2
        scores = np.where(label, 1.0, -1.0)
        sure.append(probabilities(scores, fit_temperature(scores, label)).max())
    assert 0.8 < sure[0] < 0.9
    assert 0.99 < sure[1] < 1
