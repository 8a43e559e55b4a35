"""One number of the tables on intensive care: a method and a split."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.utils import Bunch

from benchmarks.paper.cells import Setting
from benchmarks.paper.mimic_extract import load_mimic_extract
from benchmarks.paper.physionet_extract import load_physionet_vitals
from benchmarks.paper.rows import all_rows, with_past
from benchmarks.protocol import reconstruction_mse
from skpolyode import PolyODEClassifier
from skpolyode.datasets import drop_times
from skpolyode.forecasting import evaluate_forecasts
from skpolyode.panel import Panel

MIMIC = Setting("MIMIC-III", None, "by subject")
PHYSIONET = Setting("PhysioNet 2012", None, "by stay")
LOADERS = {MIMIC: load_mimic_extract, PHYSIONET: load_physionet_vitals}
WINDOW = 23.0
PARAMETERS = {"window": WINDOW, "n_coefficients": 18}
LAST_KNOWN = 18.0  # hour
HIDDEN = 0.2
CLASSIFIER = "PolyODEClassifier"  # with its own features and heads: labels alone


@dataclass(frozen=True)
class MimicCell:
    path: str
    row: str
    seed: int
    n_stays: int | None
    limits: dict[str, Any]
    setting: Setting = MIMIC

    def settings(self) -> dict[str, Any]:
        return {
            **self.setting._asdict(),
            "row": self.row,
            "seed": self.seed,
            "n_stays": self.n_stays,
            "parameters": {name: repr(own) for name, own in self._estimator().get_params().items()},
        }

    def run(self) -> dict[str, float]:
        """Fit on the training subjects and score on the test subjects."""
        data = _first(_load(self.setting, self.path, self.seed), self.n_stays)
        start = time.process_time()
        if self.row == CLASSIFIER:  # as the heads of other rows, it learns from validation stays
            test = data.split == "test"
            model = self._estimator().fit(data.panel[~test], data.y[~test])
            seconds = time.process_time() - start
            chance = model.predict_proba(data.panel[test])[:, 1]
            return {"fit_seconds": seconds, "auc": roc_auc_score(data.y[test], chance)}
        row = all_rows()[self.row]
        train = data.panel[data.split == "train"]
        estimator = self._estimator().fit(train)
        results = {"fit_seconds": time.process_time() - start}
        results["auc"] = row.auc(estimator.transform(data.panel), data, self.seed)
        test = data.panel[data.split == "test"]
        reader = with_past(estimator, train, self.seed, **PARAMETERS | self.limits)
        if reader is not None:
            kept, hidden = drop_times(test, HIDDEN, random_state=self.seed)
            for name, panel, targets in [("observed", test, test), ("held_out", kept, hidden)]:
                error = reconstruction_mse(reader, panel, targets, data.scale, WINDOW)
                results[f"reverse_{name}_mse"] = error
        if hasattr(estimator, "forecast"):
            results["forecast_mse"] = forecast_mse(estimator, test, data.scale)
        return results

    def _estimator(self) -> Any:
        if self.row == CLASSIFIER:
            return PolyODEClassifier(random_state=self.seed)
        return all_rows()[self.row].estimator(self.seed, **PARAMETERS | self.limits)


def forecast_mse(estimator: Any, panel: Panel, scale: np.ndarray) -> float:
    """Error of the hours after `LAST_KNOWN`, in units of the variance of each channel."""
    table = evaluate_forecasts(estimator, panel, cutoff=LAST_KNOWN, metrics=["mse"])
    seen = table["n"].to_numpy() > 0
    errors = table["value"].to_numpy()[seen] / scale[seen] ** 2
    return float(np.average(errors, weights=table["n"].to_numpy()[seen]))


# The cells of a split follow each other.
@lru_cache(maxsize=1)
def _load(setting: Setting, path: str, seed: int) -> Bunch:
    return LOADERS[setting](path, random_state=seed)


def _first(data: Bunch, n_stays: int | None) -> Bunch:
    """The first stays of a data set, in the units of all."""
    own = slice(n_stays)
    return Bunch(panel=data.panel[own], y=data.y[own], split=data.split[own], scale=data.scale)
