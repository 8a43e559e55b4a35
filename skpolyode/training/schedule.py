"""The learning rate over the steps of a training."""

from __future__ import annotations

import math


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
