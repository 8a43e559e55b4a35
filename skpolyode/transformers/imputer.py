"""Impute missing values of series."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from skpolyode.panel import Panel, is_ragged
from skpolyode.panel.convert import shape_of
from skpolyode.panel.select import series_of_rows
from skpolyode.saving.objects import register_estimator
from skpolyode.transformers.base import SeriesTransformer
from skpolyode.transformers.input import read_panel
from skpolyode.transformers.path_transformer import PathTransformer
from skpolyode.transformers.polyode import PolyODETransformer
from skpolyode.transformers.refinement import learn_refinement


def _returns_tables(imputer: PanelImputer) -> bool:
    shape = getattr(imputer, "array_shape_", ())
    return shape is not None and len(shape) < 2


def _is_trained(imputer: PanelImputer) -> bool:
    model = getattr(imputer, "transformer_", imputer.transformer or PolyODETransformer())
    if not hasattr(model, "interval_around"):
        raise AttributeError(
            f"{type(model).__name__} trains no model whose errors could be known: for intervals, "
            "impute with a PolyODETransformer."
        )
    return True


@register_estimator
class PanelImputer(PathTransformer):
    """Impute missing values by the path through the observations.

    Observed cells stay as they are; all others get the value of the learned path. Between two
    observations of a channel, that path follows the dynamics, uses the other channels, and ends in
    the second observation. A regression then corrects it, from neighbouring observations and
    the other channels of the same row. For a fixed interpolation pass an
    `InterpolationTransformer`.

    Use it before methods that need complete data. An array gives an array of the same shape, as
    with scikit-learn's imputers. To turn irregular series into regular ones, use `Resampler`.

    Parameters
    ----------
    transformer : transformer with `interpolate` or None, default=None
        Transformer that follows the path through each series; `fit` fits a clone of it. Set its
        parameters as ``transformer__<name>``. None: a `PolyODETransformer` with its defaults.
    refine : bool or "auto", default="auto"
        Whether ridge regressions correct the path where a cell is missing between the first and the
        last row of a series. Their regressors are two observations of the channel before and two
        after the cell, its mean in the series, and the deviations of the other channels in the same
        row from their means and from straight lines between their neighbours. `fit` learns them by
        hiding observed cells. A channel is not corrected if that does not help, or if fewer than 50
        of its cells were hidden. "auto": if the transformer is trained.

    Attributes
    ----------
    transformer_ : transformer
        The fitted clone.
    refinement_ : Refinement or None
        The regressions; their `coefficients` are 0 for channels that are not corrected. None if
        there are none.
    n_features_in_ : int
        Number of channels, or of time points if fitted on a 2-D array.
    n_channels_in_ : int
        Number of channels.

    See Also
    --------
    Resampler : Fills in values at times of your choice.
    PolyODETransformer.interpolate : The same values, at any times.

    Notes
    -----
    Between two observations of a channel, a cell gets the value of the path between them.
    Before the first observation of the channel, it gets the expectation of the model, shifted to
    meet that observation. Before any observation of the series, it gets the value with which this
    path begins. After the last observation of the channel, it gets the forecast. A channel that a
    series never observes gets what the model expects, starting from its mean.

    In an array all times are filled, also those without any observation and the padding at the end:
    forecasts continue shorter series to the length of the array. Forecasts far ahead are poor;
    those of a `PolyODETransformer` are constant after 20 times its `context_`. To keep padding,
    pass ragged series.

    A series without any observation raises an error; in a Panel with ``empty="keep"`` it stays NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import InterpolationTransformer, PanelImputer
    >>> X = np.array([[1.0, np.nan, 3.0, 5.0], [np.nan, 2.0, np.nan, 0.0]])
    >>> PanelImputer(InterpolationTransformer()).fit_transform(X)
    array([[1., 2., 3., 5.],
           [2., 2., 1., 0.]])
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **PathTransformer._parameter_constraints,
        "refine": ["boolean", StrOptions({"auto"})],
    }

    def __init__(
        self, transformer: SeriesTransformer | None = None, *, refine: bool | str = "auto"
    ) -> None:
        super().__init__(transformer)
        self.refine = refine

    def _complete(self, panel: Panel) -> None:
        model, self.refinement_ = self.transformer_, None
        if self.refine is True or (self.refine == "auto" and hasattr(model, "fit_stages")):
            known = panel.like(panel.times, self._credible(panel), panel.offsets).since_start()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # `fit` has warned about these series
                self.refinement_ = learn_refinement(known, lambda x: model.interpolate(x).values)

    def _credible(self, panel: Panel) -> np.ndarray:
        """Values (n_obs, D) of a panel, with NaN where a cell counts as not observed."""
        limits = self.transformer_.limits_
        if limits is None:
            return panel.values
        return np.where(limits.judge(panel.values, panel.errors).hidden, np.nan, panel.values)

    def _refined(self, path: Panel, panel: Panel, rows: Any) -> Panel:
        """The path, corrected between the first and the last row of each series.

        `rows` are the positions of the rows of `panel` among those of the path.
        """
        if self.refinement_ is None:
            return path
        values = np.full(path.values.shape, np.nan)
        values[rows] = self._credible(panel)
        # On the clock of `panel`: datetimes count from the first row of their series.
        known = path.like(path.times, values, path.offsets).since_start()
        added = self.refinement_.correction(known, path.values)
        series = series_of_rows(known)
        inside = (known.times >= panel.start[series]) & (known.times <= panel.end[series])
        refined = path.values + np.where(inside[:, None], added, 0.0)
        return path.like(path.times, refined, path.offsets)

    def transform(self, X: Any) -> Panel | np.ndarray:
        """Fill in the gaps of series.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series, with the channels of `fit`. Each is filled on its own: the result does not
            depend on the other series in `X`.

        Returns
        -------
        Panel or float64 ndarray of the shape of X
            An array (or table, see `set_output`) of an array or table, else a Panel with the times
            of the series.
        """
        (filled,) = self._filled(X, lambda path, *_: [path])
        return filled

    @available_if(_is_trained)
    def interval(
        self, X: Any, coverage: float = 0.9
    ) -> tuple[Panel, Panel] | tuple[np.ndarray, np.ndarray]:
        """Calibrated intervals around the values that `transform` fills in.

        They are as wide as those of `PolyODETransformer.interpolate_interval`. Only a trained
        transformer has them.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series, as in `transform`.
        coverage : float, default=0.9
            Probability of the interval, between 0 and 1.

        Returns
        -------
        tuple of two Panels or of two float64 ndarrays
            Lower and upper ends of what would have been observed, within the limits of channels
            (see `Panel.with_limits`), each like what `transform` returns. At an observation both
            are the observation.
        """
        check_is_fitted(self)

        def ends(path: Panel, panel: Panel, times: Any = None) -> tuple[Panel, Panel]:
            return self.transformer_.interval_around(path, panel, times, coverage)

        lower, upper = self._filled(X, ends)
        return lower, upper

    def _filled(self, X: Any, around: Callable[..., Sequence[Panel]]) -> list[Any]:
        """Panels that `around` makes from the path, with observed cells restored, in the form of X.

        `around` is called with the path, the series and, for a table or an array, the query times.
        """
        panel = read_panel(self, X, reset=False)
        if is_ragged(X):
            results = []
            path = self._refined(self.transformer_.interpolate(panel), panel, slice(None))
            for filled in around(path, panel):
                values = _with_observed(filled.values, panel, slice(None))
                rows = filled.like(filled.times, values, filled.offsets).rows
                rows = replace(rows, beside=panel.rows.beside)  # errors of the observations
                results.append(Panel.from_rows(rows, checked=filled.is_checked))
            return results
        # The rows of a table are whole series; series of a 3-D array may end in padding.
        shape = shape_of(X)
        shape = shape if len(shape) == 3 else (panel.n_series, panel.lengths[0])
        first = panel.times[0]  # not 0 where the columns of a frame are called 1, 2, ...
        rows = series_of_rows(panel) * shape[1] + (panel.times - first).astype(np.int64)
        asked = panel, first + np.arange(shape[1])
        found = around(self._refined(self.transformer_.interpolate(*asked), panel, rows), *asked)
        return [_with_observed(each.values, panel, rows).reshape(shape) for each in found]

    @available_if(_returns_tables)
    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the time points of two-dimensional input, as in the input.

        Parameters
        ----------
        input_features : None or array-like of str, default=None
            Must agree with the names of `fit`.

        Returns
        -------
        object ndarray of shape (n_times,)
        """
        check_is_fitted(self)
        return _check_feature_names_in(self, input_features)


def _with_observed(values: np.ndarray, panel: Panel, rows: Any) -> np.ndarray:
    """Copy of values (Q, D) in which `rows` have the observations of the rows of a panel.

    Most paths pass through the observations anyway; that of a filter does not.
    """
    result = values.copy()  # the values of a panel are read-only
    result[rows] = np.where(np.isnan(panel.values), result[rows], panel.values)
    return result
