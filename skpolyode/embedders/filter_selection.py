"""Whether observations are noisy: if a filter of them forecasts and fills in better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skpolyode.embedders.model import ModelEmbedder
from skpolyode.embedders.smoother import hide_rows
from skpolyode.panel import Panel
from skpolyode.panel.select import first_series


@dataclass(frozen=True)
class FilterSelectionSettings:
    """What decides whether a model stays a filter. Errors are sums of squares."""

    max_error: float = 0.95
    """Error of filling in hidden rows times that of one-step forecasts, at most, each as a share of
    that without the gain, which the weights do not know. Six fits under noise of .1 and .3 (van
    der Pol, FitzHugh-Nagumo, Lorenz63) had .36 to .64; of nine real sets french_fries had .45,
    wages .64 (but gained too little) and pbcseq .69, the others .95 to 1.06."""

    n_standard_errors: float = 3.0
    """Standard errors that what filling in gains has to be away from nothing."""

    ordinary: float = 0.99
    """Share of the rows whose gain counts in full: the others count as the largest of these. On
    eICU wards, whose next row errs .87 times as much with a gain, the gain is 6.8 standard errors
    away so, and 2 to 3 where a few rows decide; on storms, which have no noise, -.5."""

    fewest_rows: int = 15
    """Rows of the typical series, at least. In shorter ones the gain, that of the steady state, has
    no time to settle: filters of french_fries and pbcseq, of 10 and 5 rows, forecast the next row
    with 1.16 and 1.08 times the error of models without a gain, and fill gaps with 1.17 and 1.10
    times theirs, although the test takes their side."""

    n_rows: int = 10_000
    """Rows to judge by, at most: those of the first series. Fewer of more than ten channels."""


SETTINGS = FilterSelectionSettings()


def is_long_enough(panel: Panel) -> bool:
    """Whether typical series have the rows that a filter needs."""
    return bool(np.median(panel.lengths) >= SETTINGS.fewest_rows)


class FilterTest(NamedTuple):
    """What came out of the comparison, and the errors of the filter as shares of those without."""

    is_better: bool
    gap_filling: float
    forecasts: float  # one step ahead


def compare_filter(embedder: ModelEmbedder, panel: Panel) -> FilterTest:
    """Compare a filter with the same model when it takes observations whole.

    Without noise nothing is nearer to the signal than its observations. With noise the dynamics
    may have learned to forecast from several observations at once, so that forecasts alone hardly
    tell; but paths through single ones are still wrong. So every fourth row is hidden, and filled
    in from the others: that has to be surely better, and by more than forecasts of the next
    observation are worse.

    Parameters
    ----------
    embedder : ModelEmbedder
        Of a model with a gain.
    panel : Panel
        Series without rows that hold no observation; if they are many, the first ones count.

    Examples
    --------
    A field that stands still is right for constants, of which every observation is as good:

    >>> import numpy as np
    >>> from skpolyode import Panel, PolyODETransformer
    >>> from skpolyode.embedders.filter_selection import compare_filter
    >>> noise, times = np.random.default_rng(0).normal(size=(20, 30)), np.arange(30.0)
    >>> panel = Panel.from_series([(times, x) for x in noise])
    >>> settings = {"observations": "noisy", "max_epochs": 1, "learning_rate_init": 1e-9}
    >>> model = PolyODETransformer(n_coefficients=4, hidden_size=0, random_state=0, **settings)
    >>> untrained = model.fit(panel).embedder_
    >>> compare_filter(untrained, panel).is_better
    True
    >>> walks = Panel.from_series([(times, x.cumsum()) for x in noise])
    >>> compare_filter(untrained, walks).is_better
    False
    """
    panel = first_series(panel, SETTINGS.n_rows * 10 // max(panel.n_channels, 10))
    _, known, *asked, truth = hide_rows(panel, 2)
    scale = embedder.units.scaler.scale

    def errors(own: ModelEmbedder) -> tuple[np.ndarray, np.ndarray]:
        """Squared errors (n, D) of filling in, and of forecasts, 0 where nothing was observed."""
        wrong = (own.path_values(known, *asked) - truth) / scale
        ahead = own.residuals(panel)[0] / scale
        return np.nan_to_num(wrong) ** 2, np.nan_to_num(ahead) ** 2

    exact, filtered = errors(embedder.without_gain()), errors(embedder)
    filled, ahead = (
        float(own.sum() / max(e.sum(), np.finfo(np.float64).tiny))
        for own, e in zip(filtered, exact, strict=True)
    )
    gained = (exact[0] - filtered[0]).sum(axis=1)
    usual = np.quantile(np.abs(gained), SETTINGS.ordinary) if len(gained) else 0.0
    gained = np.clip(gained, -usual, usual)
    is_better = (
        filled * ahead < SETTINGS.max_error
        and gained.sum() > SETTINGS.n_standard_errors * np.sqrt((gained**2).sum())
    )
    return FilterTest(bool(is_better), filled, ahead)
