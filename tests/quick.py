"""Fewer steps, for tests that look at something else than how well is learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from skpolyode.heads import features
from skpolyode.structural import averaging
from skpolyode.training import variance
from skpolyode.transformers import stages


@contextmanager
def few_variance_steps(n_steps: int = 40) -> Iterator[None]:
    """Within, the variance head learns in a fifth of its steps."""
    with pytest.MonkeyPatch.context() as patch:
        settings = variance.HeadTrainingSettings(n_steps=n_steps)
        patch.setattr(variance, "SETTINGS", settings)
        yield


@contextmanager
def few_structural_models(n_drawn: int = 32) -> Iterator[None]:
    """Within, an eighth of the structural models of few series are drawn."""
    with pytest.MonkeyPatch.context() as patch:
        settings = averaging.StructuralSettings(n_drawn=n_drawn)
        patch.setattr(averaging, "SETTINGS", settings)
        yield


@contextmanager
def no_stacking() -> Iterator[None]:
    """Within, fits do not learn to combine forecasts: half of the time of a small one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages.StackForecasts, "run", lambda self, state: None)
        yield


@contextmanager
def few_trees(n_trees: int = 20) -> Iterator[None]:
    """Within, forests on summary statistics have a tenth of their trees."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features, "N_TREES", n_trees)
        yield


def with_usual_epochs(own: Iterable[stages.Stage], n_epochs: int) -> tuple[stages.Stage, ...]:
    """The same stages, with fewer epochs for ``max_epochs="auto"``."""
    train = stages.Train(usual=n_epochs)
    return tuple(train if isinstance(stage, stages.Train) else stage for stage in own)
