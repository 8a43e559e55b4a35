"""What is learned when it is first asked for."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import pytest

from skpolyode.embedders.base import Lazy
from skpolyode.saving.codec import Encoder


class Counted:
    """Learns 3, and counts how often."""

    def __init__(self) -> None:
        self.n_times = 0

    def __call__(self) -> SimpleNamespace:
        self.n_times += 1
        return SimpleNamespace(number=3)


def test_it_is_learned_once_and_only_if_asked():
    learn = Counted()
    lazy = Lazy(learn)
    assert learn.n_times == 0
    assert (lazy.number, lazy.learned.number, learn.n_times) == (3, 3, 1)
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        lazy.other  # noqa: B018


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_have_learned(again):
    learn = Counted()
    copied = again(Lazy(learn))
    assert learn.n_times == 1
    assert copied.number == 3
    assert learn.n_times == 1


def test_files_hold_what_has_been_learned():
    assert Encoder().encode(Lazy(lambda: 0.5), "it") == 0.5
