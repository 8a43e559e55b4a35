"""Torch's intra-op threads, set for one call and restored after it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_lock = threading.Lock()
_found: list[int] = []  # what the calls that are inside now found, in whatever thread


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
    with _lock:
        before = torch.get_num_threads()
        _found.append(before)
        torch.set_num_threads(min(n_threads, before))
    try:
        yield
    finally:
        with _lock:
            # What is set last is also the number of threads that start later. A call that began
            # beside another found the number of that one, so the last to leave sets what the
            # first has found.
            torch.set_num_threads(before if len(_found) > 1 else _found[0])
            _found.pop()
