"""Embed series by summary statistics."""

from __future__ import annotations

from typing import ClassVar

from skpolyode.embedders.summary import SummaryEmbedder
from skpolyode.panel import Panel
from skpolyode.panel.units import ChannelScaler, Units
from skpolyode.transformers.base import SeriesTransformer


class SummaryStatsTransformer(SeriesTransformer):
    """Embed irregular series by a dozen summary statistics of each channel.

    The mean, standard deviation, minimum, maximum, first and last value, mean absolute change
    between observations, slope of the regression line, number of observations, share of the
    series' times at which the channel was observed, and mean and longest gap; and the duration of
    the series. Where errors of observations are known (`Panel.errors`) also the mean weighted by
    their inverse variances.

    Use it with gradient boosting as the baseline to beat: it contains levels, trends and *how* a
    series was observed, but not its shape. It has no parameters, and no inverse.

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
    All features are finite. Without an observation, the levels of a channel are its mean in `fit`,
    and its spread, change and slope are 0; the gaps of a channel with fewer than two observations
    are the duration of the series.

    The features have different units: scale them for anything but trees.

    Examples
    --------
    >>> from skpolyode.transformers import SummaryStatsTransformer
    >>> series = [([0.0, 1.0, 3.0], [1.0, 2.0, 6.0]), ([0.0, 2.0], [4.0, 4.0])]
    >>> features = SummaryStatsTransformer().set_output(transform="pandas").fit_transform(series)
    >>> features[["x0_mean", "x0_mean_abs_change", "x0_max_gap", "duration"]].to_numpy().tolist()
    [[3.0, 2.5, 2.0, 3.0], [4.0, 0.0, 2.0, 2.0]]
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {}
    uses_errors = True

    def _fit(self, panel: Panel) -> None:
        scaler = ChannelScaler.of(panel.values, limits=self.limits_)
        self.embedder_ = SummaryEmbedder(Units(scaler, time_scale=1.0), panel.errors is not None)

    def _channel_features(self) -> list[list[str]]:
        return [list(self.embedder_.statistics)]

    def _series_features(self) -> list[str]:
        return ["duration"]
