"""A decoder finds in an embedding the past that is there, and leaves the embedder alone."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

from skpolyode import HiPPOTransformer, ODERNNTransformer, PastDecoder, SummaryStatsTransformer
from tests.quick import no_stacking
from tests.transformers.data import oscillators

TRAIN, TEST = oscillators(60, length=6.0), oscillators(20, seed=1, length=6.0)
MEMORY = HiPPOTransformer(n_coefficients=12, window=3.0)


@pytest.fixture(scope="module", autouse=True)
def quick():
    with no_stacking():
        yield


def error(decoder, channel=0):
    """Of the first channel, in its variance."""
    past = [(t, x) for t, x in TEST]
    found = decoder.reconstruct(past)
    own = np.concatenate([x[t >= t[-1] - decoder.window_] for t, x in past])
    return np.nanmean((found.values - own)[:, channel] ** 2) / np.nanvar(own[:, channel])


def test_what_is_remembered_is_found():
    decoder = PastDecoder(MEMORY, window=3.0, n_coefficients=12, max_epochs=30, random_state=0)
    decoder.fit(TRAIN)
    assert error(decoder) < 0.25
    errors = [entry["validation_error"] for entry in decoder.history_]
    assert decoder.validation_error_ == min(errors) < 0.3 * errors[0]


def test_what_is_forgotten_is_not():
    """A mean and a spread tell little of the way."""
    settings = {"window": 3.0, "n_coefficients": 12, "max_epochs": 30, "random_state": 0}
    remembers, forgets = (
        error(PastDecoder(embedder, **settings).fit(TRAIN))
        for embedder in (MEMORY, SummaryStatsTransformer())
    )
    assert remembers < 0.5 * forgets


def test_the_past_between_observations_is_learned_from_hidden_rows():
    """Lines of seven observations: a decoder of what was seen alone would wave between them."""
    rng = np.random.default_rng(0)
    levels, slopes = rng.normal(size=(2, 60))
    times = [np.sort(rng.uniform(0, 6, 7)) for _ in levels]
    lines = [(t, a + b * t) for t, a, b in zip(times, levels, slopes, strict=True)]
    decoder = PastDecoder(SummaryStatsTransformer(), window=6.0, random_state=0).fit(lines[:40])
    asked = [np.linspace(t[0], t[-1], 20) for t in times[40:]]
    truth = np.concatenate(
        [a + b * t for t, a, b in zip(asked, levels[40:], slopes[40:], strict=True)]
    )
    wrong = decoder.reconstruct(lines[40:], asked).values[:, 0] - truth
    assert np.mean(wrong**2) < 0.01 * np.var(truth)


def test_embedding_is_turned_back_as_those_of_other_transformers():
    decoder = PastDecoder(MEMORY, window=3.0, n_coefficients=5, max_epochs=2, random_state=0)
    Z = decoder.fit_transform(TRAIN)
    assert Z.shape == (60, 10)
    assert list(decoder.get_feature_names_out()[[0, -1]]) == ["x0_c0", "x1_c4"]
    back = decoder.inverse_transform(Z[:3], [-2.0, -0.5])
    ends = [t[-1] for t, _ in TRAIN[:3]]
    expected = decoder.reconstruct(TRAIN[:3], [[end - 2.0, end - 0.5] for end in ends])
    np.testing.assert_allclose(back.values, expected.values, atol=1e-9)
    with pytest.raises(ValueError, match="fit with a longer window"):
        decoder.reconstruct(TRAIN[:1], [ends[0] - 3.5])


def test_a_fitted_embedder_is_not_fitted_again():
    embedder = HiPPOTransformer(n_coefficients=4).fit(TRAIN)
    decoder = PastDecoder(FrozenEstimator(embedder), n_coefficients=4, max_epochs=2).fit(TEST)
    assert decoder.embedder_.source is embedder.embedder_
    assert PastDecoder(embedder, max_epochs=2).fit(TEST).transformer_ is not embedder


def test_an_embedder_of_others_is_an_error():
    with pytest.raises(TypeError, match="transformer of series of this package"):
        PastDecoder(StandardScaler()).fit(TRAIN)


@pytest.mark.parametrize("frozen", [False, True])
def test_the_seed_of_the_embedder_is_that_of_the_decoder(frozen):
    embedder = ODERNNTransformer(hidden_size=4, max_epochs=2, random_state=0)
    if frozen:
        embedder = FrozenEstimator(embedder.fit(TRAIN))
    one, two = (
        PastDecoder(embedder, n_coefficients=4, max_epochs=2).fit(TRAIN).transform(TEST)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one, two)
