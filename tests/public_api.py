"""The registry of everything public: the names that `skpolyode` and its modules export.

A class or function is covered by the tests that use this registry as soon as it is exported.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import skpolyode


def public_modules() -> list[ModuleType]:
    """The root and the modules directly below it whose names have no leading underscore."""
    names = sorted(m.name for m in pkgutil.iter_modules(skpolyode.__path__))
    names = [name for name in names if not name.startswith("_")]
    return [skpolyode, *(importlib.import_module(f"skpolyode.{name}") for name in names)]


def public_objects() -> dict[str, Any]:
    """Every exported class and function, once, under its shortest dotted name."""
    found: dict[int, tuple[str, Any]] = {}
    for module in public_modules():
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                found.setdefault(id(value), (f"{module.__name__}.{name}", value))
    return dict(found.values())


def public_callables() -> dict[str, Callable[..., Any]]:
    """`public_objects` and the public methods that this package defines on the classes."""
    callables = {}
    for name, value in public_objects().items():
        callables[name] = value
        if inspect.isclass(value):
            callables |= {f"{name}.{key}": method for key, method in _own_methods(value)}
    return callables


def _own_methods(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for key in dir(cls):
        if key.startswith("_"):
            continue
        method = inspect.unwrap(getattr(cls, key))
        # What is written in C has no signature to compare, and may not even name its module.
        home = str(getattr(method, "__module__", ""))
        if inspect.isroutine(method) and home.startswith("skpolyode"):
            yield key, method
