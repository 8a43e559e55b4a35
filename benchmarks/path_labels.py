"""What the learned path is worth to a method for regular series: labels of simulated dynamics.

    python -m benchmarks.path_labels [--series 500] [--seed 0]

Independent series at rate 0.3 (`protocol="independent"`) are put on a common grid of 100 times, by
the learned path of a default `PolyODETransformer` and by lines between the observations; MiniRocket
and a ridge classifier tell the label. Area under the ROC curve on the test series.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from sklearn.linear_model import RidgeClassifierCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from skpolyode import InterpolationTransformer, PolyODETransformer, Resampler
from skpolyode.datasets import make_lorenz63, make_lorenz96
from skpolyode.heads import MiniRocket

SETS = {"Lorenz63": make_lorenz63, "Lorenz96": make_lorenz96}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=500, help="training series")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name, make in SETS.items():
        data = make(2 * arguments.series, rate=0.3, random_state=arguments.seed)
        train, test = (np.asarray(data.split) == part for part in ("train", "test"))
        for path in (
            InterpolationTransformer(kind="linear"),
            PolyODETransformer(random_state=arguments.seed),
        ):
            chain = make_pipeline(
                Resampler(path, grid=np.linspace(0, 10, 100), relative_to=None),
                MiniRocket(random_state=arguments.seed),
                RidgeClassifierCV(np.logspace(-3, 3, 10)),
            )
            start = time.perf_counter()
            chain.fit(data.panel[train], data.y[train])
            auc = roc_auc_score(data.y[test], chain.decision_function(data.panel[test]))
            seconds = time.perf_counter() - start
            print(f"{name}, {type(path).__name__}: AUC {auc:.3f}, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
