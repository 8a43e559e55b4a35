"""Several intervals in a row, against one integration after the other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skpolyode.dynamics import STEPPERS, WalledMLP, integrate, visit

FIELD = WalledMLP(4, (6, 5), generator=torch.Generator().manual_seed(0)).double()
SETTINGS = {"step_size": 0.3, "stepper": STEPPERS["rk4"]}


@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    scale=st.sampled_from([1.0, 6.0]),
    seed=st.integers(0, 2**20),
)
def test_no_row_notices_the_others(counts, scale, seed):
    """States within the wall and beyond it; ends of a row are those of its intervals alone."""
    rng = np.random.default_rng(seed)
    start = torch.from_numpy(scale * rng.normal(size=(len(counts), 4)))
    row = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    gap = torch.from_numpy(rng.exponential(size=len(row)) + 1e-3)
    with torch.no_grad():
        found = visit(FIELD, start, row, gap, recorded=slice(1, None, 2), **SETTINGS)
        z = start.clone()
        for k, one in enumerate(row):
            z[one : one + 1], _ = integrate(FIELD, z[one : one + 1], gap[k : k + 1], **SETTINGS)
            torch.testing.assert_close(found[k], z[one, 1::2], rtol=0, atol=1e-12)


@pytest.mark.parametrize("field", [FIELD, FIELD.bind()], ids=["network", "function"])
def test_gradients_pass_through_all_intervals(field):
    start = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 4))).requires_grad_()
    row, gap = torch.tensor([0, 0, 1]), torch.tensor([0.5, 0.7, 0.4], dtype=torch.float64)

    def through(z):
        return visit(field, z, row, gap, recorded=slice(2), **SETTINGS)

    assert torch.autograd.gradcheck(through, start)
