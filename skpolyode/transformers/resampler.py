"""Irregular series on a regular grid."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from skpolyode.panel import Panel, query_times
from skpolyode.panel.query import edge, read_duration, read_leads, times_since
from skpolyode.panel.select import fill_values, observed_part
from skpolyode.saving.objects import register_estimator
from skpolyode.transformers.base import COUNT, DURATION, Duration, SeriesTransformer
from skpolyode.transformers.imputer import PathTransformer
from skpolyode.transformers.input import read_panel

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
    grid_ : float64 ndarray of shape (n_points,)
        The points, relative to the start or the end of each series, or absolute, in the units of
        `times`.
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
                raise ValueError(f"grid must be times that rise, got {self.grid!r}.")
            self.grid_ = grid
        elif every < np.inf:
            steps = every * np.arange(int(n_steps) + 1)
            self.grid_ = high - steps[::-1] if self.relative_to == "end" else low + steps
        else:
            self.grid_ = np.linspace(low, high, self.n_points or _N_POINTS)

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
        panel = read_panel(self, X, reset=False)
        if self.relative_to is None:
            grid = panel.rows.times._replace(counts=self.grid_, ticks=None)
            times, offsets = query_times(panel, grid.to_user())
        else:
            seen = observed_part(panel)
            origin = edge(self.relative_to, seen.start, seen.end)
            times = (origin[:, None] + self.grid_).ravel()
            offsets = np.arange(panel.n_series + 1) * len(self.grid_)
        found = fill_values(panel, times, offsets, self.transformer_.embedder_.path_values)
        values = found.reshape(panel.n_series, len(self.grid_), panel.n_channels)
        return np.ascontiguousarray(values.transpose(0, 2, 1))
