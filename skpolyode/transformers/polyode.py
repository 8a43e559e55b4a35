"""The learned embedding: dynamics between observations, a polynomial memory of the past."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from torch import nn

from skpolyode.dynamics import WalledMLP
from skpolyode.dynamics.field import drawn
from skpolyode.embedders import MemoryReadout, ModelEmbedder, Units
from skpolyode.embedders.encoders import encoders_of, n_features_of, sizes_of
from skpolyode.memory import MEMORIES, PATH_MEASURES, LegTMemory
from skpolyode.models import PolyODE
from skpolyode.models.contract import InputSizes, zero_map
from skpolyode.panel import Panel
from skpolyode.panel.panel import stored
from skpolyode.panel.query import choose_window, read_duration, read_memory
from skpolyode.panel.select import typical_gap
from skpolyode.training.tasks import PolyODETask
from skpolyode.transformers.base import COUNT, DURATION, Duration
from skpolyode.transformers.neural import LONG_SERIES, NeuralTransformer, layer_sizes
from skpolyode.transformers.stages import (
    CheckStepSize,
    EstimateError,
    LearnBeginnings,
    LearnWaves,
    StackForecasts,
    TrainFilter,
    first_gain,
)

_CONTEXTS_INTEGRATED = 20  # integration stops after this many contexts in a gap
_CONTEXTS_TO_CUT = 8  # training does not cut series into windows shorter than this many contexts
# Coefficients that the dynamics see set the field's size: most per channel, most in all, least per
# channel, most in all even so (benchmarks/NOTES.md, "Constants of training").
_CONTEXT_SIZE, _CONTEXT_OF_ALL, _CONTEXT_LEAST, _WIDEST = 32, 128, 8, 512
_ONE_MEMORY = 1.25  # a window of up to this many contexts needs no second memory
# In a typical gap. An epoch of 12 series of 8 rows takes 0.4 s with 15 steps, 29 s with 1000.
_MANY_STEPS = 50
_BLOCKS = {
    "full": ("coefficients", "hidden"),
    "coefficients": ("coefficients",),
    "coefficients_state": ("coefficients", "state"),
    "hidden": ("hidden",),
    "state": ("state",),
}


class PolyODETransformer(NeuralTransformer):
    """Embed irregular series by a neural ODE that drives a polynomial memory (PolyODE).

    A small network learns the dynamics of the signal by forecasting each observation from the ones
    before; a memory of Legendre polynomials over a sliding window follows its path, with exact
    updates over any gap. Its coefficients are the embedding: a fixed-length summary of the series
    that `inverse_transform` turns back into it. Times are used as they are, series may be ragged,
    and channels may be observed at different times.

    Use it where series are sparse samples of some dynamics. For short, dense series, simple
    interpolation embeds as well and needs no training.

    Parameters
    ----------
    n_coefficients : int, default=32
        Number of coefficients per channel. Raise it if the window holds more than about ten
        oscillations of the signal, which costs no training; lower it for fewer features.
    measure : {"legt", "legs"}, default="legt"
        How the past is weighted: "legt" remembers the last `window` evenly, "legs" the whole
        history, however long. Choose "legs" where the beginning of a series matters as much as
        its end; the longer the series, the coarser its memory.
    window : float, timedelta, str or "auto", default="auto"
        Length of the remembered past: in the units of `times` or, for datetimes, a duration such as
        "36h". "auto" takes the length of the longest series of `fit`, but for at most a tenth that
        are over eight times as long as any other; a shorter series counts as constant before its
        start. Lower it if only the recent past matters. Not used by "legs".
    context : float, timedelta, str or "auto", default="auto"
        Length of the past that the dynamics see, in the units of `times`. A second memory holds it,
        with at most 32 coefficients per channel. With five channels or more it has about 128 in
        all, but at least eight per channel, or fewer with more than 64 channels. "auto" takes a
        length with two coefficients per observation, so that the dynamics see the recent past in
        detail; if the window is not much longer, it takes the window, and one memory serves both.
        Raise it if the future depends on more than a few observations.
    step_size : float, timedelta, str or "auto", default="auto"
        Longest integration step, in the units of `times`. "auto" takes two thirds of the typical
        gap or ``1.25 context_ / n`` with n coefficients, whichever is shorter. Halve it if
        `step_halving_error_` is not small against the forecasting error.
    hidden_size : int, default=32
        Length of the learned hidden state, which a gated cell updates at observations. It carries
        what the context does not hold. Raise it, with the layers, where `fit` sees hundreds of
        series of several channels, and keep that if `score` of held-out series improves: 128 of
        both errs 0.6 to 0.9 times on Lorenz96, but 1.0 to 1.2 times on other large sets. 0 gives
        the dynamics of the paper, which see only the signal and the memory.
    hidden_layer_sizes : tuple of int or int, default=(64, 64)
        Widths of the network's hidden layers.
    embedding : {"full", "coefficients", "hidden", "state", "coefficients_state"}, default="full"
        What `transform` returns. "coefficients": the coefficients. "hidden": the state from which
        the dynamics would continue (the signal and the memory of the context). "full": both.
        "state": the learned state, `hidden_size` numbers that the dynamics carry beside them.
        "coefficients_state": the coefficients, then the learned state. A `PastDecoder` reads the
        past best from both.
    observations : {"auto", "exact", "noisy"}, default="auto"
        Whether observations are noisy. "exact" sets the state to them, so that the learned path
        passes through them. "noisy" makes the model a Kalman-like filter: an observation moves the
        state only partly, by a gain that `fit` estimates, and the path is smoothed. "auto"
        starts as a filter. After a quarter of the epochs it tests whether the filter fills gaps
        better than without its gain; if not, training continues with exact observations.
        `noise_` and `fit_report_` show the result. If errors of observations are known
        (`Panel.errors`), "auto" makes a filter that uses them.
    %(training)s

    Attributes
    ----------
    window_ : float
        Length of the remembered past, in the units of `times`; with "legs", the longest history
        that was trained on.
    context_ : float
        Length of the past that the dynamics see, in the units of `times`.
    coverage_ : float
        Share of a series that the window covers, on average.
    observations_per_coefficient_ : float
        Number of observations of a typical series within the window per coefficient: the larger,
        the coarser the memory. Details that are much finer are not remembered.
    step_size_ : float
        Longest integration step, in the units of `times`.
    field_ : torch.nn.Module
        The trained vector field.
    start_ : torch.nn.Module or None
        The trained map of static covariates; None if there were none.
    step_halving_error_ : float
        RMS difference, in standardised units, of forecasts with `step_size_` and half of it.
    noise_ : float64 ndarray of shape (n_channels,) or None
        Standard deviation of the noise of each channel, in the units of the channels, for
        observations whose error is not known. None if the model takes observations as exact.
    %(trained)s

    See Also
    --------
    skpolyode.panel.Panel : The container that carries ids and names along.

    Notes
    -----
    Between observations one vector field f moves the signal y of each channel, a copy h of its
    memory of the recent past, and a hidden state v of `hidden_size` numbers. At an observation x
    with mask m and static covariates s, a linear ramp corrects the path in the memory c, so that it
    ends in the new signal::

        y' = y + m K (x - y),   h' = c' where m = 1,   v' = GRU([m y', m, m K (x - y), s], v)

    The gain K is 1 for exact observations, and estimated for noisy ones. The reset of h and the
    memory are those of the paper; v, the ramp and the gain are new.

    The embedding keeps the coefficients' common scale: the Euclidean distance between two
    embeddings is the root mean square distance between the two remembered histories (in standard
    deviations). A `StandardScaler` after it would destroy that; distance-based and linear models do
    best without one.

    The "hidden" half is scaled by the root of ``context_ / window_``: the squared distance of two
    embeddings is then that of the histories, with the recent part counted twice.

    With ``measure="legs"`` the last feature is "duration": the length of the history in units of
    `window_`, which the coefficients do not contain.

    If it improves estimates of hidden rows, a periodic fit to each series is averaged into its
    path.

    Static covariates (`Panel.static`) set the state h(0) through a learned linear map. An
    observation resets h to the coefficients, which would erase their effect; it is added again
    there. Numbers are standardised, everything else becomes indicators; a series may lack values
    (NaN), but not whole columns that `fit` saw.

    Known inputs (`Panel.inputs`) drive the dynamics: f reads those of the kinds "hold" and
    "linear", and the cell of v reads impulses. Panels passed to later methods must have the same
    inputs.

    References
    ----------
    E. De Brouwer and R. G. Krishnan, "Anamnesic neural differential equations with orthogonal
    polynomial projections", ICLR 2023.

    Y. Rubanova, R. T. Q. Chen and D. Duvenaud, "Latent ODEs for irregularly-sampled time series",
    NeurIPS 2019, for the update of the learned state.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.transformers import PolyODETransformer
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> transformer = PolyODETransformer(n_coefficients=8, max_epochs=5, random_state=0)
    >>> transformer.fit_transform(series).shape
    (6, 17)
    >>> transformer.forecast(series, [6.5, 7.0])
    Panel(6 series, 1 channel, 12 observations, 100% of cells observed, times 6.5 to 7)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "n_coefficients": [COUNT],
        "measure": [StrOptions(set(PATH_MEASURES))],
        "window": DURATION,
        "context": DURATION,
        "step_size": DURATION,
        "hidden_size": [Interval(Integral, 0, None, closed="left")],
        "hidden_layer_sizes": ["array-like", COUNT],
        "embedding": [StrOptions(set(_BLOCKS))],
        "observations": [StrOptions({"auto", "exact", "noisy"})],
    }

    has_coefficients = True
    uses_errors = True
    uses_inputs = True
    task = PolyODETask
    # 24 epochs through four observations (benchmarks/NOTES.md, "Gradients
    # through several observations").
    stages = (
        TrainFilter(default_epochs=24),
        EstimateError(),
        CheckStepSize(),
        LearnWaves(),
        LearnBeginnings(),
        StackForecasts(),
    )

    def __init__(
        self,
        *,
        n_coefficients: int = 32,
        measure: str = "legt",
        window: Duration = "auto",
        context: Duration = "auto",
        step_size: Duration = "auto",
        hidden_size: int = 32,
        hidden_layer_sizes: Sequence[int] | int = (64, 64),
        embedding: str = "full",
        observations: str = "auto",
        **training: Any,
    ) -> None:
        self.n_coefficients = n_coefficients
        self.measure = measure
        self.window = window
        self.context = context
        self.step_size = step_size
        self.hidden_size = hidden_size
        self.hidden_layer_sizes = hidden_layer_sizes
        self.embedding = embedding
        self.observations = observations
        super().__init__(**training)

    field_: WalledMLP = stored("embedder_.model.field", "The trained vector field.")
    start_: nn.Module | None = stored(
        "embedder_.model.start", "The trained map of static covariates."
    )
    context_: float = stored(
        "embedder_.recent.window", "Length of the past that the dynamics see, in units of `times`."
    )

    @property
    def noise_(self) -> np.ndarray | None:
        """Standard deviation of the noise of each channel; None if observations are exact."""
        if (gain := self.embedder_.model.gain) is None:
            return None
        return gain.level.double().cpu().numpy() * self.embedder_.units.scaler.scale

    def _new_embedder(self, panel: Panel, generator: torch.Generator) -> ModelEmbedder:
        read, unit = encoders_of(panel), typical_gap(panel)
        size = self._context_size(panel.n_channels)
        units, widths = Units.of(panel, unit, self.limits_), self._widths(panel.n_channels)
        measure = MEMORIES[self.measure]
        window, context = self._lengths(panel, size)
        self.step_size_ = choose_step_size(self.step_size, panel, context, size)
        # The pull is as fast as the steps can follow. The field starts at 0: it forecasts the last
        # value, and a channel that is constant in training never gets a gradient.
        driven, n_static = sizes_of(read["inputs"]), n_features_of(read["static"])
        field = self._new_field(widths, driven, unit / self.step_size_, generator)
        # The longest integrated part of a gap, in whole steps.
        max_gap = np.ceil(_CONTEXTS_INTEGRATED * context / self.step_size_) * self.step_size_
        memory = LegTMemory(size, context / unit)
        same = (measure, self.n_coefficients, window) == (LegTMemory, size, context)
        history = memory if same else measure(self.n_coefficients, window / unit)
        model = self._assemble(
            unit,
            field=field.stand_still(),
            memory=memory,
            step_size=self.step_size_ / unit,
            max_gap=float(max_gap) / unit,
            history=None if same else history,
            start=zero_map(n_static, widths[0]) if n_static else None,
            gain=first_gain(panel, units.scaler, self.observations),
            cell=self._new_cell(panel.n_channels, n_static + driven.n_impulse, generator),
            inputs=driven,
        )
        self._describe_window(panel, window)
        outcome = f"context {context:.3g}, integration steps of {self.step_size_:.3g}"
        self.fit_report_.add("dynamics", outcome, typical_gap=unit, coefficients=size)
        return ModelEmbedder(
            model.float(),
            units,
            _BLOCKS[self.embedding],
            past=MemoryReadout(history, window, units),
            recent=MemoryReadout(memory, context, units),
            **read,
        )

    def _new_field(
        self, widths: list[int], inputs: InputSizes, pull: float, generator: torch.Generator
    ) -> WalledMLP:
        """Untrained field of a state and the inputs."""
        if inputs.n_impulse and not self._state_size:
            raise ValueError(
                "inputs of the kind 'impulse' move the hidden state, which hidden_size=0 omits: "
                "choose a larger hidden_size, such as the default 32."
            )
        known = {"n_levels": inputs.n_levels, "n_linear": inputs.n_linear}
        return WalledMLP(widths[0], widths[1:-1], pull=pull, **known, generator=generator)

    def _context_size(self, n_channels: int) -> int:
        """Coefficients of each channel that the dynamics see."""
        return context_size(self.n_coefficients, n_channels)

    def _lengths(self, panel: Panel, size: int) -> tuple[float, float]:
        """Window and context, in the units of `times`; the latter has `size` coefficients."""
        window = choose_window(self.window, panel, MEMORIES[self.measure].whole_history)
        return window, choose_context(self.context, window, panel, size)

    def _assemble(self, unit: float, **parts: Any) -> PolyODE:
        """Model of these parts; `unit` is its unit of time, in the units of `times`."""
        return PolyODE(**parts)

    def _new_cell(
        self, n_channels: int, n_static: int, generator: torch.Generator
    ) -> nn.GRUCell | None:
        """Cell that updates the learned state; None if there is no such state."""
        if not self._state_size:
            if "state" in _BLOCKS[self.embedding]:
                raise ValueError(
                    f"embedding={self.embedding!r} has the learned state, which hidden_size=0 "
                    "omits: choose a larger hidden_size, such as the default 32, or another "
                    "embedding."
                )
            return None
        return drawn(nn.GRUCell, 3 * n_channels + n_static, self._state_size, generator=generator)

    @property
    def _state_size(self) -> int:
        """Length of the learned state."""
        return self.hidden_size

    def _widths(self, n_channels: int) -> list[int]:
        """Widths of all layers of the field; the first and the last are that of the state."""
        size = n_channels * (1 + self._context_size(n_channels)) + self._state_size
        return [size, *layer_sizes(self.hidden_layer_sizes), size]

    def _rows_to_cut(self, embedder: ModelEmbedder) -> int | None:
        """Rows of windows: the dynamics forget, so training need not run through whole series.

        The cost then depends on the number of rows, not on the longest series.
        """
        rows_of_context = embedder.recent.window / embedder.units.time_scale
        return int(max(LONG_SERIES, _CONTEXTS_TO_CUT * rows_of_context))

    def _check_invertible(self) -> None:
        if "coefficients" not in self.embedder_.blocks:
            raise ValueError(
                f"embedding={self.embedding!r} holds no coefficients to invert; use "
                "embedding='full' or 'coefficients'."
            )

    def _names_of(self, block: str, size: int) -> list[str]:
        letter = {"coefficients": "c", "hidden": "h", "state": "w"}[block]
        names = [f"{letter}{k}" for k in range(size)]
        return ["signal", *names[:-1]] if block == "hidden" else names


def context_size(n_coefficients: int, n_channels: int) -> int:
    """Coefficients of each channel that the dynamics see.

    Parameters
    ----------
    n_coefficients : int
        Coefficients per channel in the memory of the window.
    n_channels : int

    Examples
    --------
    >>> from skpolyode.transformers.polyode import context_size
    >>> [context_size(64, n_channels) for n_channels in (1, 8, 100)]
    [32, 16, 5]
    """
    share = max(_CONTEXT_OF_ALL // n_channels, _CONTEXT_LEAST)
    return max(1, min(n_coefficients, _CONTEXT_SIZE, share, _WIDEST // n_channels))


def choose_context(context: Any, window: float, panel: Panel, n_coefficients: int) -> float:
    """Length of the past that the dynamics see: by default two coefficients per observation.

    On Lorenz63 (32 coefficients, gap 0.3) the held-out reconstruction error was 0.008 with a length
    of 5, and 0.08 with 9. If the window is not much longer, it is taken instead, so that one memory
    serves both.

    Parameters
    ----------
    context : float, duration or "auto"
        As `read_duration` reads it.
    window : float
        Length of the past that is remembered.
    panel : Panel
        Training series without empty rows.
    n_coefficients : int
        Coefficients per channel in the memory that the dynamics see.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.transformers.polyode import choose_context
    >>> panel = Panel.from_series([(range(31), range(31))])
    >>> choose_context("auto", 30.0, panel, n_coefficients=8)
    4.0
    """
    if not (isinstance(context, str) and context == "auto"):
        longest = float((panel.end - panel.start).max()) or 1.0
        return read_memory("context", context, panel.time_unit, longest)
    fine = max(n_coefficients, 2) / 2 * typical_gap(panel)
    return window if window <= _ONE_MEMORY * fine else fine


def choose_step_size(step_size: Any, panel: Panel, context: float, n_coefficients: int) -> float:
    """Longest integration step, in the units of `times`.

    "auto" is two thirds of the typical gap, at most 1.25 contexts divided by the coefficients. The
    bound keeps paths in long gaps as fine as the memory can resolve. On Synthetic (gap 1.2) the
    held-out error was 0.04 with steps of 0.16, and 0.42 with steps of 0.8.

    Parameters
    ----------
    step_size : float, duration or "auto"
        As `read_duration` reads it.
    panel : Panel
        Training series without empty rows.
    context : float
        Length of the past that the dynamics see.
    n_coefficients : int
        Coefficients per channel in the memory that the dynamics see.

    Warns
    -----
    UserWarning
        If a typical gap takes more than 50 steps; the message states the cost.

    Examples
    --------
    >>> from skpolyode.panel import Panel
    >>> from skpolyode.transformers.polyode import choose_step_size
    >>> panel = Panel.from_series([(range(31), range(31))])
    >>> asked = panel, 8.0, 20
    >>> choose_step_size("auto", *asked), choose_step_size(0.25, *asked)
    (0.5, 0.25)
    """
    gap = typical_gap(panel)
    auto = min(2 / 3 * gap, 1.25 * context / n_coefficients)
    if isinstance(step_size, str) and step_size == "auto":
        return auto
    length = read_duration("step_size", step_size, panel.time_unit)
    if gap / length > _MANY_STEPS:
        warnings.warn(
            f"step_size={step_size!r} makes {gap / length:.0f} integration steps in a typical gap "
            f"of {gap:g}: fit and transform take about {auto / length:.0f} times as long as with "
            f"step_size='auto', which is {auto:.2g}.",
            UserWarning,
            stacklevel=6,
        )
    return length
