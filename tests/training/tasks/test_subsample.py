"""Training on parts of the series that are drawn anew for each epoch."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from skpolyode.models import pack
from skpolyode.models.gain import Gain
from skpolyode.siblings.s4 import SegmentTask
from skpolyode.training import Trainer, forecasting_mse
from skpolyode.training.loop import Turn
from skpolyode.training.tasks import (
    IntervalTask,
    PolyODETask,
    SubsampledTask,
)
from tests.models.cases import flat_series, join, make_model, part

FLAT = flat_series([4, 6, 3, 5, 7, 4, 5, 6, 3, 4, 5, 2])
N_SCORED, N_LEARNED = 2, 10
TASKS = {task.__name__: task for task in (IntervalTask, PolyODETask, SegmentTask)}


def read(positions):
    """The first two series validate, and come first."""
    chosen = [0, 1, *(N_SCORED + np.asarray(positions))]
    data = pack(*join([part(FLAT, i) for i in chosen]))
    return data, torch.arange(len(chosen)) < N_SCORED


def draw(kind=PolyODETask, model=None, n_drawn=4, seed=0):
    model = model or make_model()
    return SubsampledTask(
        lambda *given: kind(model, *given), read, n_series=N_LEARNED, n_drawn=n_drawn, seed=seed
    )


def renewed(task, progress):
    """Go on to the next part."""
    error = task.refresh(progress)
    return task.refresh(progress) if task.stays else error


@pytest.mark.parametrize("n_drawn", [1, 3, 4, 10])
def test_no_series_comes_again_before_all_others_came(n_drawn):
    task = draw(n_drawn=n_drawn)
    turns = np.concatenate([task.positions(k) for k in range(30)])
    deals = turns[: len(turns) // N_LEARNED * N_LEARNED].reshape(-1, N_LEARNED)
    assert (np.sort(deals, axis=1) == np.arange(N_LEARNED)).all()
    assert all((a != b).any() for a, b in pairwise(deals))
    assert all(len(task.positions(k)) == n_drawn for k in range(5))


def test_the_order_of_the_series_is_not_that_of_the_parts():
    """Sorted series, by class say, are mixed: neighbours come together no more than others."""
    task = draw(n_drawn=2)
    together = [abs(np.diff(task.positions(k))[0]) == 1 for k in range(2000)]
    assert np.mean(together) == pytest.approx(2 / N_LEARNED, abs=0.03)


def test_parts_follow_from_the_seed():
    parts = [[draw(seed=seed).positions(k).tolist() for k in range(5)] for seed in (0, 0, 1)]
    assert parts[0] == parts[1] != parts[2]


@pytest.mark.parametrize("name", TASKS)
def test_each_epoch_takes_another_part_and_validates_on_the_same_series(name):
    model = make_model()
    task = draw(TASKS[name], model)
    expected = forecasting_mse(model, read([])[0])
    seen = []
    for _ in range(3):
        assert renewed(task, 0.5) == pytest.approx(expected)
        items = task.data.series[task.items]
        assert set(items.tolist()) == set(range(N_SCORED, N_SCORED + 4))
        seen.append(task.data.x.sum().item())
    assert len(set(seen)) == 3


@pytest.mark.parametrize("name", TASKS)
def test_the_states_of_a_part_are_those_of_the_present_weights(name):
    """Nothing is left of those of the part before, or of the weights then."""
    model = make_model()
    task = draw(TASKS[name], model)
    task.refresh(0.5)
    with torch.no_grad():
        next(model.parameters()).add_(0.1)
    renewed(task, 0.6)
    alone = TASKS[name](model, *read(task.positions(1)))
    alone.refresh(0.6)
    everything = torch.arange(len(task.items))
    assert task.loss(everything).item() == alone.loss(everything).item()


def test_the_coarse_epochs_have_one_part():
    """Its states are those of straight lines, which only a field that stands still gives."""
    model = make_model()
    model.field.stand_still()
    task, seen = draw(model=model), []
    for progress in (0.0, 0.05, 0.1, 0.2, 0.3):
        task.refresh(progress)
        assert model.is_coarse == (progress < 1 / 8)
        seen.append((task.number, task.is_preliminary))
    assert seen == [(0, False), (0, True), (0, True), (1, False), (1, True)]


def test_states_that_cost_a_pass_in_order_serve_two_epochs():
    """Not in the coarse beginning, which has one part, and never at the end."""
    numbers, preliminary = [], []
    task = draw()
    task.task.model.field.stand_still()
    task = draw(model=task.task.model)
    for progress in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1.0):
        task.refresh(progress)
        numbers.append(task.number)
        preliminary.append(task.is_preliminary)
    assert numbers == [0, 0, 1, 1, 2, 2, 3, 4]
    assert preliminary == [False, True, False, True, False, True, False, False]
    quick = draw(IntervalTask)
    assert [quick.refresh(0.5) and quick.number for _ in range(3)] == [0, 1, 2]


def test_a_gain_that_a_part_has_told_is_kept():
    rng, gain = np.random.default_rng(0), Gain(1).double()
    times, offsets = np.tile(np.arange(20.0), 6), np.arange(7) * 20
    values = rng.normal(size=(120, 1))

    def noisy(positions):
        data = pack(*join([part((times, values, offsets), i) for i in [0, *(1 + positions)]]))
        return data, torch.arange(data.n_series) < 1

    model = make_model(1, gain=gain)
    task = SubsampledTask(
        lambda *given: PolyODETask(model, *given), noisy, n_series=5, n_drawn=3, seed=0
    )
    before = gain.known.clone()
    trainer = Trainer(learning_rate=1e-6, batch_size=64, max_epochs=4, patience=None)
    trainer.run(model, task, torch.Generator().manual_seed(0))
    assert (gain.known != before).all()


def test_minibatches_are_as_large_in_every_part():
    """However many intervals its series have: from one series to all but a few."""
    task, sizes = draw(IntervalTask, n_drawn=1), []
    loss = task.loss
    task.loss = lambda index: sizes.append(len(index)) or loss(index)
    trainer = Trainer(learning_rate=0.01, batch_size=2, max_epochs=9, patience=None)
    report = trainer.run(task.task.model, task, torch.Generator().manual_seed(0))
    n_items = [entry["n_items"] for entry in report.history[:-1]]
    assert len(set(n_items)) > 1
    assert set(sizes) <= {1, 2}
    assert len(sizes) == sum(-(-n // 2) for n in n_items)


def test_a_model_that_turns_exact_is_validated_anew_although_states_serve_twice():
    gain = Gain(2).double()
    model = make_model(gain=gain)
    task, errors = draw(model=model), []

    def apply(_):
        model.gain = None if errors else gain
        errors.append(None)

    apply(None)
    turn = Turn(3, lambda: None, apply)  # the states of epoch 2 are to serve once more
    trainer = Trainer(learning_rate=1e-9, batch_size=64, max_epochs=6, patience=None, turn=turn)
    report = trainer.run(model, task, torch.Generator().manual_seed(0))
    exact = forecasting_mse(model, read([])[0])
    assert model.gain is None
    assert report.best_error == pytest.approx(exact, rel=1e-4)
