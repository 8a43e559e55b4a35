"""Settings of the whole test run."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

# Set before anything imports numpy or torch: the workers of a parallel run share the cores,
# and sums that are split over threads differ in the last digits from machine to machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest
from hypothesis import settings

# A deadline would make a verdict depend on the load of the machine, fresh random examples
# would make it depend on the run. (`make fuzz` tries thousands of fresh ones.)
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("repeatable")


# `quick` is imported where it is used: the process that only hands out tests needs no torch.


@pytest.fixture(scope="module", autouse=True)
def small_fits():
    """Half of each: tests of what is left out, and of pages, have `whole_fits`.

    By module: doctests of the package have fits as users have them.
    """
    from tests import quick

    with quick.small_fits():
        yield


@pytest.fixture(scope="module")
def whole_fits():
    """For tests of what other tests do without, and of figures that users are shown."""
    from tests import quick

    with quick.whole_fits():
        yield


@pytest.fixture
def no_stacking():
    """For a test of something else than forecasts."""
    from tests import quick

    with quick.no_stacking():
        yield


@pytest.fixture
def no_static_warnings_so_far() -> Iterator[None]:
    """For a test of a warning that is given once a process, if no `StaticFeatures` is there."""
    from skpolyode.transformers import input

    input._warn_of_static.cache_clear()
    input.static_readers.clear()
    yield
    input._warn_of_static.cache_clear()


@pytest.fixture
def close_figures() -> Iterator[None]:
    """For a test that draws: pyplot holds no figure of others, and is left as it was found."""
    import matplotlib.pyplot as plt

    plt.close("all")
    before = dict(plt.rcParams)
    yield
    plt.close("all")
    assert dict(plt.rcParams) == before


OF_THE_BASE = ("transformers/test_sklearn_checks.py", "robustness/test_bad_days.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Neural siblings answer bad input in their common class: for all but one that is slow."""
    from tests.transformers.registry import DISTANT

    for item in items:
        is_common = item.path.as_posix().endswith(OF_THE_BASE)
        if is_common and any(name in item.name for name in DISTANT):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Spare the garbage collector to go through all tests again and again: 10 % of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
