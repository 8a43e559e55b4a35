"""The learning rate over the steps of a training, and when one error counts as larger."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skpolyode.training import one_cycle
from skpolyode.training.loop import Cycle, is_surely_larger


@pytest.mark.parametrize("total", [1, 2, 10, 777])
def test_one_cycle(total):
    rates = np.array([one_cycle(step, total) for step in range(total + 1)])
    peak = rates.argmax()
    assert (rates > 0)[:-1].all()
    assert rates.max() <= 1
    assert (np.diff(rates[: peak + 1]) > 0).all()
    assert (np.diff(rates[peak:]) < 0).all()
    assert peak <= max(1, 0.15 * total)
    if total > 1:
        assert rates[-1] == pytest.approx(0)
        assert rates.max() == 1


FALLING = [2.0**-k for k in range(24)]
SETTLED = [2.0] + [1.0] * 9


def cycle_of(errors, **settings):
    cycle = Cycle(24, **settings)
    for epoch, error in enumerate(errors):
        cycle.watch(epoch, error)
    return cycle


def test_a_cycle_is_whole_while_errors_fall():
    cycle = cycle_of(FALLING)
    assert cycle.pace is None
    shares = [cycle.share(epoch, step, 3) for epoch in range(24) for step in range(3)]
    assert shares == [one_cycle(step, 72) for step in range(72)]
    assert [cycle.is_over(epoch) for epoch in (23, 24)] == [False, True]


@pytest.mark.parametrize(
    ("errors", "settings", "pace"),
    [
        (FALLING[:8] + FALLING[7:8] * 4, {}, (11, 11, 14)),  # four epochs that are no better
        (FALLING[:8] + [FALLING[7] * 0.95] * 4, {}, (11, 11, 14)),
        (FALLING[:8] + [FALLING[7] * 0.85] * 4, {}, None),
        (SETTLED, {}, (6, 6, 10)),  # not before a quarter of the epochs
        (SETTLED, {"earliest": 20}, (6, 6, 20)),
        (SETTLED, {"earliest": 24}, None),  # it would not end earlier than by itself
        (SETTLED, {"watches": False}, None),
        ([1.0] * 24, {}, None),  # nothing was learned
        (FALLING[:10] + FALLING[9:10] * 14, {}, None),  # not in the second half
    ],
)
def test_a_cycle_ends_early_where_errors_do_not_fall(errors, settings, pace):
    assert cycle_of(errors, **settings).pace == pace


def test_the_rate_of_a_shortened_cycle_falls_to_nothing():
    cycle = cycle_of(SETTLED)
    shares = [cycle.share(epoch, step, 50) for epoch in range(1, 10) for step in range(50)]
    assert (np.diff(shares) < 0).all()
    assert shares[5 * 50] == pytest.approx(one_cycle(6 * 50, 24 * 50)), "it goes on from there"
    assert shares[-1] < 1e-3
    assert [cycle.is_over(epoch) for epoch in (9, 10)] == [False, True]


def test_where_errors_fall_again_a_shortened_cycle_is_in_no_haste():
    """At its place in the whole cycle it goes on as that would, to a rate of nothing."""
    cycle = cycle_of([*SETTLED[:8], 0.89])
    place = 6 + 2 * 18 / 4
    assert cycle.pace == (8, place, 17)
    assert [cycle.place(epoch) for epoch in (8, 9)] == [place, place + 1]
    shares = [cycle.share(epoch, step, 50) for epoch in range(8, 17) for step in range(50)]
    assert (np.diff(shares) < 0).all()
    assert shares[-1] < 1e-3
    assert [cycle.is_over(epoch) for epoch in (16, 17)] == [False, True]
    assert cycle_of([*SETTLED[:8], 0.91]).pace == (6, 6, 10)


@pytest.mark.parametrize("n_epochs", [4, 11, 24, 41])
def test_in_the_second_half_every_second_epoch_is_validated(n_epochs):
    cycle, due = Cycle(n_epochs), [0]
    for epoch in range(1, n_epochs + 1):
        if cycle.is_due(epoch, due[-1]):
            due.append(epoch)
    start = max(n_epochs // 2, 10)
    assert due[: start + 1] == list(range(min(start, n_epochs) + 1))
    assert set(np.diff(due[start:-1])) <= {2}
    assert due[-1] == n_epochs


def test_of_a_shortened_cycle_every_epoch_is_validated():
    cycle = cycle_of(SETTLED)
    assert all(cycle.is_due(epoch, epoch - 1) for epoch in range(1, 11))


@pytest.mark.parametrize(
    ("n_series", "more", "is_larger"),
    [
        (12, 0.005, False),
        (12, 0.02, True),
        (6, 0.005, True),
        (6, -0.005, False),
    ],
)
def test_of_many_series_a_small_difference_does_not_count(n_series, more, is_larger):
    """Errors of half the series rise and of the others fall, by more than their sum does."""
    others = torch.ones(2, n_series)
    spread = torch.tensor([1.1, 1 / 1.1]).repeat(n_series // 2)
    errors = torch.stack([(1 + more) * spread, others[1]])
    assert is_surely_larger(errors, others) is is_larger
