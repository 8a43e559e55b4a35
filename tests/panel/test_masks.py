"""A masked cell is one that was not observed, a masked time one that is missing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skpolyode.panel import Panel, as_panel
from skpolyode.panel.cells import unmasked

NAN = np.nan
MASK = np.array([[False, True, False], [False, False, True]])


def masked(values: object, mask: object = MASK) -> np.ma.MaskedArray:
    return np.ma.array(values, mask=mask)


@pytest.mark.parametrize(
    "values",
    [
        masked([[1, 999, 3], [4, 5, 999]]),
        masked([[1.0, 999.0, 3.0], [4.0, 5.0, 999.0]]),
        masked(np.array([[1, "no", 3], [4, 5, "no"]], dtype=object)),
        [masked([1, 999, 3], MASK[0]), masked([4, 5, 999], MASK[1])],
    ],
    ids=["integers", "floats", "objects", "list"],
)
def test_masked_cells_of_2d_input_are_not_observed(values):
    assert_array_equal(as_panel(values).values.ravel(), [1, NAN, 3, 4, 5, NAN])


def test_masked_cells_of_cubes_pairs_and_tables():
    cube = masked(np.arange(6.0).reshape(1, 3, 2), MASK.reshape(1, 3, 2))
    expected = np.where(MASK.reshape(3, 2), NAN, np.arange(6.0).reshape(3, 2))
    assert_array_equal(as_panel(cube).values, expected)
    assert_array_equal(as_panel([([0.0, 1.0, 2.0], cube[0])]).values, expected)
    assert_array_equal(as_panel([cube[0]]).values, expected)
    assert_array_equal(Panel([0.0, 1.0, 2.0], cube[0], [0, 3]).values, expected)


@pytest.mark.parametrize(
    "times",
    [
        masked([0, 999, 2], MASK[0]),
        masked([0.0, 999.0, 2.0], MASK[0]),
        masked(np.array(["2024-01-01", "2030-01-01", "2024-01-03"], "M8[D]"), MASK[0]),
    ],
    ids=["integers", "floats", "datetimes"],
)
def test_a_masked_time_is_missing(times):
    with pytest.raises(ValueError, match="row 1, missing time: the time must be finite"):
        as_panel([(times, [1.0, 2.0, 3.0])])


def test_masked_times_of_an_array_mark_its_padding():
    times = masked([[0.0, 1.0, 9.0]], [[False, False, True]])
    assert Panel.from_array([[5.0, 6.0, NAN]], times).times.tolist() == [0.0, 1.0]


def test_what_has_no_mask_is_left_alone():
    for values in (np.arange(3), [1.0, 2.0], 3.0, None):
        assert unmasked(values) is values
    assert_array_equal(unmasked(masked([1, 2, 3], MASK[0])), [1, NAN, 3])


def test_a_masked_static_covariate_is_not_known():
    series = [([0.0, 1.0], [1.0, 2.0])] * 2
    static = Panel.from_series(series, static=masked([[3, 999], [4, 5]], [[0, 1], [0, 0]])).static
    assert_array_equal(static.to_numpy(), [[3, NAN], [4, 5]])
