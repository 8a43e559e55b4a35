"""Static covariates as features."""

from __future__ import annotations

from typing import ClassVar

from skpolyode.embedders import ChannelScaler, Units
from skpolyode.embedders.static import StaticEmbedder, StaticEncoder
from skpolyode.panel import Panel
from skpolyode.transformers.base import SeriesTransformer


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

    Another transformer in the union still warns that it does not use the covariates. To silence it:
    ``warnings.filterwarnings("ignore", ".*does not use the static covariates")``.

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

    _parameter_constraints: ClassVar[dict[str, list]] = {}
    uses_static = True

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
