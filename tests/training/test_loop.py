"""The training loop, on tasks of a few lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import nn
from tqdm import tqdm

from skpolyode.training import Trainer, loop, one_cycle
from skpolyode.training.loop import Task


class Line(nn.Module):
    """y = w x, with one weight."""

    def __init__(self, weight: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[weight]]))


class Fit(Task):
    """Fit the weight to 2; validation errors can be made up."""

    def __init__(self, line: Line, errors: Sequence[float] = (), n_items: int = 10) -> None:
        self.line, self.errors = line, list(errors)
        self.items = torch.arange(n_items)
        self.batches: list[torch.Tensor] = []
        self.weights: list[float] = []
        self.spoil: Callable[[], float] = lambda: 1.0

    def refresh(self, progress) -> float:
        self.weights.append(self.line.weight.item())
        return self.errors.pop(0) if self.errors else (self.line.weight.item() - 2) ** 2

    def loss(self, index: torch.Tensor) -> torch.Tensor:
        self.batches.append(index)
        return (self.line.weight - 2).square().sum() * self.spoil()


def train(errors=(), *, n_items=10, seed=0, spoil=None, bar=None, **options):
    line = Line()
    task = Fit(line, errors, n_items)
    if spoil is not None:
        task.spoil = spoil
    settings = {"learning_rate": 0.3, "batch_size": 4, "max_epochs": 5, "patience": None} | options
    generator = torch.Generator().manual_seed(seed)
    report = Trainer(**settings).run(line, task, generator, bar=bar)
    return report, task, line


def test_tasks_learn_how_far_training_is():
    told = []
    trainer = Trainer(learning_rate=0.1, batch_size=4, max_epochs=4, patience=None)
    task = Fit(Line())
    task.refresh = lambda progress: told.append(progress) or 1.0
    trainer.run(task.line, task, torch.Generator().manual_seed(0))
    assert told == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_epochs_without_validation_repeat_the_error_before():
    report, task, _ = train(max_epochs=24)
    assert [entry["epoch"] for entry in report.history] == list(range(25))
    assert len(task.weights) == 1 + 12 + 6  # at the start, and in both halves
    errors = [entry["validation_error"] for entry in report.history]
    assert errors[13:24:2] == errors[12:23:2]
    assert len(set(errors[12::2])) == 7


def test_what_a_task_has_found_is_in_the_model_and_in_the_average_at_once(monkeypatch):
    monkeypatch.setattr(loop, "_AVERAGED", 0.5)
    line = Line()
    line.register_buffer("noise", torch.zeros(1))
    task, seen = Fit(line), []
    refresh, loss = task.refresh, task.loss

    def estimate(progress):
        seen.append(line.noise.item())
        task.found = {"noise": torch.tensor([progress + 1])}
        return refresh(progress)

    def look(index):
        seen.append(line.noise.item())
        return loss(index)

    task.refresh, task.loss = estimate, look
    settings = {"learning_rate": 0.1, "batch_size": 10, "max_epochs": 2, "patience": None}
    Trainer(**settings).run(line, task, torch.Generator().manual_seed(0))
    assert seen == [0.0, 1.0, 1.0, 1.5, 1.5]
    assert line.noise.item() == 2.0


def test_it_learns():
    report, _, line = train(max_epochs=30)
    assert line.weight.item() == pytest.approx(2, abs=0.1)
    assert report.best_error < 0.01


def test_history():
    report, task, _ = train()
    assert [entry["epoch"] for entry in report.history] == list(range(6))
    errors = [entry["validation_error"] for entry in report.history]
    assert errors == pytest.approx([(w - 2) ** 2 for w in task.weights])
    assert all("training_loss" in entry for entry in report.history[:-1])
    assert "training_loss" not in report.history[-1]
    seconds = [entry["seconds"] for entry in report.history]
    assert seconds == sorted(seconds)
    assert report.best_error == min(errors)


def test_best_weights_are_restored():
    report, task, line = train([5.0, 4.0, 1.0, 2.0, 3.0, 4.0])
    assert report.best_error == 1.0
    assert line.weight.item() == task.weights[2] != task.weights[-1]


class Ahead(Fit):
    """Errors of the next observation come in pairs with those further ahead."""

    def refresh(self, progress):
        self.weights.append(self.line.weight.item())
        error, self.error_ahead = self.errors.pop(0)
        return error


def test_weights_that_are_kept_have_the_least_product_of_errors():
    line = Line()
    task = Ahead(line, [(5.0, 9.0), (1.0, 4.0), (2.0, 1.0), (3.0, 3.0)])
    trainer = Trainer(learning_rate=0.01, batch_size=5, max_epochs=3, patience=None)
    report = trainer.run(line, task, torch.Generator().manual_seed(0))
    assert (report.best_epoch, report.best_error) == (2, 2.0)
    assert line.weight.item() == task.weights[2]


@pytest.mark.parametrize("falls", [True, False])
def test_where_noise_is_learned_training_goes_on_from_the_best_weights_at_half_of_the_rate(
    falls, monkeypatch
):
    """The training loss falls, and the validation error rises; a rate too high raises both."""
    monkeypatch.setattr(loop, "_AVERAGED", 0.0)
    monkeypatch.setattr(loop, "_SLOWEST", 1 / 4)
    line = Line()
    task = Fit(line, [5.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    losses, departures = iter([9.0, 8.0, *(7.0 - k if falls else 9.0 + k for k in range(4))]), []

    def loss(index):
        departures.append(line.weight.item())
        value = (line.weight - 2).square().sum()
        return value * (next(losses) / value.item())

    task.loss = loss
    trainer = Trainer(learning_rate=0.01, batch_size=10, max_epochs=6, patience=None)
    rates = [
        entry["learning_rate"]
        for entry in trainer.run(line, task, torch.Generator().manual_seed(0)).history[:-1]
    ]
    usual = [0.01 * one_cycle(step, 6) for step in range(6)]
    shares = [1, 1, 1, 1 / 2, 1 / 4, 1 / 4] if falls else [1] * 6
    assert rates == pytest.approx([rate * share for rate, share in zip(usual, shares, strict=True)])
    best = departures[1]
    assert [k for k in range(6) if departures[k] == best] == ([1, 3, 4] if falls else [1])


class Preliminary(Fit):
    """The errors of the second and third epoch are not to be compared with others."""

    def refresh(self, progress):
        error = super().refresh(progress)
        self.is_preliminary = len(self.weights) in (2, 3)
        return error


def test_preliminary_errors_do_not_compete():
    """Neither as the best, nor as epochs without a better one."""
    line = Line()
    task = Preliminary(line, [5.0, 0.1, 0.2, 6.0, 4.0, 4.5, 4.6, 0.0])
    trainer = Trainer(learning_rate=0.01, batch_size=5, max_epochs=20, patience=1)
    report = trainer.run(line, task, torch.Generator().manual_seed(0))
    assert len(report.history) == 7
    assert report.best_error == 4.0
    assert line.weight.item() == task.weights[4]


class Interrupted(Fit):
    """The user presses Ctrl-C at a validation or a minibatch; errors are coarse from then on."""

    def __init__(self, line, *, validation=None, batch=None, coarse=range(0), errors=()):
        super().__init__(line, errors)
        self.validation, self.batch, self.coarse = validation, batch, coarse

    def refresh(self, progress):
        if len(self.weights) == self.validation:
            raise KeyboardInterrupt
        self.is_preliminary = len(self.weights) in self.coarse
        return super().refresh(progress)

    def loss(self, index):
        if len(self.batches) == self.batch:
            raise KeyboardInterrupt
        return super().loss(index)


def interrupted(**options):
    task = Interrupted(Line(), **options)
    trainer = Trainer(learning_rate=0.3, batch_size=5, max_epochs=5, patience=None)
    return trainer.run(task.line, task, torch.Generator().manual_seed(0)), task


def test_ctrl_c_in_the_first_validation_has_learned_nothing():
    report, task = interrupted(validation=0)
    assert report.message == "training was interrupted at its start; nothing was learned yet"
    assert (report.reason, report.n_epochs, report.history) == ("interrupted", 0, [])
    assert task.line.weight.item() == 0


def test_ctrl_c_keeps_the_best_weights():
    report, task = interrupted(batch=7, errors=[5.0, 1.0, 2.0, 3.0])
    assert (report.best_epoch, report.best_error, report.n_epochs) == (1, 1.0, 3)
    assert task.line.weight.item() == task.weights[1]


def test_ctrl_c_while_only_preliminary_errors_are_known_keeps_what_was_learned():
    report, task = interrupted(batch=6, coarse=range(1, 9), errors=[5.0, 6.0, 7.0, 8.0])
    assert task.line.weight.item() == task.weights[3] != 0
    assert (report.best_epoch, report.best_error) == (3, 8.0)
    # Trained weights that have competed are not given up for later ones that have not.
    assert interrupted(batch=6, coarse=[3], errors=[5.0, 1.0, 2.0, 0.5])[0].best_epoch == 1
    # Weights that are known to be worse than the first ones, or to be broken, are not kept.
    assert interrupted(batch=6, coarse=[1, 2], errors=[5.0, 1.0, 1.0, 8.0])[0].best_epoch == 0
    assert interrupted(batch=6, coarse=[1, 2, 3], errors=[5.0, 1, 1, math.nan])[0].best_epoch == 0


def test_the_report_says_why_training_stopped():
    assert train()[0].reason == "all epochs"
    stopped = train([3.5, 3.0, 4.0, 4.0, 4.0], patience=1)[0]
    assert stopped.reason == "no improvement for 2 epochs"
    assert train(n_items=0)[0].reason == "nothing to train on"


def test_a_trainer_is_its_settings_and_can_be_used_again():
    trainer = Trainer(learning_rate=0.3, batch_size=4, max_epochs=5, patience=None)
    reports = []
    for _ in range(2):
        task = Fit(Line())
        reports.append(trainer.run(task.line, task, torch.Generator().manual_seed(0)))
    assert len(reports[0].history) == len(reports[1].history) == 6
    assert reports[0].best_error == reports[1].best_error


def test_the_optimizer_is_handed_in(monkeypatch):
    monkeypatch.setattr(loop, "_CLIP", 1e9)

    class Descent:
        def __init__(self, parameters, lr):
            self.parameters, self.lr, self.state = list(parameters), lr, []

        def zero_grad(self):
            for parameter in self.parameters:
                parameter.grad = None

        @torch.no_grad()
        def step(self):
            for parameter in self.parameters:
                parameter -= self.lr * parameter.grad

    _, task, _ = train(optimizer=Descent, batch_size=10, max_epochs=1)
    # From 0, down the slope 2 (w - 2) = -4, at the rate 0.3 / 2 of a cycle of a single step.
    assert task.weights[-1] == pytest.approx(0.6)


@pytest.mark.parametrize("patience", [1, 2])
def test_early_stopping(patience):
    errors = [5.0, 4.0, 4.5, 4.0, 4.1, 0.0]
    report, task, line = train(errors, patience=patience)
    assert len(report.history) == 3 + patience
    assert "training_loss" not in report.history[-1]
    assert line.weight.item() == task.weights[1]


def test_it_does_not_stop_before_anything_was_learned():
    """At high rates all weights may be worse than none; the rate falls until the end."""
    report, _, _ = train([2.0, 9.0, 8.0, 7.0, 5.0, 1.0], patience=1)
    assert (report.reason, report.best_epoch) == ("all epochs", 5)
    report, _, _ = train([2.0, 9.0, 8.0, 7.0, 5.0, 4.0], patience=1)
    assert (report.reason, report.best_epoch) == ("all epochs", 0)


def test_errors_that_do_not_fall_end_the_cycle_early():
    errors = [9.0, 5.0, 4.0, 3.0, *[2.0] * 20]
    report, _, _ = train(errors, max_epochs=20, patience=20)
    assert (report.reason, report.n_epochs) == ("errors did not fall any more", 10)
    assert report.history[-2]["learning_rate"] < 0.3 / 50
    assert train(errors, max_epochs=20)[0].n_epochs == 20, "training errors say nothing"


def test_an_improvement_starts_the_count_anew():
    report, _, _ = train([5.0, 6.0, 4.0, 6.0, 3.0, 6.0], patience=1)
    assert len(report.history) == 6
    assert report.best_error == 3.0


def test_every_item_is_seen_once_an_epoch_in_even_batches():
    _, task, _ = train(n_items=10, batch_size=4, max_epochs=3)
    assert len(task.batches) == 9
    epochs = [torch.cat(task.batches[k : k + 3]) for k in (0, 3, 6)]
    assert all(sorted(epoch.tolist()) == list(range(10)) for epoch in epochs)
    assert not torch.equal(epochs[0], epochs[1])
    assert {len(batch) for batch in task.batches} == {3, 4}


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_with_a_warning(bad):
    calls = []

    def spoil():
        calls.append(1)
        return 1.0 if len(calls) < 8 else bad  # in the second batch of the third epoch

    with pytest.warns(
        ConvergenceWarning,
        match=r"infinite or NaN in epoch 2; .* kept \(.*rate is 0\.3: do less\.$",
    ):
        report, task, line = train(spoil=spoil, remedy="do less")
    assert math.isfinite(line.weight.item())
    assert report.best_error == min(entry["validation_error"] for entry in report.history)
    assert len(report.history) == 3
    best = int(np.argmin([entry["validation_error"] for entry in report.history]))
    assert line.weight.item() == task.weights[best]


def test_a_validation_error_that_is_not_finite_is_never_the_best():
    report, task, line = train([5.0, math.nan, 4.0, math.inf, math.nan, math.nan])
    assert report.best_error == 4.0
    assert line.weight.item() == task.weights[2]


def test_nothing_to_train_on():
    report, task, line = train(n_items=0)
    assert len(report.history) == 1
    assert line.weight.item() == 0
    assert task.batches == []


def test_only_the_given_generator_is_used():
    states = torch.get_rng_state(), np.random.get_state()[1].copy()
    one, two, other = (train(seed=seed)[1].batches for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), states[0])
    np.testing.assert_array_equal(np.random.get_state()[1], states[1])
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_large_gradients_are_clipped():
    """A single step cannot be larger because the loss is."""
    plain = train(max_epochs=2)[2].weight.item()
    steep = train(max_epochs=2, spoil=lambda: 1e6)[2].weight.item()
    assert math.isfinite(steep)
    assert abs(steep) < 10 * max(1.0, abs(plain))


def test_progress_counts_the_epochs_on_stderr(capfd):
    with tqdm(total=5) as bar:
        train(bar=bar)
    captured = capfd.readouterr()
    assert "validation_error" in captured.err
    assert captured.out == ""
    assert "5/5" in captured.err
    with tqdm(total=5) as bar:
        train([2.0, 1.0, 2.0, 3.0], patience=1, bar=bar)
    assert "3/5" in capfd.readouterr().err  # the caller knows what else the bar stands for
    train()
    assert capfd.readouterr() == ("", "")
