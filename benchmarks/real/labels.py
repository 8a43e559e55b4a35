"""Labels of stays and storms: memory, summary statistics, static covariates, and their union."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from benchmarks.real.part import Part, Scores
from benchmarks.real.sets import SETS, load_challenge
from skpolyode import (
    HiPPOTransformer,
    Panel,
    PolyODEClassifier,
    PolyODETransformer,
    StaticFeatures,
    SummaryStatsTransformer,
)
from skpolyode.panel.select import keep_rows

HURRICANE = 64.0  # knots
WINDOW = 24.0  # hours of a storm that are known


class Labelled(NamedTuple):
    panel: Panel  # with static covariates
    y: np.ndarray  # 0 or 1


def with_static(panel: Panel, static: pd.DataFrame) -> Panel:
    return Panel(
        panel.times,
        panel.values,
        panel.offsets,
        ids=panel.ids,
        channel_names=panel.channel_names,
        static=static.loc[panel.ids],
    )


def physionet(folder: Path) -> Labelled:
    data = load_challenge(folder)
    return Labelled(data.panel, data.y)


def eicu(folder: Path) -> Labelled:
    panel, table = SETS["eicu"].load(folder), pd.read_parquet(folder / "eicu_mort_y.parquet")
    panel = with_static(panel, table[["age", "sex", "height", "weight"]])
    return Labelled(panel, table["y"].loc[panel.ids].to_numpy())


def storms(folder: Path) -> Labelled:
    """Whether a storm will be a hurricane, from its first day.

    The label is read off the wind itself. So only the rows of the first 24 hours are used, and
    storms that were hurricanes by then, or were over, are left out.
    """
    panel = SETS["storms"].load(folder)
    table = pd.read_parquet(folder / "storms_y.parquet").loc[panel.ids, ["month", "year"]]
    wind = panel.values[:, panel.channel_names.index("wind")]
    early, strong = panel.times <= WINDOW, wind >= HURRICANE
    starts = panel.offsets[:-1]
    already, ever, later = (
        np.logical_or.reduceat(rows, starts) for rows in (strong & early, strong, ~early)
    )
    kept = np.flatnonzero(~already & later)
    panel = keep_rows(with_static(panel, table[["month"]]), early)[kept]
    return Labelled(panel, ever[kept].astype(int))


SETS_OF_LABELS: dict[str, Callable[[Path], Labelled]] = {
    "physionet, death": physionet,
    "eicu, death": eicu,
    "storms, hurricane later": storms,
}


class Fold(NamedTuple):
    train: Labelled
    test: Labelled


def folds(load: Callable[[Path], Labelled], folder: Path, n_folds: int) -> Iterator[Fold]:
    """Five folds, in which the label is equally frequent; the first `n_folds` are used."""
    panel, y = load(folder)
    parts = StratifiedKFold(5, shuffle=True, random_state=0).split(np.zeros(len(y)), y)
    for train, test in list(parts)[:n_folds]:
        yield Fold(*(Labelled(panel[part], y[part]) for part in (train, test)))


BLOCKS = {
    "static": StaticFeatures,
    "summary": SummaryStatsTransformer,
    "HiPPO": partial(HiPPOTransformer, n_coefficients=8, measure="legs"),
    "PolyODE": partial(PolyODETransformer, n_coefficients=8, random_state=0),
}
UNIONS = {
    "summary statistics": ["summary", "static"],
    "HiPPO legs, 8 coefficients": ["HiPPO", "static"],
    "PolyODE, 8 coefficients": ["PolyODE", "static"],
    "summary and HiPPO": ["summary", "HiPPO", "static"],
    "summary and PolyODE": ["summary", "PolyODE", "static"],
}
CLASSIFIER = 'PolyODEClassifier(scoring="roc_auc")'


def trees() -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(learning_rate=0.05, max_iter=200, random_state=0)


class Features:
    """Blocks of features of a fold, made when they are first asked for."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self.blocks: dict[str, list[np.ndarray]] = {}
        self.seconds: dict[str, float] = {}

    def of(self, names: list[str]) -> list[np.ndarray]:
        """Features of the training and of the test part, side by side."""
        for name in names:
            if name not in self.blocks:
                start = time.process_time()
                transformer = BLOCKS[name]().fit(self.fold.train.panel)
                self.blocks[name] = [transformer.transform(part.panel) for part in self.fold]
                self.seconds[name] = time.process_time() - start
        return [np.hstack([self.blocks[name][part] for name in names]) for part in (0, 1)]


def measure(_: str, fold: Fold, rows: list[str]) -> dict[str, Scores]:
    """Areas under the curves of the test part, and seconds of all that a row needs."""
    features, scores = Features(fold), {}
    for row in rows:
        if row == CLASSIFIER:
            start, names = time.process_time(), []
            model = PolyODEClassifier(scoring="roc_auc", random_state=0).fit(*fold.train)
            risk = model.predict_proba(fold.test.panel)[:, 1]
        else:
            names = UNIONS[row]
            train, test = features.of(names)
            start = time.process_time()
            risk = trees().fit(train, fold.train.y).predict_proba(test)[:, 1]
        spent = time.process_time() - start + sum(features.seconds[name] for name in names)
        scores[row] = {
            "AUROC": float(roc_auc_score(fold.test.y, risk)),
            "AUPRC": float(average_precision_score(fold.test.y, risk)),
            "CPU s": spent,
        }
    return scores


PART = Part(
    {name: partial(folds, load) for name, load in SETS_OF_LABELS.items()},
    lambda _: [*UNIONS, CLASSIFIER],
    ["PolyODE, 8 coefficients", "summary and PolyODE", CLASSIFIER],
    measure,
    larger_is_better=True,
)
