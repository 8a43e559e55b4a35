"""Whether observations are noisy: if less belief in some forecasts and fills in others better."""

from __future__ import annotations

import numpy as np
import torch

from skpolyode.embedders.model import ModelEmbedder
from skpolyode.models.gain import Gain
from skpolyode.panel import Panel
from skpolyode.panel.rows import offsets_from
from skpolyode.panel.select import first_series, keep_rows, series_of_rows

__all__ = ["forecasts_no_worse", "select_gain"]

_FIRST, _THEN = 0.85, (0.93, 0.7, 0.5)  # shares of an innovation that are taken over
_WHOLE = 0.97  # for a channel that is to be believed, beside another one that is not
_LEFT = 0.98  # share of the error of filling in that has to be left, at most
_NO_WORSE = 1.01  # share of that of forecasts: they hardly change if the dynamics filter already
_SURE = 3.0  # standard errors that what is gained has to be away from nothing
_ROWS, _CELLS = 10_000, 100_000  # that are looked at, at most
_MOMENTS = np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.8])  # of each series, to forecast from
_AHEAD = 8  # rows that are forecast from each
_AS_WELL = 1.1  # share of the error of the other one: less may be chance


def select_gain(embedder: ModelEmbedder, panel: Panel) -> Gain | None:
    """Gain with which a model that was trained without one does better; None if there is none.

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
    >>> select_gain(untrained, panel) is None
    False
    >>> walks = Panel.from_series([(times, x.cumsum()) for x in noise])
    >>> select_gain(untrained, walks) is None
    True
    """
    panel = _some(panel)
    rows, series = np.arange(panel.n_observations), series_of_rows(panel)
    hidden = (rows - panel.offsets[series]) % 4 == 2
    hidden &= rows < panel.offsets[1:][series] - 1  # what follows the last row is no gap
    asked = panel.times[hidden], offsets_from(hidden)[panel.offsets]
    known, truth = keep_rows(panel, ~hidden), panel.values[hidden]

    def errors(gain: Gain | None) -> tuple[np.ndarray, np.ndarray]:
        """Squared errors (n, D) of filling in, and of forecasts, 0 where nothing was observed."""
        own = embedder.with_own_model()
        own.model.gain = gain
        wrong = (own.path_values(known, *asked) - truth) / embedder.units.scaler.scale
        ahead = own.residuals(panel)[0] / embedder.units.scaler.scale
        return np.nan_to_num(wrong) ** 2, np.nan_to_num(ahead) ** 2

    def ratios(own: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """What is left of the errors of filling in, by channel; infinite if forecasts are worse."""
        filled, ahead = (
            x.sum(axis=0) / np.maximum(e.sum(axis=0), 1e-300)
            for x, e in zip(own, exact, strict=True)
        )
        return np.where(ahead < _NO_WORSE, filled, np.inf)

    def tried(share: float) -> np.ndarray:
        return ratios(errors(Gain.of(torch.full((panel.n_channels,), share))))

    exact = errors(None)
    first = tried(_FIRST)
    if not (first < 1).any():
        return None
    left = [first, *map(tried, _THEN), np.ones(panel.n_channels)]
    shares = torch.tensor([_FIRST, *_THEN, _WHOLE])[np.argmin(left, axis=0)]
    gain = Gain.of(shares).to(embedder.device)
    filled, ahead = errors(gain)
    gained = (exact[0] - filled).sum(axis=1)
    is_better = filled.sum() < _LEFT * exact[0].sum() and ahead.sum() < _NO_WORSE * exact[1].sum()
    return gain if is_better and gained.sum() > _SURE * np.sqrt((gained**2).sum()) else None


def forecasts_no_worse(embedder: ModelEmbedder, other: ModelEmbedder, panel: Panel) -> bool:
    """Whether free runs from several moments err no more than those of another embedder.

    A filter forgets what it took for noise. Where its gain is not the best one, dynamics that see
    the observations themselves may know more. Each lead counts in units of the other one's error,
    as far ahead a few runs that go astray decide otherwise.

    Parameters
    ----------
    embedder, other : ModelEmbedder
    panel : Panel
        Series without rows that hold no observation; if they are many, the first ones count.
    """
    panel = _some(panel)
    series = series_of_rows(panel)
    origins = np.unique(panel.offsets[:-1, None] + (panel.lengths[:, None] * _MOMENTS).astype(int))
    left = panel.offsets[1:][series[origins]] - 1 - origins
    origins, counts = origins[left > 0], np.minimum(left[left > 0], _AHEAD)
    lead = np.arange(counts.sum()) - np.repeat(offsets_from(counts)[:-1], counts)
    rows = np.repeat(origins, counts) + 1 + lead
    actual = embedder.standardised(panel).values[rows]

    def errors(own: ModelEmbedder) -> np.ndarray:
        """Sums of squares, by lead."""
        found = own.with_own_model().runs_from(panel, origins, panel.times[rows], counts)
        return np.bincount(lead, np.nansum((found - actual) ** 2, axis=1))

    least = np.finfo(np.float64).tiny
    ratios = errors(embedder) / np.maximum(errors(other), least)
    return bool(ratios.mean() <= _AS_WELL) if len(ratios) else True


def _some(panel: Panel) -> Panel:
    return first_series(panel, min(_ROWS, _CELLS // panel.n_channels))
