"""Transformers: from ragged irregular series to fixed-length embeddings, and back."""

from skpolyode.transformers.gru_ode_bayes import GRUODEBayesTransformer
from skpolyode.transformers.hippo import HiPPOTransformer
from skpolyode.transformers.hippo_rnn import HiPPORNNTransformer
from skpolyode.transformers.imputer import PanelImputer
from skpolyode.transformers.interpolation import InterpolationTransformer
from skpolyode.transformers.legendre_fit import LegendreFitTransformer
from skpolyode.transformers.lin_ode_net import LinODENetTransformer
from skpolyode.transformers.neural_rde import NeuralRDETransformer
from skpolyode.transformers.ode_rnn import ODERNNTransformer
from skpolyode.transformers.past_decoder import PastDecoder
from skpolyode.transformers.polyode import PolyODETransformer
from skpolyode.transformers.polyode_rnn import PolyODERNNTransformer
from skpolyode.transformers.resampler import Resampler
from skpolyode.transformers.s4 import S4Transformer
from skpolyode.transformers.static import StaticFeatures
from skpolyode.transformers.summary import SummaryStatsTransformer

__all__ = [
    "GRUODEBayesTransformer",
    "HiPPORNNTransformer",
    "HiPPOTransformer",
    "InterpolationTransformer",
    "LegendreFitTransformer",
    "LinODENetTransformer",
    "NeuralRDETransformer",
    "ODERNNTransformer",
    "PanelImputer",
    "PastDecoder",
    "PolyODERNNTransformer",
    "PolyODETransformer",
    "Resampler",
    "S4Transformer",
    "StaticFeatures",
    "SummaryStatsTransformer",
]
