"""Which blocks of PolyODE's embedding tell labels, before support vectors, a network and trees.

    python -m benchmarks.label_blocks --data FOLDER                     # an hour of one core
    python -m benchmarks.label_blocks --data FOLDER --only storms pbcseq

The first fold of the sets of `benchmarks.label_sets`: areas under the ROC curve, or accuracy of
three classes and more. Blocks are c, the coefficients; h, the signal and its recent past; w, the
learned state. "full" is c and h. The strength of support vectors is chosen by cross-validation.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from benchmarks.label_sets import CLASSES, folds
from benchmarks.lines import heading, line
from skpolyode import PolyODETransformer

BLOCKS = {
    "c": ("coefficients",),
    "c h": ("coefficients", "hidden"),
    "c w": ("coefficients", "state"),
    "c h w": ("coefficients", "hidden", "state"),
    "w": ("state",),
}
HEADS = {
    "SVC": GridSearchCV(SVC(break_ties=True), {"C": [1.0, 10.0]}),
    "MLP": MLPClassifier(random_state=0),
    "trees": ExtraTreesClassifier(min_samples_leaf=3, random_state=0),
}


def measure(name: str, folder: Path) -> list[float]:
    """A row of the table."""
    fold = next(folds(name, folder))
    fitted = PolyODETransformer(random_state=0).fit(fold.train.panel, groups=fold.train.groups)
    features = {}
    for title, blocks in BLOCKS.items():
        fitted.embedder_ = replace(fitted.embedder_, blocks=blocks)
        features[title] = [fitted.transform(part.panel) for part in fold]
    y, y_test = fold.train.y, fold.test.y
    found = []
    for head in HEADS.values():
        for Z, Z_test in features.values():
            model = clone(head).fit(Z, y)
            if len(model.classes_) > 2:
                found.append(model.score(Z_test, y_test))
                continue
            answer = getattr(model, "predict_proba", None) or model.decision_function
            score = answer(Z_test)
            positive = y_test == model.classes_[1]
            found.append(roc_auc_score(positive, score if score.ndim == 1 else score[:, 1]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the sets")
    parser.add_argument("--only", nargs="+", metavar="SET", help="how names of sets begin")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of networks that do not converge
    names = [name for name in CLASSES if not args.only or name.startswith(tuple(args.only))]
    print(*heading(["set", *(f"{h}, {b}" for h in HEADS for b in BLOCKS)]), sep="\n")
    rows = []
    for name in names:
        rows.append(measure(name, args.data))
        print(line([name, *(f"{x:.3f}" for x in rows[-1])]), flush=True)
    print(line(["mean", *(f"{x:.3f}" for x in np.mean(rows, axis=0))]))


if __name__ == "__main__":
    main()
