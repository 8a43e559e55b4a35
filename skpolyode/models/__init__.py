"""Torch modules: what reads series in order, the data layout it runs on, and its training tasks."""

from skpolyode.models.contract import Prediction, SequenceModel, Step
from skpolyode.models.curriculum import PolyODETask
from skpolyode.models.decoders import BackwardODE, DecodingTask, NetworkDecoder
from skpolyode.models.drawn import DrawnTask
from skpolyode.models.gru_ode_bayes import GRUODEBayes
from skpolyode.models.hippo_rnn import HiPPORNN
from skpolyode.models.lin_ode_net import LinODENet
from skpolyode.models.losses import forecasting_mse, prediction_loss
from skpolyode.models.neural_rde import NeuralRDE
from skpolyode.models.ode_rnn import ODERNN
from skpolyode.models.packed import Packed, pack
from skpolyode.models.polyode import PolyODE
from skpolyode.models.polyode_rnn import PolyODERNN
from skpolyode.models.s4 import S4
from skpolyode.models.segments import SegmentTask
from skpolyode.models.sweep import swept_predictions
from skpolyode.models.tasks import IntervalTask, SeriesTask

__all__ = [
    "ODERNN",
    "S4",
    "BackwardODE",
    "DecodingTask",
    "DrawnTask",
    "GRUODEBayes",
    "HiPPORNN",
    "IntervalTask",
    "LinODENet",
    "NetworkDecoder",
    "NeuralRDE",
    "Packed",
    "PolyODE",
    "PolyODERNN",
    "PolyODETask",
    "Prediction",
    "SegmentTask",
    "SequenceModel",
    "SeriesTask",
    "Step",
    "forecasting_mse",
    "pack",
    "prediction_loss",
    "swept_predictions",
]
