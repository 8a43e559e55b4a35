"""When values of wards, patients and cells cross a line: sampled paths beside boosting.

    python -m benchmarks.crossing_sets --data FOLDER [--only oxygen bilirubin ...] [--seed 0]
    python -m benchmarks.crossing_sets --data FOLDER --glucose FILE --only glucose

FOLDER holds the sets of `benchmarks.real` and `benchmarks.longitudinal`, and NASA's cells in
`turbofan/battery.parquet`; FILE is that of `benchmarks.glucose`. Known are all rows up to one of a
series that did not train, whose last value is not beyond the line; asked is whether and when
observations, joined by straight lines, reach it. Of rows after which a series ends too early, and
has not crossed, nothing is known: others stand for them, by inverse probabilities of being followed
for as long, in scores and in training of trees. One fifth of the series is asked (the first fold);
of the three cells each in turn.

Prints the scores of `evaluate_crossings`, and the Brier score and the area under the ROC curve
(AUC) for half of the horizon and all of it. "boosting" are gradient boosted trees, trained to tell
for each of both horizons whether the line will be crossed, from every row of the training series:
from what `benchmarks.real` gives to trees, and of glucose from a filled grid, meals and insulin.
`PolyODETransformer()` is trained on the series alone and knows no question.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from benchmarks import glucose
from benchmarks.crossing_scores import scores, true_crossings, weights_of
from benchmarks.degradation import cells
from benchmarks.lines import heading, line
from benchmarks.real.questions import Questions
from benchmarks.real.rivals import causal_features
from benchmarks.real.sets import dealt, eicu, read_long, table
from skpolyode import Panel, PolyODETransformer
from skpolyode.futures.continued import Window, first_crossings
from skpolyode.panel.select import series_of_rows, take

FEWEST = 20  # values of a feature that trees look at
WINDOW = 30  # values that a line goes through
YEAR, NIGHT = 365.25, 14.0


class Line(NamedTuple):
    """What is asked of a set."""

    load: Callable[[Path], Panel]
    channel: str
    threshold: float
    direction: str
    horizon: float
    known: int  # rows, at least
    n_folds: int = 1
    n_series: int = 10**9


class Came(NamedTuple):
    """What came, since the last known rows."""

    actual: np.ndarray  # (n,): crossings; inf if not within the horizon
    followed: np.ndarray  # (n,): how long values were observed

    def within(self, horizon: float) -> tuple[np.ndarray, np.ndarray]:
        """Whether they crossed up to a horizon, and how many each stands for."""
        crossed = self.actual <= horizon
        own = np.where(crossed, self.actual, np.inf)
        return crossed, weights_of(own, self.followed, horizon)


class Case(NamedTuple):
    """Series that train, what is known of those that are asked, and features for boosting."""

    train: Panel
    known: Panel
    features: np.ndarray  # (n, F)
    came: Came
    learned: tuple[np.ndarray, Came]  # features of the training part


def battery(folder: Path) -> Panel:
    series = [(np.arange(1.0, len(x) + 1), x) for x in cells(folder / "turbofan")]
    return Panel.from_series(series, channel_names=["capacity"])


def longitudinal(name: str) -> Callable[[Path], Panel]:
    return lambda folder: read_long(folder / "longitudinal" / f"{name}.parquet")


LINES = {
    "battery": Line(battery, "capacity", 1.4, "below", 30.0, WINDOW, n_folds=3),
    "oxygen": Line(eicu, "o2sat", 88.0, "below", 2.0, 6, n_series=800),
    "bilirubin": Line(table("pbcseq"), "bili", 2.0, "above", 2 * YEAR, 2),
    "aneurysm": Line(longitudinal("aneurysm"), "diam", 50.0, "above", 5.0, 2),
    "nafld": Line(longitudinal("nafld"), "hdl", 40.0, "below", 2 * YEAR, 3, n_series=1500),
    "glucose": Line(battery, "glucose", 70.0, "below", 2.0, 2),
}


def asked(panel: Panel, what: Line) -> tuple[Panel, np.ndarray, Came]:
    """Known parts of series, features of them, and what came."""
    rows, series = np.arange(panel.n_observations), series_of_rows(panel)
    start, stop = panel.offsets[series], panel.offsets[series + 1]
    origin = rows[(rows - start + 1 >= what.known) & (rows + 1 < stop)]
    own = series[origin]
    known = take(panel, own, panel.offsets[own], origin + 1)
    future = take(panel, own, origin + 1, panel.offsets[own + 1])
    j, sign = panel.channel_names.index(what.channel), 1 if what.direction == "above" else -1
    came = Came(*true_crossings(known, future, j, sign, what.threshold, what.horizon))
    some = np.flatnonzero(sum(came.within(h)[1] for h in (what.horizon / 2, what.horizon)))
    features = causal_features(Questions(panel, origin[some], origin[some]))(j)
    return known[some], features, Came(*(x[some] for x in came))


def cases(what: Line, folder: Path) -> Iterator[Case]:
    panel = what.load(folder)
    panel = panel[np.random.default_rng(0).permutation(len(panel))[: what.n_series]]
    for fold in dealt(panel, what.n_folds):
        yield Case(fold.train, *asked(fold.test, what), asked(fold.train, what)[1:])


def glucose_case(file: Path, what: Line) -> Case:
    """Each fourth reading from two in the afternoon on; meals and insulin to come are known."""
    rng, rows = np.random.default_rng(0), pd.read_csv(file)
    series = [glucose.Series(own, rng) for _, own in rows.groupby("series", sort=True)]
    names = rng.permutation(sorted({own.patient for own in series}))
    parts: list[list] = [[], []]
    for own in series:
        parts[own.patient in names[: len(names) // 3]].append(own)
    found = []
    for part in parts:
        pairs = [(own, o) for own in part for o in np.flatnonzero(own.kept & (own.t > NIGHT))[::4]]
        pairs = [(s, o) for s, o in pairs if s.x[o] > what.threshold and s.t[o] + 2 <= s.t[-1]]
        later = [slice(o, o + 1 + int(what.horizon * 60 / glucose.STEP)) for _, o in pairs]
        heights = [what.threshold - s.x[rows] for (s, _), rows in zip(pairs, later, strict=True)]
        actual = first_crossings(np.linspace(0, what.horizon, len(heights[0])), np.array(heights).T)
        features = np.array([s.features(o, what.horizon) for s, o in pairs])
        came = Came(actual, np.full(len(pairs), what.horizon))
        found.append((pairs, features, came))
    (_, *learned), (pairs, *told) = found
    train = glucose.panel_of(parts[0], [None] * len(parts[0]), driven=True)
    known = glucose.panel_of(*map(list, zip(*pairs, strict=True)), driven=True)
    return Case(train, known, *told, tuple(learned))


def base_rate(case: Case, horizon: float) -> np.ndarray:
    """Share (n,) of those that trained who crossed."""
    crossed, weight = case.learned[1].within(horizon)
    return np.full(len(case.features), np.average(crossed, weights=weight))


def boosting(case: Case, horizon: float) -> np.ndarray:
    """Probabilities (n,) of trees that are trained for this horizon."""
    x, came = case.learned
    (crossed, weight), usable = came.within(horizon), (~np.isnan(x)).sum(axis=0) >= FEWEST
    trees = HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=100, max_leaf_nodes=8, random_state=0
    )
    trees.fit(x[:, usable], crossed, weight)
    return trees.predict_proba(case.features[:, usable])[:, 1]


def straight(case: Case, what: Line) -> Window:
    """The line of least squares through up to 30 last values, moved to the last one."""
    sign, found = (1 if what.direction == "above" else -1), []
    for t, x in case.known.to_series():
        own = x[:, case.known.channel_names.index(what.channel)]
        seen = np.flatnonzero(~np.isnan(own))[-WINDOW:]
        slope = sign * np.polyfit(t[seen], own[seen], 1)[0] if len(seen) > 1 else 0.0
        below = sign * (what.threshold - own[seen[-1]])
        when = t[seen[-1]] + below / slope - t[-1] if slope > 0 else np.inf
        found.append(max(when, 0.0) if when <= what.horizon else np.inf)
    return Window(np.isfinite(found).astype(float), *[np.array(found)] * 3)


def sampled(model: PolyODETransformer, case: Case, what: Line, horizon: float) -> Window:
    own = {"channel": what.channel, "direction": what.direction}
    found = model.crossing_times(case.known, what.threshold, horizon, "end", **own)
    end = case.known.times[case.known.offsets[1:] - 1]
    since = (found[name].to_numpy() - end for name in ("earliest", "median", "latest"))
    return Window(found["probability"].to_numpy(), *since)


def rows_of(name: str, what: Line, found: list[Case], seed: int) -> Iterator[str]:
    """Lines of the table, of all folds together."""
    came = Came(*(np.concatenate(x) for x in zip(*(own.came for own in found), strict=True)))
    horizons = what.horizon / 2, what.horizon
    crossed, weights = zip(*map(came.within, horizons), strict=True)
    asked = weights[1] > 0
    yield f"\n{name}: {asked.sum()} questions, {crossed[1].sum()} cross\n"
    titles = "answer", "Brier, half", "AUC, half", "Brier", "AUC", "timing error", "caught"
    yield "\n".join(heading([*titles, "false alarms", "coverage"]))

    def row(title: str, chances: list[np.ndarray], window: Window | None = None) -> str:
        columns = [title]
        for chance, own, weight in zip(chances, crossed, weights, strict=True):
            auc = roc_auc_score(own, chance, sample_weight=weight)
            brier = np.average((chance - own) ** 2, weights=weight)
            columns += [f"{brier:.4f}", f"{auc:.3f}"]
        times = (np.minimum(x, what.horizon) for x in (window or [chances[1]] * 4)[1:])
        answers = (x[asked] for x in (chances[1], *times, came.actual, weights[1]))
        told = scores(*answers, horizon=what.horizon)["value"][:4]
        shown = [f"{x:.3f}" for x in told]
        return line([*columns, *(shown if window else ["", *shown[1:3], ""])])

    rates = [np.concatenate([base_rate(own, h) for own in found]) for h in horizons]
    yield row("base rate", rates)
    lines = [straight(own, what) for own in found]
    through = Window(*map(np.concatenate, zip(*lines, strict=True)))
    yield row(
        "line through the last values", [(through.median <= h) * 1.0 for h in horizons], through
    )
    if name != "battery":
        yield row("boosting", [boosting(found[0], h) for h in horizons])
    start, answers = time.process_time(), []
    for own in found:
        model = PolyODETransformer(random_state=seed).fit(own.train)
        answers.append([sampled(model, own, what, h) for h in horizons])
    seconds = time.process_time() - start
    half, window = (Window(*map(np.concatenate, zip(*own))) for own in zip(*answers))  # noqa: B905
    title = f"crossing_times ({seconds:.0f} s)"
    yield row(title, [half.probability, window.probability], window)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--glucose", type=Path, help="file of benchmarks.glucose")
    parser.add_argument("--only", nargs="+", choices=LINES)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.only or [name for name in LINES if args.glucose or name != "glucose"]:
        what = LINES[name]
        if name == "glucose":
            found = [glucose_case(args.glucose, what)]
        else:
            found = list(cases(what, args.data))
        for text in rows_of(name, what, found, args.seed):
            print(text, flush=True)


if __name__ == "__main__":
    main()
