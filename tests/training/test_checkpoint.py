"""Training goes on from where it was interrupted, and ends as if it had not been."""

from __future__ import annotations

import dataclasses
import errno
import os
import re

import pytest
import torch

from skpolyode.saving import container
from skpolyode.training import Checkpoint, Trainer
from tests.training.test_loop import Fit, Line


class Noisy(Fit):
    """The order of the minibatches matters."""

    def loss(self, index):
        target = 2 + index.float().mean() / 10
        return (self.line.weight - target).square().sum() * self.spoil()


def trainer():
    return Trainer(learning_rate=0.3, batch_size=4, max_epochs=6, patience=None)


def generator():
    return torch.Generator().manual_seed(0)


def train(checkpoint=None, stop_after=None, error=KeyboardInterrupt):
    """Train; `error` is raised at a minibatch. Returns the report and the weight."""
    task = Noisy(Line())
    calls = iter(range(10**6))

    def spoil():
        if stop_after is not None and next(calls) == stop_after:
            raise error
        return 1.0

    task.spoil = spoil
    report = trainer().run(task.line, task, generator(), checkpoint)
    return report, task.line.weight.item()


def errors(report):
    return [entry["validation_error"] for entry in report.history]


@pytest.mark.parametrize("stop_after", [0, 2, 3, 7, 17])
def test_it_goes_on_after_an_error(tmp_path, stop_after):
    path = tmp_path / "deeper" / "fit.safetensors"
    with pytest.raises(MemoryError):
        train(Checkpoint(path, interval=0), stop_after, MemoryError)
    assert path.is_file()
    again, weight = train(Checkpoint(path, interval=0))
    whole, expected = train()
    assert weight == expected
    assert errors(again) == errors(whole)
    assert again.best_error == whole.best_error
    assert list(path.parent.iterdir()) == []


def test_a_cycle_that_ends_early_is_gone_on_with(tmp_path):
    settled = dataclasses.replace(trainer(), max_epochs=20, patience=20)

    def run(checkpoint=None, stop_after=None):
        task = Noisy(Line(), [9.0, 5.0, 4.0, 3.0, *[2.0] * 20])
        calls = iter(range(10**6))

        def spoil():
            if next(calls) == stop_after:
                raise MemoryError
            return 1.0

        task.spoil = spoil
        return settled.run(task.line, task, generator(), checkpoint), task.line.weight.item()

    path = tmp_path / "fit.safetensors"
    with pytest.raises(MemoryError):
        run(Checkpoint(path, interval=0), stop_after=3 * 10)
    report, weight = run(Checkpoint(path, interval=0))
    whole, expected = run()
    assert report.reason == whole.reason == "errors did not fall any more"
    assert (weight, report.n_epochs) == (expected, whole.n_epochs)


def test_ctrl_c_leaves_the_best_weights_and_the_checkpoint(tmp_path):
    path = tmp_path / "fit.safetensors"
    report, weight = train(Checkpoint(path, interval=0), stop_after=7)
    assert report.was_interrupted
    assert report.message.startswith("training was interrupted in epoch 2; the best weights so far")
    assert (weight - 2) ** 2 == pytest.approx(report.best_error)
    assert path.is_file()
    assert train(Checkpoint(path))[1] == train()[1]


def test_a_damaged_checkpoint_is_set_aside(tmp_path):
    path = tmp_path / "fit.safetensors"
    with pytest.raises(MemoryError):
        train(Checkpoint(path, interval=0), 7, MemoryError)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.warns(UserWarning, match=re.escape(f"{str(path)!r} is damaged; it is now")):
        _, weight = train(Checkpoint(path))
    assert weight == train()[1]
    assert [left.name for left in tmp_path.iterdir()] == ["fit.damaged"]


def test_a_checkpoint_of_another_training_is_set_aside_once(tmp_path):
    path = tmp_path / "fit.safetensors"
    whole, weight = train()
    for state in ({"epoch": 3}, foreign_state("history"), foreign_state("weights"), [1.0]):
        Checkpoint(path).save(state)
        with pytest.warns(UserWarning, match="is of another training; it is now .*starts anew"):
            report, own = train(Checkpoint(path))
        assert own == weight, "nothing of the other training is left"
        assert errors(report) == errors(whole)
        assert train(Checkpoint(path))[1] == weight


def foreign_state(spoilt):
    """A state of this training, but for one part: what fails last leaves the most behind."""
    task, kept = Noisy(Line()), []
    keeper = Checkpoint("nowhere", interval=0)
    keeper.load, keeper.remove, keeper.save = lambda: None, lambda: None, kept.append
    trainer().run(task.line, task, generator(), keeper)
    momentum = {"momentum": torch.full((1, 1), -1e6)}  # would turn the first steps round
    state = dict(kept[2]) | {"optimizer": [momentum]}
    if spoilt == "history":
        return state | {"history": state["history"][1:]}
    return state | {"best": {"weight": torch.ones(2, 2)}}


def test_a_longer_training_is_over_at_once(tmp_path):
    """It cannot be told from one that ended; no epoch is trained for ever."""
    path = tmp_path / "fit.safetensors"
    with pytest.raises(MemoryError):
        train(Checkpoint(path, interval=0), 17, MemoryError)
    task = Noisy(Line())
    short = dataclasses.replace(trainer(), max_epochs=2)
    assert short.run(task.line, task, generator(), Checkpoint(path)).reason == "all epochs"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_training_goes_on_where_nothing_can_be_written(tmp_path, monkeypatch, number):
    tried = []

    def full(descriptor):
        tried.append(descriptor)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(container.os, "fsync", full)
    path = tmp_path / "fit.safetensors"
    with pytest.warns(UserWarning, match=f"cannot be written .*{os.strerror(number)}") as warned:
        _, weight = train(Checkpoint(path, interval=0))
    assert len(warned) == len(tried) == 1
    assert weight == train()[1]
    assert not list(tmp_path.iterdir())


def test_the_same_training_elsewhere_may_clean_up_at_any_moment(tmp_path, monkeypatch):
    path = tmp_path / "fit.safetensors"
    fsync, calls = os.fsync, []

    def cleaned_up(descriptor):
        fsync(descriptor)
        calls.append(descriptor)
        if len(calls) % 2:  # the part is gone before it is moved to its place
            Checkpoint(path).remove()

    monkeypatch.setattr(container.os, "fsync", cleaned_up)
    _, weight = train(Checkpoint(path, interval=0))
    assert len(calls) == 14
    assert weight == train()[1]
    assert not list(tmp_path.iterdir())


def test_a_file_that_goes_while_it_is_looked_at_is_none(tmp_path):
    assert Checkpoint(tmp_path / "gone").load() is None
    Checkpoint(tmp_path / "gone").remove()
    with pytest.warns(UserWarning, match="is odd"):
        Checkpoint(tmp_path / "gone").set_aside("is odd")


def test_it_is_not_written_more_often_than_asked(tmp_path):
    checkpoint = Checkpoint(tmp_path / "fit.safetensors", interval=1000)
    checkpoint.save({"epoch": 1})
    checkpoint.save({"epoch": 2})
    assert checkpoint.load() == {"epoch": 1}
    checkpoint.remove()
    assert checkpoint.load() is None
