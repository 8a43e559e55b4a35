"""Signatures and docstrings of classes that share parameters with their parent."""

from __future__ import annotations

import inspect
import re

__all__ = ["complete"]

_ENTRY = re.compile(r"^((\w+) : .*\n(?:^    .*\n)*)", re.MULTILINE)


def complete(cls: type, training: type) -> None:
    """Write what a class shares with its parent into its signature and its docstring.

    ``%(training)s`` and ``%(trained)s`` stand for the parameters and attributes of `training`.

    A parameter that the class names itself, because of another default, is its own in both.
    """
    init, parent = vars(cls).get("__init__"), cls.__mro__[1]
    own = [] if init is None else [*inspect.signature(init).parameters.values()]
    takes_more = bool(own) and own[-1].kind is inspect.Parameter.VAR_KEYWORD
    own = own[:-1] if takes_more else []
    names = {p.name for p in own}
    if cls.__doc__:
        shared = {
            "training": _section(training, "Parameters"),
            "Parameters": _section(parent, "Parameters"),
        }
        parts = {
            key: "".join(entry for entry, name in _ENTRY.findall(text) if name not in names)
            for key, text in shared.items()
        }
        parts["trained"] = _section(training, "Attributes")
        parts["Attributes"] = _section(parent, "Attributes")
        doc = inspect.cleandoc(cls.__doc__) + "\n"  # as Python 3.13 has it anyway
        for name, text in parts.items():
            doc = doc.replace(f"%({name})s\n", text)
        cls.__doc__ = doc
    if takes_more:
        base = inspect.signature(parent.__init__).parameters.values()
        init.__signature__ = inspect.Signature([*own, *(p for p in base if p.name not in names)])


def _section(cls: type, name: str) -> str:
    """Entries of a section of the docstring of a class."""
    _, _, rest = inspect.cleandoc(cls.__doc__ or "").partition(f"{name}\n{'-' * len(name)}\n")
    return rest.partition("\n\n")[0] + "\n"
