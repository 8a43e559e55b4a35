"""Segments of series: their rows, stored states and losses."""

from __future__ import annotations

import pytest
import torch

from skpolyode.models import pack
from skpolyode.siblings import S4
from skpolyode.siblings.s4 import SegmentTask
from skpolyode.training import forecasting_mse
from skpolyode.transformers.stages import default_batch
from tests.models.cases import flat_series, make_model
from tests.models.weights import shaken
from tests.training.tasks.test_interval import check_gradient, masked_mse

LENGTHS = [6, 1, 14, 9, 2]


def segment_task(model, length, lengths=LENGTHS, block_rows=200_000, **options):
    data = pack(*flat_series(lengths), block_rows=block_rows)
    none = torch.zeros(len(lengths), dtype=torch.bool)
    task = SegmentTask(model, data, none, length=length, **options)
    task.refresh(0.5)
    return task


@pytest.mark.parametrize("length", [1, 4, 64])
@pytest.mark.parametrize("block_rows", [200_000, 8])
def test_segments_go_through_each_interval_once(length, block_rows):
    model = make_model()
    task = segment_task(model, length, block_rows=block_rows)
    assert task.item_size == pytest.approx((sum(LENGTHS) - 5) / len(task.items))
    assert task.states["z"].shape[0] == len(task.items)
    loss = task.loss(torch.arange(len(task.items)).flip(0))
    assert loss.item() == pytest.approx(forecasting_mse(model, task.data))


def test_loss_of_some_segments_is_the_error_in_them():
    model = make_model()
    task = segment_task(model, length=4)
    first = (task.data.series == 2) & (task.data.elapsed == 0)
    row, rows = int(first.nonzero()), torch.zeros(len(task.data), dtype=torch.bool)
    for _ in range(4):
        row = int(task.data.next[row])
        rows[row] = True
    index = (task.items == int(first.nonzero())).nonzero()[:, 0]
    assert task.loss(index).item() == pytest.approx(masked_mse(model, task.data, rows))
    assert row in task.items  # where the next segment starts


def test_the_gradient_goes_back_to_the_start_of_a_segment():
    """Finite differences know nothing of where it ends."""
    model = shaken(S4(2, 0, 3, pairs=(2, 2)))
    task = segment_task(model, length=64)
    check_gradient(model, lambda: task.loss(torch.arange(len(task.items))))


def test_gradient_of_looks_ahead():
    task = segment_task(make_model(), length=64, horizon=3)
    check_gradient(task.model, lambda: task.loss(torch.arange(len(task.items))))


def test_every_second_minibatch_looks_far():
    """By gradients: the loss of a lead is scaled to that of the next observation at most."""
    near, far = (segment_task(make_model(), 4, furthest=k) for k in (1, 9))
    index, found = torch.arange(4), []
    for task in (near, far):
        losses = [task.loss(index) for _ in range(7)]
        weights = list(task.model.field.parameters())
        found += [[torch.autograd.grad(loss, weights)[-1] for loss in losses]]
    same = [torch.equal(one, other) for one, other in zip(*found, strict=True)]
    assert same == [True, False] * 3 + [True]


def test_minibatches_hold_a_bounded_number_of_intervals():
    """Also of the longest series, and of as many intervals as are asked for."""
    task = segment_task(make_model(), 4, lengths=[41] * 60)
    assert task.item_size == 4
    assert default_batch(task) == 600 // 32
    task.minibatches = task.minibatches._replace(n_most=40)
    assert default_batch(task) == 10
    task.minibatches = task.minibatches._replace(n_most=4)
    assert default_batch(task) == 8
    assert default_batch(task, 100) == 25
    assert default_batch(task, 1) == 1


def test_series_of_one_row_make_no_segment():
    task = segment_task(make_model(), 4, lengths=[1, 1])
    assert len(task.items) == 0
    assert default_batch(task) == default_batch(task, 8) == 8
