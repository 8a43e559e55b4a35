"""Questions to a path: means and integrals over windows, and slopes."""

from __future__ import annotations

from typing import Any

import pandas as pd
from sklearn.utils.metaestimators import available_if

from skpolyode import seams
from skpolyode.panel import Panel


class AnswersQuestions:
    """Mixin of transformers that follow a path; `skpolyode.seams` finds the implementations."""

    has_path = False

    @available_if(lambda transformer: transformer.has_path)
    def average(
        self,
        X: Any,
        start: Any = None,
        end: Any = None,
        relative_to: str | None = None,
        coverage: float = 0.9,
    ) -> pd.DataFrame:
        """Mean in time of each channel over a window, past or future, with an interval.

        Up to the last observation it is the mean of the path of `interpolate`, after it the mean of
        sampled futures. A window may span both.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        start : scalar, array-like of shape (n_series,) or None, default=None
            Where the window begins, for all series or for each; in the units and of the type of the
            series' times. None: at the first observation of the series.
        end : scalar, array-like of shape (n_series,) or None, default=None
            Where it ends, likewise. None: at the last observation of the series.
        relative_to : {"start", "end"} or None, default=None
            What `start` and `end` count from: the first or the last observation of each series;
            they are then numbers, or timedeltas for series with datetimes. None: absolute times.
        coverage : float, default=0.9
            Probability of the interval.

        Returns
        -------
        DataFrame
            A row for each series and channel, indexed by both; NaN for a series without any
            observation. In the units of the channel:

            - ``value``: the mean.
            - ``lower`` and ``upper``: ends of the interval, only for transformers that forecast.
              Others do not estimate errors, and hold the last value after the last observation.

            The interval is that of the mean of the signal, without the noise of single
            observations.

        See Also
        --------
        skpolyode.futures.SamplePaths : Means, integrals and totals of futures, sample by sample.

        Raises
        ------
        ValueError
            If a window is empty or begins before the first observation of its series, or the errors
            of paths or forecasts are not known.

        Examples
        --------
        >>> from skpolyode import InterpolationTransformer
        >>> series = [([0.0, 1.0, 3.0], [2.0, 4.0, 0.0]), ([0.0, 2.0], [1.0, 3.0])]
        >>> InterpolationTransformer().fit(series).average(series, -1.0, 0.0, "end").round(2)
                        value
        series channel
        0      x0         1.0
        1      x0         2.5
        """
        asked = X, (start, end), relative_to, coverage
        return seams.questions().integrals(self, *asked, mean=True)

    @available_if(lambda transformer: transformer.has_path)
    def integral(
        self,
        X: Any,
        start: Any = None,
        end: Any = None,
        relative_to: str | None = None,
        coverage: float = 0.9,
    ) -> pd.DataFrame:
        """Integral of each channel over a window, past or future, with an interval.

        Examples are the area under a glucose curve, and the energy of a load.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        start : scalar, array-like of shape (n_series,) or None, default=None
            As in `average`.
        end : scalar, array-like of shape (n_series,) or None, default=None
            As in `average`.
        relative_to : {"start", "end"} or None, default=None
            As in `average`.
        coverage : float, default=0.9
            As in `average`.

        Returns
        -------
        DataFrame
            As in `average`, in the units of the channel times those of `times` (for datetimes, the
            panel's `time_unit`).

        Raises
        ------
        ValueError
            As in `average`.
        """
        asked = X, (start, end), relative_to, coverage
        return seams.questions().integrals(self, *asked, mean=False)

    @available_if(lambda transformer: transformer.has_path)
    def derivative(
        self, X: Any, times: Any = None, order: int = 1, relative_to: str | None = None
    ) -> Panel:
        """Slopes of all channels, or higher derivatives, of the path of `interpolate`.

        They are derivatives of the smooth piece of the path at each time, not finite differences.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,), list of such or None, default=None
            As in `interpolate`.
        order : int, default=1
            1 for the slope, 2 for the second derivative; at most 3, for cubic paths.
        relative_to : {"start", "end"} or None, default=None
            As in `interpolate`.

        Returns
        -------
        Panel
            In the units of the channel divided by those of `times` (for datetimes, the panel's
            `time_unit`) to the power of `order`. At a kink, such as an observation, it is the
            derivative to the right. From the last observation on it is that of the combined
            forecast; transformers that hold the last value return the slope to the left there, and
            0 later.

        Raises
        ------
        ValueError
            If a time is before the first observation of its series, or the path has no derivative
            of this order.

        Examples
        --------
        >>> from skpolyode import InterpolationTransformer
        >>> series = [([0.0, 1.0, 3.0], [2.0, 4.0, 0.0])]
        >>> model = InterpolationTransformer().fit(series)
        >>> model.derivative(series, [0.5, 1.0, 3.0]).values.ravel().round(6).tolist()
        [2.0, -2.0, -2.0]
        """
        return seams.questions().slopes(self, X, times, order, relative_to)

    @available_if(lambda transformer: hasattr(transformer, "sample_paths"))
    def derivative_std(self, X: Any, times: Any = None, relative_to: str | None = None) -> Panel:
        """Standard deviation of the slopes of `derivative`.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,), list of such or None, default=None
            As in `interpolate`.
        relative_to : {"start", "end"} or None, default=None
            As in `interpolate`.

        Returns
        -------
        Panel
            In the units of `derivative`. Between observations it follows from path errors at hidden
            rows, which `fit` has learned; from the last observation on the slopes of sampled
            futures over a typical gap add to it.

        Raises
        ------
        ValueError
            If a time is before the first observation of its series, or the errors of paths or
            forecasts are not known.
        """
        return seams.questions().slope_stds(self, X, times, relative_to)
