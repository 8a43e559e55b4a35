"""The number of torch's threads is set for a while only."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from skpolyode.training import intra_op_threads


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("wanted", "inside"), [(1, 1), (2, 2), (3, 3), (8, 3)])
def test_set_inside_and_restored_after(wanted, inside):
    with intra_op_threads(wanted):
        assert torch.get_num_threads() == inside
    assert torch.get_num_threads() == 3


def test_restored_after_an_exception():
    with pytest.raises(KeyError, match="oh"), intra_op_threads(1):
        raise KeyError("oh")
    assert torch.get_num_threads() == 3


def test_nested():
    with intra_op_threads(2):
        with intra_op_threads(1):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2


def test_calls_in_threads_leave_nothing_behind():
    def enter():
        call = intra_op_threads(1)
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
