"""Neural siblings of PolyODE, each beside its transformer, and PastDecoder."""

from skpolyode.siblings.cells import ODERNN, GRUODEBayes, GRUODEBayesTransformer, ODERNNTransformer
from skpolyode.siblings.hippo_rnn import HiPPORNN, HiPPORNNTransformer
from skpolyode.siblings.lin_ode_net import LinODENet, LinODENetTransformer
from skpolyode.siblings.neural_rde import NeuralRDE, NeuralRDETransformer
from skpolyode.siblings.past_decoder import DecodedEmbedder, PastDecoder
from skpolyode.siblings.s4 import S4, S4Transformer

__all__ = [
    "ODERNN",
    "S4",
    "DecodedEmbedder",
    "GRUODEBayes",
    "GRUODEBayesTransformer",
    "HiPPORNN",
    "HiPPORNNTransformer",
    "LinODENet",
    "LinODENetTransformer",
    "NeuralRDE",
    "NeuralRDETransformer",
    "ODERNNTransformer",
    "PastDecoder",
    "S4Transformer",
]
