"""When values of wards, patients and cells cross a line: sampled paths beside boosting.

    python -m benchmarks.crossing_sets --data FOLDER [--only oxygen bilirubin ...] [--seed 0]
    python -m benchmarks.crossing_sets --data FOLDER --glucose FILE --only glucose

FOLDER holds the sets of `benchmarks.real` and `benchmarks.longitudinal`, and NASA's cells in
`turbofan/battery.parquet`; FILE is that of `benchmarks.glucose`. Known are all rows up to one of a
series that did not train, whose last value is not beyond the line; asked is whether and when
observations, joined by straight lines, reach it. Rows after which a series ends too early are left
out: were they asked where it crosses before, too, those who cross would be too many. So they are in
aneurysms, where what crosses is operated on. One fifth of the series is asked (the first fold); of
the three cells each in turn.

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
from benchmarks.degradation import cells
from benchmarks.lines import heading, line
from benchmarks.real.questions import Questions
from benchmarks.real.rivals import causal_features
from benchmarks.real.sets import dealt, eicu, read_long, table
from skpolyode import Panel, PolyODETransformer
from skpolyode.forecasting.crossings import scores, true_crossings
from skpolyode.futures.crossings import Window, first_crossings
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
    may_end: bool = False  # whether series that cross may be followed for less than the horizon


class Case(NamedTuple):
    """Series that train, what is known of those that are asked, and features for boosting."""

    train: Panel
    known: Panel
    actual: np.ndarray  # (n,): since the last known row; inf if not within the horizon
    features: np.ndarray  # (n, F)
    learned: tuple[np.ndarray, np.ndarray]  # features and crossings of the training part


def battery(folder: Path) -> Panel:
    series = [(np.arange(1.0, len(x) + 1), x) for x in cells(folder / "turbofan")]
    return Panel.from_series(series, channel_names=["capacity"])


def longitudinal(name: str) -> Callable[[Path], Panel]:
    return lambda folder: read_long(folder / "longitudinal" / f"{name}.parquet")


LINES = {
    "battery": Line(battery, "capacity", 1.4, "below", 30.0, WINDOW, n_folds=3),
    "oxygen": Line(eicu, "o2sat", 88.0, "below", 2.0, 6, n_series=800),
    "bilirubin": Line(table("pbcseq"), "bili", 2.0, "above", 2 * YEAR, 2),
    "aneurysm": Line(longitudinal("aneurysm"), "diam", 50.0, "above", 5.0, 2, may_end=True),
    "nafld": Line(longitudinal("nafld"), "hdl", 40.0, "below", 2 * YEAR, 3, n_series=1500),
    "glucose": Line(battery, "glucose", 70.0, "below", 2.0, 2),
}


def asked(panel: Panel, what: Line) -> tuple[Panel, np.ndarray, np.ndarray]:
    """Known parts of series, when they cross, and features of them."""
    rows, series = np.arange(panel.n_observations), series_of_rows(panel)
    start, stop = panel.offsets[series], panel.offsets[series + 1]
    origin = rows[(rows - start + 1 >= what.known) & (rows + 1 < stop)]
    own = series[origin]
    left = panel.times[panel.offsets[own + 1] - 1] - panel.times[origin]
    known = take(panel, own, panel.offsets[own], origin + 1)
    future = take(panel, own, origin + 1, panel.offsets[own + 1])
    j, sign = panel.channel_names.index(what.channel), 1 if what.direction == "above" else -1
    actual, is_asked = true_crossings(known, future, j, sign, what.threshold, what.horizon)
    is_asked &= (left >= what.horizon) | what.may_end
    features = causal_features(Questions(panel, origin[is_asked], origin[is_asked]))(j)
    return known[np.flatnonzero(is_asked)], actual[is_asked], features


def cases(what: Line, folder: Path) -> Iterator[Case]:
    panel = what.load(folder)
    panel = panel[np.random.default_rng(0).permutation(len(panel))[: what.n_series]]
    for fold in dealt(panel, what.n_folds):
        known, actual, features = asked(fold.test, what)
        yield Case(fold.train, known, actual, features, asked(fold.train, what)[:0:-1])


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
        found.append((pairs, features, actual))
    (_, *learned), (pairs, features, actual) = found
    train = glucose.panel_of(parts[0], [None] * len(parts[0]), driven=True)
    known = glucose.panel_of(*map(list, zip(*pairs, strict=True)), driven=True)
    return Case(train, known, actual, features, tuple(learned))


def boosting(case: Case, horizon: float) -> np.ndarray:
    """Probabilities (n,) of trees that are trained for this horizon."""
    x, actual = case.learned
    crossed, usable = actual <= horizon, (~np.isnan(x)).sum(axis=0) >= FEWEST
    trees = HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=100, max_leaf_nodes=8, random_state=0
    )
    return trees.fit(x[:, usable], crossed).predict_proba(case.features[:, usable])[:, 1]


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
    actual = np.concatenate([own.actual for own in found])
    horizons = what.horizon / 2, what.horizon
    crossed = [actual <= h for h in horizons]
    yield f"\n{name}: {len(actual)} questions, {crossed[1].sum()} cross\n"
    titles = "answer", "Brier, half", "AUC, half", "Brier", "AUC", "timing error", "caught"
    yield "\n".join(heading([*titles, "false alarms", "coverage"]))

    def row(title: str, chances: list[np.ndarray], window: Window | None = None) -> str:
        columns = [title]
        for chance, own in zip(chances, crossed, strict=True):
            auc = roc_auc_score(own, chance) if own.any() and not own.all() else np.nan
            columns += [f"{np.mean((chance - own) ** 2):.4f}", f"{auc:.3f}"]
        times = (np.minimum(x, what.horizon) for x in (window or [chances[1]] * 4)[1:])
        told = scores(chances[1], *times, actual, what.horizon)["value"][:4]
        shown = [f"{x:.3f}" for x in told]
        return line([*columns, *(shown if window else ["", *shown[1:3], ""])])

    rates = [
        np.concatenate([np.full(len(c.actual), np.mean(c.learned[1] <= h)) for c in found])
        for h in horizons
    ]
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
