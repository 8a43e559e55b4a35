"""The number of threads is set for a while only."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from threadpoolctl import ThreadpoolController, threadpool_limits

from skpolyode.threads import one_thread


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    with threadpool_limits(2, "blas"):
        yield
    torch.set_num_threads(before)


def threads_of_blas() -> list[int]:
    libraries = ThreadpoolController().select(user_api="blas")
    return [library["num_threads"] for library in libraries.info()]


def test_set_inside_and_restored_after():
    with one_thread():
        assert torch.get_num_threads() == 1
        assert set(threads_of_blas()) == {1}
    assert torch.get_num_threads() == 3
    assert set(threads_of_blas()) == {2}


def test_restored_after_an_exception():
    with pytest.raises(KeyError, match="oh"), one_thread():
        raise KeyError("oh")
    assert torch.get_num_threads() == 3


def test_nested():
    with one_thread():
        with one_thread():
            pass
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_calls_in_threads_leave_nothing_behind():
    def enter():
        call = one_thread()
        call.__enter__()
        return call

    def leave(call):
        call.__exit__(None, None, None)

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two, ThreadPoolExecutor(1) as new:
        first, second = one.submit(enter).result(), two.submit(enter).result()
        one.submit(leave, first).result()
        two.submit(leave, second).result()
        assert new.submit(torch.get_num_threads).result() == 3
    assert torch.get_num_threads() == 3
    assert set(threads_of_blas()) == {2}
