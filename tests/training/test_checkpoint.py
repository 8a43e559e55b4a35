"""Training goes on from where it was interrupted, and ends as if it had not been."""

from __future__ import annotations

import re

import pytest
import torch

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


def test_it_is_not_written_more_often_than_asked(tmp_path):
    checkpoint = Checkpoint(tmp_path / "fit.safetensors", interval=1000)
    checkpoint.save({"epoch": 1})
    checkpoint.save({"epoch": 2})
    assert checkpoint.load() == {"epoch": 1}
    checkpoint.remove()
    assert checkpoint.load() is None
