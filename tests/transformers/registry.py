"""Every public transformer as a cheap instance: a new one is tested by being exported.

If its defaults are slow, or need arguments, it is given cheap parameters in `CHEAP`. What embeds
no observations has tests of its own.
"""

from __future__ import annotations

import inspect
from typing import Any

from sklearn.base import clone

from skpolyode import siblings, transformers
from skpolyode.transformers.base import SeriesTransformer
from skpolyode.transformers.neural import NeuralTransformer

ROOMS = (transformers, siblings)

_ONE_EPOCH = {"max_epochs": 1, "random_state": 0}
_NEURAL = {"hidden_layer_sizes": (4,), **_ONE_EPOCH}

CHEAP: dict[str, dict[str, Any]] = {
    "GRUODEBayesTransformer": {"hidden_size": 4, **_ONE_EPOCH},
    "HiPPORNNTransformer": {"hidden_size": 4, "n_coefficients": 3, **_ONE_EPOCH},
    "LinODENetTransformer": {"hidden_size": 6, **_NEURAL},
    "NeuralRDETransformer": {"hidden_size": 4, **_ONE_EPOCH},
    "ODERNNTransformer": {"hidden_size": 4, **_NEURAL},
    "PastDecoder": {
        "transformer": siblings.ODERNNTransformer(hidden_size=4, **_NEURAL),
        "n_coefficients": 3,
        **_ONE_EPOCH,
    },
    "PolyODETransformer": {"n_coefficients": 3, **_NEURAL},
    "S4Transformer": {"hidden_size": 4, "state_size": 4, **_ONE_EPOCH},
}


def all_transformers() -> dict[str, SeriesTransformer]:
    """A cheap, not fitted instance of every exported transformer, by the name of its class."""
    exported = {name: getattr(part, name) for part in ROOMS for name in part.__all__}
    return {
        name: clone(cls(**CHEAP.get(name, {})))
        for name, cls in exported.items()
        if inspect.isclass(cls) and issubclass(cls, SeriesTransformer)
        if not inspect.isabstract(cls) and cls is not transformers.StaticFeatures
    }


DISTANT = [
    name
    for name, transformer in all_transformers().items()
    if isinstance(transformer, NeuralTransformer)
    if name not in ("ODERNNTransformer", "PolyODETransformer")
]
"""Neural transformers that are checked before a release only, where all share the code."""
