"""Packages whose names are imported when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    homes : mapping of str to str
        Which module of the package each name is from; a module has itself.

    Returns
    -------
    tuple of callables

    Examples
    --------
    >>> import skpolyode
    >>> from skpolyode.lazy import lazily
    >>> getattribute, _ = lazily("skpolyode", {"Panel": "panel", "panel": "panel"})
    >>> getattribute("Panel") is getattribute("panel").Panel
    True
    """

    def getattribute(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{homes[name]}")
        value = module if name == homes[name] else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return getattribute, lambda: sorted(sys.modules[package].__all__)
