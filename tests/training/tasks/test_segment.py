"""Segments of series, and linear recurrences that go through many observations at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skpolyode.memory import LegTMemory
from skpolyode.models import SequenceModel, pack
from skpolyode.siblings import S4, s4
from skpolyode.siblings.state_space import LinearRecurrence, before_each
from skpolyode.training import forecasting_mse
from skpolyode.training.tasks import SegmentTask
from skpolyode.transformers.stages import usual_batch
from tests.models.cases import flat_series, make_model
from tests.models.weights import shaken, states
from tests.training.tasks.test_interval import check_gradient, masked_mse

LENGTHS = [6, 1, 14, 9, 2]
SIZES = [4, 3, 3, 1]


def recurrence(sizes=SIZES, width=3):
    """Start, factors and additions of random states of two real numbers each."""
    n, later = sizes[0], sum(sizes) - sizes[0]
    return tuple(
        states(k, 2 * width, seed).view(k, 2, width) for seed, k in enumerate((n, *[later] * 2))
    )


def as_complex(x):
    return torch.complex(x[:, 0], x[:, 1])


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6).map(lambda n: sorted(n, reverse=True)))
def test_recurrence_is_that_of_each_series(sizes):
    x, turn, push = recurrence(sizes)
    found = as_complex(LinearRecurrence.apply(x, turn, push, sizes))
    starts = np.cumsum([0, *sizes])
    for series in range(sizes[0]):
        y = as_complex(x)[series]
        for k, size in enumerate(sizes):
            if series >= size:
                break
            row = starts[k] + series
            if k:
                y = as_complex(turn)[row - sizes[0]] * y + as_complex(push)[row - sizes[0]]
            torch.testing.assert_close(found[row], y)


def test_rows_before_are_those_of_the_same_series():
    data = pack(*flat_series(LENGTHS))
    (block,) = data.blocks()
    rows = before_each([part.stop - part.start for part in block], data.x.device)
    first = block[0].stop
    assert torch.equal(data.next[rows], torch.arange(first, len(data)))


def test_gradient_of_the_recurrence():
    weights = tuple(part.requires_grad_() for part in recurrence())
    assert torch.autograd.gradcheck(lambda *parts: LinearRecurrence.apply(*parts, SIZES), weights)


@pytest.mark.parametrize("at_once", [1, 200, 2**20])
@pytest.mark.parametrize("options", [{}, {"inputs": "impulses", "memory": LegTMemory(4, 3.0)}])
def test_layer_by_layer_is_observation_by_observation(options, at_once, monkeypatch):
    """All states, before and after, and the gradient; whatever is taken together."""
    monkeypatch.setattr(s4, "_AT_ONCE", at_once)
    model = shaken(S4(2, 1, 3, pairs=(2, 2), **options))
    static = np.linspace(-1, 1, len(LENGTHS))[:, None]
    data, found = pack(*flat_series(LENGTHS), static=static), []
    for run in (S4.run_from, SequenceModel.run_from):
        monkeypatch.setattr(S4, "run_from", run)
        steps = list(model.run(data))
        loss = sum(step.prediction.mean.square().sum() for step in steps)
        gradient = torch.autograd.grad(loss, list(model.parameters()))
        found.append((steps, gradient))
    for one, other in zip(*(steps for steps, _ in found), strict=True):
        torch.testing.assert_close(one._asdict(), other._asdict(), rtol=0, atol=1e-13)
    for one, other in zip(*(gradient for _, gradient in found), strict=True):
        torch.testing.assert_close(one, other)


def test_rows_without_any_observation_change_nothing():
    times, values, offsets = flat_series(LENGTHS)
    series = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    step = np.arange(len(times)) - offsets[series]
    gone = (step % 4 == 2) & (step < np.array(LENGTHS)[series] - 1)
    values[gone] = np.nan
    kept = np.searchsorted(series[~gone], np.arange(len(LENGTHS) + 1))
    model = shaken(S4(2, 0, 3, pairs=(2, 2)))
    with torch.no_grad():
        found = model.embed(pack(times, values, offsets))
        expected = model.embed(pack(times[~gone], values[~gone], kept))
    torch.testing.assert_close(found, expected)


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
    model = shaken(S4(2, 0, 3, pairs=(2, 2), inputs="impulses"))
    task = segment_task(model, length=64)
    check_gradient(model, lambda: task.loss(torch.arange(len(task.items))))


def test_gradient_of_looks_ahead():
    task = segment_task(make_model(), length=64, horizon=3)
    check_gradient(task.model, lambda: task.loss(torch.arange(len(task.items))))


def test_every_sixth_minibatch_looks_far():
    near, far = (segment_task(make_model(), 4, furthest=k) for k in (1, 6))
    index = torch.arange(4)
    losses = [[task.loss(index).item() for _ in range(7)] for task in (near, far)]
    same = [one == other for one, other in zip(*losses, strict=True)]
    assert same == [True] * 5 + [False, True]


def test_minibatches_hold_a_bounded_number_of_intervals():
    """Also of the longest series, and of as many intervals as are asked for."""
    task = segment_task(make_model(), 4, lengths=[41] * 60)
    assert task.item_size == 4
    assert usual_batch(task) == 600 // 32
    task.minibatches = task.minibatches._replace(n_most=40)
    assert usual_batch(task) == 10
    task.minibatches = task.minibatches._replace(n_most=4)
    assert usual_batch(task) == 8
    assert usual_batch(task, 100) == 25
    assert usual_batch(task, 1) == 1


def test_series_of_one_row_make_no_segment():
    task = segment_task(make_model(), 4, lengths=[1, 1])
    assert len(task.items) == 0
    assert usual_batch(task) == usual_batch(task, 8) == 8
