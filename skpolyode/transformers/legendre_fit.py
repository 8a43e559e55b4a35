"""Least squares on the polynomials, at the observed points only."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from skpolyode.embedders import LeastSquaresEmbedder
from skpolyode.panel import Panel
from skpolyode.transformers.base import COUNT, DURATION, Duration, SeriesTransformer


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
        self,
        *,
        n_coefficients: int = 32,
        alpha: float = 1e-5,
        window: Duration = "auto",
    ) -> None:
        self.n_coefficients = n_coefficients
        self.alpha = alpha
        self.window = window

    has_coefficients = True
    uses_errors = True

    def _fit(self, panel: Panel) -> None:
        past = self._new_readout(panel)
        self.embedder_ = LeastSquaresEmbedder(past.units, past, self.alpha)
