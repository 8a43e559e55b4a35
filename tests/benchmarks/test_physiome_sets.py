"""Sets of Physiome-ODE, made from a repository of one small model of our own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.physiome_sets import load_physiome

N_CHANNELS = 12
MODEL = f"""
from math import *

def initConsts():
    return [1.0 + k for k in range({N_CHANNELS})], [2.0]

def computeRates(time, states, constants):
    return [-constants[0] * x for x in states]
"""


def draws(number):
    """Starts and rate of a series, as the benchmark draws them."""
    rng = np.random.RandomState(number)
    starts = np.array([rng.uniform(0.9 * x, 1.1 * x) for x in range(1, N_CHANNELS + 1)])
    rate = rng.uniform(1.9, 2.1)
    return starts, rate, rng.randint(0, 100)


def truth(n_series, duration=3.0):
    """Standardised closed form (B, 99, D)."""
    times = np.linspace(0, duration, 200)
    series = []
    for number in range(n_series):
        starts, rate, first = draws(number)
        series.append(np.exp(-rate * times[first : first + 99, None]) * starts)
    values = np.array(series)
    return (values - values.mean(axis=(0, 1))) / values.std(axis=(0, 1))


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    (folder / "models" / "decay" / "lin_1999").mkdir(parents=True)
    (folder / "resources").mkdir()
    (folder / "models" / "decay" / "lin_1999" / "model.py").write_text(MODEL)
    system = {"domain": "decay", "model": "lin_1999", "T": 3.0, "d_states": 0.1}
    scores = str([float(k) for k in range(N_CHANNELS)])
    system |= {"d_constants": 0.05, "channel_scores": scores}
    pd.DataFrame([system, system]).to_csv(folder / "resources" / "Top50_final.csv")
    return folder


def test_series_are_the_closed_form_with_noise(repository, tmp_path):
    made = load_physiome(tmp_path, "LIN01", repository=repository, n_series=60)
    panel, expected = made.panel, truth(60)
    assert panel.n_series == 60
    row = np.round(panel.times * 99).astype(int)
    series = np.repeat(panel.ids.astype(int), panel.lengths)
    order = [panel.channel_names.index(str(k)) for k in range(N_CHANNELS)]
    errors = panel.values[:, order] - expected[series, row]
    assert np.nanstd(errors) == pytest.approx(0.05, rel=0.1)
    assert abs(np.nanmean(errors)) < 0.005
    # A fifth of the cells; later only the ten channels of largest score.
    kept = ~np.isnan(errors)
    assert kept[row < 50].sum() / (60 * 50 * 12) == pytest.approx(0.2, abs=0.01)
    assert not kept[row >= 50][:, :2].any()
    assert kept[row >= 50][:, 2:].sum() / (60 * 49 * 10) == pytest.approx(0.2, abs=0.01)
    assert {p: (made.split == p).sum() for p in ("train", "validation", "test")} == {
        "train": 42,
        "validation": 12,
        "test": 6,
    }


def test_sets_are_kept_and_folds_differ(repository, tmp_path):
    settings = {"repository": repository, "n_series": 10}
    first = load_physiome(tmp_path, "LIN02", **settings)
    again = load_physiome(tmp_path, "LIN02")  # from the file, without a repository
    assert first.panel == again.panel
    assert_array_equal(first.split, again.split)
    other = load_physiome(tmp_path, "LIN02", fold=1, **settings)
    assert other.panel != first.panel
    assert_allclose(other.panel.times.max(), 98 / 99)


def test_what_is_missing_is_named(repository, tmp_path):
    with pytest.raises(FileNotFoundError, match="pass the path of a copy"):
        load_physiome(tmp_path, "LIN01")
    with pytest.raises(ValueError, match="has no set 'XXX01'"):
        load_physiome(tmp_path, "XXX01", repository=repository)
    with pytest.raises(FileNotFoundError, match=r"is .* a copy of the benchmark"):
        load_physiome(tmp_path, "LIN01", repository=tmp_path)


def test_a_model_that_fails_is_named(repository, tmp_path):
    file = repository / "models" / "decay" / "lin_1999" / "model.py"
    file.write_text(MODEL.replace("-constants[0] * x", "sqrt(-x)"))
    with pytest.raises(ValueError, match="series 0 of lin_1999 could not be integrated"):
        load_physiome(tmp_path, "LIN01", repository=repository, n_series=2)
