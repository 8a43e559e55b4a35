"""Real data sets that come with sktime."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skpolyode.datasets import load_japanese_vowels, load_plaid
from tests.fresh import after_steps


@pytest.mark.parametrize(
    ("load", "split", "n_series", "n_channels", "lengths", "classes"),
    [
        (load_japanese_vowels, "train", 270, 12, (7, 26), range(1, 10)),
        (load_japanese_vowels, "test", 370, 12, (7, 29), range(1, 10)),
        (load_plaid, "train", 537, 1, (100, 1344), range(11)),
        (load_plaid, "test", 537, 1, (134, 1000), range(11)),
    ],
)
def test_shape_and_classes(load, split, n_series, n_channels, lengths, classes):
    data = load(split)
    panel = data.panel
    assert (panel.n_series, panel.n_channels) == (n_series, n_channels)
    assert (panel.lengths.min(), panel.lengths.max()) == lengths
    assert np.isfinite(panel.values).all()
    assert_array_equal(np.unique(data.y), list(classes))
    assert_array_equal(data.split, [split] * n_series)
    for series in panel[:5]:
        assert_array_equal(series.times, np.arange(len(series.times)))


def test_both_parts_one_after_the_other():
    both, train, test = (load_japanese_vowels(split) for split in (None, "train", "test"))
    assert_array_equal(both.panel.values, np.vstack([train.panel.values, test.panel.values]))
    assert_array_equal(both.y, np.append(train.y, test.y))
    assert_array_equal(both.split, np.append(train.split, test.split))


def test_values_are_those_of_the_file():
    series = load_japanese_vowels("train").panel[0]
    assert series.values.shape == (20, 12)
    assert_array_equal(series.values[0, :3], [1.860936, -0.207383, 0.261557])


@pytest.mark.parametrize("load", [load_japanese_vowels, load_plaid])
def test_unknown_part(load):
    with pytest.raises(ValueError, match="split must be 'train', 'test' or None, got 'TRAIN'"):
        load("TRAIN")


def test_importing_the_module_does_not_import_sktime():
    assert "sktime" not in after_steps()["skpolyode.datasets"]
