"""The learned embedding: dynamics between observations, a polynomial memory of the past."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpolyode.dynamics import evaluate_path
from skpolyode.models import (
    SOLVERS,
    TASKS,
    UPDATES,
    PolyODE,
    forecasting_mse,
)
from skpolyode.panel import Panel
from skpolyode.transformers._forecast import continue_series
from skpolyode.transformers._input import observed_rows, read_panel
from skpolyode.transformers._polyode_fit import PolyODEFit
from skpolyode.transformers._stream import Streamed
from skpolyode.transformers._stream_polyode import PolyODEStream
from skpolyode.transformers.base import CoefficientTransformer

__all__ = ["PolyODETransformer"]

_POSITIVE = Interval(Real, 0, None, closed="neither")
_COUNT = Interval(Integral, 1, None, closed="left")


class PolyODETransformer(PolyODEFit, Streamed, CoefficientTransformer):
    """Embed irregular series by a neural ODE that drives a polynomial memory (PolyODE).

    A small network learns the dynamics of the signal by forecasting each observation from the
    ones before; the path it follows is projected, online and exactly, onto Legendre polynomials
    over a sliding window. The coefficients are the embedding: a fixed-length summary of the
    recent past that `inverse_transform` turns back into the series. True times are used, series
    may be ragged, channels may be observed at different times.

    Use it where series are sparse samples of some dynamics. For short, dense series, simple
    interpolation embeds as well and needs no training.

    Parameters
    ----------
    n_coefficients : int, default=32
        Coefficients a channel. Raise it if the window holds more than about ten swings of the
        signal; lower it for fewer features.
    measure : {"legt", "legs"}, default="legt"
        How the past is weighted: "legt" remembers the last `window` evenly, "legs" the whole
        history, however long. Choose "legs" where the beginning of a series matters as much as
        its end; the longer the series, the coarser its memory.
    window : float or "auto", default="auto"
        Length of the remembered past, in the units of `times`. "auto" takes the length of the
        longest series, but no more than an observation for two coefficients. Lower it if only the
        recent past matters. Not used by "legs".
    step_size : float or "auto", default="auto"
        Longest integration step, in the units of `times`. "auto" takes two thirds of the typical
        gap or ``1.25 window / n_coefficients``, whichever is shorter. Halve it if
        `step_halving_error_` is not small against the forecasting error.
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Widths of the network's hidden layers. Raise for many channels and much data.
    update : {"bridge", "jump"}, default="bridge"
        At an observation, "bridge" ramps the remembered path to it, so that the memory holds a
        continuous path through all observations; "jump" leaves a step, as in the paper.
    horizon : int, default=1
        Observations that the loss looks ahead. More makes long forecasts better and training
        slower; on Lorenz63 the embeddings do not gain, on short noisy series they do a little.
    gradient : {"interval", "series"}, default="interval"
        Train on single intervals between observations, or back-propagate through whole series
        as in the paper (slow; for study).
    solver : {"exact", "euler", "rk4", "dopri5", "backward_euler", "adams_moulton"}, default="exact"
        "exact" integrates the dynamics by Runge-Kutta steps and the memory exactly. The others
        integrate both together, as in the paper, with steps of `step_size` (which "dopri5"
        chooses itself): slower and less exact, for study only, and only with ``measure="legt"``.
        A step size with which the memory would diverge is an error.
    embedding : {"full", "coefficients", "hidden"}, default="full"
        What `transform` returns: the coefficients, the state of the dynamics, or both.
    learning_rate_init : float, default=0.05
        Peak of the one-cycle schedule. Lower it if training diverges.
    batch_size : int or "auto", default="auto"
        Intervals a minibatch; "auto" makes sixteen minibatches an epoch, of 64 to 512 intervals.
    max_epochs : int, default=40
        Passes over the intervals. The learning rate falls to zero over them.
    early_stopping : bool, default=True
        Hold out a share of the series, stop when their forecasting error no longer falls, and
        keep the best weights. With fewer than five series the training error stands in.
    validation_fraction : float, default=0.1
        Share of the series held out.
    n_iter_no_change : int, default=10
        Epochs without improvement before training stops early; those of the coarse first eighth
        of `max_epochs` do not count.
    warm_start : bool, default=False
        Continue from the weights, scales, window and step size of the last fit.
    checkpoint_dir : str, PathLike or None, default=None
        Folder where the state of the training is kept, written after an epoch but not more than
        once a second. A `fit` that was killed goes on from there when it is called again with the
        same data and parameters, and ends in the same weights; `random_state` must be an int.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, minibatches and held-out series. Global generators are not used.
    device : str, default="cpu"
        Where torch trains and embeds, for example "cuda".
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    window_ : float
        Length of the remembered past, in the units of `times`; with "legs", the longest history
        of `fit`.
    step_size_ : float
        Longest integration step, in the units of `times`.
    time_scale_ : float
        Typical gap between observations; the model's unit of time.
    scaler_ : ChannelScaler
        Mean and standard deviation of each channel.
    field_ : torch.nn.Module
        The trained vector field.
    start_ : torch.nn.Module or None
        The trained map of static covariates, None without any.
    history_ : list of dict
        For each epoch ``epoch``, ``validation_error``, ``training_loss`` and ``seconds``.
    n_epochs_ : int
        Epochs run.
    validation_error_ : float
        Best one-step forecasting MSE on the held-out series, in standardised units.
    step_halving_error_ : float
        RMS difference, in standardised units, of forecasts with `step_size_` and half of it.
    n_features_in_ : int
        Number of channels, or of time points if fitted on a 2-D array.
    n_channels_in_ : int
        Number of channels.

    See Also
    --------
    skpolyode.panel.Panel : The container that carries ids and names along.

    Notes
    -----
    The embedding keeps the coefficients' common scale: the Euclidean distance between two
    embeddings is the root mean square distance between the two remembered histories (in
    standard deviations). A `StandardScaler` behind it would destroy that; distance-based and
    linear models do best without one.

    The state's signal and hidden copy of the coefficients are reset at each observation, so with
    fully observed rows the "hidden" half repeats the coefficients at the last observation.

    With ``measure="legs"`` the last feature is "duration": the length of the history in units of
    `window_`, which the coefficients alone do not tell.

    Static covariates (`Panel.static`) set the state h(0) through a learned linear map. As an
    observation resets the hidden state to the coefficients, which would erase them, their part is
    added there again. Numbers are standardised, everything else becomes indicators; a series may
    lack values (NaN), but not whole columns that `fit` saw.

    References
    ----------
    E. De Brouwer and R. G. Krishnan, "Anamnesic neural differential equations with orthogonal
    polynomial projections", ICLR 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.transformers import PolyODETransformer
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> embedder = PolyODETransformer(n_coefficients=8, max_epochs=5, random_state=0)
    >>> embedder.fit_transform(series).shape
    (6, 17)
    >>> embedder.forecast(series, [6.5, 7.0])
    Panel(6 series, 1 channel, 12 observations, 100% of cells observed, times 6.5 to 7)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "n_coefficients": [_COUNT],
        "measure": [StrOptions({"legt", "legs"})],
        "window": [_POSITIVE, StrOptions({"auto"})],
        "step_size": [_POSITIVE, StrOptions({"auto"})],
        "hidden_layer_sizes": ["array-like"],
        "update": [StrOptions(set(UPDATES))],
        "horizon": [_COUNT],
        "gradient": [StrOptions(set(TASKS))],
        "solver": [StrOptions(set(SOLVERS))],
        "embedding": [StrOptions({"full", "coefficients", "hidden"})],
        "learning_rate_init": [_POSITIVE],
        "batch_size": [_COUNT, StrOptions({"auto"})],
        "max_epochs": [_COUNT],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [_COUNT],
        "warm_start": ["boolean"],
        "checkpoint_dir": [str, os.PathLike, None],
        "random_state": ["random_state"],
        "device": [str],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        n_coefficients: int = 32,
        measure: str = "legt",
        window: float | str = "auto",
        step_size: float | str = "auto",
        hidden_layer_sizes: Sequence[int] = (64, 64),
        update: str = "bridge",
        horizon: int = 1,
        gradient: str = "interval",
        solver: str = "exact",
        embedding: str = "full",
        learning_rate_init: float = 0.05,
        batch_size: int | str = "auto",
        max_epochs: int = 40,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        device: str = "cpu",
        verbose: int = 0,
    ) -> None:
        self.n_coefficients = n_coefficients
        self.measure = measure
        self.window = window
        self.step_size = step_size
        self.hidden_layer_sizes = hidden_layer_sizes
        self.update = update
        self.horizon = horizon
        self.gradient = gradient
        self.solver = solver
        self.embedding = embedding
        self.learning_rate_init = learning_rate_init
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.checkpoint_dir = checkpoint_dir
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    _stream_class = PolyODEStream

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the one-step forecasting MSE, in standardised units: larger is better.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        y : None, default=None
            Ignored.

        Returns
        -------
        float
            Minus the mean squared error over all observed values but the first of each series;
            0 where there is nothing to forecast.
        """
        check_is_fitted(self)
        panel = read_panel(self, X, reset=False)
        return -forecasting_mse(self._model(torch.float64), self._pack(panel, torch.float64))

    def forecast(self, X: Any, times: Any) -> Panel:
        """Continue series beyond their last observation.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,) or list of such
            Times from the last observation on, for all series or for each; in the units and of
            the type of the series' times.

        Returns
        -------
        Panel
            All channels at these times. Further than 20 windows ahead the forecast is held.

        Raises
        ------
        ValueError
            If a time is before the last observation of its series.
        """
        check_is_fitted(self)
        panel = read_panel(self, X, reset=False)
        model = self._model(torch.float64)

        def run_ahead(part: slice, ahead: np.ndarray) -> np.ndarray:
            return self._run_ahead(model, self._states(model, panel[part])[0], ahead)

        return continue_series(panel, times, observed_rows(panel).end, run_ahead)

    def _run_ahead(self, model: PolyODE, z: torch.Tensor, ahead: np.ndarray) -> np.ndarray:
        """Signals (B, Q, D) at times `ahead` (B, Q) of the last observation, from states there."""
        since = torch.from_numpy(ahead / self.time_scale_).to(self.device)
        with torch.no_grad():
            # Whole steps, so that a forecast does not depend on what other times are asked for.
            n_steps = (since.amax(dim=1) / model.step_size).ceil().clamp(min=1)
            reach = (n_steps * model.step_size).clamp(max=model.max_gap)
            _, path = model.trace(z, reach)
            signal = evaluate_path(path, torch.minimum(since, reach[:, None]))
        return self.scaler_.inverse(signal.cpu().numpy())

    def _transform(self, panel: Panel) -> np.ndarray:
        features = self._features(*self._all_states(panel))
        rows = observed_rows(panel)
        return self._with_duration(features, rows.start, rows.end)

    def _features(self, z: torch.Tensor, c: torch.Tensor) -> np.ndarray:
        """What is made of states and memories of series, but for the duration."""
        blocks = {"coefficients": [c], "hidden": [z], "full": [c, z]}[self.embedding]
        return torch.cat([block.flatten(1) for block in blocks], dim=1).cpu().numpy()

    def _coefficients(self, panel: Panel) -> np.ndarray:
        return self._all_states(panel)[1].cpu().numpy()

    def _select_coefficients(self, Z: np.ndarray) -> np.ndarray:
        if self.embedding == "hidden":
            raise ValueError(
                "embedding='hidden' holds no coefficients to invert; use embedding='full' or "
                "'coefficients'."
            )
        return super()._select_coefficients(Z)

    def _parts(self) -> list[list[str]]:
        degrees = range(self.n_coefficients)
        coefficients = [f"c{n}" for n in degrees]
        hidden = ["signal", *(f"h{n}" for n in degrees)]
        choices = {"coefficients": [coefficients], "hidden": [hidden]}
        return choices.get(self.embedding, [coefficients, hidden])
