"""max_epochs="auto": epochs that grow with the data no more, from some size on."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode import PolyODETransformer
from skpolyode.transformers import neural, stages
from tests.quick import no_stacking, with_default_epochs
from tests.transformers.data import short_oscillators, small
from tests.transformers.registry import all_transformers

SERIES = short_oscillators(24)
N_INTERVALS = sum(len(times) - 1 for times, _ in SERIES)
NEURAL = sorted(n for n, t in all_transformers().items() if isinstance(t, neural.NeuralTransformer))
LARGEST = 60


@pytest.fixture(scope="module", autouse=True)
def quick():
    with no_stacking():
        yield


@pytest.fixture
def limited(monkeypatch, short):
    """Of as many intervals as nine of the series have."""
    monkeypatch.setattr(stages, "LARGEST_EPOCH", LARGEST)


@pytest.fixture
def short(monkeypatch):
    """A tenth as many epochs."""
    for cls in (neural.NeuralTransformer, PolyODETransformer):
        monkeypatch.setattr(cls, "stages", with_default_epochs(cls.stages, 4))


def auto(**parameters):
    return small(max_epochs="auto", **parameters)


def n_items(embedder):
    return [entry["n_items"] for entry in embedder.history_[:-1]]


@pytest.mark.usefixtures("limited")
def test_a_small_set_is_gone_through_as_a_whole():
    series = SERIES[:6]
    one, other = (small(max_epochs=n).fit(series) for n in ("auto", 4))
    np.testing.assert_array_equal(one.transform(series), other.transform(series))
    assert one.n_epochs_ == other.n_epochs_


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("fraction", [None, 0.1, 0.5])
def test_epochs_stay_as_they_are_however_many_series(fraction):
    for n_times in (1, 3):
        embedder = auto(validation_fraction=fraction).fit(SERIES * n_times)
        assert np.mean(n_items(embedder)) == pytest.approx(LARGEST, rel=0.15)
        assert len(n_items(embedder)) == 4


@pytest.mark.usefixtures("limited")
def test_an_int_goes_through_all_series():
    embedder = small(max_epochs=2, validation_fraction=None).fit(SERIES)
    assert n_items(embedder) == [N_INTERVALS] * 2


@pytest.mark.usefixtures("limited")
def test_it_repeats():
    fits = [auto(random_state=seed).fit_transform(SERIES) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert (fits[0] != fits[2]).any()


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("name", NEURAL)
def test_every_trained_transformer_keeps_to_it(name):
    embedder = all_transformers()[name].set_params(max_epochs="auto").fit(SERIES)
    assert len(n_items(embedder)) == 4
    assert sum(n_items(embedder)) < 0.6 * 4 * N_INTERVALS
    assert np.isfinite(embedder.transform(SERIES)).all()


@pytest.mark.usefixtures("limited")
def test_long_series_are_cut_and_their_windows_drawn(monkeypatch):
    stages_of_one_epoch = with_default_epochs(PolyODETransformer.stages, 1)
    monkeypatch.setattr(PolyODETransformer, "stages", stages_of_one_epoch)
    times = np.arange(400.0)
    series = [(times, np.sin(times * (1 + k / 9))) for k in range(2)]
    embedder = auto(validation_fraction=0.1).fit(series)
    (drawn,) = n_items(embedder)
    assert drawn < 400  # one window of 330 rows, of several


@pytest.mark.usefixtures("limited")
def test_series_of_one_row_and_one_long_one():
    """No epoch is left without anything to learn from."""
    times = np.arange(500.0)
    series = [*SERIES, (times, np.stack([np.sin(times)] * 2, axis=1))]
    series += [(times[:1], np.ones((1, 2)))] * 200
    embedder = all_transformers()["ODERNNTransformer"].set_params(max_epochs="auto").fit(series)
    assert min(n_items(embedder)) > 0
