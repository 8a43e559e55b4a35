"""Transformers that train nothing: memories of given paths, fits of polynomials, and statistics."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import ClassVar, Self

from sklearn.utils._param_validation import Interval, StrOptions

from skpolyode.embedders import LeastSquaresEmbedder, MemoryReadout, PathEmbedder
from skpolyode.embedders.base import Lazy
from skpolyode.embedders.direct import StaticEmbedder, SummaryEmbedder
from skpolyode.embedders.encoders import StaticEncoder
from skpolyode.embedders.paths import KINDS
from skpolyode.memory import MEMORIES
from skpolyode.panel import Panel
from skpolyode.panel.select import first_series
from skpolyode.panel.units import ChannelScaler, Units
from skpolyode.seams import wing
from skpolyode.transformers.base import COUNT, DURATION, Duration, SeriesTransformer
from skpolyode.transformers.input import static_readers

_PATHS = {"linear": "linear", "previous": "constant"}


def _path_embedder(past: MemoryReadout, path: str, panel: Panel) -> PathEmbedder:
    """Embedder of a path, with its errors: they are learned when they are asked for, or saved."""
    embedder, few = PathEmbedder(past.units, past, path), first_series(panel)
    if len(few) < len(panel):
        few = Panel.concat([few], ids=few.ids)  # a slice would keep all alive
    errors = Lazy(lambda: wing("ensemble.paths").lazy_path_errors(embedder, few, None).learned)
    return replace(embedder, path_errors=errors)


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
        longest series of `fit`, but for at most a tenth that are over eight times as long as any
        other; a shorter series counts as constant before its start. Lower it if only the recent
        past matters. Not used by "legs".

    Attributes
    ----------
    window_ : float
        Length of the remembered past, in the units of `times`; with "legs", the longest history
        of `fit`.
    coverage_ : float
        Share of a series of `fit` that the window covers, on average.
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
        self.embedder_ = _path_embedder(past, _PATHS[self.hold], panel)


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
        longest series of `fit`, but for at most a tenth that are over eight times as long as any
        other; a shorter series counts as constant before its start. Lower it if only the recent
        past matters.

    Attributes
    ----------
    window_ : float
        Length of the remembered past, in the units of `times`.
    coverage_ : float
        Share of a series of `fit` that the window covers, on average.
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
    grows with the roughness of the path and with fewer coefficients.

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
        self.embedder_ = _path_embedder(past, path, panel)


class LegendreFitTransformer(SeriesTransformer):
    r"""Embed irregular series by a penalised least-squares fit of Legendre polynomials.

    Each channel of each series gets the coefficients whose polynomial is closest to its
    observations in the window. No path between observations is assumed. `fit` learns only the mean
    and the standard deviation of each channel.

    Use it as an upper bound for reconstructions: no other `n_coefficients` coefficients come much
    closer to the points that it was fitted to. Fitted to a whole trajectory, it shows how much
    detail that many coefficients can hold. As an embedding it also smooths noise.

    Parameters
    ----------
    n_coefficients : int, default=32
        Number of coefficients per channel. Raise it if the window holds more than about ten
        oscillations of the signal; lower it for fewer features.
    alpha : float, default=1e-05
        Weight of the penalty, in units of the variance of the channel. Raise it for noisy
        observations; lower it to pass closer to them.
    window : float, timedelta, str or "auto", default="auto"
        Length of the remembered past, in the units of `times`. "auto" takes the length of the
        longest series of `fit`, but for at most a tenth that are over eight times as long as any
        other; a shorter series counts as constant before its start. Lower it if only the recent
        past matters.

    Attributes
    ----------
    window_ : float
        Length of the remembered past, in the units of `times`.
    coverage_ : float
        Share of a series of `fit` that the window covers, on average.
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
    InterpolationTransformer : Coefficients of a path through the observations.

    Notes
    -----
    The coefficients minimise ``mean_i (x_i - f(t_i))**2 + alpha sum_n n (n+1) c_n**2``. The
    second sum is the energy of the slope, ``1/2 int (1 - y**2) f'(y)**2 dy`` over the window scaled
    to [-1, 1]: a constant costs nothing, and between sparse observations the fit is as flat as they
    allow. Measured on Lorenz63, the equal weights of plain ridge regression had 2.5 times the error
    at times that were not observed.

    Observations with known errors (`Panel.errors`) count by their inverse variances: the mean is a
    weighted one. A missing error counts as the mean of the known errors of its series.

    A channel observed only before the window has its last value. A channel that was never observed
    has its mean, with all coefficients zero. Within the window, the fit is extrapolated before the
    first observation.

    Examples
    --------
    A parabola is remembered from a few points:

    >>> import numpy as np
    >>> from skpolyode.transformers import LegendreFitTransformer
    >>> times = np.array([0.0, 0.3, 1.0, 1.2, 1.9, 2.0])
    >>> transformer = LegendreFitTransformer(n_coefficients=3, alpha=0.0, window=2.0)
    >>> transformer.fit([(times, times**2)]).reconstruct([(times, times**2)], [1.5]).values.round(6)
    array([[2.25]])
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "n_coefficients": [COUNT],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "window": DURATION,
    }

    def __init__(
        self, *, n_coefficients: int = 32, alpha: float = 1e-5, window: Duration = "auto"
    ) -> None:
        self.n_coefficients = n_coefficients
        self.alpha = alpha
        self.window = window

    has_coefficients = True
    uses_errors = True

    def _fit(self, panel: Panel) -> None:
        past = self._new_readout(panel)
        self.embedder_ = LeastSquaresEmbedder(past.units, past, self.alpha)


class SummaryStatsTransformer(SeriesTransformer):
    """Embed irregular series by a dozen summary statistics of each channel.

    The mean, standard deviation, minimum, maximum, first and last value, mean absolute change
    between observations, slope of the regression line, number of observations, share of the
    series' times at which the channel was observed, and mean and longest gap; and the duration of
    the series. Where errors of observations are known (`Panel.errors`) also the mean weighted by
    their inverse variances.

    Use it with gradient boosting as the baseline to beat: it contains levels, trends and *how* a
    series was observed, but not its shape. It has no inverse.

    Parameters
    ----------
    missing : {"mean", "nan"}, default="mean"
        Statistics of a channel that a series never observed. "mean": those of the mean of the
        channel in `fit`. "nan": NaN, for trees, which learn from it; most other models refuse NaN.

    Attributes
    ----------
    scaler_ : ChannelScaler
        Mean and standard deviation of each channel; the mean stands in for values never observed.
    fit_report_ : FitReport
        What `fit` decided, and from which figures; print it.
    n_features_in_ : int
        Number of channels, or of time points if fitted on a 2-D array.
    n_channels_in_ : int
        Number of channels.

    See Also
    --------
    HiPPOTransformer : Keeps the shape of the series.

    Notes
    -----
    Without an observation, the levels of a channel are its mean in `fit`, and its spread, change
    and slope are 0, unless `missing` is "nan"; the gaps of a channel with fewer than two
    observations are the duration of the series. All other features are finite.

    The features have different units: scale them for anything but trees.

    Examples
    --------
    >>> from skpolyode.transformers import SummaryStatsTransformer
    >>> series = [([0.0, 1.0, 3.0], [1.0, 2.0, 6.0]), ([0.0, 2.0], [4.0, 4.0])]
    >>> features = SummaryStatsTransformer().set_output(transform="pandas").fit_transform(series)
    >>> features[["x0_mean", "x0_mean_abs_change", "x0_max_gap", "duration"]].to_numpy().tolist()
    [[3.0, 2.5, 2.0, 3.0], [4.0, 0.0, 2.0, 2.0]]
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {"missing": [StrOptions({"mean", "nan"})]}

    def __init__(self, *, missing: str = "mean") -> None:
        self.missing = missing

    uses_errors = True

    def _fit(self, panel: Panel) -> None:
        units = Units(ChannelScaler.of(panel.values, limits=self.limits_), time_scale=1.0)
        fills = self.missing == "mean"
        self.embedder_ = SummaryEmbedder(units, panel.errors is not None, fills)

    def _channel_features(self) -> list[list[str]]:
        return [list(self.embedder_.statistics)]

    def _series_features(self) -> list[str]:
        return ["duration"]


class StaticFeatures(SeriesTransformer):
    """Features of the static covariates of each series, which most transformers do not read.

    Numbers are in standard deviations from their mean, and so are datetimes and timedeltas, counted
    in days; everything else becomes indicators. Use it in a `FeatureUnion` beside a transformer of
    the series themselves.

    Attributes
    ----------
    fit_report_ : FitReport
        What `fit` decided, and from which figures; print it.
    n_features_in_ : int
        Number of channels.
    n_channels_in_ : int
        Number of channels.

    See Also
    --------
    skpolyode.panel.Panel : Carries static covariates in `static`.
    PolyODETransformer : Starts its dynamics from static covariates.

    Notes
    -----
    A missing number is replaced by the mean; for a missing category, and one that `fit` did not
    see, all indicators are 0. Categories of another type than in `fit` ("1" for 1) are refused.
    Columns that `fit` did not see are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> from skpolyode import Panel, StaticFeatures
    >>> static = pd.DataFrame({"age": [20, 60], "ward": ["a", "b"]}, index=["p1", "p2"])
    >>> series = [([0.0, 0.4, 2.0], [1.0, 2.0, 0.0]), ([0.0, 2.0], [0.0, 1.0])]
    >>> panel = Panel.from_series(series, ids=["p1", "p2"], static=static)
    >>> features = StaticFeatures().set_output(transform="pandas").fit_transform(panel)
    >>> features
        age  ward_a  ward_b
    p1 -1.0     1.0     0.0
    p2  1.0     0.0     1.0
    """

    uses_static = True

    def __new__(cls) -> Self:
        """Note that covariates are read: other transformers do not warn that they ignore them."""
        made = super().__new__(cls)
        static_readers.add(made)
        return made

    def _fit(self, panel: Panel) -> None:
        encoder = StaticEncoder.of_panel(panel)
        if encoder is None:
            raise ValueError(
                "X has no static covariates with known values: give them in the `static` of a "
                "Panel, or leave StaticFeatures out."
            )
        scaler = ChannelScaler.of(panel.values, limits=self.limits_)
        # Channels may be unobserved here.
        self.embedder_ = StaticEmbedder(Units(scaler._replace(observed=None), 1.0), encoder)

    def _channel_features(self) -> list[list[str]]:
        return []

    def _series_features(self) -> list[str]:
        return self.embedder_.static.names
