"""Fewer steps, for tests that look at something else than how well is learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from skpolyode.embedders import table
from skpolyode.ensemble import mixed
from skpolyode.heads import base, features
from skpolyode.panel.select import cut_windows
from skpolyode.structural import forecaster
from skpolyode.training import loop
from skpolyode.transformers import stages

OF_PATHS = stages.LearnWaves, stages.LearnBeginnings
WHOLE = {
    **{(stage, "run"): stage.run for stage in (stages.CheckStepSize, *OF_PATHS)},
    (mixed, "SETTINGS"): mixed.SETTINGS,
    (forecaster, "SETTINGS"): forecaster.SETTINGS,
    (table, "SETTINGS"): table.SETTINGS,
    (base, "_MOST_DEALS"): base._MOST_DEALS,
    (features, "N_TREES"): features.N_TREES,
}


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Within, an attribute of a module or a class is another one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, value)
        yield


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
def all_replaced(values: dict[tuple[Any, str], Any]) -> Iterator[None]:
    """Within, attributes of modules or classes are others."""
    with ExitStack() as stack:
        for (owner, name), value in values.items():
            stack.enter_context(replaced(owner, name, value))
        yield


def whole(*owners: Any) -> AbstractContextManager[None]:
    """Within, settings of these modules are those outside of tests."""
    return all_replaced({place: value for place, value in WHOLE.items() if place[0] in owners})


@contextmanager
def small_fits() -> Iterator[None]:
    """Within, fits do half of what they do outside of tests.

    An eighth of the structural models of few series are drawn, in one turn of three; mixed models
    choose from one curve in place of three; paths learn from two copies of few series, not
    five; forests have a fifth of their trees.
    """
    smaller = {
        (mixed, "SETTINGS"): replace(mixed.SETTINGS, n_knots=(4,)),
        (forecaster, "SETTINGS"): replace(forecaster.SETTINGS, n_drawn=16, n_turns=1),
        (table, "SETTINGS"): replace(table.SETTINGS, n_copies=2),
        (base, "_MOST_DEALS"): 2,
        (features, "N_TREES"): 20,
    }
    with no_step_checks(), plain_paths(), all_replaced(smaller):
        yield


@contextmanager
def whole_fits() -> Iterator[None]:
    """Within, fits do all that they do outside of tests; see `small_fits` in tests/conftest.py."""
    with all_replaced(WHOLE):
        yield


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


def with_default_epochs(own: Iterable[stages.Stage], n_epochs: int) -> tuple[stages.Stage, ...]:
    """The same stages, with fewer epochs for ``max_epochs="auto"``."""
    return tuple(
        replace(stage, default_epochs=n_epochs) if isinstance(stage, stages.Train) else stage
        for stage in own
    )
