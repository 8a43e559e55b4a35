"""Classification of real and simulated series of which a share of the cells is hidden.

    python -m benchmarks.real_classification --out results [--quick | --report]
    python -m benchmarks.real_classification --out results --only Lorenz63 Synthetic --draws 1

Six sets that come with sktime, in their own split, and the paper's three simulated systems (1000
independent series, half of them to train on); 0, 50 and 70 % of all cells dropped, three draws.
Every choice (C of the support vectors, kind of features, strength of the ridge) is made by
cross-validation on the training part; all else are defaults. A cell is a set, a share and a draw;
it is kept in a file of the folder `--out`, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import torch
from sklearn.frozen import FrozenEstimator

from benchmarks.lines import heading, line
from skpolyode import (
    HiPPOTransformer,
    InterpolationTransformer,
    Panel,
    PolyODEClassifier,
    PolyODETransformer,
)
from skpolyode.datasets import (
    drop_cells,
    load_japanese_vowels,
    make_lorenz63,
    make_lorenz96,
    make_synthetic,
)

SETS = [  # the cheap ones first
    "ItalyPowerDemand",
    "GunPoint",
    "ArrowHead",
    "BasicMotions",
    "JapaneseVowels",
    "Synthetic",
    "Lorenz63",
    "Lorenz96",
    "OSULeaf",
]
# At these rates a share of the grid is there before anything is dropped; one seed for all draws.
MAKERS = {
    "Synthetic": partial(make_synthetic, rate=0.7),
    "Lorenz63": partial(make_lorenz63, rate=0.3),
    "Lorenz96": partial(make_lorenz96, rate=0.3),
}
LOADERS = {
    "ItalyPowerDemand": "load_italy_power_demand",
    "GunPoint": "load_gunpoint",
    "ArrowHead": "load_arrow_head",
    "BasicMotions": "load_basic_motions",
    "OSULeaf": "load_osuleaf",
}
N_SIMULATED = 1000
SHARES = [0.5, 0.7, 0.0]  # in the order of what one wants to know first
DEFAULT = "PolyODEClassifier"
# Embedder (None: PolyODE, trained once a cell) and features.
METHODS: dict[str, tuple[Callable | None, str]] = {
    DEFAULT: (None, "auto"),
    "PolyODE coefficients + SVM": (None, "coefficients"),
    "MiniRocket, learned path": (None, "path"),
    "learned path at common times + SVM": (None, "clock"),
    "MiniRocket, linear path": (InterpolationTransformer, "path"),
    "linear path at common times + SVM": (InterpolationTransformer, "clock"),
    "HiPPO coefficients + SVM": (HiPPOTransformer, "coefficients"),
    "summary statistics + trees": (InterpolationTransformer, "summary"),
}


def load(name: str, part: str) -> tuple[Panel, np.ndarray]:
    if name == "JapaneseVowels":
        data = load_japanese_vowels(part)
        return data.panel, data.y
    if name in MAKERS:
        data = MAKERS[name](N_SIMULATED, random_state=0)
        half = slice(None, N_SIMULATED // 2) if part == "train" else slice(N_SIMULATED // 2, None)
        return data.panel[half], data.y[half]
    import sktime.datasets

    loader = getattr(sktime.datasets, LOADERS[name])
    X, y = loader(split=part, return_X_y=True, return_type="numpy3D")
    return Panel.from_sktime(X), np.asarray(y)


def hidden(panel: Panel, share: float, seed: int) -> Panel:
    return drop_cells(panel, share, random_state=seed)[0] if share else panel


def run_cell(name: str, share: float, draw: int) -> dict:
    train, y = load(name, "train")
    test, truth = load(name, "test")
    train, test = hidden(train, share, 2 * draw), hidden(test, share, 2 * draw + 1)
    start = time.perf_counter()
    polyode = PolyODETransformer(random_state=draw).fit(train)
    result = {"n_test": len(truth), "training": time.perf_counter() - start, "methods": {}}
    for method, (embedder, features) in METHODS.items():
        start = time.perf_counter()
        chosen = FrozenEstimator(polyode) if embedder is None else embedder()
        model = PolyODEClassifier(chosen, features=features, random_state=draw).fit(train, y)
        result["methods"][method] = {
            "accuracy": model.score(test, truth),
            "seconds": time.perf_counter() - start,
            "features": model.features_,
            "cv_scores": model.cv_scores_,
        }
    return result


def cell_file(out: Path, name: str, share: float, draw: int) -> Path:
    return out / f"{name}-{share:.0%}-{draw}.json"


def run_missing(out: Path, name: str, share: float, draw: int) -> None:
    file = cell_file(out, name, share, draw)
    if file.exists():
        return
    torch.set_num_threads(1)
    cell = run_cell(name, share, draw)
    file.write_text(json.dumps(cell, indent=1))
    rates = "  ".join(f"{m}: {x['accuracy']:.3f}" for m, x in cell["methods"].items())
    print(f"{file.stem}: trained in {cell['training']:.0f} s; {rates}", flush=True)


def report(out: Path, names: list[str]) -> None:
    """A table of all cells that are there, a row a set and share; losses first."""
    rows = []
    for name, share in itertools.product(names, sorted(SHARES)):
        files = sorted(out.glob(f"{name}-{share:.0%}-*.json"))
        if files:
            rows.append(summarise(name, share, [json.loads(file.read_text()) for file in files]))
    rows.sort(key=lambda row: row[0])  # losses are False
    head = heading(["set, cells dropped, draws", *METHODS, "default is"])
    print("", *head, *(shown for _, shown in rows), sep="\n")
    print(f"\nbest or within one standard error: {sum(good for good, _ in rows)} of {len(rows)}")


def summarise(name: str, share: float, cells: list[dict]) -> tuple[bool, str]:
    """Whether the default is within one standard error of the best, and a line of the table.

    The standard error is the larger one of that over the draws and of a share of the test series.
    """
    mean, error = {}, {}
    for method in METHODS:
        found = np.array([cell["methods"][method]["accuracy"] for cell in cells])
        mean[method] = found.mean()
        of_draws = found.std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else 0.0
        n_test = cells[0]["n_test"]
        share_right = (n_test * mean[method] + 1) / (n_test + 2)  # all right is not certain
        error[method] = max(of_draws, np.sqrt(share_right * (1 - share_right) / n_test))
    best = max(mean, key=mean.get)
    gap = mean[best] - mean[DEFAULT]
    good = gap <= max(error[best], error[DEFAULT])
    verdict = "best" if gap == 0 else f"{'near' if good else 'LOSES to'} {best} ({-gap:.3f})"
    parts = [f"{mean[m]:.3f} ± {error[m]:.3f}" for m in METHODS]
    return bool(good), line([f"{name}, {share:.0%}, {len(cells)}", *parts, verdict])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of finished cells")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--report", action="store_true", help="only print what is there")
    parser.add_argument("--quick", action="store_true", help="a set, a share and a draw")
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS, metavar="SET")
    parser.add_argument("--draws", type=int, default=3)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    names, shares, n_draws = args.only, SHARES, args.draws
    if args.quick:
        names, shares, n_draws = (["ItalyPowerDemand"], SHARES[:1], 1)
    # First all sets at the first share, one draw each.
    cells = [(n, s, d) for d in range(n_draws) for s in shares for n in names]
    if not args.report:
        joblib.Parallel(args.jobs)(joblib.delayed(run_missing)(args.out, *cell) for cell in cells)
    report(args.out, names)


if __name__ == "__main__":
    main()
