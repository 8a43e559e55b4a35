"""The training of PolyODE, which finds out whether observations are noisy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skpolyode.embedders.filter_selection import FilterTest, compare_filter, is_long_enough
from skpolyode.models.gain import Gain
from skpolyode.training.loop import Turn
from skpolyode.transformers.stages import FEWEST_EPOCHS, FitState, Train


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
    tested_after : float, default=0.5
        Share of the epochs after which noise is tested for.
    """

    tested_after: float = 0.5

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
        epoch, model = round(self.tested_after * self.epochs(state)), embedder.model
        if epoch < FEWEST_EPOCHS or not is_long_enough(windows.panel):
            return None
        gain = Gain(windows.panel.n_channels).to(embedder.device)
        judged = windows.panel[np.argsort(~windows.held_out, kind="stable")]  # held-out ones first

        def decide() -> tuple:
            return tuple(compare_filter(embedder.with_own_model(), judged))

        def apply(test: tuple | None) -> None:
            found[:] = [] if test is None else [FilterTest(*test)]
            model.gain = gain if all(test.is_better for test in found) else None

        apply(None)
        return Turn(epoch, decide, apply)

    def _report_noise(self, state: FitState, given: bool, found: list[FilterTest]) -> None:
        """Note whether observations are noisy, and why."""
        kind = "noisy" if state.embedder.filters else "exact"
        if not found:
            if given:
                reason = "as given"
            elif is_long_enough(state.windows.panel):
                reason = "too few epochs to tell"
            else:
                reason = "series are too short for a filter"
            state.report.add("noise", f"observations are {kind}: {reason}")
            return
        (test,) = found
        better = "better" if test.is_better else "no better"
        # Errors of the filter, as shares of those without one.
        figures = {"gap_filling": test.gap_filling, "one_step": test.forecasts}
        figures["after_epochs"] = round(self.tested_after * self.epochs(state))
        outcome = f"observations are {kind}: a filter fills gaps {better}"
        state.report.add("noise", outcome, len(state.windows.panel), **figures)
