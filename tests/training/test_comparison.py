"""When one validation error counts as larger than another."""

from __future__ import annotations

import pytest
import torch

from skpolyode.training.loop import is_surely_larger


@pytest.mark.parametrize(
    ("n_series", "more", "is_larger"),
    [
        (12, 0.005, False),
        (12, 0.02, True),
        (6, 0.005, True),
        (6, -0.005, False),
    ],
)
def test_of_many_series_a_small_difference_does_not_count(n_series, more, is_larger):
    """Errors of half the series rise and of the others fall, by more than their sum does."""
    others = torch.ones(2, n_series)
    spread = torch.tensor([1.1, 1 / 1.1]).repeat(n_series // 2)
    errors = torch.stack([(1 + more) * spread, others[1]])
    assert is_surely_larger(errors, others) is is_larger
