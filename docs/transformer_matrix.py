"""What each transformer can do, from its class.

PYTHONPATH=. python docs/transformer_matrix.py   writes the table into its page
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import page_tables

from benchmarks.lines import heading, line
from skpolyode import siblings, transformers
from skpolyode.transformers.base import SeriesTransformer

ABILITIES: dict[str, Callable[[type], bool]] = {
    "reconstruct": lambda cls: cls.has_coefficients,
    "interpolate": lambda cls: cls.has_path,
    "forecast": lambda cls: hasattr(cls, "forecast"),
    "std": lambda cls: hasattr(cls, "interpolate_std"),
    "inputs": lambda cls: cls.uses_inputs,
    "errors": lambda cls: cls.uses_errors,
    "static": lambda cls: cls.uses_static,
    "stream": lambda cls: cls.has_stream,
    "save": lambda cls: hasattr(cls, "save"),
    "window": lambda cls: "window" in inspect.signature(cls).parameters,
}


def matrix() -> str:
    """Text of the table."""
    exported = [getattr(part, name) for part in (transformers, siblings) for name in part.__all__]
    rows = [
        line([f"`{cls.__name__}`", *("yes" if can(cls) else "" for can in ABILITIES.values())])
        for cls in exported
        if inspect.isclass(cls) and issubclass(cls, SeriesTransformer)
        if not inspect.isabstract(cls)
    ]
    first = "`PYTHONPATH=. python docs/transformer_matrix.py` from the classes:"
    return "\n".join([first, "", *heading(["", *ABILITIES]), *rows]) + "\n"


if __name__ == "__main__":
    page_tables.write("transformers", matrix())
