"""Random missingness: hide a known part of a panel to score reconstructions against it."""

from __future__ import annotations

import numbers

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from skpolyode.panel import Panel, as_panel
from skpolyode.panel.select import hide_cells, keep_rows, series_of_rows


def drop_cells(
    panel: Panel,
    fraction: float,
    random_state: int | np.random.RandomState | None = None,
    *,
    min_observed: int = 1,
) -> tuple[Panel, Panel]:
    """Hide single observed cells (one channel at one time) at random.

    Every observed cell is dropped with probability `fraction`, independently of its value
    ("missing completely at random"). With the same int `random_state` the cells dropped at a
    smaller fraction are among those dropped at a larger one, so that curves over `fraction` are
    smooth.

    Parameters
    ----------
    panel : Panel
        The data; not modified.
    fraction : float
        Probability in [0, 1] that an observed cell is dropped.
    random_state : int, RandomState instance or None, default=None
        Pass an int for reproducible choices.
    min_observed : int, default=1
        Number of observed cells that every series keeps; a series that has fewer loses none.
        Raise it if a model needs more than one observation.

    Returns
    -------
    kept : Panel
        The same rows with the dropped cells not observed.
    dropped : Panel
        The same rows with only the dropped cells observed. A series without dropped cells has no
        observed cell here.

    Raises
    ------
    ValueError
        If `fraction` is not in [0, 1] or `min_observed` is not a positive integer.

    See Also
    --------
    drop_times : Hide whole rows.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.datasets import drop_cells, make_lorenz63
    >>> panel = make_lorenz63(10, random_state=0).panel
    >>> kept, dropped = drop_cells(panel, 0.5, random_state=0)
    >>> bool(np.all(np.isnan(kept.values) | np.isnan(dropped.values)))
    True
    """
    panel = as_panel(panel, name="panel")
    observed = ~np.isnan(panel.values)
    row, channel = np.nonzero(observed)
    drop = np.zeros_like(observed)
    drop[row, channel] = _choose(series_of_rows(panel)[row], fraction, min_observed, random_state)
    return hide_cells(panel, drop), hide_cells(panel, ~drop)


def drop_times(
    panel: Panel,
    fraction: float,
    random_state: int | np.random.RandomState | None = None,
    *,
    min_observed: int = 1,
) -> tuple[Panel, Panel]:
    """Hide whole rows (all channels at one time) at random.

    Every row that holds an observation is dropped with probability `fraction`; with the same int
    `random_state` the rows dropped at a smaller fraction are among those dropped at a larger one.

    Parameters
    ----------
    panel : Panel
        The data; not modified.
    fraction : float
        Probability in [0, 1] that a row is dropped.
    random_state : int, RandomState instance or None, default=None
        Pass an int for reproducible choices.
    min_observed : int, default=1
        Number of rows with an observation that every series keeps; a series that has fewer loses
        none.

    Returns
    -------
    kept : Panel
        The rows that remain: the series are shorter.
    dropped : Panel
        The rows that were dropped. A series without dropped rows has no rows here.

    Raises
    ------
    ValueError
        If `fraction` is not in [0, 1] or `min_observed` is not a positive integer.

    See Also
    --------
    drop_cells : Hide single cells.

    Examples
    --------
    >>> from skpolyode.datasets import drop_times, make_lorenz63
    >>> panel = make_lorenz63(10, random_state=0).panel
    >>> kept, dropped = drop_times(panel, 0.5, random_state=0)
    >>> kept.n_observations + dropped.n_observations == panel.n_observations
    True
    """
    panel = as_panel(panel, name="panel")
    rows = np.flatnonzero(panel.rows.observed)
    drop = np.zeros(panel.n_observations, dtype=bool)
    drop[rows] = _choose(series_of_rows(panel)[rows], fraction, min_observed, random_state)
    return keep_rows(panel, ~drop), keep_rows(panel, drop)


def _choose(
    series: np.ndarray,
    fraction: float,
    min_observed: int,
    random_state: int | np.random.RandomState | None,
) -> np.ndarray:
    """Mask of the dropped items; `series` (ascending) is the series of each item."""
    if not isinstance(fraction, numbers.Real) or not 0 <= fraction <= 1:
        raise ValueError(f"fraction must be in [0, 1], got {fraction!r}.")
    if not isinstance(min_observed, numbers.Integral) or min_observed < 1:
        raise ValueError(
            f"min_observed must be an integer of at least 1, got {min_observed!r}: a series "
            "needs at least one observation."
        )
    chance = check_random_state(random_state).random_sample(len(series))
    # The items with the highest random numbers are kept at any fraction.
    rank = pd.Series(chance).groupby(series).rank(ascending=False, method="first").to_numpy()
    return (chance < fraction) & (rank > min_observed)
