"""What transformers take from parts of the package that they do not know.

The root of the package joins them: it alone sets what stands here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

stack_forecasts: Callable[[Any], None]
"""Prepares what combines the forecasts of a `FitState`'s embedder with others, and its report."""

stream_class: Callable[[Any], type]
"""Class of the streams of an embedder."""

questions: Callable[[], Any]
"""What answers questions to paths, and learns how far off these are."""
