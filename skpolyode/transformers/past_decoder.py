"""The past read out of any embedding, by a decoder that is trained for it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpolyode.embedders import DecodedEmbedder, MemoryReadout
from skpolyode.embedders.holdout import FEWEST_TO_SPLIT
from skpolyode.memory import LegTMemory
from skpolyode.models import BackwardODE, NetworkDecoder
from skpolyode.panel import Panel
from skpolyode.panel.rows import offsets_from
from skpolyode.panel.select import observed_part, observed_rows, take
from skpolyode.training import Trainer, intra_op_threads
from skpolyode.training.tasks import DecodingTask
from skpolyode.transformers._checks import local_random_state
from skpolyode.transformers._training import COUNT, POSITIVE
from skpolyode.transformers.base import SeriesTransformer
from skpolyode.transformers.ode_rnn import ODERNNTransformer
from skpolyode.transformers.stages import usual_batch, usual_patience
from skpolyode.units import choose_window

__all__ = ["PastDecoder"]

_DECODERS = {"network": NetworkDecoder, "ode": BackwardODE}
_MOMENTS = 4  # of each series, at which its past is to be told from the features
_HELD_OUT = 0.1  # share of the series


class PastDecoder(SeriesTransformer):
    """Read the past out of an embedding that has no memory, by a decoder trained for it.

    The embedder is fitted first, and then left as it is. A small network learns, from its features
    at several moments of each series, coefficients of polynomials that come close to what was
    observed in the window before. `transform` gives these coefficients; `reconstruct` and
    `inverse_transform` read them as those of `PolyODETransformer` and `HiPPOTransformer`.

    Take it to see how much of the past an embedding still holds: the error of `reconstruct` on new
    series is a bound from above. To remember the past choose an embedding with coefficients of its
    own, which needs no decoder.

    Parameters
    ----------
    embedder : transformer or None, default=None
        What embeds; not fitted itself, but a clone of it, unless it is a fitted one in
        `sklearn.frozen.FrozenEstimator`. None: an `ODERNNTransformer` with its defaults.
    kind : {"network", "ode"}, default="network"
        What decodes: "network" gives the coefficients at once, "ode" a path that runs back in time
        from the last observation, as in the auto-encoder of ODE-RNN. Both learn from frozen
        features; in the paper of ODE-RNN decoder and encoder are trained together.
    n_coefficients : int, default=32
        Coefficients a channel. Raise it if the window holds more than about ten swings.
    window : float or "auto", default="auto"
        Length of the past that is decoded, in the units of `times`. "auto" takes the length of the
        longest series of `fit`.
    hidden_size : int, default=128
        Width of the decoder's hidden layer.
    max_epochs : int, default=60
        Passes of its training, which stops early as that of `ODERNNTransformer` does.
    learning_rate_init : float, default=0.05
        Peak of its learning rate.
    random_state : int, RandomState instance or None, default=None
        Seed of the embedder, of initial weights, minibatches and held-out series.

    Attributes
    ----------
    transformer_ : transformer
        The fitted embedder.
    embedder_ : DecodedEmbedder
        What was learned.
    history_ : list of dict
        The training of the decoder, as that of `ODERNNTransformer`.
    validation_error_ : float
        Best mean squared error of the past of held-out series, in standardised units.
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
    What lies before the start of a series is whatever the decoder makes of it: nothing was there
    to learn from.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import ODERNNTransformer, PastDecoder
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> embedder = ODERNNTransformer(hidden_size=8, max_epochs=2)
    >>> decoder = PastDecoder(embedder, n_coefficients=6, max_epochs=5, random_state=0)
    >>> decoder.fit_transform(series).shape
    (6, 6)
    >>> decoder.reconstruct(series)
    Panel(6 series, 1 channel, 74 observations, 100% of cells observed, times ... to ...)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "embedder": [HasMethods(["fit", "transform"]), None],
        "kind": [StrOptions(set(_DECODERS))],
        "n_coefficients": [COUNT],
        "window": [POSITIVE, StrOptions({"auto"})],
        "hidden_size": [COUNT],
        "max_epochs": [COUNT],
        "learning_rate_init": [POSITIVE],
        "random_state": ["random_state"],
    }

    has_coefficients = True
    uses_static = True
    embedder_: DecodedEmbedder

    def __init__(
        self,
        embedder: Any = None,
        *,
        kind: str = "network",
        n_coefficients: int = 32,
        window: float | str = "auto",
        hidden_size: int = 128,
        max_epochs: int = 60,
        learning_rate_init: float = 0.05,
        random_state: Any = None,
    ) -> None:
        self.embedder = embedder
        self.kind = kind
        self.n_coefficients = n_coefficients
        self.window = window
        self.hidden_size = hidden_size
        self.max_epochs = max_epochs
        self.learning_rate_init = learning_rate_init
        self.random_state = random_state

    def _fit(self, panel: Panel) -> str | None:
        rng = local_random_state(self.random_state)
        self.transformer_ = self._fitted(panel, int(rng.randint(2**31 - 1)))
        generator = torch.Generator().manual_seed(int(rng.randint(2**31 - 1)))
        source, seen = self.transformer_.embedder_, observed_part(panel)
        window = choose_window(self.window, observed_rows(panel))
        length = window / source.units.time_scale
        past = MemoryReadout(LegTMemory(self.n_coefficients, length), window, source.units)

        # Some moments of each series, what is known of it by then, and what was observed before.
        share = np.arange(1, _MOMENTS + 1)[:, None] / _MOMENTS
        stops = np.unique(seen.offsets[:-1] + np.ceil(share * seen.lengths).astype(np.int64))
        series = np.searchsorted(seen.offsets, stops) - 1
        features = source.features(take(seen, series, seen.offsets[series], stops))
        held_out = np.zeros(panel.n_series, dtype=bool)
        if panel.n_series >= FEWEST_TO_SPLIT:
            count = max(round(_HELD_OUT * panel.n_series), 1)
            held_out[rng.permutation(panel.n_series)[:count]] = True
        held_out = held_out[series]
        center, spread = features[~held_out].mean(axis=0), features[~held_out].std(axis=0)
        spread = np.where(spread > 1e-12, spread, 1.0)

        decoder = _DECODERS[self.kind](
            *(features.shape[1], panel.n_channels, self.n_coefficients, self.hidden_size, length),
            generator=generator,
        )
        columns = _observed_before(seen, seen.offsets[series], stops, past)
        known = torch.from_numpy((features - center) / spread).float()
        task = DecodingTask(decoder, known, *columns, torch.from_numpy(held_out))
        self.embedder_ = DecodedEmbedder(source, center, spread, decoder, past)
        return self._train(task, generator)

    def _fitted(self, panel: Panel, seed: int) -> SeriesTransformer:
        """The embedder, fitted."""
        embedder = ODERNNTransformer() if self.embedder is None else clone(self.embedder)
        if isinstance(embedder, FrozenEstimator):
            embedder = embedder.estimator
            check_is_fitted(embedder)
        elif isinstance(embedder, SeriesTransformer):
            if self.random_state is not None and "random_state" in embedder.get_params(deep=False):
                embedder.set_params(random_state=seed)
            embedder.fit(panel)
        if not isinstance(embedder, SeriesTransformer):
            raise TypeError(
                "embedder must be a transformer of series of this package, such as "
                f"ODERNNTransformer(), got {embedder!r}."
            )
        return embedder

    def _train(self, task: DecodingTask, generator: torch.Generator) -> str | None:
        trainer = Trainer(
            learning_rate=self.learning_rate_init,
            batch_size=usual_batch(task),
            max_epochs=self.max_epochs,
            patience=usual_patience(self.max_epochs),
            remedy="lower learning_rate_init",
        )
        with intra_op_threads(1):
            report = trainer.run(task.decoder, task, generator, None)
        self.history_, self.validation_error_ = report.history, report.best_error
        return report.message if report.was_interrupted else None


def _observed_before(
    seen: Panel, start: np.ndarray, stop: np.ndarray, past: MemoryReadout
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Offsets, polynomials and values of what was observed in the window before some moments.

    `start` and `stop` are the rows of their series up to them.
    """
    moment = np.repeat(np.arange(len(stop)), stop - start)
    rows = np.arange(len(moment)) + (start - offsets_from(stop - start)[:-1])[moment]
    ages = seen.times[stop - 1][moment] - seen.times[rows]
    kept = ages <= past.window
    ages = torch.from_numpy(ages[kept] / past.units.time_scale)
    basis = past.memory.basis(ages, torch.zeros_like(ages))
    scaler = past.units.scaler
    x = torch.from_numpy(scaler.read(seen.values[rows[kept]]))
    offsets = offsets_from(np.bincount(moment[kept], minlength=len(stop)))
    return torch.from_numpy(offsets), basis.float(), x.float()
