"""The decoder of the past: its loss against a loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from skpolyode.memory import LegTMemory
from skpolyode.siblings.past_decoder import DecodingTask
from tests.models.weights import shaken, states

F, D, N, LENGTH = 3, 2, 12, 2.0


def test_loss_is_the_mean_error_of_what_was_observed():
    rng, memory = np.random.default_rng(0), LegTMemory(N, LENGTH)
    offsets = torch.tensor([0, 3, 3, 7])  # before the second moment nothing was observed
    ages = torch.from_numpy(rng.uniform(0, LENGTH, 7))
    x = torch.from_numpy(rng.normal(size=(7, D)))
    x[2, 0] = x[5, 1] = torch.nan
    decoder, features = shaken(nn.Linear(F, D * N), size=0.3), states(3, F)
    held_out = torch.tensor([False, False, True])
    basis = memory.basis(ages, ages)
    task = DecodingTask(decoder, features, offsets, basis, x, held_out)
    with torch.no_grad():
        coefficients = decoder(features).unflatten(1, (D, N))
        errors = {0: [], 2: []}
        for moment, rows in ((0, range(3)), (2, range(3, 7))):
            for row in rows:
                own = memory.reconstruct(
                    coefficients[moment : moment + 1], ages[row].view(1, 1), ages[:1]
                )
                known = ~x[row].isnan()
                errors[moment] += ((own[0, 0] - x[row])[known] ** 2).tolist()
        assert task.items.tolist() == [0, 1]
        assert task.loss(torch.tensor([1, 0])).item() == pytest.approx(np.mean(errors[0]))
        assert task.refresh() == pytest.approx(np.mean(errors[2]))
