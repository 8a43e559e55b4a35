"""Forecast errors of each channel, to find a broken sensor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.panel import Panel, as_panel
from skpolyode.panel.select import hide_cells, series_of_rows
from skpolyode.panel.selection import align_to_fit
from skpolyode.plotting.channels import require


def channel_errors(transformer: Any, X: Any) -> pd.DataFrame:
    """One-step forecast errors of each channel, and those of the others with it hidden.

    A faulty channel also spoils the forecasts of the others, which depend on it: its errors need
    not be the largest. So each channel is hidden in turn. If the errors of the others then become
    much smaller, the channel misled the model.

    Parameters
    ----------
    transformer : fitted transformer with a method `residuals`
        It computes residuals once per channel, and once more.
    X : Panel, list of (times, values), list of DataFrames, or array
        The series; use many, so that medians over series are reliable.

    Returns
    -------
    DataFrame
        A row for each series and channel: `series`, its position in X; its `id`; the `channel`;
        `error`, the root mean square of its one-step errors; `usual`, the median of `error` over
        all series; `others`, the root mean square over all other channels; `others_without`, the
        same with this channel hidden; all in standard deviations of the channels. `repeats` is the
        share of readings that equal the previous one. NaN where there is nothing to compare.

    Raises
    ------
    TypeError
        If the transformer gives no residuals.

    See Also
    --------
    observation_importance : How much outputs change without a channel.

    Examples
    --------
    >>> from skpolyode import PolyODETransformer
    >>> from skpolyode.datasets import make_lorenz63
    >>> from skpolyode.inspection import channel_errors
    >>> panel = make_lorenz63(6, random_state=0).panel
    >>> model = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0).fit(panel)
    >>> table = channel_errors(model, panel)
    >>> len(table), table.columns[-3:].tolist()
    (12, ['others', 'others_without', 'repeats'])
    """
    require(transformer, "residuals", "channel_errors")
    panel = align_to_fit(as_panel(X), transformer)
    whole, columns = _squares(transformer, panel), []
    with np.errstate(invalid="ignore"):  # 0 / 0 where nothing is forecast
        error = np.sqrt(whole[0] / whole[1])
        for j in range(panel.n_channels):
            parts = (*whole, *_squares(transformer, panel, j))
            others, n, without, m = (np.delete(part, j, axis=1).sum(axis=1) for part in parts)
            columns.append((np.sqrt(others / n), np.sqrt(without / m)))
        # Shares (B, D) of readings that equal the previous one of the channel.
        series, values = series_of_rows(panel), pd.DataFrame(panel.values)
        before = values.groupby(series).ffill().groupby(series).shift()
        same, pairs = (values == before).to_numpy(), (values.notna() & before.notna()).to_numpy()
        repeats = _sums(panel, same) / _sums(panel, pairs)
    beside = np.array(columns).transpose(1, 2, 0)  # (2, B, D)
    return pd.DataFrame(
        {
            "series": np.repeat(np.arange(panel.n_series), panel.n_channels),
            "id": pd.Index(panel.ids, tupleize_cols=False).repeat(panel.n_channels),
            "channel": np.tile(panel.channel_names, panel.n_series),
            "error": error.ravel(),
            "usual": np.tile(pd.DataFrame(error).median(), panel.n_series),
            "others": beside[0].ravel(),
            "others_without": beside[1].ravel(),
            "repeats": repeats.ravel(),
        }
    )


def _squares(
    transformer: Any, panel: Panel, hidden: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Sums (B, D) of squared standardised errors, and their counts, with one channel hidden."""
    rows = hide_cells(panel, np.arange(panel.n_channels) == hidden).rows
    left = Panel.from_rows(replace(rows, keeps_empty=True), checked=False)
    errors = transformer.residuals(left).values / transformer.scaler_.scale
    return _sums(panel, errors**2), _sums(panel, ~np.isnan(errors))


def _sums(panel: Panel, cells: np.ndarray) -> np.ndarray:
    """Sums (B, D) of cells over the rows of each series; NaN counts as zero."""
    sums = np.zeros((panel.n_series, panel.n_channels))
    np.add.at(sums, series_of_rows(panel), np.nan_to_num(cells))
    return sums
