"""Whether observations are noisy: if a filter of them forecasts and fills in better."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from skpolyode.embedders.model import ModelEmbedder
from skpolyode.embedders.smoother import hide_rows
from skpolyode.models.gain import Gain
from skpolyode.panel import Panel
from skpolyode.panel.select import first_series

__all__ = ["FilterSelectionSettings", "GainSelection", "select_gain"]


@dataclass(frozen=True)
class FilterSelectionSettings:
    """What decides whether a model becomes a filter. Errors are sums of squares."""

    gains: tuple[float, ...] = (0.85, 0.93, 0.7, 0.5)
    """Kalman gains to compare, after one unit of time. If the first helps no channel, none is."""

    exact_gain: float = 0.97
    """Gain of a channel that is best left as it is, beside another one that is filtered."""

    max_fill_error: float = 0.98
    """Error of filling in hidden rows, at most, as a share of that without a filter."""

    max_forecast_error: float = 1.01
    """The same of one-step forecasts: they hardly change if the dynamics filter already."""

    n_standard_errors: float = 3.0
    """Standard errors that what filling in gains has to be away from nothing."""

    n_rows: int = 10_000
    """Rows to judge by, at most: those of the first series. Fewer of more than ten channels."""


SETTINGS = FilterSelectionSettings()


class GainSelection(NamedTuple):
    """What came out of the comparison, and the errors beside those without a filter."""

    gain: Gain | None  # None if no filter does better
    gap_filling: float  # of the first gain, in the channel that it helps most, if none does
    forecasts: float = float("nan")  # one step ahead; NaN if the first gain did not do better


def select_gain(embedder: ModelEmbedder, panel: Panel) -> GainSelection:
    """Find the gain with which a model that was trained without one does better, if any.

    Without noise nothing is nearer to the signal than its observations. With noise the dynamics
    may have learned to forecast from several observations at once, so that forecasts alone hardly
    tell; but paths through single ones are still wrong. So every fourth row is hidden, and filled
    in from the others: that has to become better, and the next observation must not be forecast
    worse. Where sampling is too sparse for the dynamics, one or the other says no.

    Parameters
    ----------
    embedder : ModelEmbedder
        Of a `PolyODE` without a gain.
    panel : Panel
        Series without rows that hold no observation; if they are many, the first ones count.

    Examples
    --------
    A field that stands still is right for constants, of which every observation is as good:

    >>> import numpy as np
    >>> from skpolyode import Panel, PolyODETransformer
    >>> from skpolyode.embedders.filter_selection import select_gain
    >>> noise, times = np.random.default_rng(0).normal(size=(20, 30)), np.arange(30.0)
    >>> panel = Panel.from_series([(times, x) for x in noise])
    >>> settings = {"observations": "exact", "max_epochs": 1, "learning_rate_init": 1e-9}
    >>> untrained = PolyODETransformer(random_state=0, **settings).fit(panel).embedder_
    >>> select_gain(untrained, panel).gain is None
    False
    >>> walks = Panel.from_series([(times, x.cumsum()) for x in noise])
    >>> select_gain(untrained, walks).gain is None
    True
    """
    panel, model = _sample(panel), replace(embedder)  # which keeps nothing for a later training
    _, known, *asked, truth = hide_rows(panel, 2)
    scale, n_channels = embedder.units.scaler.scale, panel.n_channels

    def errors(own: ModelEmbedder) -> tuple[np.ndarray, np.ndarray]:
        """Squared errors (n, D) of filling in, and of forecasts, 0 where nothing was observed."""
        wrong = (own.path_values(known, *asked) - truth) / scale
        ahead = own.residuals(panel)[0] / scale
        return np.nan_to_num(wrong) ** 2, np.nan_to_num(ahead) ** 2

    def fill_ratios(gain: float) -> np.ndarray:
        """Errors (D,) of filling in beside those without a gain; infinite if forecasts suffer."""
        found = errors(model.with_gain(Gain.of(torch.full((n_channels,), gain))))
        filled, ahead = (
            x.sum(axis=0) / np.maximum(e.sum(axis=0), np.finfo(np.float64).tiny)
            for x, e in zip(found, exact, strict=True)
        )
        return np.where(ahead < SETTINGS.max_forecast_error, filled, np.inf)

    exact, (first, *others) = errors(model), SETTINGS.gains
    ratios = [fill_ratios(first)]
    if not (ratios[0] < 1).any():
        return GainSelection(None, float(ratios[0].min()))
    ratios += [*map(fill_ratios, others), np.ones(n_channels)]
    best = torch.tensor([*SETTINGS.gains, SETTINGS.exact_gain])[np.argmin(ratios, axis=0)]
    gain = Gain.of(best).to(embedder.device)
    filled, ahead = errors(model.with_gain(gain))
    gained = (exact[0] - filled).sum(axis=1)
    totals = zip((filled, ahead), exact, strict=True)
    left = [float(own.sum() / max(e.sum(), np.finfo(np.float64).tiny)) for own, e in totals]
    is_better = (
        left[0] < SETTINGS.max_fill_error
        and left[1] < SETTINGS.max_forecast_error
        and gained.sum() > SETTINGS.n_standard_errors * np.sqrt((gained**2).sum())
    )
    return GainSelection(gain if is_better else None, *left)


def _sample(panel: Panel) -> Panel:
    return first_series(panel, SETTINGS.n_rows * 10 // max(panel.n_channels, 10))
