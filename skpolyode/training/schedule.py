"""The learning rate during training, and whether errors are larger by more than chance."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

_NEGLIGIBLE = 1e-3  # relative differences of errors below this are ignored
# If one-step errors are about equal, later weights forecast better ahead as a rule, as their rate
# is lower. On van der Pol's oscillator under noise the one-step error is least after 18 of 40
# epochs, and 0.7 % larger after all, when the error ahead is half as large. With few series, such
# a difference may be chance.
_TOLERATED, _ENOUGH_SERIES = 0.01, 10


def one_cycle(step: int, total: int, warm_up: float = 0.02) -> float:
    """Share of the peak learning rate at a step: a linear warm-up, then a cosine to zero.

    Parameters
    ----------
    step : int
        Steps done.
    total : int
        Steps of the whole cycle.
    warm_up : float, default=0.02
        Share of the cycle in which the rate rises.

    Examples
    --------
    >>> from skpolyode.training import one_cycle
    >>> [round(one_cycle(step, 20), 2) for step in (0, 1, 2, 11, 20)]
    [0.5, 1.0, 0.99, 0.46, 0.0]
    """
    rise = max(1, round(warm_up * total))
    if step < rise:
        return (step + 1) / (rise + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, total - rise)))


@dataclass
class Cycle:
    """One cycle over the epochs of a training, which ends early once errors do not fall any more.

    The rate must fall before the end, since errors are needlessly large at high rates. So the rest
    of the cycle is passed in few epochs.

    Parameters
    ----------
    n_epochs : int
        Epochs of the whole cycle.
    watches : bool, default=True
        Whether it may end early; training errors are no reason to.
    earliest : int, default=10
        Epoch before which it does not end, and every epoch is validated.
    since, until : float, default=0.25 and 0.5
        Shares of the epochs between which this is decided. A model that still learns in the middle
        goes through all epochs; later the falling rate itself slows the fall of errors.
    plateau : float, default=0.9
        It ends early if the least error of the last epochs is more than so many times the least
        one before them.
    recent : int, default=4
        The last epochs, in number.
    rest : float, default=0.125
        Share of the epochs in which the rest is passed. Chosen with the other shares on wages,
        pbcseq, storms and gapminder: 0.56, 0.68, 0.76 and 0.54 of the seconds of a plateau of 0.98
        that was looked for from a third of the epochs on and passed in 0.4 of them. Squared errors
        some rows ahead are 1.00, 0.83, 1.00 and 1.12 times theirs (geometric means). On sets that
        it was not chosen on: Blackmore 0.50 of the seconds and 1.02 of the errors, ChickWeight 0.83
        and 0.98, autism 0.68 and 1.01. Simulated waves go through all epochs as before.
    every : int, default=2
        Epochs between two validations in the second half, where weights change little. On waves,
        20 and 100 series with and without noise, fits take 0.84 to 0.94 of the seconds of a
        validation every epoch. Squared errors of paths are 0.96 to 1.03 times as large, those of
        forecasts 0.71 to 1.01 times.

    Examples
    --------
    The errors of 20 epochs do not fall after the third; the rate is nothing after the tenth:

    >>> from skpolyode.training.schedule import Cycle
    >>> cycle = Cycle(20)
    >>> for epoch, error in enumerate([9.0, 4.0, 2.0, 2.0, 2.1, 2.0, 2.0, 2.1]):
    ...     cycle.watch(epoch, error)
    >>> [round(cycle.place(epoch), 1) for epoch in range(6, 11)], cycle.is_over(10)
    ([6.0, 9.5, 13.0, 16.5, 20.0], True)
    """

    n_epochs: int
    watches: bool = True
    earliest: int = 10
    since: float = 0.25
    until: float = 0.5
    plateau: float = 0.9
    recent: int = 4
    rest: float = 0.125
    every: int = 2
    errors: list[float] = field(default_factory=list)
    shortened: tuple[int, int] | None = None  # epochs: where it goes on faster, and where it ends

    def watch(self, epoch: int, error: float) -> None:
        """Take note of the error of an epoch, and decide whether to end early."""
        self.errors.append(error)
        before, last = self.errors[: -self.recent], self.errors[-self.recent :]
        is_early = self.since <= epoch / self.n_epochs <= self.until
        if not self.watches or self.shortened or not is_early:
            return
        # Where nothing was learned yet, the rate is too high, and it is falling.
        if not before or min(before) == before[0]:
            return
        end = max(epoch + round(self.rest * self.n_epochs), self.earliest)
        if min(last) > self.plateau * min(before) and end < self.n_epochs:
            self.shortened = epoch, end

    def place(self, epoch: float) -> float:
        """Where in the whole cycle an epoch is."""
        if self.shortened is None or epoch < self.shortened[0]:
            return epoch
        start, end = self.shortened
        return start + (epoch - start) * (self.n_epochs - start) / (end - start)

    def is_due(self, epoch: int, last: int) -> bool:
        """Whether an epoch begins with a validation; `last` is the epoch of the one before."""
        place = self.place(epoch)
        is_late = max(self.n_epochs / 2, self.earliest) < place < self.n_epochs
        return not is_late or place - self.place(last) >= self.every

    def is_over(self, epoch: int) -> bool:
        """Whether no epoch is left."""
        return self.place(epoch) >= self.n_epochs

    def share(self, epoch: int, step: int, n_steps: int) -> float:
        """Share of the peak learning rate at a step of an epoch."""
        done = round(self.place(epoch + step / n_steps) * n_steps)
        return one_cycle(done, self.n_epochs * n_steps)


def is_surely_larger(errors: torch.Tensor | None, others: torch.Tensor | None) -> bool:
    """Whether errors are larger than others by more than chance explains.

    They are if their sum is larger by more than two standard errors, from the differences between
    series, or if the geometric mean of the series' errors is not smaller; with ten series or more
    it may be larger by one percent. If few series make most of the error, as those of chaotic
    systems with a long gap do, the least sum of many epochs is mostly luck. One such series makes
    a difference of one standard error, four make two.

    Parameters
    ----------
    errors, others : Tensor of shape (2, n) or None
        Sums of squared errors of the same series, and their numbers. If they are not known, None,
        any larger error counts as surely larger.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.training.schedule import is_surely_larger
    >>> others = torch.tensor([[1.0, 1.0, 2.0, 2.0, 9.0], [5.0] * 5])
    >>> luck, worse = others.clone(), others.clone()
    >>> luck[0] = torch.tensor([0.5, 0.5, 1.0, 1.0, 20.0])
    >>> worse[0] = 1.2 * others[0]
    >>> is_surely_larger(luck, others), is_surely_larger(worse, others)
    (False, True)
    """
    if errors is None or others is None or errors.shape != others.shape or errors.shape[1] < 3:
        return True
    larger, n = errors[0] - others[0], errors.shape[1]
    if larger.sum() > 2 * (n / (n - 1) * (larger - larger.mean()).square().sum()).sqrt():
        return True
    floor = _NEGLIGIBLE * others[0].sum() / others[1].sum()
    ratio = (errors[0] / errors[1] + floor) / (others[0] / others[1] + floor)
    tolerated = _TOLERATED if n >= _ENOUGH_SERIES else -_NEGLIGIBLE
    return bool(ratio.log().mean() > tolerated)
