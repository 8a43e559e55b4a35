"""Every public transformer as a cheap instance: a new one is tested by being exported.

If its defaults are slow, or need arguments, it is given cheap parameters in `CHEAP`.
"""

from __future__ import annotations

import inspect
from typing import Any

import skpolyode.transformers
from skpolyode.transformers.base import SeriesTransformer

_NEURAL = {"hidden_layer_sizes": (4,), "max_epochs": 1, "random_state": 0}

CHEAP: dict[str, dict[str, Any]] = {
    "LinODENetTransformer": {"hidden_size": 6, **_NEURAL},
    "PolyODETransformer": {"n_coefficients": 3, **_NEURAL},
}


def all_transformers() -> dict[str, SeriesTransformer]:
    """A cheap, not fitted instance of every exported transformer, by the name of its class."""
    exported = {
        name: getattr(skpolyode.transformers, name) for name in skpolyode.transformers.__all__
    }
    return {
        name: cls(**CHEAP.get(name, {}))
        for name, cls in exported.items()
        if issubclass(cls, SeriesTransformer) and not inspect.isabstract(cls)
    }
