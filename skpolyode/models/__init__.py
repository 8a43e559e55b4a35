"""Torch modules: what reads series in order, and the data layout it runs on."""

from skpolyode.models.contract import Prediction, SequenceModel, Step
from skpolyode.models.decoders import BackwardODE, NetworkDecoder
from skpolyode.models.gru_ode_bayes import GRUODEBayes
from skpolyode.models.hippo_rnn import HiPPORNN
from skpolyode.models.lin_ode_net import LinODENet
from skpolyode.models.neural_rde import NeuralRDE
from skpolyode.models.ode_rnn import ODERNN
from skpolyode.models.packed import Packed, pack
from skpolyode.models.picard import picard_predictions
from skpolyode.models.polyode import PolyODE
from skpolyode.models.polyode_rnn import PolyODERNN
from skpolyode.models.s4 import S4

__all__ = [
    "ODERNN",
    "S4",
    "BackwardODE",
    "GRUODEBayes",
    "HiPPORNN",
    "LinODENet",
    "NetworkDecoder",
    "NeuralRDE",
    "Packed",
    "PolyODE",
    "PolyODERNN",
    "Prediction",
    "SequenceModel",
    "Step",
    "pack",
    "picard_predictions",
]
