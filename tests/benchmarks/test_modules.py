"""Every benchmark can be imported: a file that takes the name of another one hides it."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

import benchmarks

MODULES = [
    found.name
    for found in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")
    if not found.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_it_is_imported(name):
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        own = str(error.name).partition(".")[0] in ("benchmarks", "skpolyode", "tests")
        assert not own, "only packages of others may be missing"
        pytest.skip(str(error))
