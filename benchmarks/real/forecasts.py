"""Forecasts of PolyODE and its rivals on the real sets."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.real.part import Part, Scores
from benchmarks.real.questions import Questions
from benchmarks.real.rivals import PANEL_RIVALS, Rival, single_rivals
from benchmarks.real.sets import SETS, Answer, Fold, Task
from benchmarks.units import Units
from skpolyode import Panel, PolyODETransformer
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.transformers.neural import NeuralTransformer

LEVELS = (0.05, 0.5, 0.95)


def is_one_step(questions: Questions) -> bool:
    return bool((questions.target == questions.origin + 1).all())


class Transformer:
    """A transformer of some class, its defaults."""

    def __init__(self, kind: type[NeuralTransformer] = PolyODETransformer) -> None:
        self.kind = kind

    def fit(self, panel: Panel, validation: Panel | None = None) -> None:
        self.model = self.kind(random_state=0).fit(panel, validation=validation)

    def answer(self, _: Questions, test: Questions) -> Answer:
        if is_one_step(test):
            errors = self.model.residuals(test.panel).values[test.target]
            return Answer(test.truth - errors)
        return Answer(ahead(self.model, test))


class Forecaster:
    """`PolyODEForecaster`, its defaults, with its interval of 90 %."""

    def fit(self, panel: Panel) -> None:
        self.model = PolyODEForecaster(random_state=0).pretrain(panel)

    def answer(self, _: Questions, test: Questions) -> Answer:
        if is_one_step(test):  # in-sample times are answered from the rows before them
            panel = test.panel
            times = np.split(panel.times, panel.offsets[1:-1])
            found = self.model.forecast_quantiles(panel, times, LEVELS)
            lower, mean, upper = (found[level].values[test.target] for level in LEVELS)
            return Answer(mean, lower, upper)
        known, order, times = test.histories()
        found = self.model.forecast_quantiles(known, times, LEVELS)
        lower, mean, upper = (in_order(found[level].values, order) for level in LEVELS)
        return Answer(mean, lower, upper)


class Fitted:
    """A rival, which learns from the very questions that it will be asked."""

    def __init__(self, rival: Rival) -> None:
        self.rival = rival

    def fit(self, panel: Panel, validation: Panel | None = None) -> None:
        pass

    def answer(self, training: Questions, test: Questions) -> Answer:
        return Answer(self.rival(training, test))


class Standardised(Fitted):
    """A rival in standard deviations of the training part."""

    def answer(self, training: Questions, test: Questions) -> Answer:
        units = Units.of(training.panel)
        found = self.rival(training.standardised(units), test.standardised(units))
        return Answer(found * units.scale + units.mean)


def ahead(model: NeuralTransformer, questions: Questions, **options: Any) -> np.ndarray:
    """Forecasts (Q, D) of a transformer, each from the rows up to its origin."""
    known, order, times = questions.histories()
    return in_order(model.forecast(known, times, **options).values, order)


def in_order(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Rows in the order of the questions, from those in the order of the histories."""
    result = np.empty_like(values)
    result[order] = values
    return result


OWN = {
    "PolyODETransformer()": Transformer,
    "PolyODEForecaster()": Forecaster,
}


def models(name: str) -> dict[str, Callable[[], Any]]:
    """The rows of a set."""
    season = SETS[name].season
    rivals = single_rivals(season) if season else PANEL_RIVALS
    return OWN | {row: partial(Standardised, rival) for row, rival in rivals.items()}


def measure(name: str, fold: Fold, rows: list[str]) -> dict[str, Scores]:
    return {row: measure_row(name, fold, row) for row in rows}


def measure_row(name: str, fold: Fold, row: str) -> Scores:
    return scored(SETS[name].tasks, models(name)[row](), fold)


def scored(tasks: list[Task], model: Any, fold: Fold) -> Scores:
    """All scores of one model on one fold; intervals too, where there are any.

    The model has the values as they are: centred ones have no logarithms. Scores are in standard
    deviations of the training part.
    """
    units, start = Units.of(fold.train), time.process_time()
    model.fit(fold.train)
    scores = {}
    for task in tasks:
        questions = fold.questions(task.ask, fold.test)
        answer = model.answer(task.ask(fold.train), questions).standardised(units)
        questions = questions.standardised(units)
        for column, score in task.scores.items():
            scores[column] = score(questions, answer, units)
        if answer.lower is not None:
            scores |= intervals(task.name, questions, answer)
    return scores | {"CPU s": time.process_time() - start}


def intervals(name: str, questions: Questions, answer: Answer) -> Scores:
    """Share of the cells inside, and mean width in standard deviations."""
    known = ~np.isnan(questions.truth)
    inside = (questions.truth >= answer.lower) & (questions.truth <= answer.upper)
    width = answer.upper - answer.lower
    return {
        f"coverage, {name}": float(inside[known].mean()),
        f"width, {name}": float(width[known].mean()),
    }


PART = Part({name: own.folds for name, own in SETS.items()}, models, list(OWN), measure)
