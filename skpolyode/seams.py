"""What transformers take from parts of the package that they do not know."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def wing(name: str) -> Any:
    """A part that builds on the core, such as "streams"; imported when it is first asked for."""
    return import_module(f"skpolyode.{name}")
