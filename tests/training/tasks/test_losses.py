"""What an error counts: each forecast value the same, or by its precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skpolyode.models import pack
from skpolyode.training.tasks import IntervalTask, PolyODETask, with_precision
from tests.models.cases import flat_series, make_model


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("kind", [IntervalTask, PolyODETask])
def test_ragged_series_count_by_their_values(kind, known):
    """A plain loop: each forecast value counts once, or by the precision of its value."""
    flat = flat_series([2, 7, 1, 5, 4], missing=0.4)
    errors = np.random.default_rng(0).uniform(0.1, 2.0, np.shape(flat[1])) if known else None
    model, data = make_model(), with_precision(pack(*flat, errors=errors))
    task = kind(model, data, torch.zeros(5, dtype=torch.bool))
    task.forgotten_share = 0.0
    error = task.refresh(1.0)
    values, n_values = [], 0
    with torch.no_grad():
        for step in task.model.run(task.data):
            for n, row in enumerate(step.rows.tolist()):
                for j in range(2):
                    if data.elapsed[row] > 0 and data.mask[row, j]:
                        share = float(data.precision[row, j]) if known else 1.0
                        missed = float(data.x[row, j] - step.prediction.mean[n, j])
                        values.append(share * missed**2)
    assert error == pytest.approx(np.mean(values), rel=1e-6)
    every = torch.arange(len(task.items))
    assert task.loss(every).item() == pytest.approx(np.mean(values), rel=1e-6)
    # A minibatch divides by the number of its values, not by the sum of their precisions.
    total = 0.0
    for half in every.tensor_split(2):
        count = int(data.mask[data.next[task.items[half]]].sum())
        total, n_values = total + task.loss(half).item() * count, n_values + count
    assert total == pytest.approx(np.mean(values) * n_values, rel=1e-6)
