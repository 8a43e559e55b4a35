"""The training of PolyODE, which tests whether observations are noisy."""

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
from skpolyode.training.loop import Turn
from skpolyode.transformers.stages import FEWEST_EPOCHS, FitState, Train


def first_gain(panel: Panel, scaler: ChannelScaler, observations: str) -> Gain | None:
    """Gain of a filter, or None; observations with known errors are noisy, unless all are 0."""
    observed = ~np.isnan(panel.values)
    if panel.errors is not None and observations != "exact":
        is_exact = (panel.errors[observed] == 0).all()
        return None if is_exact else Gain.of_errors(panel.errors / scaler.scale, observed)
    return Gain(panel.n_channels) if observations == "noisy" else None


class FilterTest(NamedTuple):
    """Result of the comparison, and the filter's errors as ratios to those without a gain."""

    is_better: bool
    gap_filling: float
    forecasts: float | None  # one step ahead; None: not computed, as gaps decided already


@dataclass(frozen=True)
class TrainFilter(Train):
    """Train a model that is a filter if observations are noisy.

    With ``observations="auto"`` the model is first trained as a filter. It remains one if it then
    fills gaps better than without its gain. Short series are taken as exact from the start.

    Parameters
    ----------
    default_epochs : int, default=40
        As in `Train`.
    tested_after : float, default=0.25
        Share of the epochs after which noise is tested for.
    max_error : float, default=0.95
        Upper bound on the product of two error ratios, with and without the gain: of filling in
        hidden rows, and of one-step forecasts. The weights were trained with the gain. Errors are
        sums of squares. Six fits with noise of 0.1 and 0.3 (van der Pol, FitzHugh-Nagumo, Lorenz63)
        had 0.36 to 0.64; of nine real sets french_fries had 0.45, wages 0.64 (not significant) and
        pbcseq 0.69, the others 0.95 to 1.06.
    n_standard_errors : float, default=3.0
        The improvement in filling gaps has to exceed this number of its standard errors.
    ordinary : float, default=0.99
        Quantile of the absolute improvements of rows at which these are clipped. On eICU wards,
        where a gain multiplies errors at the next row by 0.87, the improvement is then 6.8 standard
        errors, and 2 to 3 where a few rows decide; on storms, which have no noise, -0.5.
    fewest_rows : int, default=15
        Least median number of rows per series. In shorter series the steady-state gain has no time
        to settle: on french_fries and pbcseq, of 10 and 5 rows, filters pass the test, but their
        errors at the next row are 1.16 and 1.08 times those of models without a gain, and in gaps
        1.17 and 1.10 times.
    n_rows : int, default=10000
        Most rows to test on, from the first series; fewer if there are more than ten channels.
    """

    tested_after: float = 0.25
    max_error: float = 0.95
    n_standard_errors: float = 3.0
    ordinary: float = 0.99
    fewest_rows: int = 15
    n_rows: int = 10_000

    def run(self, state: FitState) -> None:
        """Train, and test for noise during training."""
        # The user, the model or the data may decide it before training.
        choice, has_errors = state.params["observations"], state.windows.panel.errors is not None
        given = state.embedder.filters or has_errors or choice != "auto"
        found: list[FilterTest] = []  # one, if there is a test
        self.train(state, None if given else self._noise_test(state, found))
        self._report_noise(state, given, found)

    def _noise_test(self, state: FitState, found: list[FilterTest]) -> Turn | None:
        """Make the model a filter, and return the test during training; None: no test."""
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
        """Whether the median series has enough rows for a filter."""
        return bool(np.median(panel.lengths) >= self.fewest_rows)

    def compare(self, embedder: ModelEmbedder, panel: Panel) -> FilterTest:
        """Compare a filter with the same model without its gain.

        Without noise nothing is nearer to the signal than its observations. With noise the dynamics
        may have learned to forecast from several observations at once, so forecasts alone decide
        little; but paths through single observations are still wrong. So every fourth row is
        hidden, and filled in from the others. The filter has to be significantly better there, and
        by a larger factor than its forecasts of the next observation are worse.

        Parameters
        ----------
        embedder : ModelEmbedder
            Embedder of a model with a gain.
        panel : Panel
            Series without empty rows; only the first ones, with up to `n_rows` rows, are used.

        Examples
        --------
        A field that is 0 is right for noise around a constant, but not for random walks:

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
        _, known, *query, truth = hide_rows(panel, 2)
        scale = embedder.units.scaler.scale

        def filled(embedder: ModelEmbedder) -> np.ndarray:
            return np.nan_to_num((embedder.path_values(known, *query) - truth) / scale) ** 2

        def ahead(embedder: ModelEmbedder) -> np.ndarray:
            return np.nan_to_num(embedder.residuals(panel)[0] / scale) ** 2

        whole = embedder.without_gain()
        exact, filtered = filled(whole), filled(embedder)
        gained, share = (exact - filtered).sum(axis=1), _ratio(filtered, exact)
        bound = np.quantile(np.abs(gained), self.ordinary) if len(gained) else 0.0
        gained = np.clip(gained, -bound, bound)
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
        # Errors of the filter, as ratios to those without a gain.
        figures = {"gap_filling": test.gap_filling}
        if test.forecasts is not None:
            figures["one_step"] = test.forecasts
        figures["after_epochs"] = round(self.tested_after * self.epochs(state))
        outcome = f"observations are {kind}: a filter fills gaps {better}"
        state.report.add("noise", outcome, len(state.windows.panel), **figures)


def _ratio(errors: np.ndarray, others: np.ndarray) -> float:
    """Ratio of two sums of errors."""
    return float(errors.sum() / max(others.sum(), np.finfo(np.float64).tiny))
