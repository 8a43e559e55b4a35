"""What a second process brings: a grid search of 8 fits, with one worker and with two.

    python -m benchmarks.parallel [--jobs 2] [--epochs 30] [--series 200]
    python -m benchmarks.parallel --small    # 36 fits of 40 series, by two workers

Each search is a process of its own, since limits on threads are set when one starts. Printed are
wall times, their ratio, and whether the results are the same bit for bit. On an idle machine with
two cores the ratio should be at least 1.7; on a busy one it says nothing. The seconds of the
processor are those of this process and its workers together, after these have started.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from benchmarks.processes import in_a_process
from skpolyode import PolyODETransformer
from skpolyode.datasets import make_lorenz63


def measure(n_jobs: int, epochs: int, n_series: int) -> dict:
    """Seconds and scores of a search of 8 fits, in this process."""
    grid = {"polyodetransformer__learning_rate_init": [0.005, 0.01, 0.015, 0.02]}
    return searched(grid, 2, n_jobs, n_series, max_epochs=epochs)


def measure_small(n_jobs: int) -> dict:
    """The same of 36 fits of 40 short series, by default settings but for those searched."""
    grid = {
        "polyodetransformer__learning_rate_init": [0.02, 0.03, 0.05, 0.08],
        "polyodetransformer__n_coefficients": [8, 16, 32],
    }
    return searched(grid, 3, n_jobs, 40)


def searched(grid: dict, cv: int, n_jobs: int, n_series: int, **settings) -> dict:
    data = make_lorenz63(n_series, rate=0.3, random_state=0)
    model = make_pipeline(PolyODETransformer(random_state=0, **settings), Ridge())
    search = GridSearchCV(model, grid, cv=cv, n_jobs=n_jobs, refit=False)
    if n_jobs > 1:  # the start of the workers, with their imports, is paid once a session
        GridSearchCV(model, {"ridge__alpha": [1.0]}, cv=n_jobs, n_jobs=n_jobs, refit=False).fit(
            data.panel[: 4 * n_jobs], data.y[: 4 * n_jobs]
        )
    start, used = time.perf_counter(), processor_seconds()
    search.fit(data.panel, data.y)
    seconds, used = time.perf_counter() - start, processor_seconds() - used
    scores = [search.cv_results_[f"split{k}_test_score"].tolist() for k in range(cv)]
    return {"seconds": seconds, "processor": used, "scores": np.array(scores).T.tolist()}


def processor_seconds() -> float:
    """Of this process and of those that it has started, on Linux."""
    ticks, own = 0, os.getpid()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if own in (int(path.parent.name), int(fields[1])):
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--measure", nargs="+", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps((measure_small, measure)[len(arguments.measure) > 1](*arguments.measure)))
        return
    if arguments.small:
        found = in_a_process("benchmarks.parallel", arguments.jobs)
        seconds = f"{found['seconds']:.1f} s, {found['processor']:.1f} s of the processor"
        print(f"36 fits of 40 short series, {arguments.jobs} workers: {seconds}")
        return
    one, more = (
        in_a_process("benchmarks.parallel", jobs, arguments.epochs, arguments.series)
        for jobs in (1, arguments.jobs)
    )
    print(f"one worker: {one['seconds']:.1f} s; {arguments.jobs} workers: {more['seconds']:.1f} s")
    print(f"ratio: {one['seconds'] / more['seconds']:.2f}")
    print(f"same scores bit for bit: {one['scores'] == more['scores']}")


if __name__ == "__main__":
    main()
