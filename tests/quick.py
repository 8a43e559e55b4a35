"""Fewer steps, for tests that look at something else than how well is learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from skpolyode.ensemble import mixed
from skpolyode.heads import base, features
from skpolyode.panel.select import cut_windows
from skpolyode.structural import forecaster
from skpolyode.training import loop
from skpolyode.transformers import stages

CHECK_STEPS = stages.CheckStepSize.run
OF_PATHS = {stage: stage.run for stage in (stages.LearnWaves, stages.LearnBeginnings)}


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Within, an attribute of a module or a class is another one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, value)
        yield


def few_structural_models(n_drawn: int = 16, n_turns: int = 1) -> AbstractContextManager[None]:
    """Within, an eighth of the structural models of few series are drawn, in one turn of three."""
    settings = forecaster.StructuralSettings(n_drawn=n_drawn, n_turns=n_turns)
    return replaced(forecaster, "SETTINGS", settings)


def all_structural_models() -> AbstractContextManager[None]:
    """Within, as many structural models are drawn as outside of tests."""
    return replaced(forecaster, "SETTINGS", forecaster.StructuralSettings())


def one_population_curve(n_knots: int = 4) -> AbstractContextManager[None]:
    """Within, mixed models choose from one curve in place of three: a seventh of a small fit."""
    return replaced(mixed, "SETTINGS", replace(mixed.SETTINGS, n_knots=(n_knots,)))


def no_step_checks() -> AbstractContextManager[None]:
    """Within, steps are not checked, and `step_halving_error_` is not known."""

    def check(self: stages.CheckStepSize, state: stages.FitState) -> None:
        # As many random numbers are drawn as for windows of four rows, which tests once had.
        rng, panel = state.random_state, state.windows.panel
        drawn = panel[rng.permutation(panel.n_series)[: self.n_windows]]
        rng.permutation(cut_windows(drawn, 4, overlap=0).n_series)
        state.fitted["step_halving_error_"] = float("nan")

    return replaced(stages.CheckStepSize, "run", check)


@contextmanager
def plain_paths() -> Iterator[None]:
    """Within, paths follow no waves, and are shifted before the first observation of a channel."""
    with ExitStack() as stack:
        for stage in OF_PATHS:
            stack.enter_context(replaced(stage, "run", lambda self, state: None))
        yield


@contextmanager
def small_fits() -> Iterator[None]:
    """Within, fits do half of what they do outside of tests."""
    smaller = no_step_checks(), plain_paths(), one_population_curve(), few_structural_models()
    with ExitStack() as stack:
        for each in (*smaller, replaced(base, "_MOST_DEALS", 2)):
            stack.enter_context(each)
        yield


@contextmanager
def whole_fits() -> Iterator[None]:
    """Within, fits do all that they do outside of tests; see `small_fits` in tests/conftest.py."""
    with ExitStack() as stack:
        stack.enter_context(all_population_curves())
        stack.enter_context(all_structural_models())
        stack.enter_context(replaced(base, "_MOST_DEALS", 5))
        for stage, run in {stages.CheckStepSize: CHECK_STEPS, **OF_PATHS}.items():
            stack.enter_context(replaced(stage, "run", run))
        yield


def all_population_curves() -> AbstractContextManager[None]:
    """Within, mixed models choose from three curves, as they do outside of tests."""
    return replaced(mixed, "SETTINGS", mixed.MixedSettings())


def no_stacking() -> AbstractContextManager[None]:
    """Within, fits do not learn to combine forecasts: half of the time of a small one."""
    return replaced(stages.StackForecasts, "run", lambda self, state: None)


@contextmanager
def until_training() -> Iterator[None]:
    """A block whose fit ends where training would begin, for tests of what is trained on."""

    class BeginsError(Exception):
        pass

    def stop(*_: Any) -> None:
        raise BeginsError

    with suppress(BeginsError), replaced(loop.Trainer, "run", stop):
        yield


def early_noise_tests(fewest_epochs: int = 4) -> AbstractContextManager[None]:
    """Within, fits of twice as many epochs find out whether observations are noisy."""
    return replaced(stages.TrainFilter, "fewest_epochs", 2 * fewest_epochs)


def few_trees(n_trees: int = 20) -> AbstractContextManager[None]:
    """Within, forests on summary statistics have a tenth of their trees."""
    return replaced(features, "N_TREES", n_trees)


def with_default_epochs(own: Iterable[stages.Stage], n_epochs: int) -> tuple[stages.Stage, ...]:
    """The same stages, with fewer epochs for ``max_epochs="auto"``."""
    return tuple(
        replace(stage, default_epochs=n_epochs) if isinstance(stage, stages.Train) else stage
        for stage in own
    )
