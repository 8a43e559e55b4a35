"""One head over all ages of a series, beside a classifier for each of six ages.

    python -m benchmarks.risk_along_time --out results --data folder [--only vowels] [--quick]

`folder` holds set a of the PhysioNet challenge of 2012 as `load_physionet2012` reads it, and long
tables of eICU and HURDAT2 (``eicu_mort_long.parquet`` and ``_y``, ``storms_...``: columns id, time,
channel, value, and y). At each of six ages, five folds: area under the ROC curve, Brier score and
calibration error (ten bins of equal size; of the most probable class if there are many) of
`predict_proba_path` and of classifiers that are fitted on series cut at that age. All have the same
transformer, features and head. JapaneseVowels, by share of the series, has its own split.

`--only early` compares when series are decided, and how well, with forests of sktime at eight
lengths, of which the first one that is sure enough decides. (With scikit-learn from 1.7 on, TEASER
of sktime 1.2 cannot be fitted, and its threshold classifier does not give its decisions.)
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from benchmarks import label_sets
from benchmarks.lines import heading, line
from benchmarks.real.sets import SETS
from skpolyode import HiPPOTransformer, InterpolationTransformer, Panel, PolyODEClassifier
from skpolyode.datasets import load_japanese_vowels, load_physionet2012
from skpolyode.panel.select import keep_rows

N_CUTS = 8
SHARES = np.arange(1, 7) / 6


class Task(NamedTuple):
    """Series with labels, and the ages at which they are judged: times, or shares of each."""

    panel: Panel
    y: np.ndarray
    ages: np.ndarray
    model: dict[str, Any]  # parameters of the classifier
    unit: str
    folds: list[tuple[np.ndarray, np.ndarray]] | None = None


def trees() -> dict[str, Any]:
    head = HistGradientBoostingClassifier(learning_rate=0.05, l2_regularization=1.0, random_state=0)
    return {"transformer": InterpolationTransformer(), "features": "summary", "head": head}


def physionet(data: Path) -> Task:
    found = load_physionet2012(data, "a")
    return Task(found.panel, found.y, np.array([6.0, 12.0, 18.0, 24.0, 36.0, 48.0]), trees(), "h")


def eicu(data: Path) -> Task:
    panel, y = label_sets.eicu(data)
    return Task(panel, y, np.array([2.0, 4.0, 8.0, 12.0, 18.0, 24.0]), trees(), "h")


def storms(data: Path) -> Task:
    panel = SETS["storms"].load(data)
    y = pd.read_parquet(data / "storms_y.parquet")["y"].loc[panel.ids].to_numpy()
    return Task(panel, y, np.array([12.0, 24.0, 36.0, 48.0, 72.0, 96.0]), trees(), "h")


def vowels(data: Path) -> Task:
    parts = [load_japanese_vowels(part) for part in ("train", "test")]
    sizes = [len(part.y) for part in parts]
    panel = Panel.concat([part.panel for part in parts], ids=range(sum(sizes)))
    fold = np.arange(sizes[0]), sizes[0] + np.arange(sizes[1])
    model = {"transformer": HiPPOTransformer(), "features": "coefficients"}
    return Task(panel, np.concatenate([p.y for p in parts]), SHARES, model, "of a series", [fold])


TASKS: dict[str, Callable[[Path], Task]] = {
    "vowels": vowels,
    "storms": storms,
    "eicu": eicu,
    "physionet": physionet,
}


def limits(task: Task, panel: Panel) -> np.ndarray:
    """Times (B, 6) of the six ages of each series."""
    if task.folds is None:
        return panel.start[:, None] + task.ages
    return panel.start[:, None] + task.ages * (panel.end - panel.start)[:, None]


def area(y: np.ndarray, p: np.ndarray) -> float:
    return float(roc_auc_score(y, p[:, 1] if p.shape[1] == 2 else p, multi_class="ovr"))


def brier(y: np.ndarray, p: np.ndarray) -> float:
    """Mean squared distance to the truth, half of the sum over classes."""
    truth = y[:, None] == np.unique(y)
    return float(np.mean(((p - truth) ** 2).sum(axis=1)) / 2)


def calibration_error(y: np.ndarray, p: np.ndarray, n_bins: int = 10) -> float:
    """Mean distance of probabilities and shares, over bins of as many series."""
    if p.shape[1] == 2:
        said, came = p[:, 1], y == np.unique(y)[1]
    else:
        said, came = p.max(axis=1), p.argmax(axis=1) == np.searchsorted(np.unique(y), y)
    bins = np.array_split(np.argsort(said, kind="stable"), n_bins)
    return float(sum(len(b) * abs(said[b].mean() - came[b].mean()) for b in bins) / len(y))


SCORES = {"area": area, "Brier": brier, "calibration": calibration_error}


def compare(task: Task) -> dict[str, list[float]]:
    """Scores at each age, of the path and of classifiers of their own."""
    n_series, n_ages, n_classes = len(task.y), len(task.ages), len(np.unique(task.y))
    answers = {kind: np.full((n_series, n_ages, n_classes), np.nan) for kind in ("path", "own")}
    folds = task.folds
    if folds is None:
        split = StratifiedKFold(5, shuffle=True, random_state=0)
        folds = list(split.split(task.y, task.y))
    for train, test in folds:
        known, asked = task.panel[train], task.panel[test]
        model = PolyODEClassifier(**task.model, n_cuts=N_CUTS, random_state=0)
        model.fit(known, task.y[train])
        times = limits(task, asked)
        path = model.predict_proba_path(asked, list(times))
        answers["path"][test] = path.values.reshape(len(test), n_ages, n_classes)
        for k in range(n_ages):
            cuts = [
                keep_rows(part, part.times <= np.repeat(limits(task, part)[:, k], part.lengths))
                for part in (known, asked)
            ]
            seen = [cut.lengths > 0 for cut in cuts]
            own = PolyODEClassifier(**task.model, random_state=0)
            own.fit(cuts[0][seen[0]], task.y[train][seen[0]])
            answers["own"][test[seen[1]], k] = own.predict_proba(cuts[1][seen[1]])
    found: dict[str, list[float]] = {}
    for kind, p in answers.items():
        for name, score in SCORES.items():
            seen = ~np.isnan(answers["own"]).any(axis=2)
            found[f"{name} {kind}"] = [
                score(task.y[seen[:, k]], p[seen[:, k], k]) for k in range(n_ages)
            ]
    return found


def early(quick: bool) -> list[dict[str, Any]]:
    """Share of a series that is seen before it is decided, and accuracy, of regular sets."""
    from sktime.classification.interval_based import TimeSeriesForestClassifier
    from sktime.datasets import load_arrow_head, load_gunpoint, load_italy_power_demand

    loaders = [load_italy_power_demand, load_gunpoint, load_arrow_head]
    rows = []
    for load in loaders[:1] if quick else loaders:
        parts = [
            load(split=part, return_X_y=True, return_type="numpy3D") for part in ("train", "test")
        ]
        (X, y), (asked, truth) = parts
        length, name = X.shape[2], load.__name__.removeprefix("load_")
        model = PolyODEClassifier(InterpolationTransformer(), features="path", n_cuts=N_CUTS)
        model.set_params(random_state=0).fit(Panel.from_sktime(X), y)
        panel = Panel.from_sktime(asked)
        last = model.predict_proba_path(panel, [length - 1.0]).values.argmax(axis=1)
        for confidence in (0.7, 0.8, 0.9, 0.95):
            table = model.decided_at(panel, confidence)
            label = table["class"].where(table["class"].notna(), model.classes_[last])
            seen = (table["time"].fillna(length - 1.0) + 1) / length
            row = {"set": name, "rule": f"decided_at({confidence})", "seen": float(seen.mean())}
            rows.append(row | {"accuracy": float(np.mean(label.to_numpy() == truth))})
        points = np.linspace(length / 8, length, 8).round().astype(int).tolist()
        forests = [
            TimeSeriesForestClassifier(n_estimators=20 if quick else 200, random_state=0)
            for _ in points
        ]
        pairs = list(zip(forests, points, strict=True))
        answers = [forest.fit(X[..., :n], y).predict_proba(asked[..., :n]) for forest, n in pairs]
        for confidence in (0.7, 0.8, 0.9, 0.95):
            sure = np.stack([p.max(axis=1) >= confidence for p in answers])
            sure[-1] = True
            first = sure.argmax(axis=0)
            label = np.stack(answers)[first, np.arange(len(truth))].argmax(axis=1)
            row = {"set": name, "rule": f"sktime's forests, threshold {confidence}"}
            row["seen"] = float(np.mean(np.array(points)[first] / length))
            rows.append(row | {"accuracy": float(np.mean(forests[0].classes_[label] == truth))})
    return rows


def small(task: Task, n_series: int = 160) -> Task:
    """A few series of each set, for a try, with all classes in both parts."""
    chosen = np.random.default_rng(0).permutation(len(task.y))[:n_series]
    model = task.model | (
        {"head": trees()["head"].set_params(max_iter=5)} if task.folds is None else {}
    )
    half = None if task.folds is None else [(np.arange(100), np.arange(100, n_series))]
    return task._replace(panel=task.panel[chosen], y=task.y[chosen], model=model, folds=half)


def report(name: str, task: Task, found: dict[str, list[float]]) -> str:
    ages = [f"{age:.2g} {task.unit}" for age in task.ages]
    rows = [line([label, *(f"{x:.3f}" for x in row)]) for label, row in found.items()]
    return "\n".join(["", *heading([name, *ages]), *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of results")
    parser.add_argument("--data", type=Path, help="folder of the sets")
    parser.add_argument("--only", nargs="+", choices=[*TASKS, "early"], default=[*TASKS, "early"])
    parser.add_argument("--quick", action="store_true", help="a few series of each set")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    asked.out.mkdir(exist_ok=True)
    for name in asked.only:
        start = time.perf_counter()
        if name == "early":
            rows = early(asked.quick)
            (asked.out / "early.json").write_text(json.dumps(rows))
            print(pd.DataFrame(rows).round(3).to_string(index=False))
            continue
        task = TASKS[name](asked.data)
        task = small(task) if asked.quick else task
        found = compare(task)
        (asked.out / f"{name}.json").write_text(json.dumps(found))
        print(report(name, task, found), f"\n\n{time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
