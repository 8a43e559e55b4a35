"""Packages whose names are imported when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazily(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package.

    Checkers of types do not see them: the package imports its names for these once more.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    names : mapping of str to sequence of str
        What each of its modules gives to the package.

    Returns
    -------
    tuple
        Two functions and the list of all names.

    Examples
    --------
    >>> import skpolyode
    >>> from skpolyode.lazy import lazily
    >>> getattribute, _, names = lazily("skpolyode", {"panel": ["Panel"]})
    >>> getattribute("Panel") is getattribute("panel").Panel, names
    (True, ['Panel'])
    """
    homes = {name: module for module, own in names.items() for name in own}

    def getattribute(name: str) -> Any:
        if name not in homes and name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes.get(name)
        module = import_module(f"{package}.{home or name}")
        value = getattr(module, name) if home else module
        setattr(sys.modules[package], name, value)
        return value

    return getattribute, lambda: sorted(sys.modules[package].__all__), sorted(homes)
