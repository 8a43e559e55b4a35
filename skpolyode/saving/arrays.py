"""Checks of the arrays of a saved class: shapes, order, and finite numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

SPECS: dict[type, Mapping[str, str]] = {}
"""Specifications of the fields of each class; see `check_arrays`."""


class ArrayError(ValueError):
    """An array of a file does not fit the specification of its class."""


def check_arrays(owner: str, specs: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, int]:
    """Check fields, and return the sizes of the letters in their specifications.

    A specification has the sizes of the axes, such as "D" or "F+1", and then words: "rising" and
    "sorted" for the last axis, "positive" and "unsigned" for values, "inf" if they may be infinite.
    A letter has one size in all fields. For a tuple only the length is checked; for an object, or
    all objects in a dict, only that its letters agree. None and an empty tuple pass.

    Raises
    ------
    ArrayError
        With the names of the class and of the field.
    """
    sizes: dict[str, int] = {}
    for name, spec in specs.items():
        axes = [part for part in spec.split() if not part.islower()]
        words, value = set(spec.split()) - set(axes), values[name]
        where = f"{owner}.{name}"
        for part in value.values() if isinstance(value, dict) else [value]:
            if part is None or isinstance(part, str) or (isinstance(part, tuple) and not part):
                continue
            if isinstance(part, tuple) and type(part) not in SPECS:
                _bind(where, axes, (len(part),), sizes)
            elif isinstance(part, np.ndarray | float | int | np.generic):
                _bind(where, axes, np.shape(part), sizes)
                _check_values(where, words, np.asarray(part))
            elif (inner := SPECS.get(type(part))) is not None:
                found = check_arrays(
                    type(part).__name__, inner, {key: getattr(part, key) for key in inner}
                )
                _bind(where, axes, [found.get(axis, sizes.get(axis)) for axis in axes], sizes)
            elif axes and words:
                raise ArrayError(f"{where} is of type {type(part).__name__}")
    return sizes


def _bind(where: str, axes: list[str], shape: Any, sizes: dict[str, int]) -> None:
    if len(axes) != len(shape):
        raise ArrayError(f"{where} has {len(shape)} axes, not {len(axes)}")
    for axis, size in zip(axes, shape, strict=True):
        terms = axis.split("+")
        known = sum(int(term) if term.isdigit() else sizes.get(term, 0) for term in terms)
        unknown = [term for term in terms if not term.isdigit() and term not in sizes]
        if unknown and size is not None:
            sizes[unknown[0]] = size - known
        elif not unknown and size is not None and size != known:
            raise ArrayError(f"{where} has {size} entries along {axis}, not {known}")


def _check_values(where: str, words: set[str], array: np.ndarray) -> None:
    if array.dtype.kind not in "biuf":
        raise ArrayError(f"{where} is of {array.dtype}")
    if np.isnan(array).any() or not ("inf" in words or np.isfinite(array).all()):
        raise ArrayError(f"{where} has numbers that are not finite")
    steps = np.diff(array) if words & {"rising", "sorted"} else np.ones(1)
    if (steps < 0).any() or ("rising" in words and (steps == 0).any()):
        raise ArrayError(f"{where} is not in increasing order")
    if ("positive" in words and (array <= 0).any()) or ("unsigned" in words and (array < 0).any()):
        raise ArrayError(f"{where} has values that are not {min(words & {'positive', 'unsigned'})}")
