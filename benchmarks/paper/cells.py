"""One number of the tables on the synthetic sets: a data set, a method and a seed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from benchmarks.paper.backward import Backward
from benchmarks.paper.metrics import horizon_metrics, past_metrics
from benchmarks.paper.rows import all_rows, with_past
from benchmarks.paper.truth import with_truth
from benchmarks.protocol import PAPER_WINDOW, reverse_reconstruction
from skpolyode.datasets import make_lorenz63, make_lorenz96, make_synthetic
from skpolyode.panel import Panel

MAKERS = {"Synthetic": make_synthetic, "Lorenz63": make_lorenz63, "Lorenz96": make_lorenz96}
RATES = {"Synthetic": (0.7, 0.8, 0.9), "Lorenz63": (0.3, 0.4, 0.5), "Lorenz96": (0.3, 0.4, 0.5)}
PROTOCOLS = ("paper-code", "independent")


class Size(NamedTuple):
    """How much of a table is computed."""

    n_series: int
    n_seeds: int
    n_rates: int
    limits: dict[str, Any]  # parameters that make training shorter
    n_sibling_seeds: int = 5


FULL = Size(n_series=1000, n_seeds=5, n_rates=3, limits={})
QUICK = Size(n_series=200, n_seeds=1, n_rates=1, limits={"max_epochs": 20})


class Setting(NamedTuple):
    """Which data; a table has one of them, a cell of it a row and a seed more."""

    dataset: str
    rate: float | None
    protocol: str


@dataclass(frozen=True)
class Cell:
    setting: Setting
    row: str
    seed: int
    size: Size

    def settings(self) -> dict[str, Any]:
        """All that the result depends on, but the version of the package."""
        parameters = self._estimator().get_params()
        return {
            **self.setting._asdict(),
            "row": self.row,
            "seed": self.seed,
            "n_series": self.size.n_series,
            "parameters": {name: repr(own) for name, own in parameters.items()},
        }

    def run(self) -> dict[str, float]:
        """Fit on the training part and score on the test part."""
        row, data = all_rows()[self.row], _make(*self.setting, self.size.n_series, self.seed)
        data = with_truth(data) if row.sees_truth else data
        train, test = (data.panel[data.split == part] for part in ("train", "test"))
        start = time.process_time()
        estimator = self._estimator().fit(train)
        results = {"fit_seconds": time.process_time() - start}
        embedding = with_clock(estimator.transform(data.panel), data.panel)
        results["auc"] = row.auc(embedding, data, self.seed)
        results["label_regression_mse"] = row.label_regression_mse(embedding, data, self.seed)
        limits = {"window": PAPER_WINDOW, **self.size.limits}
        if (reader := with_past(estimator, train, self.seed, **limits)) is not None:
            results["reverse_observed_mse"] = reverse_reconstruction(reader, data).observed
            results |= past_metrics(reader, data, "reverse_held_out")
        if row.has_field:
            results |= past_metrics(Backward(estimator), data, "reverse_backward")
        if hasattr(estimator, "score"):
            results["forecasting_mse"] = -float(estimator.score(test))
            results |= horizon_metrics(estimator, data)
        return results

    def _estimator(self) -> Any:
        return all_rows()[self.row].estimator(self.seed, window=PAPER_WINDOW, **self.size.limits)


def with_clock(embedding: np.ndarray, panel: Panel) -> np.ndarray:
    """Append when each series was embedded, in standard deviations, unless all were together.

    The label belongs to a time by the clock, and an embedding looks back from the last observation:
    without this nobody, not even one who knows the truth, could tell where to look.
    """
    end = panel.times[panel.offsets[1:] - 1]
    if np.ptp(end) == 0:
        return embedding
    return np.column_stack([embedding, (end - end.mean()) / end.std()])


def settings(size: Size) -> list[Setting]:
    return [
        Setting(dataset, rate, protocol)
        for protocol in PROTOCOLS
        for dataset, rates in RATES.items()
        for rate in rates[: size.n_rates]
    ]


def cells(size: Size, chosen: Sequence[Setting], rows: Sequence[str]) -> Iterator[Cell]:
    """Seed after seed, so that an interrupted run has all tables, from fewer seeds."""
    siblings = {name for name, row in all_rows().items() if row.is_sibling}
    for seed in range(size.n_seeds):
        for setting in chosen:
            for row in rows:
                if row not in siblings or seed < size.n_sibling_seeds:
                    yield Cell(setting, row, seed, size)


# The cells of a data set follow each other.
@lru_cache(maxsize=1)
def _make(dataset: str, rate: float, protocol: str, n_series: int, seed: int) -> Bunch:
    data = MAKERS[dataset](n_series, rate=rate, protocol=protocol, random_state=seed)
    data.split = np.asarray(data.split)
    return data
