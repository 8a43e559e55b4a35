"""Irregular time series as ordinary data, for scikit-learn: neural ODEs with polynomial memory.

Everything is imported when it is first asked for.
"""

from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from skpolyode.lazy import lazily
from skpolyode.versions import show_versions as show_versions

if TYPE_CHECKING:  # a checker of types that saw `__getattr__` would let every name pass
    from skpolyode import adapters as adapters
    from skpolyode import datasets as datasets
    from skpolyode import dynamics as dynamics
    from skpolyode import embedders as embedders
    from skpolyode import ensemble as ensemble
    from skpolyode import forecasting as forecasting
    from skpolyode import futures as futures
    from skpolyode import heads as heads
    from skpolyode import inspection as inspection
    from skpolyode import memory as memory
    from skpolyode import models as models
    from skpolyode import panel as panel
    from skpolyode import parquet as parquet
    from skpolyode import plotting as plotting
    from skpolyode import questions as questions
    from skpolyode import saving as saving
    from skpolyode import siblings as siblings
    from skpolyode import streams as streams
    from skpolyode import structural as structural
    from skpolyode import training as training
    from skpolyode import transformers as transformers
    from skpolyode.forecasting import PolyODEForecaster as PolyODEForecaster
    from skpolyode.forecasting import evaluate_forecasts as evaluate_forecasts
    from skpolyode.heads import PolyODEClassifier as PolyODEClassifier
    from skpolyode.heads import PolyODERegressor as PolyODERegressor
    from skpolyode.panel import Inputs as Inputs
    from skpolyode.panel import Panel as Panel
    from skpolyode.saving import load as load
    from skpolyode.siblings import GRUODEBayesTransformer as GRUODEBayesTransformer
    from skpolyode.siblings import HiPPORNNTransformer as HiPPORNNTransformer
    from skpolyode.siblings import LinODENetTransformer as LinODENetTransformer
    from skpolyode.siblings import NeuralRDETransformer as NeuralRDETransformer
    from skpolyode.siblings import ODERNNTransformer as ODERNNTransformer
    from skpolyode.siblings import PastDecoder as PastDecoder
    from skpolyode.siblings import S4Transformer as S4Transformer
    from skpolyode.transformers import HiPPOTransformer as HiPPOTransformer
    from skpolyode.transformers import InterpolationTransformer as InterpolationTransformer
    from skpolyode.transformers import LegendreFitTransformer as LegendreFitTransformer
    from skpolyode.transformers import PanelImputer as PanelImputer
    from skpolyode.transformers import PolyODETransformer as PolyODETransformer
    from skpolyode.transformers import Resampler as Resampler
    from skpolyode.transformers import StaticFeatures as StaticFeatures
    from skpolyode.transformers import SummaryStatsTransformer as SummaryStatsTransformer
else:
    _NAMES = {
        "forecasting": ("PolyODEForecaster", "evaluate_forecasts"),
        "heads": ("PolyODEClassifier", "PolyODERegressor"),
        "panel": ("Inputs", "Panel"),
        "saving": ("load",),
        "siblings": (
            *("GRUODEBayesTransformer", "HiPPORNNTransformer", "LinODENetTransformer"),
            *("NeuralRDETransformer", "ODERNNTransformer", "PastDecoder", "S4Transformer"),
        ),
        "transformers": (
            *("HiPPOTransformer", "InterpolationTransformer", "LegendreFitTransformer"),
            *("PanelImputer", "PolyODETransformer", "Resampler", "StaticFeatures"),
            "SummaryStatsTransformer",
        ),
    }
    _MODULES = {module.name: module.ispkg for module in iter_modules(__path__)}
    _EXTRAS = {"adapters": "sktime", "parquet": "pyarrow"}

    __getattr__, _, __all__ = lazily(__name__, dict.fromkeys(_MODULES, ()) | _NAMES)
    if not find_spec("sktime"):
        __all__.remove("PolyODEForecaster")
    __all__ += ["__version__", "show_versions"]

    def __dir__() -> list[str]:
        packages = {name for name, is_package in _MODULES.items() if is_package}
        absent = {name for name, extra in _EXTRAS.items() if not find_spec(extra)}
        return sorted({*__all__, *packages, "errors", "fit_report"} - absent)


__version__ = "0.1.0.dev0"
