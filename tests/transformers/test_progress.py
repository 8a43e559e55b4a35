"""A bar where somebody waits, and none elsewhere."""

from __future__ import annotations

import io
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from skpolyode.transformers.stages import bar_settings
from tests.transformers.data import short_oscillators, small


class OnlyWrites:
    """What applications put in the place of `sys.stderr`."""

    def write(self, text):
        return len(text)


def shut():
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)


def test_a_bar_in_a_terminal_or_notebook_after_two_seconds(monkeypatch, terminal):
    assert bar_settings("auto") == {"disable": False, "delay": 2.0}
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert bar_settings("auto")["disable"]
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert not bar_settings("auto")["disable"]


def test_no_bar_in_threads(terminal):
    """Nor in processes: tests/transformers/test_parallel.py."""
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(bar_settings, "auto").result()["disable"]


@pytest.mark.parametrize(("verbose", "shown"), [(0, False), (1, True), (True, True), (2, True)])
def test_a_number_decides(verbose, shown):
    assert bar_settings(verbose) == {"disable": not shown}


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize("verbose", ["auto", 1])
@pytest.mark.parametrize("stream", [None, OnlyWrites(), shut()], ids=["none", "writes", "shut"])
def test_fits_where_there_is_no_terminal(stream, verbose, monkeypatch):
    """In services, and under pythonw."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(sys, "stdout", stream)
    small(max_epochs=1, verbose=verbose).fit(short_oscillators(4))
    assert bar_settings(verbose)["disable"] == (verbose != 1 or not isinstance(stream, OnlyWrites))
