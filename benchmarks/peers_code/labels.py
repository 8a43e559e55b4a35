"""Labels of stays, storms and simulated series: neural classifiers of peers beside ours.

    python -m benchmarks.peers_code.labels --data FOLDER --seeds 0 1 2 3 4      # an hour or two
    python -m benchmarks.peers_code.labels --data FOLDER --only storms --rows "summary, boosting"

FOLDER holds `eicu_mort_long.parquet`, `storms_long.parquet` and their `_y`. A seed is one of five
folds of stays (death in hospital, ten variables) or storms (a hurricane after the first day); of
Lorenz63 it is a draw of 1000 series, whose label is the sign of a state in the past that is not
observed, a quarter of them to test. Nobody is given static covariates, which most peers cannot
read. Scores are areas under the curve of test series. Networks take a fifth of the training series
to stop by.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.label_sets import folds
from benchmarks.peers_code.rows import Adapter, Command, Run, main
from benchmarks.real.part import Scores
from benchmarks.units import Units
from skpolyode import Panel
from skpolyode.datasets import make_lorenz63

NAMES = {"eicu": "eICU, death", "storms": "storms, hurricane later"}
N_SIMULATED = 1000


class Labelled(NamedTuple):
    """Standardised panels and their labels, 0 or 1."""

    train: Panel
    y: np.ndarray
    test: Panel
    y_test: np.ndarray

    def parts(self, seed: int) -> list[np.ndarray]:
        """Series of the training part to learn from, and those to stop by."""
        every = np.arange(len(self.y))
        parts = train_test_split(every, test_size=0.2, stratify=self.y, random_state=seed)
        return [np.sort(part) for part in parts]


def load(name: str, folder: Path, seed: int) -> Labelled:
    if name == "Lorenz63":
        data = make_lorenz63(N_SIMULATED, rate=0.3, random_state=seed)
        test = np.asarray(data.split) == "test"
        pairs = [(data.panel[part], data.y[part]) for part in (~test, test)]
    else:
        pairs = [part[:2] for part in list(folds(NAMES[name], folder))[seed]]
    (train, y), (test, y_test) = pairs
    units = Units.of(train)
    return Labelled(units.standardised(train), y, units.standardised(test), y_test)


def measure(adapter: Adapter, data: Labelled, run: Run) -> Scores:
    return {"AUC": roc_auc_score(data.y_test, adapter(data, run))}


OF_LORENZ = {
    "PolyODETransformer(window=5), its end, network": "ours:clocked",
    "path of PolyODE at common times, MiniRocket": "ours:learned_path",
}
ADAPTERS = {
    "PolyODEClassifier()": "ours:classifier",
    "PolyODETransformer(), boosting": "ours:embedding",
    **OF_LORENZ,
    "neural CDE (torchcde)": "cde:neural_cde",
    "GRU-D (PyPOTS)": "pypots_models:grud_classifier",
    "BRITS (PyPOTS)": "pypots_models:brits_classifier",
    "MiniRocket (sktime), ridge": "trees:minirocket",
    "summary, boosting": "trees:boosting",
}
COMMAND = Command(
    "benchmarks.peers_code.labels",
    __doc__,
    load,
    measure,
    {
        "eicu": [row for row in ADAPTERS if row not in OF_LORENZ],
        "storms": [row for row in ADAPTERS if row not in OF_LORENZ],
        "Lorenz63": list(ADAPTERS),
    },
    ADAPTERS,
    larger_is_better=True,
)

if __name__ == "__main__":
    main(COMMAND)
