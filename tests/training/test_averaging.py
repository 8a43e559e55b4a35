"""The average of weights over the last steps of a training."""

import pytest
import torch

from skpolyode.training import loop
from skpolyode.training.loop import Task, Trainer, WeightAverage, applied


def averages(weights, span):
    """The average after each of these weights of a module of one weight."""
    module = torch.nn.Linear(1, 1, bias=False).double()
    average = WeightAverage(module)
    found = []
    for weight in weights:
        torch.nn.init.constant_(module.weight, weight)
        average.update(span)
        found.append(average.weights["weight"].item())
    return found


def test_the_first_steps_count_the_same():
    assert averages([1.0, 2.0, 6.0, 7.0], span=10.0) == pytest.approx([1.0, 1.5, 3.0, 4.0])


def test_later_ones_decay_as_in_the_closed_form():
    share, weights = 1 / 4, [0.0] * 4 + [1.0] * 6
    assert averages(weights, span=4.0)[-1] == pytest.approx(1 - (1 - share) ** 6)


def test_a_span_of_one_step_is_that_step():
    assert averages([1.0, 2.0, 6.0], span=1.0) == [1.0, 2.0, 6.0]


def test_an_error_in_the_block_leaves_the_weights():
    module = torch.nn.Linear(2, 1)
    average, before = WeightAverage(module), module.weight.detach().clone()
    average.weights["weight"] += 1.0
    seen = []

    def interrupted():
        with applied(average.weights, module):
            seen.append(module.weight.detach().clone())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert torch.equal(seen[0], before + 1.0)
    assert torch.equal(module.weight, before)


def test_integers_are_copied():
    module = torch.nn.BatchNorm1d(1)
    average = WeightAverage(module)
    module.num_batches_tracked += 3
    average.update(span=2.0)
    assert average.weights["num_batches_tracked"] == 3


class NoisyMean(Task):
    """The mean of numbers, by gradients of one of them at a time."""

    def __init__(self):
        self.items = torch.randn(64, generator=torch.Generator().manual_seed(0)).double()
        self.module = torch.nn.Linear(1, 1, bias=False).double()
        torch.nn.init.zeros_(self.module.weight)

    def refresh(self, progress):
        return (self.module.weight - self.items.mean()).square().item()

    def loss(self, index):
        return (self.module.weight - self.items[index]).square().mean()


class Descent(torch.optim.SGD):
    """Steps of gradient descent, in the words of the trainer."""

    @property
    def lr(self):
        return self.param_groups[0]["lr"]

    @lr.setter
    def lr(self, value):
        self.param_groups[0]["lr"] = value


@pytest.mark.parametrize("max_epochs", [2, 8])
def test_averages_err_less_than_weights_of_one_step(max_epochs, monkeypatch):
    monkeypatch.setattr(loop, "_CLIP", 100.0)
    errors = {}
    for averaged in (0.0, 0.25):
        monkeypatch.setattr(loop, "_AVERAGED", averaged)
        trainer = Trainer(
            learning_rate=0.2,
            batch_size=1,
            max_epochs=max_epochs,
            patience=None,
            optimizer=Descent,
        )
        task = NoisyMean()
        report = trainer.run(task.module, task, torch.Generator().manual_seed(0))
        errors[averaged] = [entry["validation_error"] for entry in report.history[1:-1]]
    assert sum(errors[0.25]) < 0.5 * sum(errors[0.0])
