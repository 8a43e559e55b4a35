"""What a second process brings: a grid search of 8 fits, with one worker and with two.

    python benchmarks/parallel.py [--jobs 2] [--epochs 30] [--series 200]

Each search is a process of its own, since limits on threads are set when one starts. Printed are
wall times, their ratio, and whether the results are the same bit for bit. On an idle machine with
two cores the ratio should be at least 1.7; on a busy one it says nothing.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from processes import in_a_process
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skpolyode import PolyODETransformer
from skpolyode.datasets import make_lorenz63


def measure(n_jobs: int, epochs: int, n_series: int) -> dict:
    """Seconds and scores of a search of 8 fits, in this process."""
    data = make_lorenz63(n_series, rate=0.3, random_state=0)
    model = make_pipeline(PolyODETransformer(max_epochs=epochs, random_state=0), Ridge())
    grid = {"polyodetransformer__learning_rate_init": [0.005, 0.01, 0.015, 0.02]}
    search = GridSearchCV(model, grid, cv=2, n_jobs=n_jobs, refit=False)
    if n_jobs > 1:  # the start of the workers, with their imports, is paid once a session
        GridSearchCV(model, {"ridge__alpha": [1.0]}, cv=n_jobs, n_jobs=n_jobs, refit=False).fit(
            data.panel[: 4 * n_jobs], data.y[: 4 * n_jobs]
        )
    start = time.perf_counter()
    search.fit(data.panel, data.y)
    seconds = time.perf_counter() - start
    scores = [search.cv_results_[f"split{k}_test_score"].tolist() for k in range(2)]
    return {"seconds": seconds, "scores": np.array(scores).T.tolist()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--measure", nargs=3, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(*arguments.measure)))
        return
    one, more = (
        in_a_process([__file__], jobs, arguments.epochs, arguments.series)
        for jobs in (1, arguments.jobs)
    )
    print(f"one worker: {one['seconds']:.1f} s; {arguments.jobs} workers: {more['seconds']:.1f} s")
    print(f"ratio: {one['seconds'] / more['seconds']:.2f}")
    print(f"same scores bit for bit: {one['scores'] == more['scores']}")


if __name__ == "__main__":
    main()
