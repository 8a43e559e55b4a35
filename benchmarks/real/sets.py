"""The sets: how they are read, how they are split, what is asked and how answers are scored."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold
from sklearn.utils import Bunch

from benchmarks.real.questions import Ask, Questions, after, ahead, next_rows, one_step
from benchmarks.units import Units
from skpolyode import Panel
from skpolyode.datasets import load_physionet2012
from skpolyode.panel.select import take

EICU_CHANNELS = ["hr", "map", "dbp", "o2sat", "resp", "glu", "bun", "wbc", "temp", "crea"]
EARTH_RADIUS = 6371.0  # km


class Answer(NamedTuple):
    """Forecasts (Q, D) in the units of the questions, with interval or without."""

    mean: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None

    def standardised(self, units: Units) -> Answer:
        return Answer(*((x - units.mean) / units.scale for x in self if x is not None))


Score = Callable[[Questions, Answer, Units], float]


def variances(questions: Questions, answer: Answer, _: Units) -> float:
    """Squared error over all cells, in variances of the training part."""
    return float(np.nanmean((questions.truth - answer.mean) ** 2))


def by_lead(score: Score, low: float, high: float) -> Score:
    """A score of the leads that are larger than `low` and at most `high`."""

    def of(questions: Questions, answer: Answer, units: Units) -> float:
        kept = (questions.leads > low) & (questions.leads <= high)
        return score(questions.at(kept), Answer(answer.mean[kept]), units)

    return of


def kilometres(questions: Questions, answer: Answer, units: Units) -> float:
    """Mean distance on the globe between where a storm was and where it was expected."""
    there, expected = (
        np.radians(x * units.scale + units.mean)[:, :2] for x in (questions.truth, answer.mean)
    )
    half = np.sin((there - expected) / 2) ** 2
    chord = half[:, 0] + np.cos(there[:, 0]) * np.cos(expected[:, 0]) * half[:, 1]
    return float(2 * EARTH_RADIUS * np.arcsin(np.sqrt(chord.clip(0, 1))).mean())


def knots(questions: Questions, answer: Answer, units: Units) -> float:
    """Mean absolute error of the wind, the third channel."""
    return float(np.abs(questions.truth - answer.mean)[:, 2].mean() * units.scale[2])


class Task(NamedTuple):
    name: str
    ask: Ask
    scores: dict[str, Score]


class Fold(NamedTuple):
    """Panels to learn from and to forecast; only from some of the rows of the latter, or all."""

    train: Panel
    test: Panel
    origins: range | None = None

    def questions(self, ask: Ask, panel: Panel) -> Questions:
        """About the test part, in units of one's choice."""
        questions = ask(panel)
        if self.origins is None:
            return questions
        return questions.at(np.isin(questions.origin, self.origins))


class Set(NamedTuple):
    load: Callable[[Path], Panel]
    tasks: list[Task]
    season: int = 0  # of a single series, in rows; 0: many series

    def folds(self, folder: Path, n_folds: int) -> Iterator[Fold]:
        panel = self.load(folder)
        return rolling(panel, n_folds) if self.season else dealt(panel, n_folds)


def dealt(panel: Panel, n_folds: int) -> Iterator[Fold]:
    """Five folds of the series (as many as series, if fewer), of which the first are used."""
    parts = list(KFold(min(5, panel.n_series), shuffle=True, random_state=0).split(panel.lengths))
    for train, test in parts[:n_folds]:
        yield Fold(panel[train], panel[test])


def rolling(panel: Panel, n_folds: int) -> Iterator[Fold]:
    """Trained on the first 90, 80, ..., 50 % of a series, asked from each row of the next tenth."""
    cuts = (panel.n_observations * np.linspace(0.5, 1.0, 6)).astype(int)
    for cut, end in list(pairwise(cuts))[: -n_folds - 1 : -1]:
        train = take(panel, np.array([0]), np.array([0]), np.array([cut]))
        yield Fold(train, panel, range(cut - 1, end - 1))


def read_long(file: Path, channels: list[str] | None = None) -> Panel:
    long = pd.read_parquet(file).sort_values(["id", "time"])
    if channels:
        long = long[long["channel"].isin(channels)]
    return Panel.from_long(long, id="id", time="time", channel="channel", value="value")


def table(name: str, channels: list[str] | None = None) -> Callable[[Path], Panel]:
    """Reader of a long table `id, time, channel, value`."""

    def load(folder: Path) -> Panel:
        panel = read_long(folder / f"{name}_long.parquet", channels)
        return ordered(panel, channels) if channels else panel

    return load


def ordered(panel: Panel, channels: list[str]) -> Panel:
    order = [panel.channel_names.index(name) for name in channels]
    return Panel(
        panel.times, panel.values[:, order], panel.offsets, ids=panel.ids, channel_names=channels
    )


def eicu(folder: Path) -> Panel:
    """Ten variables; typing errors are clipped to the .1 and 99.9 percentiles."""
    panel = table("eicu_mort", EICU_CHANNELS)(folder)
    low, high = np.nanpercentile(panel.values, [0.1, 99.9], axis=0)
    return panel.like(panel.times, panel.values.clip(low, high), panel.offsets)


def physionet(folder: Path) -> Panel:
    return load_challenge(folder).panel


def load_challenge(folder: Path) -> Bunch:
    """Set a of the challenge, from its own files or from them in an archive."""
    if (folder / "set-a").is_dir():
        return load_physionet2012(folder)
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(folder / "physionet2012_set_a.tgz") as archive:
            archive.extractall(unpacked, filter="data")
        return load_physionet2012(next(Path(unpacked).rglob("set-a")).parent)


def single(loader: str) -> Callable[[Path], Panel]:
    """A series that comes with sktime, on its row numbers."""

    def load(_: Path) -> Panel:
        import sktime.datasets

        series = getattr(sktime.datasets, loader)()
        parts = series if isinstance(series, tuple) else (series,)
        values = pd.concat(parts, axis=1).to_numpy(dtype=np.float64)
        return Panel(np.arange(float(len(values))), values, [0, len(values)])

    return load


def storm_scores() -> dict[str, Score]:
    scores = {}
    for name, score in (("km", kilometres), ("kt", knots)):
        scores |= {f"{h} h, {name}": by_lead(score, h - 1, h) for h in (12, 24, 48)}
    return scores


def rows_ahead(*limits: int) -> Task:
    """Scores by groups of leads, in rows: up to the first limit, from there to the second, ..."""
    edges = list(pairwise((0, *limits)))
    scores = {f"{low + 1} to {high} rows": by_lead(variances, low, high) for low, high in edges}
    return Task(f"1 to {limits[-1]} rows", next_rows(limits[-1]), scores)


ONE_STEP = Task("one step", one_step, {"one step": variances})
SETS: dict[str, Set] = {
    "eicu": Set(eicu, [ONE_STEP, Task("12 h ahead", after(12.0), {"12 h ahead": variances})]),
    "storms": Set(
        table("storms", ["lat", "long", "wind", "pressure"]),
        [ONE_STEP, Task("12 to 48 h", ahead(12.0, 24.0, 48.0, every=12.0), storm_scores())],
    ),
    "pbcseq": Set(table("pbcseq"), [ONE_STEP]),
    "wages": Set(table("wages"), [ONE_STEP]),
    "physionet": Set(physionet, [ONE_STEP]),
    "airline": Set(single("load_airline"), [rows_ahead(3, 12, 24)], season=12),
    "lynx": Set(single("load_lynx"), [rows_ahead(3, 10)], season=10),
    "uschange": Set(single("load_uschange"), [rows_ahead(1, 4, 8)], season=4),
}
