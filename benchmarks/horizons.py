"""How far ahead training looks: errors one observation ahead and of free runs, and what it costs.

    python -m benchmarks.horizons [--sets lorenz63 ...] [--horizons 1 4 auto] [--seeds 0 1 2]
                                    [--n-series 600]

450 simulated series train, 150 others are cut at 60 % of their rows and continued by the free run
(without stacking). Errors are squared, in variances of the training part, of
the next observation (all of the series) and of the first, third and tenth row behind the cut;
seconds are processor time of `fit`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.utils import Bunch

from benchmarks.lines import heading, line
from skpolyode import Panel, PolyODETransformer
from skpolyode.datasets import make_lorenz63, make_lorenz96, make_ode_system
from skpolyode.panel.select import take

SETS: dict[str, Callable[..., Bunch]] = {
    "lorenz63": make_lorenz63,
    "lorenz96": make_lorenz96,
    "damped_pendulum": partial(make_ode_system, "damped_pendulum"),
    "lotka_volterra": partial(make_ode_system, "lotka_volterra"),
}
TRAINED, KNOWN, ROWS = 0.75, 0.6, (1, 3, 10)


def measure(panel: Panel, horizon: int | str, seed: int) -> list[float]:
    n_train = round(TRAINED * panel.n_series)
    train, test = panel[:n_train], panel[n_train:]
    model, start = PolyODETransformer(horizon=horizon, random_state=seed), time.process_time()
    model.fit(train)
    seconds = time.process_time() - start
    test = test[test.lengths > 2]
    first, end = test.offsets[:-1], test.offsets[1:]
    cut = first + np.round(KNOWN * test.lengths).astype(int)
    known = take(test, np.arange(test.n_series), first, cut)
    found = model.forecast(
        known, [test.times[a:b] for a, b in zip(cut, end, strict=True)], combine=False
    )
    truth = np.concatenate([test.values[a:b] for a, b in zip(cut, end, strict=True)])
    errors = ((found.values - truth) / model.scaler_.scale) ** 2
    row = np.concatenate([np.arange(1, 1 + b - a) for a, b in zip(cut, end, strict=True)])
    return [-model.score(test), *(float(np.nanmean(errors[row == k])) for k in ROWS), seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--horizons", nargs="+", default=["1", "4", "auto"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--n-series", type=int, default=600)
    options = parser.parse_args()
    titles = ["set, `horizon`", "next", *(f"row {k}" for k in ROWS), "seconds"]
    print(*heading(titles), sep="\n")
    for name in options.sets:
        found: dict[str, list[list[float]]] = {horizon: [] for horizon in options.horizons}
        for seed in options.seeds:
            panel = SETS[name](n_series=options.n_series, random_state=seed).panel
            for horizon, rows in found.items():
                number = horizon if horizon == "auto" else int(horizon)
                rows.append(measure(panel, number, seed))
        for horizon, rows in found.items():
            *errors, seconds = np.mean(rows, axis=0)
            cells = [*(f"{error:.2g}" for error in errors), f"{seconds:.0f}"]
            print(line([f"{name}, {horizon}", *cells]), flush=True)


if __name__ == "__main__":
    main()
