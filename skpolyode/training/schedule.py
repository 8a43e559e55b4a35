"""The learning rate over the steps of a training."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


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

    The rate must fall before it ends: at high rates errors are larger than they need be. So the
    rest of the cycle is passed in few epochs.

    Parameters
    ----------
    n_epochs : int
        Epochs of the whole cycle.
    watches : bool, default=True
        Whether it may end early; errors of what it trains on say nothing.
    earliest : int, default=10
        Epoch before which it does not end.
    plateau : float, default=0.98
        It ends early if the least error of the last epochs is more than so many times the least
        one before them, from a third of the epochs on.
    recent : int, default=4
        The last epochs, in number.
    rest : float, default=0.4
        Share of the epochs in which the rest is passed. On wards, wages and smoothed turbofan
        engines a fit then takes .7 to .85 of the seconds of whole cycles, and errors are those of
        whole cycles; storms and Lorenz63 do not end early. With .25 it takes .6 to .75, but errs
        1.07 times as much one cycle ahead on the engines (.0277, .0258 with whole cycles, .0267
        with .4), and squared errors 16 rows ahead on wards are 1.025 times as large. With a plateau
        of .95 storms err 1.04 times as much.

    Examples
    --------
    The errors of 20 epochs do not fall after the third; the rate is nothing after the fifteenth:

    >>> from skpolyode.training.schedule import Cycle
    >>> cycle = Cycle(20)
    >>> for epoch, error in enumerate([9.0, 4.0, 2.0, 2.0, 2.1, 2.0, 2.0, 2.1]):
    ...     cycle.watch(epoch, error)
    >>> [round(cycle.place(epoch), 1) for epoch in range(7, 16)], cycle.is_over(15)
    ([7.0, 8.6, 10.2, 11.9, 13.5, 15.1, 16.8, 18.4, 20.0], True)
    """

    n_epochs: int
    watches: bool = True
    earliest: int = 10
    plateau: float = 0.98
    recent: int = 4
    rest: float = 0.4
    errors: list[float] = field(default_factory=list)
    shortened: tuple[int, int] | None = None  # epochs: where it goes on faster, and where it ends

    def watch(self, epoch: int, error: float) -> None:
        """Take note of the error of an epoch, and decide whether to end early."""
        self.errors.append(error)
        before, last = self.errors[: -self.recent], self.errors[-self.recent :]
        if not self.watches or self.shortened or 3 * epoch < self.n_epochs:
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

    def is_over(self, epoch: int) -> bool:
        """Whether no epoch is left."""
        return self.place(epoch) >= self.n_epochs

    def share(self, epoch: int, step: int, n_steps: int) -> float:
        """Share of the peak learning rate at a step of an epoch."""
        done = round(self.place(epoch + step / n_steps) * n_steps)
        return one_cycle(done, self.n_epochs * n_steps)

    def state_dict(self) -> dict[str, Any]:
        """What it has seen and decided."""
        return {"errors": list(self.errors), "shortened": self.shortened}
