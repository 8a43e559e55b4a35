"""Forecasts of PolyODE and its rivals on the real sets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.real.questions import Questions
from benchmarks.real.rivals import PANEL_RIVALS, Rival, single_rivals
from benchmarks.real.sets import SETS, Answer, Fold, Set, Units
from skpolyode import Panel, PolyODETransformer
from skpolyode.forecasting import PolyODEForecaster

LEVELS = (0.05, 0.5, 0.95)


def is_one_step(questions: Questions) -> bool:
    return bool((questions.target == questions.origin + 1).all())


class Transformer:
    """`PolyODETransformer`, its defaults."""

    def fit(self, panel: Panel) -> None:
        self.model = PolyODETransformer(random_state=0).fit(panel)

    def answer(self, _: Questions, test: Questions) -> Answer:
        if is_one_step(test):
            errors = self.model.residuals(test.panel).values[test.target]
            return Answer(test.truth - errors)
        known, order, times = test.histories()
        return Answer(in_order(self.model.forecast(known, times).values, order))


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

    def fit(self, panel: Panel) -> None:
        pass

    def answer(self, training: Questions, test: Questions) -> Answer:
        return Answer(self.rival(training, test))


def in_order(values: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Rows in the order of the questions, from those in the order of the histories."""
    result = np.empty_like(values)
    result[order] = values
    return result


Row = Callable[[], Any]
OWN: dict[str, Row] = {"PolyODETransformer()": Transformer, "PolyODEForecaster()": Forecaster}
ROWS = [*OWN, *dict.fromkeys([*PANEL_RIVALS, *single_rivals(1)])]


def rows_of(own: Set) -> dict[str, Row]:
    rivals = single_rivals(own.season) if own.season else PANEL_RIVALS
    return OWN | {name: lambda rival=rival: Fitted(rival) for name, rival in rivals.items()}


def measure(name: str, fold: Fold, row: str) -> dict[str, float]:
    """All scores of one row on one fold; intervals too, where there are any."""
    torch.set_num_threads(1)
    own, units = SETS[name], Units.of(fold.train)
    train, test = units.standardised(fold.train), units.standardised(fold.test)
    model, start = rows_of(own)[row](), time.perf_counter()
    model.fit(train)
    scores = {}
    for task in own.tasks:
        questions = fold.questions(task.ask, test)
        answer = model.answer(task.ask(train), questions)
        for column, score in task.scores.items():
            scores[column] = score(questions, answer, units)
        if answer.lower is not None:
            scores |= intervals(next(iter(task.scores)), questions, answer)
    return scores | {"seconds": time.perf_counter() - start}


def intervals(column: str, questions: Questions, answer: Answer) -> dict[str, float]:
    """Share of the cells inside, and mean width in standard deviations."""
    known = ~np.isnan(questions.truth)
    inside = (questions.truth >= answer.lower) & (questions.truth <= answer.upper)
    width = answer.upper - answer.lower
    where = column.partition(",")[0]
    return {
        f"coverage, {where}": float(inside[known].mean()),
        f"width, {where}": float(width[known].mean()),
    }


def table_of(found: pd.DataFrame) -> list[str]:
    """Lines of a markdown table: means over the folds, the best of each error in bold."""
    means = found.groupby("row", sort=False).mean(numeric_only=True).drop(columns="fold")
    columns = [c for c in means if not c.startswith(("coverage", "width"))]
    lines = [
        f"| {found['set'].iloc[0]} | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for row, line in means.iterrows():
        cells = []
        for column in columns:
            text = f"{line[column]:.1f}" if column == "seconds" else shown(line[column])
            best = column != "seconds" and line[column] == means[column].min()
            cells.append(f"**{text}**" if best else text)
        lines.append(f"| {row} | {' | '.join(cells)} |")
    for row, line in means.iterrows():
        own = {c: line[c] for c in means if c not in columns and not np.isnan(line[c])}
        if own:
            parts = ", ".join(f"{column} {value:.3f}" for column, value in own.items())
            lines.append(f"\nIntervals of 90 %, {row}: {parts}.")
    return lines


def shown(value: float) -> str:
    """Three significant digits, without exponents."""
    if value >= 100 or value == 0:
        return f"{value:.0f}"
    return f"{value:.{max(0, 2 - int(np.floor(np.log10(abs(value)))))}f}"


def losses(found: pd.DataFrame, own: str) -> list[str]:
    """Errors of which a rival has a smaller mean, and in how many folds it has."""
    errors = found.drop(columns=["set", "fold", "seconds"])
    errors = errors[[c for c in errors if not c.startswith(("coverage", "width"))]]
    means = errors.groupby("row", sort=False).mean()
    lines = []
    for column in means.columns:
        best = means[column].drop([row for row in OWN if row in means.index]).idxmin()
        mine, rival = means.loc[own, column], means.loc[best, column]
        if rival < mine:
            folds = [errors.loc[errors["row"] == row, column].to_numpy() for row in (own, best)]
            often = int((folds[1] < folds[0]).sum())
            pair = f"{shown(mine)} against {shown(rival)}, {mine / rival:.2f} times"
            lines.append(
                f"{found['set'].iloc[0]}, {column}: {own} loses to {best} ({pair}; "
                f"in {often} of {len(folds[0])} folds)"
            )
    return lines
