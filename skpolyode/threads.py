"""How torch computes within a call, whatever the caller has set; restored after it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache

import torch
from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_found: list[int] = []  # torch's threads, as the calls that are inside now found them


@cache
def _libraries() -> ThreadpoolController:
    """BLAS of numpy and scipy; to look for these libraries takes milliseconds."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_thread() -> Iterator[None]:
    """Run each operation of torch, and of the BLAS of numpy and scipy, on one thread.

    Training works on small arrays, where one thread is as fast as two. Where two processes share
    two cores, threads that wait for each other cost far more: a default fit of 200 series with
    noise took 107 s of processor time in place of 40.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.threads import one_thread
    >>> before = torch.get_num_threads()
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    with _lock:
        before = torch.get_num_threads()
        # A call beside another would find, and restore, the limit of that one.
        blas = nullcontext() if _found else _libraries().limit(limits=1)
        _found.append(before)
        torch.set_num_threads(1)
    try:
        with blas:
            yield
    finally:
        with _lock:
            # What is set last is also torch's number for threads that start later. A call that
            # began beside another found the number of that one, so the last to leave sets what
            # the first has found.
            torch.set_num_threads(before if len(_found) > 1 else _found[0])
            _found.pop()


@contextmanager
def learning() -> Iterator[None]:
    """Compute gradients, and make tensors on the CPU, also under other defaults of the caller.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.threads import learning
    >>> with torch.no_grad(), learning():
    ...     torch.is_grad_enabled()
    True
    """
    # A device in force slows each operation down. `get_default_device` of torch 2.6 fails after a
    # default was taken back.
    device = nullcontext() if torch.empty(0).is_cpu else torch.device("cpu")
    with torch.inference_mode(False), torch.enable_grad(), device:
        yield
