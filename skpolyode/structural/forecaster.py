"""Structural models of single series as an estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skpolyode.ensemble.periods import read_period
from skpolyode.errors import naming_owner
from skpolyode.panel import Panel, as_panel, query_times
from skpolyode.panel.codes import warn_of_codes
from skpolyode.panel.outliers import CellLimits, within_limits
from skpolyode.panel.query import refuse_early
from skpolyode.panel.select import drop_empty, fill_values
from skpolyode.panel.selection import align_to_fit
from skpolyode.saving.objects import register_estimator
from skpolyode.structural.averaging import StructuralForecasts, StructuralModels
from skpolyode.transformers.base import SeriesEstimator
from skpolyode.transformers.input import check_sizes

_LARGEST = 1e150  # squares of such values are still numbers


@register_estimator
class StructuralForecaster(SeriesEstimator):
    """Forecast single series by models of level, trend and season, at irregular times.

    Hundreds of linear state-space models are drawn for each channel. Their levels are constant,
    random walks or mean-reverting; they have trends, seasons (long ones also with one value per
    phase) and cycles, in values or logarithms. The likeliest are kept and averaged, weighted by the
    probability of the series so far under each (Bayesian model averaging; Raftery, Karny and
    Ettler, Technometrics 2010, without forgetting). The models are Kalman filters in continuous
    time and need no grid. Use it for one or a few series that are too short for learned dynamics;
    `PolyODEForecaster` then includes it in its ensemble.

    Parameters
    ----------
    period : float, timedelta, str, sequence of such, "auto" or None, default="auto"
        Lengths of seasons: in the units of `times` or, for datetimes, durations such as "7D".
        "auto": search for them; None: no season.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw of models; pass an int to draw the same ones in each fit.

    Attributes
    ----------
    models_ : StructuralModels
        The models that were kept, by channel.
    limits_ : CellLimits
        Smallest and largest credible value of each channel. Cells outside count as not observed,
        with a warning that names them.

    See Also
    --------
    skpolyode.PolyODEForecaster : Learned dynamics, combined with these models.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.structural import StructuralForecaster
    >>> months = np.arange(60.0)
    >>> sales = [(months, 100 + 2 * months + 10 * np.sin(months * np.pi / 6))]
    >>> forecaster = StructuralForecaster(random_state=0).fit(sales)
    >>> forecaster.forecast(sales, [63.0, 69.0]).values.round(0).ravel().tolist()
    [236.0, 228.0]
    """

    def __init__(
        self,
        period: float | Sequence[float] | str | None = "auto",
        random_state: Any = None,
    ) -> None:
        self.period = period
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw models, and keep those that explain the series best.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series; see :func:`skpolyode.panel.as_panel` for every accepted format.
        y : None, default=None
            Ignored.

        Returns
        -------
        self
        """
        panel = as_panel(X)
        with naming_owner(self):
            period = read_period(self.period, panel.time_unit)
        limits = CellLimits.of(panel)
        known = within_limits(panel, limits)
        warn_of_codes(known)
        check_sizes(known, largest=_LARGEST)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.models_ = StructuralModels.learn(drop_empty(known), seed, period)
        self.channel_names_, self.has_channel_names_ = panel.channel_names, panel.has_channel_names
        self.limits_ = limits
        return self

    def forecast(self, X: Any, times: Any, relative_to: str | None = None) -> Panel:
        """Continue series beyond their last observations.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            Series with the channels of `fit`.
        times : array-like of shape (Q,) or list of such
            Times after the last observations, for all series or for each.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from: the first or the last observation of each series; None:
            absolute times, like those of the series.

        Returns
        -------
        Panel
            All channels at these times; NaN for a channel or a series that was never observed.

        Raises
        ------
        ValueError
            If a time is before the last observation of its series.
        """
        return self._answers(X, times, relative_to, lambda found: found.means)

    def forecast_std(self, X: Any, times: Any, relative_to: str | None = None) -> Panel:
        """Standard deviations of the errors of `forecast`.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            Series with the channels of `fit`.
        times : array-like of shape (Q,) or list of such
            Times after the last observations, for all series or for each.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from.

        Returns
        -------
        Panel
            Standard deviations of future observations, in the units of the channels.
        """
        return self._answers(X, times, relative_to, lambda found: found.deviations)

    def _answers(
        self,
        X: Any,
        times: Any,
        relative_to: str | None,
        column: Callable[[StructuralForecasts], np.ndarray],
    ) -> Panel:
        check_is_fitted(self)
        panel = within_limits(align_to_fit(as_panel(X), self), self.limits_)
        check_sizes(panel, largest=_LARGEST)
        flat, offsets = query_times(panel, times, relative_to)

        def compute(known: Panel, asked: np.ndarray, starts: np.ndarray) -> np.ndarray:
            why = "its last observation ({} such times): a forecast starts there."
            refuse_early(known, asked, starts, known.end, why)
            last = known.offsets[1:] - 1
            return column(self.models_.forecast_from(known, last, asked, np.diff(starts)))

        return panel.like(flat, fill_values(panel, flat, offsets, compute), offsets)
