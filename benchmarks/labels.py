"""Labels and numbers of real and simulated series: the default classifier beside simple baselines.

    python -m benchmarks.labels --data FOLDER --out FOLDER           # two hours of one core
    python -m benchmarks.labels --data FOLDER --out FOLDER --only storms pbcseq --folds 2
    python -m benchmarks.labels --data FOLDER --out FOLDER --report

FOLDER of `--data` holds the tables of `benchmarks.real`, and `fd001.parquet` in turbofan/; sets of
sktime and simulated ones need none. A cell is a set, a fold and a row; it is kept in a file of the
folder `--out`, so that a run that was stopped goes on.

Five folds of the series, in which classes are equally frequent; windows of an engine are in one
fold. Scores are areas under the ROC curve of two classes, the accuracy of several, R² of numbers;
of two classes average precision is shown as well. "Simple" are statistics with boosted trees, the
memory of HiPPO with support vectors or trees, and MiniRocket on straight lines, each with its
defaults. "Default less best simple" is the mean and its standard error over the folds, where the
best simple row has the best mean of these folds. A set is lost where this is below both -0.005 and
minus one standard error. A number in brackets: folds of the network, where it has fewer.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
import torch
from sklearn.base import is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import accuracy_score, average_precision_score, r2_score, roc_auc_score
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline, make_union

from benchmarks.label_sets import CLASSES, NUMBERS, Fold, folds
from benchmarks.lines import heading, line
from skpolyode import (
    HiPPOTransformer,
    InterpolationTransformer,
    PolyODEClassifier,
    PolyODERegressor,
    PolyODETransformer,
    StaticFeatures,
    SummaryStatsTransformer,
)

BOOSTING, HIPPO, LINES = "statistics, boosting", "HiPPO, SVC", "straight lines, MiniRocket"
SIMPLE = [BOOSTING, HIPPO, LINES]
DEFAULT, NETWORK = "`PolyODEClassifier()`", "`PolyODETransformer()`, `MLPClassifier()`"
ROWS = [*SIMPLE, DEFAULT, NETWORK]
MANY = 2000  # series from which MiniRocket and a grid of it need too much memory
GAP = 0.005


def boosting(fold: Fold, classifies: bool) -> Pipeline:
    trees = HistGradientBoostingClassifier if classifies else HistGradientBoostingRegressor
    features = SummaryStatsTransformer()
    if fold.train.panel.static is not None:
        features = make_union(features, StaticFeatures())
    return make_pipeline(features, trees(learning_rate=0.05, max_iter=200, random_state=0))


def measure(name: str, number: int, fold: Fold, rows: list[str], out: Path) -> None:
    """Write the scores of one fold, a file a row."""
    classifies = name in CLASSES
    ours = PolyODEClassifier if classifies else PolyODERegressor
    for row in rows:
        file = out / f"{name}-{row.strip('`').partition('(')[0]}-{number}.json"
        if file.exists() or (row == LINES and len(fold.train.y) > MANY):
            continue
        start, groups = time.process_time(), {"groups": fold.train.groups}
        if row == BOOSTING:
            model, groups = boosting(fold, classifies), {}
        elif row == HIPPO:
            model = ours(HiPPOTransformer(), features="coefficients", random_state=number)
        elif row == LINES:
            model = ours(InterpolationTransformer(), features="path", random_state=number)
        elif row == DEFAULT:
            model = ours(random_state=number)
        else:
            network = (MLPClassifier if classifies else MLPRegressor)(random_state=number)
            embedder, groups = PolyODETransformer(random_state=number), {}
            model = Pipeline([("emb", embedder), ("clf", network)])
        model.fit(fold.train.panel, fold.train.y, **groups)
        scores = scores_of(model, fold) | {"CPU s": time.process_time() - start}
        if row == DEFAULT:
            scores |= {"weights": model.weights_, "report": str(model.fit_report_)}
            scores["trained"] = isinstance(model.transformer_, PolyODETransformer)
        file.write_text(json.dumps(scores, indent=1))
        print(file.stem, f"{scores['score']:.3f}", f"{scores['CPU s']:.0f} s", flush=True)


def scores_of(model: object, fold: Fold) -> dict[str, float]:
    panel, truth = fold.test.panel, fold.test.y
    if not is_classifier(model):
        return {"score": r2_score(truth, model.predict(panel))}
    chances = model.predict_proba(panel)
    if chances.shape[1] > 2:
        return {"score": accuracy_score(truth, model.classes_[chances.argmax(axis=1)])}
    positive = truth == model.classes_[1]
    chance = chances[:, 1]
    return {
        "score": roc_auc_score(positive, chance),
        "precision": average_precision_score(positive, chance),
    }


Cells = dict[str, dict[int, dict]]  # of a set: by row and fold


def read_cells(out: Path, name: str) -> Cells:
    found: Cells = {row: {} for row in ROWS}
    for row in ROWS:
        stem = row.strip("`").partition("(")[0]
        for file in sorted(out.glob(f"{name}-{stem}-?.json")):
            found[row][int(file.stem[-1])] = json.loads(file.read_text())
    return found


def report(out: Path, names: list[str]) -> None:
    """A table of all sets that are there, losses first."""
    cells = {name: read_cells(out, name) for name in names}
    table = [summarise(name, found) for name, found in cells.items() if found[DEFAULT]]
    table.sort(key=lambda row: row[0])
    titles = ["set, folds", *ROWS, "default less best simple", "CPU s: default, network"]
    print("", *heading(titles), *(shown for _, shown in table), sep="\n")
    lost = sum(gap < -limit for (gap, limit), _ in table)
    better = sum(gap > limit for (gap, limit), _ in table)
    print(f"\nOf {len(table)} sets {better} are better than the best simple row, {lost} are lost.")


def summarise(name: str, found: Cells) -> tuple[tuple[float, float], str]:
    """The gap to the best simple row and what is level, and a line of the table.

    All rows are means of the folds of the default; the network may have fewer.
    """
    folds_of = {row: sorted(set(found[row]) & set(found[DEFAULT])) for row in ROWS}
    score = {row: np.array([found[row][k]["score"] for k in folds_of[row]]) for row in ROWS}
    n_folds = len(score[DEFAULT])
    best = max(
        (row for row in SIMPLE if len(score[row]) == n_folds), key=lambda row: score[row].mean()
    )
    gaps = score[DEFAULT] - score[best]
    error = gaps.std(ddof=1) / np.sqrt(n_folds) if n_folds > 1 else 0.0
    means = {row: values.mean() for row, values in score.items() if len(values)}
    most = max(means[row] for row in means if len(score[row]) == n_folds)
    cells, seconds = [], []
    for row in ROWS:
        each = [found[row][k] for k in folds_of[row]]
        cell = f"{means[row]:.3f}" if each else ""
        if each and "precision" in each[0]:
            cell += f" / {np.mean([fold['precision'] for fold in each]):.3f}"
        if 0 < len(each) < n_folds:
            cell += f" ({len(each)})"
        is_best = len(each) == n_folds and means[row] == most
        cells.append(f"**{cell}**" if is_best else cell)
        if row not in SIMPLE:
            seconds.append(f"{np.mean([fold['CPU s'] for fold in each]):.0f}" if each else "")
    limit = max(GAP, error)
    verdict = "better" if gaps.mean() > limit else "LOST" if gaps.mean() < -limit else "level"
    shown = f"{gaps.mean():+.3f} ± {error:.3f}, {verdict}"
    entries = [f"{name}, {n_folds}", *cells, shown, ", ".join(seconds)]
    return (float(gaps.mean()), float(limit)), line(entries)


def run_fold(name: str, number: int, args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of what windows cover, and of networks that do not converge
    fold = list(folds(name, args.data))[number]
    measure(name, number, fold, args.rows, args.out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the sets")
    parser.add_argument("--out", type=Path, required=True, help="folder of finished cells")
    names = [*CLASSES, *NUMBERS]
    parser.add_argument("--only", nargs="+", metavar="SET", help="how names of sets begin")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS, metavar="ROW")
    parser.add_argument("--folds", type=int, choices=range(1, 6), default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="only print what is there")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    names = [name for name in names if not args.only or name.startswith(tuple(args.only))]
    if not args.report:
        jobs = [(name, number, args) for number in range(args.folds) for name in names]
        joblib.Parallel(args.jobs)(joblib.delayed(run_fold)(*job) for job in jobs)
    report(args.out, names)


if __name__ == "__main__":
    main()
