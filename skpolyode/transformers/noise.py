"""The training of PolyODE, which finds out whether observations are noisy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.smoother import hide_rows
from skpolyode.models.gain import Gain
from skpolyode.panel import Panel
from skpolyode.panel.select import first_series
from skpolyode.panel.units import ChannelScaler
from skpolyode.training.task import Turn
from skpolyode.transformers.stages import FEWEST_EPOCHS, FitState, Train


def first_gain(panel: Panel, scaler: ChannelScaler, observations: str) -> Gain | None:
    """Gain of a filter; known errors tell that observations are noisy."""
    observed = ~np.isnan(panel.values)
    if panel.errors is not None and observations != "exact":
        is_exact = (panel.errors[observed] == 0).all()
        return None if is_exact else Gain.of_errors(panel.errors / scaler.scale, observed)
    return Gain(panel.n_channels) if observations == "noisy" else None


class FilterTest(NamedTuple):
    """What came out of the comparison, and the errors of the filter as shares of those without."""

    is_better: bool
    gap_filling: float
    forecasts: float | None  # one step ahead; None: gaps, which are looked at first, decided


@dataclass(frozen=True)
class TrainFilter(Train):
    """Train a model that is a filter if observations are noisy.

    Where it is for the fit to decide, it is decided on the way. The model is first trained as a
    filter. It remains one if it fills gaps better than without a gain. Short series are taken as
    exact from the start.

    Parameters
    ----------
    usual : int, default=40
        As of `Train`.
    tested_after : float, default=0.25
        Share of the epochs after which noise is tested for.
    max_error : float, default=0.95
        Error of filling in hidden rows times that of one-step forecasts, at most, each as a share
        of that without the gain, which the weights do not know. Errors are sums of squares. Six
        fits under noise of .1 and .3 (van der Pol, FitzHugh-Nagumo, Lorenz63) had .36 to .64; of
        nine real sets french_fries had .45, wages .64 (but gained too little) and pbcseq .69, the
        others .95 to 1.06.
    n_standard_errors : float, default=3.0
        Standard errors that what filling in gains has to be away from nothing.
    ordinary : float, default=0.99
        Share of the rows whose gain counts in full: the others count as the largest of these. On
        eICU wards, whose next row errs .87 times as much with a gain, the gain is 6.8 standard
        errors away so, and 2 to 3 where a few rows decide; on storms, which have no noise, -.5.
    fewest_rows : int, default=15
        Rows of the typical series, at least. In shorter ones the gain, that of the steady state,
        has no time to settle: filters of french_fries and pbcseq, of 10 and 5 rows, forecast the
        next row with 1.16 and 1.08 times the error of models without a gain, and fill gaps with
        1.17 and 1.10 times theirs, although the test takes their side.
    n_rows : int, default=10000
        Rows to judge by, at most: those of the first series. Fewer of more than ten channels.
    """

    tested_after: float = 0.25
    max_error: float = 0.95
    n_standard_errors: float = 3.0
    ordinary: float = 0.99
    fewest_rows: int = 15
    n_rows: int = 10_000

    def run(self, state: FitState) -> None:
        """Train, and test for noise on the way."""
        # Before training, the user, the model or the data may say whether observations are noisy.
        asked, told = state.params["observations"], state.windows.panel.errors is not None
        given = state.embedder.filters or told or asked != "auto"
        found: list[FilterTest] = []  # one, if there is a test
        self.train(state, None if given else self._noise_test(state, found))
        self._report_noise(state, given, found)

    def _noise_test(self, state: FitState, found: list[FilterTest]) -> Turn | None:
        """Make the model a filter, and test on the way whether it is the better for it."""
        embedder, windows = state.embedder, state.windows
        n_epochs, model = self.epochs(state), embedder.model
        epoch = round(self.tested_after * n_epochs)
        is_trial = not epoch or n_epochs < 2 * FEWEST_EPOCHS
        if is_trial or not self._is_long_enough(windows.panel):
            return None
        gain = Gain(windows.panel.n_channels).to(embedder.device)
        judged = windows.panel[np.argsort(~windows.held_out, kind="stable")]  # held-out ones first

        def decide() -> FilterTest:
            return self.compare(embedder.with_own_model(), judged)

        def apply(test: FilterTest) -> None:
            found.append(test)
            model.gain = gain if test.is_better else None

        model.gain = gain
        return Turn(epoch, decide, apply)

    def _is_long_enough(self, panel: Panel) -> bool:
        """Whether typical series have the rows that a filter needs."""
        return bool(np.median(panel.lengths) >= self.fewest_rows)

    def compare(self, embedder: ModelEmbedder, panel: Panel) -> FilterTest:
        """Compare a filter with the same model when it takes observations whole.

        Without noise nothing is nearer to the signal than its observations. With noise the dynamics
        may have learned to forecast from several observations at once, so that forecasts alone
        hardly tell; but paths through single ones are still wrong. So every fourth row is hidden,
        and filled in from the others: that has to be surely better, and by more than forecasts of
        the next observation are worse.

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
        >>> from skpolyode.transformers.noise import TrainFilter
        >>> noise, times = np.random.default_rng(0).normal(size=(20, 20)), np.arange(20.0)
        >>> panel = Panel.from_series([(times, x) for x in noise])
        >>> settings = {"observations": "noisy", "max_epochs": 1, "learning_rate_init": 1e-9}
        >>> model = PolyODETransformer(n_coefficients=4, hidden_size=0, random_state=0, **settings)
        >>> untrained = model.fit(panel).embedder_
        >>> TrainFilter().compare(untrained, panel).is_better
        True
        >>> walks = Panel.from_series([(times, x.cumsum()) for x in noise])
        >>> TrainFilter().compare(untrained, walks).is_better
        False
        """
        panel = first_series(panel, self.n_rows * 10 // max(panel.n_channels, 10))
        _, known, *asked, truth = hide_rows(panel, 2)
        scale = embedder.units.scaler.scale

        def filled(own: ModelEmbedder) -> np.ndarray:
            return np.nan_to_num((own.path_values(known, *asked) - truth) / scale) ** 2

        def ahead(own: ModelEmbedder) -> np.ndarray:
            return np.nan_to_num(own.residuals(panel)[0] / scale) ** 2

        whole = embedder.without_gain()
        exact, filtered = filled(whole), filled(embedder)
        gained, share = (exact - filtered).sum(axis=1), _ratio(filtered, exact)
        usual = np.quantile(np.abs(gained), self.ordinary) if len(gained) else 0.0
        gained = np.clip(gained, -usual, usual)
        if gained.sum() <= self.n_standard_errors * np.sqrt((gained**2).sum()):
            return FilterTest(False, share, None)
        of_forecasts = _ratio(ahead(embedder), ahead(whole))
        return FilterTest(share * of_forecasts < self.max_error, share, of_forecasts)

    def _report_noise(self, state: FitState, given: bool, found: list[FilterTest]) -> None:
        """Note whether observations are noisy, and why."""
        kind = "noisy" if state.embedder.filters else "exact"
        if not found:
            if given:
                reason = "as given"
            elif self._is_long_enough(state.windows.panel):
                reason = "too few epochs to tell"
            else:
                reason = "series are too short for a filter"
            state.report.add("noise", f"observations are {kind}: {reason}")
            return
        (test,) = found
        better = "better" if test.is_better else "no better"
        # Errors of the filter, as shares of those without one.
        figures = {"gap_filling": test.gap_filling}
        if test.forecasts is not None:
            figures["one_step"] = test.forecasts
        figures["after_epochs"] = round(self.tested_after * self.epochs(state))
        outcome = f"observations are {kind}: a filter fills gaps {better}"
        state.report.add("noise", outcome, len(state.windows.panel), **figures)


def _ratio(errors: np.ndarray, others: np.ndarray) -> float:
    """Sum of errors as a share of that of others."""
    return float(errors.sum() / max(others.sum(), np.finfo(np.float64).tiny))
