"""Embed series by a polynomial memory of their observations, without training."""

from __future__ import annotations

from typing import ClassVar

from sklearn.utils._param_validation import StrOptions

from skpolyode.embedders import PathEmbedder
from skpolyode.memory import MEMORIES
from skpolyode.panel import Panel
from skpolyode.transformers.base import COUNT, DURATION, Duration, SeriesTransformer

_PATHS = {"linear": "linear", "previous": "constant"}


class HiPPOTransformer(SeriesTransformer):
    """Embed irregular series by the polynomial memory of their observations (HiPPO).

    A memory of orthogonal polynomials follows each channel, with exact updates over any gap.
    Between observations the signal is a straight line or the last value (`hold`). `fit` learns only
    the mean and the standard deviation of each channel. Channels may be observed at different
    times.

    Try it first: it is fast, and for dense series as good as any other embedding in coefficients.
    Where observations are sparse samples of some dynamics, `PolyODETransformer` fills the gaps
    better than a line.

    Parameters
    ----------
    n_coefficients : int, default=32
        Number of coefficients per channel. Raise it if the past holds more than about ten
        oscillations of the signal; lower it for fewer features.
    measure : {"legt", "legs", "lagt", "fout"}, default="legt"
        How the past is weighted: "legt" remembers the last `window` evenly; "legs" the whole
        history, however long; "lagt" fades exponentially over the `window`; "fout" is "legt" with
        sines and cosines, which suits periodic signals (it leaves the last of an even number of
        coefficients at zero).
    hold : {"linear", "previous"}, default="linear"
        The signal between two observations: a line, or the earlier value. Choose "previous" for
        signals that move in steps, and where only earlier observations may determine the signal.
    window : float, timedelta, str or "auto", default="auto"
        Length of the remembered past, in the units of `times`. "auto" takes the length of the
        longest series of `fit`; a shorter series counts as constant before its start. Lower it if
        only the recent past matters. Not used by "legs".

    Attributes
    ----------
    window_ : float
        Length of the remembered past, in the units of `times`; with "legs", the longest history
        of `fit`.
    coverage_ : float
        Share of the typical (median) series of `fit` that the window covers.
    observations_per_coefficient_ : float
        Number of observations of a typical series within the window per coefficient: the larger,
        the coarser the memory.
    scaler_ : ChannelScaler
        Mean and standard deviation of each channel.
    fit_report_ : FitReport
        What `fit` decided, and from which figures; print it.
    n_features_in_ : int
        Number of channels, or of time points if fitted on a 2-D array.
    n_channels_in_ : int
        Number of channels.

    See Also
    --------
    InterpolationTransformer : The same for smoother paths.
    PolyODETransformer : Learns the path between observations.

    Notes
    -----
    Before its first observation a channel has the value of that observation, after its last
    one the last value. A channel that was never observed has its mean, with all coefficients zero.

    With ``measure="legs"`` the last feature is "duration": the length of the history in units of
    `window_`, which the coefficients do not contain.

    References
    ----------
    A. Gu, T. Dao, S. Ermon, A. Rudra and C. Re, "HiPPO: recurrent memory with optimal polynomial
    projections", NeurIPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.transformers import HiPPOTransformer
    >>> series = [([0.0, 0.4, 1.5, 2.0], [1.0, 2.0, 2.0, 0.0]), ([0.0, 1.2, 2.0], [0.0, 3.0, 1.0])]
    >>> transformer = HiPPOTransformer(window=2.0)
    >>> transformer.fit_transform(series).shape
    (2, 32)
    >>> transformer.reconstruct(series, [1.0]).values.round(1).tolist()
    [[2.0], [2.5]]
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "n_coefficients": [COUNT],
        "measure": [StrOptions(MEMORIES.keys())],
        "hold": [StrOptions(set(_PATHS))],
        "window": DURATION,
    }

    def __init__(
        self,
        *,
        n_coefficients: int = 32,
        measure: str = "legt",
        hold: str = "linear",
        window: Duration = "auto",
    ) -> None:
        self.n_coefficients = n_coefficients
        self.measure = measure
        self.hold = hold
        self.window = window

    has_coefficients = True
    has_path = True
    has_stream = True

    def _fit(self, panel: Panel) -> None:
        past = self._new_readout(panel, self.measure)
        self.embedder_ = PathEmbedder(past.units, past, _PATHS[self.hold])
