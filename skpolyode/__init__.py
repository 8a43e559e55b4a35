"""Irregular time series as ordinary data, for scikit-learn: neural ODEs with polynomial memory."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from skpolyode.heads import PolyODEClassifier, PolyODERegressor
from skpolyode.panel import Inputs, Panel
from skpolyode.saving import load
from skpolyode.siblings import (
    GRUODEBayesTransformer,
    HiPPORNNTransformer,
    LinODENetTransformer,
    NeuralRDETransformer,
    ODERNNTransformer,
    PastDecoder,
    S4Transformer,
)
from skpolyode.transformers import (
    HiPPOTransformer,
    InterpolationTransformer,
    LegendreFitTransformer,
    PanelImputer,
    PolyODETransformer,
    Resampler,
    StaticFeatures,
    SummaryStatsTransformer,
)
from skpolyode.versions import show_versions

__version__ = "0.1.0.dev0"

__all__ = [
    "GRUODEBayesTransformer",
    "HiPPORNNTransformer",
    "HiPPOTransformer",
    "Inputs",
    "InterpolationTransformer",
    "LegendreFitTransformer",
    "LinODENetTransformer",
    "NeuralRDETransformer",
    "ODERNNTransformer",
    "Panel",
    "PanelImputer",
    "PastDecoder",
    "PolyODEClassifier",
    "PolyODERegressor",
    "PolyODETransformer",
    "Resampler",
    "S4Transformer",
    "StaticFeatures",
    "SummaryStatsTransformer",
    "__version__",
    "load",
    "show_versions",
]

# What takes long to import, or needs an extra, is imported when it is first asked for.
_MODULES = ("adapters", "datasets", "forecasting", "inspection", "parquet", "plotting")
_LAZY = dict.fromkeys(_MODULES, "")
_LAZY |= dict.fromkeys(
    ("PolyODEForecaster", "evaluate_crossings", "evaluate_forecasts"), "forecasting"
)
_EXTRAS = {"adapters": "sktime", "forecasting": "sktime", "parquet": "pyarrow"}

if TYPE_CHECKING:  # a checker of types that saw `__getattr__` would let every name pass
    from skpolyode import adapters as adapters
    from skpolyode import datasets as datasets
    from skpolyode import forecasting as forecasting
    from skpolyode import parquet as parquet
    from skpolyode import plotting as plotting
    from skpolyode.forecasting import PolyODEForecaster as PolyODEForecaster
    from skpolyode.forecasting import evaluate_crossings as evaluate_crossings
    from skpolyode.forecasting import evaluate_forecasts as evaluate_forecasts
else:

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"{__name__}.{_LAZY[name] or name}")
        return getattr(module, name) if _LAZY[name] else module


def __dir__() -> list[str]:
    needs = {name: _EXTRAS.get(_LAZY[name] or name) for name in _LAZY}
    return [*globals(), *(name for name, extra in needs.items() if not extra or find_spec(extra))]
