"""Torch's intra-op threads, set for one call and restored after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["intra_op_threads"]


@contextmanager
def intra_op_threads(n_threads: int) -> Iterator[None]:
    """Run with at most `n_threads` threads inside each torch operation.

    Training works on small tensors, where one thread is as fast as two, and two processes with
    two threads each on two cores are five times slower than one. A limit set from outside (by
    joblib's workers, `OMP_NUM_THREADS`) is never raised.

    Parameters
    ----------
    n_threads : int

    Examples
    --------
    >>> import torch
    >>> from skpolyode.training import intra_op_threads
    >>> before = torch.get_num_threads()
    >>> with intra_op_threads(1):
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    before = torch.get_num_threads()
    torch.set_num_threads(min(n_threads, before))
    try:
        yield
    finally:
        torch.set_num_threads(before)
