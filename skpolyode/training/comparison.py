"""When one validation error counts as larger than another."""

from __future__ import annotations

import torch

_NEGLIGIBLE = 1e-3  # share of an error by which it may differ to no account
# As a rule later weights forecast better ahead, at a lower rate, where one step does not tell. Van
# der Pol's oscillator under noise: its one-step error is least after 18 of 40 epochs, and .7 % more
# after all, where the error ahead is half as large. With few series this would be luck.
_TOLERATED, _ENOUGH_SERIES = 0.01, 10


def is_surely_larger(errors: torch.Tensor | None, others: torch.Tensor | None) -> bool:
    """Whether errors are larger than others by more than chance explains.

    They are if their sum is larger by more than two standard errors, which the differences of the
    series tell, or the geometric mean of the series' errors is not smaller; of ten series and more
    it may be larger by one percent. Where few series make most of the error, as those of chaotic
    systems with a long gap do, the least sum of many epochs is mostly luck: one such series is one
    standard error, four are two.

    Parameters
    ----------
    errors, others : Tensor of shape (2, n) or None
        Sums of squared errors of the same series, and their numbers. None: not known, so that a
        larger error counts as it is.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.training.comparison import is_surely_larger
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
