"""Transformers that wrap one with `interpolate`: they impute, or resample, along its paths.

The imputer corrects paths in gaps. The corrections are learned from neighbouring observations and
from other channels of a row.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
from sklearn.base import TransformerMixin, clone
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from skpolyode.embedders import ChannelScaler
from skpolyode.errors import naming_owner, plain_repr
from skpolyode.panel import Panel, is_ragged
from skpolyode.panel.cells import Times
from skpolyode.panel.convert import shape_of
from skpolyode.panel.panel import stored
from skpolyode.panel.query import read_duration, read_leads, times_since
from skpolyode.panel.select import (
    ENOUGH_ROWS,
    drop_empty,
    hide_cells,
    observed_series,
    series_chunks,
    series_of_rows,
)
from skpolyode.panel.selection import refuse_reordered
from skpolyode.panel.units import credible_part
from skpolyode.saving.codec import saved
from skpolyode.saving.objects import register_estimator
from skpolyode.transformers.base import (
    COUNT,
    DURATION,
    Duration,
    SeriesEstimator,
    SeriesTransformer,
)
from skpolyode.transformers.input import align_to_frozen, one_each, read_panel, unchanged_by_errors
from skpolyode.transformers.neural import NeuralTransformer
from skpolyode.transformers.polyode import PolyODETransformer

_FAR = 1e6  # distance of a missing neighbour, in typical gaps
_N_SAME = 9  # features from the same channel
_MOST_CELLS = 2_000_000  # corrected at once
_STRENGTHS = np.logspace(-4, 4, 9)  # penalties of the ridge regression


class PathTransformer(TransformerMixin, SeriesEstimator):
    """Base of transformers that wrap one with `interpolate`.

    Parameters
    ----------
    transformer : transformer with `interpolate` or None, default=None
        None: a `PolyODETransformer` with its defaults.
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "transformer": [HasMethods(["fit", "interpolate"]), None],
    }
    transformer_: SeriesTransformer

    def __init__(self, transformer: SeriesTransformer | None = None) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Fit the transformer.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series; see :func:`skpolyode.panel.as_panel` for every accepted format.
        y : array-like or None, default=None
            Ignored, unless its index holds the ids of the series in another order.
        groups : array-like of shape (n_series,) or None, default=None
            Labels of series that a transformer with training holds out together.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or a series is not valid; all faults of the series are listed at once. An
            error leaves the result of an earlier fit unchanged.
        """
        self._validate_params()
        with unchanged_by_errors(self), naming_owner(self):
            panel = read_panel(self, X, reset=True)
            refuse_reordered(y, panel, "y")
            model = PolyODETransformer() if self.transformer is None else clone(self.transformer)
            options = {}
            if groups is not None and isinstance(model, NeuralTransformer):
                options["groups"] = one_each(groups, panel, "groups")[observed_series(panel)]
            panel = drop_empty(align_to_frozen(self, panel, self.transformer))
            self._prepare(panel)
            self.transformer_ = model.fit(panel, None, **options)  # a FrozenEstimator requires a y
            panel = drop_empty(credible_part(panel, self.scaler_.limits))
            self._prepare(panel)
            self._complete(panel)
        return self

    def _prepare(self, panel: Panel) -> None:
        """Set what is needed before the transformer is fitted, from a checked panel."""

    def _complete(self, panel: Panel) -> None:
        """Learn what needs the fitted transformer, from a checked panel."""

    @abstractmethod
    def transform(self, X: Any) -> Panel | np.ndarray:
        """Values of the paths of series."""

    scaler_: ChannelScaler = stored("transformer_.scaler_", "Mean and scale of each channel.")


def _returns_tables(imputer: PanelImputer) -> bool:
    shape = getattr(imputer, "array_shape_", ())
    return shape is not None and len(shape) < 2


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
        of its cells were hidden. In series that never observe a channel, another regression fills
        it from the paths of the other channels: their levels and slopes. `fit` learns it where the
        channel is observed, and hides whole channels to learn the weight of the path beside it.
        "auto": if the transformer is trained.

    Attributes
    ----------
    transformer_ : transformer
        The fitted clone.
    refinement_ : Refinement or None
        The regressions; their `coefficients` are 0 for channels that are not corrected, and
        `unseen` is 0 for channels that keep their path where they are never observed. None if there
        are none.
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
    series never observes gets what the model expects, starting from its mean, or what a regression
    predicts from the other channels (see `refine`).

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
            known = panel.like(panel.times, panel.values, panel.offsets).since_start()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # `fit` has warned about these series
                self.refinement_ = learn_refinement(
                    known, lambda x: model.path(x).value(limited=False).values
                )

    def _refined(self, path: Panel, panel: Panel, rows: Any) -> Panel:
        """The path, corrected between the first and the last row of each series.

        `rows` are the positions of the rows of `panel` among those of the path.
        """
        if self.refinement_ is None:
            return path
        values = np.full(path.values.shape, np.nan)
        values[rows] = panel.values
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
            An array of an array, a table of two axes after `set_output`, too; else a Panel with the
            times of the series, which `set_output` does not change (see `Panel.to_long`).
        """
        (filled,) = self._filled(X)
        return filled

    def interval(
        self, X: Any, coverage: float = 0.9
    ) -> tuple[Panel, Panel] | tuple[np.ndarray, np.ndarray]:
        """Calibrated intervals around the values that `transform` fills in.

        They are as wide as those of the path of the transformer.

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
        lower, upper = self._filled(X, coverage)
        return lower, upper

    def _filled(self, X: Any, coverage: float | None = None) -> list[Any]:
        """Refined path, or the ends of its interval, with observed cells restored, like X."""
        panel, rows, times = read_panel(self, X, reset=False), slice(None), None
        if not is_ragged(X):  # rows of a table are whole series; those of an array may be padded
            shape = shape_of(X)
            shape = shape if len(shape) == 3 else (panel.n_series, panel.lengths[0])
            first = panel.times[0]  # not 0 where the columns of a frame are called 1, 2, ...
            rows = series_of_rows(panel) * shape[1] + (panel.times - first).astype(np.int64)
            times = first + np.arange(shape[1])
        path = self.transformer_.path(panel)
        values = self._refined(path.value(times, limited=False), panel, rows)
        ends = path.interval(times, coverage, around=values) if coverage is not None else [values]
        found = [self._completed(each, panel, rows) for each in ends]
        if times is not None:
            return [each.reshape(shape) for each in found]
        panels = [values.like(values.times, each, values.offsets) for each in found]
        kept = (replace(each.rows, beside=panel.rows.beside) for each in panels)  # such as errors
        return [Panel.from_rows(each, checked=values.is_checked) for each in kept]

    def _completed(self, filled: Panel, panel: Panel, rows: Any) -> np.ndarray:
        """Values (Q, D) within limits, in which `rows` have the observations of a panel.

        Most paths pass through the observations anyway; that of a filter does not.
        """
        result = self.scaler_.within_limits(filled.values, panel, filled.offsets)
        result[rows] = np.where(np.isnan(panel.values), result[rows], panel.values)
        return result

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


class HiddenCells(NamedTuple):
    """Settings: the cells to train the regressions on, and their features.

    The regressions multiply errors in hidden cells of wards, storms and a physiological model by
    0.74, 0.59 and 0.99, and of three folds of patients with liver disease by 1.03, 0.98 and 0.93.
    Those for channels that a series never observes multiply root mean squared errors there by 0.54
    (storms), 0.84 (two sets of patients) and 0.38 (pigs).

    Parameters
    ----------
    n_parts : int, default=5
        Number of random parts of the observed cells. The cells of a part are hidden together.
    n_hidden : int, default=3
        Parts that are hidden, one after the other: each costs a path through all series.
    most_rows, most_cells : int, default=20_000 and 1_000_000
        Most rows and cells of the series that are drawn.
    fewest : int, default=50
        A channel with fewer hidden cells is not corrected.
    better : float, default=0.98
        A channel is only corrected if the ratio of the cross-validated squared error to that of the
        path is at most this.
    most_others : int, default=30
        Most features of other channels in a regression; those most correlated with the target.
    """

    n_parts: int = 5
    n_hidden: int = 3
    most_rows: int = ENOUGH_ROWS
    most_cells: int = 1_000_000
    fewest: int = 50
    better: float = 0.98
    most_others: int = 30


SETTINGS = HiddenCells()


@saved(mean="D", scale="D positive", gap="positive", coefficients="D F", unseen="D G")
class Refinement(NamedTuple):
    """Ridge regressions of the errors of a path, one for each channel.

    Others replace the path of a channel in series that never observe it.
    """

    mean: np.ndarray  # (D,), of values
    scale: np.ndarray  # (D,), standard deviations of values
    gap: float  # typical gap, in the units of the times
    coefficients: np.ndarray  # (D, F); 0 for channels that are not corrected
    unseen: np.ndarray  # (D, G), where a channel is never observed; 0: the path stays

    def correction(self, panel: Panel, path: np.ndarray) -> np.ndarray:
        """Corrections (n, D), to add to the path (n, D) at the rows of a panel."""
        result = np.zeros(path.shape)
        n_rows = max(_MOST_CELLS // path.shape[1], 1)  # bounds memory
        for part in series_chunks(panel.lengths, n_rows):
            rows = slice(panel.offsets[part.start], panel.offsets[part.stop])
            features = _Features(panel[part], path[rows], self.mean, self.scale, self.gap)
            for j in np.flatnonzero(self.coefficients.any(axis=1)):
                result[rows, j] = features.of(j) @ self.coefficients[j]
            for j in np.flatnonzero(self.unseen.any(axis=1) & features.unseen.any(axis=0)):
                instead = features.of_others(j) @ self.unseen[j] - features.levels[:, j]
                result[rows, j] = np.where(features.unseen[:, j], instead, result[rows, j])
        return result * self.scale


def learn_refinement(panel: Panel, path: Callable[[Panel], np.ndarray]) -> Refinement:
    """Hide observed cells of a sample of series, and regress the errors of the path there.

    `path` returns values (n, D) of the path through the observations of a panel, at its rows. The
    random seed is fixed.
    """
    rng = np.random.default_rng(0)
    drawn = rng.permutation(panel.n_series)
    most_rows = min(SETTINGS.most_rows, SETTINGS.most_cells // panel.n_channels)
    drawn = drawn[np.cumsum(panel.lengths[drawn]) <= most_rows]
    panel = panel[np.sort(drawn)] if len(drawn) else panel[:1]
    mean, scale, *_ = ChannelScaler.of(panel.values)
    inner = np.delete(np.diff(panel.times), panel.offsets[1:-1] - 1)
    gap = float(np.median(inner)) if len(inner) else 1.0
    part = rng.integers(SETTINGS.n_parts, size=panel.values.shape)
    part[panel.offsets[:-1]] = part[panel.offsets[1:] - 1] = -1  # never hidden: only gaps matter
    known, series, parts = ~np.isnan(panel.values), series_of_rows(panel), []
    # Also hide a whole channel of each series that observes several.
    seen = np.logical_or.reduceat(known, panel.offsets[:-1])
    lots = np.where(seen & (seen.sum(axis=1) > 1)[:, None], rng.random(seen.shape), -1.0)
    gone = known & (lots == lots.max(axis=1, keepdims=True).clip(0))[series]
    for hidden in (*(known & (part == k) for k in range(SETTINGS.n_hidden)), gone):
        holed = hide_cells(panel, hidden)
        features = _Features(holed, path(holed), mean, scale, gap)
        parts.append((features, (panel.values - features.path) / scale, hidden))
    without, *_ = parts.pop()
    weights, unseen = [], []
    for j in range(panel.n_channels):
        cells = [(features, off, hidden[:, j]) for features, off, hidden in parts]
        columns = [(features.of(j)[at], off[at, j], series[at]) for features, off, at in cells]
        design, target, groups = map(np.concatenate, zip(*columns, strict=True))
        weights.append(_weights(design, target, groups))
        # What does not need the channel is learned from all its cells, hidden or not.
        level, at = (panel.values[:, j] - mean[j]) / scale[j], known[:, j]
        own = _weights(parts[0][0].of_others(j)[at, 1:], level[at], series[at], n_kept=1)
        # The path gets the share that is best where whole channels are hidden.
        at, design = gone[:, j], without.of_others(j)
        path_off, off = (x[at] - design[at, 1:] @ own for x in (design[:, 0], level))
        share = np.linalg.lstsq(path_off[:, None], off, rcond=None)[0].clip(0, 1)
        unseen.append(np.r_[share, (1 - share) * own] * own.any())
    return Refinement(mean, scale, gap, np.stack(weights), np.stack(unseen))


def _weights(
    design: np.ndarray, target: np.ndarray, groups: np.ndarray, n_kept: int = _N_SAME
) -> np.ndarray:
    """Weights (F,) of a channel; all are 0 if the regression is no better than 0.

    Of the features after the first `n_kept`, only the most correlated ones are read.
    """
    nothing = np.zeros(design.shape[1])
    if len(target) < SETTINGS.fewest or len(np.unique(groups)) < SETTINGS.n_parts:
        return nothing
    relevance = np.abs(target @ design[:, n_kept:])
    read = np.r_[:n_kept, n_kept + np.argsort(-relevance, kind="stable")[: SETTINGS.most_others]]
    design, ridge = design[:, read], RidgeCV(_STRENGTHS, fit_intercept=False)
    folds = GroupKFold(SETTINGS.n_parts)
    found = cross_val_predict(ridge, design, target, groups=groups, cv=folds)
    if np.mean((target - found) ** 2) <= SETTINGS.better * np.mean(target**2):
        nothing[read] = ridge.fit(design, target).coef_
    return nothing


class _Features:
    """Features of each cell, without its own value, in standard deviations of the channel."""

    def __init__(
        self, panel: Panel, path: np.ndarray, mean: np.ndarray, scale: np.ndarray, gap: float
    ) -> None:
        self.panel, self.path, self.scale, self.gap = panel, path, scale, gap
        self.series, self.levels = series_of_rows(panel), np.nan_to_num((path - mean) / scale)
        rows, ends, times = np.arange(len(path)), panel.offsets, panel.times
        last = np.maximum(rows - 1, ends[self.series])
        following = np.minimum(rows + 1, ends[self.series + 1] - 1)
        steps = np.maximum((times[following] - times[last]) / gap, 1)  # bounds slopes
        self.slopes = (self.levels[following] - self.levels[last]) / steps[:, None]
        self.unseen = np.empty(path.shape, dtype=bool)  # no other cell of the series is observed
        # Deviations of observed cells from their line, and from the mean of the channel's others.
        self.lines, self.off = np.empty(path.shape), np.empty((2, *path.shape))
        for j, column in enumerate(panel.values.T):
            *around, mean = self._around(j)
            self.unseen[:, j] = np.isnan(mean)
            line = self._line(*around, mean)
            self.lines[:, j] = np.where(np.isnan(line), path[:, j], line)
            self.off[:, :, j] = np.stack([column - self.lines[:, j], column - mean]) / scale[j]
        self.off = np.nan_to_num(self.off)

    def of(self, j: int) -> np.ndarray:
        """Features (n, _N_SAME + 2 (D - 1)): neighbours, mean and line, then the other channels."""
        values, distances, mean = self._around(j)
        at = self.path[:, j]
        near = 1 / (1 + distances[:, [0, 2]] / self.gap)
        near = np.column_stack([near, near.prod(axis=1), np.ones(len(at))])
        same = [values - at[:, None], (mean - at)[:, None] * near, self.lines[:, j] - at]
        others = np.hstack([*np.delete(self.off, j, axis=2)])
        return np.hstack([np.nan_to_num(np.column_stack(same) / self.scale[j]), others])

    def of_others(self, j: int) -> np.ndarray:
        """Features (n, 2 + 3 (D - 1)) that do not need the channel: its path, 1, other paths.

        Of the other paths there are levels, their parts above the mean, and slopes.
        """
        own, levels = self.levels[:, [j]], np.delete(self.levels, j, axis=1)
        slopes = np.delete(self.slopes, j, axis=1)
        return np.hstack([own, np.ones_like(own), levels, levels.clip(0), slopes])

    def _around(self, j: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Two observations before and two after (n, 4), their distances, the mean of the others."""
        column, series = self.panel.values[:, j], self.series
        seen = ~np.isnan(column)
        rows = np.flatnonzero(seen)
        if not len(rows):
            nothing = np.full((len(column), 4), np.nan)
            return nothing, np.full((len(column), 4), _FAR * self.gap), nothing[:, 0]
        before = np.searchsorted(rows, np.arange(len(column)))
        places = np.stack([before - 1, before - 2, before + seen, before + seen + 1], axis=1)
        near = rows[places.clip(0, len(rows) - 1)]
        there = (places >= 0) & (places < len(rows)) & (series[near] == series[:, None])
        distances = np.abs(self.panel.times[near] - self.panel.times[:, None])
        sums = np.bincount(series[rows], column[rows], self.panel.n_series)
        counts = np.bincount(series[rows], minlength=self.panel.n_series)[series] - seen
        with np.errstate(invalid="ignore"):  # a series that never observes the channel
            mean = (sums[series] - np.where(seen, column, 0.0)) / counts
        return (
            np.where(there, column[near], np.nan),
            np.where(there, distances, _FAR * self.gap),
            mean,
        )

    @staticmethod
    def _line(values: np.ndarray, distances: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Straight line (n,) between both neighbours, else the only neighbour, else the mean."""
        first, last = values[:, 0], values[:, 2]
        share = distances[:, 2] / (distances[:, 0] + distances[:, 2])
        line = share * first + (1 - share) * last
        for other in (first, last, mean):
            line = np.where(np.isnan(line), other, line)
        return line


_N_POINTS = 100  # by default
_MOST_POINTS = 10_000_000


@register_estimator
class Resampler(PathTransformer):
    """Put ragged, irregular, partly observed series on one regular grid, along their paths.

    The result has no gaps, one length, and the axes of sktime and aeon: series, channel, time.
    ``make_pipeline(Resampler(), heads.MiniRocket(), RidgeClassifierCV())`` and any other method for
    regular series then runs on irregular ones.

    Use it if the target depends on the shape of the series. The grid should be about as fine as the
    signal: a point for each typical gap between observations, or a few.

    Parameters
    ----------
    transformer : transformer with `interpolate` or None, default=None
        Transformer that follows the path through each series; `fit` fits a clone of it. Set its
        parameters as ``transformer__<name>``. None: a `PolyODETransformer` with its defaults.
    n_points : int or None, default=None
        Number of points, spread evenly over the longest series of `fit`. Give at most one of
        `n_points`, `every` and `grid`; without any of them there are 100 points.
    every : float, timedelta, str or None, default=None
        Time between two points, over the longest series of `fit`: in the units of `times` or, for
        datetimes, a duration such as "1h".
    grid : array-like of shape (n_points,) or None, default=None
        The points themselves, in increasing order and in the units of `times`: relative to the
        start or end of each series (for datetimes also timedeltas, or text such as "90min") or,
        with ``relative_to=None``, absolute times, also datetimes.
    relative_to : {"start", "end"} or None, default="start"
        "start": the grid starts at each series' first observation. "end": it ends at the last one.
        None: the grid has absolute times, the same for all series, from the earliest to the latest
        observation of `fit`.

    Attributes
    ----------
    grid_ : float64 ndarray, DatetimeIndex or TimedeltaIndex of shape (n_points,)
        The points: absolute, in the type of the times of `fit`, or relative to the start or the end
        of each series, for datetimes as durations.
    transformer_ : transformer
        The fitted clone.
    n_features_in_ : int
        Number of channels, or of time points if fitted on a 2-D array.
    n_channels_in_ : int
        Number of channels.

    See Also
    --------
    PanelImputer : Fills gaps, and leaves times as they are.

    Notes
    -----
    Points before the first observation of a series get the value with which its path begins. Points
    after its last one get its forecast, which in a `PolyODETransformer` is constant after 20 times
    its `context_`.

    Examples
    --------
    >>> from skpolyode import InterpolationTransformer, Resampler
    >>> series = [([0.0, 1.0, 4.0], [0.0, 2.0, 5.0]), ([10.0, 12.0], [1.0, 3.0])]
    >>> Resampler(InterpolationTransformer(), every=1.0).fit_transform(series)
    array([[[0., 2., 3., 4., 5.]],
    <BLANKLINE>
           [[1., 2., 3., 3., 3.]]])
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **PathTransformer._parameter_constraints,
        "n_points": [COUNT, None],
        "every": [*DURATION, None],
        "grid": ["array-like", None],
        "relative_to": [StrOptions({"start", "end"}), None],
    }

    def __init__(
        self,
        transformer: SeriesTransformer | None = None,
        *,
        n_points: int | None = None,
        every: Duration | None = None,
        grid: Any = None,
        relative_to: str | None = "start",
    ) -> None:
        super().__init__(transformer)
        self.n_points = n_points
        self.every = every
        self.grid = grid
        self.relative_to = relative_to

    def _prepare(self, panel: Panel) -> None:
        names = ("n_points", "every", "grid")
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(
                f"{' and '.join(given)} each define the grid: give one, and None for the rest."
            )
        # On the user's clock, like an absolute grid.
        panel = panel.like(panel.times, panel.values, panel.offsets)
        start, end = panel.start, panel.end
        longest = float((end - start).max())
        spans = {"start": (0.0, longest), "end": (-longest, 0.0)}
        low, high = spans.get(self.relative_to, (float(start.min()), float(end.max())))
        every = np.inf
        if self.every is not None:
            every = read_duration("every", self.every, panel.time_unit)
        n_steps = (high - low) / every * (1 + 1e-9)
        if max(n_steps, self.n_points or 0) > _MOST_POINTS:
            which = f"every={self.every}" if every < np.inf else f"n_points={self.n_points}"
            raise ValueError(
                f"{which} makes more than {_MOST_POINTS} points of each series; the longest one "
                f"covers {longest:g}."
            )
        if self.grid is not None:
            if self.relative_to is None:
                grid = times_since(panel[:1], self.grid, None, "grid")[0]
            else:
                grid = read_leads(self.grid, panel.time_unit, "grid").counts
            if not (np.diff(grid) > 0).all():
                raise ValueError(f"grid must be times that rise, got {plain_repr(self.grid)}.")
            self._grid = grid
        elif every < np.inf:
            steps = every * np.arange(int(n_steps) + 1)
            self._grid = high - steps[::-1] if self.relative_to == "end" else low + steps
        else:
            self._grid = np.linspace(low, high, self.n_points or _N_POINTS)

    @property
    def grid_(self) -> np.ndarray | pd.DatetimeIndex | pd.TimedeltaIndex:
        """The points, in the type of the times of `fit`; relative ones as durations."""
        moments = Times(self._grid, self.time_unit_, self.tz_).to_user()
        is_duration = self.time_unit_ is not None and self.relative_to is not None
        return moments - pd.Timestamp(0, tz=self.tz_) if is_duration else moments

    def set_output(self, *, transform: str | None = None) -> Self:
        """Refuse tables: an array of three axes is none.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            "default" and None change nothing.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If tables are asked for.
        """
        if transform not in (None, "default"):
            raise ValueError(
                "Resampler returns an array (series, channel, point), which no table of "
                f"{transform} can hold: in a pipeline, call set_output of the steps after it."
            )
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Resample series on the grid.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series, with the channels of `fit`.

        Returns
        -------
        float64 ndarray of shape (n_series, n_channels, n_points)
            Values in the units of the channels.
        """
        path, grid = self.transformer_.path(read_panel(self, X, reset=False)), self._grid
        panel, n_points = path.panel, len(grid)
        if self.relative_to is None:
            grid = panel.rows.times._replace(counts=grid, ticks=None).to_user()
        found = path.value(grid, self.relative_to)
        values = np.full((panel.n_series, panel.n_channels, n_points), np.nan)
        at = found.values.reshape(-1, n_points, panel.n_channels)  # without series without rows
        values[found.lengths > 0] = at.transpose(0, 2, 1)
        return values
