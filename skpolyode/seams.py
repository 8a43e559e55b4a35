"""What transformers take from parts of the package that they do not know.

These are imported when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def stack_forecasts(state: Any) -> None:
    """Prepare what combines forecasts of a `FitState`'s embedder with others, and its report."""
    import_module("skpolyode.ensemble.stacking").stack_forecasts(state)


def stream_class(embedder: Any) -> type:
    """Class of the streams of an embedder."""
    return import_module("skpolyode.streams").stream_class(embedder)


def questions() -> Any:
    """What answers questions to paths, and learns how far off these are."""
    return import_module("skpolyode.questions.path")
