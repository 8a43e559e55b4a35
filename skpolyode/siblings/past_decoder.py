"""Reconstruct the past from any embedding, by a trained decoder."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from skpolyode.embedders import Embedder, MemoryReadout
from skpolyode.embedders.encoders import InputEncoder
from skpolyode.embedders.fitting import FEWEST_TO_SPLIT
from skpolyode.memory import LegTMemory
from skpolyode.panel import Panel
from skpolyode.panel.query import choose_window
from skpolyode.panel.rows import offsets_from
from skpolyode.panel.select import drop_empty, keep_rows, take
from skpolyode.panel.units import CellLimits, Units
from skpolyode.saving.codec import saved
from skpolyode.siblings.base import hidden_layer
from skpolyode.siblings.cells import ODERNNTransformer
from skpolyode.threads import one_thread
from skpolyode.training import Trainer
from skpolyode.training.loop import Task
from skpolyode.training.tasks import Minibatches
from skpolyode.transformers.base import COUNT, DURATION, POSITIVE, Duration, SeriesTransformer
from skpolyode.transformers.input import align_to_frozen, fit_series
from skpolyode.transformers.neural import local_random_state
from skpolyode.transformers.stages import default_batch, default_patience

_MOMENTS = 4  # times in each series at which its past is decoded from the features
# Copies of each series, fewer if they have more rows together, and the largest share of the rows
# that are hidden in one. Without hidden rows, a decoder overfits between observations: with them,
# squared errors at new hidden rows are 0.28 times as large for `SummaryStatsTransformer`, 0.38 for
# `ODERNNTransformer` and 0.44 for PolyODE's coefficients and state (medians of eleven small real
# sets; pbcseq 1.11, 1.10, 0.98).
_COPIES, _MOST_ROWS, _HIDDEN = 8, 200_000, 0.5


@saved(center="F", spread="F positive")
@dataclass(frozen=True, eq=False)
class DecodedEmbedder(Embedder):
    """Coefficients that are decoded from the features of another embedder.

    Parameters
    ----------
    source : Embedder
        Embedder whose features are decoded.
    center : float64 ndarray of shape (F,)
        Subtracted from the features.
    spread : float64 ndarray of shape (F,)
        Divides the centred features.
    decoder : nn.Module
        From features (n, F) to flat coefficients (n, D N), in float32 as it was trained.
    past : MemoryReadout
        Reads coefficients back.

    Examples
    --------
    >>> from skpolyode import Panel, PastDecoder, SummaryStatsTransformer
    >>> panel = Panel.from_series([([0.0, 0.4, 2.0], [1.0, 2.0, 0.0]), ([0.0, 2.0], [0.0, 1.0])])
    >>> decoder = PastDecoder(SummaryStatsTransformer(), n_coefficients=4, max_epochs=1)
    >>> embedder = decoder.fit(panel).embedder_
    >>> embedder.features(panel).shape, embedder.coefficients(panel).shape
    ((2, 4), (2, 1, 4))
    """

    source: Embedder
    center: np.ndarray
    spread: np.ndarray
    decoder: nn.Module
    past: MemoryReadout

    @property
    def inputs(self) -> InputEncoder | None:
        """Encoder of the inputs of the other embedder."""
        return self.source.inputs

    @property
    def units(self) -> Units:
        """Units of the other embedder, with the limits of cells of the decoder."""
        return self.past.units

    def coefficients(self, panel: Panel) -> np.ndarray:
        """Coefficients (B, D, N) of standardised channels, at each series' last observation."""
        features = (self.source.features(panel) - self.center) / self.spread
        decoder = copy.deepcopy(self.decoder).double().cpu()
        with torch.no_grad():
            flat = decoder(torch.from_numpy(features)).numpy()
        coefficients = flat.reshape(len(flat), -1, self.past.n_coefficients)
        observed = self.units.scaler.observed
        return coefficients if observed is None else coefficients * observed[:, None]

    def features(self, panel: Panel) -> np.ndarray:
        """Flat coefficients, one row (D N,) per series."""
        return self.coefficients(panel).reshape(panel.n_series, -1)


@dataclass(eq=False)
class DecodingTask(Task):
    """Train a decoder on the observations before several times in each series.

    Parameters
    ----------
    decoder : nn.Module
        From features (n, F) to flat coefficients (n, D N).
    features : Tensor of shape (S, F)
        Features at S times.
    offsets : int64 Tensor of shape (S + 1,)
        Where the observations before each time start.
    basis : Tensor of shape (P, N)
        Polynomials at the ages of the observations.
    x : Tensor of shape (P, D)
        Observations, standardised, NaN where there is none.
    held_out : bool Tensor of shape (S,)
        Mask of the times that only validate; if there are none, all of them validate.

    Examples
    --------
    Two moments, and one observation before each:

    >>> import torch
    >>> from skpolyode.siblings.past_decoder import DecodingTask
    >>> decoder = torch.nn.Linear(3, 2, device="cpu")
    >>> basis, x = torch.ones(2, 2), torch.tensor([[0.0], [1.0]])
    >>> offsets, held_out = torch.tensor([0, 1, 2]), torch.tensor([False, False])
    >>> task = DecodingTask(decoder, torch.zeros(2, 3), offsets, basis, x, held_out)
    >>> task.loss(torch.arange(2)).item() == task.refresh() > 0
    True
    """

    decoder: nn.Module
    features: Tensor
    offsets: Tensor
    basis: Tensor
    x: Tensor
    held_out: Tensor

    minibatches = Minibatches(16, smallest=32, n_most=512)

    def __post_init__(self) -> None:
        self.items = (~self.held_out).nonzero()[:, 0]
        self.validation = self.held_out.nonzero()[:, 0] if self.held_out.any() else self.items

    def refresh(self, progress: float = 1.0) -> float:
        """Return the validation error."""
        with torch.no_grad():
            return float(self._error(self.validation))

    def loss(self, index: Tensor) -> Tensor:
        """Mean squared error of the past before a minibatch of times."""
        return self._error(self.items[index])

    def _error(self, moments: Tensor) -> Tensor:
        start, count = self.offsets[moments], self.offsets.diff()[moments]
        which = torch.arange(len(moments)).repeat_interleave(count)  # (P',), of `moments`
        rows = torch.arange(len(which)) + (start - count.cumsum(0) + count)[which]
        c = self.decoder(self.features[moments]).unflatten(1, (self.x.shape[1], -1))[which]
        x = self.x[rows]
        error = torch.einsum("pdn,pn->pd", c, self.basis[rows]) - x
        return error[~x.isnan()].square().mean()


class PastDecoder(SeriesTransformer):
    """Reconstruct the past from an embedding without a memory, by a trained decoder.

    The transformer is fitted first, and does not change afterwards. A small network learns to map
    its features at several times in each series to coefficients of polynomials that are close to
    the observations in the window before. Up to half of these observations are hidden from the
    transformer, so that the decoder learns to fill gaps. `transform` returns the coefficients;
    `reconstruct` and `inverse_transform` read them like those of `PolyODETransformer` and
    `HiPPOTransformer`.

    Use it to measure how much of the past an embedding contains: the error of `reconstruct` on new
    series is an upper bound on the loss. To remember the past, choose an embedding that has
    coefficients and needs no decoder. With ``PolyODETransformer(embedding="coefficients_state")``
    the decoder corrects these coefficients by what later observations have shown.

    Parameters
    ----------
    transformer : transformer or None, default=None
        The transformer whose embedding is decoded. `fit` fits a clone of it, unless it is already
        fitted and in a `sklearn.frozen.FrozenEstimator`. None: an `ODERNNTransformer` with its
        defaults.
    n_coefficients : int, default=32
        Coefficients per channel. Raise it if the window holds more than about ten oscillations.
    window : float, timedelta, str or "auto", default="auto"
        Length of the past that is decoded, in the units of `times`. "auto" takes the length of the
        longest series of `fit` that is no outlier.
    hidden_size : int, default=128
        Width of the decoder's hidden layer.
    max_epochs : int, default=60
        Maximum number of epochs of the decoder, which stops early like `ODERNNTransformer`.
    learning_rate_init : float, default=0.05
        Peak of the decoder's learning rate. Lower it if training diverges.
    random_state : int, RandomState instance or None, default=None
        Seed of the transformer, of initial weights, minibatches and held-out series. None: the seed
        of the transformer is used.

    Attributes
    ----------
    transformer_ : transformer
        The fitted transformer.
    embedder_ : DecodedEmbedder
        Embedder of the transformer, with the decoder.
    history_ : list of dict
        The training of the decoder, as in `ODERNNTransformer`.
    validation_error_ : float
        Best mean squared error of the reconstructed past of held-out series, in standardised units.
    window_ : float
        Length of the past that is decoded, in the units of `times`.
    n_features_in_ : int
        Number of channels, or of time points if fitted on a 2-D array.
    n_channels_in_ : int
        Number of channels.

    See Also
    --------
    PolyODETransformer : A memory that needs no decoder.

    Notes
    -----
    Reconstructions before the start of a series are arbitrary: the decoder had no data there.

    Values far from all others are taken as not observed, with a warning, also if the transformer
    alone would read them. A fitted transformer that ignores such values keeps its limits.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import ODERNNTransformer, PastDecoder
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> transformer = ODERNNTransformer(hidden_size=8, max_epochs=2)
    >>> decoder = PastDecoder(transformer, n_coefficients=6, max_epochs=5, random_state=0)
    >>> decoder.fit_transform(series).shape
    (6, 6)
    >>> decoder.reconstruct(series)
    Panel(6 series, 1 channel, 74 observations, 100% of cells observed, times ... to ...)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "transformer": [HasMethods(["fit", "transform"]), None],
        "n_coefficients": [COUNT],
        "window": DURATION,
        "hidden_size": [COUNT],
        "max_epochs": [COUNT],
        "learning_rate_init": [POSITIVE],
        "random_state": ["random_state"],
    }

    has_coefficients = True
    uses_static = True
    uses_inputs = True  # if the transformer does; else it warns
    embedder_: DecodedEmbedder

    @property
    def ignores_outliers(self) -> bool:
        """Whether it looks for outliers itself: not around a fitted transformer that does."""
        return not getattr(getattr(self.transformer, "estimator", None), "ignores_outliers", False)

    def __init__(
        self,
        transformer: Any = None,
        *,
        n_coefficients: int = 32,
        window: Duration = "auto",
        hidden_size: int = 128,
        max_epochs: int = 60,
        learning_rate_init: float = 0.05,
        random_state: Any = None,
    ) -> None:
        self.transformer = transformer
        self.n_coefficients = n_coefficients
        self.window = window
        self.hidden_size = hidden_size
        self.max_epochs = max_epochs
        self.learning_rate_init = learning_rate_init
        self.random_state = random_state

    def _fit(self, panel: Panel) -> str | None:
        given, panel = panel, drop_empty(align_to_frozen(self, panel, self.transformer))
        names = given.channel_names
        if {*names} == {*panel.channel_names}:  # perhaps in another order
            order = [names.index(name) for name in panel.channel_names]
            self.limits_ = CellLimits(*(ends[order] for ends in self.limits_))
        source, seed = getattr(self.transformer, "estimator", self.transformer), self.random_state
        rng = local_random_state(getattr(source, "random_state", None) if seed is None else seed)
        self.transformer_ = self._fitted(panel, int(rng.randint(2**31 - 1)))
        generator = torch.Generator().manual_seed(int(rng.randint(2**31 - 1)))
        source = self.transformer_.embedder_
        window = choose_window(self.window, panel)
        scaler, time_scale = source.units
        if not self.ignores_outliers:
            self.limits_ = scaler.limits
        units = Units(scaler._replace(limits=self.limits_), time_scale)
        past = MemoryReadout(LegTMemory(self.n_coefficients, window / time_scale), window, units)

        # The last rows before several times in each series, and the features at these times.
        share = np.arange(1, _MOMENTS + 1)[:, None] / _MOMENTS
        stops = np.unique(panel.offsets[:-1] + np.ceil(share * panel.lengths).astype(np.int64))
        series = np.searchsorted(panel.offsets, stops) - 1
        n_rows = int((stops - panel.offsets[series]).sum())
        copies = int(np.clip(_MOST_ROWS // n_rows, 1, _COPIES))
        stops, series = np.tile(stops, copies), np.tile(series, copies)
        before = take(panel, series, panel.offsets[series], stops)
        features = source.features(_with_hidden_rows(before, rng))  # (S, F)
        held_out = np.zeros(panel.n_series, dtype=bool)
        if panel.n_series >= FEWEST_TO_SPLIT:
            held_out[rng.permutation(panel.n_series)[: max(round(0.1 * panel.n_series), 1)]] = True
        held_out = held_out[series]
        center, spread = features[~held_out].mean(axis=0), features[~held_out].std(axis=0)
        spread = np.where(spread > 1e-12, spread, 1.0)
        n_out, width = panel.n_channels * self.n_coefficients, self.hidden_size
        decoder = hidden_layer(features.shape[1], width, n_out, nn.SiLU, generator)
        known = torch.from_numpy((features - center) / spread).float()
        columns = _window_columns(before, past)
        task = DecodingTask(decoder, known, *columns, torch.from_numpy(held_out))
        trainer = Trainer(
            learning_rate=self.learning_rate_init,
            batch_size=default_batch(task),
            max_epochs=self.max_epochs,
            patience=default_patience(self.max_epochs),
            remedy="lower learning_rate_init",
        )
        with one_thread():
            report = trainer.run(decoder, task, generator)
        self.embedder_ = DecodedEmbedder(source, center, spread, decoder, past)
        self.history_, self.validation_error_ = report.history, report.best_error
        return report.message if report.was_interrupted else None

    def _fitted(self, panel: Panel, seed: int) -> SeriesTransformer:
        """The fitted transformer."""
        transformer = ODERNNTransformer() if self.transformer is None else clone(self.transformer)
        if isinstance(transformer, FrozenEstimator):
            transformer = transformer.estimator
            check_is_fitted(transformer)
        elif isinstance(transformer, SeriesTransformer):
            known = transformer.get_params(deep=False)
            if self.random_state is not None and "random_state" in known:
                transformer.set_params(random_state=seed)
            fit_series(transformer, transformer._fit, panel, limits=self.limits_)
        if not isinstance(transformer, SeriesTransformer):
            raise TypeError(
                "transformer must be a transformer of series of this package, such as "
                f"ODERNNTransformer(), got {transformer!r}."
            )
        return transformer


def _with_hidden_rows(panel: Panel, rng: np.random.RandomState) -> Panel:
    """Hide up to half of the rows of each series, drawn at random, but never the last one."""
    share = rng.uniform(0, _HIDDEN, panel.n_series)
    hidden = rng.random_sample(panel.n_observations) < np.repeat(share, panel.lengths)
    hidden[panel.offsets[1:] - 1] = False
    return keep_rows(panel, ~hidden)


def _window_columns(before: Panel, past: MemoryReadout) -> tuple[Tensor, ...]:
    """Offsets, polynomials and values of the rows in the window before each time."""
    ages = np.repeat(before.end, before.lengths) - before.times
    kept = ages <= past.window
    offsets, ages = offsets_from(kept)[before.offsets], torch.from_numpy(ages[kept])
    basis = past.memory.basis(ages / past.units.time_scale, torch.zeros_like(ages))
    x = torch.from_numpy(past.units.scaler.read(before.values[kept]))
    return torch.from_numpy(offsets), basis.float(), x.float()
