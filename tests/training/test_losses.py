"""Weights of series: as if a series stood there as many times."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skpolyode.models import pack
from skpolyode.siblings import GRUODEBayes
from skpolyode.siblings.segment import SegmentTask
from skpolyode.training.losses import with_weights
from skpolyode.training.tasks import IntervalTask, PolyODETask
from tests.models.cases import flat_series, join, make_model, part, some_gain

TASKS = {task.__name__: task for task in (IntervalTask, PolyODETask, SegmentTask)}
LENGTHS = [6, 6, 6, 6, 6]
FLAT = flat_series(LENGTHS, missing=0.0)
COUNTS = [1, 3, 2, 5, 1]  # the third and the last one validate
HELD = torch.tensor([False, False, True, False, True])


def repeated(flat, counts, held):
    """Packed series that stand there as often as they count, and which of them validate."""
    which = np.repeat(np.arange(len(counts)), counts)
    return pack(*join([part(flat, int(k)) for k in which])), held[torch.from_numpy(which)]


def weighted(flat, weights):
    return with_weights(pack(*flat), torch.tensor(weights, dtype=torch.float64))


def losses(kind, model, data, held, **options):
    task = kind(model, data, held, **options)
    task.forgotten_share = 0.0
    error = task.refresh(1.0)
    model.zero_grad()
    loss = task.loss(torch.arange(len(task.items)))
    loss.backward()
    gradients = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    return error, loss.item(), gradients


@pytest.mark.parametrize("unit", [1.0, 1e-30])
@pytest.mark.parametrize("gain", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_integer_weights_are_repeated_series(monkeypatch, name, gain, unit):
    monkeypatch.setattr("skpolyode.models.gain.FEWEST", 10**6)  # both keep the gain that they have
    kind = TASKS[name]
    model = make_model(gain=some_gain() if gain else None)
    found = losses(kind, model, weighted(FLAT, [unit * n for n in COUNTS]), HELD, horizon=3)
    expected = losses(kind, model, *repeated(FLAT, COUNTS, HELD), horizon=3)
    plain = losses(kind, model, pack(*FLAT), HELD, horizon=3)
    assert found[0] == pytest.approx(expected[0], rel=1e-6)
    assert found[1] == pytest.approx(expected[1], rel=1e-6)
    torch.testing.assert_close(found[2], expected[2], rtol=1e-5, atol=1e-8)
    assert found[0] != pytest.approx(plain[0], rel=1e-3)
    assert found[1] != pytest.approx(plain[1], rel=1e-3)


def test_a_likelihood_is_weighted_as_well():
    generator = torch.Generator().manual_seed(0)
    model = GRUODEBayes(2, hidden_size=4, head_size=5, generator=generator).double()
    options = {"length": 3}
    found = losses(IntervalTask, model, weighted(FLAT, COUNTS), HELD, **options)
    expected = losses(IntervalTask, model, *repeated(FLAT, COUNTS, HELD), **options)
    assert found[:2] == pytest.approx(expected[:2], rel=1e-5)
    torch.testing.assert_close(found[2], expected[2], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", [IntervalTask, PolyODETask])
def test_ragged_series_count_by_their_values(kind):
    """A plain loop: each forecast value counts as its series, in units of the mean value."""
    flat, counts = flat_series([2, 7, 1, 5, 4], missing=0.4), [4.0, 1.0, 2.0, 0.5, 3.0]
    model, data = make_model(), weighted(flat, counts)
    none = torch.zeros(5, dtype=torch.bool)
    task = kind(model, data, none)
    task.forgotten_share = 0.0
    error = task.refresh(1.0)
    values, weights = [], []
    with torch.no_grad():
        for step in model.run(data):
            for n, row in enumerate(step.rows.tolist()):
                for j in range(2):
                    if data.elapsed[row] > 0 and data.mask[row, j]:
                        values.append(float(data.x[row, j] - step.prediction.mean[n, j]) ** 2)
                        weights.append(counts[int(data.series[row])])
    expected = np.average(values, weights=weights)
    assert error == pytest.approx(expected, rel=1e-6)
    every = torch.arange(len(task.items))
    assert task.loss(every).item() == pytest.approx(expected, rel=1e-6)
    # A minibatch is not a mean of its own: those of small weights have small gradients.
    total = 0.0
    for half in every.tensor_split(2):
        n_values = int(data.mask[data.next[task.items[half]]].sum())
        total += task.loss(half).item() * n_values
    assert total == pytest.approx(expected * len(values), rel=1e-6)


def test_a_share_of_nothing_is_no_nan():
    model, data = make_model(), weighted(FLAT, [0.0, 0.0, 1.0, 0.0, 1.0])
    task = IntervalTask(model, data, HELD)
    assert np.isfinite(task.refresh())
    assert task.loss(torch.arange(3)).item() == 0


def test_weights_go_along():
    data = weighted(FLAT, COUNTS)
    torch.testing.assert_close(data.weight, torch.tensor(COUNTS, dtype=torch.float64)[data.series])
    moved = data.to(torch.device("cpu"), torch.float32)
    assert moved.weight.dtype == torch.float64
    assert pack(*FLAT).to(torch.device("cpu"), torch.float32).weight is None
