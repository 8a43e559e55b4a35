"""Real data sets that come with this package or with sktime."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skpolyode.datasets import load_japanese_vowels, load_plaid, load_storms
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


def test_storms_are_those_of_the_table():
    data = load_storms()
    panel, frame = data.panel, data.frame
    assert (panel.n_series, panel.n_observations) == (151, len(frame)) == (151, 4454)
    assert (panel.time_unit, panel.tz) == ("h", None)
    katia = panel.select_ids(["AL122011"]).to_long()
    assert katia["wind"].max() == 120  # knots, in the report of the National Hurricane Center
    strongest = katia.loc[katia["wind"].idxmax()]
    assert strongest["time"] == pd.Timestamp("2011-09-06 00:00")
    assert strongest["pressure"] == 942
    assert dict(zip(panel.ids, data.y, strict=True))["AL122011"] == 1


def test_storms_are_plausible_and_in_the_order_of_their_beginnings():
    data = load_storms()
    assert np.isfinite(data.panel.values).all()
    lowest, highest = data.panel.values.min(axis=0), data.panel.values.max(axis=0)
    assert (lowest >= [0, -110, 10, 870]).all()
    assert (highest <= [80, 20, 185, 1030]).all()
    starts = data.frame.groupby("storm", sort=False)["time"].min()
    assert starts.is_monotonic_increasing
    assert list(starts.index) == list(data.panel.ids)
    assert 0.4 < data.y.mean() < 0.5
