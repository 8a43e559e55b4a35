"""The polynomial coefficients of an interpolating path."""

from __future__ import annotations

from typing import ClassVar

from sklearn.utils._param_validation import StrOptions

from skpolyode.embedders import PathEmbedder
from skpolyode.embedders.paths import KINDS
from skpolyode.panel import Panel
from skpolyode.transformers.base import COUNT, DURATION, Duration, SeriesTransformer


class InterpolationTransformer(SeriesTransformer):
    """Embed irregular series by the polynomial coefficients of an interpolating path.

    Each channel is interpolated through its observations, and a memory of Legendre polynomials over
    a sliding window follows the path, by exact steps over any gap. `fit` learns only the mean
    and the standard deviation of each channel.

    Use it where the signal is smooth and dense enough that a curve through the observations is
    close to it; no training is needed. It is also the baseline for a learned path.

    Parameters
    ----------
    kind : {"constant", "linear", "hermite", "pchip", "cubic"}, default="linear"
        The path: "constant" holds each value until the next; "linear" joins them by lines;
        "hermite" is a cubic with slopes from neighbouring observations; "pchip" the same without
        overshoot; "cubic" the natural cubic spline, the smoothest, which suits dense data without
        noise and overshoots in long gaps.
    causal : bool, default=True
        Only for "hermite": take the slope at an observation from the one before it, so that the
        path up to an observation never changes afterwards. False takes both neighbours, which is
        closer to the signal.
    n_coefficients : int, default=32
        Number of coefficients per channel. Raise it if the window holds more than about ten
        oscillations of the signal; lower it for fewer features.
    window : float, timedelta, str or "auto", default="auto"
        Length of the remembered past, in the units of `times`. "auto" takes the length of the
        longest series of `fit`; a shorter series counts as constant before its start. Lower it if
        only the recent past matters.

    Attributes
    ----------
    window_ : float
        Length of the remembered past, in the units of `times`.
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
    HiPPOTransformer : Other weightings of the past, for the linear and the constant path.
    LegendreFitTransformer : Least squares at the observations, without a path between them.

    Notes
    -----
    Before its first observation a channel has the value of that observation, after its last
    one the last value: no polynomial is extrapolated. A channel that was never observed has its
    mean, with all coefficients zero.

    The slopes of "pchip" are those of Fritsch and Butland, as in SciPy's `PchipInterpolator`;
    "cubic" is SciPy's `CubicSpline` with natural ends.

    The coefficients of a sliding memory approximate the projection of the path onto the
    polynomials: the memory takes what leaves the window from its own reconstruction. The error
    grows with the roughness of the path and with fewer coefficients; see
    :func:`skpolyode.memory.legt_closure_error`, and `skpolyode.memory.pieces.project` for the
    projection itself.

    Examples
    --------
    >>> from skpolyode.transformers import InterpolationTransformer
    >>> series = [([0.0, 0.4, 1.5, 2.0], [1.0, 2.0, 2.0, 0.0]), ([0.0, 1.2, 2.0], [0.0, 3.0, 1.0])]
    >>> transformer = InterpolationTransformer(kind="pchip", n_coefficients=8, window=2.0)
    >>> transformer.fit_transform(series).shape
    (2, 8)
    >>> transformer.reconstruct(series, [1.0]).values.round(1).tolist()
    [[2.0], [2.9]]
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        # "centred" is "hermite" with causal=False.
        "kind": [StrOptions(set(KINDS) - {"centred"})],
        "causal": ["boolean"],
        "n_coefficients": [COUNT],
        "window": DURATION,
    }

    def __init__(
        self,
        *,
        kind: str = "linear",
        causal: bool = True,
        n_coefficients: int = 32,
        window: Duration = "auto",
    ) -> None:
        self.kind = kind
        self.causal = causal
        self.n_coefficients = n_coefficients
        self.window = window

    has_coefficients = True
    has_path = True

    def _fit(self, panel: Panel) -> None:
        past = self._new_readout(panel)
        path = "centred" if self.kind == "hermite" and not self.causal else self.kind
        self.embedder_ = PathEmbedder(past.units, past, path)
